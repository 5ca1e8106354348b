"""Error of correlations and covariances where a night learns where its records lie, beside the declared box.

Run ``python -m benchmarks.learning [NIGHTS]``. Every row is of releases of the product at epsilon 1 and delta 1e-6,
each with a key of its own: root mean square error of correlations by the released covariance (where that has a variance
below zero, the share of such entries), mean of their squared errors over squared standard errors, and the error of the
covariance in half widths, in the Frobenius norm, over that of the matrix. Where a night learns, first nights are a row,
and nights that learn from the one before are another. There is no clock.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.load import load_tables
from blockveil.pipeline.data.quickstart import CONFIG, SOURCE
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

FIRST = date(2026, 11, 1)
SHAPES = (None, "correlation", "covariance")


@dataclass(frozen=True, eq=False)
class Records:
    """Records and the bounds that are declared for them, shapes (n, d) and (d,)."""

    name: str
    values: np.ndarray[Any, np.dtype[np.float64]]
    lower: np.ndarray[Any, np.dtype[np.float64]]
    upper: np.ndarray[Any, np.dtype[np.float64]]

    def wider(self, times: float) -> Records:
        """The same records in bounds that are so many times as wide."""
        middle, half = (self.lower + self.upper) / 2.0, times * (self.upper - self.lower) / 2.0
        return Records(f"{self.name}, bounds {times:g} times as wide", self.values, middle - half, middle + half)


def demo() -> Records:
    """The credit-card holders of the demo."""
    features = load_config(CONFIG).config.query.geometry.features
    values = np.load(SOURCE)["records"]
    lower, upper = (np.array([getattr(each, end) for each in features], float) for end in ("lower", "upper"))
    return Records("demo, 30,000 x 23", values.astype(float), lower, upper)


def made_up(rows: int, features: int, spread: float, tails: float | None = None) -> Records:
    """Correlated records of a standard deviation in widths of their bounds, with tails of Student's t or none."""
    rng = np.random.default_rng(3)
    mixed = rng.normal(size=(features, features)) / np.sqrt(features) + np.eye(features) / 2.0
    drawn = rng.normal(size=(rows, features)) if tails is None else rng.standard_t(tails, (rows, features))
    values = drawn @ mixed.T
    values = values / values.std(axis=0) * 2.0 * spread + rng.uniform(-0.3, 0.3, features)
    name = f"made up, {rows:,} x {features}, standard deviation {spread:.2g} of the width"
    ones = np.ones(features)
    return Records(name if tails is None else f"{name}, tails of t({tails:g})", values, -ones, ones)


def even(rows: int, features: int) -> Records:
    """Records that fill their bounds."""
    values = np.random.default_rng(4).uniform(-1.0, 1.0, (rows, features))
    return Records(f"even, {rows:,} x {features}", values, -np.ones(features), np.ones(features))


def nights(folder: Path, records: Records, learn: str | None, count: int) -> Iterator[Any]:
    """Released groups of so many nights, each of which may learn from the one before."""
    folder.mkdir(exist_ok=True)
    group = zarr.open_group(folder / "records.zarr", mode="w")
    group.create_array("records", data=records.values, chunks=(10_000, records.values.shape[1]))
    features = [
        {"name": f"x{place}", "lower": float(low), "upper": float(high)}
        for place, (low, high) in enumerate(zip(records.lower, records.upper, strict=True))
    ]
    shape = {"kind": "box", "origin": "midpoint", "features": features} | ({} if learn is None else {"learn": learn})
    tables = {
        "release": {"dataset": "records", "name": "covariance"},
        "data": {"store": "records.zarr", "array": "records"},
        "query": {
            "kind": "covariance",
            "rows_at_most": 2 * len(records.values),
            "missing": "refuse",
            "geometry": shape,
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove", "unit": "one row"},
        "mechanism": {"kind": "shaped-gaussian", "optimise_for": "relative-error"},
        "cluster": {"kind": "threads"},
        "output": {"root": "releases", "ledger": "ledger.db", "keys": "keys"},
    }
    loaded = load_tables(tables, folder)
    Ledger(loaded.ledger_url).set_budget(
        dataset="records", epsilon=20.0, delta=1e-4, neighbours=Neighbours.ADD_REMOVE, privacy_unit="one row"
    )
    for night in range(count):
        plan = make_plan(loaded, FIRST + timedelta(days=night))
        outcome = run_release(plan, ThreadCompute(2), "benchmark", lambda _stage, _share: None)
        yield zarr.open_group(outcome.path, mode="r")


def rows(records: Records, learn: str | None, count: int) -> Iterator[str]:
    """Lines of the table: of first nights, and of those after them where they learn."""
    with tempfile.TemporaryDirectory() as folder, np.errstate(invalid="ignore"):
        if learn is None:
            yield _row(records, "box", [_errors(each, records) for each in nights(Path(folder), records, learn, count)])
            return
        first = [_errors(next(nights(Path(folder) / str(k), records, learn, 1)), records) for k in range(count)]
        yield _row(records, f'learn = "{learn}", first night', first)
        series = nights(Path(folder) / "series", records, learn, count + 1)
        later = [_errors(each, records) for each in series][1:]
        yield _row(records, f'learn = "{learn}", later nights', later)


def _errors(group: Any, records: Records) -> tuple[float, ...]:
    half = (records.upper - records.lower) / 2.0
    truth = np.cov(np.clip(records.values, records.lower, records.upper).T / half[:, None], bias=True)
    pairs = np.triu_indices(len(truth), 1)
    matrix = group["covariance"][...] / np.outer(half, half)
    error = group["covariance_standard_deviation"][...] / np.outer(half, half)
    correlation = (_correlation(matrix) - _correlation(truth))[pairs]
    scores = ((matrix - truth) / error)[np.triu_indices(len(truth))]
    return (
        float(np.sqrt(np.nanmean(correlation**2))),
        float(np.mean(np.isnan(correlation))),
        float(np.linalg.norm(matrix - truth) / np.linalg.norm(truth)),
        float(np.mean(scores**2)),
        float(group.attrs.asdict().get("learned", {}).get("shortened", 0.0)),
    )


def _row(records: Records, shape: str, errors: list[tuple[float, ...]]) -> str:
    of_correlations, missing, frobenius, scores, shortened = np.mean(errors, axis=0)
    lost = f" ({100 * missing:.0f} % none)" if missing else ""
    return (
        f"| {records.name} | {shape} | {of_correlations:.3g}{lost} | {frobenius:.3g} | {scores:.2f} | "
        f"{100 * shortened:.1f} % |"
    )


def _correlation(matrix: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    roots = np.sqrt(np.diagonal(matrix))
    return matrix / np.outer(roots, roots)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| records | shape | correlations | covariance, relative | mean squared score | shortened |")
    print("|---|---|---|---|---|---|")
    for records in (
        demo(),
        demo().wider(10.0),
        made_up(30_000, 20, 1 / 6),
        made_up(100_000, 100, 1 / 12),
        made_up(30_000, 20, 1 / 20, tails=3.0),
        even(30_000, 10),
        even(300_000, 6),
    ):
        for learn in SHAPES:
            for line in rows(records, learn, count):
                print(line, flush=True)


if __name__ == "__main__":
    main()
