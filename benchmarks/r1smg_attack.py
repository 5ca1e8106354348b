"""How often an attacker tells neighbours apart behind R1SMG noise, beside what its claim allows.

Run ``python -m benchmarks.r1smg_attack [--figure docs/r1smg-attack.svg]``. The attacker knows both possible answers,
sees one output and says which is nearer; that is the best test. Sizes and angles are drawn from their exact law, so no
vector of M entries is needed; two settings are also run with whole vectors.
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

from blockveil.engine.study.r1smg import published
from blockveil.engine.study.r1smg_attack import allowed_success, attack_success, ball_test

SETTINGS = [
    ("counts 89 x 89", 7921, 1e-5, 1e-7),
    ("covariance 2400²", 5_760_000, 2e-8, 1e-7),
    ("covariance 2400²", 5_760_000, 1e-7, 1e-7),
    ("covariance 2400²", 5_760_000, 1.6e-7, 1e-7),
    ("gradient, M = 10⁴", 10_000, 0.71, 3.33e-7),
    ("gradient, M = 10⁶", 1_000_000, 5.42, 3.33e-7),
]
TRIALS = 1_000_000
WHOLE_TRIALS = 10_000


def interval(hits: int, trials: int) -> tuple[float, float]:
    """Clopper-Pearson interval at 99.9999 %."""
    low = float(beta.ppf(5e-7, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.isf(5e-7, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def measured(entries: int, s: float, rng: np.random.Generator) -> int:
    """How often in all trials the nearer answer is the right one, by the exact law of size and angle.

    Both answers are treated alike, so it is enough to draw noise about one of them.
    """
    z = rng.standard_normal(TRIALS)
    cosine = 2.0 * rng.beta((entries - 1) / 2, (entries - 1) / 2, TRIALS) - 1.0
    return int(np.sum(s * np.abs(z) * cosine < 0.5))


def with_whole_vectors(entries: int, s: float, rng: np.random.Generator) -> int:
    """The same attack on outputs of all entries."""
    hits = 0
    for _ in range(WHOLE_TRIALS // 1000):
        v = rng.standard_normal((1000, entries))
        noise = s * rng.standard_normal(1000)[:, None] * v / np.linalg.norm(v, axis=1)[:, None]
        here = np.sum(noise**2, axis=1)
        noise[:, 0] -= 1.0
        hits += int(np.sum(here < np.sum(noise**2, axis=1)))
    return hits


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
        hits = measured(entries, s, rng)
        success, (low, high) = hits / TRIALS, interval(hits, TRIALS)
        allowed, exact = allowed_success(epsilon, delta), attack_success(entries, s)
        rows.append((f"{name}\nε = {epsilon:g}", allowed, success))
        print(f"{name:<20} {epsilon:8g} {allowed:13.7f} {exact:9.5f} {success:9.5f}  {low:.5f} to {high:.5f}")
    for name, entries, epsilon, delta in (SETTINGS[0], SETTINGS[4]):
        s = math.sqrt(published(entries, epsilon, delta, 1.0).variance)
        hits = with_whole_vectors(entries, s, rng)
        low, high = interval(hits, WHOLE_TRIALS)
        print(f"whole vectors, {name}: {hits / WHOLE_TRIALS:.4f}  {low:.4f} to {high:.4f}")
        test = ball_test(entries, s)
        print(
            f"  within half a sensitivity: {test.detection:.3g} against less than e^{test.log_false_alarm:.0f}, "
            f"so delta is at least {test.least_delta(epsilon):.3g} at the claimed epsilon; the claim is {delta:g}"
        )
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
            axes.text(x - 0.2, allowed + 0.01, f"{allowed:.3f}", ha="center", color=ink)
            axes.text(x + 0.2, success + 0.01, f"{success:.3f}", ha="center", color=ink)
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
