"""Two releases of the same question: what differs by more than their noise, and what differs between their configs.

The noises of two releases are independent, so an entry of the difference has the sum of both variances. Of k
differences the largest is below the *band* with probability 0.95 where nothing has changed:

* both Gaussian: ``z`` at ``(1 + 0.95^(1/k)) / 2``, whatever the correlations (Sidak, 1967);
* with a Laplace part: such noise is Gaussian of a random variance, whose law is dominated in convex order by that of
  one Laplace variable of scale b and the same variance ``2 b^2``, so ``P(|x| > t) <= 2 inf e^(-lt) / (1 - l^2 b^2)``
  (Chernoff); the band takes a k-th of the remaining probability for each.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.optimize import brentq
from scipy.special import ndtri

from engine.errors import CONFIDENCE
from pipeline.errors import ConfigError
from pipeline.ledger.difference import differences
from pipeline.reading import OpenRelease
from pipeline.report.facts import Facts
from pipeline.report.matrix import Array, ReleasedMatrix, Tile
from pipeline.report.scan import Cells, CellSums, CellVariance, noise_units
from pipeline.report.spectrum import Subspace, leading_subspace

LISTED = 20
"""How many of the entries beyond the band are listed."""

_DIRECTIONS = 10
_KNOWN = 30
_MOST = 1e6
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
    """

    what: str
    value: float
    earlier: float
    error: float

    @property
    def score(self) -> float:
        """Difference in standard deviations; infinite where it differs without noise."""
        return float(_scores(np.array([self.value - self.earlier]), np.array([self.error]))[0])


@dataclass(frozen=True, eq=False)
class Turn:
    """How far the leading subspace has turned.

    Attributes
    ----------
    dimension
        Directions compared: those that stand out of the noise in both releases, at most ten; 0 where there are none.
    angle
        Largest principal angle, in degrees.
    noise_angle
        Root mean square of the angle's sine (over all directions) that noise alone causes, as an angle in degrees,
        first order in the noise.
    """

    dimension: int
    angle: float
    noise_angle: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between two releases.

    Attributes
    ----------
    release, earlier
        The two.
    entries, beyond
        Distinct entries, and those beyond the band.
    band
        Standard deviations that hold all differences at once with probability 0.95 where nothing has changed.
    mean_square, mean_square_error
        Mean squared difference in variances of its noise: 1 where nothing has changed, with this standard deviation if
        entries are independent (a bound with Laplace noise).
    largest
        The entries that differ most, descending.
    numbers
        Other released numbers, such as count and mean; each array has a band of its own.
    number_bands
        Band by array.
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
    band: float
    mean_square: float
    mean_square_error: float
    largest: tuple[Change, ...]
    numbers: dict[str, tuple[Change, ...]]
    number_bands: dict[str, float]
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
    laplace = any("Laplace" in str(facts.attributes["mechanism"].get("grid")) for facts in (a, b))
    rows, columns = a.matrix.shape
    entries = rows * (rows + 1) // 2 if a.matrix.symmetric else rows * columns
    limit = band(entries, laplace=laplace)
    passing = _Pass(a.matrix, b.matrix, limit)
    for tile in a.matrix.tiles():
        passing.add(tile)
    numbers = _numbers(a, b)
    return Comparison(
        release=a,
        earlier=b,
        entries=entries,
        beyond=passing.beyond,
        band=limit,
        mean_square=passing.squares / max(passing.noisy, 1),
        # A squared unit Gaussian has variance 2, a squared unit Laplace variable 5, their mixtures less.
        mean_square_error=math.sqrt((5.0 if laplace else 2.0) / max(passing.noisy, 1)),
        largest=passing.largest(),
        numbers=numbers,
        number_bands={name: band(len(changes), laplace=laplace) for name, changes in numbers.items()},
        turn=_turn(a, b),
        cells=passing.cells(),
        configs=tuple(differences(_public(b), _public(a))),
        warnings=tuple(_warnings(a, b)),
    )


