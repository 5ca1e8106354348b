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
from blockveil.pipeline.report.number_sources import RELEASED
from blockveil.pipeline.report.papers import STYLE, Picture, Theme, blank_figure, pictured, plain_axes
from blockveil.pipeline.report.released_coefficients import OF_POPULATION, UNKNOWN, coefficients_of
from blockveil.pipeline.report.report_sections import ReportSection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PREDICTS = {
    "squared": "a linear regression",
    "logistic": "a logistic regression of two classes",
    "softmax": "a softmax regression of several classes",
}

_MOST_POINTS = 100


def training(facts: Facts) -> list[ReportSection]:
    """Section on the model of a release; nothing where it has trained none."""
    asked = facts.attributes.get("query", {})
    lengths, noise = (facts.matrix.array(name) for name in ("gradient_length", "gradient_length_of_noise"))
    if "training" not in asked or lengths is None or noise is None:
        return []
    model, steps = asked["model"], asked["training"]
    units = model.get("hidden_units", [])
    layers = " and then ".join(
        f"a layer of {each:,} hidden units" for each in ([units] if isinstance(units, int) else units)
    )
    hidden = f", after {layers}" if layers else ""
    summary = (
        f"The release trained {_PREDICTS[model['loss']]}{hidden}, which predicts {model['target']['name']}, in "
        f"{steps['steps']:,} steps over {_over(steps)}, by {steps['optimiser']} at a learning rate of "
        f"{number(steps['learning_rate'])}. "
        "The promise above is for all steps together."
    )
    use = (
        "In Python, release.predict(records) gives what the model predicts of records of your own. The records that "
        "it is asked about are not protected by the release."
    )
    curve = ReportSection(sentences=[summary], picture=_curve(lengths, noise, facts.attributes))
    return [
        ReportSection(
            title="What was trained?",
            key="what-was-trained",
            within=[curve, *_errors(facts), ReportSection(sentences=[use])],
            source="query, gradient_length, gradient_length_of_noise",
            decided_by=RELEASED,
        )
    ]


def _errors(facts: Facts) -> list[ReportSection]:
    """Coefficients with what they are known to."""
    found = coefficients_of(facts.attributes, facts.matrix.array)
    if found is None:
        return []
    return [ReportSection(sentences=[OF_POPULATION if found.known else UNKNOWN], table=found.rows())]


def trained(facts: Facts) -> str:
    """Card of the model of a release, Markdown; empty where it has trained none."""
    lengths, noise = (facts.matrix.array(name) for name in ("gradient_length", "gradient_length_of_noise"))
    if "training" not in facts.attributes.get("query", {}) or lengths is None or noise is None:
        return ""
    found = coefficients_of(facts.attributes, facts.matrix.array)
    return card_of(facts.attributes, lengths, noise, found)


def under_way(so_far: StepsSoFar) -> str:
    """Curve of a training under way, Markdown."""
    lengths, noise = np.array(so_far.lengths), np.array(so_far.noise)
    summary = (
        f"Step {lengths.size:,} of {so_far.steps:,}. Only released sums are shown; the charge for all steps stands."
    )
    return f"{summary}\n\n{image(_curve(lengths, noise, steps=so_far.steps))}"


def _over(steps: Mapping[str, Any]) -> str:
    """The records of one step, in words."""
    match steps.get("batches"):
        case "fixed":
            taken = (
                f", whose noise takes away noise of the {steps['band'] - 1:,} steps before" if "band" in steps else ""
            )
            return f"one of {steps['batch_count']:,} batches each{taken}"
        case "poisson":
            return f"a secret sample of {100 * steps['sampling_probability']:g} % of the records each"
    return "all records"


def _curve(
    lengths: NDArray[Any], noise: NDArray[Any], attributes: Mapping[str, Any] | None = None, steps: int | None = None
) -> Picture:
    """Length of the noisy sum of each step beside that of its noise; of so many steps, where there are more to come."""
    made = lengths.size
    each = "one step" if made == 1 else f"each of {made:,} steps"
    text = (
        f"Length of the released sum of gradients of {each} beside the length of its noise. The first is "
        f"{number(float(lengths[0]))}, the last {number(float(lengths[-1]))}, and noise alone about "
        f"{number(float(noise[-1]))}. {beyond_noise(attributes, lengths, noise, steps)}"
    )

    def draw(theme: Theme) -> Figure:
        from matplotlib.ticker import MaxNLocator

        with drawn_by(STYLE):
            drawn = blank_figure(6.6, 2.8)
            axes, along = drawn.add_subplot(), np.arange(1, made + 1)
            # A line has two points at least; and points of many steps take more room than the line.
            points, alone = ("o" if made <= _MOST_POINTS else ""), ("o" if made == 1 else "")
            axes.plot(along, lengths, color=theme.signal, marker=points, label="released sum of gradients")
            axes.plot(along, noise, color=theme.noise, marker=alone, ls="--", label="length that noise alone has")
            for line in axes.lines:
                line.set(linewidth=1.4, markersize=2.5)
            axes.set_xlim(0.5, (steps or made) + 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylim(0.0, 1.08 * float(max(lengths.max(), noise.max())))
            axes.set_xlabel("step", color=theme.ink)
            axes.set_title("How far gradients stand out from the noise, step by step", color=theme.ink, fontsize=9.5)
            axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5)
            plain_axes(axes, theme)
            return drawn

    return pictured(draw, text)
