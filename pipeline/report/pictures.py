"""Pictures as SVG text: the same bytes for the same numbers, for light and for dark paper, with text alternatives.

Colours can be distinguished by people who see red and green as one colour (RdBu, berlin, viridis; Okabe and Ito's
blue and vermilion), and no meaning is carried by colour alone: marks differ in shape, and each picture has its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.cells import Cells
from blockveil.pipeline.report.facts import Facts, finding
from blockveil.pipeline.report.matrix import Array, ReleasedMatrix
from blockveil.pipeline.report.papers import (
    STYLE,
    Picture,
    Theme,
    blank_figure,
    pictured,
    plain_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LABELS = 40


def heat_map(facts: Facts) -> Picture:
    """Released matrix; what noise could explain is greyed out. What its kind draws in place of it, where it does."""
    own_picture = _own_picture(facts)
    return facts.once("heat map", lambda: _matrix(facts)) if own_picture is None else own_picture[0]


def _own_picture(facts: Facts) -> tuple[Picture, str] | None:
    return facts.once("own picture", lambda: facts.presenter.picture(facts))


def _matrix(facts: Facts) -> Picture:
    cells, matrix = facts.scan.cells, facts.matrix
    largest = 1.0 if matrix.symmetric else float(np.max(np.abs(cells.values))) or 1.0
    signed = matrix.symmetric or bool((cells.clear & (cells.values < 0)).any())
    each = "" if cells.values.shape == matrix.shape else f"; a cell is the mean of {_per_cell(facts)} entries"
    title = f"Released {_shown(facts)}{each}\n{_GREY}"
    least, label = -largest if signed else 0.0, finding_in_short(facts)
    heat_map = _Map(cells, matrix, title, least, largest, label, _numbers(facts), _blank(facts))
    strongest = "; ".join(
        f"{facts.where(entry)} {entry.relative:.2f}"
        if matrix.symmetric
        else f"{facts.where(entry)} {number(entry.value)}"
        for entry in facts.scan.strongest[:3]
    )
    text = (
        f"Heat map. {finding(facts)} Shown is the released {_shown(facts)}, {matrix.shape[0]:,} by "
        f"{matrix.shape[1]:,}; {_GREY}." + (f" Strongest: {strongest}." if strongest else "")
    )
    return pictured(heat_map.draw, text)


_GREY = "grey: no further from zero than noise alone goes, or no ratio"

NUMBERED = 6
"""A matrix of at most this many rows and columns carries its numbers in its cells."""


def heat_map_caption(facts: Facts) -> str:
    """How the heat map is read."""
    own_picture = _own_picture(facts)
    if own_picture is not None:
        return own_picture[1]
    grey = "Grey is what is no further from zero than noise alone goes, or what has no ratio to the diagonal."
    if not facts.matrix.symmetric:
        return f"{grey} In brackets: numbers of such cells." if _is_numbered(facts) else grey
    if not _blank(facts):
        return grey
    if not _is_numbered(facts):
        return f"{grey} The diagonal is blank where it stands out: a ratio of an entry to itself is 1."
    diagonal = facts.presenter.root or "released entries"
    return f"{grey} In brackets: numbers of such cells. On the diagonal: {diagonal}, in units of their own."


def _is_numbered(facts: Facts) -> bool:
    return max(facts.matrix.shape) <= NUMBERED


def _blank(facts: Facts) -> bool:
    """Whether the diagonal is left without a colour: it is 1 by definition, and would outshine what was found."""
    return facts.matrix.symmetric and facts.scan.cells.values.shape == facts.matrix.shape


def _numbers(facts: Facts) -> list[list[str]] | None:
    """What is written into each cell of a small matrix; in brackets what noise alone may give."""
    if not _is_numbered(facts):
        return None
    cells, matrix = facts.scan.cells, facts.matrix
    values, clear = cells.values, cells.clear
    labels = [[_ratio(x) if matrix.symmetric else _compact(x) for x in row] for row in values.tolist()]
    cell_texts = [
        [text if clear[i, j] or text == "–" else f"({text})" for j, text in enumerate(row)]
        for i, row in enumerate(labels)
    ]
    if matrix.symmetric:
        for i, entry in enumerate(matrix.diagonal("kind").tolist()):
            text, root = _compact(max(entry, 0.0) ** 0.5 if facts.presenter.root else entry), facts.presenter.root
            cell_texts[i][i] = text if clear[i, i] else "–" if root else f"({text})"
    return cell_texts


def _ratio(value: float) -> str:
    """A ratio to the diagonal; nothing where there is none."""
    return "–" if value == 0.0 or abs(value) > 1.0 + 1e-9 else f"{value:.2f}"


def _compact(value: float) -> str:
    text = number(value)
    return text if len(text) <= 9 else f"{value:.3g}"


def finding_in_short(facts: Facts) -> str:
    """What is written over a picture that shows no finding."""
    if not facts.nothing:
        return ""
    own = facts.scan.diagonal.outside and facts.scan.alone.estimable
    return "No pair of features\nstands out from the noise" if own else "Nothing stands out from the noise"


def _per_cell(facts: Facts) -> str:
    shape, cells = facts.matrix.shape, facts.scan.cells.values.shape
    return f"{round(shape[0] / cells[0] * shape[1] / cells[1]):,}"


def _shown(facts: Facts) -> str:
    return facts.presenter.ratio or f"{facts.label}{', scaled to unit diagonal' if facts.matrix.symmetric else ''}"


@dataclass(frozen=True, eq=False)
class _Map:
    """A heat map to draw."""

    cells: Cells
    matrix: ReleasedMatrix
    title: str
    least: float
    largest: float
    label: str = ""
    numbers: list[list[str]] | None = None
    blank: bool = False

    def draw(self, theme: Theme) -> Figure:
        with drawn_by(STYLE):
            figure = blank_figure(6.6, 5.8)
            axes = figure.add_subplot()
            image = self._cells(axes, theme)
            self._write(axes, image, theme)
            self._label(axes)
            axes.set_title(self.title, color=theme.ink, fontsize=9.5)
            write_over(axes, self.label, theme)
            bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
            bar.outline.set_visible(False)
            bar.ax.tick_params(colors=theme.ink)
            plain_axes(axes, theme)
            return figure

    def _cells(self, axes: Any, theme: Theme) -> Any:
        """Colours of the cells, and grey over those that noise alone may give."""
        from matplotlib.colors import ListedColormap, Normalize, PowerNorm

        rows, columns = self.cells.values.shape
        aspect: Literal["equal", "auto"] = "equal" if 0.4 < rows / columns < 2.5 else "auto"
        colours = theme.diverging if self.least < 0 else theme.sequential
        # Counts often have few large entries: the root spreads small ones over more colours.
        scale = Normalize if self.least < 0 else partial(PowerNorm, 0.5)
        norm = scale(vmin=self.least, vmax=self.largest, clip=True)
        values = self.cells.values.copy()
        if self.blank:
            np.fill_diagonal(values, np.nan)
        image = axes.imshow(values, cmap=colours, norm=norm, interpolation="nearest", aspect=aspect)
        hidden = np.where(self.cells.clear, np.nan, 0.0)
        axes.imshow(hidden, cmap=ListedColormap([theme.hidden]), interpolation="nearest", aspect=aspect)
        return image

    def _write(self, axes: Any, image: Any, theme: Theme) -> None:
        """Numbers in the cells, dark on light colours and light on dark ones."""
        size = 9.0 if max(self.cells.values.shape) <= 4 else 7.5
        for i, row in enumerate(self.numbers or ()):
            for j, text in enumerate(row):
                own = not self.cells.clear[i, j] or (self.blank and i == j)
                ink = theme.ink if own else _ink_on(image.cmap(image.norm(self.cells.values[i, j])))
                axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=size)

    def _label(self, axes: Any) -> None:
        """Names where each entry has its cell and they fit, else positions."""
        for axis, length in ((1, self.cells.values.shape[1]), (0, self.cells.values.shape[0])):
            whole = self.matrix.shape[axis]
            place = axes.set_xticks if axis else axes.set_yticks
            rotation = {"rotation": 90} if axis else {}
            if length == whole <= MOST_LABELS:
                place(range(length), [short_name(name) for name in self.matrix.names(axis, MOST_LABELS)], **rotation)
                continue
            ticks = np.unique(np.linspace(0, length - 1, 6).round().astype(int))
            names = [short_name(self.matrix.name(axis, int(tick * whole // length))) for tick in ticks]
            place(ticks, names, **rotation)


def _ink_on(colour: Sequence[float]) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue, *_ = colour
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"


def write_over(axes: Any, label: str, theme: Theme) -> None:
    """Put a label, where there is one, over the middle of a picture."""
    if label:
        framed = {"facecolor": theme.background, "edgecolor": theme.ink, "boxstyle": "round,pad=0.6"}
        middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes, "bbox": framed}
        axes.text(0.5, 0.5, label, color=theme.ink, fontsize=13, **middle)


def short_name(name: str) -> str:
    """A name as it stands beside a picture: its first letters where it is long."""
    return name if len(name) <= 18 else name[:17] + "…"


def spectrum(facts: Facts) -> Picture:
    """Eigenvalues (singular values) of the released matrix beside what noise alone reaches."""
    return facts.once("spectrum", lambda: _spectrum(facts))


def _spectrum(facts: Facts) -> Picture:
    spectrum, level, symmetric = facts.spectrum, facts.scan.noise_level, facts.matrix.symmetric
    what = "eigenvalue" if symmetric else "singular value"
    which = f"{spectrum.values.size:,} {what}s" if spectrum.complete else f"the {spectrum.values.size} largest {what}s"
    text = (
        f"Spectrum of the released {facts.label}: {which} in units of noise, from {number(float(spectrum.values[0]))} "
        f"to {number(float(spectrum.values[-1]))}. In 95 of 100 releases noise alone reaches at most {number(level)}; "
        f"{facts.above_noise:,} {'is' if facts.above_noise == 1 else 'are'} above that."
    )
    return eigenvalues(spectrum.values, level, what, "in units of noise", text, signed=symmetric)


def eigenvalues(values: Array, level: float, what: str, unit: str, text: str, *, signed: bool) -> Picture:
    """Values in descending order, with a band as far as noise alone reaches."""
    # Where nothing is known, noise may reach as far as the values.
    level = level if np.isfinite(level) else float(np.max(np.abs(values)))

    def draw(theme: Theme) -> Figure:
        from matplotlib.ticker import MaxNLocator, NullLocator

        positions, above = np.arange(1, values.size + 1), values > level
        with drawn_by(STYLE):
            figure = blank_figure(6.6, 3.4)
            axes = figure.add_subplot()
            axes.axhspan(-level if signed else 0.0, level, color=theme.noise, alpha=0.22, lw=0)
            many = values.size > 200
            style: dict[str, Any] = {"s": 8 if many else 22, "rasterized": many}
            axes.scatter(positions[above], values[above], color=theme.signal, label="above the noise", **style)
            axes.scatter(
                positions[~above], values[~above], facecolor="none", edgecolor=theme.ink, lw=0.8,
                label="not above it", **style,
            )  # fmt: skip
            axes.set_yscale("symlog", linthresh=max(level, 1e-300))
            ticks = _decades(values, level, signed)
            axes.set_yticks(ticks, [number(tick) for tick in ticks])
            axes.yaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel(what, color=theme.ink)
            axes.set_ylabel(unit, color=theme.ink)
            axes.set_title(
                "Spectrum of the released matrix\nband: what noise alone reaches in 95 of 100 releases",
                color=theme.ink,
                fontsize=9.5,
            )
            axes.legend(frameon=False, labelcolor=theme.ink)
            plain_axes(axes, theme)
            return figure

    return pictured(draw, text)


def _decades(values: Array, level: float, symmetric: bool) -> list[float]:
    """Zero, what noise reaches, and powers of ten well beyond it as far as the values go."""
    largest = float(np.max(np.abs(values)))
    powers = [10.0**k for k in range(-30, 31) if 3.0 * level < 10.0**k <= 3.0 * largest]
    beyond = powers[:: max(1, len(powers) // 5)]
    low = [-tick for tick in beyond if -tick >= 2.0 * float(values[-1])] if symmetric else []
    return [*low[::-1], *([-level] if symmetric else []), 0.0, level, *beyond]


def difference_map(cells: Cells, matrix: ReleasedMatrix, band: float, text: str) -> Picture:
    """Difference of two nights in standard deviations, cut at the simultaneous band."""
    title = "Difference in standard deviations of its noise\ngrey: no larger than noise alone makes any difference"
    return pictured(_Map(cells, matrix, title, -band, band).draw, text)


def burn_down(points: list[tuple[str, float]], text: str) -> Picture:
    """Share of the budget that is spent after each charge, in per cent, and the whole."""

    def draw(theme: Theme) -> Figure:
        with drawn_by(STYLE):
            figure = blank_figure(6.6, 3.0)
            axes = figure.add_subplot()
            shares = 100.0 * np.array([0.0, *(share for _, share in points)])
            axes.step(np.arange(shares.size), shares, where="post", color=theme.signal, lw=1.6)
            axes.scatter(np.arange(shares.size), shares, s=16, color=theme.signal, label="spent", zorder=3)
            axes.axhline(100.0, color=theme.noise, lw=1.4, ls="--", label="budget")
            _name_nights(axes, [name for name, _ in points])
            axes.set_ylim(0.0, 1.12 * max(100.0, float(shares.max())))
            axes.set_ylabel("spent, %", color=theme.ink)
            axes.set_title("Budget spent, all releases together", color=theme.ink, fontsize=9.5)
            axes.legend(frameon=False, labelcolor=theme.ink, loc="lower right")
            plain_axes(axes, theme)
            return figure

    return pictured(draw, text)


def _name_nights(axes: Any, names: list[str]) -> None:
    ticks = np.unique(np.linspace(0, len(names), min(len(names) + 1, 6)).round().astype(int))
    axes.set_xticks(ticks, ["start" if tick == 0 else names[tick - 1] for tick in ticks])
    axes.set_xlim(-0.3, len(names) + 0.7)
