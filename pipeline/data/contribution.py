"""What one privacy unit contributes to the records, in words: who is protected by a release, and who is less.

A store that an ingest made says so in its contract. Of another store nobody has bounded what a unit contributes: there
the config's word is taken that each row is one unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from blockveil.pipeline.config import ReleaseConfig
    from blockveil.pipeline.data.ingest.store_contract import Contract

Late = Literal["next", "refuse"]
"""What becomes of files that come late to a store that grows: they count from the next release on, or are refused."""

Rule = Literal["declared", "row", "choose", "sum", "mean", "unknown"]
"""How the rows of a unit were bounded: only the config says that a row is a unit; an ingest took each row as one, chose
rows, added or averaged them; or the release does not say."""

_RULES: tuple[Rule, ...] = ("declared", "row", "choose", "sum", "mean")


@dataclass(frozen=True)
class Contribution:
    """What one unit contributes.

    Attributes
    ----------
    unit
        The privacy unit, in words.
    rows
        Most rows that one unit has in the store.
    charged_rows
        Rows of a unit that the noise is for; never fewer.
    rule
        How that was made true.
    dropping
        Whether records may be missing from the store for their own values.
    late
        What becomes of files that come late, where the store grows; None where it does not.
    """

    unit: str
    rows: int
    charged_rows: int
    rule: Rule
    dropping: bool
    late: Late | None = None

    @classmethod
    def of(cls, config: ReleaseConfig, contract: Contract | None) -> Contribution:
        """Contribution to a store with a contract, which agrees with the config, or without one."""
        unit, charged = config.privacy.unit, config.privacy.rows_per_unit or 1
        if contract is None:
            return cls(unit, charged, charged, "declared", False)
        return cls(unit, contract.rows_per_unit, charged, contract.by, contract.dropping, contract.late)

    @classmethod
    def read(cls, guarantee: Mapping[str, Any]) -> Contribution:
        """Contribution that a release states in its attribute ``guarantee``; unknown where it states none."""
        contribution = guarantee.get("contribution")
        unit = str(guarantee.get("privacy_unit", "a unit"))
        if not isinstance(contribution, Mapping) or contribution.get("rule") not in _RULES:
            return cls(unit, 1, 1, "unknown", False)
        rows, charged = contribution.get("rows"), contribution.get("charged_rows")
        if type(rows) is not int or type(charged) is not int:
            return cls(unit, 1, 1, "unknown", False)
        late = contribution.get("late") if contribution.get("late") in get_args(Late) else None
        return cls(unit, rows, charged, contribution["rule"], bool(contribution.get("dropping")), late)

    @property
    def drops_excess(self) -> bool | None:
        """Whether rows of a unit beyond its bound were left out; None where that is not known."""
        return None if self.rule == "unknown" else self.rule == "choose"

    def facts(self) -> dict[str, Any]:
        """The same as plain JSON values, all of them public."""
        return ({} if self.late is None else {"late": self.late}) | {
            "rule": self.rule,
            "rows": self.rows,
            "charged_rows": self.charged_rows,
            "excess_dropped": self.drops_excess,
            "dropping": self.dropping,
            "sentence": self.sentence,
            "not_protected": self.not_protected,
        }

    @property
    def sentence(self) -> str:
        """How the rows of a unit became records."""
        rows = "one row" if self.rows == 1 else f"at most {self.rows} rows"
        text = {
            "declared": "Each row of the store was taken as one unit on the word of the config; "
            "the store does not say whose rows it holds.",
            "row": "The ingest took each row as one unit.",
            "choose": f"The ingest kept {rows} of each unit, chosen by a rule that looks at that unit alone, and "
            "dropped its further rows.",
            "sum": "The ingest added up all rows of a unit to one record; none was dropped for being one too many.",
            "mean": "The ingest averaged all rows of a unit to one record; none was dropped for being one too many.",
            "unknown": "This release does not say how the rows of a unit were bounded.",
        }[self.rule]
        if self.charged_rows > self.rows:
            text += f" The noise is for {self.charged_rows} rows of a unit."
        if self.dropping:
            text += " Records may have been left out for their own values."
        return text + self._growing

    @property
    def _growing(self) -> str:
        """What follows from a store that grows."""
        if self.late is None:
            return ""
        sentence = " The store grows: a unit that has its rows already gets no others." if self.rule == "choose" else ""
        if self.late == "next":
            return f"{sentence} Records that come late count from the next release on."
        return f"{sentence} Records that come late are refused."

    @property
    def not_protected(self) -> str:
        """Who is protected less than a unit is."""
        less = (
            "somebody with k rows is protected as a group of k, by k times the loss"
            if self.charged_rows == 1
            else f"somebody with more than {self.charged_rows} rows is protected less"
        )
        match self.rule:
            case "declared":
                return f"Nobody has checked that {self.unit} has one row in the store: {less}."
            case "row":
                return f"The privacy unit is a row ({self.unit}): {less}."
            case "unknown":
                return f"The privacy unit is {self.unit}. One with more rows than the noise is for is protected less."
        protection = (
            f"All {self.charged_rows} rows of a unit are protected together, by group privacy."
            if self.charged_rows > 1
            else "All that the store holds of a unit is protected together."
        )
        return (
            f"{protection} A unit ({self.unit}) is what one identifier names: somebody with k identifiers is k units, "
            "and is protected as a group of k, by k times the loss."
        )
