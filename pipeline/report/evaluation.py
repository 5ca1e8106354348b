"""What a promise of differential privacy rests on, as a table by the three levels that NIST names.

They are the guarantee, what may undermine it, and how the records came to be. The questions of each level are ours, and
the table is no certification. Each answer names where it comes from: a key of the release, a page of the project, or
the key of a disclosure in which a curator says it. What only a curator knows is shown as a blank.

**Source**: NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, 2025, for the three levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import cap_sentence
from blockveil.pipeline.report.facts import IN_CLEAR, Facts

BLANK = "blank: only the curator knows"
DISCLOSURE, PAGE, LEDGER = "disclosure: ", "page: ", "the ledger"
"""How a source begins that is no key of the release."""


@dataclass(frozen=True)
class Evaluated:
    """One line of the table.

    Attributes
    ----------
    level
        One of the three.
    asked
        What is asked.
    answer
        The answer.
    source
        Where it comes from.
    """

    level: str
    asked: str
    answer: str
    source: str


def answers(facts: Facts) -> list[Evaluated]:
    """Lines of the table, from the guarantee to what it rests on."""
    return [*_guarantee(facts), *_security(facts), *_collection()]


def rows(facts: Facts) -> list[dict[str, str]]:
    """The same for a table."""
    return [
        {"level": each.level, "asked": each.asked, "answer": each.answer, "source": each.source}
        for each in answers(facts)
    ]


def _guarantee(facts: Facts) -> list[Evaluated]:
    a: dict[str, Any] = facts.attributes
    promise, unit, level = a["guarantee"], Contribution.read(a["guarantee"]), "Guarantee"
    together = facts.together
    return [
        Evaluated(
            level,
            "Privacy parameters",
            f"epsilon {promise['epsilon']:g} at delta {promise['delta']:g}",
            "guarantee.epsilon, guarantee.delta",
        ),
        Evaluated(
            level,
            "All releases together",
            "blank: no ledger was asked" if together is None else cap_sentence(together),
            LEDGER,
        ),
        Evaluated(
            level, "Privacy unit", f"{unit.unit}. {unit.sentence}", "guarantee.privacy_unit, guarantee.contribution"
        ),
        Evaluated(level, "Neighbouring data sets", str(promise["neighbours"]), "guarantee.neighbours"),
        Evaluated(level, "Mechanism", str(a["mechanism"]["mechanism"]), "mechanism.mechanism"),
        Evaluated(
            level,
            "Utility",
            "The noise of each number stands beside it; errors that are not noise are among the limits above",
            "mechanism",
        ),
        Evaluated(
            level,
            "Bias",
            "Records beyond the stated bounds are moved within them or left out; noise hides rare groups most",
            "query",
        ),
    ]


def _security(facts: Facts) -> list[Evaluated]:
    distance, level = facts.attributes["guarantee"]["loss"]["total_variation"], "Security"
    sent = "The parts of the cluster talked to each other encrypted, or were one process"
    return [
        Evaluated(
            level,
            "Query model",
            "The curator decides what is asked; readers get what is published, and cannot ask",
            f"{PAGE}docs/privacy-model.md",
        ),
        Evaluated(
            level,
            "Threat model",
            "The curator and the machines of a run see the records and are trusted; readers are not",
            f"{PAGE}SECURITY.md",
        ),
        Evaluated(
            level,
            "Implementation",
            "Additive noise is drawn in whole numbers, so that attacks on floating-point noise do not apply to it; the "
            f"sampler is within {distance:.2g} of its law, which is charged",
            "guarantee.loss.total_variation",
        ),
        Evaluated(
            level,
            "Side channels",
            "Readers see no timing of a run; the machine's own channels are not closed",
            f"{PAGE}docs/known-limits.md",
        ),
        Evaluated(level, "Records on their way", IN_CLEAR if facts.in_clear else sent, "computed_in_clear, if true"),
        Evaluated(level, "Access to records, keys and ledger", BLANK, f"{DISCLOSURE}security"),
    ]


def _collection() -> list[Evaluated]:
    level = "Collection"
    return [
        Evaluated(level, "Whose records, and how they came", BLANK, f"{DISCLOSURE}population"),
        Evaluated(level, "Who collects, computes and reads", BLANK, f"{DISCLOSURE}actors"),
        Evaluated(level, "Whether records change between releases", BLANK, f"{DISCLOSURE}records_change"),
        Evaluated(level, "What was looked at beforehand", BLANK, f"{DISCLOSURE}exploration"),
    ]
