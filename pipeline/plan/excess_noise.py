"""Whether the noise of a plan exceeds anything that records in the declared bounds can give, and what would change it.

The largest value follows from the bounds and ``rows_at_most`` alone, so this reads no data. Advice is for whoever
plans, not for a run: it is found by inverting how the noise grows, and is planned before it is given, so the plan that
it leads to has no such warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from blockveil.engine.guarantees.calibration import gaussian_epsilon
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.plan.planning import Plan, make_plan

_TRIES = 5
_DIGITS = 3


@dataclass(frozen=True)
class Advice:
    """One change that would be enough on its own.

    Attributes
    ----------
    key
        Key of the config.
    value
        What it would have to be at least, or of a norm at most.
    """

    key: str
    value: float

    @property
    def words(self) -> str:
        """The change in words."""
        if self.key.endswith("rows_at_most"):
            return f"{self.key} = {self.value:.0f} (with as many records)"
        return f"{self.key} = {self.value:.{_DIGITS}g}"


@dataclass(frozen=True)
class ExcessNoise:
    """Noise that exceeds anything that records can give.

    Attributes
    ----------
    least, largest
        Standard deviation of the noise over the largest value that records can give an entry, least and largest over
        the entries; the largest exceeds 1.
    rows
        The number of records that this is for.
    advice
        What would change it; None where nobody has looked for it.
    """

    least: float
    largest: float
    rows: int
    advice: tuple[Advice, ...] | None = None

    @property
    def sentence(self) -> str:
        """The warning in words."""
        which = "every entry" if self.least > 1.0 else "some entries"
        times = (
            f"{self.least:.3g} to {self.largest:.3g}" if self.least < 0.999 * self.largest else f"{self.largest:.3g}"
        )
        return (
            f"The noise of {which} exceeds anything that {self.rows:,} records in these bounds can give: its standard "
            f"deviation is {times} times the largest possible value. {self._remedy}."
        )

    @property
    def _remedy(self) -> str:
        if self.advice is None:
            return "What would be enough to end this is found by `blockveil plan`"
        if not self.advice:
            return 'No change of rows, epsilon or norm alone ends this; mechanism "auto" may know a better one'
        return f"Enough to end this: {' or '.join(one.words for one in self.advice)}"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "sentence": self.sentence,
            "noise_over_largest_value": [self.least, self.largest],
            "options": {one.key: one.value for one in self.advice or ()},
        }


def excess_noise(plan: Plan) -> ExcessNoise | None:
    """Whether noise exceeds anything that records can give; None where it does not, or where that is not known."""
    least, largest = _ratio(plan)
    if not largest > 1.0:
        return None
    return ExcessNoise(least, largest, plan.config.query.rows_at_most)


def advised(plan: Plan) -> ExcessNoise | None:
    """The same with what would change it, for which other plans are made."""
    excess = excess_noise(plan)
    return None if excess is None else replace(excess, advice=tuple(_advice(plan, excess.largest)))


def _ratio(plan: Plan) -> tuple[float, float]:
    return plan.answer.noise_over_largest() or (0.0, 0.0)


def _advice(plan: Plan, largest: float) -> Iterator[Advice]:
    rows = plan.config.query.rows_at_most
    setting = _enough(plan, with_rows, rows * largest, upwards=True, step=1.0)
    if setting is not None:
        yield Advice("query.rows_at_most", int(setting))
    if plan.config.privacy.share is None:
        setting = _enough(plan, with_epsilon, _epsilon(plan, largest), upwards=True)
        if setting is not None:
            yield Advice("privacy.epsilon", setting)
    norm = _first_norm(plan, largest)
    setting = None if norm is None else _enough(plan, with_norm, norm, upwards=False)
    if setting is not None:
        yield Advice("query.geometry.norm_at_most", setting)


def _enough(
    plan: Plan,
    change: Callable[[LoadedConfig, float], LoadedConfig],
    guess: float,
    *,
    upwards: bool,
    step: float = 0.0,
) -> float | None:
    """Value near a guess whose plan has no excess noise, as near as three digits tell; None where none is found.

    Parameters
    ----------
    plan
        Plan of too much noise.
    change
        Gives a config another value.
    guess
        Where to begin.
    upwards
        Whether a larger value means less noise over the largest value; else a smaller one does.
    step
        The least by which values differ.
    """
    best = None
    for _ in range(_TRIES):
        value = _rounded(guess, upwards, step)
        if value == best:
            break
        ratio = _planned(plan, change, value)
        if ratio is None or ratio <= 0.0 or (ratio > 1.0 and best is not None):
            break
        best = value if ratio <= 1.0 else None
        # Noise is in proportion to 1 / rows, about to 1 / epsilon, and to a power of a norm.
        more = 1.001 if ratio > 1.0 else 1.0
        guess = value * ratio * more if upwards else value / _by_norm(plan, ratio) / more
    return best


def _planned(plan: Plan, change: Callable[[LoadedConfig, float], LoadedConfig], value: float) -> float | None:
    """Largest ratio with a changed config; None where it cannot be planned."""
    try:
        variant = change(plan.loaded, value)
        if variant.config.privacy.delta >= 1.0 / variant.config.query.rows_at_most:
            return None
        return _ratio(make_plan(variant, plan.logical_date))[1]
    except ConfigError:
        return None


def with_rows(loaded: LoadedConfig, rows: float) -> LoadedConfig:
    """The config with another largest number of records."""
    return with_section(loaded, "query", {"rows_at_most": int(rows)})


def with_epsilon(loaded: LoadedConfig, epsilon: float) -> LoadedConfig:
    """The config with another epsilon."""
    return with_section(loaded, "privacy", {"epsilon": epsilon})


def with_norm(loaded: LoadedConfig, norm: float) -> LoadedConfig:
    """The config of a box with another bound of a record's norm."""
    geometry = loaded.config.query.geometries["geometry"].model_copy(update={"norm_at_most": norm})
    return with_section(loaded, "query", {"geometry": geometry})


