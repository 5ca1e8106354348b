"""What a report says of sums of gradients, and of a model that was trained by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.number_sources import RELEASED
from blockveil.pipeline.report.presenter import Presenter
from blockveil.pipeline.report.released_coefficients import OF_POPULATION, UNKNOWN, coefficients_of
from blockveil.pipeline.report.report_sections import ReportSection
from blockveil.pipeline.report.training_curve import curve, lengths_of

_PREDICTS = {
    "squared": "a linear regression",
    "logistic": "a logistic regression of two classes",
    "softmax": "a softmax regression of several classes",
}


class GradientsPresenter(Presenter):
    """Sums of gradients: what was trained by them."""

    matrix = "gradients"

    def sections(self, facts: Facts) -> list[ReportSection]:
        """The model, where one was trained."""
        return _training(facts)


def _training(facts: Facts) -> list[ReportSection]:
    """Section on the model of a release; nothing where it has trained none."""
    lengths, noise = lengths_of(facts)
    if lengths is None or noise is None:
        return []
    model, steps = (facts.attributes["query"][name] for name in ("model", "training"))
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
    steps_shown = ReportSection(sentences=[summary], picture=curve(lengths, noise, facts.attributes))
    return [
        ReportSection(
            title="What was trained?",
            key="what-was-trained",
            within=[steps_shown, *_errors(facts), ReportSection(sentences=[use])],
            source="query, gradient_length, gradient_length_of_noise",
            decided_by=RELEASED,
        )
    ]


def _errors(facts: Facts) -> list[ReportSection]:
    """Coefficients with what they are known to."""
    coefficients = coefficients_of(facts.attributes, facts.matrix.array)
    if coefficients is None:
        return []
    return [ReportSection(sentences=[OF_POPULATION if coefficients.known else UNKNOWN], table=coefficients.rows())]


def _over(steps: Mapping[str, Any]) -> str:
    """The records of one step, in words."""
    match steps.get("batches"):
        case "fixed":
            of_band = (
                f", whose noise takes away noise of the {steps['band'] - 1:,} steps before" if "band" in steps else ""
            )
            return f"one of {steps['batch_count']:,} batches each{of_band}"
        case "poisson":
            return f"a secret sample of {100 * steps['sampling_probability']:g} % of the records each"
    return "all records"


PRESENTER = (GradientsPresenter(),)