def band(entries: int, *, laplace: bool) -> float:
    """Standard deviations that hold so many differences at once with probability 0.95 where nothing has changed."""
    if not laplace:
        return float(-ndtri(-math.expm1(math.log(CONFIDENCE) / entries) / 2.0))
    outside = (1.0 - CONFIDENCE) / entries

    def excess(t: float) -> float:
        # In units of b: the infimum is at l = (sqrt(1 + t^2) - 1) / t.
        rate = (math.sqrt(1.0 + t * t) - 1.0) / t
        return math.log(2.0) - rate * t - math.log1p(-rate * rate) - math.log(outside)

    return float(brentq(excess, 1e-3, 1e5, xtol=1e-9)) / math.sqrt(2.0)


def _check(release: OpenRelease, earlier: OpenRelease, a: Facts, b: Facts) -> None:
    if release.attributes["output_digest"] == earlier.attributes["output_digest"]:
        raise _refusal("Both are the same release", "Two different nights are compared", "Name another night")
    pairs = {
        "matrix": (a.label, b.label),
        "shape": (_by(a.matrix.shape), _by(b.matrix.shape)),
        "neighbouring relation": tuple(facts.attributes["guarantee"]["neighbours"] for facts in (a, b)),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            raise _refusal(
                f"The {what} is {one} in one release and {other} in the other",
                "Releases are compared entry by entry, so both must answer the same question",
                "Compare releases of the same query",
            )
    for axis in (0, 1):
        if any(a.matrix.name(axis, i) != b.matrix.name(axis, i) for i in range(a.matrix.shape[axis])):
            raise _refusal(
                "Rows or columns have different names",
                "Releases are compared entry by entry, so both must have the same features in the same order",
                "Compare releases of the same query",
            )
    if a.kind not in ("covariance", "counts") and a.attributes.get("origin") != b.attributes.get("origin"):
        raise _refusal(
            "The origins of the shapes differ",
            f"A {a.label} is taken about its origin, so values about two origins differ without any change of the data",
            "Compare releases with the same origin, or covariances",
        )


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} x {shape[1]:,}"


def _refusal(value: str, rule: str, remedy: str) -> CannotCompare:
    return CannotCompare(value, rule, remedy)


def _public(facts: Facts) -> dict[str, Any]:
    found = {name: facts.attributes[name] for name in _COMPARED if name in facts.attributes}
    mechanism = dict(found.get("mechanism", {}))
    # Follow from the rest; the comparison of mechanisms is long.
    for derived in ("compared", "algorithms", "loss"):
        mechanism.pop(derived, None)
    found["guarantee"] = {k: v for k, v in found["guarantee"].items() if k not in ("loss", "sentence")}
    if "contribution" in found["guarantee"]:  # sentences follow from the rest
        said = found["guarantee"]["contribution"]
        found["guarantee"]["contribution"] = {k: v for k, v in said.items() if k not in ("sentence", "not_protected")}
    return {**found, "mechanism": mechanism, "algorithms": facts.attributes["mechanism"].get("algorithms", {})}


def _warnings(a: Facts, b: Facts) -> list[str]:
    found = [
        f"The noisy count of {facts.attributes['release_id']} is close to zero: "
        "its mean and covariance are meaningless."
        for facts in (a, b)
        if not facts.reliable
    ]
    if a.attributes["query"] != b.attributes["query"]:
        found.append("The two queries differ, so values can differ without any change of the data: see below.")
    return found


def _numbers(a: Facts, b: Facts) -> dict[str, tuple[Change, ...]]:
    mine, theirs = a.matrix.vectors(), b.matrix.vectors()
    found = {}
    for name in sorted(mine.keys() & theirs.keys()):
        (value, noise), (before, noise_before) = mine[name], theirs[name]
        if value.shape != before.shape:
            continue
        error = np.atleast_1d(np.hypot(noise, noise_before))
        labels = a.matrix.labels(name) or [name] * value.size
        rows = zip(labels, np.atleast_1d(value), np.atleast_1d(before), error, strict=True)
        found[name] = tuple(Change(label, float(x), float(y), float(e)) for label, x, y, e in rows)
    return found


