"""Error of medians and of 5 and 95 % quantiles of five public columns, against OpenDP's way and a tree of one charge.

The columns are those of 48,842 people (``adult.npz``) at epsilon 1 and delta 1e-6, where a person is added or removed:
five columns and three probabilities at once. Errors are mean absolute distances from the quantile of the records, and
mean absolute differences of ranks.

* ours          as ``kind = "quantiles"`` releases it, by the product's own plan, noise and estimates
* exponential   a code, or one of 65,536 even candidates, is drawn with a probability in proportion to
                ``exp(-e s / (2 max(p, 1 - p)))`` for ``s = |(1 - p) below - p above|``, the score of OpenDP's
                ``then_private_quantile``, once for each column and probability. A draw is ``e^2 / 8`` of
                zero-concentrated privacy. The split between the median and the two others is the one of the least
                mean error of ranks
* tree          counts of blocks of b^l cells of each column with Gaussian noise, consistent by least squares, of the b
                whose largest error of ranks is least; quantiles follow from them as ours do

OpenDP's mechanism is implemented here, as it is published. No clock. ``python -m benchmarks.quantiles [DRAWS]``
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.quantiles.rank_estimate import ColumnBalances, RankNoise
from blockveil.engine.mechanisms.published.hierarchy import Tree
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import Plan, make_plan

DATA = Path(__file__).parent / "data" / "adult.npz"
COLUMNS: dict[str, np.ndarray | int] = {
    "age": 128,
    "fnlwgt": np.linspace(0.0, 1_500_000.0, 4097),
    "education-num": 17,
    "hours-per-week": 128,
    "capital-gain": np.concatenate([[0.0, 1.0], np.linspace(100.0, 100_000.0, 1000)]),
}
"""Number of codes of each column from 0, or edges of its cells."""

CANDIDATES = 2**16

PROBABILITIES = np.array([0.05, 0.5, 0.95])
GUARANTEE = ApproxDP(1.0, 1e-6)
MEDIAN_SHARES = (0.05, 0.1, 0.15, 0.2, 1.0 / 3.0, 0.5, 0.7)
BRANCHINGS = (2, 4, 8, 16)
DRAWS = 400

CONFIG = """
[release]
dataset = "people"
name = "quantiles"

[data]
store = "people.zarr"

[query]
kind = "quantiles"
rows_at_most = 100_000
missing = "refuse"
probabilities = {probabilities}
axes = [
{axes}
]

[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "add-remove"
unit = "one person (one row)"

[mechanism]
kind = "gaussian"

[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""

Ends = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator], np.ndarray]
"""One release: quantiles, shape (columns, probabilities)."""


def zero_concentrated(guarantee: ApproxDP) -> float:
    """Largest rho that keeps a guarantee (Canonne, Kamath and Steinke, 2020, Proposition 12)."""
    orders = 1.0 + np.geomspace(1e-2, 1e5, 20_000)

    def log_delta(rho: float) -> float:
        bounds = (orders - 1.0) * (orders * rho - guarantee.epsilon) + orders * np.log1p(-1.0 / orders)
        return float(np.min(bounds - np.log(orders - 1.0)))

    return float(brentq(lambda rho: log_delta(rho) - np.log(guarantee.delta), 1e-6, 1.0))


def columns() -> tuple[list[np.ndarray], list[Ends]]:
    """Values, clipped to their ends, and ends of the cells, of each column."""
    with np.load(DATA) as file:
        places = [file["num_names"].tolist().index(name) for name in COLUMNS]
        values = file["num"][:, places].astype(np.float64)
    ends, clipped = [], []
    for column, cells in zip(values.T, COLUMNS.values(), strict=True):
        edges = np.arange(cells) * 1.0 if isinstance(cells, int) else cells
        ends.append((edges, edges) if isinstance(cells, int) else (edges[:-1], edges[1:]))
        clipped.append(np.clip(column, edges[0], edges[-1]))
    return clipped, ends


def counted(values: np.ndarray, ends: Ends) -> np.ndarray:
    """Values in each cell."""
    borders = (ends[0][1:] + ends[1][:-1]) / 2.0
    return np.bincount(np.searchsorted(borders, values), minlength=borders.size + 1)


