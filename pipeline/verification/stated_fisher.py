"""The stage after the last step of a training, from which errors of coefficients follow, held against what it states.

It states its query and its mechanism as a release does, and its arrays begin with its name. It is charged with the
steps: mu adds up in squares, and the distances of the samplers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from blockveil.pipeline.verification.stated_noise import row_loss
from blockveil.pipeline.verification.stated_numbers import stated_number
from blockveil.pipeline.verification.stated_stages import stage_failure

_NAME = "fisher"
_ROUNDED = Fraction(1) + Fraction(1, 10**12)


@dataclass(frozen=True, eq=False)
class FisherCheck:
    """The stage of one release.

    Attributes
    ----------
    stated
        Attributes of the release.
    arrays
        Its stored arrays by name.
    """

    stated: Mapping[str, Any]
    arrays: Mapping[str, Any]

    @property
    def there(self) -> bool:
        """Whether it states the stage."""
        mechanism = self.stated.get("mechanism")
        return isinstance(mechanism, Mapping) and _NAME in mechanism

    @property
    def others(self) -> dict[str, Any]:
        """Arrays of the steps alone."""
        start = f"{_NAME}_"
        return {name: array for name, array in self.arrays.items() if not (self.there and name.startswith(start))}

    def failure(self) -> str | None:
        """What does not hold of the stage, in words; None where all does.

        Raises
        ------
        OtherArray
            An array is another than the stage gives.
        KeyError, TypeError, ValueError, ArithmeticError, IndexError
            Something is not stated, or cannot be.
        """
        own = {**self.stated, **self.stated["mechanism"][_NAME]}
        if not self._asked(own["query"]) or own["matrix"] != "covariance":
            return "its query is not that of the errors of such coefficients"
        if (failure := stage_failure(own, self.arrays, _NAME)) is not None:
            return failure
        row, own_loss = row_loss(own), own["mechanism"]["loss"]
        promise, of_steps = self.stated["guarantee"], row_loss(self.stated)
        rows = Fraction(stated_number(promise["contribution"], "charged_rows"))
        mu = rows**2 * (Fraction(row.size) ** 2 + Fraction(of_steps.size) ** 2)
        if of_steps.part != "mu" or mu > Fraction(stated_number(promise["loss"], "mu")) ** 2 * _ROUNDED:
            return "steps and this stage together lose more than it promises"
        losses = (self.stated["mechanism"]["loss"], own_loss)
        distance = sum(Fraction(stated_number(each, "total_variation")) for each in losses)
        if distance > Fraction(stated_number(promise["loss"], "total_variation")) * _ROUNDED:
            return "the samplers of steps and this stage are further from their laws than it promises"
        return None

    def _asked(self, query: Mapping[str, Any]) -> bool:
        """Whether the query is of scores and shares of the Fisher matrix, in the ball that holds all of them."""
        whole, shape = self.stated["query"], query["geometry"]
        weights = 1 + len(whole["geometry"]["features"])
        names = [f"{what} {place}" for what in ("score", _NAME) for place in range(weights)]
        return (
            "errors_share" in whole["training"]
            and query["kind"] == "covariance"
            and query["rows_at_most"] == whole["rows_at_most"]
            and shape["kind"] == "ball"
            and shape["radius"] == math.sqrt(weights)
            and [(each["name"], each["origin"]) for each in shape["features"]] == [(name, 0.0) for name in names]
        )