def _scores(difference: Array, error: Array) -> Array:
    """Difference in standard deviations; where there is no noise, 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0.0, 0.0, difference / error)


class _Pass:
    """One pass over both matrices."""

    def __init__(self, a: ReleasedMatrix, b: ReleasedMatrix, limit: float) -> None:
        self._a, self._b, self._limit = a, b, limit
        self._sums, self._variance = CellSums(a.shape), CellVariance(a)
        self.beyond, self.noisy, self.squares = 0, 0, 0.0
        self._largest: list[tuple[float, int, int, Change]] = []

    def add(self, tile: Tile) -> None:
        value, before = (m.value(tile.rows, tile.columns) for m in (self._a, self._b))
        error = np.hypot(*(m.deviation(tile.rows, tile.columns) for m in (self._a, self._b)))
        scores = _scores(value - before, error)
        cut = np.clip(scores, -_MOST, _MOST)
        self._sums.add(tile, cut)
        self._variance.add(tile, np.ones(scores.shape))
        if self._a.symmetric and tile.on_diagonal:
            scores = np.triu(scores)
        counted = np.isfinite(scores) & (error > 0)
        if self._a.symmetric and tile.on_diagonal:
            counted = np.triu(counted)
        self.noisy += int(np.count_nonzero(counted))
        self.squares += float(np.sum(scores[counted] ** 2))
        self.beyond += int(np.count_nonzero(np.abs(scores) > self._limit))
        self._keep(tile, np.abs(scores), value, before, error)

    def _keep(self, tile: Tile, size: Array, value: Array, before: Array, error: Array) -> None:
        few = min(LISTED, size.size)
        for position in np.argpartition(size.ravel(), size.size - few)[size.size - few :]:
            i, j = divmod(int(position), size.shape[1])
            row, column = tile.rows[0] + i, tile.columns[0] + j
            names = self._a.name(0, row), self._a.name(1, column)
            what = names[0] if self._a.shape[1] == 1 else f"{names[0]} and {names[1]}"
            change = Change(what, float(value[i, j]), float(before[i, j]), float(error[i, j]))
            keep = heapq.heappush if len(self._largest) < LISTED else heapq.heappushpop
            keep(self._largest, (float(size[i, j]), -row, -column, change))

    def largest(self) -> tuple[Change, ...]:
        return tuple(change for size, *_, change in sorted(self._largest, reverse=True) if size > 0)

    def cells(self) -> Cells:
        scores = self._sums.sums / np.sqrt(self._variance.sums)
        return Cells(scores, scores)


def _turn(a: Facts, b: Facts) -> Turn:
    """Compare the leading subspaces along the columns, in units of both noises together."""
    mine, theirs = noise_units(a.matrix)[1], noise_units(b.matrix)[1]
    # A column's unit is the root of the deviation where symmetric: row times column is the deviation.
    power = 4.0 if a.matrix.symmetric else 2.0
    joint = (mine**power + theirs**power) ** (1.0 / power)
    units = joint if a.matrix.symmetric else np.ones(a.matrix.shape[0]), joint
    share = float(np.mean((mine / joint) ** power))
    most = min(_KNOWN, *a.matrix.shape)
    one, other = (leading_subspace(facts.matrix, *units, most) for facts in (a, b))
    level = max(a.scan.noise_level, b.scan.noise_level)
    k = min(_DIRECTIONS, *(int((found.values > level).sum()) for found in (one, other)))
    if k == 0 or k == a.matrix.shape[1]:
        return Turn(0, 0.0, 0.0)
    angle = float(np.max(subspace_angles(one.vectors[:, :k], other.vectors[:, :k])))
    squares = share * _noise_sine(one, k, a.matrix) + (1.0 - share) * _noise_sine(other, k, a.matrix)
    return Turn(k, math.degrees(angle), math.degrees(math.asin(min(1.0, math.sqrt(squares)))))


def _noise_sine(found: Subspace, leading: int, matrix: ReleasedMatrix) -> float:
    """Expected squared sine distance that noise of unit size causes, first order: sum of variance / gap^2.

    Directions beyond those known are taken to have the last known value, the nearest that they can be.
    """
    values = np.concatenate([found.values, np.full(matrix.shape[1] - found.values.size, found.values[-1])])
    inside, outside = values[:leading, None], values[None, leading:]
    with np.errstate(divide="ignore"):
        if matrix.symmetric:
            # Off the diagonal of the rotated noise: half the variance of a diagonal entry, which is the unit.
            terms = 0.5 / (inside - outside) ** 2
        else:
            terms = (inside**2 + outside**2) / (inside**2 - outside**2) ** 2
    return float(np.sum(np.minimum(terms, 1.0)))
