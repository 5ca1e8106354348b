"""What a release promises, in words that every form of its report shows, and who is protected less."""

from __future__ import annotations

from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import cap_sentence, warning
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.words import guess_at_most, plain_words


def promise_in_words(facts: Facts) -> str:
    """What the guarantee means for one person."""
    return plain_words(facts.attributes["guarantee"], facts.together)


def promises(facts: Facts) -> list[str]:
    """The promise: that of the release, what it means for one person, and what the budget's epsilon says by itself."""
    guarantee, together = facts.attributes["guarantee"], facts.together
    sentences = [str(guarantee["sentence"]), promise_in_words(facts)]
    return sentences if together is None else [*sentences, cap_sentence(together)]


def too_large(facts: Facts) -> str | None:
    """A warning where the release promises little."""
    guarantee = facts.attributes["guarantee"]
    return warning(guarantee["epsilon"], guess_at_most(guarantee), "with this release")


def not_protected(facts: Facts) -> str:
    """Who is protected less, as it follows from how the rows of a unit were bounded."""
    return Contribution.read(facts.attributes["guarantee"]).not_protected