def plan_of_ours() -> Plan:
    """The plan of a release of all columns."""
    axes = [
        f'{{ name = "{name}", {f"cells = {cells}" if isinstance(cells, int) else f"edges = {cells.tolist()}"} }}'
        for name, cells in COLUMNS.items()
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "quantiles.toml"
        path.write_text(CONFIG.format(probabilities=PROBABILITIES.tolist(), axes=",\n".join(axes)))
        return make_plan(load_config(path), date(2026, 11, 20))


def ours(counts: list[np.ndarray]) -> Draw:
    """Released by the functions of the product: both stages, or one where the plan has no more."""
    plan, rows = plan_of_ours(), int(counts[0].sum())

    def released(answer: Any, rng: np.random.Generator) -> Any:
        """Noisy integers of an answer."""
        exact = np.zeros((len(counts), max(answer.question.problem.sizes)), np.int64)
        for row, own, last in zip(exact, counts, answer.question.last_cells, strict=True):
            row[: last.size] = np.diff(np.cumsum(own)[last], prepend=0)
        return answer.design.release(NoiseKey(rng.bytes(32)), answer.question.problem.answers(exact))

    def draw(rng: np.random.Generator) -> np.ndarray:
        answer, stages = plan.answer, plan.designed.learning
        if stages is not None:
            drawn = [replace(each, released=released(each.stage.answer, rng)) for each in stages.blank(rows)]
            answer = plan.of_last_stage(stages.learned(drawn, rows)).answer
        return np.asarray(answer.arrays(released(answer, rng), rows)["quantile"][0])

    return draw


def by_tree(counts: list[np.ndarray], ends: list[Ends], branching: int) -> Draw:
    """Counts of blocks; each record is in one of each level of each column."""
    trees = [Tree((1, own.size), branching) for own in counts]
    scale = np.sqrt(sum(tree.levels for tree in trees)) / gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta)

    def draw(rng: np.random.Generator) -> np.ndarray:
        estimates = []
        for tree, own, cells in zip(trees, counts, ends, strict=True):
            answers = tree.answers(own[None].astype(np.int64)) + rng.normal(0.0, scale, tree.shape)
            cumulative = np.cumsum(tree.estimate(answers, np.full(tree.shape[0], scale))[0])
            column = ColumnBalances(cumulative - cumulative[-1] / 2.0, cumulative[-1], RankNoise(scale, scale))
            estimates.append([one.value for one in column.quantiles(PROBABILITIES, cells, np.arange(own.size), 1.96)])
        return np.array(estimates)

    return draw


def exponential(counts: list[np.ndarray], values: list[np.ndarray], ends: list[Ends], median: float) -> Draw:
    """Borders, or codes, drawn by their scores; the median of each column has this share of the column's budget."""
    rho = zero_concentrated(GUARANTEE) / len(counts)
    shares = rho * np.array([(1.0 - median) / 2.0, median, (1.0 - median) / 2.0])
    chances = []
    for own, (low, high) in zip(values, ends, strict=True):
        candidates = low if np.array_equal(low, high) else np.linspace(low[0], high[-1], CANDIDATES)
        below = np.searchsorted(np.sort(own), candidates, "left")
        above = own.size - np.searchsorted(np.sort(own), candidates, "right")
        scores = [np.abs((1.0 - p) * below - p * above) for p in PROBABILITIES]
        epsilons = np.sqrt(8.0 * shares)
        logs = [-e * s / (2.0 * max(p, 1.0 - p)) for e, s, p in zip(epsilons, scores, PROBABILITIES, strict=True)]
        weights = [np.exp(each - each.max()) for each in logs]
        chances.append((candidates, [each / each.sum() for each in weights]))
    sums = [(candidates, [np.cumsum(each) for each in own]) for candidates, own in chances]
    return lambda rng: np.array([[c[np.searchsorted(total[:-1], rng.random())] for total in each] for c, each in sums])


def errors(draw: Draw, values: list[np.ndarray], draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute errors and differences of ranks, shape (columns, probabilities) each."""
    rng = np.random.default_rng(1)
    truth = np.array([np.quantile(own, PROBABILITIES, method="inverted_cdf") for own in values])
    released = np.array([draw(rng) for _ in range(draws)])
    ranks = np.zeros(released.shape)
    for column, own in enumerate(map(np.sort, values)):
        first, last = (np.searchsorted(own, released[:, column], side) for side in ("left", "right"))
        wanted = PROBABILITIES * own.size
        ranks[:, column] = np.maximum(np.maximum(first - wanted, wanted - last), 0.0)
    return np.mean(np.abs(released - truth), axis=0), np.mean(ranks, axis=0)


def main() -> None:
    """Print errors and ratios."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS
    with threadpool_limits(1):
        values, ends = columns()
        counts = [counted(own, cells) for own, cells in zip(values, ends, strict=True)]
        own = errors(ours(counts), values, draws)
        splits = [errors(exponential(counts, values, ends, share), values, draws) for share in MEDIAN_SHARES]
        drawn = min(splits, key=lambda each: float(np.mean(each[1])))
        trees = [errors(by_tree(counts, ends, b), values, draws) for b in BRANCHINGS]
        tree = min(trees, key=lambda each: float(np.mean(each[1])))
    print("column, probability: error of ours, exponential, tree (ranks: the same); ratio to the better")
    for row, name in enumerate(COLUMNS):
        for place, p in enumerate(PROBABILITIES):
            sizes, ranks = ([float(each[kind][row, place]) for each in (own, drawn, tree)] for kind in (0, 1))
            better = min(sizes[1:])
            ratio = (
                f"{sizes[0] / better:.2f}" if better > 0.0 else ("both exact" if sizes[0] == 0.0 else "theirs exact")
            )
            shown = [", ".join(f"{each:.4g}" for each in part) for part in (sizes, ranks)]
            print(f"{name:>15} {p:.2f}: {shown[0]:<28} ({shown[1]:<24}); {ratio}")


if __name__ == "__main__":
    main()
