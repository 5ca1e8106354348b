"""Noise of nights over growing records that share one charge, against independent nights of the same charge.

Run ``python -m benchmarks.continual [--figure docs/continual.svg]``. All numbers are standard deviations over that of
one release for the whole charge, root mean squares over all nights; there is no clock. ``measured`` is that of noise
that the sampler drew for every night, 4,096 entries a night. ``bound`` is below what any real-valued factorisation
reaches, by duality; beyond a year it is the error of the best factorisation that is known.

The second table is of changes: over a day, a week and a month up to the last night.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.engine.noise.level_strategy import Levels, least_noise

NIGHTS = (7, 30, 90, 365, 1000, 3650)
SPANS = (("day", 1), ("week", 7), ("month", 30))
SHOWN = 365
_SIDE = 64
_SWEEPS = 12
_LARGEST_BOUND = 365
_KNOWN = {1000: 2.95, 3650: 3.46}
"""Best lower-triangular and best Toeplitz factorisation that are known, where the bound would take too long."""


def typical(factors: np.ndarray) -> float:
    """Root mean square over all nights."""
    return math.sqrt(float(np.mean(factors**2)))


def binary_tree(nights: int) -> np.ndarray:
    """Standard deviation of each night where night t adds to night t without its lowest bit, shape (nights,)."""
    depths = np.array([night.bit_count() for night in range(1, nights + 1)], dtype=np.float64)
    return np.sqrt(nights.bit_length() * depths)


def measured(levels: Levels) -> float:
    """The same from drawn noise: each night is measured with noise of its own and read with earlier nights."""
    size, total, read = (0, _SIDE), 0.0, dict[int, np.ndarray]()
    for night in range(1, levels.nights + 1):
        key = NoiseKey(night.to_bytes(32, "big"))
        own = noise_block(key, size, size, grid=GRID_TWO_LEVEL, symmetric=False)
        read[night] = levels.estimate(own, night, read.__getitem__)
        total += float(np.mean(read[night] ** 2))
    return math.sqrt(levels.squared_norm * total / levels.nights) / GRID_TWO_LEVEL.standard_deviation


def bound(nights: int) -> float:
    """Below the error of every factorisation of the prefix matrix, lower-triangular ones included.

    The least of ``tr(M X^-1)`` over X with ones on the diagonal, ``M = A' A``, is at least ``(tr (V^1/2 M V^1/2)^1/2)^2
    / tr V`` for every positive diagonal V; V is improved by the fixed point at which both are equal.
    """
    if nights > _LARGEST_BOUND:
        return _KNOWN[nights]
    prefix = np.tril(np.ones((nights, nights)))
    squared, weights = prefix.T @ prefix, np.ones(nights)
    for _ in range(_SWEEPS):
        root = np.sqrt(weights)
        values, vectors = np.linalg.eigh(root[:, None] * squared * root)
        lengths = np.sqrt(np.maximum(values, 0.0))
        found = float(lengths.sum()) ** 2 / float(weights.sum())
        weights = np.einsum("ik,k,ik->i", vectors, lengths, vectors)
    return math.sqrt(found / nights)


def draw(path: Path) -> None:
    """Error of each night of a year, legible on light and dark paper."""
    ink = "#7d7d7d"
    with matplotlib.rc_context({"svg.hashsalt": "blockveil", "font.size": 9.0}):
        figure = Figure(figsize=(8.4, 3.4), facecolor="none", layout="constrained")
        axes = figure.add_subplot()
        for label, factors, colour in (
            ("independent nights", np.full(SHOWN, math.sqrt(SHOWN)), "#d55e00"),
            ("binary tree", binary_tree(SHOWN), ink),
            ("weights by age", least_noise(SHOWN).factors, "#0072b2"),
        ):
            axes.step(np.arange(1, SHOWN + 1), factors, where="mid", color=colour, linewidth=1.0, label=label)
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
    """Print the tables; draw the figure where asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=Path)
    path = parser.parse_args().figure
    print("nights  independent  binary tree  weights (largest)  measured  bound  over bound  weights")
    for nights in NIGHTS:
        levels = least_noise(nights)
        found, least = typical(levels.factors), bound(nights)
        print(
            f"{nights:6,}  {math.sqrt(nights):11.2f}  {typical(binary_tree(nights)):11.2f}  {found:9.2f} "
            f"({levels.factors.max():.2f})  {measured(levels):8.2f}  "
            f"{least:5.2f}  {100 * (found / least - 1):8.1f} %  {len(levels.weights):7d}"
        )
    print("\nnights  change over a day, a week, a month; of independent nights")
    for nights in NIGHTS:
        levels = least_noise(nights)
        changes = [
            f"{math.sqrt(levels.squared_norm) * levels.deviation_of_change(nights, back):5.2f}"
            if back < nights
            else "    -"
            for _, back in SPANS
        ]
        print(f"{nights:6,}  {'  '.join(changes)}  {math.sqrt(2 * nights):8.2f}")
    if path is not None:
        draw(path)


if __name__ == "__main__":
    main()
