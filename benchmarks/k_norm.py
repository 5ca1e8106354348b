"""Squared error of K-norm noise against the best of all other proven mechanisms, for rows and gradients.

Run ``python -m benchmarks.k_norm``. Numbers above one say how many times less its error is; there is no clock.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import Problem

GUARANTEE = ApproxDP(0.9, 1e-6)
FEWEST_ROWS, FEWEST_GRADIENTS = 1.9, 1.3
"""What is asked for, of rows of 2 to 24 features and gradients of 2 to 12 weights."""

_LARGEST = 2**15 - 1
ROWS = (2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48)
GRADIENTS = (2, 3, 4, 6, 8, 10, 12, 16)


def gain(problem: Problem, guarantee: ApproxDP = GUARANTEE) -> float:
    """Error of the best other mechanism over that of K-norm noise."""
    table = compare(problem, guarantee, Metric("total")).table
    ours = next(row.error for row in table if row.mechanism == "k-norm")
    others = min(row.error for row in table if row.error is not None and row.mechanism != "k-norm")
    if ours is None:
        raise ValueError("K-norm noise does not answer this problem; ask for one with fewer entries")
    return others / ours


def gain_of_rows(features: int, guarantee: ApproxDP = GUARANTEE) -> float:
    """Of records in a cube."""
    problem = Rows(Body.CUBE, np.ones(features), Neighbours.REPLACE_ONE, _LARGEST, 100)
    return gain(problem, guarantee)


def gain_of_gradients(weights: int, neighbours: Neighbours, guarantee: ApproxDP = GUARANTEE) -> float:
    """Of the gradient of one output with so many weights."""
    problem = GradientProblem(Body.BALL, Body.BALL, np.ones(1), np.ones(weights), neighbours, _LARGEST, 1000)
    return gain(problem, guarantee)


def main() -> None:
    """Print the tables."""
    print("| features of a row | 1e-6 | 1e-9 |")
    print("|---|---|---|")
    strict = ApproxDP(GUARANTEE.epsilon, 1e-9)
    for features in ROWS:
        print(f"| {features} | {gain_of_rows(features):.3g} | {gain_of_rows(features, strict):.3g} |")
    print("\n| weights of a gradient | 1e-6 | 1e-9 |")
    print("|---|---|---|")
    add = Neighbours.ADD_REMOVE
    for weights in GRADIENTS:
        print(f"| {weights} | {gain_of_gradients(weights, add):.3g} | {gain_of_gradients(weights, add, strict):.3g} |")


if __name__ == "__main__":
    main()
