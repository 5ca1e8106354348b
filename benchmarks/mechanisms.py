"""Expected error of every mechanism at the same guarantee, on the papers' shapes and on workloads of counts.

No records, no clock. The error of data-aware counts depends on the records, so it is measured on made-up tables.

Run ``python -m benchmarks.mechanisms``. Each number is the expected squared error of all entries in raw units, divided
by that of the mechanism that ``auto`` chooses; 1 is the best. A test compares the tables of ``docs/mechanisms.md`` with
it. R1SMG has no guarantee to be compared at; see ``benchmarks.r1smg_attack``.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import MechanismComparison, Metric, compare
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace
from blockveil.engine.mechanisms.published.buckets import Buckets, Dawa
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body, CappedBox
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.workloads.workload import AllRange, Kronecker, Prefix, Total, marginals

K = 2**15 - 1
GUARANTEE = ApproxDP(0.9, 1e-6)
"""Below epsilon 1, so that the classic Gaussian may compete."""


def shapes() -> dict[str, Problem]:
    """The four shapes: box-bounded records, power-law covariances, a layer's gradient, a city's counts."""
    add, replace = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
    power = {d: np.arange(1, d + 1, dtype=np.float64) ** -0.5 for d in (100, 2400)}
    return {
        "rows 248 x 6, features in [-1, 1]": Rows(Body.CUBE, np.ones(6), replace, K, 248),
        "second moment, d = 100, bounds i^-1/2": SecondMoment(Body.CUBE, power[100], add, K, 50_000, False),
        "second moment, d = 2,400, bounds i^-1/2": SecondMoment(Body.CUBE, power[2400], add, K, 50_000, False),
        "second moment, d = 2,400, bounds i^-1/2, norms at most 2": SecondMoment(
            CappedBox(Body.CUBE, power[2400] / 2.0), power[2400], add, K, 50_000, False
        ),
        "gradient 1,024 x 84, norms at most 1": OuterProducts(
            Body.BALL, Body.BALL, np.ones(1024), np.ones(84), add, K, 60_000
        ),
        "counts 89 x 89": Counts((89, 89), add, 600_000),
    }


def workloads() -> dict[str, Problem]:
    """Workloads of counts: sums over rectangles of a city's grid, and over ranges of a line of cells."""
    grid, add = (89, 89), Neighbours.ADD_REMOVE

    def counts(cells: tuple[int, int], *parts: Kronecker) -> Counts:
        return Counts(cells, add, 600_000, parts)

    return {
        "all rectangles of 89 x 89": counts(grid, Kronecker(AllRange(89), AllRange(89))),
        "corner rectangles of 89 x 89": counts(grid, Kronecker(Prefix(89), Prefix(89))),
        "marginals of 89 x 89": counts(grid, *marginals(grid)),
        "all ranges of 1,024 cells": counts((1, 1024), Kronecker(Total(1), AllRange(1024))),
        "all ranges of 65,536 cells": counts((1, 65_536), Kronecker(Total(1), AllRange(65_536))),
    }


def balls() -> dict[str, tuple[Problem, Problem, Problem]]:
    """Features that are bounded one by one and together: within both, in the box alone, in the ball alone."""
    features = {"second moment, d = 2,400": (2400, (1.0, 1.5, 2.0)), "rows of 100 features": (100, (1.5, 2.0))}

    def problem(name: str, body: Body | CappedBox, scale: NDArray[np.float64]) -> Problem:
        if name.startswith("rows"):
            return Rows(body, scale, Neighbours.REPLACE_ONE, K, 248)
        return SecondMoment(body, scale, Neighbours.ADD_REMOVE, K, 50_000, False)

    found = {}
    for name, (d, norms) in features.items():
        bounds = np.arange(1, d + 1, dtype=np.float64) ** -0.5
        for norm in norms:
            both = problem(name, CappedBox(Body.CUBE, np.minimum(bounds / norm, 1.0)), bounds)
            box = problem(name, Body.CUBE, bounds)
            found[f"{name}, norms at most {norm:g}"] = (both, box, problem(name, Body.BALL, np.full(d, norm)))
    return found


