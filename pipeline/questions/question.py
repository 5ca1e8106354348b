"""What every question and its answer offer, and what questions share: quantisers and names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query
from blockveil.engine.answers.work import Work
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Ball, Box, Ellipsoid, GeometryError, Vector
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.records.quantiser_limits import LARGEST_MULTIPLIED
from blockveil.engine.sensitivity.box_products import Ends
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.rotation import along
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.sections.geometry_section import Geometry
from blockveil.pipeline.sections.query_sections import USUAL_BITS, Asked


class Question(Protocol):
    """One query of one config, as asked.

    Attributes
    ----------
    problem
        The query as a mechanism sees it.
    query
        How it is computed.
    origin
        Raw point that coordinates start from, by column of the records.
    """

    @property
    def problem(self) -> Problem:
        """The query as a mechanism sees it."""

    @property
    def query(self) -> Query:
        """How it is computed."""

    @property
    def origin(self) -> Vector:
        """Raw point that coordinates start from, by column of the records."""

    def answer(self, design: Design) -> Answer:
        """The question with its design.

        Raises
        ------
        GeometryError
            The error of this design could not be shown in the declared shape.
        NotApplicable
            The query is not answered by designs of this kind.
        """


class Answer(Protocol):
    """A question with the design that answers it: what is released, and its error. Nothing here reads data.

    Attributes
    ----------
    question
        What is asked.
    design
        The numbers of the draw, and what it costs.
    matrix
        Name of the released matrix among the arrays.
    shape
        Rows and columns of what is asked for.
    """

    @property
    def question(self) -> Question:
        """What is asked."""

    @property
    def design(self) -> Design:
        """The numbers of the draw, and what it costs."""

    @property
    def matrix(self) -> str:
        """Name of the released matrix among the arrays."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of what is asked for."""

    def facts(self) -> dict[str, Any]:
        """Public numbers of the shape and of what is measured, as plain JSON values."""

    def work(self, rows: int) -> Work:
        """What is to be computed for this many records; see :mod:`.work`."""

    def error_sentence(self) -> str:
        """Expected size of the noise, in words."""

    def noise_over_largest(self) -> tuple[float, float] | None:
        """Standard deviation of an entry's noise over the largest value that admissible records can give the entry.

        Least and largest over the entries, at the largest number of rows; the value is a bound, so that noise that
        exceeds it exceeds anything. None where the answer has no additive noise.
        """

    def error(self) -> ErrorReport | None:
        """Error of the whole answer in raw units, None where it is not known before the records are."""

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Arrays of the release, from released grid integers and the number of records.

        The number is used only where the neighbouring relation makes it public.
        """

    def blocks(self, rows: int) -> Blocks | None:
        """How to publish an answer too large to be put together; None where that cannot be done."""


def additive(design: Design) -> NoiseDesign:
    """The same design, for questions that additive noise alone answers.

    Raises
    ------
    NotApplicable
        It is another kind of draw.
    """
    noise = design.additive
    if noise is None:
        raise NotApplicable("this query is answered by additive noise alone; choose another mechanism")
    return noise


def quantiser(loaded: LoadedConfig, shape: Geometry, augmented: bool) -> Quantiser:
    """Clip and quantisation of records in a declared shape."""
    query = loaded.config.query
    stand_in = None
    if query.missing == "impute":
        stand_in = np.array([feature.impute for feature in shape.features], dtype=np.float64)
    usual = query.usual_bits if isinstance(query, Asked) else USUAL_BITS
    largest = 2 ** ((getattr(query, "quantisation_bits", None) or usual) - 1) - 1
    coordinates = geometry(loaded, shape).coordinates()
    # Integers that are added alone may be so large that rounding to nearest is not proven for them.
    places = FineDither(coordinates.dimension, largest) if largest > LARGEST_MULTIPLIED else None
    return Quantiser(coordinates, largest, augmented, stand_in, dither=places)


def ends_in_coordinates(clip: Quantiser) -> Ends | None:
    """Least and largest coordinate of a record in a box, as integers over K; None in other shapes and if mixed."""
    ends = clip.ends
    return None if ends is None else (ends[0] / clip.largest, ends[1] / clip.largest)


def geometry(loaded: LoadedConfig, shape: Geometry) -> Box | Ball | Ellipsoid:
    """Shape that a config declares."""
    if shape.kind == "box":
        lower = np.array([feature.lower for feature in shape.features], dtype=np.float64)
        upper = np.array([feature.upper for feature in shape.features], dtype=np.float64)
        origin = (lower + upper) / 2.0 if shape.origin == "midpoint" else np.zeros_like(lower)
        return Box(lower, upper, origin, shape.norm_at_most)
    origins = [feature.origin for feature in shape.features]
    if shape.kind == "ball":
        return Ball(origins, shape.radius)
    return Ellipsoid(origins, shape.semi_axes if shape.shape == "diagonal" else loaded.shape_matrix())


def directed(loaded: LoadedConfig, shape: Geometry, augmented: bool) -> tuple[Quantiser, bool]:
    """Clip and quantisation along the directions of noise that a config declares, and whether it declares any."""
    clip, directions = quantiser(loaded, shape, augmented), loaded.directions()
    if directions is None:
        return clip, False
    return replace(clip, coordinates=along(clip.coordinates, directions)), True


def mapped_facts(clip: Quantiser, directed: bool) -> dict[str, Any]:
    """How records are seen along directions or in a matrix shape, where they are; a change of it is another release.

    The whole numbers of the map are rounded from what a linear algebra library returns. Another library may return
    others, which the digest tells: it would give other answers to the same question.
    """
    facts: dict[str, Any] = {}
    if directed:
        facts["directions"] = "integer map over 2**33, rounded to nearest, version 1"
    mixing = clip.coordinates.mixing
    if mixing is not None:
        facts["map"] = {"bits": mixing.bits, "sha256": mixing.digest}
    return facts


def check_even(quantiser: Quantiser, spread: Vector) -> None:
    """Refuse noise of different sizes where coordinates are mixed by the matrix of a shape."""
    if quantiser.coordinates.mixing is not None and float(np.ptp(spread)) > 0.0:
        raise GeometryError(
            'this mechanism gives features noise of different sizes and ignores a full matrix; choose "shaped-gaussian"'
        )


def span(values: NDArray[np.float64]) -> str:
    """Least and largest value in words."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{high:.3g}" if low > 0.999 * high else f"{low:.3g} to {high:.3g}"


def extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """Least and largest value."""
    return float(np.min(values)), float(np.max(values))


def text(names: tuple[str, ...]) -> NDArray[np.str_]:
    """Names as an array."""
    return np.asarray(names, dtype=np.str_)
