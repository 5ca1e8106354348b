"""How exactly the numbers of a planned release will be known, in words and as data; each kind of answer fills it in.

It is displayed and decides nothing: it enters no digest, no ledger and no release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.accuracy.directions import SPECTRUM, Directions
from blockveil.pipeline.accuracy.number_error import ExpectedError
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.base.showing import as_page_part, as_text

_EXPLAINED = (
    "95 % intervals of noise and rounding, each in its own unit; in brackets for the worst records that the bounds "
    "allow, where that is more"
)

_TITLE = "How exactly will its numbers be known?"

EVERY = 100
"""Features that a page lists."""


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

    def lines(self, most: int = EVERY) -> list[tuple[str, str]]:
        """Lines (what, value), in the order a reader asks for them, with at most a given number of features."""
        if not self.errors and self.directions is None:
            return [("Known to", "nothing is known beforehand of the error of a query of another package")]
        of_features = self.pairs or self.directions is not None or any(error.at_most for error in self.errors)
        rows = [("Supposed", self.population.words if of_features else self.population.number)]
        by_name = self._by_name()
        rows += [("Known to", _EXPLAINED)] if by_name or self.pairs else []
        rows += [(f"  {name}", "; ".join(size)) for name, size in list(by_name.items())[:most]]
        if len(by_name) > most:
            count = len(by_name) if len(by_name) < len(self.population.names) else 0
            of = f" of the first {count} features" if count else ""
            rows.append(("  ...", f"{len(by_name) - most} more{of}, which --json has"))
        rows += [(f"  {error.what}", error.amount) for error in self.pairs]
        if self.directions is not None:
            rows.append(("  principal directions", self.directions.sentence))
        return rows

    def __repr__(self) -> str:
        """Its lines."""
        return as_text(_TITLE, self.lines())

    def _repr_html_(self) -> str:
        return as_page_part(_TITLE, self.lines())

    def _by_name(self) -> dict[str, list[str]]:
        """Errors in words, those of one feature together."""
        sizes: dict[str, list[str]] = {}
        for error in self.errors:
            what, _, name = error.what.partition(" of ")
            of_feature = name in self.population.names
            if of_feature and not self.population.sized:
                continue
            size = f"{what} {error.amount}" if of_feature else error.amount
            sizes.setdefault(name if of_feature else error.what, []).append(size)
        return sizes

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        tree: dict[str, Any] = {
            "population": self.population.plain,
            "confidence": 0.95,
            "errors": [error.plain for error in self.errors],
        }
        if self.pairs:
            tree["correlations"] = [error.plain for error in self.pairs]
        if self.directions is not None:
            tree["directions"] = {
                "resolved": self.directions.found,
                "total": self.directions.of,
                "assumption": SPECTRUM,
            }
        return tree
