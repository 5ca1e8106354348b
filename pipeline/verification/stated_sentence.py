"""Whether the sentence of a promise, which every reader shows, says the numbers that are checked beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import stated_count, stated_number

_OF_A_PART = " It is of the records of "


def sentence_holds(stated: Mapping[str, Any]) -> bool:
    """Whether it is that of the stated epsilon, delta, neighbours, unit and nights, and how rows were bounded.

    Parameters
    ----------
    stated
        Attributes of the release.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, or cannot be.
    """
    promise = stated["guarantee"]
    change = "replacing" if replaces(stated) else "adding or removing"
    drawn = "this release"
    if "nights" in promise:
        drawn = f"all {stated_count(promise, 'nights')} nights of this release together"
    numbers = (
        f"Whatever an attacker knows already, {change} {promise['privacy_unit']} multiplies the probability of any "
        f"conclusion drawn from {drawn} by at most e^{stated_number(promise, 'epsilon'):g} and adds at most "
        f"{stated_number(promise, 'delta'):g} to it."
    )
    end, said = f" {promise['contribution']['sentence']}", str(promise["sentence"])
    if not said.startswith(numbers) or not said.endswith(end) or len(said) < len(numbers) + len(end):
        return False
    between = said[len(numbers) : len(said) - len(end)]
    return between.startswith(_OF_A_PART) if "part" in stated else not between
