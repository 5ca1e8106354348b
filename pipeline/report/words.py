"""Numbers and promises in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.pipeline.ledger.guessing import Together, bounds_of, coin, with_loss, with_promise

_SHORT_CHOICE = 40


def number(value: float) -> str:
    """A number for a person: four significant digits, whole up to ten thousand millions with thousands marked."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "undefined")
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e10 else f"{value:.4g}"


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


def names_apart(compared: Sequence[dict[str, Any]]) -> list[str]:
    """Names of compared mechanisms; those of one name are told apart by the parameters in which they differ.

    Parameters
    ----------
    compared
        Rows with ``mechanism`` and ``parameters``.

    Returns
    -------
    One name for each row, no two alike.
    """
    found = [_apart(row, [other for other in compared if other["mechanism"] == row["mechanism"]]) for row in compared]
    counts = Counter(found)
    seen: Counter[str] = Counter()
    for i, name in enumerate(found):
        if counts[name] > 1:
            seen[name] += 1
            found[i] = f"{name}, choice {seen[name]}"
    return found


def _apart(row: dict[str, Any], alike: Sequence[dict[str, Any]]) -> str:
    keys = sorted({key for other in alike for key in other["parameters"]})
    differing = [key for key in keys if len({str(other["parameters"].get(key)) for other in alike}) > 1]
    told = [str(row["parameters"][key]) for key in differing if key in row["parameters"]]
    short = [text for text in told if len(text) <= _SHORT_CHOICE]
    return f"{row['mechanism']} ({', '.join(short)})" if short else str(row["mechanism"])
