"""Promises of a release in words."""

from __future__ import annotations

from typing import Any

from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.pipeline.ledger.guessing import Together, bounds_of, coin, with_loss, with_promise


def guess_at_most(guarantee: dict[str, Any]) -> float:
    """Bound of a guess with one release, from what it promises and what it was charged; both hold."""
    promised = with_promise(ApproxDP(guarantee["epsilon"], guarantee["delta"]))
    loss = guarantee.get("loss")
    return min(promised, with_loss(Loss(**loss))) if loss else promised


def origin(unvetted: dict[str, Any]) -> str:
    """What a release rests on that was not checked with this product, and the package that it comes from."""
    return f'{unvetted["table"]} "{unvetted["kind"]}" of {unvetted["package"]} {unvetted["version"]}'


def plain_words(guarantee: dict[str, Any], together: Together | None = None) -> str:
    """What the guarantee means for one person, for a reader without mathematics.

    Parameters
    ----------
    guarantee
        Attribute of a release.
    together
        Bounds with the other releases of its budget, where these are known.
    """
    nights = guarantee.get("nights")
    bounds = [(guess_at_most(guarantee), "with this release" if nights is None else f"with all {nights} of its nights")]
    return coin(
        str(guarantee["privacy_unit"]),
        Neighbours(guarantee["neighbours"]),
        bounds if together is None else [*bounds, *bounds_of(together)],
    )
