"""``[query.model]``: a model at public weights, whose gradients are summed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from blockveil.pipeline.sections.fields import SMALLEST, Bound, Label, LocalPath, Number, Section, Whole, refusal, rule


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


Units = Annotated[Whole, Field(ge=1, le=2**14)]


class ModelSection(Section):
    """A model at public weights. Features and numbers to predict are seen between -1 and 1 of their bounds."""

    loss: Literal["squared", "logistic", "softmax"]
    """the loss: of a number, of one class against another, or of one class of several"""
    target: Target
    """the last column of the records"""
    hidden_units: Units | Annotated[tuple[Units, ...], Field(min_length=1, max_length=16)] | None = None
    """the number of hidden units, or such as [64, 32] of each hidden layer; without it the model is linear"""
    activation: Literal["tanh", "relu", "gelu"] | None = None
    """what a hidden unit does to its input"""
    weights: LocalPath | None = None
    """the .npz file of the weights: "last" (and "hidden", or "hidden_1" and so on of several layers), the
    constant's first; without it all are zero"""
    weights_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of the file of the weights, 64 hexadecimal digits"""

    @property
    def hidden(self) -> tuple[int, ...]:
        """Number of units of each hidden layer, the first layer first."""
        if self.hidden_units is None:
            return ()
        return self.hidden_units if isinstance(self.hidden_units, tuple) else (self.hidden_units,)

    @rule
    def _whole(self) -> None:
        number, target = self.loss == "squared", self.target
        bounds = target.lower is not None and target.upper is not None and target.upper - target.lower >= SMALLEST
        if number != bounds or number == (target.classes is not None):
            raise refusal(
                "target",
                f'its bounds or classes do not fit "{self.loss}"',
                "A number has lower and upper, a class has classes",
                "Give lower and upper with lower below upper" if number else "Give classes, and no bounds",
            )
        if self.loss == "logistic" and target.classes != 2:
            raise refusal("target.classes", str(target.classes), "A logistic model has two classes", "Set it to 2")
        if (self.hidden_units is None) != (self.activation is None):
            raise refusal("activation", "given alone", "It goes with hidden_units", "Give both or neither")
        if (self.weights is None) != (self.weights_sha256 is None):
            raise refusal(
                "weights_sha256",
                "missing" if self.weights else "given without weights",
                "Weights are a file that is pinned by its digest",
                "Give both; `sha256sum FILE`, `blockveil public step` and `blockveil public weights` print the digest",
            )
        if self.hidden_units is not None and self.weights is None:
            raise refusal(
                "weights",
                "missing",
                "At zero weights all hidden units stay the same for ever",
                "Give a file of random weights; `blockveil public weights` makes one",
            )


class TrainingSection(Section):
    """Steps of training: each follows a sum of gradients with noise, at the weights that the steps before it gave."""

    steps: Annotated[Whole, Field(ge=1, le=10_000)]
    """the number of steps; their loss together is that of the release"""
    batches: Literal["full", "fixed", "poisson"]
    """the records of a step: "full" takes all of them, "fixed" one disjoint batch after another, "poisson" a secret
    sample"""
    batch_count: Annotated[Whole, Field(ge=2, le=10_000)] | None = None
    """with "fixed" only, and required there: the number of batches, the steps of an epoch"""
    batch_seed: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """with "fixed" only, and required there: any text, which fixes the batch of each record; the guarantee does not
    rest on its secrecy"""
    band: Annotated[Whole, Field(ge=2, le=256)] | None = None
    """with "fixed" only: the number of bands of correlated noise between steps (banded matrix factorisation), at most
    batch_count; independent noise by default"""
    sampling_probability: Annotated[Number, Field(ge=1e-6, lt=1)] | None = None
    """with "poisson" only, and required there: the probability of each record to take part in a step, such as 0.05"""
    examples: Annotated[Number, Field(ge=1, le=1e15)]
    """a public number of records, by which a sum of gradients is divided, times the share of records in a step"""
    optimiser: Literal["sgd", "momentum", "adam"]
    """how weights follow a gradient"""
    learning_rate: Annotated[Number, Field(gt=0, le=1e6)]
    """the length of the first step: a factor of the mean gradient, or with "adam" of the size of one weight"""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """how the rate changes: "linear" and "cosine" lower it to nothing at the end"""
    momentum: Annotated[Number, Field(ge=0, lt=1)] | None = None
    """with "momentum" only, and required there: the share of the last movement that is kept, such as 0.9"""
    weight_decay: Annotated[Number, Field(ge=0, le=1)] = 0.0
    """the share of the weights, times the rate, that each step takes off"""
    errors_share: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """of a logistic regression alone: the share of mu squared for the Fisher matrix at the last weights, which gives
    each coefficient a standard error; by default the steps get all of it, and there are no standard errors"""
    publishes: Literal["last-weights", "weights"] | None = None
    """what is published in place of the noisy sums of all steps: "last-weights", the weights after the last step, or
    "weights", those after each step; both with the sum of the last step and the lengths of all"""

    @rule
    def _moved(self) -> None:
        if (self.optimiser == "momentum") != (self.momentum is not None):
            raise refusal(
                "momentum",
                "missing" if self.momentum is None else f'given with optimiser = "{self.optimiser}"',
                'It belongs to optimiser = "momentum"',
                "Give momentum, such as 0.9" if self.momentum is None else "Remove it",
            )

    @rule
    def _composed(self) -> None:
        if self.errors_share is not None and self.batches == "poisson":
            raise refusal(
                "errors_share",
                'given with batches = "poisson"',
                "A share divides mu squared, which the loss of steps over secret samples does not have",
                'Remove it, or set batches = "full" or "fixed"',
            )

    @rule
    def _banded(self) -> None:
        most = min(self.batch_count or 1, self.steps)
        if self.band is not None and self.band > most:
            raise refusal(
                "band",
                str(self.band),
                "Noise cancels between two steps of one record, of which there is one in each epoch",
                f"Lower it to {most} at most" if most > 1 else 'Leave it out, or set batches = "fixed"',
            )

    @rule
    def _batched(self) -> None:
        for key, kind in (("batch_count", "fixed"), ("batch_seed", "fixed"), ("sampling_probability", "poisson")):
            is_set = getattr(self, key) is not None
            if is_set != (self.batches == kind):
                raise refusal(
                    key,
                    f'given with batches = "{self.batches}"' if is_set else "missing",
                    f'It belongs to batches = "{kind}"',
                    "Remove it" if is_set else "Give it",
                )
        if self.batch_count is not None and self.batch_count > self.examples:
            raise refusal(
                "batch_count",
                f"{self.batch_count:,} with examples = {self.examples:,.10g}",
                "There are at most as many batches as examples, or a step would be over less than one record",
                "Lower it, or correct examples",
            )
        if self.sampling_probability is not None and self.sampling_probability * self.examples < 1.0:
            raise refusal(
                "sampling_probability",
                f"{self.sampling_probability:g} with examples = {self.examples:,.10g}",
                "A step is over at least one record on average",
                f"Raise it to {1.0 / self.examples:g} at least, or correct examples",
            )
