"""Error of correlations and covariances where a night learns where its records lie, beside the declared box.

Run ``python -m benchmarks.learning [NIGHTS] [SET ...]``, with sets of :data:`SETS`, or ``means`` or ``cost`` alone.
Every row is of so many releases of the product at epsilon 1 and delta 1e-6, each with a key of its own: root mean
square error of ``release.correlation`` and the mean of its squared errors over squared standard errors; root mean
square error of the ratios of released entries, and the share of these that are none; error of the covariance in half
widths, in the Frobenius norm, over that of the matrix, and the mean of its squared errors over squared standard errors.
Where a night learns, first nights are a row, and nights that learn from the one before are another. Seven nights as one
are a row of one key. Beside them is an ellipsoid about the true means and deviations that holds 99 of 100 records, as
if it were known, and what others release (:mod:`.learning_peers`). ``means`` are those of totals. Only ``cost`` has a
clock: processor and wall time of a night that learns over those of one in the box, of the 60,000 x 784 of ``large``,
medians of interleaved nights.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

import blockveil as bv
from benchmarks import machine
from benchmarks.learning_peers import peers
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.config.load import load_tables
from blockveil.pipeline.data.quickstart import CONFIG, SOURCE
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

FIRST = date(2026, 11, 1)
SHAPES = ("box", "ellipsoid given", "correlation", "covariance")
_WIDEST = 200
"""Features up to which correlations and their errors are estimated."""


@dataclass(frozen=True, eq=False)
class Records:
    """Records, shape (n, d), and their bounds, shape (d,), which are declared unless they are learned in wider ones."""

    name: str
    values: np.ndarray[Any, np.dtype[np.float64]]
    lower: np.ndarray[Any, np.dtype[np.float64]]
    upper: np.ndarray[Any, np.dtype[np.float64]]
    learned_in: float | None = None

    def wider(self, times: float) -> Records:
        """The same records, cut to their bounds, in bounds that are so many times as wide."""
        middle, half = (self.lower + self.upper) / 2.0, times * (self.upper - self.lower) / 2.0
        values = np.clip(self.values, self.lower, self.upper)
        return Records(f"{self.name}, bounds {times:g} times as wide", values, middle - half, middle + half)


def unknown() -> Records:
    """The demo's records, of whose bounds no more is said than that they lie within a million millions."""
    known = demo()
    return Records(f"{known.name}, bounds of 1e12", known.values, known.lower, known.upper, 1e12)


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


def flights(rows: int = 327_346) -> Records:
    """Made-up flights: hours, distances and times in the air of wide spread, and delays of which few are huge."""
    rng = np.random.default_rng(5)
    distance = np.clip(rng.lognormal(6.7, 0.7, rows), 80.0, 5_000.0)
    air = distance / 8.0 + rng.normal(20.0, 8.0, rows)
    late = np.where(rng.random(rows) < 0.4, rng.exponential(40.0, rows), rng.normal(-5.0, 5.0, rows))
    hours = rng.uniform(5.0, 23.0, rows)
    arrival = late + rng.normal(-5.0, 15.0, rows)
    values = np.stack([hours, late, hours + air / 60.0, arrival, air, distance], axis=1)
    lower, upper = np.array([0.0, -60, 0, -90, 0, 0]), np.array([24.0, 1_400, 30, 1_400, 720, 5_000])
    return Records(f"flights, {rows:,} x 6", values, lower, upper)


def even(rows: int, features: int) -> Records:
    """Records that fill their bounds."""
    values = np.random.default_rng(4).uniform(-1.0, 1.0, (rows, features))
    return Records(f"even, {rows:,} x {features}", values, -np.ones(features), np.ones(features))


def nights(folder: Path, records: Records, learn: str, count: int) -> Iterator[Path]:
    """Released groups of so many nights, each of which may learn from the one before."""
    return released(stored(folder, records, learn), count)


