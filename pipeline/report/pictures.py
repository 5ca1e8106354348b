"""Pictures of a released matrix as SVG text: the same bytes for the same release, legible on light and dark paper."""

from __future__ import annotations

import io
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from pipeline.report.facts import Facts

_INK = "#7d7d7d"
_SIGNAL = "#0072b2"
_NOISE = "#d55e00"
_LABELS = 40
_CELLS = 400
_STYLE = {"svg.hashsalt": "blockveil", "svg.fonttype": "path", "font.size": 9.0}


def heat_map(facts: Facts) -> str:
    """Released matrix; entries that noise could explain are hatched out to grey."""
    down, across = (-(-length // _CELLS) for length in facts.matrix.shape)
    values, clear = facts.relative[::down, ::across], facts.clear[::down, ::across]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(6.6, 5.6), facecolor="none")
        axes = figure.add_subplot()
        aspect: Literal["equal", "auto"] = "equal" if facts.symmetric else "auto"
        image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest", aspect=aspect)
        grey = ListedColormap([(0.55, 0.55, 0.55, 0.75)])
        axes.imshow(np.where(clear, np.nan, 0.0), cmap=grey, interpolation="nearest", aspect=aspect)
        if len(facts.columns) <= _LABELS:
            axes.set_xticks(range(len(facts.columns)), facts.columns, rotation=90)
        if len(facts.rows) <= _LABELS:
            axes.set_yticks(range(len(facts.rows)), facts.rows)
        title = f"Released {_shown(facts)}; grey: within two standard deviations of noise"
        axes.set_title(title, color=_INK, fontsize=9.5)
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(colors=_INK)
        _plain(axes)
        return _svg(figure)


def _shown(facts: Facts) -> str:
    if facts.kind == "covariance":
        return "correlation"
    return f"{facts.label}, {'unit diagonal' if facts.symmetric else 'over its largest entry'}"


def spectrum(facts: Facts) -> str:
    """Eigenvalues (singular values) of the released matrix beside what noise alone reaches; empty if too many."""
    values = facts.spectrum
    if values.size == 0:
        return ""
    positions = np.arange(1, values.size + 1)
    above = values > facts.noise_level
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(6.6, 3.2), facecolor="none")
        axes = figure.add_subplot()
        lowest = -facts.noise_level if facts.symmetric else 0.0
        axes.axhspan(lowest, facts.noise_level, color=_NOISE, alpha=0.18, lw=0)
        axes.scatter(positions[above], values[above], s=22, color=_SIGNAL, label="above the noise")
        axes.scatter(positions[~above], values[~above], s=22, facecolor="none", edgecolor=_INK, label="not above it")
        axes.set_yscale("symlog", linthresh=max(facts.noise_level, 1e-300))
        axes.set_xlabel("eigenvalue" if facts.symmetric else "singular value", color=_INK)
        axes.set_ylabel("in units of noise", color=_INK)
        axes.set_title("Spectrum of the released matrix; band: reached by noise alone", color=_INK, fontsize=9.5)
        axes.legend(frameon=False, labelcolor=_INK)
        _plain(axes)
        return _svg(figure)


def _plain(axes: matplotlib.axes.Axes) -> None:
    axes.set_facecolor("none")
    axes.tick_params(colors=_INK)
    for side, spine in axes.spines.items():
        spine.set_color(_INK)
        spine.set_visible(side in ("left", "bottom"))


def _svg(figure: Figure) -> str:
    FigureCanvasSVG(figure)
    figure.tight_layout()
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": "Blockveil"})
    text = stream.getvalue()
    return text[text.index("<svg") :]
