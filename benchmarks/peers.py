"""What other libraries for differential privacy release for the same tasks, at the same proven guarantee.

Run ``python -m benchmarks.peers [--trials 100]``. No clock. diffprivlib and OpenDP stand beside where they are
installed (``pip install diffprivlib 'opendp[scikit-learn]' 'scikit-learn<1.8'`` into the environment of Blockveil); a
line says which are not. Each peer runs by its own calls, with the same public bounds. A pure epsilon is compared with
a pure epsilon, and noise with a delta with the same (epsilon, delta), as the peer's own accounting proves it.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import marginals
from benchmarks.papers import data, mvg
from benchmarks.papers.outcomes import noisy
from blockveil.engine.estimates.cells import cell_deviations
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import Problem

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
K = 2**15 - 1
CREDIT = Path(__file__).parents[1] / "configs" / "data" / "credit_default" / "credit_default.npz"
Errors = dict[str, float]


@dataclass(frozen=True)
class Task:
    """One line of the table.

    Attributes
    ----------
    name, metric
        What is asked, and how the answer is judged.
    pure
        Error by library at a pure epsilon.
    approximate
        The same at (epsilon, delta).
    """

    name: str
    metric: str
    pure: Errors
    approximate: Errors


def installed(name: str) -> Any:
    """A peer's module, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
            if name == "opendp.prelude":
                module.enable_features("contrib", "honest-but-curious", "floating-point")
            return module
    except ImportError:
        return None


def ours(problem: Problem, guarantee: ApproxDP, pure: bool) -> NoiseDesign:
    """Noise that ``auto`` chooses, or the best of a pure epsilon."""

    def only_pure(design: Any) -> None:
        loss: Loss = design.loss
        if loss.mu > 0.0:
            raise ValueError("the loss is not pure")

    found = compare(problem, guarantee, Metric("total"), only_pure if pure else lambda _: None)
    assert isinstance(found.design, NoiseDesign)
    return found.design


def gaussian_scale(dp: Any, distance: float, guarantee: ApproxDP) -> float:
    """The least scale that OpenDP's own accounting lets pass for a vector whose change has this length."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def measured(scale: float) -> Any:
        zero = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale))
        return dp.c.make_fix_delta(zero, guarantee.delta)

    return float(dp.binary_search_param(measured, d_in=distance, d_out=(guarantee.epsilon, guarantee.delta)))


def laplace_scale(dp: Any, distance: float, epsilon: float) -> float:
    """The same for a pure epsilon and the sum of absolute changes."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return float(dp.binary_search_param(lambda scale: dp.m.make_laplace(*space, scale), d_in=distance, d_out=epsilon))


def of_laplace(dp: Any, changes: float, epsilon: float) -> float:
    """Root mean squared error of Laplace noise by OpenDP."""
    return float(np.sqrt(2.0) * laplace_scale(dp, changes, epsilon))


