"""Events in a file: what another tool, or a plan, draws, as TOML.

::

    neighbours = "add-remove"
    unit = "one person"

    [[event]]
    kind = "poisson-gaussian"
    probability = 0.01
    noise_multiplier = 1.0
    count = 1000

The list is a series: kinds, numbers and parameters are fixed before its first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from blockveil.engine.guarantees import events as kinds
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.events import Event, Series, Step, check_relation
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Neighbours, PureDP
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.sections.fields import Label, Number, Section, Whole


class _Counted(Section):
    count: Annotated[Whole, Field(ge=1, le=10**7)] = 1
    """how often"""


class GaussianEvent(_Counted):
    """Gaussian noise."""

    kind: Literal["gaussian"]
    """the kind of event"""
    mu: Annotated[Number, Field(gt=0, le=100)]
    """the sensitivity over the standard deviation"""


class PureEvent(_Counted):
    """A pure loss, such as Laplace noise or randomised response."""

    kind: Literal["pure"]
    """the kind of event"""
    epsilon: Annotated[Number, Field(gt=0, le=100)]
    """the loss"""


class ApproximateEvent(_Counted):
    """A loss of which only epsilon and delta are known."""

    kind: Literal["approximate"]
    """the kind of event"""
    epsilon: Annotated[Number, Field(gt=0, le=100)]
    """the loss"""
    delta: Annotated[Number, Field(gt=0, lt=1)]
    """the probability of failure"""


class ConcentratedEvent(_Counted):
    """Zero-concentrated differential privacy."""

    kind: Literal["zcdp"]
    """the kind of event"""
    rho: Annotated[Number, Field(gt=0, le=1000)]
    """the loss"""


class PoissonGaussianEvent(_Counted):
    """Gaussian noise on a sample that each record joins on its own; add-remove."""

    kind: Literal["poisson-gaussian"]
    """the kind of event"""
    probability: Number
    """the probability of joining"""
    noise_multiplier: Number
    """the standard deviation over the sensitivity to one record added or removed"""


class FixedSizeGaussianEvent(_Counted):
    """Gaussian noise on a batch of fixed size drawn without replacement; replace-one."""

    kind: Literal["fixed-size-gaussian"]
    """the kind of event"""
    fraction: Number
    """the size of the batch over the number of records"""
    noise_multiplier: Number
    """the standard deviation over the sensitivity to one record replaced"""


class GaussianMixtureEvent(_Counted):
    """Gaussian noise on a sum to which one record contributes a random amount; add-remove."""

    kind: Literal["gaussian-mixture"]
    """the kind of event"""
    standard_deviation: Number
    """the noise"""
    sensitivities: tuple[Number, ...]
    """by how much a record may move the sum"""
    probabilities: tuple[Number, ...]
    """how probable each is"""


AnyEvent = Annotated[
    GaussianEvent
    | PureEvent
    | ApproximateEvent
    | ConcentratedEvent
    | PoissonGaussianEvent
    | FixedSizeGaussianEvent
    | GaussianMixtureEvent,
    Field(discriminator="kind"),
]


class _File(Section):
    neighbours: Neighbours
    """how two neighbouring data sets differ"""
    unit: Label
    """what one record stands for"""
    event: Annotated[tuple[AnyEvent, ...], Field(min_length=1)]
    """what is drawn"""


@dataclass(frozen=True)
class EventFile:
    """A series and what it protects.

    Attributes
    ----------
    neighbours, unit
        Relation and privacy unit for which the losses hold.
    series
        The events.
    """

    neighbours: Neighbours
    unit: str
    series: Series


def read_events(path: Path) -> EventFile:
    """Read and check a file of events.

    Raises
    ------
    ConfigError
        It cannot be read, a value is out of range, or an event has no known loss for its relation.
    """
    tree = read_toml(path, "Events are listed in a TOML file")
    try:
        file = _File.model_validate(tree)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        failure = ConfigError(
            f"{path.name}: {where}: {problem['msg']}", "Every event states its kind and its numbers", "Correct it"
        )
    else:
        return EventFile(file.neighbours, file.unit, _series(file))
    raise failure


def _series(found: _File) -> Series:
    try:
        series = tuple(Step(_event(event), event.count) for event in found.event)
        check_relation(series, found.neighbours)
    except CalibrationError as error:
        raise ConfigError("These events have no known loss", str(error), "Correct the file") from None
    return series


def _event(event: AnyEvent) -> Event:
    match event:
        case GaussianEvent():
            return GaussianDP(event.mu)
        case PureEvent():
            return PureDP(event.epsilon)
        case ApproximateEvent():
            return ApproxDP(event.epsilon, event.delta)
        case ConcentratedEvent():
            return ZCDP(event.rho)
        case PoissonGaussianEvent():
            return kinds.PoissonGaussian(event.probability, event.noise_multiplier)
        case FixedSizeGaussianEvent():
            return kinds.FixedSizeGaussian(event.fraction, event.noise_multiplier)
        case GaussianMixtureEvent():
            return kinds.GaussianMixture(event.standard_deviation, event.sensitivities, event.probabilities)


_NAMES: Mapping[type[Event], str] = {
    GaussianDP: "gaussian",
    PureDP: "pure",
    ApproxDP: "approximate",
    ZCDP: "zcdp",
    kinds.PoissonGaussian: "poisson-gaussian",
    kinds.FixedSizeGaussian: "fixed-size-gaussian",
    kinds.GaussianMixture: "gaussian-mixture",
}


def plain(series: Series) -> Sequence[dict[str, Any]]:
    """Events as plain JSON values, as a ledger stores them."""
    return [{"kind": _NAMES[type(step.event)], **asdict(step.event), "count": step.count} for step in series]
