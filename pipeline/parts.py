"""Releases of disjoint parts of the records: of the parts by one column, the dearest counts.

A *part* of a data set is its records whose column has one value. A charge is of a part where the release reads a store
that an ingest has filtered by that value, each record is a unit of its own, and neighbours differ by one record more or
less.

**Why the dearest part counts.** Fix two neighbours, which differ in one record, and let v be what it has in the column.
The filter looks at each record by itself, so the stores of all other values are the same for both, and a release of
them has the same law for both, whatever was chosen on the way. It says nothing about which of the two it was, so for
these neighbours the interaction is that of the charges of all records and of v alone, each chosen in view of earlier
outcomes: what the filter of :mod:`pipeline.accounting` is for. The budget must hold that sum for every v. It holds each
of them where it holds the largest of each component over all v, as every component only ever makes a cap fuller.

Records have a value in each of several columns, so for several columns these largest sums add up. Data sets that share
a budget share units, and a unit may have a record with another value in each, so they add up for data sets too.

For the same reason a charge is a unit's first one where none was of all records, nor of its own part.

**Source**: McSherry, 2009, Theorem 4 (parallel composition); Feldman and Zrnic, 2021 (filters of each individual).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.guarantees import Loss
from pipeline.accounting import NOTHING, Cap, Chargeable, Ticks, most
from pipeline.canonical import canonical_json


@dataclass(frozen=True)
class Part:
    """Records of a data set that have one value in a column.

    Attributes
    ----------
    dataset, column
        What is divided, and by what.
    value
        Canonical text of the value; empty for a value of which nothing was released.
    """

    dataset: str
    column: str
    value: str

    @property
    def text(self) -> str:
        """As the ledger stores it."""
        return canonical_json([self.dataset, self.column, self.value]).decode()

    @property
    def words(self) -> str:
        """For a person."""
        return f"{self.column} = {self.value}"

    @classmethod
    def read(cls, text: str | None) -> Part | None:
        """Part of a stored text; None, which stands for all records, where the ledger wrote none or nobody could."""
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return None
        if not (isinstance(found, list) and len(found) == 3 and all(isinstance(item, str) for item in found)):
            return None
        part = cls(*found)
        return part if part.text == text else None


@dataclass(frozen=True)
class Sum:
    """What charges cost together, and how many they are."""

    ticks: Ticks = NOTHING
    charges: int = 0

    def __add__(self, other: Sum) -> Sum:
        """Both."""
        return Sum(self.ticks + other.ticks, self.charges + other.charges)


_NONE = Sum()


@dataclass
class Tally:
    """Charges of one budget, summed up by the part that they are of; None stands for all records.

    Attributes
    ----------
    charges
        How many they are.
    """

    charges: int = 0
    _all: Sum = Sum()
    _groups: dict[tuple[str, str], dict[str, Sum]] = field(default_factory=dict)
    _known: dict[tuple[str, str], Sum] = field(default_factory=dict, compare=False)

    def add(self, ticks: Ticks, part: Part | None = None, charges: int = 1) -> None:
        """Book charges of a part, or give some back."""
        self.charges += charges
        more = Sum(ticks, charges)
        if part is None:
            self._all = self._all + more
            return
        group = (part.dataset, part.column)
        values = self._groups.setdefault(group, {})
        found = values[part.value] = values.get(part.value, _NONE) + more
        if group in self._known:
            known = self._known.pop(group)  # found again among all values where something was given back
            if min(ticks.loss, ticks.sampler, ticks.pure, ticks.failure, charges) >= 0:
                self._known[group] = _larger([known, found])

    @property
    def total(self) -> Sum:
        """The most that the charges of any one unit can cost, and the most of them that it can be in."""
        return sum(map(self._dearest, self._groups), self._all)

    @property
    def has_parts(self) -> bool:
        """Whether charges of parts were booked."""
        return bool(self._groups)

    def after(self, ticks: Ticks, part: Part | None, charges: int = 1) -> Sum:
        """:attr:`total` with further charges of a part; none of their components is below zero."""
        more = Sum(ticks, charges)
        if part is None:
            return self.total + more
        dearest = self._dearest((part.dataset, part.column))
        # Of each component the largest over all values of the column: no value's sum exceeds it.
        return self._beside(part) + _larger([dearest, self._own(part) + more])

    def of(self, part: Part | None) -> Ticks:
        """The most that the charges of a unit of a part can cost so far."""
        return (self.total if part is None else self._beside(part) + self._own(part)).ticks

    def _own(self, part: Part) -> Sum:
        """What the charges of a part cost."""
        return self._groups.get((part.dataset, part.column), {}).get(part.value, _NONE)

    def _beside(self, part: Part) -> Sum:
        """What the charges of all records, and of parts by other columns, cost."""
        return sum((self._dearest(group) for group in self._groups if group != (part.dataset, part.column)), self._all)

    def _dearest(self, group: tuple[str, str]) -> Sum:
        """The largest of each component over all values of a column."""
        if group not in self._known:
            self._known[group] = _larger([_NONE, *self._groups.get(group, {}).values()])
        return self._known[group]

    def holds(self, cap: Cap, ticks: Ticks, part: Part | None, charges: int = 1) -> bool:
        """Whether a cap holds further charges of a part."""
        after = self.after(ticks, part, charges)
        return cap.holds(after.ticks, after.charges)

    def book(self, cap: Cap, charge: Chargeable, part: Part | None) -> Ticks:
        """What a charge of a part costs a budget; see :meth:`pipeline.accounting.Cap.book`."""
        spent = self.total.ticks
        if part is not None and isinstance(charge, Loss):
            # What is left when the charge is taken from all with it: a pure loss finds as much of the reserve as is
            # left beside the dearest part.
            plain = Ticks.of(charge)
            spent = self.after(plain, part).ticks + -plain
        return cap.book(charge, spent)

    def nights(self, cap: Cap, ticks: Ticks, part: Part | None) -> int:
        """How many more charges alike, all of one part, fit."""
        return most(lambda count: self.holds(cap, ticks.times(count), part, count))

    def fitting_factor(self, cap: Cap, charge: Chargeable, part: Part | None) -> float | None:
        """Factor on the noise of a release, rounded up to three digits, with which it fits; None where none does."""
        if not isinstance(charge, Loss):
            return None

        def fits(factor: float) -> bool:
            scaled = Loss(charge.mu / factor, charge.epsilon / factor, charge.total_variation)
            return self.holds(cap, self.book(cap, scaled, part), part)

        low, high = 1.0, 1e4
        if not fits(high):
            return None
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        step = 10.0 ** (math.floor(math.log10(high)) - 2)
        return math.ceil(high / step) * step


def _larger(sums: Sequence[Sum]) -> Sum:
    """The largest of each component."""
    ticks = Ticks(
        max(one.ticks.loss for one in sums),
        max(one.ticks.sampler for one in sums),
        max(one.ticks.pure for one in sums),
        max(one.ticks.failure for one in sums),
    )
    return Sum(ticks, max(one.charges for one in sums))
