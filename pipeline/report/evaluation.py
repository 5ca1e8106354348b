"""What a promise of differential privacy rests on, as a table by the three levels that NIST names.

They are the guarantee, what may undermine it, and how the records came to be. The questions of each level are ours, and
the table is no certification. Each answer names where it comes from: a key of the release, a page of the project, or
the key of a disclosure in which a curator says it. What only a curator knows is shown as a blank.

**Source**: NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, 2025, for the three levels.
"""

from __future__ import annotations

from typing import NamedTuple

from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import cap_sentence
from blockveil.pipeline.report.facts import IN_CLEAR, Facts

BLANK = "blank: only the curator knows"
DISCLOSURE, PAGE, LEDGER = "disclosure: ", "page: ", "the ledger"
"""How a source begins that is no key of the release."""

Lines = list[tuple[str, str, str]]


class Evaluated(NamedTuple):
    """One line of the table: its level, what is asked, the answer, and where that comes from."""

    level: str
    asked: str
    answer: str
    source: str


def answers(facts: Facts) -> list[Evaluated]:
    """Lines of the table, from the guarantee to what it rests on."""
    levels = {"Guarantee": _guarantee(facts), "Security": _security(facts), "Collection": _COLLECTION}
    return [Evaluated(level, *line) for level, lines in levels.items() for line in lines]


def _guarantee(facts: Facts) -> Lines:
    promise, unit = facts.attributes["guarantee"], Contribution.read(facts.attributes["guarantee"])
    together, mechanism = facts.together, str(facts.attributes["mechanism"]["mechanism"])
    epsilon = f"epsilon {promise['epsilon']:g} at delta {promise['delta']:g}"
    all_releases = "blank: no ledger was asked" if together is None else cap_sentence(together)
    of_unit = "guarantee.privacy_unit, guarantee.contribution"
    utility = "The noise of each number stands beside it; errors that are not noise are among the limits above"
    bias = "Records beyond the stated bounds are moved within them or left out; noise hides rare groups most"
    return [
        ("Privacy parameters", epsilon, "guarantee.epsilon, guarantee.delta"),
        ("All releases together", all_releases, LEDGER),
        ("Privacy unit", f"{unit.unit}. {unit.sentence}", of_unit),
        ("Neighbouring data sets", str(promise["neighbours"]), "guarantee.neighbours"),
        ("Mechanism", mechanism, "mechanism.mechanism"),
        ("Utility", utility, "mechanism"),
        ("Bias", bias, "query"),
    ]


def _security(facts: Facts) -> Lines:
    distance = facts.attributes["guarantee"]["loss"]["total_variation"]
    query_model = "The curator decides what is asked; readers get what is published, and cannot ask"
    threat_model = "The curator and the machines of a run see the records and are trusted; readers are not"
    sampling = (
        "Additive noise is drawn in whole numbers, so that attacks on floating-point noise do not apply to it; the "
        f"sampler is within {distance:.2g} of its law, which is charged"
    )
    channels = "Readers see no timing of a run; the machine's own channels are not closed"
    transport = "The parts of the cluster talked to each other encrypted, or were one process"
    return [
        ("Query model", query_model, f"{PAGE}docs/privacy-model.md"),
        ("Threat model", threat_model, f"{PAGE}SECURITY.md"),
        ("Implementation", sampling, "guarantee.loss.total_variation"),
        ("Side channels", channels, f"{PAGE}docs/known-limits.md"),
        ("Records on their way", IN_CLEAR if facts.in_clear else transport, "computed_in_clear, if true"),
        ("Access to records, keys and ledger", BLANK, f"{DISCLOSURE}security"),
    ]


_COLLECTION: Lines = [
    ("Whose records, and how they came", BLANK, f"{DISCLOSURE}population"),
    ("Who collects, computes and reads", BLANK, f"{DISCLOSURE}actors"),
    ("Whether records change between releases", BLANK, f"{DISCLOSURE}records_change"),
    ("What was looked at beforehand", BLANK, f"{DISCLOSURE}exploration"),
]
