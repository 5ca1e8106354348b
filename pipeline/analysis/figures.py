"""Pictures of a release as matplotlib figures, for a notebook or a file; no window is opened and no state is global."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.analysis.estimated_results import EstimatedResults
from blockveil.pipeline.analysis.fits import ends
from blockveil.pipeline.analysis.joint_noise import quantile
from blockveil.pipeline.analysis.results import PAIR
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.report import pictures
from blockveil.pipeline.report.facts import FEWEST_DIRECTIONS, Facts
from blockveil.pipeline.report.papers import CARD, Picture

MOST_INTERVALS = 60
"""Numbers of one picture of intervals; more are unreadable."""

_PLAIN = {"text.parse_math": False}
"""Names of features may hold dollar signs."""


def _drawn(picture: Picture) -> Figure:
    if picture.figure is None:
        raise ConfigError("This picture has no figure", "It is a text of SVG alone", "Open the report of the release")
    return _shown(picture.figure(CARD))


def _interval_lines(title: str, names: list[str], found: Estimate, reach: float) -> Figure:
    """Values with intervals that reach some standard errors, one line each; none where the error is infinite."""
    count = len(names)
    low, high = ends(found, reach)
    finite = np.isfinite(low) & np.isfinite(high)
    places, ink = np.arange(count), CARD
    with matplotlib.rc_context(_PLAIN):
        figure = Figure(figsize=(6.6, 1.2 + 0.26 * count), facecolor=ink.background)
        axes = figure.add_subplot()
        centres = np.where(finite, found.value, np.nan)
        width = np.where(finite, (high - low) / 2.0, np.nan)
        axes.errorbar(centres, places, xerr=width, fmt="o", color=ink.signal, ecolor=ink.signal, capsize=3, ms=4)
        for place in places[~finite]:
            axes.text(0.5, place, "noise too large", transform=axes.get_yaxis_transform(), ha="center", va="center")
        axes.axvline(0.0, color=ink.hidden, lw=1.0, zorder=0)
        axes.set_yticks(places, names)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_title(title, fontsize=9.5, color=ink.ink)
        return _shown(figure)


def _name(along: list[str] | None, at: int) -> str:
    return str(at) if along is None else along[at]


def _shown(figure: Figure) -> Figure:
    """The figure with a canvas of its own, which a notebook shows without a graphical backend."""
    figure.set_facecolor(CARD.background)
    FigureCanvasAgg(figure)
    with matplotlib.rc_context(_PLAIN):
        figure.tight_layout()
    picture: Any = figure
    picture._repr_png_ = lambda: _png(figure)
    return figure


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


class Plots:
    """Pictures of a release as matplotlib figures."""

    def __init__(self, release: EstimatedResults) -> None:
        self._release = release

    def heatmap(self) -> Figure:
        """The released matrix, with grey over what noise alone may give."""
        return _drawn(pictures.heat_map(Facts(self._release.opened)))

    def spectrum(self) -> Figure:
        """Eigenvalues or singular values beside what noise alone reaches; ConfigError where they tell nothing."""
        facts = Facts(self._release.opened)
        if not facts.has_spectrum:
            raise ConfigError(
                f"The spectrum of the {facts.label} of this release says nothing",
                f"It is shown of matrices of {FEWEST_DIRECTIONS} rows and columns or more, and not of totals or "
                "directions",
                "Use pca, which states the error of each direction",
            )
        return _drawn(pictures.spectrum(facts))

    def intervals(self, name: str = "mean", confidence: float = 0.95) -> Figure:
        """Values of a result with their intervals, one line each.

        Parameters
        ----------
        name
            The result; of a symmetric one each pair of features once.
        confidence
            Share of releases whose interval holds what the records would give without noise.

        Raises
        ------
        ConfigError
            There is no such result, no error of it is known, or it has too many numbers for a picture.
        """
        release = self._release
        estimate, names = release.stated(name), release.names_of(name)
        value, error = estimate.value, estimate.standard_deviation
        symmetric, length = release.axes_of(name) == PAIR, len(value) if value.ndim else 1
        count = length * (length - 1) // 2 if symmetric else value.size
        if not 0 < count <= MOST_INTERVALS:
            raise ConfigError(
                f"A picture of {count:,} intervals cannot be read",
                f"It shows between 1 and {MOST_INTERVALS}",
                "Choose a smaller array, or take Release.interval as a table",
            )
        everywhere: list[tuple[int, ...]] = list(np.ndindex(value.shape))
        places = [place for place in everywhere if not symmetric or place[0] < place[1]]
        labels = [", ".join(_name(along, at) for along, at in zip(names, place, strict=True)) for place in places]
        estimate = Estimate(np.array([value[at] for at in places]), np.array([error[at] for at in places]))
        title = f"{name.replace('_', ' ')}, with {100 * confidence:g} % intervals for its noise"
        reach = quantile(release.opened, confidence)
        return _interval_lines(title, labels, estimate, reach)
