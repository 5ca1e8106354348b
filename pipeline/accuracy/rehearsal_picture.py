"""The picture of a preview: the truth about simulated records beside their release, as heat maps of one scale."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from blockveil.pipeline.accuracy.rehearsal import Rehearsal
from blockveil.pipeline.accuracy.shading import blocks
from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.report.papers import Picture, Theme

_LABELS = 24
_CELLS = 200
_STYLE = {"svg.hashsalt": "blockveil", "svg.fonttype": "path", "font.size": 8.5, "text.parse_math": False}


def picture(made: Rehearsal) -> Picture:
    """Both matrices, with the preview's sentences as the text."""
    text = f"Two heat maps of the {made.what}: true and released. {' '.join(made.sentences)}"
    return Picture(lambda theme: _drawn(made, theme), text)


def _drawn(made: Rehearsal, theme: Theme) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # takes long to import, and few processes draw
    from matplotlib.figure import Figure

    tables = [blocks(table, _CELLS) for table in (made.truth, made.released)]
    largest = max((float(np.nanmax(np.abs(table), initial=0.0)) for table in tables), default=0.0) or 1.0
    signed = bool(min(float(np.nanmin(table, initial=0.0)) for table in tables) < -0.05 * largest)
    signed = signed or made.what.startswith(("correlation", "mean"))
    scale: dict[str, Any] = {
        "vmin": -largest if signed else 0.0,
        "vmax": largest,
        "cmap": theme.diverging if signed else theme.sequential,
        "interpolation": "nearest",
        "aspect": "equal" if 0.4 < tables[0].shape[0] / tables[0].shape[1] < 2.5 else "auto",
    }
    with drawn_by(_STYLE):
        figure = Figure(figsize=(8.4, 4.2), facecolor=theme.paper, layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, 2)
        for axes, table, title in zip(panels, tables, ("true, of simulated records", "released"), strict=True):
            image = axes.imshow(table, **scale)
            axes.set_title(f"{made.what}: {title}", color=theme.ink, fontsize=9.5)
            _named(axes, made, table.shape, theme)
        bar = figure.colorbar(image, ax=list(panels), fraction=0.03, pad=0.02)
        bar.ax.tick_params(colors=theme.ink)
        bar.outline.set_visible(False)
        stream = io.StringIO()
        metadata = {"Date": None, "Creator": "Blockveil"}
        figure.savefig(stream, format="svg", dpi=150, facecolor=theme.paper, metadata=metadata)
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _named(axes: Any, made: Rehearsal, shape: tuple[int, ...], theme: Theme) -> None:
    """Names along the sides where each entry has its cell and they fit."""
    axes.tick_params(colors=theme.ink)
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_color(theme.ink)
    for place, names, length in (
        (axes.set_yticks, made.rows, shape[0]),
        (axes.set_xticks, made.columns, shape[1]),
    ):
        if len(names) == length <= _LABELS:
            style = {"rotation": 90} if place == axes.set_xticks else {}
            place(range(length), [name if len(name) <= 16 else name[:15] + "…" for name in names], **style)
