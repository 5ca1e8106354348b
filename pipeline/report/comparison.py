"""Two releases of the same question: what differs by more than their noise, and what differs between their configs.

The noises of two releases are independent, so an entry of the difference has the sum of both variances. All differences
are held at once (:mod:`.bands`): every entry, the cells of the heat map, and all other numbers, so that
in 95 of 100 pairs of nights on which nothing has changed none is called a change. Of means and covariances, which are
ratios, nothing is neglected (:mod:`.ratios`): what holds for the linear part of a difference is
the root of the sum of both variances, and what remains of both ratios is added.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import GaussianNoise, LaplaceSums
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.ledger.difference import differences
from blockveil.pipeline.report import learned_shape
from blockveil.pipeline.report.alone import NoiseAlone, laplace_rate
from blockveil.pipeline.report.cells import CellNoise, Cells, CellSums, cells_of
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.matrix import Array, EntriesTile
from blockveil.pipeline.report.subspace_turn import Turn, joint_units, turn

Mask = NDArray[np.bool_]

LISTED = 20
"""How many of the entries beyond the band are listed."""

_COMPARED = ("dataset", "name", "query", "guarantee", "mechanism", "origin", "software")


class CannotCompare(ConfigError):
    """Two releases answer different questions."""


@dataclass(frozen=True)
class Change:
    """One number of two releases.

    Attributes
    ----------
    what
        Name of the number.
    value, earlier
        In the release, and in the one it is compared with.
    error
        Standard deviation of the noise of their difference.
    beyond
        Whether they differ by more than noise alone makes any of the numbers differ.
    """

    what: str
    value: float
    earlier: float
    error: float
    beyond: bool

    @property
    def score(self) -> float:
        """Difference in standard deviations; infinite where it differs without noise."""
        return float(_scores(np.array([self.value - self.earlier]), np.array([self.error]))[0])


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between two releases.

    Attributes
    ----------
    release, earlier
        The two.
    entries, beyond
        Distinct entries, and those that differ by more than noise alone makes any number differ.
    held
        How many numbers are held at once.
    band
        Standard deviations that hold all of them with probability 0.95 where nothing has changed.
    mean_square, mean_square_error
        Mean squared difference in variances of its noise: 1 where nothing has changed, with this standard deviation (a
        bound with Laplace noise); that is None where entries or the two nights share noise.
    one_charge
        Whether one charge paid for both nights: they share noise, so that differences have less than is stated.
    largest
        The entries that differ most, descending.
    numbers
        Other released numbers, such as count and mean.
    turn
        Of the leading subspace.
    cells
        Heat map of the differences in standard deviations.
    configs
        Lines on what differs between the two configs.
    warnings
        What makes the comparison doubtful.
    """

    release: Facts
    earlier: Facts
    entries: int
    beyond: int
    held: int
    band: float
    mean_square: float
    mean_square_error: float | None
    one_charge: bool
    largest: tuple[Change, ...]
    numbers: dict[str, tuple[Change, ...]]
    turn: Turn
    cells: Cells
    configs: tuple[str, ...]
    warnings: tuple[str, ...]


def compare(release: OpenRelease, earlier: OpenRelease) -> Comparison:
    """Compare two checked releases, in memory that does not grow with them.

    Raises
    ------
    CannotCompare
        They are the same release, or answer different questions.
    StoreError
        One is no release.
    """
    a, b = Facts(release), Facts(earlier)
    _check(release, earlier, a, b)
    pair = _Pair(a, b)
    passing, one_charge = _Pass(pair), _series(a) is not None and _series(a) == _series(b)
    exact = not (pair.shared or one_charge)
    for tile in a.matrix.tiles():
        passing.add(tile)
    return Comparison(
        release=a,
        earlier=b,
        entries=a.matrix.entries,
        beyond=passing.beyond,
        held=pair.held,
        band=pair.band,
        mean_square=passing.squares / max(passing.noisy, 1),
        # A squared unit Gaussian has variance 2, a squared unit Laplace variable 5, their mixtures less.
        mean_square_error=math.sqrt((5.0 if pair.laplace else 2.0) / max(passing.noisy, 1)) if exact else None,
        one_charge=one_charge,
        largest=passing.largest(),
        numbers=_numbers(pair),
        turn=turn(a, b),
        cells=passing.cells(),
        configs=tuple(differences(_public(b), _public(a))),
        warnings=tuple(_warnings(a, b)),
    )


