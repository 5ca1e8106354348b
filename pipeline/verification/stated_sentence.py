"""Whether the sentence of a promise, which every reader shows, says the numbers that are checked beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.base.printable import visible
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import stated_count, stated_number


def sentence_holds(stated: Mapping[str, Any]) -> bool:
    """Whether it is that of the stated epsilon, delta, neighbours, unit, nights and bound of a unit's rows.

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
    scope = "this release"
    if "nights" in promise:
        scope = f"all {stated_count(promise, 'nights')} nights of this release together"
    numbers = (
        f"Whatever an attacker knows already, {change} {promise['privacy_unit']} multiplies the probability of any "
        f"conclusion drawn from {scope} by at most e^{stated_number(promise, 'epsilon'):g} and adds at most "
        f"{stated_number(promise, 'delta'):g} to it."
    )
    contribution = Contribution.read(promise)
    if contribution.rows > contribution.charged_rows or contribution.facts() != promise["contribution"]:
        return False
    return bool(promise["sentence"] == f"{numbers}{_of_a_part(stated)} {contribution.sentence}")


def _of_a_part(stated: Mapping[str, Any]) -> str:
    if "part" not in stated:
        return ""
    column, equals = visible(str(stated["part"]["column"])), visible(str(stated["part"]["equals"]))
    return (
        f" It is of the records of {column} = {equals} alone, and as each unit has one record, with one {column}, the "
        f"budget counts such releases once, for the {column} that costs most."
    )
