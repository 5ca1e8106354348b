"""What a config asks, ready to be planned, computed and shown: one class a kind of query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine import estimates, gram
from engine.cost import Cost, counts_cost, outer_products_cost, rows_cost, second_moment_cost
from engine.errors import ErrorReport, error_report
from engine.fixedpoint import Quantiser
from engine.geometry import Ball, Box, Ellipsoid, GeometryError, Vector
from engine.guarantees import Neighbours
from engine.mechanisms.additive import NoiseDesign
from engine.problems import Counts, OuterProducts, Problem, Rows, SecondMoment
from engine.queries.counts import CountsQuery
from engine.queries.graph import Query
from engine.queries.outer_products import OuterProductsQuery
from engine.queries.rows import RowsQuery
from engine.queries.second_moment import SecondMomentQuery
from pipeline.config import LoadedConfig
from pipeline.config import queries as declared
from pipeline.config.geometry import Geometry
from pipeline.publishing import ReleaseArrays

_PAIR = ("feature", "feature_")


class Question(Protocol):
    """One query of one config.

    Attributes
    ----------
    problem
        The query as a mechanism sees it.
    query
        How it is computed.
    matrix
        Name of the released matrix among the arrays.
    """

    @property
    def problem(self) -> Problem:
        """The query as a mechanism sees it."""

    @property
    def query(self) -> Query:
        """How it is computed."""

    @property
    def matrix(self) -> str:
        """Name of the released matrix among the arrays."""

    @property
    def origin(self) -> Vector:
        """Raw point that coordinates start from, by column of the records."""

    def check(self, design: NoiseDesign) -> None:
        """Refuse noise that this query cannot show the error of; GeometryError."""

    def facts(self) -> dict[str, Any]:
        """Public numbers of the shape, as plain JSON values."""

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Predicted cost; see :mod:`engine.cost`."""

    def error_sentence(self, design: NoiseDesign) -> str:
        """Expected size of the noise, in words; reads no data."""

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Error of the whole answer in raw units; reads no data."""

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Arrays of the release, from released grid integers and the number of records.

        The number is used only where the neighbouring relation makes it public.
        """


def ask(loaded: LoadedConfig) -> Question:
    """Question of a config; reads public files only.

    Raises
    ------
    ValueError
        The declared shape, bits and size cannot be combined.
    """
    match loaded.config.query:
        case declared.MomentQuery() as asked:
            return _moment(loaded, asked)
        case declared.RowsQuery() as asked:
            return _rows(loaded, asked)
        case declared.OuterProductsQuery() as asked:
            return _outer_products(loaded, asked)
        case declared.CountsQuery() as asked:
            return _counts(loaded, asked)


