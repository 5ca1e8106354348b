"""How exactly each number of a planned release will be known: one entry for each kind of answer.

Everything here follows from the plan and from supposed records. It is displayed and decides nothing: it enters no
digest, no ledger and no release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from blockveil.pipeline.accuracy import count_accuracy as counts
from blockveil.pipeline.accuracy import direction_accuracy as directions
from blockveil.pipeline.accuracy import entry_accuracy as entries
from blockveil.pipeline.accuracy import moment_accuracy as moments
from blockveil.pipeline.accuracy import total_accuracy as totals
from blockveil.pipeline.accuracy.assessment import Assessment, Directions
from blockveil.pipeline.accuracy.learned_answers import in_learned_shape
from blockveil.pipeline.accuracy.number_error import ExpectedError
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.cells import BucketsAnswer, CellsAnswer
from blockveil.pipeline.questions.column_histograms import HistogramsAnswer
from blockveil.pipeline.questions.directions import DrawnDirections, NoisyDirections
from blockveil.pipeline.questions.gradients import GradientsAnswer
from blockveil.pipeline.questions.marginals import MarginalsAnswer
from blockveil.pipeline.questions.moment import MomentAnswer
from blockveil.pipeline.questions.outer import OuterAnswer
from blockveil.pipeline.questions.rows import RowsAnswer
from blockveil.pipeline.questions.totals import TotalsAnswer


def _no_errors(answer: Any, population: Population) -> Sequence[ExpectedError]:
    del answer, population
    return ()


def _unknown(answer: Any, population: Population, compared: object = None) -> None:
    del answer, population, compared


class Kind(NamedTuple):
    """What is known beforehand of the answers of one kind; each function takes the answer and the supposed records.

    Attributes
    ----------
    errors
        Error of each number, by feature or by kind of number.
    size
        One size of the noise by which plans of one question are compared; it takes the names of their common features.
    pairs
        Errors of correlations.
    found
        How many principal directions are found.
    angles
        Root of the expected squared sines of a given number of leading directions together.
    """

    errors: Callable[[Any, Population], Sequence[ExpectedError]] = _no_errors
    size: Callable[[Any, Population, Sequence[str]], float | None] = _unknown
    pairs: Callable[[Any, Population], Sequence[ExpectedError]] = _no_errors
    found: Callable[[Any, Population], Directions | None] = _unknown
    angles: Callable[[Any, Population, int], float | None] = _unknown


_MATRIX = Kind(
    moments.errors_by_feature,
    moments.typical_correlation,
    moments.correlations,
    directions.found_in_noise,
    directions.angles_in_noise,
)

_KINDS: dict[type[Any], Kind] = {
    MomentAnswer: _MATRIX,
    NoisyDirections: _MATRIX._replace(size=directions.typical_in_noise),
    DrawnDirections: Kind(
        size=directions.typical_of_draws, found=directions.found_by_draws, angles=directions.angles_of_draws
    ),
    TotalsAnswer: Kind(totals.errors_of_totals, totals.typical_mean),
    CellsAnswer: Kind(counts.errors_of_cells, counts.typical_cell),
    BucketsAnswer: Kind(counts.errors_of_buckets, counts.typical_bucket),
    HistogramsAnswer: Kind(counts.errors_of_histograms),
    MarginalsAnswer: Kind(counts.errors_of_tables, counts.typical_cell_of_tables),
    RowsAnswer: Kind(entries.errors_of_records, entries.typical_record),
    OuterAnswer: Kind(entries.errors_of_outer_products, entries.typical_outer_product),
    GradientsAnswer: Kind(entries.errors_of_gradients, entries.typical_gradient),
}
"""What is known beforehand of an answer, by its class."""

_OF_ANOTHER_PACKAGE = Kind()


def _kind(plan: Plan) -> Kind:
    return _KINDS.get(type(plan.answer), _OF_ANOTHER_PACKAGE)


def assess(plan: Plan, population: Population) -> Assessment:
    """How exactly the numbers of a planned release will be known for supposed records; reads no data."""
    plan = in_learned_shape(plan, population)
    kind, answer = _kind(plan), plan.answer
    return Assessment(
        population,
        tuple(kind.errors(answer, population)),
        tuple(kind.pairs(answer, population)),
        kind.found(answer, population),
    )


def noise_size(plan: Plan, population: Population, names: Sequence[str]) -> float | None:
    """One size of the noise by which plans of one question are compared; None where it is not known.

    Parameters
    ----------
    plan
        The plan.
    population
        Supposed records: the same for all plans that are compared.
    names
        Features that all of them have.
    """
    plan = in_learned_shape(plan, population)
    return _kind(plan).size(plan.answer, population, names)


def size_of_directions(plan: Plan, population: Population, count: int) -> float | None:
    """Root of the expected squared sines of the leading directions together; None where there are no directions."""
    return _kind(plan).angles(plan.answer, population, count)