def with_section(loaded: LoadedConfig, section: str, update: dict[str, Any]) -> LoadedConfig:
    """The config with other values of one table.

    Parameters
    ----------
    loaded
        The config.
    section
        Name of the table.
    update
        New values by key; they are not validated again.
    """
    replacement = getattr(loaded.config, section).model_copy(update=update)
    return replace(loaded, config=loaded.config.model_copy(update={section: replacement}))


def _epsilon(plan: Plan, largest: float) -> float:
    """Epsilon of a loss that is larger by a factor."""
    epsilon = gaussian_epsilon(plan.charge.mu * largest, plan.guarantee.delta) if plan.charge.mu else math.inf
    return epsilon if math.isfinite(epsilon) else plan.guarantee.epsilon * largest


def _first_norm(plan: Plan, largest: float) -> float | None:
    """Norm to begin with: noise is about in proportion to a power of it; None where a norm is no key of the shape."""
    norm = longest_norm(plan)
    return None if norm is None else norm / _by_norm(plan, largest)


def _by_norm(plan: Plan, ratio: float) -> float:
    """Factor of a norm that changes noise by a ratio: of products by its square, of sums in proportion."""
    return ratio if plan.config.query.adds_values else math.sqrt(ratio)


def longest_norm(plan: Plan) -> float | None:
    """Largest distance from the origin that a record may have in a box; None where a norm is no key of the shape."""
    shape = plan.config.query.geometries.get("geometry")
    if not isinstance(shape, BoxGeometry) or getattr(plan.config.mechanism, "directions", None) is not None:
        return None
    halves = (
        (f.upper - f.lower) / 2.0 if shape.origin == "midpoint" else max(f.upper, -f.lower) for f in shape.features
    )
    return min(shape.norm_at_most or math.inf, math.hypot(*halves))


def _rounded(value: float, upwards: bool, step: float) -> float:
    """Three significant digits, but no more than a step tells, in the safe direction."""
    unit = max(10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1), step)
    whole = math.ceil(value / unit * (1.0 - 1e-12)) if upwards else math.floor(value / unit * (1.0 + 1e-12))
    return float(f"{whole * unit:.{_DIGITS}g}")
