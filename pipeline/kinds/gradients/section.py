"""``[query]`` of sums of gradients, or of a training by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.pipeline.kinds.gradients.model_sections import ModelSection, TrainingSection
from blockveil.pipeline.sections.fields import Length, Whole, refusal, rule
from blockveil.pipeline.sections.geometry_section import BoxGeometry, Geometry
from blockveil.pipeline.sections.query_sections import QuerySection, check_imputed


class GradientsSection(QuerySection):
    """The sum of the clipped gradients of a model, one gradient a record."""

    no_features: ClassVar[str] = "a gradient is bounded as a whole"
    in_one_shape: ClassVar[bool] = False

    kind: Literal["gradients"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse"]
    """what to do with a missing value"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=20)] = 16
    """the bits of one quantised value"""
    clipping_norm: Length
    """the largest norm of one record's gradient; longer ones are shortened to it"""
    geometry: BoxGeometry
    """the public shape of the features"""
    model: ModelSection
    """the model whose gradients are summed"""
    training: TrainingSection | None = None
    """the steps of training that one release makes, all under its one charge; one sum of gradients where it is not
    given"""

    @property
    def geometries(self) -> dict[str, Geometry]:
        """Shapes by their key."""
        return {"geometry": self.geometry}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return (*(feature.name for feature in self.geometry.features), self.model.target.name)

    def public_files(self) -> Iterator[tuple[str, str]]:
        """The weights."""
        if self.model.weights is not None:
            yield "model.weights", "Leave it out, with its digest, for weights of zero"

    @rule
    def _settled(self) -> None:
        check_imputed("geometry", self.geometry, self.missing)
        if self.geometry.norm_at_most is not None:
            raise refusal(
                "geometry.norm_at_most",
                "given for the features of a model",
                "A gradient is bounded as a whole by clipping_norm, whatever its features are",
                "Remove it",
            )
        if self.model.target.name in [feature.name for feature in self.geometry.features]:
            raise refusal(
                "model.target.name",
                f'"{self.model.target.name}" is a feature',
                "The target is a column of its own, the last one",
                "Rename one of them",
            )
        shares = self.training is not None and self.training.errors_share is not None
        if shares and (self.model.loss != "logistic" or self.model.hidden):
            raise refusal(
                "training.errors_share",
                "given for another model than a logistic regression",
                "The Fisher matrix is that of a linear model of two classes",
                'Remove it, or set model.loss = "logistic" without hidden units',
            )
        if self.training is not None and self.training.examples > self.rows_at_most:
            raise refusal(
                "training.examples",
                f"{self.training.examples:,.10g} with rows_at_most = {self.rows_at_most:,}",
                "It is a public guess of the number of records, of which there are at most rows_at_most",
                "Lower it, or raise rows_at_most",
            )


SECTION = GradientsSection