def ball_ratios(problems: tuple[Problem, Problem, Problem]) -> tuple[float, float]:
    """Expected squared error in the box alone and in the ball alone over that within both, all by shaped-gaussian."""
    metric, mechanism = Metric("total"), ShapedGaussian(Importance("absolute-error"))
    both, box, ball = (metric.value(mechanism.design(problem, GUARANTEE), problem) for problem in problems)
    return box / both, ball / both


def table(metric: Metric) -> dict[str, MechanismComparison]:
    """Comparison for each shape, or for each workload."""
    problems = workloads() if metric.kind == "workload" else shapes()
    return {name: compare(problem, GUARANTEE, metric) for name, problem in problems.items()}


def tables() -> dict[str, NDArray[np.int64]]:
    """Made-up tables on which data-aware counts can be tried: even pieces, clusters and a heavy tail."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:89, :89]
    places = rng.uniform([0, 0, 1, 0.1], [89, 89, 8, 1], (12, 4))
    clusters = sum(np.exp(-((y - a) ** 2 + (x - b) ** 2) / (2 * s * s)) * w / (s * s) for a, b, s, w in places)
    plateau = np.ones((89, 89))
    plateau[20:50, 30:70] = 10.0

    def drawn(density: NDArray[np.float64], records: int) -> NDArray[np.int64]:
        return rng.multinomial(records, (density / density.sum()).ravel()).reshape(density.shape).astype(np.int64)

    return {
        "line of 4,096 cells in 32 even pieces": np.repeat(rng.integers(0, 200, 32), 128)[None, :],
        "plateau on 89 x 89, 10,000 records": drawn(plateau, 10_000),
        "plateau on 89 x 89, 200,000 records": drawn(plateau, 200_000),
        "clusters on 89 x 89, 10,000 records": drawn(clusters, 10_000),
        "clusters on 89 x 89, 200,000 records": drawn(clusters, 200_000),
    }


def dawa_ratio(table: NDArray[np.int64], epsilon: float, draws: int = 10) -> float:
    """Mean squared error of the cells by DAWA over that of discrete Laplace noise on them, at the same pure epsilon."""
    problem = Counts((table.shape[0], table.shape[1]), Neighbours.ADD_REMOVE, 10**6)
    guarantee = ApproxDP(epsilon, 1e-8)
    design = Dawa(0.25).design(problem, guarantee)
    errors = [
        np.sum((Buckets.of(design.release(NoiseKey(bytes([k] * 32)), table), design).cells() - table) ** 2)
        for k in range(draws)
    ]
    plain = IntegerLaplace().design(problem, guarantee).entry_standard_deviation()
    return float(np.mean(errors) / np.sum(plain**2))


def main() -> None:
    """Print the tables."""
    for kind in ("total", "spectral", "workload"):
        print(f"\nexpected {kind} error over the best, epsilon {GUARANTEE.epsilon:g}, delta {GUARANTEE.delta:g}")
        for name, comparison in table(Metric(kind)).items():
            best = comparison.table[0].error or 1.0
            print(f"\n  {name}: the best is {comparison.mechanism.name}, {best:.4g}")
            for row in comparison.table:
                choice = {key: value for key, value in row.parameters.items() if key in ("theorem", "zeta", "noise")}
                shown = " ".join([row.mechanism, *map(str, choice.values())])
                print(f"    {shown:<28} {'-  ' + row.reason if row.error is None else f'{row.error / best:.4g}'}")
    print("\nsquared error of shaped-gaussian over that within box and ball, bounds i^-1/2")
    for name, problems in balls().items():
        box, ball = ball_ratios(problems)
        print(f"  {name}: box alone {box:.3g}, ball alone {ball:.3g}")
    print("\nsquared error of dawa over that of discrete-laplace, on made-up tables (10 draws)")
    for name, table_ in tables().items():
        ratios = ", ".join(f"epsilon {epsilon:g}: {dawa_ratio(table_, epsilon):.3g}" for epsilon in (0.1, 0.9))
        print(f"  {name}: {ratios}")


if __name__ == "__main__":
    sys.exit(main())
