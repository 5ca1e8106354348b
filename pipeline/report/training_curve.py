"""What a release trained: the steps, how far gradients stood out from the noise, and how the model is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.markdown import image
from blockveil.pipeline.report.markup import figure, paragraph, section
from blockveil.pipeline.report.model_card import card_of
from blockveil.pipeline.report.papers import STYLE, Picture, Theme, pictured, plain_axes
from blockveil.pipeline.report.words import number

_PREDICTS = {
    "squared": "a linear regression",
    "logistic": "a logistic regression of two classes",
    "softmax": "a softmax regression of several classes",
}


def training(facts: Facts) -> list[str]:
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
    said = (
        f"The release trained {_PREDICTS[model['predicts']]}{hidden}, which predicts {model['target']['name']}, in "
        f"{steps['steps']:,} steps over {_over(steps)}, by {steps['optimiser']} at a rate of {number(steps['rate'])}. "
        "The promise above is for all steps together."
    )
    use = (
        "In Python, release.predict(records) gives what the model predicts of records of your own. The records that "
        "it is asked about are not protected by the release."
    )
    return [section("What was trained?", paragraph(said), figure(_curve(lengths, noise)), paragraph(use))]


def trained(facts: Facts) -> str:
    """Curve and card of the model of a release, Markdown; empty where it has trained none."""
    lengths, noise = (facts.matrix.array(name) for name in ("gradient_length", "gradient_length_of_noise"))
    if "training" not in facts.attributes.get("query", {}) or lengths is None or noise is None:
        return ""
    return f"{image(_curve(lengths, noise))}\n{card_of(facts.attributes, lengths, noise)}"


def _over(steps: Mapping[str, Any]) -> str:
    """The records of one step, in words."""
    match steps.get("batches"):
        case "fixed":
            taken = (
                f", whose noise takes away noise of the {steps['band'] - 1:,} steps before" if "band" in steps else ""
            )
            return f"one of {steps['batch_count']:,} batches each{taken}"
        case "poisson":
            return f"a secret sample of {100 * steps['sampled']:g} % of the records each"
    return "all records"


def _curve(lengths: NDArray[Any], noise: NDArray[Any]) -> Picture:
    """Length of the noisy sum of each step beside that of its noise."""
    above = int(np.sum(lengths > 2.0 * noise))
    text = (
        f"Length of the released sum of gradients of each of {lengths.size:,} steps beside the length of its noise. "
        f"The first is {number(float(lengths[0]))}, the last {number(float(lengths[-1]))}, and noise alone about "
        f"{number(float(noise[-1]))}. In {above:,} steps the sum is more than twice as long as its noise."
    )

    def draw(theme: Theme) -> Figure:
        with drawn_by(STYLE):
            drawn = Figure(figsize=(6.6, 2.8), facecolor="none")
            axes, along = drawn.add_subplot(), np.arange(1, lengths.size + 1)
            axes.plot(along, lengths, color=theme.signal, lw=1.4, marker="o", ms=2.5, label="released sum of gradients")
            axes.plot(along, noise, color=theme.noise, lw=1.4, ls="--", label="length that noise alone has")
            axes.set_ylim(0.0, 1.08 * float(max(lengths.max(), noise.max())))
            axes.set_xlabel("step", color=theme.ink)
            axes.set_title("How far gradients stand out from the noise, step by step", color=theme.ink, fontsize=9.5)
            axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5)
            plain_axes(axes, theme)
            return drawn

    return pictured(draw, text)