@dataclass(frozen=True, eq=False)
class Moment:
    """Covariance or second moment."""

    problem: SecondMoment
    query: SecondMomentQuery
    features: tuple[str, ...]

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "covariance" if self.problem.augmented else "second_moment"

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.query.quantiser.coordinates.origin

    def check(self, design: NoiseDesign) -> None:
        """A full matrix shape needs noise that is even in coordinates."""
        _check_even(self.query.quantiser, design.spread.columns[int(self.problem.augmented) :])

    def facts(self) -> dict[str, Any]:
        """Shape of a record."""
        return {
            "body": self.problem.body.value,
            "constant_coordinate": self.problem.augmented,
            "largest_integer": self.problem.largest,
        }

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Of the row-panel plan."""
        return second_moment_cost(rows, self.problem.shape[0], chunk_bytes, threads, parallel)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the second moment, which everything else follows from."""
        back = self.query.quantiser.coordinates.to_raw()
        if self.problem.augmented:  # the count and the sums are not part of it
            back = np.concatenate([[0.0], back]) if back.ndim == 1 else np.pad(back, ((1, 0), (1, 0)))
        return error_report(design, back, back)

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the product of two features' half widths, at the largest number of rows."""
        rows = self.problem.rows_at_most
        if self.problem.augmented:
            share = estimates.worst_covariance_deviation(design, rows)
            lead = f"at {rows:,} rows, a covariance entry's standard deviation is at most"
        else:
            share = design.entry_standard_deviation() / rows
            lead = f"at {rows:,} rows, a second moment's standard deviation per row is"
        return f"{lead} {_span(share)} of the product of the two features' half widths"

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Matrix, its error and a positive semi-definite version; for a covariance count and mean too."""
        names, coordinates = _text(self.features), self.query.quantiser.coordinates
        if not self.problem.augmented:
            moment = estimates.second_moment(released, design, coordinates)
            return {
                "feature": (names, ("feature",)),
                "second_moment": (moment.value, _PAIR),
                "second_moment_standard_deviation": (moment.standard_deviation, _PAIR),
                "second_moment_psd": (estimates.second_moment_psd(released, design, coordinates), _PAIR),
            }
        public_count = rows if self.problem.neighbours is Neighbours.REPLACE_ONE else None
        found = estimates.covariance(released, design, coordinates, public_count)
        return {
            "feature": (names, ("feature",)),
            "count": (found.count.value, ()),
            "count_standard_deviation": (found.count.standard_deviation, ()),
            "mean": (found.mean.value, ("feature",)),
            "mean_standard_deviation": (found.mean.standard_deviation, ("feature",)),
            "covariance": (found.covariance.value, _PAIR),
            "covariance_standard_deviation": (found.covariance.standard_deviation, _PAIR),
            "covariance_psd": (found.covariance_psd, _PAIR),
            "second_moment": (found.second_moment.value, _PAIR),
            "second_moment_standard_deviation": (found.second_moment.standard_deviation, _PAIR),
        }


@dataclass(frozen=True, eq=False)
class Records:
    """The records themselves."""

    problem: Rows
    query: RowsQuery
    features: tuple[str, ...]

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "rows"

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.query.quantiser.coordinates.origin

    def check(self, design: NoiseDesign) -> None:
        """A full matrix shape needs noise that is even in coordinates."""
        _check_even(self.query.quantiser, design.spread.columns)

    def facts(self) -> dict[str, Any]:
        """Shape of a record."""
        return {"body": self.problem.body.value, "largest_integer": self.problem.largest}

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Of reading, noise and writing; the answer is held whole."""
        return rows_cost(rows, self.problem.shape[1], chunk_bytes, threads, parallel)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the records."""
        return error_report(design, np.ones(design.shape[0]), self.query.quantiser.coordinates.to_raw())

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the feature's half width."""
        share = design.standard_deviations((0, 1), (0, design.shape[1]))
        return f"a value's standard deviation is {_span(share)} of the feature's half width"

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Noisy records and the standard deviation of a feature's noise."""
        found = estimates.records(released, design, self.query.quantiser.coordinates)
        pair = ("record", "feature")
        return {
            "feature": (_text(self.features), ("feature",)),
            "rows": (found.value, pair),
            "rows_standard_deviation": (found.standard_deviation, pair),
        }


@dataclass(frozen=True, eq=False)
class Outer:
    """Sum of outer products."""

    problem: OuterProducts
    query: OuterProductsQuery
    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "outer_products"

    @property
    def origin(self) -> Vector:
        """Origins of both shapes."""
        return np.concatenate([self.query.left.coordinates.origin, self.query.right.coordinates.origin])

    def check(self, design: NoiseDesign) -> None:
        """Factors have no full matrix shapes."""

    def facts(self) -> dict[str, Any]:
        """Shapes of both factors."""
        return {
            "left_body": self.problem.left.value,
            "right_body": self.problem.right.value,
            "largest_integer": self.problem.largest,
        }

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Of one product a block of rows."""
        return outer_products_cost(rows, self.problem.shape, chunk_bytes, threads, parallel)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the sum."""
        return error_report(design, *self.problem.units)

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the product of the two half widths, at the largest number of rows."""
        rows = self.problem.rows_at_most
        lead = f"at {rows:,} rows, an entry's standard deviation per row is"
        return f"{lead} {_span(design.entry_standard_deviation() / rows)} of the product of the two half widths"

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Sum over records of ``(a - origin)(b - origin)'`` and its error."""
        found = estimates.outer_products(released, design, self.query.left.coordinates, self.query.right.coordinates)
        pair = ("row", "column")
        return {
            "row": (_text(self.left), ("row",)),
            "column": (_text(self.right), ("column",)),
            "outer_products": (found.value, pair),
            "outer_products_standard_deviation": (found.standard_deviation, pair),
        }


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts in the cells of a grid."""

    problem: Counts
    query: CountsQuery

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "counts"

    @property
    def origin(self) -> Vector:
        """Lower edges of the grid."""
        return np.array([self.query.rows[0], self.query.columns[0]])

    def check(self, design: NoiseDesign) -> None:
        """Cells have no full matrix shapes."""

    def facts(self) -> dict[str, Any]:
        """Cells of the grid."""
        return {"cells": list(self.problem.cells)}

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Of reading and counting."""
        return counts_cost(rows, self.problem.cells, chunk_bytes, threads, parallel)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the counts."""
        return error_report(design, *self.problem.units)

    def error_sentence(self, design: NoiseDesign) -> str:
        """In records."""
        return f"a count's standard deviation is {_span(design.standard_deviations((0, 1), (0, 1)))} records"

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Noisy counts, their error, whole non-negative counts nearest to them, and the edges of the cells."""
        found = estimates.coordinate_estimate(released, design)
        pair = ("row", "column")
        return {
            "row": (_text(_intervals(self.query.rows)), ("row",)),
            "column": (_text(_intervals(self.query.columns)), ("column",)),
            "row_edges": (self.query.rows, ("row_edge",)),
            "column_edges": (self.query.columns, ("column_edge",)),
            "counts": (found.value, pair),
            "counts_standard_deviation": (found.standard_deviation, pair),
            "counts_whole": (np.rint(np.maximum(found.value, 0.0)).astype(np.int64), pair),
        }


