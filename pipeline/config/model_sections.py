"""``[query.model]``: a model at public weights, whose gradients are summed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from blockveil.pipeline.config.fields import SMALLEST, Bound, Label, LocalPath, Section, Whole, refusal, rule


class Target(Section):
    """The last column of the records: what a model predicts."""

    name: Label
    """the name of the column"""
    classes: Annotated[Whole, Field(ge=2, le=2**14)] | None = None
    """the number of classes, coded 0, 1, ...; a code outside counts as the nearest"""
    lower: Bound | None = None
    """the least value of a number to predict; values below count as this one"""
    upper: Bound | None = None
    """the largest value of a number to predict; values above count as this one"""


class ModelSection(Section):
    """A model at public weights. Features and numbers to predict are seen between -1 and 1 of their bounds."""

    predicts: Literal["squared", "logistic", "softmax"]
    """the loss: of a number, of one class against another, or of one class of several"""
    target: Target
    """the last column of the records"""
    hidden_units: Annotated[Whole, Field(ge=1, le=2**14)] | None = None
    """the number of hidden units; without it the model is linear"""
    activation: Literal["tanh", "relu"] | None = None
    """what a hidden unit does to its input"""
    weights: LocalPath | None = None
    """the .npz file of the weights: "last" (and "hidden"), the constant's first; without it all are zero"""
    weights_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of the file of the weights, 64 hexadecimal digits"""

    @rule
    def _whole(self) -> None:
        number, target = self.predicts == "squared", self.target
        bounds = target.lower is not None and target.upper is not None and target.upper - target.lower >= SMALLEST
        if number != bounds or number == (target.classes is not None):
            raise refusal(
                "target",
                f'its bounds or classes do not fit "{self.predicts}"',
                "A number has lower and upper, a class has classes",
                "Give lower and upper with lower below upper" if number else "Give classes, and no bounds",
            )
        if self.predicts == "logistic" and target.classes != 2:
            raise refusal("target.classes", str(target.classes), "A logistic model has two classes", "Set it to 2")
        if (self.hidden_units is None) != (self.activation is None):
            raise refusal("activation", "given alone", "It goes with hidden_units", "Give both or neither")
        if (self.weights is None) != (self.weights_sha256 is None):
            raise refusal(
                "weights_sha256",
                "missing" if self.weights else "given without weights",
                "Weights are a file that is pinned by its digest",
                "Give both; `sha256sum FILE`, `blockveil step` and `blockveil weights` print the digest",
            )
        if self.hidden_units is not None and self.weights is None:
            raise refusal(
                "weights",
                "missing",
                "At zero weights all hidden units stay the same for ever",
                "Give a file of random weights; `blockveil weights` makes one",
            )
