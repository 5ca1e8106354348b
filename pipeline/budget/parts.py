"""Releases of disjoint parts of the records: parallel composition, of which a budget books the largest charge.

A *part* of a data set is its records whose column has one value. A charge is of a part where the release reads a store
that an ingest has filtered by that value, each record is a unit of its own, and neighbours differ by one record more or
less.

**Why the largest charge counts.** Fix two neighbours, which differ in one record, and let v be what it has in the
column. The filter looks at each record by itself, so the stores of all other values are the same for both, and a
release of them has the same law for both, whatever was chosen on the way. It says nothing about which of the two it
was, so for these neighbours the interaction is that of the charges of all records and of v alone, each chosen in view
of earlier outcomes: what the filter of :mod:`.filter` is for. The budget must hold that sum for
every v. It holds each of them where it holds the largest of each component over all v, as every component only ever
makes a cap fuller.

**Why a part has a type.** The record must have *one* v. A column has a declared type, whose values have one spelling
each (:mod:`.spelling`), so a record with a value of that type is in the part of that value and in no
other, whatever format a source has. A record can have one value of each type, and one in each of several columns. So
columns that differ in their name or their type are different columns, whose largest charges add up. Data sets that
share a budget share units, and a unit may have a record with another value in each, so they add up for data sets too.

**Why texts are listed.** One value has one spelling of type ``text`` among those that a list declares, of which no two
can be taken for each other; without the list, letters of two alphabets or cases would be two. A record that is spelled
in two ways by two exports is in a part of the list at most once. Under two lists it may be in one of each, so these are
two columns.

For the same reason a charge is a unit's first one where none was of all records, nor of its own part.

**Source**: McSherry, 2009, Theorem 4 (parallel composition); Feldman and Zrnic, 2021 (filters of each individual).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.printable import visible
from blockveil.pipeline.base.spelling import TYPES, PartType, is_canonical
from blockveil.pipeline.budget.filter import NOTHING, Cap, Chargeable, Ticks

Group = tuple[str, str, str]
"""Data set, column and type."""


@dataclass(frozen=True)
class Part:
    """Records of a data set that have one value in a column.

    Attributes
    ----------
    dataset, column
        What is divided, and by what.
    value
        The one spelling of the value; empty for a value of which nothing was released.
    listed
        Digest of the list of all values of a column of texts; None of other types.
    type
        Declared type of the column; None where it is not known. A charge is never of such a part.
    """

    dataset: str
    column: str
    value: str
    type: PartType | None = None
    listed: str | None = None

    @property
    def text(self) -> str:
        """The part as the ledger stores it."""
        fields = (self.dataset, self.column, self.value, self.type, self.listed)
        return canonical_json([field for field in fields if field is not None]).decode()

    @property
    def group(self) -> Group:
        """What it is one of the parts of; texts of two lists are parts of two columns."""
        return self.dataset, self.column, f"{self.type} {self.listed}" if self.listed else str(self.type)

    @property
    def words(self) -> str:
        """The part in words."""
        return f"{visible(self.column)} = {visible(self.value)}"

    @classmethod
    def read(cls, text: str | None) -> Part | None:
        """Part of a stored text; None, which stands for all records, where the ledger wrote none or nobody could."""
        try:
            names = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return None
        if not (isinstance(names, list) and len(names) in (4, 5) and all(isinstance(item, str) for item in names)):
            return None
        part = cls(*names)
        spelled = part.type in TYPES and is_canonical(part.value, part.type)
        spelled &= (part.type == "text") == (part.listed is not None)
        return part if spelled and part.text == text else None


@dataclass(frozen=True)
class Sum:
    """What charges cost together, and how many they are."""

    ticks: Ticks = NOTHING
    charges: int = 0

    def __add__(self, other: Sum) -> Sum:
        """Both."""
        return Sum(self.ticks + other.ticks, self.charges + other.charges)

    def __neg__(self) -> Sum:
        """Given back."""
        return Sum(-self.ticks, -self.charges)

    @property
    def is_positive(self) -> bool:
        """Whether no component is below zero."""
        return min(self.ticks.loss, self.ticks.sampler, self.ticks.pure, self.ticks.failure, self.charges) >= 0


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
    _groups: dict[Group, dict[str, Sum]] = field(default_factory=dict)
    _known: dict[Group, Sum] = field(default_factory=dict, compare=False)

    def add(self, ticks: Ticks, part: Part | None = None, charges: int = 1) -> None:
        """Book charges of a part, or give some back."""
        self.charges += charges
        more = Sum(ticks, charges)
        if part is None:
            self._all = self._all + more
        else:
            self._book(part.group, part.value, more)

    def _book(self, group: Group, value: str, more: Sum) -> None:
        values = self._groups.setdefault(group, {})
        total = values.pop(value, _NONE) + more
        if total != _NONE:
            values[value] = total
        if not values:
            del self._groups[group]
        if group in self._known:
            largest = self._known.pop(group)  # found again among all values where something was given back
            if more.is_positive:
                self._known[group] = _larger([largest, total])

    @property
    def total(self) -> Sum:
        """The most that the charges of any one unit can cost, and the most of them that it can be in."""
        return sum(map(self._largest, self._groups), self._all)

    @property
    def has_parts(self) -> bool:
        """Whether charges of parts were booked."""
        return bool(self._groups)

    def after(self, ticks: Ticks, part: Part | None, charges: int = 1) -> Sum:
        """:attr:`total` with further charges of a part; none of their components is below zero."""
        more = Sum(ticks, charges)
        if part is None:
            return self.total + more
        # Of each component the largest over all values of the column: no value's sum exceeds it.
        return _larger(
            [self._beside(one) + _larger([self._largest(one), self._own(one, part) + more]) for one in self._of(part)]
        )

    def of(self, part: Part | None) -> Ticks:
        """The most that the charges of a unit of a part can cost so far."""
        if part is None:
            return self.total.ticks
        return _larger([self._beside(one) + self._own(one, part) for one in self._of(part)]).ticks

    def _of(self, part: Part) -> list[Group]:
        """The group of a part; where its type is not known, all that it may be of."""
        if part.type is not None:
            return [part.group]
        groups = [group for group in self._groups if group[:2] == (part.dataset, part.column)]
        return groups or [(part.dataset, part.column, "")]

    def _own(self, group: Group, part: Part) -> Sum:
        """What the charges of a part cost."""
        return self._groups.get(group, {}).get(part.value, _NONE)

    def _beside(self, group: Group) -> Sum:
        """What the charges of all records, and of parts by other columns, cost."""
        return sum((self._largest(other) for other in self._groups if other != group), self._all)

    def _largest(self, group: Group) -> Sum:
        """The largest of each component over all values of a column."""
        if group not in self._known:
            self._known[group] = _larger([_NONE, *self._groups.get(group, {}).values()])
        return self._known[group]

    def holds(self, cap: Cap, ticks: Ticks, part: Part | None, charges: int = 1) -> bool:
        """Whether a cap holds further charges of a part."""
        return cap.holds(*self._held(ticks, part, charges))

    def book(self, cap: Cap, charge: Chargeable, part: Part | None) -> Ticks:
        """What a charge of a part costs a budget; see :meth:`.filter.Cap.book`."""
        spent = self.total.ticks
        if part is not None and isinstance(charge, Loss):
            # What is left when the charge is taken from all with it: a pure loss finds as much of the reserve as is
            # left beside the part with the largest charge.
            plain = Ticks.of(charge)
            spent = self.after(plain, part).ticks + -plain
        return cap.book(charge, spent)

    def nights(self, cap: Cap, ticks: Ticks, part: Part | None) -> int:
        """How many more equal charges, all of one part, fit."""
        return cap.further(lambda count: self._held(ticks.times(count), part, count))

    def _held(self, ticks: Ticks, part: Part | None, charges: int) -> tuple[Ticks, int]:
        after = self.after(ticks, part, charges)
        return after.ticks, after.charges

    def fitting_factor(self, cap: Cap, charge: Chargeable, part: Part | None) -> float | None:
        """Factor on the noise of a release, rounded up to three digits, with which it fits; None where none does."""
        if not isinstance(charge, Loss):
            return None

        def fits(factor: float) -> bool:
            scaled = replace(charge, mu=charge.mu / factor, epsilon=charge.epsilon / factor)
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