def _counts(loaded: LoadedConfig, asked: declared.CountsQuery) -> Cells:
    edges = [np.linspace(axis.lower, axis.upper, axis.cells + 1) for axis in (asked.row_axis, asked.column_axis)]
    query = CountsQuery(edges[0], edges[1], asked.outside == "clip", asked.missing == "drop")
    return Cells(Counts(query.shape, loaded.config.privacy.neighbours, asked.rows_at_most), query)


def _intervals(edges: Vector) -> tuple[str, ...]:
    return tuple(f"{low:.6g} to {high:.6g}" for low, high in zip(edges, edges[1:], strict=False))


def _moment(loaded: LoadedConfig, asked: declared.MomentQuery) -> Moment:
    quantiser = _quantiser(loaded, asked.geometry, augmented=asked.kind == "covariance")
    gram.check_no_overflow(asked.rows_at_most, quantiser.largest)
    problem = SecondMoment(
        quantiser.coordinates.body,
        quantiser.coordinates.scale,
        loaded.config.privacy.neighbours,
        quantiser.largest,
        asked.rows_at_most,
        quantiser.augmented,
    )
    return Moment(problem, SecondMomentQuery(quantiser), asked.columns)


def _rows(loaded: LoadedConfig, asked: declared.RowsQuery) -> Records:
    quantiser = _quantiser(loaded, asked.geometry, augmented=False)
    problem = Rows(
        quantiser.coordinates.body,
        quantiser.coordinates.scale,
        loaded.config.privacy.neighbours,
        quantiser.largest,
        asked.rows_at_most,
    )
    return Records(problem, RowsQuery(quantiser), asked.columns)


def _outer_products(loaded: LoadedConfig, asked: declared.OuterProductsQuery) -> Outer:
    left, right = (_quantiser(loaded, side, augmented=False) for side in (asked.left, asked.right))
    gram.check_no_overflow(asked.rows_at_most, left.largest)
    problem = OuterProducts(
        left.coordinates.body,
        right.coordinates.body,
        left.coordinates.scale,
        right.coordinates.scale,
        loaded.config.privacy.neighbours,
        left.largest,
        asked.rows_at_most,
    )
    names = asked.columns
    return Outer(problem, OuterProductsQuery(left, right), names[: left.width], names[left.width :])


def _quantiser(loaded: LoadedConfig, shape: Geometry, augmented: bool) -> Quantiser:
    query = loaded.config.query
    stand_in = None
    if query.missing == "impute":
        stand_in = np.array([feature.impute for feature in shape.features], dtype=np.float64)
    bits = getattr(query, "quantisation_bits", 16)
    return Quantiser(_geometry(loaded, shape).coordinates(), 2 ** (bits - 1) - 1, augmented, stand_in)


def _geometry(loaded: LoadedConfig, shape: Geometry) -> Box | Ball | Ellipsoid:
    if shape.kind == "box":
        lower = np.array([feature.lower for feature in shape.features], dtype=np.float64)
        upper = np.array([feature.upper for feature in shape.features], dtype=np.float64)
        origin = (lower + upper) / 2.0 if shape.origin == "midpoint" else np.zeros_like(lower)
        return Box(lower, upper, origin)
    origins = [feature.origin for feature in shape.features]
    if shape.kind == "ball":
        return Ball(origins, shape.radius)
    return Ellipsoid(origins, shape.semi_axes if shape.shape == "diagonal" else loaded.shape_matrix())


def _check_even(quantiser: Quantiser, spread: Vector) -> None:
    if quantiser.coordinates.mixing is not None and float(np.ptp(spread)) > 0.0:
        raise GeometryError(
            'this mechanism gives features noise of different sizes and ignores a full matrix; choose "shaped-gaussian"'
        )


def _span(values: NDArray[np.float64]) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{high:.3g}" if low > 0.999 * high else f"{low:.3g} to {high:.3g}"


def _text(names: tuple[str, ...]) -> NDArray[np.str_]:
    return np.asarray(names, dtype=np.str_)
