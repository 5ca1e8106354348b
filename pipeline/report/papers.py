"""What every picture is drawn with: colours for light and dark paper, SVG text of the same bytes, and plain axes."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.drawing import drawn_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = {
    "svg.hashsalt": "blockveil",
    "svg.fonttype": "path",
    "font.size": 9.0,
    "text.parse_math": False,  # names of features may hold dollar signs
}


_TRANSPARENT = "none"
_COLOURS = ("ink", "signal", "noise", "hidden", "background")
_COLOUR = re.compile(r'(?<=: )#[0-9a-f]{6}(?=[;"])')
_HASHED = re.compile(r'(?<=["#])([A-Za-z]+)[0-9a-f]{10}(?=[")])')
_SIDES = ("left", "right", "bottom", "top", "wspace", "hspace")


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
    paper: str = _TRANSPARENT


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

    def address(self, theme: Theme) -> str:
        """The picture as an address that holds it."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.draw(theme).encode()).decode()


def blank_figure(width: float, height: float) -> Figure:
    """A figure of some inches without paper."""
    from matplotlib.figure import Figure  # takes a while to import, and most processes draw nothing

    return Figure(figsize=(width, height), facecolor="none")


def pictured(figure: Callable[[Theme], Figure], text: str) -> Picture:
    """A picture that is drawn as a figure, and as SVG text from it; what drawings have in common is done once."""
    return Picture(_Drawings(figure), text, figure)


class _Drawings:
    """SVG text of a figure for each paper: one layout, which depends on its words alone, and as few drawings as do."""

    def __init__(self, figure: Callable[[Theme], Figure]) -> None:
        self._figure = figure
        self._layout: dict[str, float] = {}
        self._texts: dict[Theme, str] = {}

    def __call__(self, theme: Theme) -> str:
        bare = replace(theme, paper=_TRANSPARENT)
        if bare not in self._texts:
            self._texts[bare] = self._recoloured(bare) or svg_text(self._figure(bare), bare, self._layout)
        text = self._texts[bare]
        # The paper is what is painted first.
        return text if theme == bare else text.replace(f"fill: {_TRANSPARENT}", f"fill: {theme.paper}", 1)

    def _recoloured(self, theme: Theme) -> str | None:
        """An earlier drawing in other colours; None where it has some that are not of its theme, or pixels."""
        for earlier_theme, text in self._texts.items():
            colours = {getattr(earlier_theme, name): getattr(theme, name) for name in _COLOURS}
            of_theme = len(colours) == len(_COLOURS) and colours.keys() >= set(_COLOUR.findall(text))
            if of_theme and "<image" not in text:
                return _COLOUR.sub(partial(_other, colours), text)
        return None


def _other(colours: dict[str, str], found: re.Match[str]) -> str:
    return colours[found[0]]


def plain_axes(axes: Any, theme: Theme) -> None:
    """Ticks and two sides in the theme's ink, on the paper that is there."""
    axes.set_facecolor("none")
    axes.tick_params(colors=theme.ink)
    for side, spine in axes.spines.items():
        spine.set_color(theme.ink)
        spine.set_visible(side in ("left", "bottom"))


def svg_text(figure: Figure, theme: Theme, layout: dict[str, float]) -> str:
    """A figure as SVG text, the same bytes for the same figure.

    Parameters
    ----------
    figure, theme
        What is drawn, and for which paper.
    layout
        Where its axes are, such that all words have room; found where it is empty.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # as above

    stream = io.StringIO()
    svg_metadata = {"Date": None, "Creator": "Blockveil"}
    with drawn_by(STYLE):
        FigureCanvasSVG(figure)
        if not layout:
            figure.tight_layout()
            layout |= {name: getattr(figure.subplotpars, name) for name in _SIDES}
        figure.subplots_adjust(**layout)
        figure.set_layout_engine(None)  # else all is drawn once more to lay out what is laid out already
        figure.savefig(stream, format="svg", dpi=150, facecolor=theme.paper, metadata=svg_metadata)
    text, names = stream.getvalue(), dict[str, str]()
    # The library names what is used again by a hash of its colours too.
    text = _HASHED.sub(lambda match: names.setdefault(match[0], f"{match[1]}{len(names)}"), text)
    return text[text.index("<svg") :]