def counts(trials: int) -> Task:
    """R1SMG's grid: 89 x 89 cells, one record added or removed, (0.5, 1e-7)."""
    guarantee, problem = ApproxDP(0.5, 1e-7), Counts((89, 89), ADD, 10_000)
    pure, approximate = (
        {"blockveil": _root_mean(ours(problem, guarantee, alone).entry_standard_deviation())} for alone in (True, False)
    )
    if tools := installed("diffprivlib.tools"):
        empty, runs = np.zeros((0, 2)), max(trials // 20, 1)
        drawn = [
            tools.histogramdd(empty, epsilon=0.5, bins=89, range=[(0, 1), (0, 1)], random_state=trial)[0]
            for trial in range(runs)
        ]
        # Its counts are cut off at zero, which no answer of an empty cell shows; full cells have noise on both sides.
        pure["diffprivlib"] = float(np.sqrt(2.0 * np.mean(np.square(drawn))))
    if dp := installed("opendp.prelude"):
        pure["opendp"] = of_laplace(dp, 1.0, guarantee.epsilon)
        approximate["opendp"] = gaussian_scale(dp, 1.0, guarantee)
    return Task("counts of 89 x 89 cells, (0.5, 1e-7)", "RMSE of a cell", pure, approximate)


def means(trials: int) -> Task:
    """Means of the demo's 23 columns about the middle of their bounds, in half widths; 30,000 records, (1, 1e-6)."""
    guarantee, records = ApproxDP(1.0, 1e-6), 30_000
    with np.load(CREDIT) as bundle:
        values = bundle["records"].astype(float)
    low, high = values.min(axis=0), values.max(axis=0)  # any bounds do: errors are in widths of them
    x = 2.0 * (values - low) / (high - low) - 1.0
    # The number of records is public where one is replaced, as it is for both peers.
    problem = Totals(Body.CUBE, np.ones(23), REPLACE, K, records)
    pure, approximate = (
        {"blockveil": _root_mean(ours(problem, guarantee, alone).entry_standard_deviation()) / records}
        for alone in (True, False)
    )
    if tools := installed("diffprivlib.tools"):
        bounds = (np.full(23, -1.0), np.full(23, 1.0))
        drawn = [tools.mean(x, epsilon=1.0, bounds=bounds, axis=0, random_state=trial) for trial in range(trials)]
        pure["diffprivlib"] = _root_mean(np.array(drawn) - x.mean(axis=0))
    if dp := installed("opendp.prelude"):
        pure["opendp"] = of_laplace(dp, 2.0 * 23, guarantee.epsilon) / records
        approximate["opendp"] = gaussian_scale(dp, 2.0 * 23**0.5, guarantee) / records
    return Task("means of 23 columns, 30,000 records, (1, 1e-6)", "RMSE in half widths", pure, approximate)


def tables(_: int) -> Task:
    """All 28 tables of two of Adult's eight categorical columns, one record added or removed, (1, 1e-6)."""
    guarantee, asked = marginals.GUARANTEE, marginals.CASES["two-way, eight columns of Adult"]
    cells = sum(int(np.prod([asked.sizes[axis] for axis in axes])) for axes in asked.tables)
    problem, number = marginals.Marginals(asked, ADD, 100_000), len(asked.tables)
    pure = {"blockveil": _root_mean(cell_deviations(ours(problem, guarantee, True)))}
    approximate = {
        "blockveil": _root_mean(cell_deviations(marginals.ResidualNoise().design(problem, guarantee))),
        "ResidualPlanner's closed form": float(np.sqrt(marginals.least(asked, ADD) / cells)),
    }
    if dp := installed("opendp.prelude"):
        pure["opendp"] = of_laplace(dp, float(number), guarantee.epsilon)
        approximate["opendp"] = gaussian_scale(dp, number**0.5, guarantee)
    if installed("diffprivlib.mechanisms"):
        # A histogram a table, each with its share of epsilon, by the mechanism that its histograms call.
        made = installed("diffprivlib.mechanisms").Geometric(epsilon=guarantee.epsilon / number, sensitivity=1)
        pure["diffprivlib"] = _root_mean(np.array([made.randomise(0) for _ in range(cells)], dtype=float))
    return Task("28 two-way tables of Adult, (1, 1e-6)", "RMSE of a cell", pure, approximate)


def first_component(trials: int) -> Task:
    """MVG II: the leading direction of four signals, 10,176 made-up records in [-1, 1], (1, 9.8e-5)."""
    guarantee = ApproxDP(1.0, 9.8e-5)
    problem = SecondMoment(Body.CUBE, np.ones(4), REPLACE, K, 10_176, False)
    found: dict[bool, Errors] = {}
    for alone in (True, False):
        design = ours(problem, guarantee, alone)
        found[alone] = {"blockveil": _over(trials, lambda trial, design=design: _direction_lost(trial, design))}
    if models := installed("diffprivlib.models"):
        found[True]["diffprivlib"] = _over(trials, lambda trial: _by_diffprivlib(models, trial))
    if (dp := installed("opendp.prelude")) and installed("sklearn"):
        found[True]["opendp"] = _over(trials, lambda trial: _by_opendp(dp, trial))
    name = "first component of 4 signals, 10,176 records, (1, 9.8e-5)"
    return Task(name, "variance lost", found[True], found[False])


def _direction_lost(trial: int, design: NoiseDesign) -> float:
    records = data.signals(trial)
    truth = records.T @ records
    return mvg.lost(truth, noisy(design, truth, trial)) / len(records)


def _by_diffprivlib(models: Any, trial: int) -> float:
    records = data.signals(trial)
    # About a public centre, as here: the origin.
    made = models.PCA(1, epsilon=1.0, data_norm=2.0, centered=True, random_state=trial).fit(records)
    return _lost_by(records, made.components_[0])


def _by_opendp(dp: Any, trial: int) -> float:
    records = data.signals(trial)
    made = dp.sklearn.decomposition.PCA(epsilon=1.0, row_norm=2.0, n_samples=10_176, n_features=4, n_components=1)
    return _lost_by(records, made.fit(records).components_[0])


def _lost_by(records: np.ndarray, direction: np.ndarray) -> float:
    truth, unit = records.T @ records / len(records), direction / np.linalg.norm(direction)
    return float(np.linalg.eigvalsh(truth)[-1] - unit @ truth @ unit)


def regression(trials: int) -> Task:
    """MVG I: a regression on the liver data, 248 records learn and 97 test, (1, 0.004)."""
    guarantee = ApproxDP(1.0, 0.004)
    problem = SecondMoment(Body.CUBE, np.ones(6), REPLACE, K, 248, True)
    found: dict[bool, Errors] = {}
    for alone in (True, False):
        design = ours(problem, guarantee, alone)
        found[alone] = {"blockveil": _over(trials, lambda trial, design=design: _liver(trial, design))}
    if models := installed("diffprivlib.models"):
        found[True]["diffprivlib"] = _over(trials, lambda trial: _liver_by_diffprivlib(models, trial))
    return Task("regression, 248 records of liver, (1, 0.004)", "RMSE in [-1, 1]", found[True], found[False])


def _liver(trial: int, design: NoiseDesign) -> float:
    learn, test = data.liver(trial)
    exact = np.column_stack([np.ones(len(learn)), learn])
    return mvg.rmse(*mvg.covariance_and_mean(noisy(design, exact.T @ exact, trial), design), test)


def _liver_by_diffprivlib(models: Any, trial: int) -> float:
    learn, test = data.liver(trial)
    made = models.LinearRegression(epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=trial)
    predicted = np.clip(made.fit(learn[:, :5], learn[:, 5]).predict(test[:, :5]), -1.0, 1.0)
    return _root_mean(predicted - test[:, 5])


def _over(trials: int, run: Callable[[int], float]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of floats and of what they would have learned from the data
        return float(np.mean([run(trial) for trial in range(trials)]))


def _root_mean(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


TASKS = (counts, means, tables, first_component, regression)


def lines(trials: int) -> list[str]:
    """The table, a line for each task and kind of guarantee."""
    rows = ["| task | error | guarantee | Blockveil | diffprivlib | OpenDP |", "|---|---|---|---|---|---|"]
    for made in TASKS:
        task = made(trials)
        for kind, found in (("pure", task.pure), ("with delta", task.approximate)):
            if kind == "with delta" and found["blockveil"] == task.pure["blockveil"] and len(found) == 1:
                continue
            cells = " | ".join(f"{found[peer]:.3g}" if peer in found else "-" for peer in _PEERS)
            rows.append(f"| {task.name} | {task.metric} | {kind} | {cells} |")
        if (closed := task.approximate.get("ResidualPlanner's closed form")) is not None:
            rows.append(
                f"| the same by ResidualPlanner's closed form | {task.metric} | with delta | {closed:.4g} | | |"
            )
    return rows


_PEERS = ("blockveil", "diffprivlib", "opendp")


def main() -> None:
    """Print the table, and what is not installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    for name in ("diffprivlib.tools", "opendp.prelude"):
        if installed(name) is None:
            print(f"{name.partition('.')[0]} is not installed: its column is empty.\n")
    print("\n".join(lines(trials)))


if __name__ == "__main__":
    main()
