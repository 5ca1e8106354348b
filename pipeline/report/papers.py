"""What every picture is drawn with: colours for light and dark paper, SVG text of the same bytes, and plain axes."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from blockveil.pipeline.base.drawing import drawn_by

STYLE = {
    "svg.hashsalt": "blockveil",
    "svg.fonttype": "path",
    "font.size": 9.0,
    "text.parse_math": False,  # names of features may hold dollar signs
}


@dataclass(frozen=True)
class Theme:
    """Colours for one kind of paper; the paper itself is left transparent where it has no colour of its own."""

    ink: str
    signal: str
    noise: str
    hidden: str
    diverging: str
    sequential: str
    background: str
    paper: str = "none"


LIGHT = Theme("#333333", "#0072b2", "#d55e00", "#c4c4c4", "RdBu_r", "viridis_r", "#ffffff")
DARK = Theme("#d8d8d8", "#56b4e9", "#e69f00", "#5c5c5c", "berlin", "viridis", "#161616")
CARD = replace(LIGHT, paper="#ffffff")
"""A card with its own paper, for pages whose paper is not known."""


@dataclass(frozen=True)
class Picture:
    """A picture and what it shows in words.

    Attributes
    ----------
    draw
        Draws it for one kind of paper, as SVG text.
    text
        What it shows.
    figure
        Draws it as a figure, for a notebook; None where it has only its text.
    """

    draw: Callable[[Theme], str]
    text: str
    figure: Callable[[Theme], Figure] | None = None


def pictured(figure: Callable[[Theme], Figure], text: str) -> Picture:
    """A picture that is drawn as a figure, and as SVG text from it."""
    return Picture(lambda theme: svg_text(figure(theme), theme), text, figure)


def plain_axes(axes: Any, theme: Theme) -> None:
    """Ticks and two sides in the theme's ink, on the paper that is there."""
    axes.set_facecolor("none")
    axes.tick_params(colors=theme.ink)
    for side, spine in axes.spines.items():
        spine.set_color(theme.ink)
        spine.set_visible(side in ("left", "bottom"))


def svg_text(figure: Figure, theme: Theme) -> str:
    """A figure as SVG text, the same bytes for the same figure."""
    stream = io.StringIO()
    written = {"Date": None, "Creator": "Blockveil"}
    with drawn_by(STYLE):
        FigureCanvasSVG(figure)
        figure.tight_layout()
        figure.set_layout_engine(None)  # else all is drawn once more to lay out what is laid out already
        figure.savefig(stream, format="svg", dpi=150, facecolor=theme.paper, metadata=written)
    text = stream.getvalue()
    return text[text.index("<svg") :]