def stored(folder: Path, records: Records, learn: str, means: bool = False) -> LoadedConfig:
    """The records in a store, with a config of nights of their own, of totals or of a covariance."""
    folder.mkdir(exist_ok=True)
    group = zarr.open_group(folder / "records.zarr", mode="w")
    group.create_array("records", data=records.values, chunks=(10_000, records.values.shape[1]))
    features = [
        {"name": f"x{place}", "lower": float(low), "upper": float(high)}
        for place, (low, high) in enumerate(zip(records.lower, records.upper, strict=True))
    ]
    shape: dict[str, Any] = {"kind": "box", "origin": "midpoint", "features": features}
    if learn == "ellipsoid given":
        shape = {"kind": "ellipsoid", "shape": "diagonal", "features": _given(records)}
    elif learn != "box":
        shape["learn"] = learn
    if records.learned_in is not None:
        features = [each | {"lower": -records.learned_in, "upper": records.learned_in} for each in features]
        shape |= {"learn_bounds": True, "features": features}
    tables = {
        "release": {"dataset": "records", "name": "covariance"},
        "data": {"store": "records.zarr", "array": "records"},
        "query": {
            "kind": "totals" if means else "covariance",
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
    return loaded


def released(loaded: LoadedConfig, count: int) -> Iterator[Path]:
    """As :func:`nights`."""
    for night in range(count):
        plan = make_plan(loaded, FIRST + timedelta(days=night))
        outcome = run_release(plan, ThreadCompute(2), "benchmark", lambda _stage, _share: None)
        yield outcome.path


def _given(records: Records) -> list[dict[str, Any]]:
    """Axes of an ellipsoid by the records themselves."""
    mean, size = records.values.mean(axis=0), np.maximum(records.values.std(axis=0), 1e-9)
    radius = np.quantile(np.linalg.norm((records.values - mean) / size, axis=1), 0.99)
    pairs = zip(mean.tolist(), (size * radius).tolist(), strict=True)
    return [{"name": f"x{place}", "origin": at, "semi_axis": length} for place, (at, length) in enumerate(pairs)]


class Errors(NamedTuple):
    """Errors of one release, as the module says; NaN where there are none."""

    correlation: float
    squared_scores: float
    of_ratios: float
    none: float
    covariance: float
    squared_of_covariance: float


def rows(records: Records, learn: str, count: int) -> Iterator[str]:
    """Lines of the table: of first nights, and of those after them where they learn."""
    with tempfile.TemporaryDirectory() as folder, np.errstate(invalid="ignore"):
        if learn not in ("correlation", "covariance"):
            opened = [bv.open(each) for each in nights(Path(folder), records, learn, count)]
            yield _row(records, learn, [_errors(each, records) for each in opened])
            yield from _of_several(records, learn, opened)
            return
        first = [
            _errors(bv.open(next(nights(Path(folder) / str(k), records, learn, 1))), records) for k in range(count)
        ]
        yield _row(records, f'learn = "{learn}", first night', first)
        series = nights(Path(folder) / "series", records, learn, count + 1)
        opened = [bv.open(each) for each in series]
        yield _row(records, f'learn = "{learn}", later nights', [_errors(each, records) for each in opened[1:]])
        yield from _of_several(records, f'learn = "{learn}"', opened)


def _of_several(records: Records, shape: str, opened: list[bv.Release]) -> Iterator[str]:
    """A line of up to seven nights as one, where correlations are estimated."""
    if len(opened) > 1 and records.values.shape[1] <= _WIDEST:
        together = bv.combine(opened[:7], drift=0.0)
        yield _row(records, f"{shape}, {len(together.release_ids)} nights as one", [_errors(together, records)])


def of_peers(records: Records, count: int) -> Iterator[str]:
    """Lines of what others release."""
    half, middle = _half(records), (records.upper + records.lower) / 2.0
    inside = (np.clip(records.values, records.lower, records.upper) - middle) / half
    truth = np.cov(inside.T, bias=True)
    with np.errstate(invalid="ignore"):
        for name, found in peers(inside, count):
            yield _row(records, name, [Errors(np.nan, np.nan, *_of_matrix(each, truth), np.nan) for each in found])


def _half(records: Records) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray((records.upper - records.lower) / 2.0)


def _of_matrix(matrix: Any, truth: Any) -> tuple[float, float, float]:
    apart = (_correlation(matrix) - _correlation(truth))[np.triu_indices(len(truth), 1)]
    far = float(np.linalg.norm(matrix - truth) / np.linalg.norm(truth))
    return float(np.sqrt(np.nanmean(apart**2))), float(np.mean(np.isnan(apart))), far


def _errors(release: bv.Release, records: Records) -> Errors:
    half = _half(records)
    truth = np.cov(np.clip(records.values, records.lower, records.upper).T / half[:, None], bias=True)
    units, pairs = np.outer(half, half), np.triu_indices(len(truth), 1)
    matrix, error = (np.asarray(each) / units for each in (release.covariance, release.standard_error.covariance))
    best, score = np.nan, np.nan
    if len(truth) <= _WIDEST:
        apart = (np.asarray(release.correlation) - _correlation(truth))[pairs]
        best, score = (
            np.sqrt(np.mean(apart**2)),
            np.mean((apart / np.asarray(release.standard_error.correlation)[pairs]) ** 2),
        )
    scores = ((matrix - truth) / error)[np.triu_indices(len(truth))]
    return Errors(float(best), float(score), *_of_matrix(matrix, truth), float(np.mean(scores**2)))


def _row(records: Records, shape: str, errors: list[Errors]) -> str:
    found = Errors(*np.mean(errors, axis=0))
    cells = [
        _written(found.correlation),
        _written(found.squared_scores),
        _written(found.of_ratios) + (f" ({100 * found.none:.0f} % none)" if found.none else ""),
        _written(found.covariance),
        _written(found.squared_of_covariance),
    ]
    return f"| {records.name} | {shape} | {' | '.join(cells)} |"


def _written(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.3g}"


def _correlation(matrix: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    roots = np.sqrt(np.diagonal(matrix))
    return matrix / np.outer(roots, roots)


def pictures(rows: int = 60_000, side: int = 28) -> Records:
    """Made-up pictures with values from 0 to 1, most of them dark, as handwritten digits are."""
    rng, places = np.random.default_rng(6), np.mgrid[0:side, 0:side] / (side - 1.0)
    values = np.zeros((rows, side, side), np.float32)
    for start in range(0, rows, 2_000):
        part = values[start : start + 2_000]
        for _ in range(4):
            at, size = rng.normal(0.5, 0.12, (2, len(part), 1, 1)), rng.uniform(0.03, 0.09, (len(part), 1, 1))
            part += np.exp(-((places[0] - at[0]) ** 2 + (places[1] - at[1]) ** 2) / (2.0 * size**2))
        np.clip(part * 1.3 - 0.15, 0.0, 1.0, out=part)
    flat = values.reshape(rows, side * side).astype(float)
    return Records(f"pictures, {rows:,} x {side * side}", flat, np.zeros(side * side), np.ones(side * side))


def cost(count: int) -> Iterator[str]:
    """Lines of what first and later nights take beside a night in the box between them."""
    records, spent = pictures(), dict[str, list[tuple[float, float]]]()
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(count + 1):
            box, learns = (
                released(stored(Path(folder) / f"{learn}-{repeat}", records, learn), 2)
                for learn in ("box", "covariance")
            )
            next(box)  # the pages of what was stored are written meanwhile
            for name, series in (("first night", learns), ("box", box), ("later night", learns)):
                processor, wall = time.process_time(), time.perf_counter()
                next(series)
                taken = time.process_time() - processor, time.perf_counter() - wall
                spent.setdefault(name, []).extend([taken] * (repeat > 0))
    for name in ("first night", "later night"):
        ratios = [
            statistics.median(mine[k] / box[k] for mine, box in zip(spent[name], spent["box"], strict=True))
            for k in range(2)
        ]
        yield f'{name} of "covariance": {ratios[0]:.2f} times the processor time of the box, {ratios[1]:.2f} the wall'


def of_means(count: int) -> Iterator[str]:
    """Lines of errors of the demo's means in standard deviations, and of their squares over stated squared errors."""
    for records in (demo(), demo().wider(10.0), unknown()):
        inside = np.clip(records.values, records.lower, records.upper)
        for learn in ("mean",) if records.learned_in else ("box", "mean"):
            errors, scores = [], []
            with tempfile.TemporaryDirectory() as folder:
                for path in released(stored(Path(folder), records, learn, means=True), count):
                    release = bv.open(path)
                    apart = np.asarray(release.mean) - inside.mean(axis=0)
                    errors.append(float(np.sqrt(np.mean((apart / inside.std(axis=0)) ** 2))))
                    scores.append(float(np.mean((apart / np.asarray(release.standard_error.mean)) ** 2)))
            shape = "box" if learn == "box" else f'learn = "{learn}"'
            yield f"| {records.name} | {shape} | {np.mean(errors):.2g} | {np.mean(scores):.2g} |"


SETS: dict[str, tuple[Callable[[], Records], ...]] = {
    "demo": (demo,),
    "wide": (lambda: demo().wider(10.0),),
    "unknown": (unknown,),
    "made-up": (lambda: made_up(30_000, 20, 1 / 6), lambda: made_up(100_000, 100, 1 / 12)),
    "tails": (lambda: made_up(30_000, 20, 1 / 20, tails=3.0),),
    "even": (lambda: even(30_000, 10), lambda: even(300_000, 6)),
    "flights": (flights,),
    "large": (pictures,),
}


def main() -> None:
    """Print the table."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    count, named = (numbers or [5])[0], [word for word in sys.argv[1:] if not word.isdigit()]
    if named == ["cost"]:
        print(*cost(count), sep="\n")
        return
    if named == ["means"]:
        print("| records | shape | means, in standard deviations | squared scores |\n|---|---|---|---|")
        print(*of_means(count), sep="\n")
        return
    print(
        "| records | shape | `release.correlation` | squared scores | ratios | covariance, relative | squared scores |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in named or SETS:
        for made in SETS[name]:
            records = made()
            for learn in ("correlation",) if records.learned_in else SHAPES:
                for line in rows(records, learn, count):
                    print(line, flush=True)
            if records.values.shape[1] <= _WIDEST and not records.learned_in:
                for line in of_peers(records, count):
                    print(line, flush=True)


if __name__ == "__main__":
    machine.begin()
    main()
