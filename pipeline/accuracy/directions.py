"""How many principal directions will be found, in words."""

from __future__ import annotations

from dataclasses import dataclass

SPECTRUM = "if the variance along the k-th principal direction is 1/k of that along the first, as is supposed"

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True)
class Directions:
    """How many principal directions are found.

    Attributes
    ----------
    found
        Leading directions whose root mean square angle to the true one is at most 30 degrees, one after the other.
    of
        How many there are, or are asked for.
    """

    found: int
    of: int

    @property
    def sentence(self) -> str:
        """The same in one sentence."""
        if self.found == 0:
            verdict = "none is found"
        elif self.found == self.of:
            verdict = f"all {self.of} are found" if self.of > 1 else "it is found"
        else:
            first = "the first is found" if self.found == 1 else f"the first {self.found} are found"
            verdict = f"{first}, the {ordinal(self.found + 1)} is not"
        return f"{verdict} (within 30 degrees of the true one), {SPECTRUM}"


def ordinal(number: int) -> str:
    """A number as a place in an order, such as 2nd."""
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else _ENDINGS.get(number % 10, 'th')}"
