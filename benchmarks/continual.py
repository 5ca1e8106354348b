"""Noise of nights over growing records that share one charge, against independent nights of the same charge.

Run ``python -m benchmarks.continual [--figure docs/continual.svg]``. All numbers are standard deviations over that of
one release for the whole charge, root mean squares over all nights; there is no clock. ``measured`` is that of noise
that the sampler drew for every night, 4,096 entries a night.

The last column is the best that is known for real-valued factorisations (square root of the prefix matrix). Its noise
is no whole combination of grid noise, so it is not offered; see :mod:`.continual`.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from blockveil.engine.noise.continual import Chains, best, binary, independent
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey, noise_block

NIGHTS = (7, 30, 90, 365, 1000, 3650)
SHOWN = 365
_SIDE = 64
_KEY = NoiseKey(bytes(32))


def typical(chains: Chains) -> float:
    """Root mean square over all nights."""
    return math.sqrt(float(np.mean(chains.factors**2)))


def measured(chains: Chains) -> float:
    """The same from drawn noise: each night's is that of the night it starts from, and its own."""
    size, total = (0, _SIDE), 0.0
    known = {0: np.zeros((_SIDE, _SIDE))}
    for night, start in enumerate(chains.starts, 1):
        own = noise_block(_KEY, size, size, grid=GRID_TWO_LEVEL, symmetric=False, stream=night)
        known[night] = known[start] + own
        total += float(np.mean(known[night] ** 2))
    return math.sqrt(chains.cover * total / chains.nights) / GRID_TWO_LEVEL.standard_deviation


def real_valued(nights: int) -> float:
    """Largest error of the square root of the prefix matrix: the sum of its squared coefficients."""
    coefficient, total = 1.0, 0.0
    for k in range(nights):
        total += coefficient**2
        coefficient *= (2 * k + 1) / (2 * k + 2)
    return total


def draw(path: Path) -> None:
    """Error of each night of a year, legible on light and dark paper."""
    ink = "#7d7d7d"
    with matplotlib.rc_context({"svg.hashsalt": "blockveil", "font.size": 9.0}):
        figure = Figure(figsize=(8.4, 3.4), facecolor="none", layout="constrained")
        axes = figure.add_subplot()
        for label, chains, colour in (
            ("independent nights", independent(SHOWN), "#d55e00"),
            ("binary tree", binary(SHOWN), ink),
            ("shared noise", best(SHOWN), "#0072b2"),
        ):
            axes.step(np.arange(1, SHOWN + 1), chains.factors, where="mid", color=colour, linewidth=1.0, label=label)
        axes.set_xlabel("night", color=ink)
        axes.set_ylabel("standard deviation of the noise", color=ink)
        axes.set_title(f"{SHOWN} nights in one charge; one release for all of the charge has 1", color=ink)
        axes.set_ylim(0.0, 1.1 * math.sqrt(SHOWN))
        axes.set_xlim(0, SHOWN)
        axes.legend(frameon=False, labelcolor=ink, loc="center right", bbox_to_anchor=(1.0, 0.7))
        axes.set_facecolor("none")
        axes.tick_params(colors=ink)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(ink)
        FigureCanvasSVG(figure)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def main() -> None:
    """Print the table; draw the figure where asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=Path)
    path = parser.parse_args().figure
    print("nights  independent  binary tree (largest)  shared (largest)  measured  gain  real-valued")
    for nights in NIGHTS:
        tree, shared = binary(nights), best(nights)
        alone = typical(independent(nights))
        print(
            f"{nights:6,}  {alone:11.2f}  {typical(tree):11.2f} ({tree.factors.max():.2f})  {typical(shared):12.2f} "
            f"({shared.factors.max():.2f})  {measured(shared):8.2f}  {alone / typical(shared):4.2f}  "
            f"{real_valued(nights):10.2f}"
        )
    if path is not None:
        draw(path)


if __name__ == "__main__":
    main()
