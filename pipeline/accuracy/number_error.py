"""One number of a release and how exactly it will be known, in its own unit, with the words for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from blockveil.engine.estimates.bands import GaussianNoise, LaplaceNoise, Tails
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace

INTERVAL = GaussianNoise().band(1)
"""Standard deviations of Gaussian noise within which it stays 95 % of the time."""

MOST_FEATURES = 100
"""Features whose errors are computed: the first ones."""


@dataclass(frozen=True)
class ExpectedError:
    """How exactly one number of a release will be known.

    Attributes
    ----------
    what
        The number, such as ``mean of age``.
    size
        Half of the width of its 95 % interval, for the supposed records, in its own unit. Of noise and rounding: how
        well the records stand for others is not part of it.
    at_most
        The same for the worst records that the declared bounds allow; None where that is the same, or not bounded.
    of
        What the size is compared with, in the same unit; None where that would say nothing.
    note
        What else a reader should know of it.
    """

    what: str
    size: float
    at_most: float | None = None
    of: float | None = None
    note: str = ""

    @property
    def known(self) -> bool:
        """Whether the number is known at all: an error as large as what it is compared with says nothing."""
        return math.isfinite(self.size) and (self.of is None or self.size < self.of)

    @property
    def amount(self) -> str:
        """The error, for a person."""
        if not math.isfinite(self.size):
            return "not known: noise is as large as the number itself"
        text = f"± {short_number(self.size)}"
        if self.at_most is not None and self.at_most > 1.005 * self.size:
            text += f" (at most ± {short_number(self.at_most)})"
        if not self.known:
            text += ", which says nothing"
        return f"{text}{'; ' if self.note else ''}{self.note}"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        tree: dict[str, Any] = {"what": self.what, "error_95": self.size if math.isfinite(self.size) else None}
        if self.at_most is not None and math.isfinite(self.at_most):
            tree["error_95_at_most"] = self.at_most
        return {**tree, "known": self.known, **({"note": self.note} if self.note else {})}


def short_number(value: float) -> str:
    """An error for a person: two significant digits, whole numbers with thousands marked."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if abs(rounded) >= 1e10 or abs(rounded) < 1e-4:
        return f"{rounded:.1e}"
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:.{digits}f}"


def interval_of_an_entry(design: NoiseDesign) -> float:
    """Standard deviations within which the noise of one entry stays 95 % of the time, by its own law.

    Of a strategy's estimates, which are sums of many noises, it is that of Gaussian noise.
    """
    law = design.grid
    tails: Tails = getattr(law, "tails", None) or GaussianNoise()  # where entries get their noise together
    if isinstance(law, DiscreteLaplace) and design.strategy is None:
        tails = LaplaceNoise(law.rate)
    return tails.band(1)


def share_of(size: float, of: float) -> str:
    """A size as a share of a whole, in words."""
    return f"{100.0 * size / of:.2g} %" if size < of else "more than all"
