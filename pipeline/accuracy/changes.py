"""Changes of a config that give less noise, each with its price. They are planned, never estimated.

A change makes a config that lies in no file. What becomes of the noise is seen by planning it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.config.mechanism_sections import AutoSection, Mechanism
from blockveil.pipeline.config.model import ContinualSection, ReleaseConfig, can_be_shared
from blockveil.pipeline.config.queries import GROWING
from blockveil.pipeline.ledger.guessing import percent, with_loss, with_promise
from blockveil.pipeline.plan.excess_noise import longest_norm, with_epsilon, with_norm, with_rows, with_section
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.sections.query_sections import OneShapeSection

SHARED = 28
"""Nights that share a charge, where none do, or more than these."""

_FEW = 0.1
"""Share of values that are not zero in records of many zeros, where none is declared."""

MOST_NIGHTS = 3660
"""Nights that can share a charge."""


@dataclass(frozen=True, eq=False)
class PricedChange:
    """One change of a config.

    Attributes
    ----------
    what
        The change, for a person.
    price
        What it costs besides, for a person; ``{guess}`` stands for the bound of a guess with the changed plan.
    loaded
        The changed config.
    setting
        The change as ``--set`` takes it; empty where it is more than one value.
    times_rows
        How many times as many records are supposed with it.
    """

    what: str
    price: str
    loaded: LoadedConfig
    setting: str = ""
    times_rows: int = 1

    def price_of(self, plan: Plan, changed: Plan) -> str:
        """The price, with what the plans say."""
        before, after = (percent(min(with_promise(each.guarantee), with_loss(each.charge))) for each in (plan, changed))
        return self.price.format(guess=f"a guess is right at most {after} of the time in place of {before}")


def changes(plan: Plan, rows: int, rhythm: Rhythm) -> Iterator[PricedChange]:
    """Changes that may give less noise; whether they do, their plans tell.

    Parameters
    ----------
    plan
        What is to be changed.
    rows
        Supposed number of records.
    rhythm
        How often it is released.
    """
    learns = plan.designed.learning is not None
    yield from _rows_per_unit(plan)
    if not learns:  # the noise follows where records lie, and not the bounds
        yield from _bounds(plan)
    if rhythm.repeats:
        yield from _nights(plan, rhythm)
    if rhythm.nightly and not learns:  # nights that share a charge have one shape
        yield from _shared_nights(plan)
    yield from _epsilon(plan)
    yield from _features(plan)
    yield from _mechanism(plan)
    yield from _records(plan, rows)


def _rows_per_unit(plan: Plan) -> Iterator[PricedChange]:
    most = plan.config.privacy.rows_per_unit or 1
    for fewer in sorted({1, max(1, most // 5)} - {most}, reverse=True):
        share = 100.0 * (1.0 - fewer / most)
        yield PricedChange(
            f"rows per unit {fewer} in place of {most}",
            f"a new ingest keeps at most {fewer} row{'s' * (fewer > 1)} of each unit and drops at most {share:.0f} % "
            "of all rows; what it drops takes back as much of the gain",
            with_rows_per_unit(plan.loaded, fewer),
            f"privacy.rows_per_unit={fewer}",
        )


def with_rows_per_unit(loaded: LoadedConfig, rows: int) -> LoadedConfig:
    """The config with another largest number of rows of one unit."""
    return with_section(loaded, "privacy", {"rows_per_unit": rows})


def _bounds(plan: Plan) -> Iterator[PricedChange]:
    query = plan.config.query
    shape = query.geometries.get("geometry")
    if isinstance(shape, BoxGeometry) and not (shape.origin == "zero" and _off_zero(shape)):
        yield PricedChange(
            "all bounds half as wide, about their middle",
            "values outside the new bounds are clipped to them",
            _with_shape(plan.loaded, {"features": tuple(_halved(feature) for feature in shape.features)}),
        )
    norm = longest_norm(plan) if isinstance(query, OneShapeSection) and len(query.columns) > 1 else None
    if norm is not None and isinstance(shape, BoxGeometry):
        half = float(f"{norm / 2.0:.3g}")
        yield PricedChange(
            f"a norm bound of {half:g} beside the box, half of the distance of its furthest corner",
            _of_a_norm(shape),
            with_norm(plan.loaded, half),
            f"query.geometry.norm_at_most={half:g}",
        )
        yield from _mostly_zeros(plan, shape)


def _of_a_norm(shape: BoxGeometry) -> str:
    """What a bound of the norm costs; where zero is a bound it counts as far from the middle."""
    if shape.origin == "zero":
        return "records further than that from zero are pulled nearer; those of few or small values lose nothing"
    far = any(0.0 in (feature.lower, feature.upper) for feature in shape.features)
    zeros = "; zero is a bound here, and extreme too" if far else ""
    return (
        "records further than that from the middle of the box are pulled nearer; those with few extreme values lose "
        f"nothing{zeros}"
    )


def _mostly_zeros(plan: Plan, shape: BoxGeometry) -> Iterator[PricedChange]:
    """Distances from zero in place of the middle, where records of many zeros are short."""
    holds_zero = all(feature.lower <= 0.0 <= feature.upper for feature in shape.features)
    off_middle = any(feature.lower + feature.upper != 0.0 for feature in shape.features)
    if shape.origin == "zero" or not holds_zero or not off_middle:
        return
    declared = plan.config.compute.density_at_most
    share = _FEW if declared is None else declared
    ends = math.hypot(*(max(-feature.lower, feature.upper) for feature in shape.features))
    norm = float(f"{math.sqrt(share) * ends:.3g}")
    yield PricedChange(
        f'origin = "zero" with a norm bound of {norm:g}, the norm of records with {100.0 * share:g} % of their values '
        "at a bound and zeros elsewhere",
        "records further than that from zero are pulled nearer to it, so that it is for records of many zeros",
        _with_shape(plan.loaded, {"origin": "zero", "norm_at_most": norm}),
    )


def _off_zero(shape: BoxGeometry) -> bool:
    """Whether narrower bounds about the middle would no longer hold the origin."""
    return any(not feature.lower <= 0.0 <= feature.upper for feature in map(_halved, shape.features))


def _halved(feature: Any) -> Any:
    middle, quarter = (feature.lower + feature.upper) / 2.0, (feature.upper - feature.lower) / 4.0
    narrower = {"lower": middle - quarter, "upper": middle + quarter}
    if feature.impute is not None:
        narrower["impute"] = min(max(feature.impute, narrower["lower"]), narrower["upper"])
    return feature.model_copy(update=narrower)


def _with_shape(loaded: LoadedConfig, update: dict[str, Any]) -> LoadedConfig:
    shape = loaded.config.query.geometries["geometry"].model_copy(update=update)
    return with_section(loaded, "query", {"geometry": shape})


def _nights(plan: Plan, rhythm: Rhythm) -> Iterator[PricedChange]:
    releases = min(rhythm.rarer, paid_by_promise(plan) or rhythm.rarer)
    rarer = one_of(plan, releases) if releases > 1 else None
    if rarer is not None:
        yield PricedChange(
            rhythm.one_of(releases),
            f"{releases - 1} of {releases} releases are left out; one {rarer.words} costs what {releases} do now, so "
            "the budget lasts as long, and with one of them {guess}",
            rarer.loaded,
            rarer.setting,
        )


def _shared_nights(plan: Plan) -> Iterator[PricedChange]:
    if plan.series is not None:
        yield from _fewer_shared_nights(plan, SHARED if plan.series.nights > SHARED else plan.series.nights // 2)
        return
    nights = paid_by_promise(plan) or SHARED
    together, mechanism, kind = one_of(plan, nights), _shareable(plan.config), plan.config.query.kind
    # Gradients are a sum at one file of weights, and whoever trains moves the weights every night.
    grows = kind in GROWING and kind != "gradients" and not plan.config.data.partition_by
    if together is None or mechanism is None or not grows or not 2 <= nights <= MOST_NIGHTS:
        return
    whole = with_section(together.loaded, "privacy", {"share": None})
    changed = with_table(whole, mechanism=mechanism, continual=_ending(plan, nights))
    epsilon = changed.config.privacy.epsilon
    by = "" if mechanism == plan.config.mechanism else f', with mechanism "{mechanism.kind}"'
    yield PricedChange(
        f"{nights} nights in one shared charge ([continual]) in place of one charge each{by}",
        f"records are only ever appended, and each night is of all so far; epsilon {epsilon:.4g} of all nights "
        f"together costs what {nights} releases do now, which the first night spends, and with them {{guess}}",
        changed,
    )


def _fewer_shared_nights(plan: Plan, nights: int) -> Iterator[PricedChange]:
    section = plan.config.continual
    if section is None or nights < 2:
        return
    fewer = _ending(plan, nights)
    if (plan.logical_date - section.first).days < nights:
        fewer = fewer.model_copy(update={"first": section.first})
    windows = [each for each in section.windows or () if each < nights]
    yield PricedChange(
        f"{nights} nights in one shared charge in place of {section.nights}",
        f"the nights after them need another charge as large, so that the budget lasts {nights} nights where it lasted "
        f"{section.nights}",
        with_table(plan.loaded, continual=fewer.model_copy(update={"windows": tuple(windows) or None})),
    )


def _ending(plan: Plan, nights: int) -> ContinualSection:
    """So many nights of which the planned one is the last, whose noise is the largest."""
    return ContinualSection(nights=nights, first=plan.logical_date - timedelta(days=nights - 1))


def _shareable(config: ReleaseConfig) -> Mechanism | None:
    """The mechanism, or the one that nights share noise of where the best is chosen; None where they share none."""
    mechanism = config.mechanism
    if can_be_shared(mechanism):
        return mechanism
    if not isinstance(mechanism, AutoSection):
        return None
    if config.query.kind == "marginals":
        return TypeAdapter(Mechanism).validate_python({"kind": "residuals"})
    aim = "relative-error" if mechanism.minimise == "relative" else "absolute-error"
    return TypeAdapter(Mechanism).validate_python({"kind": "shaped-gaussian", "optimise_for": aim})


@dataclass(frozen=True, eq=False)
class RarerRelease:
    """One release that costs as much as several releases of a plan.

    Attributes
    ----------
    loaded
        Its config.
    words
        What it takes of the promise, for a person.
    setting
        The same as ``--set`` takes it.
    """

    loaded: LoadedConfig
    words: str
    setting: str


def one_of(plan: Plan, releases: int) -> RarerRelease | None:
    """One release that costs as much as several of a plan; None where that is not defined.

    Where releases share a promise, it takes their shares together. Else its epsilon is rounded down to six digits, so
    that it never costs more. Nights that share a charge are not divided further.
    """
    share = plan.config.privacy.share
    if share is not None:
        most = paid_by_promise(plan) or 0
        together = min(1.0, float(f"{share * releases:.6g}"))
        changed = with_section(plan.loaded, "privacy", {"share": together})
        found = RarerRelease(changed, f"with a share of {together:.6g}", f"privacy.share={together:.6g}")
        return found if releases <= most else None
    epsilon = epsilon_of_nights(plan, releases)
    if epsilon is None:
        return None
    return RarerRelease(
        with_epsilon(plan.loaded, epsilon), f"of epsilon {epsilon:.4g}", f"privacy.epsilon={epsilon:.4g}"
    )


def paid_by_promise(plan: Plan) -> int | None:
    """How many releases as large as a plan share its promise; None where it is not shared."""
    share = plan.config.privacy.share
    return None if share is None else math.floor(1.0 / share * (1.0 + 1e-9))


def epsilon_of_nights(plan: Plan, nights: int) -> float | None:
    """Epsilon of one release that costs as much as several releases of a plan; None where that is not defined.

    It is rounded down to six digits, so that the one release never costs more. Nights that share a charge and releases
    that share a guarantee are not divided further.
    """
    if plan.series is not None or plan.config.privacy.share is not None:
        return None
    epsilon = Ticks.of(plan.charge).times(nights).epsilon(plan.guarantee.delta)
    rounded = float(f"{epsilon * (1.0 - 1e-6):.6g}")
    return rounded if rounded <= 1000.0 else None


def _epsilon(plan: Plan) -> Iterator[PricedChange]:
    epsilon = 2.0 * plan.config.privacy.epsilon
    if epsilon <= 1000.0:
        yield PricedChange(
            f"epsilon {epsilon:g} in place of {plan.config.privacy.epsilon:g}",
            "less protection, as {guess}",
            with_epsilon(plan.loaded, epsilon),
            f"privacy.epsilon={epsilon:g}",
        )


def _features(plan: Plan) -> Iterator[PricedChange]:
    query = plan.config.query
    if not isinstance(query, OneShapeSection) or len(query.columns) < 4:
        return
    kept = (len(query.columns) + 1) // 2
    yield PricedChange(
        f"the first {kept} of the {len(query.columns)} features",
        f"nothing is released of the other {len(query.columns) - kept}; any {kept} features do",
        with_features(plan.loaded, kept),
    )


def with_features(loaded: LoadedConfig, count: int) -> LoadedConfig:
    """The config with the first features alone."""
    shape = loaded.config.query.geometries["geometry"]
    return _with_shape(loaded, {"features": shape.features[:count]})


def _mechanism(plan: Plan) -> Iterator[PricedChange]:
    query = plan.config.query
    if isinstance(plan.config.mechanism, AutoSection) or plan.series is not None:
        return
    least = "workload" if getattr(query, "workload", None) is not None else query.least_error
    auto = AutoSection.model_validate({"kind": "auto", "minimise": least})
    yield PricedChange(
        f'mechanism "auto" with minimise = "{least}"',
        f"none, for the guarantee is the same; it takes the proven mechanism of the least {least} error",
        with_table(plan.loaded, mechanism=auto),
    )


def with_table(loaded: LoadedConfig, **tables: Any) -> LoadedConfig:
    """The config with whole tables replaced by others, which are not validated together again."""
    return replace(loaded, config=loaded.config.model_copy(update=tables))


def _records(plan: Plan, rows: int) -> Iterator[PricedChange]:
    at_most = plan.config.query.rows_at_most
    enough = max(at_most, 2 * rows)
    if plan.config.privacy.delta >= 1.0 / enough:
        return  # such a delta would allow to publish one record in clear
    yield PricedChange(
        f"twice as many records, {2 * rows:,}",
        "they have to be there, such as by other sites or a longer time, with each unit still counted once",
        with_rows(plan.loaded, enough),
        times_rows=2,
    )