class _Pair:
    """Two releases, and what noise alone makes of their differences."""

    def __init__(self, a: Facts, b: Facts) -> None:
        self.a, self.b = a, b
        self.vectors = tuple(facts.matrix.vectors() for facts in (a, b))
        rates = [laplace_rate(facts.attributes["mechanism"]) for facts in (a, b)]
        self.laplace = any(rate is not None for rate in rates)
        cells = cells_of(a.matrix.shape)
        alone = [NoiseAlone(facts.matrix, cells) for facts in (a, b)]
        self.shared = any(one.dependent or one.means is not None for one in alone)
        others = sum(value.size for value, _ in self.vectors[0].values())
        # The difference of ratios takes that all numbers of both are held, beside the differences themselves.
        self.held = others + alone[0].held * (1 if alone[0].means is None else 3)
        tails = LaplaceSums(max(rate or Fraction(0) for rate in rates)) if self.laplace else GaussianNoise()
        self.band = tails.band(self.held)
        self.alone = tuple(NoiseAlone(facts.matrix, cells, self.band) for facts in (a, b))

    def beyond(self, places: tuple[Any, Any], values: Sequence[Array], errors: Sequence[Array]) -> Mask:
        """Which entries at some places differ by more than noise makes any number differ."""
        parts = [one.parts(*places, value, error) for one, value, error in zip(self.alone, values, errors, strict=True)]
        return self.outside(values[0] - values[1], parts)

    def outside(self, difference: Array, parts: Sequence[tuple[Array, Array]]) -> Mask:
        """Whether differences exceed what two noises make of them, by the linear part and the rest of each."""
        (linear, rest), (linear_before, rest_before) = parts
        mask: Mask = np.abs(difference) > self.band * np.hypot(linear, linear_before) + rest + rest_before
        return mask


def _check(release: OpenRelease, earlier: OpenRelease, a: Facts, b: Facts) -> None:
    if release.attributes["output_digest"] == earlier.attributes["output_digest"]:
        raise CannotCompare("Both are the same release", "Two different nights are compared", "Name another night")
    pairs = {
        "matrix": (a.label, b.label),
        "shape": (_by(a.matrix.shape), _by(b.matrix.shape)),
        "neighbouring relation": tuple(facts.attributes["guarantee"]["neighbours"] for facts in (a, b)),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            raise CannotCompare(
                f"The {what} is {one} in one release and {other} in the other",
                "Releases are compared entry by entry, so both must answer the same question",
                "Compare releases of the same query",
            )
    for axis in (0, 1):
        if any(a.matrix.name(axis, i) != b.matrix.name(axis, i) for i in range(a.matrix.shape[axis])):
            raise CannotCompare(
                "Rows or columns have different names",
                "Releases are compared entry by entry, so both must have the same features in the same order",
                "Compare releases of the same query",
            )
    if a.presenter.about_origin and a.attributes.get("origin") != b.attributes.get("origin"):
        raise CannotCompare(
            "The origins of the shapes differ",
            f"A {a.label} is taken about its origin, so values about two origins differ without any change of the data",
            "Compare releases with the same origin, or covariances",
        )


def _series(facts: Facts) -> object:
    return facts.attributes.get("mechanism", {}).get("continual", {}).get("series")


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} x {shape[1]:,}"


def _public(facts: Facts) -> dict[str, Any]:
    terms = {name: facts.attributes[name] for name in _COMPARED if name in facts.attributes}
    # Follow from the rest; the comparison of mechanisms is long.
    derived = ("compared", "least_error", "algorithms", "loss")
    mechanism = {key: value for key, value in terms.get("mechanism", {}).items() if key not in derived}
    terms["guarantee"] = {k: v for k, v in terms["guarantee"].items() if k not in ("loss", "sentence")}
    if "contribution" in terms["guarantee"]:  # sentences follow from the rest
        contribution = terms["guarantee"]["contribution"].items()
        terms["guarantee"]["contribution"] = {k: v for k, v in contribution if k not in ("sentence", "not_protected")}
    terms["query"] = learned_shape.asked(facts.attributes)
    return {**terms, "mechanism": mechanism, "algorithms": facts.attributes["mechanism"].get("algorithms", {})}


def _warnings(a: Facts, b: Facts) -> list[str]:
    warnings = [
        f"The noisy count of {facts.attributes['release_id']} is close to zero: "
        "ratios to it, such as means, are meaningless."
        for facts in (a, b)
        if not facts.reliable
    ]
    if learned_shape.asked(a.attributes) != learned_shape.asked(b.attributes):
        warnings.append("The two queries differ, so values can differ without any change of the data: see below.")
    return warnings


