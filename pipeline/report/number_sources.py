"""Where each number of a report comes from: keys and arrays of the release, the ledger, or a page of the project.

A source is keys of the release's attributes, such as ``guarantee.epsilon``, and names of its arrays, in one line.
What no release holds is named as in :mod:`.evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class Sources:
    """Sources of what the page of a release shows.

    Attributes
    ----------
    arrays
        Its matrix and other numbers with their noise.
    """

    def __init__(self, facts: Facts) -> None:
        kind, matrix = facts.kind, facts.matrix
        names = [kind, f"{kind}_standard_deviation"]
        for name in matrix.vectors():
            names += [name, f"{name}_standard_deviation"]
        names += [] if matrix.array("eigenvalues") is None else ["eigenvalues"]
        self.arrays = ", ".join(dict.fromkeys(names))
        steps: Sequence[object] = facts.attributes["mechanism"].get("steps") or ()
        self._steps = {str(step["step"]).capitalize() for step in steps if isinstance(step, dict)}

    def lines(self, rows: Rows) -> list[tuple[str, str, str]]:
        """Lines of a table of the specialist, each with its source."""
        return [(what, value, self._of_line(what)) for what, value in rows]

    def _of_line(self, what: str) -> str:
        if what.startswith("Noise of the whole"):
            return "error"
        return _LINES.get(what, "mechanism.steps" if what in self._steps else self.arrays)
