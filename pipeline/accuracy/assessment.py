"""Is it good enough? How exactly each number of a planned release will be known, in words and as data.

Everything here follows from the plan and from supposed records. It is displayed and decides nothing: it enters no
digest, no ledger and no release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockveil.engine.sensitivity.principal_directions import PrincipalDirections
from blockveil.pipeline.accuracy.count_accuracy import errors_of_counts, typical_cell
from blockveil.pipeline.accuracy.entry_accuracy import (
    errors_of_gradients,
    errors_of_outer_products,
    errors_of_records,
    sine_of_draws,
    typical_entry,
)
from blockveil.pipeline.accuracy.moment_accuracy import (
    correlations,
    errors_by_feature,
    found_of,
    sine_of_noise,
    typical_correlation,
)
from blockveil.pipeline.accuracy.number_error import ExpectedError
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.accuracy.total_accuracy import errors_of_totals, typical_mean
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.cells import BucketsAnswer, CellsAnswer
from blockveil.pipeline.questions.directions import DrawnDirections
from blockveil.pipeline.questions.gradients import GradientsAnswer
from blockveil.pipeline.questions.marginals import MarginalsAnswer
from blockveil.pipeline.questions.moment import MomentAnswer
from blockveil.pipeline.questions.outer import OuterAnswer
from blockveil.pipeline.questions.rows import RowsAnswer
from blockveil.pipeline.questions.totals import TotalsAnswer

_SPECTRUM = "if the variance along the k-th principal direction is 1/k of that along the first, as is supposed"

_EXPLAINED = (
    "95 % intervals of the noise alone, each in its own unit; in brackets for the worst records that the bounds allow, "
    "where that is more"
)

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}

_LINES = 12
"""Features that a terminal lists."""


@dataclass(frozen=True)
class Directions:
    """How many principal directions are found.

    Attributes
    ----------
    found
        Leading directions whose root mean square angle to the true one is at most 30 degrees, one after the other.
    of
        How many there are, or are asked for.
    """

    found: int
    of: int

    @property
    def sentence(self) -> str:
        """For a person."""
        if self.found == 0:
            said = "none is found"
        elif self.found == self.of:
            said = f"all {self.of} are found" if self.of > 1 else "it is found"
        else:
            first = "the first is found" if self.found == 1 else f"the first {self.found} are found"
            said = f"{first}, the {ordinal(self.found + 1)} is not"
        return f"{said} (within 30 degrees of the true one), {_SPECTRUM}"


def ordinal(number: int) -> str:
    """A number as a place in an order, such as 2nd."""
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else _ENDINGS.get(number % 10, 'th')}"


@dataclass(frozen=True, eq=False)
class Assessment:
    """How exactly the numbers of a planned release will be known.

    Attributes
    ----------
    population
        For which records.
    errors
        By feature, or by kind of number.
    pairs
        Of correlations: of the pair known best and of the one known worst.
    directions
        How many principal directions are found; None where the answer has none.
    """

    population: Population
    errors: tuple[ExpectedError, ...]
    pairs: tuple[ExpectedError, ...] = ()
    directions: Directions | None = None

    def lines(self, most: int = _LINES) -> list[tuple[str, str]]:
        """Lines (what, value), in the order a reader asks for them, with at most so many features."""
        if not self.errors and self.directions is None:
            return [("Known to", "nothing is known beforehand of the error of a query of another package")]
        of_features = self.pairs or self.directions is not None or any(error.at_most for error in self.errors)
        rows = [("Supposed", self.population.words if of_features else self.population.number)]
        rows += [("Known to", _EXPLAINED)] if self.errors else []
        named = self._by_name()
        rows += [(f"  {name}", "; ".join(said)) for name, said in list(named.items())[:most]]
        if len(named) > most:
            listed = len(named) if len(named) < len(self.population.names) else 0
            of = f" of the first {listed} features" if listed else ""
            rows.append(("  ...", f"{len(named) - most} more{of}, which --json has"))
        rows += [(f"  {error.what}", error.amount) for error in self.pairs]
        if self.directions is not None:
            rows.append(("  principal directions", self.directions.sentence))
        return rows

    def _by_name(self) -> dict[str, list[str]]:
        """Errors in words, those of one feature together."""
        named: dict[str, list[str]] = {}
        for error in self.errors:
            what, _, name = error.what.partition(" of ")
            of_feature = name in self.population.names
            said = f"{what} {error.amount}" if of_feature else error.amount
            named.setdefault(name if of_feature else error.what, []).append(said)
        return named

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        found: dict[str, Any] = {
            "for": self.population.plain,
            "confidence": 0.95,
            "errors": [error.plain for error in self.errors],
        }
        if self.pairs:
            found["correlations"] = [error.plain for error in self.pairs]
        if self.directions is not None:
            found["directions"] = {"found": self.directions.found, "of": self.directions.of, "if": _SPECTRUM}
        return found


def assess(plan: Plan, population: Population) -> Assessment:
    """How exactly the numbers of a planned release will be known for supposed records; reads no data."""
    answer = plan.answer
    match answer:
        case DrawnDirections():
            sines = sine_of_draws(answer, population)
            return Assessment(population, (), (), Directions(found_of(sines), answer.design.count))
        case MomentAnswer():
            return Assessment(
                population,
                tuple(errors_by_feature(answer, population)),
                tuple(correlations(answer, population)),
                _directions(answer, population),
            )
    return Assessment(population, tuple(_errors(answer, population)))


def _errors(answer: Answer, population: Population) -> list[ExpectedError]:
    match answer:
        case CellsAnswer() | BucketsAnswer() | MarginalsAnswer():
            return errors_of_counts(answer, population)
        case TotalsAnswer():
            return errors_of_totals(answer, population)
        case RowsAnswer():
            return errors_of_records(answer)
        case OuterAnswer():
            return errors_of_outer_products(answer, population)
        case GradientsAnswer():
            return errors_of_gradients(answer, population)
    return []


def _directions(answer: MomentAnswer, population: Population) -> Directions | None:
    features = len(answer.question.features)
    if features < 2:
        return None
    asked = getattr(answer.question.problem, "directions", features)
    return Directions(min(found_of(sine_of_noise(answer, population)), asked), asked)


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
    if isinstance(plan.question.problem, PrincipalDirections):
        return size_of_directions(plan, population, plan.question.problem.directions)
    answer = plan.answer
    match answer:
        case MomentAnswer():
            return typical_correlation(answer, population, names)
        case TotalsAnswer():
            return typical_mean(answer, population, names)
        case CellsAnswer() | BucketsAnswer() | MarginalsAnswer():
            return typical_cell(answer, population)
        case RowsAnswer() | OuterAnswer() | GradientsAnswer():
            return typical_entry(answer, population)
    return None


def size_of_directions(plan: Plan, population: Population, count: int) -> float | None:
    """Root of the expected squared sines of the leading directions together; None where there are no directions."""
    match plan.answer:
        case DrawnDirections() as drawn:
            return math.sqrt(float(np.sum(sine_of_draws(drawn, population)[:count])))
        case MomentAnswer() as noisy:
            return math.sqrt(float(np.sum(sine_of_noise(noisy, population)[:count])))
    return None