def _numbers(pair: _Pair) -> dict[str, tuple[Change, ...]]:
    mine, theirs = pair.vectors
    changes = {}
    for name in sorted(mine.keys() & theirs.keys()):
        (value, noise), (before, noise_before) = mine[name], theirs[name]
        if value.shape != before.shape:
            continue
        error = np.atleast_1d(np.hypot(noise, noise_before))
        ratios = [one.means.linear_deviation_of_mean for one in pair.alone if one.means is not None]
        linear = (ratios[0], ratios[1]) if name == "mean" and len(ratios) == 2 else (noise, noise_before)
        beyond = np.atleast_1d(pair.outside(value - before, [(part, np.zeros(part.shape)) for part in linear]))
        labels = pair.a.matrix.labels(name) or [name] * value.size
        rows = zip(labels, np.atleast_1d(value), np.atleast_1d(before), error, beyond, strict=True)
        changes[name] = tuple(Change(label, float(x), float(y), float(e), bool(far)) for label, x, y, e, far in rows)
    return changes


def _scores(difference: Array, error: Array) -> Array:
    """Difference in standard deviations; where there is no noise, 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0.0, 0.0, difference / error)


class _Pass:
    """One pass over both matrices."""

    def __init__(self, pair: _Pair) -> None:
        self._pair, self._a, self._b = pair, pair.a.matrix, pair.b.matrix
        self._weights = tuple(1.0 / units for units in joint_units(self._a, self._b))
        self._sums = tuple(CellSums(matrix.shape) for matrix in (self._a, self._b))
        self._noise = tuple(CellNoise(one.matrix, one, *self._weights) for one in pair.alone)
        self.beyond, self.noisy, self.squares = 0, 0, 0.0
        self._largest: list[tuple[float, int, int, Change]] = []

    def add(self, tile: EntriesTile) -> None:
        values = tuple(matrix.value(tile.rows, tile.columns) for matrix in (self._a, self._b))
        errors = tuple(matrix.deviation(tile.rows, tile.columns) for matrix in (self._a, self._b))
        weights = np.outer(self._weights[0][slice(*tile.rows)], self._weights[1][slice(*tile.columns)])
        for sums, noise, value, error in zip(self._sums, self._noise, values, errors, strict=True):
            sums.add(tile, value * weights)
            noise.add(tile, error * weights)
        error = np.hypot(*errors)
        scores = _scores(values[0] - values[1], error)
        mask = np.isfinite(scores) & (error > 0)
        if self._a.symmetric and tile.on_diagonal:
            scores, mask = np.triu(scores), np.triu(mask)
        self.noisy += int(np.count_nonzero(mask))
        self.squares += float(np.sum(scores[mask] ** 2))
        beyond = np.abs(scores) > self._pair.band
        i, j = np.nonzero(beyond)
        places = tile.rows[0] + i, tile.columns[0] + j
        at = [tuple(part[i, j] for part in pair) for pair in (values, errors)]
        beyond[i, j] = self._pair.beyond(places, at[0], at[1])
        self.beyond += int(np.count_nonzero(beyond))
        self._keep(tile, np.abs(scores), values, error, beyond)

    def _keep(self, tile: EntriesTile, size: Array, values: tuple[Array, ...], error: Array, beyond: Mask) -> None:
        few = min(LISTED, size.size)
        for position in np.argpartition(size.ravel(), size.size - few)[size.size - few :]:
            i, j = divmod(int(position), size.shape[1])
            row, column = tile.rows[0] + i, tile.columns[0] + j
            names = self._a.name(0, row), self._a.name(1, column)
            what = names[0] if self._a.shape[1] == 1 else f"{names[0]} and {names[1]}"
            value, before = (float(part[i, j]) for part in values)
            change = Change(what, value, before, float(error[i, j]), bool(beyond[i, j]))
            keep = heapq.heappush if len(self._largest) < LISTED else heapq.heappushpop
            keep(self._largest, (float(size[i, j]), -row, -column, change))

    def largest(self) -> tuple[Change, ...]:
        return tuple(change for size, *_, change in sorted(self._largest, reverse=True) if size > 0)

    def cells(self) -> Cells:
        mine, theirs = (sums.sums for sums in self._sums)
        parts = [noise.parts(sums.sums) for noise, sums in zip(self._noise, self._sums, strict=True)]
        deviation = np.hypot(*(noise.deviation(sums.sums) for noise, sums in zip(self._noise, self._sums, strict=True)))
        limit = self._pair.band
        return Cells(
            np.clip(_scores(mine - theirs, deviation), -limit, limit), self._pair.outside(mine - theirs, parts)
        )
