"""A model that a release has trained, for records of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output, sigmoid, softmax
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.analysis.fits import finite_rows_of
from blockveil.pipeline.analysis.labelled import plain
from blockveil.pipeline.analysis.logistic_regression import released
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.report.model_card import card_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model at the weights after the last step of a training.

    What it predicts of a record is post-processing of the release and costs nothing; the record itself is not protected
    by the release.

    Attributes
    ----------
    features
        Names of the features, in order.
    model
        The model, which sees features between -1 and 1 of their bounds.
    box
        Bounds of the features; values outside count as the nearest within.
    label
        Least and largest value of what is predicted, or of its codes.
    card
        What it is, what is promised, and what is not known of it: Markdown.
    """

    features: tuple[str, ...]
    model: Model
    box: Box
    label: tuple[float, float]
    card: str

    @classmethod
    def of(cls, opened: OpenRelease) -> TrainedModel:
        """Model of a release.

        Raises
        ------
        ConfigError
            The release has trained none, or has its bounds from a file that it does not hold.
        """
        attributes = plain(opened.attributes)
        query = attributes.get("query", {})
        if "training" not in query or "last_weights" not in opened.arrays:
            raise ConfigError(
                "This release has trained no model",
                "A model comes from [query.training]",
                'Release query.kind = "gradients" with [query.training]',
            )
        declaration, shape = query["model"], query["geometry"]
        bounds = [(each.get("lower"), each.get("upper")) for each in shape["features"]]
        if any(end is None for pair in bounds for end in pair):
            raise ConfigError(
                "The bounds of the features are those of a file",
                "A release holds the digest of that file and not its content",
                "Declare lower and upper of each feature in the config",
            )
        lower, upper = (np.array(side, np.float64) for side in zip(*bounds, strict=True))
        origin = np.zeros_like(lower) if shape["origin"] == "zero" else (lower + upper) / 2.0
        layers = [name for name in opened.arrays if name.endswith("_weights")]
        weights = {name.removesuffix("_weights"): np.asarray(opened.arrays[name][...]) for name in layers}
        model = Model.at(Output(declaration["loss"]), Activation(declaration.get("activation") or "tanh"), weights)
        target = declaration["target"]
        label = (0.0, target["classes"] - 1.0) if "classes" in target else (target["lower"], target["upper"])
        names = tuple(str(each["name"]) for each in shape["features"])
        lengths, noise = (
            np.asarray(opened.arrays[name][...]) for name in ("gradient_length", "gradient_length_of_noise")
        )
        return cls(
            names, model, Box(lower, upper, origin), label, card_of(attributes, lengths, noise, released(opened))
        )

    def predict(self, records: Any) -> NDArray[Any]:
        """What it predicts of each record.

        Parameters
        ----------
        records
            A DataFrame with the features among its columns, or numbers of shape (n, features) in their order.

        Returns
        -------
        Shape (n,): codes of classes, int64, or numbers in the unit of what was to be predicted, float64.

        Raises
        ------
        ConfigError
            A feature is missing, or a value is not a finite number.
        """
        if self.model.output is Output.SQUARED:
            low, high = self.label
            return (low + high) / 2.0 + self._reached(records)[:, 0] * (high - low) / 2.0
        return np.asarray(self.predict_proba(records).argmax(axis=1).astype(np.int64))

    def predict_proba(self, records: Any) -> Array:
        """Probability of each class for each record, shape (n, classes); parameters and errors as :meth:`predict`.

        Raises
        ------
        ConfigError
            The model predicts a number.
        """
        if self.model.output is Output.SQUARED:
            raise ConfigError("The model predicts a number", "Probabilities are those of classes", "Use predict")
        logits = self._reached(records)
        if self.model.output is Output.SOFTMAX:
            return softmax(logits)
        share = sigmoid(logits[:, 0])
        return np.column_stack([1.0 - share, share])

    def _reached(self, records: Any) -> Array:
        clip = Quantiser(self.box.coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
        return self.model.reached(clip.quantise(finite_rows_of(records, self.features)))
