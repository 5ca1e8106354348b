"""How often an attacker tells neighbours apart behind R1SMG noise, beside what its claim allows.

Run ``python -m benchmarks.r1smg_attack [--figure docs/r1smg-attack.svg]``. The attacker knows both possible answers,
sees one output and says which is nearer; that is the best test. Sizes and angles are drawn from their exact law, so no
vector of M entries is needed; the first setting is also run with whole vectors.
"""

from __future__ import annotations

import argparse
import math
import sys

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy.stats import beta

from engine.mechanisms.r1smg import published
from engine.mechanisms.r1smg_profile import allowed_success, attack_success

SETTINGS = [
    ("counts 89 x 89", 7921, 1e-5, 1e-7),
    ("covariance 2400²", 5_760_000, 2e-8, 1e-7),
    ("covariance 2400²", 5_760_000, 1e-7, 1e-7),
    ("covariance 2400²", 5_760_000, 1.6e-7, 1e-7),
    ("gradient, M = 10⁴", 10_000, 0.71, 3.33e-7),
    ("gradient, M = 10⁶", 1_000_000, 5.42, 3.33e-7),
]
TRIALS = 1_000_000


def measured(entries: int, s: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Success of the nearer-answer test and its 99.9999 % Clopper-Pearson interval."""
    z = rng.standard_normal(TRIALS)
    cosine = 2.0 * rng.beta((entries - 1) / 2, (entries - 1) / 2, TRIALS) - 1.0
    hits = int(np.sum(s * np.abs(z) * cosine < 0.5))
    low = float(beta.ppf(5e-7, hits, TRIALS - hits + 1)) if hits else 0.0
    high = float(beta.isf(5e-7, hits + 1, TRIALS - hits)) if hits < TRIALS else 1.0
    return hits / TRIALS, low, high


def with_whole_vectors(entries: int, s: float, rng: np.random.Generator, trials: int = 20_000) -> float:
    """The same attack on outputs of all entries."""
    hits = 0
    for _ in range(trials // 1000):
        v = rng.standard_normal((1000, entries))
        along = s * rng.standard_normal(1000) * v[:, 0] / np.linalg.norm(v, axis=1)
        hits += int(np.sum(along < 0.5))
    return hits / trials


def main() -> None:
    """Print the table, and draw it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", help="SVG file to write")
    figure = parser.parse_args().figure
    rng = np.random.default_rng(0)
    rows = []
    print(f"{'setting':<20} {'epsilon':>8} {'claim allows':>13} {'exact':>9} {'measured':>9}  99.9999 % interval")
    for name, entries, epsilon, delta in SETTINGS:
        s = math.sqrt(published(entries, epsilon, delta, 1.0).variance)
        success, low, high = measured(entries, s, rng)
        allowed, exact = allowed_success(epsilon, delta), attack_success(entries, s)
        rows.append((f"{name}\nε = {epsilon:g}", allowed, success))
        print(f"{name:<20} {epsilon:8g} {allowed:13.7f} {exact:9.5f} {success:9.5f}  {low:.5f} to {high:.5f}")
    s = math.sqrt(published(7921, 1e-5, 1e-7, 1.0).variance)
    print(f"whole vectors, {SETTINGS[0][0]}: {with_whole_vectors(7921, s, rng):.4f}")
    if figure:
        draw(rows, figure)


def draw(rows: list[tuple[str, float, float]], path: str) -> None:
    """Pairs of bars, legible on light and dark paper."""
    ink = "#7d7d7d"
    with matplotlib.rc_context({"svg.hashsalt": "blockveil", "font.size": 9.0}):
        figure = Figure(figsize=(8.4, 3.6), facecolor="none")
        axes = figure.add_subplot()
        place = np.arange(len(rows))
        axes.bar(place - 0.2, [row[1] for row in rows], 0.38, color="#0072b2", label="the claim allows at most")
        axes.bar(place + 0.2, [row[2] for row in rows], 0.38, color="#d55e00", label="measured")
        for x, (_, allowed, success) in zip(place, rows, strict=True):
            axes.text(x - 0.2, allowed + 0.01, f"{allowed:.2f}", ha="center", color=ink)
            axes.text(x + 0.2, success + 0.01, f"{success:.2f}", ha="center", color=ink)
        axes.set_xticks(place, [row[0] for row in rows])
        axes.set_ylim(0.5, 1.08)
        axes.set_ylabel("probability of telling neighbours apart", color=ink)
        axes.set_title("R1SMG at its paper's settings: the attack against the claim (0.5 is guessing)", color=ink)
        axes.legend(frameon=False, labelcolor=ink, loc="upper left")
        axes.set_facecolor("none")
        axes.tick_params(colors=ink)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(ink)
        FigureCanvasSVG(figure)
        figure.tight_layout()
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
