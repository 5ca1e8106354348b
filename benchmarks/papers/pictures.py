"""Pictures of ``docs/papers.md``: what the claims are worth, and the experiments beside knowing nothing."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.papers.claims import Claim
from benchmarks.papers.outcomes import Outcome

_INK = "#7d7d7d"
_OURS, _OTHERS, _PUBLISHED = "#0072b2", "#999999", "#d55e00"


def write(folder: Path, claims: list[Claim], outcomes: list[Outcome]) -> None:
    """Both pictures, legible on light and dark paper, as ``papers-claims.svg`` and ``papers-experiments.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "blockveil", "font.size": 9.0}):
        figure = Figure(figsize=(8.4, 3.4), facecolor="none")
        _claims(figure.add_subplot(), claims)
        _save(figure, folder / "papers-claims.svg")
        # Metrics of which less is better and knowing nothing is a number to compare with.
        shown = [outcome for outcome in outcomes if outcome.name.startswith("MVG")]
        figure = Figure(figsize=(8.4, 9.0), facecolor="none")
        for place, outcome in enumerate(shown, start=1):
            _experiment(figure.add_subplot(len(shown), 1, place), outcome)
        _save(figure, folder / "papers-experiments.svg")


def _claims(axes: Axes, claims: list[Claim]) -> None:
    place = np.arange(len(claims))[::-1]
    colours = [_PUBLISHED if claim.true_delta > 2.0 * claim.claimed.delta else _OTHERS for claim in claims]
    axes.barh(place, [np.log10(claim.excess) for claim in claims], color=colours)
    axes.set_yticks(place, [claim.name for claim in claims])
    axes.set_xlabel("log10 of the noise's squared error over that of exact noise for the claim", color=_INK)
    axes.set_title("Left of zero the claim is false (orange); right of it noise is wasted", color=_INK)
    axes.axvline(0.0, color=_INK, linewidth=0.8)
    _plain(axes)


def _experiment(axes: Axes, outcome: Outcome) -> None:
    nothing = outcome.result("no information").mean
    rows = [(way, result) for way, result in outcome.lines.items() if result is not None and result.mean > 0.0]
    place = np.arange(len(rows))[::-1]
    means = np.array([result.mean / nothing for _, result in rows])
    errors = np.array([1.96 * result.error / nothing for _, result in rows])
    colours = [_OURS if "auto" in way.name else _PUBLISHED if "mvg" in way.name else _OTHERS for way, _ in rows]
    axes.barh(place, means, xerr=np.minimum(errors, means * 0.99), color=colours, ecolor=_INK)
    axes.set_xscale("log")
    axes.axvline(1.0, color=_INK, linewidth=0.8)
    axes.set_yticks(place, [way.name for way, _ in rows])
    axes.set_title(f"{outcome.name}: {outcome.metric}", color=_INK)
    axes.set_xlabel("over that without information, with 95 % bars", color=_INK)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=_INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasSVG(figure)
    figure.tight_layout()
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
