"""Where each number of a report comes from: keys and arrays of the release, the ledger, or a page of the project.

A source is keys of the release's attributes, such as ``guarantee.epsilon``, and names of its arrays, in one line.
What no release holds is named as in :mod:`.evaluation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blockveil.pipeline.report import evaluation
from blockveil.pipeline.report.facts import Facts, Rows

PLAN = "the plan: fixed before records were read"
RELEASED = "post-processing of released values"
BOOKED = "the ledger, as it stood when this page was written"

_LINES = {
    "Guarantee": "guarantee.epsilon, guarantee.delta",
    "Loss charged": "guarantee.loss",
    "Neighbours": "guarantee.neighbours",
    "Privacy unit": "guarantee.privacy_unit",
    "Rows of a unit": "guarantee",
    "Mechanism": "mechanism.mechanism",
    "Bounds": "query",
    "Unvetted": "unvetted",
    "Law": "mechanism.concentration, mechanism.step",
    "Deviation shown": "mechanism",
    "Sensitivity": "mechanism.sensitivity, mechanism.sensitivity_exact",
    "Noise": "mechanism.scale, mechanism.grid",
    "Shape": "learned",
    "Beyond the noise": "mechanism.not_in_standard_deviations",
    "Rounding": "error.rounding",
    "Rounding of equal records": "error.rounding_of_equal_records",
    "After post-processing": "error",
    "Directions": "eigenvalues, error.spectral_norm_bound",
    "Release": "release_id",
    "Content (SHA-256)": "output_digest",
    "Plan (SHA-256)": "plan_digest",
    "Ledger": "ledger.sequence, ledger.row_hash",
    "Software": "software",
}
"""Source of a line of the specialist's tables, by what it tells, where that is no array."""


@dataclass(frozen=True)
class PartSource:
    """Where the numbers of one part of a page come from.

    Attributes
    ----------
    part
        The part, by its title.
    kind
        What decides them.
    keys
        The source.
    """

    part: str
    kind: str
    keys: str


class Sources:
    """Sources of what the page of a release shows.

    Parameters
    ----------
    facts
        The release.
    """

    def __init__(self, facts: Facts) -> None:
        kind, matrix = facts.kind, facts.matrix
        names = [kind, f"{kind}_standard_deviation"]
        for name in matrix.vectors():
            names += [name, f"{name}_standard_deviation"]
        names += [] if matrix.array("eigenvalues") is None else ["eigenvalues"]
        self._arrays = ", ".join(dict.fromkeys(names))
        steps: Sequence[object] = facts.attributes["mechanism"].get("steps") or ()
        self._steps = {str(step["step"]).capitalize() for step in steps if isinstance(step, dict)}
        parts = self._of_parts(kind, "feature" if matrix.symmetric else "column")
        self._parts = {each.part: each for each in parts}

    def _of_parts(self, kind: str, each: str) -> Iterator[PartSource]:
        yield PartSource("Title", PLAN, f"title, logical_date, release_id, {kind}")
        yield PartSource("What is promised?", PLAN, "guarantee")
        yield PartSource("All releases together", BOOKED, evaluation.LEDGER)
        yield PartSource("What was trained?", RELEASED, "query, gradient_length, gradient_length_of_noise")
        yield PartSource("What stands out from the noise?", RELEASED, self._arrays)
        yield PartSource(f"What does it say of each {each}?", RELEASED, f"query, {self._arrays}")
        yield PartSource("How many directions are more than noise?", RELEASED, self._arrays)
        yield PartSource("What is left of the budget?", BOOKED, evaluation.LEDGER)
        yield PartSource("What does the promise not cover?", PLAN, "guarantee")
        yield PartSource("Estimates and their noise", RELEASED, self._arrays)
        yield PartSource("Error before and after post-processing", PLAN, "error")
        yield PartSource("Mechanisms compared", PLAN, "mechanism.compared, mechanism.least_error")
        yield PartSource("How to load it", PLAN, f"release_id, {kind}")

    def of(self, part: str) -> str:
        """Source of a part of the page.

        Raises
        ------
        KeyError
            There is no such part.
        """
        return self._parts[part].keys

    def lines(self, rows: Rows) -> list[tuple[str, str, str]]:
        """Lines of a table of the specialist, each with its source."""
        return [(what, value, self._of_line(what)) for what, value in rows]

    def _of_line(self, what: str) -> str:
        if what.startswith("Noise of the whole"):
            return "error"
        return _LINES.get(what, "mechanism.steps" if what in self._steps else self._arrays)

    def rows(self, page: str) -> list[dict[str, str]]:
        """The table of those parts that the markup of a page has, and of what is put in when a ledger is asked."""
        always = ("Title", "All releases together", "What is left of the budget?")
        shown = [each for each in self._parts.values() if each.part in always or f">{each.part}<" in page]
        return [{"part": each.part, "what decides it": each.kind, "source": each.keys} for each in shown]

    def plain(self, rows: Rows) -> dict[str, str]:
        """Source of each part of the page and of each of some lines, for programs."""
        return {each.part: each.keys for each in self._parts.values()} | {
            what: source for what, _, source in self.lines(rows)
        }
