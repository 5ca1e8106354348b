"""What a release trained: the steps, how far gradients stood out from the noise, and how the model is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.releases.training_steps import StepsSoFar
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.markdown import image
from blockveil.pipeline.report.model_card import beyond_noise, card_of
from blockveil.pipeline.report.papers import STYLE, Picture, Theme, blank_figure, pictured, plain_axes
from blockveil.pipeline.report.released_coefficients import coefficients_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_POINTS = 100


def lengths_of(facts: Facts) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Lengths of the released sum of each step and of its noise, shape (steps,); None where nothing was trained."""
    if "training" not in facts.attributes.get("query", {}):
        return None, None
    return facts.matrix.array("gradient_length"), facts.matrix.array("gradient_length_of_noise")


def trained(facts: Facts) -> str:
    """Card of the model of a release, Markdown; empty where it has trained none."""
    lengths, noise = lengths_of(facts)
    if lengths is None or noise is None:
        return ""
    coefficients = coefficients_of(facts.attributes, facts.matrix.array)
    return card_of(facts.attributes, lengths, noise, coefficients)


def under_way(so_far: StepsSoFar) -> str:
    """Curve of a training under way, Markdown."""
    lengths, noise = np.array(so_far.lengths), np.array(so_far.noise)
    summary = (
        f"Step {lengths.size:,} of {so_far.steps:,}. Only released sums are shown; the charge for all steps stands."
    )
    return f"{summary}\n\n{image(curve(lengths, noise, steps=so_far.steps))}"


def curve(
    lengths: NDArray[Any], noise: NDArray[Any], attributes: Mapping[str, Any] | None = None, steps: int | None = None
) -> Picture:
    """Length of the noisy sum of each step beside that of its noise; of so many steps, where there are more to come."""
    count = lengths.size
    each = "one step" if count == 1 else f"each of {count:,} steps"
    text = (
        f"Length of the released sum of gradients of {each} beside the length of its noise. The first is "
        f"{number(float(lengths[0]))}, the last {number(float(lengths[-1]))}, and noise alone about "
        f"{number(float(noise[-1]))}. {beyond_noise(attributes, lengths, noise, steps)}"
    )

    def draw(theme: Theme) -> Figure:
        from matplotlib.ticker import MaxNLocator

        with drawn_by(STYLE):
            figure = blank_figure(6.6, 2.8)
            axes, along = figure.add_subplot(), np.arange(1, count + 1)
            # A line has two points at least; and points of many steps take more room than the line.
            points, alone = ("o" if count <= _MOST_POINTS else ""), ("o" if count == 1 else "")
            axes.plot(along, lengths, color=theme.signal, marker=points, label="released sum of gradients")
            axes.plot(along, noise, color=theme.noise, marker=alone, ls="--", label="length that noise alone has")
            for line in axes.lines:
                line.set(linewidth=1.4, markersize=2.5)
            axes.set_xlim(0.5, (steps or count) + 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylim(0.0, 1.08 * float(max(lengths.max(), noise.max())))
            axes.set_xlabel("step", color=theme.ink)
            axes.set_title("How far gradients stand out from the noise, step by step", color=theme.ink, fontsize=9.5)
            axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5)
            plain_axes(axes, theme)
            return figure

    return pictured(draw, text)
