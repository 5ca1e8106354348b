"""What a release promises, in words that every form of its report shows, and who is protected less."""

from __future__ import annotations

from typing import Any

from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import (
    Together,
    bounds_of,
    cap_sentence,
    coin,
    warning,
    with_loss,
    with_promise,
)
from blockveil.pipeline.report.facts import Facts


def guess_at_most(guarantee: dict[str, Any]) -> float:
    """Bound of a guess with one release, from what it promises and what it was charged; both hold."""
    promised = with_promise(ApproxDP(guarantee["epsilon"], guarantee["delta"]))
    loss = guarantee.get("loss")
    return min(promised, with_loss(Loss(**loss))) if loss else promised


def origin(unvetted: dict[str, Any]) -> str:
    """What a release rests on that was not checked with this product, and the package that it comes from."""
    return f'{unvetted["table"]} "{unvetted["kind"]}" of {unvetted["package"]} {unvetted["version"]}'


def plain_words(guarantee: dict[str, Any], together: Together | None = None) -> str:
    """What the guarantee means for one person, for a reader without mathematics."""
    nights = guarantee.get("nights")
    bounds = [(guess_at_most(guarantee), "with this release" if nights is None else f"with all {nights} of its nights")]
    return coin(
        str(guarantee["privacy_unit"]),
        Neighbours(guarantee["neighbours"]),
        bounds if together is None else [*bounds, *bounds_of(together)],
    )


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


def source_rows(query: dict[str, Any]) -> list[tuple[str, str]]:
    """Which charged release gave the bounds of a release, by its attribute ``query``; nothing where none did."""
    shapes = [query.get(key, {}) for key in ("geometry", "left", "right")]
    return [
        (
            "Bounds",
            f"learnt from the records by the release {shape['bounds_release']}, which was charged to the ledger for "
            f"itself; pinned by SHA-256 {shape['bounds_sha256']}",
        )
        for shape in shapes
        if isinstance(shape, dict) and "bounds_release" in shape
    ]
