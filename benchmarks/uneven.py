"""Sensitivity under replace-one of boxes that are not even about their origin, over that of the even box around.

Run ``python -m benchmarks.uneven``. The ratio is that of the noise's standard deviations at one guarantee; there is no
clock. The second table is of how far bounds for many different features are above a pair that a search found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.gaussian import spread_of
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.box_moments import replaced_in_box
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.quickstart import CONFIG

_LARGEST = 2**15 - 1
_REPLACE = Neighbours.REPLACE_ONE


def of_the_demo() -> np.ndarray:
    """Lower end over upper end of the columns of the demo, taken about zero; shape (23,)."""
    features = load_config(CONFIG).config.query.geometry.features
    return np.array([min(feature.lower, 0.0) / feature.upper for feature in features])


BOXES = {
    "three features in [0, 1], one in [-0.001, 1]": np.array([0.0, 0.0, 0.0, -0.001]),
    "20 features in [-0.2, 1]": np.full(20, -0.2),
    "the 23 columns of the demo about zero": of_the_demo(),
}


def ratios(lower: np.ndarray) -> tuple[float, float, float]:
    """Of a second moment, rows, and outer products of two such records, all with equal noise in coordinates."""
    one, ends, d = np.ones(lower.size), (lower, np.ones(lower.size)), lower.size
    moment = SecondMoment(Body.CUBE, one, _REPLACE, _LARGEST, 10, False, even=False, ends=ends)
    rows = Rows(Body.CUBE, one, _REPLACE, _LARGEST, 1, even=False, ends=ends)
    outer = OuterProducts(
        Body.CUBE, Body.CUBE, one, one, _REPLACE, _LARGEST, 10, even=False, left_ends=ends, right_ends=ends
    )
    return (
        moment.l2(moment.spread(one, one)).bound / replace(moment, ends=None).l2(moment.spread(one, one)).bound,
        rows.l2(rows.spread(np.ones(1), one)).bound / replace(rows, ends=None).l2(rows.spread(np.ones(1), one)).bound,
        outer.l2(outer.spread(one, one)).bound
        / replace(outer, left_ends=None, right_ends=None).l2(outer.spread(np.ones(d), one)).bound,
    )


def of_a_covariance(features: int) -> float:
    """Of a covariance of features in [0, 1] about zero."""
    one, ends = np.ones(features), (np.zeros(features), np.ones(features))
    problem = SecondMoment(Body.HALF_CUBE, one, _REPLACE, _LARGEST, 10, True, ends=ends)
    spread = spread_of(problem, one, one)
    return problem.l2(spread).bound / replace(problem, ends=None).l2(spread).bound


def above_what_was_found(features: int, like: bool, tries: int = 50) -> float:
    """Largest bound over what two records attain, of boxes with different features."""
    rng, worst = np.random.default_rng(features), 1.0
    for _ in range(tries):
        far = rng.random(features) + 0.5 if like else np.exp(2.0 * rng.standard_normal(features))
        found = replaced_in_box(-far * rng.random(features), far)
        worst = max(worst, found.bound / found.attained)
    return worst


def main() -> None:
    """Print the tables."""
    print("| records, replace-one | second moment | rows | outer products with themselves |")
    print("|---|---|---|---|")
    for name, lower in BOXES.items():
        print(f"| {name} | {' | '.join(f'{ratio:.3f}' for ratio in ratios(lower))} |")
    print(f"| a covariance of 6 features in [0, 1] about zero | {of_a_covariance(6):.3f} | | |")
    for like, words in ((True, "of like weight"), (False, "of which a few outweigh the others")):
        for features in (17, 40, 200):
            print(f"{features} features {words}: bound {above_what_was_found(features, like):.4f} times a pair")


if __name__ == "__main__":
    main()
