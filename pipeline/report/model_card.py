"""The card of a trained model: what it is, what is promised, and what is not known of it. Public things only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.printable import as_markdown
from blockveil.pipeline.report.words import number, plain_words

_PREDICTS = {
    "squared": "a number, by least squares",
    "logistic": "one class of two, by logistic regression",
    "softmax": "one class of several, by softmax regression",
}
_STEPS = {
    "fixed": "one of {batch_count} fixed batches",
    "poisson": "a secret sample of a share {sampled} of the records",
}


def card_of(attributes: Mapping[str, Any], lengths: NDArray[Any], noise: NDArray[Any]) -> str:
    """Card of the model that a release has trained, Markdown.

    Parameters
    ----------
    attributes
        Of a release with a trained model, plain values.
    lengths, noise
        Length of the released sum of each step, and of its noise, shape (steps,).
    """
    asked, promise = attributes["query"], attributes["guarantee"]
    return "\n".join(
        [
            f"# Model of {as_markdown(attributes['release_id'])}",
            "",
            "## What it is",
            "",
            *_model(asked),
            "",
            "## What is promised",
            "",
            f"- {as_markdown(promise['sentence'])}",
            f"- {as_markdown(plain_words(promise))}",
            "- The promise is for all steps of the training together, and for everything that is made of this file.",
            "",
            "## How it was trained",
            "",
            *_training(asked["training"], lengths, noise),
            "",
            "## What is not known, and not promised",
            "",
            "- How often it is right. No record was set aside, and none was looked at beyond the released sums. "
            "Measure it on records that may be used for that; records of the training cost budget for it.",
            "- The records that it is asked about are not protected by this release.",
            "- Features outside their bounds count as the nearest value within. Of records unlike those of the "
            "training it may be wrong in any way.",
            "- Groups that are rare among the records are learnt least, because noise hides what few records say.",
            "",
            "## Features",
            "",
            *_features(asked["geometry"]),
            "",
        ]
    )


def _model(asked: Mapping[str, Any]) -> list[str]:
    model = asked["model"]
    target, units = model["target"], model.get("hidden_units") or []
    layers = ", ".join(f"{each:,}" for each in ([units] if isinstance(units, int) else units))
    of = f"{target['classes']} classes" if target.get("classes") else f"{target['lower']:g} to {target['upper']:g}"
    hidden = f"- Hidden layers of {layers} units, {as_markdown(model['activation'])}." if layers else "- It is linear."
    return [f"- It predicts {as_markdown(target['name'])} ({of}): {_PREDICTS[model['predicts']]}.", hidden]


def _training(steps: Mapping[str, Any], lengths: NDArray[Any], noise: NDArray[Any]) -> list[str]:
    over = _STEPS.get(steps["batches"], "all records").format_map(steps)
    above, optimiser = int(np.sum(lengths > 2.0 * noise)), as_markdown(steps["optimiser"])
    return [
        f"- {steps['steps']:,} steps, each over {over}, by {optimiser} at a rate of {number(steps['rate'])}.",
        f"- In {above:,} of {lengths.size:,} steps the released sum is more than twice as long as its noise.",
    ]


def _features(shape: Mapping[str, Any]) -> list[str]:
    return [
        "| feature | least | largest |",
        "|---|---|---|",
        *(f"| {as_markdown(each['name'])} | {each['lower']:g} | {each['upper']:g} |" for each in shape["features"]),
    ]
