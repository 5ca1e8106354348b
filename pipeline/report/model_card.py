"""The card of a trained model: what it is, what is promised, and what is not known of it. Public things only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import length_band
from blockveil.pipeline.base.printable import as_markdown
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.alone import laplace_rate
from blockveil.pipeline.report.released_coefficients import OF_POPULATION, UNKNOWN, Coefficients
from blockveil.pipeline.report.words import plain_words

_PREDICTS = {
    "squared": "a number, by least squares",
    "logistic": "one class of two, by logistic regression",
    "softmax": "one class of several, by softmax regression",
}
_MAPS = {
    "fourier": "random Fourier features",
    "oriented-gradients": "histograms of oriented gradients",
    "onnx": "a public network",
    "cross": "crossed categories",
}
_LEARNT = {"nothing": "no records", "public-records": "public records"}
_STEPS = {
    "fixed": "one of {batch_count} fixed batches",
    "poisson": "a secret sample of a share {sampling_probability} of the records",
}


def card_of(
    attributes: Mapping[str, Any],
    lengths: NDArray[Any],
    noise: NDArray[Any],
    coefficients: Coefficients | None = None,
) -> str:
    """Card of the model that a release has trained, Markdown.

    Parameters
    ----------
    attributes
        Of a release with a trained model, plain values.
    lengths, noise
        Length of the released sum of each step, and of its noise, shape (steps,).
    coefficients
        Of a logistic regression with errors; None where none are stated.
    """
    query, promise = attributes["query"], attributes["guarantee"]
    return "\n".join(
        [
            f"# Model of {as_markdown(attributes['release_id'])}",
            "",
            "## What it is",
            "",
            *_model(query),
            "",
            "## What is promised",
            "",
            f"- {as_markdown(promise['sentence'])}",
            f"- {as_markdown(plain_words(promise))}",
            "- The promise is for all steps of the training together, and for everything that is made of this file.",
            "",
            "## How it was trained",
            "",
            *_training(attributes, lengths, noise),
            "",
            *([] if coefficients is None else _coefficients(coefficients)),
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
            *_features(query["geometry"]),
            "",
            *_maps(attributes.get("public_maps", ())),
        ]
    )


def _model(asked: Mapping[str, Any]) -> list[str]:
    model = asked["model"]
    target, units = model["target"], model.get("hidden_units") or []
    layers = ", ".join(f"{each:,}" for each in ([units] if isinstance(units, int) else units))
    of = f"{target['classes']} classes" if target.get("classes") else f"{target['lower']:g} to {target['upper']:g}"
    hidden = f"- Hidden layers of {layers} units, {as_markdown(model['activation'])}." if layers else "- It is linear."
    return [f"- It predicts {as_markdown(target['name'])} ({of}): {_PREDICTS[model['loss']]}.", hidden]


def beyond_noise(
    attributes: Mapping[str, Any] | None, lengths: NDArray[Any], noise: NDArray[Any], steps: int | None = None
) -> str:
    """In how many steps of a training the sum is longer than noise alone makes any of them.

    Parameters
    ----------
    attributes
        Of the release; None where the law of its noise is not known.
    lengths, noise
        Length of the released sum of each step, and root mean square of that of its noise, shape (steps,).
    steps
        Of the whole training, where there are more to come: whoever looks again and again is told no more of noise.
    """
    laplace = attributes is None or laplace_rate(attributes["mechanism"]) is not None
    band = length_band(steps or lengths.size, laplace=laplace)
    above = int(np.sum(lengths > band * noise))
    return (
        f"In {above:,} of {lengths.size:,} {'step' if lengths.size == 1 else 'steps'} the released sum is more than "
        f"{band:.3g} times as long as its noise, which noise alone is in no step in 95 of 100 releases."
    )


def _training(attributes: Mapping[str, Any], lengths: NDArray[Any], noise: NDArray[Any]) -> list[str]:
    steps = attributes["query"]["training"]
    over = _STEPS.get(steps["batches"], "all records").format_map(steps)
    return [
        f"- {steps['steps']:,} steps, each over {over}, by {as_markdown(steps['optimiser'])} at a learning rate of "
        f"{number(steps['learning_rate'])}.",
        f"- {beyond_noise(attributes, lengths, noise)}",
    ]


def _coefficients(found: Coefficients) -> list[str]:
    """Table of coefficients with intervals for the population and p-values."""
    if not found.known:
        return ["## Coefficients", "", UNKNOWN, ""]
    return [
        "## Coefficients",
        "",
        OF_POPULATION,
        "",
        "| feature | coefficient | from | to | p |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(map(as_markdown, row.values()))} |" for row in found.rows()),
        "",
    ]


def _maps(origins: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who made the features that are no columns of the source; nothing where the release names none."""
    if not origins:
        return []
    lines = ["## Features that public maps made", ""]
    for each in origins:
        count = int(each["count"])
        further = "" if count == 1 else f" and the {count - 1:,} after it"
        network = ""
        if "trained_on" in each:
            network = (
                f" The network was trained on {as_markdown(each['trained_on'])}; its file has the SHA-256 "
                f"{as_markdown(each['sha256'])}."
            )
        kind, source = _MAPS.get(each["kind"], as_markdown(each["kind"])), _LEARNT.get(each["fitted_on"])
        lines.append(
            f"- {as_markdown(each['first'])}{further}: {kind}, chosen by {as_markdown(each['author'])}"
            f"{'' if source is None else f' from {source}'}.{network}"
        )
    return [*lines, "- The records are given to the model after the same maps.", ""]


def _features(shape: Mapping[str, Any]) -> list[str]:
    return [
        "| feature | least | largest |",
        "|---|---|---|",
        *(f"| {as_markdown(each['name'])} | {each['lower']:g} | {each['upper']:g} |" for each in shape["features"]),
    ]
