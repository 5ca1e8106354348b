"""The ten limits that a reader of a release needs, in the order of importance.

The page of known limits has all of them and their remedies; a test holds that each of these is there.
"""

from __future__ import annotations

from blockveil.pipeline.report import words
from blockveil.pipeline.report.facts import Facts

LIMITS = {
    "What a whole group has in common": (
        "The promise is about one unit. What is true of a whole group (smokers fall ill more often) is what a release "
        "is for: it can be learned, and applied to somebody whose records are not in the data."
    ),
    "Prior knowledge": (
        "The bounds on a guess are for one guess about one unit, with two answers that are equally likely beforehand. "
        "Who considers one of them likelier, or guesses about many people, is right more often."
    ),
    "Several rows of one person in a store that no ingest made": "",
    "Identifiers that do not identify": (
        "A person with two identifiers is two units, and is protected as a group of two, by twice the loss."
    ),
    "Other releases about the same people": (
        "What all releases promise together is known of one budget only. Data sets that share people must share it, "
        "and nobody can check that they do."
    ),
    "The bounds themselves": (
        "Ranges were declared as public knowledge. The product cannot check that nobody looked at the records to "
        "choose them."
    ),
    "The operator": (
        "Whoever can read the raw records, the machines or the key store during a run is outside the guarantee."
    ),
    "Errors that are not noise": (
        "The noise stated here is what was added for privacy. Records beyond their declared range were moved into it, "
        "and records are a sample: neither error is in the numbers after the sign ±."
    ),
    "The key store's medium": (
        "The key of the noise is overwritten when a release is sealed. Snapshots and backups of its disk may keep it; "
        "whoever finds it can take the noise away."
    ),
    "A snapshot of a whole machine that is put back": (
        "The sums over all nights follow from the ledger. Where a whole machine was put back to an earlier state, it "
        "has forgotten what was released since."
    ),
}
"""Title on the page of known limits, and the text for a reader; the empty text is that of the release itself."""


def limits(facts: Facts) -> list[str]:
    """The ten limits in words; that on the rows of a unit says how they were bounded for this release."""
    return [text or words.not_protected(facts) for text in LIMITS.values()]
