"""How often a 95 % interval holds what the clipped records give, for many records and contents of several kinds.

For each size of the data, epsilon and kind of content a release is planned as always. Its error is drawn at the level
of sums: noise with the planned deviations, on the planned grid, and rounding. Where contents are many, the sum of their
rounding errors is drawn from the normal law whose moments are those of the product's own integers of many such records;
where they are few, the product rounds each of them, anew in each draw from another start, and it counts as often as it
occurs. So 10**9 records are no more work than 10**3. Intervals have the standard errors that a release states, at the
true moments.

``widened`` is the share with intervals widened by what the plan says of records that are all alike. A cell is ``-``
where the noise of the count is so large beside it that a release is not reliable.

``python -m benchmarks.coverage [DRAWS]``
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from blockveil.engine.estimates import matrices
from blockveil.engine.kinds.totals.estimate import totals_and_means
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import Plan, make_plan
from blockveil.pipeline.plan.rounded import rounded

Array = NDArray[np.float64]

RECORDS = (10**3, 10**5, 2 * 10**7, 10**9)
EPSILONS = (0.1, 1.0, 8.0)
DRAWS = 20_000
STATISTICS = ("count", "mean", "second moment", "covariance", "sum", "mean of sums", "outer product")
LARGE = 20.0
"""Standard errors that a count must be away from zero, for ratios to have errors of first order."""

_SAMPLE, _SEED = 200_000, 20_261_127

CONFIG = """[release]
dataset = "made-up"
name = "coverage"
[data]
store = "records.zarr"
[query]
kind = "{kind}"
rows_at_most = {rows}
missing = "refuse"
{shapes}[privacy]
epsilon = {epsilon}
delta = 1e-12
neighbours = "add-remove"
unit = "one"
[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "private/ledger.db"
keys = "private/keys"
"""


@dataclass(frozen=True)
class Kind:
    """Contents of one kind.

    Attributes
    ----------
    features
        Bounds, and further keys, of each column as a config declares them.
    values
        The values that a column takes; none where they are continuous.
    contents
        Number of contents that all records have; 0 where each occurs at most ``alike`` times.
    alike
        How often one content occurs.
    """

    features: tuple[str, ...]
    values: tuple[tuple[float, ...], ...] = ()
    contents: int = 0
    alike: int = 1

    def records(self, rng: np.random.Generator, count: int) -> Array:
        """Records of this kind, shape (count, 3)."""
        if not self.values:
            return np.stack([rng.beta(2, 3, count) * 7.3 - 1.1, rng.normal(2, 1, count), rng.uniform(0, 9, count)], 1)
        return np.stack([rng.choice(each, count) for each in self.values], axis=1)


_REAL = ("lower = -1.3, upper = 6.7", "lower = -2.5, upper = 7.1", "lower = 0.0, upper = 9.7")
_CODES = ("lower = 0, upper = 6{step}", "lower = 0, upper = 10{step}", "lower = 18, upper = 100{step}")
_CODED = ((1.0, 2.0, 3.0, 4.0), (0.0, 1.0, 2.0, 3.0), tuple(map(float, range(18, 91))))
_DECLARED = tuple(each.format(step=", step = 1") for each in _CODES)
_OPEN = tuple(each.format(step="") for each in _CODES)
_FEW = ((0.1, 1 / 3, 2.7, 5.1), (-1.7, 0.6, 2.2, 6.3), (0.4, 3.3, 7.7, 9.1))
KINDS = {
    "continuous": Kind(_REAL),
    "at most 8 alike": Kind(_REAL, alike=8),
    "64 contents": Kind(_REAL, _FEW, contents=64),
    "all alike": Kind(_REAL, _FEW, contents=1),
    "codes, declared": Kind(_DECLARED[:2] + _DECLARED[:1], (_CODED[0], _CODED[1], _CODED[0]), contents=64),
    "whole numbers, declared": Kind(_DECLARED, _CODED, contents=1_000),
    "ages and codes, not declared": Kind(_OPEN, _CODED, contents=1_000),
}


SHAPE = """[query.{key}]
kind = "box"
origin = "midpoint"
features = [{features}]
"""
FACTORS = {"left": (0, 2), "right": (2, 3)}
"""Columns of the factors of an outer product."""


def planned(folder: Path, kind: Kind, rows: int, epsilon: float, query: str = "covariance") -> Plan:
    """Plan of a release of such records."""
    path = folder / "release.toml"
    listed = [f'{{ name = "x{i}", {each} }}' for i, each in enumerate(kind.features)]
    columns = FACTORS if query == "outer-products" else {"geometry": (0, len(listed))}
    shapes = "".join(SHAPE.format(key=key, features=", ".join(listed[slice(*of)])) for key, of in columns.items())
    path.write_text(CONFIG.format(kind=query, rows=rows, epsilon=epsilon, shapes=shapes))
    return make_plan(load_config(path), date(2026, 11, 20))


def in_coordinates(clip: Any, records: Array) -> Array:
    """Clipped records in coordinates, behind the constant one where there is one."""
    c = clip.coordinates
    inside = (np.clip(records, c.lower, c.upper) - c.origin) / c.scale
    return np.hstack([np.ones((len(inside), int(clip.augmented))), inside])


def factors(plan: Plan) -> list[tuple[Any, tuple[int, int]]]:
    """Clip and columns of both factors of the products: the same ones twice but for outer products."""
    query: Any = plan.question.query  # type: ignore[attr-defined]
    if hasattr(query, "quantiser"):
        return [(query.quantiser, (0, 3))] * 2
    return [(query.left, FACTORS["left"]), (query.right, FACTORS["right"])]


def rounding(plan: Plan, kind: Kind, rows: int, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """True products per record, shape (p, q), and errors of their sums by rounding, shape (draws, p, q)."""
    sides = factors(plan)
    clip, same = sides[0][0], sides[0] is sides[1]

    def errors(records: Array) -> tuple[Array, Array]:
        parts = [(side, records[:, slice(*of)]) for side, of in sides]
        exact = products(*(in_coordinates(side, part) for side, part in parts))
        return exact, products(*(side.quantise(part) / side.largest for side, part in parts)) - exact

    if not kind.contents:
        exact, off = errors(kind.records(rng, _SAMPLE))
        shape, lead = exact.shape[1:], int(clip.augmented)
        law, centre = np.cov(off.reshape(len(off), -1).T), np.zeros(shape)
        if same:
            # The mean of an error is that of a square by rounding at a place of its own: 1 / 6 of a step's.
            centre[lead:, lead:] = np.eye(shape[0] - lead) * rows / 6.0 / clip.largest**2
        law = law * rows * min(kind.alike, rows)
        drawn = rng.multivariate_normal(np.zeros(law.shape[0]), law, draws, method="svd")
        return exact.mean(axis=0), drawn.reshape(draws, *shape) + centre
    contents = kind.records(rng, kind.contents)
    each = multiplicities(kind.contents, rows, rng)
    exact, _ = errors(contents)
    found = np.empty((draws, *exact.shape[1:]))
    for first in range(0, draws, step := max(1, 200_000 // kind.contents)):
        some = min(step, draws - first)
        anew = [rounded_anew(side, contents[:, slice(*of)], some, rng) for side, of in (sides[:1] if same else sides)]
        off = products(anew[0], anew[-1]).reshape(some, kind.contents, *exact.shape[1:]) - exact
        found[first : first + some] = np.einsum("c,dcij->dij", each.astype(float), off)
    return np.einsum("c,cij->ij", each / rows, exact), found


def rounded_anew(clip: Any, contents: Array, times: int, rng: np.random.Generator) -> Array:
    """Coordinates of contents that are rounded so many times, each time from other starts."""
    integers = np.empty((times * len(contents), clip.width))
    starts = rng.integers(0, places(clip), len(integers)).astype(np.intp)
    clip.quantise_by_steps(np.tile(contents, (times, 1)), integers, starts)
    return integers / clip.largest


def places(clip: Any) -> int:
    """Number of starts of a dither, or of its places."""
    return 2**12 if clip.largest < 2**8 else 2**32


def products(left: Array, right: Array) -> Array:
    """Outer product of both factors of each record."""
    found: Array = np.einsum("ni,nj->nij", left, right)
    return found


def multiplicities(contents: int, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each content occurs, some of them much more often than others; shape (contents,)."""
    shares = rng.dirichlet(np.full(contents, 2.0))
    found: NDArray[np.int64] = rng.multinomial(rows, shares).astype(np.int64)
    return found


@dataclass(frozen=True)
class Errors:
    """Errors of one statistic in draws, with the standard errors that are stated.

    Attributes
    ----------
    off
        Shape (draws, entries).
    stated
        Shape (entries,).
    worst
        What intervals are widened by for records that are all alike, shape (entries,).
    """

    off: Array
    stated: Array
    worst: Array

    def coverage(self, scale: float = 1.0, widened: float = 0.0) -> float:
        """Share of intervals of 95 % that hold the truth, of the entry with the least."""
        reach = float(ndtri(0.975)) * self.stated * scale + widened * self.worst
        return float(np.min(np.mean(np.abs(self.off) <= reach, axis=0)))


def of_moments(plan: Plan, kind: Kind, rows: int, draws: int, rng: np.random.Generator) -> dict[str, Errors]:
    """Errors of count, mean, second moment and covariance."""
    design, question = plan.answer.design, plan.question
    truth, off = rounding(plan, kind, rows, draws, rng)
    deviation = design.entry_standard_deviation()
    noise = np.triu(rng.standard_normal(off.shape)) * deviation
    drawn = truth * rows + off + noise + np.swapaxes(np.triu(noise, 1), 1, 2)
    size = truth.shape[0]
    grid = design.steps((0, size), (0, size)) / design.shifted_unit
    drawn = np.rint(drawn / grid) * grid
    exact = np.rint(truth * rows / grid).astype(np.int64)
    coordinates = question.query.quantiser.coordinates  # type: ignore[attr-defined]
    stated = matrices.covariance(exact, design, coordinates, None, False, question.rounding)  # type: ignore[attr-defined]
    if rows < LARGE * float(stated.count.standard_deviation):
        return {}
    c, upper = coordinates.scale, np.triu_indices(size - 1)
    count, mean = drawn[:, :1, 0], drawn[:, 0, 1:] / drawn[:, :1, 0]
    covariance = drawn[:, 1:, 1:] / drawn[:, :1, :1] - mean[:, :, None] * mean[:, None, :]
    known = truth[1:, 1:] - np.outer(truth[0, 1:], truth[0, 1:])
    value = rounded(plan.answer).value if np.any(question.rounding.rows) else 0.0  # type: ignore[union-attr, attr-defined]
    twice, units = np.full((size - 1, size - 1), 2.0 * value + value**2), np.outer(c, c)
    return {
        "count": Errors(count - rows, np.atleast_1d(stated.count.standard_deviation), np.zeros(1)),
        "mean": Errors((mean - truth[0, 1:]) * c, stated.mean.standard_deviation, value * c),
        "second moment": Errors(
            ((drawn[:, 1:, 1:] - truth[1:, 1:] * rows) * units)[:, *upper],
            stated.second_moment.standard_deviation[upper],
            (twice * rows * units)[upper],
        ),
        "covariance": Errors(
            ((covariance - known) * units)[:, *upper],
            stated.covariance.standard_deviation[upper],
            (twice * units)[upper],
        ),
    }


def of_sums(plan: Plan, kind: Kind, rows: int, draws: int, rng: np.random.Generator) -> dict[str, Errors]:
    """Errors of totals and their means."""
    design, question = plan.answer.design, plan.question
    truth, off = rounding(plan, kind, rows, draws, rng)
    exact, off = truth[0] * rows, off[:, 0]
    grid = (design.steps((0, 1), (0, exact.size)) / design.shifted_unit)[0]
    drawn = exact + off + rng.standard_normal(off.shape) * design.entry_standard_deviation()[0]
    drawn = np.rint(drawn / grid) * grid
    coordinates = question.query.quantiser.coordinates  # type: ignore[attr-defined]
    whole = np.rint(exact / grid).astype(np.int64)[None]
    stated = totals_and_means(whole, design, coordinates, None, question.rounding)  # type: ignore[attr-defined]
    if rows < LARGE * float(stated.count.standard_deviation):
        return {}
    c, value = coordinates.scale, rounded(plan.answer).value  # type: ignore[union-attr]
    total = drawn[:, 1:] * c + drawn[:, :1] * coordinates.origin - (exact[1:] * c + rows * coordinates.origin)
    mean = (drawn[:, 1:] / drawn[:, :1] - truth[0, 1:]) * c
    return {
        "sum": Errors(total, stated.totals.standard_deviation, value * rows * c),
        "mean of sums": Errors(mean, stated.mean.standard_deviation, value * c),
    }


def of_products(plan: Plan, kind: Kind, rows: int, draws: int, rng: np.random.Generator) -> dict[str, Errors]:
    """Errors of sums of outer products of the first two features and the last one."""
    design: Any = plan.answer.design
    truth, off = rounding(plan, kind, rows, draws, rng)
    exact = truth * rows
    grid = design.steps((0, exact.shape[0]), (0, exact.shape[1])) / design.shifted_unit
    drawn = exact + off + rng.standard_normal(off.shape) * design.entry_standard_deviation()
    drawn = np.rint(drawn / grid) * grid
    left, right = (side.coordinates for side, _ in factors(plan))
    zeros, question = np.zeros(exact.shape, np.int64), plan.question
    stated = matrices.outer_products(zeros, design, left, right, question.rounding)  # type: ignore[attr-defined]
    units, value = np.outer(left.scale, right.scale), rounded(plan.answer).value  # type: ignore[union-attr]
    widest = (2.0 * value + value**2) * rows * units
    errors = ((drawn - exact) * units).reshape(draws, -1)
    return {"outer product": Errors(errors, stated.standard_deviation.ravel(), widest.ravel())}


def cells(draws: int, records: tuple[int, ...] = RECORDS, epsilons: tuple[float, ...] = EPSILONS) -> Iterator[Any]:
    """Kind, records, epsilon, bits of a covariance and errors by statistic, of each cell of the table."""
    rng = np.random.default_rng(_SEED)
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            for rows in records:
                for epsilon in epsilons:
                    plan = planned(Path(folder), kind, rows, epsilon)
                    found = of_moments(plan, kind, rows, draws, rng)
                    found |= of_sums(planned(Path(folder), kind, rows, epsilon, "totals"), kind, rows, draws, rng)
                    outer = planned(Path(folder), kind, rows, epsilon, "outer-products")
                    found |= of_products(outer, kind, rows, draws, rng)
                    yield name, rows, epsilon, int(plan.question.problem.largest).bit_length() + 1, found  # type: ignore[attr-defined]


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    print(
        f"coverage of 95 % intervals in %, least of their entries (widened for records alike), {draws:,} draws a cell"
    )
    print(f"{'contents':30} {'records':>8} {'epsilon':>7} {'bits':>4} " + " ".join(f"{s:>15}" for s in STATISTICS))
    for name, rows, epsilon, bits, found in cells(draws):
        shown = (
            "-" if s not in found else f"{100 * found[s].coverage():.1f} ({100 * found[s].coverage(1.0, 1.0):.1f})"
            for s in STATISTICS
        )
        print(f"{name:30} {rows:8.0e} {epsilon:7} {bits:4} " + " ".join(f"{word:>15}" for word in shown), flush=True)


if __name__ == "__main__":
    main()
