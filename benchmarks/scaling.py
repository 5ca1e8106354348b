"""Exact covariance sums with 1, 2 and 4 workers of this machine, beside the cost model; then the model for 1,024.

Values have 8 bits, as a plan chooses at these sizes.

Cores of a shared machine slow each other down, so each point is also compared with what the same number of processes
reach that only multiply integers in memory. ``python -m benchmarks.scaling [ROWS FEATURES] [--picture FILE.svg]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks import covariance, machine
from blockveil.engine.answers.cost import Machine, choose
from blockveil.engine.answers.rates import Rates
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.plan.machine_speed import measure

REPEATS = 5
WORKERS = (1, 2, 4)
FLEET = (1, 4, 16, 64, 256, 1024)
FLEET_WORK = Work(GrowthKind.PRODUCTS, 10_000_000, 20_000, (20_001, 20_001), symmetric=True, lead=1, largest=127)


def point(rows: int, features: int, workers: int, folder: Path) -> tuple[float, float]:
    """Median seconds of the exact sums and of multiplication alone."""
    box = Box(np.full(features, -3.0), np.full(features, 3.0), np.zeros(features))
    quantiser = Quantiser(box.coordinates(), 127, True, None, dither=Dither(features))
    store = covariance.open_store(folder)
    with covariance.cluster_of(workers) as client:
        ours = partial(covariance.ours, client, store, quantiser)
        multiply = partial(covariance.multiply_alone, client, rows, features, workers, single=True)
        pairs = [(covariance.seconds(ours), covariance.seconds(multiply)) for _ in range(REPEATS + 1)][1:]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def fleet(rates: Rates) -> list[tuple[int, float, str]]:
    """Predicted seconds for 10 million records of 20,000 features on ever more workers of 16 GiB."""
    found = []
    for workers in FLEET:
        cut = choose(FLEET_WORK, Machine(workers, 1, 16 * 2**30, rates), 2**25)
        found.append((workers, cut.exact_seconds, cut.explain()))
    return found


def draw(measured: list[tuple[int, float, float]], planned: list[tuple[int, float, str]], path: Path) -> None:
    """Speed-up measured and planned."""
    with matplotlib.rc_context({"svg.hashsalt": "blockveil", "font.size": 9.0}):
        figure = Figure(figsize=(6.4, 3.6), facecolor="white")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        workers = np.array([w for w, _, _ in planned])
        axes.loglog(workers, workers, color="#7d7d7d", lw=1, ls=":", label="as many times as workers")
        speed = planned[0][1] / np.array([t for _, t, _ in planned])
        axes.loglog(workers, speed, "o-", color="#0072b2", label="cost model, 10 million x 20,000")
        here = measured[0][1] / np.array([t for _, t, _ in measured])
        axes.loglog([w for w, _, _ in measured], here, "s", color="#d55e00", ms=8, label="measured on this machine")
        axes.set_xlabel("workers")
        axes.set_ylabel("times as fast as one worker")
        axes.legend(frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": "Blockveil"})


def main() -> None:
    """Measure, print, and draw where a picture is asked for."""
    words = sys.argv[1:]
    picture = Path(words[words.index("--picture") + 1]) if "--picture" in words else None
    numbers = [int(word) for word in words if word.isdigit()]
    rows, features = numbers if len(numbers) == 2 else (40_000, 2_000)
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        covariance.make_store(Path(folder) / "x", rows, features)
        for workers in WORKERS:
            ours, multiply = point(rows, features, workers, Path(folder) / "x")
            measured.append((workers, ours, multiply))
            efficiency = measured[0][1] / ours / workers
            ceiling = measured[0][2] / multiply / workers
            print(
                f"{workers} workers: {ours:.2f} s, efficiency {efficiency:.2f}; multiplication alone {ceiling:.2f}; "
                f"of what these cores allow {efficiency / ceiling:.2f}"
            )
    planned = fleet(measure(1))
    for workers, seconds, how in planned:
        print(f"{workers:>5} workers, 10,000,000 x 20,000: {seconds / 3600:8.2f} h   {how}")
    if picture is not None:
        draw(measured, planned, picture)


if __name__ == "__main__":
    machine.begin(1)
    from benchmarks import scaling  # workers find functions by the module's name

    scaling.main()
