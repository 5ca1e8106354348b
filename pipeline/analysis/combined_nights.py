"""Covariances of several nights as one estimate of the last, more exact than each of them, at no charge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from blockveil.engine.estimates.combined_moments import CombinedMoments, NightMoments, UnlikeNights, combined
from blockveil.engine.estimates.noisy_moments import Array
from blockveil.engine.estimates.shortening import TakenByShortening
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.analysis.results import StatedGuarantee
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.report.learned_shape import asked
from blockveil.pipeline.report.released_moments import moments_of
from blockveil.pipeline.verification.released_arrays import way_back
from blockveil.pipeline.verification.stated_rounding import coordinate_units, stated_rounding

_ALIKE = ("dataset", "name", "part", "public_maps")
_WHAT = "A combination of nights"


class Nights(Release):
    """Several nights as one: results of the last night by all of them, with the errors of the combination."""

    @property
    def release_ids(self) -> tuple[str, ...]:
        """The nights, in their order."""
        return tuple(str(each) for each in self.opened.attributes["nights"])

    @property
    def guarantee(self) -> StatedGuarantee:
        """None: each night promises for itself.

        Raises
        ------
        ConfigError
            Always.
        """
        raise ConfigError(
            "Several nights have no promise of their own",
            "What they promise together is what the budget has spent on them",
            "See blockveil ledger budget or bv.budget(...).spent_epsilon; each release has its own guarantee",
        )

    def export(self, *_: Any, **__: Any) -> Any:
        """Refused: the promise that an export states is that of one release; raises ConfigError."""
        raise ConfigError(
            "Several nights are not exported as one release",
            "An export holds one release, bit for bit, and its promise",
            "Export each release, or take the arrays: nights.array(...)",
        )

    def _rows(self) -> list[tuple[str, str]]:
        drift, ids = self.opened.attributes["drift"], self.release_ids
        return [
            ("Nights", f"{len(ids)}, from {ids[0]} to {ids[-1]}, as one estimate of the last"),
            ("Drift", f"{drift:g} of the number and the size of records in a day, as was declared"),
            ("Results", "mean, covariance, correlation, regress, pca, partial_correlation, interval"),
        ]

    def __repr__(self) -> str:
        """Which nights."""
        return f"Nights({self.release_ids[0]!r} to {self.release_ids[-1]!r}, {len(self.release_ids)})"


def combine(releases: Sequence[Release], *, drift: float) -> Nights:
    """Combine covariances of several nights into one estimate of the last night's records.

    Parameters
    ----------
    releases
        At least two nights of one release, opened, in any order. They may learn their shapes from each other, and must
        not share a charge: nights that do have been combined before.
    drift
        Standard deviation by which the number of records, a sum or a sum of products moves in a day, as a share of the
        number and of the root mean squares of the features about the origin; 0 where records do not change.

    Raises
    ------
    ConfigError
        The nights are not of one release, or their noise is related, or the drift is no number of at least zero.
    """
    if isinstance(drift, bool) or not isinstance(drift, int | float) or not 0.0 <= drift < np.inf:
        raise ConfigError("drift is no number of at least zero", "It says how far records move in a day", "Give 0.01")
    nights = _nights(releases)
    try:
        together = combined([_moments(each) for each in nights], float(drift))
    except UnlikeNights:
        raise ConfigError(
            "These nights lie about origins that are far apart, or have no count",
            "Their noise is related once they are seen from one origin",
            "Combine nights of one declared shape",
        ) from None
    return Nights(_as_release(nights, together, float(drift)))


def _as_release(nights: Sequence[Release], together: CombinedMoments, drift: float) -> OpenRelease:
    """What follows from the nights, in the form of the last of them, with nothing that only one release can promise."""
    last = nights[-1].opened
    # Of a night in its box there is none, but others beside it may have been shortened.
    learned = next((each.attributes["learned"] for each in reversed(nights) if "learned" in each.attributes), None)
    ids = [each.release_id for each in nights]
    identity = " ".join([*(str(each.attributes["output_digest"]) for each in nights), repr(drift)])
    attributes = {name: last.attributes[name] for name in _STATED if name in last.attributes}
    attributes |= {} if learned is None else {"learned": learned}
    attributes |= {
        "title": f"{len(ids)} nights of {ids[-1].rpartition('/')[0]}",
        "nights": ids,
        "drift": drift,
        "output_digest": hashlib.sha256(identity.encode()).hexdigest(),
    }
    arrays = {"feature": last.arrays["feature"], **_arrays(together, learned or {})}
    dimensions = {name: axes for name, axes in last.dimensions.items() if name in arrays}
    return replace(last, arrays=arrays, dimensions=dimensions, attributes=attributes)


_STATED = ("release_id", *_ALIKE, "logical_date", "query", "matrix", "origin", "mechanism", "reliable")
"""What a combination states as the last night does: no promise, and no error but its own."""


def _nights(releases: Sequence[Release]) -> list[Release]:
    """The releases by their dates, each of them a night of the same release with noise of its own."""
    nights = list(releases)
    if len(nights) < 2 or not all(isinstance(each, Release) and not isinstance(each, Nights) for each in nights):
        raise ConfigError("These are no two nights", "Nights are opened releases", "Give bv.open(...) of each of them")
    if len({each.release_id for each in nights}) < len(nights):
        raise ConfigError("A night is given twice", "Its noise counts once", "Give each night once")
    first = nights[0]
    for each in nights:
        if _declared(each) != _declared(first):
            raise ConfigError(
                f"{each.release_id[:80]} and {first.release_id[:80]} are not nights of one release",
                "They have one data set, one name, and the same features in the same declared shape",
                "Combine nights of one release, from the last change of its shape on",
            )
        if "nights" in each.attributes["guarantee"]:
            raise ConfigError(
                f"{each.release_id[:80]} shares its charge with other nights",
                "Their noise is related, and each holds what those before it tell",
                "Open the last of them",
            )
    return sorted(nights, key=lambda each: str(each.attributes["logical_date"]))


def _declared(release: Release) -> list[Any]:
    """What nights that are combined have in common: they are cut to the same bounds."""
    query = asked(release.attributes)
    return [*map(release.attributes.get, _ALIKE), *map(query.get, ("kind", "missing", "geometry")), release.features]


def _moments(release: Release) -> NightMoments:
    moments = moments_of(release.opened, _WHAT)
    clipped_variance = np.zeros(moments.features)
    if "clipped_variance" in release.opened.arrays:
        clipped_variance = np.asarray(release.array("clipped_variance"), np.float64)
    day = date.fromisoformat(str(release.attributes["logical_date"])).toordinal()
    return NightMoments(day, moments, clipped_variance, _rounding(release, moments.features))


def _rounding(release: Release, features: int) -> Array:
    """Standard deviations by rounding that the release states beside its noise, shape (1 + features,) * 2.

    Raises
    ------
    ConfigError
        It does not say what they are of.
    """
    attributes, none = release.attributes, np.zeros((1 + features, 1 + features))
    try:
        shape = attributes["query"]["geometry"]
        rounding = stated_rounding(attributes, (shape, shape), (1, 1), products=True)
        if rounding is None:
            return none
        units = np.concatenate([[1.0], coordinate_units(attributes, way_back(shape)[1])])
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{release.release_id[:80]} does not say in which bounds its records were rounded",
            "Rounding is the same every night and is not averaged away",
            "Combine nights of a config that declares its bounds, or that learns them",
        ) from None
    every = slice(None)
    return np.asarray(rounding.deviations(every, every) * np.outer(units, units))


def _arrays(together: CombinedMoments, learned: Mapping[str, Any]) -> dict[str, Array]:
    """Count, mean, covariance and second moment as a release holds them, each with its standard deviation."""
    moments = together.moments
    count, variance = float(moments.matrix[0, 0]), moments.variance
    shift = moments.mean
    raw = moments.matrix[1:, 1:]
    of_sums = np.outer(shift**2, variance[0, 1:])
    noise = variance[1:, 1:] + of_sums + of_sums.T
    np.fill_diagonal(noise, np.diagonal(variance)[1:] + 4.0 * shift**2 * variance[0, 1:])
    noise = noise + (2.0 * np.outer(shift, shift) - raw / count) ** 2 * variance[0, 0]
    covariance = moments.products / count
    estimates = {
        "count": np.asarray(count),
        "mean": moments.origin + shift,
        "covariance": covariance,
        "second_moment": raw,
        "count_standard_deviation": np.sqrt(np.asarray(variance[0, 0])),
        "mean_standard_deviation": np.sqrt(variance[0, 1:] + shift**2 * variance[0, 0]) / count,
        "covariance_standard_deviation": np.sqrt(noise) / count,
        "second_moment_standard_deviation": np.sqrt(variance[1:, 1:]),
    }
    if not np.any(together.taken):
        return estimates
    share = float(learned["clipped_share"]) + float(learned["clipped_share_standard_deviation"])
    shortening = TakenByShortening.of(together.taken, share, covariance, shift)
    beside = {
        "mean": shortening.means,
        "covariance": shortening.covariances,
        "second_moment": shortening.second_moments * count,
    }
    for name, size in beside.items():
        estimates[f"{name}_standard_deviation"] = np.hypot(estimates[f"{name}_standard_deviation"], size)
    return {**estimates, "clipped_variance": together.taken}
