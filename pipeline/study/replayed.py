"""What the replay of a config found, for a person and as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_WASTE = 0.9
"""Shares of the charge below this are called waste."""

_ROUNDING = 1.0 + 1e-9
"""Covers the roundings of a norm; a true violation is a whole grid step or an error of calibration."""


@dataclass(frozen=True)
class Replayed:
    """What the replay of one config found.

    Attributes
    ----------
    pairs
        Pairs of neighbours that were compared.
    share
        Largest loss that a pair has, over the loss that is charged for a unit; None where it could not be found.
    where
        The contributions of the unit in that pair.
    spread
        Standard deviation of the noise over that of its law; None where it could not be found.
    draws, sees
        Entries of noise that were looked at, and the least error of the spread that they would have shown, a share.
    repeats
        Whether two rows of noise are the same.
    counted
        Whether the released arrays change with the number of records, which is private; None where it is public or
        was not looked at.
    not_tested
        What could not be compared, and why, in words.
    """

    pairs: int
    share: float | None
    where: str
    spread: float | None
    draws: int
    sees: float
    repeats: bool
    counted: bool | None
    not_tested: tuple[str, ...]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value) of what was found, for a person."""
        lines = []
        if self.share is not None:
            lines = [
                ("Replayed", f"{self.pairs:,} pair{'s' * (self.pairs != 1)} of neighbours, constructed"),
                ("Largest shift", f"{self.share:.4f} of what is charged for a unit: {self.where}{self._waste}"),
            ]
        if self.spread is not None:
            lines.append(
                (
                    "Noise",
                    f"{self.spread:.4f} of its law's standard deviation in {self.draws:,} draws, which would have "
                    f"shown an error of {100 * self.sees:.2g} %",
                )
            )
        if self.counted is not None:
            lines.append(("Number of records", f"{'changes' if self.counted else 'does not change'} what is published"))
        lines += [("Not tested", reason) for reason in self.not_tested]
        lines += [("Refuted", claim) for claim in self.refutations]
        return lines if self.refutations else [*lines, ("Verdict", self._verdict)]

    @property
    def _waste(self) -> str:
        if self.share is None or self.share >= _WASTE:
            return ""
        return ". No pair among these attains the charge: it is a bound, or the worst pair is another one"

    @property
    def _verdict(self) -> str:
        return "nothing was tested" if self.share is None else "no claim is refuted; an audit refutes and never proves"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "pairs": self.pairs,
            "largest_share_of_the_charge": self.share,
            "attained_by": self.where or None,
            "noise_over_law": self.spread,
            "draws": self.draws,
            "would_have_shown": self.sees,
            "number_of_records_changes_what_is_published": self.counted,
            "not_told": list(self.not_tested),
            "refuted": self.refutations,
        }

    @property
    def refutations(self) -> list[str]:
        """Claims that are refuted, in words; empty where none is."""
        claims = []
        if self.share is not None and self.share > _ROUNDING:
            claims.append(f"a unit moves the release {self.share:.4g} times as far as its charge allows ({self.where})")
        if self.spread is not None and abs(self.spread - 1.0) > self.sees:
            claims.append(f"the noise has {self.spread:.4g} times the standard deviation of its law")
        if self.repeats:
            claims.append("two rows of the noise are the same")
        if self.counted:
            claims.append("the number of records, which is private, follows from the released arrays")
        return claims
