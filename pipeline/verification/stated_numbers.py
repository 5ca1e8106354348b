"""Numbers that a release states, as whole numbers that bound them, and bounds of what a record moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Numbers = Sequence[int]

UNIT_BITS = 160
"""Weights are whole numbers of 2**-160."""

_MOST_BITS = 62


@dataclass(frozen=True)
class Moved:
    """How far one record moves an answer, in squares, in the norm of the noise.

    Attributes
    ----------
    least
        Some record moves it that far.
    most
        No record moves it further; None where no bound is known here.
    """

    least: Fraction
    most: Fraction | None

    def times(self, factor: Fraction) -> Moved:
        """The same of an answer that is moved that many times, in squares."""
        return Moved(self.least * factor, None if self.most is None else self.most * factor)


@dataclass(frozen=True)
class Weights:
    """Powers of the inverse size of the noise, in whole numbers of ``2**-160``.

    Attributes
    ----------
    least
        None is larger than what it stands for.
    most
        None is smaller.
    """

    least: Numbers
    most: Numbers


def stated_number(table: Mapping[str, Any], key: str) -> float:
    """A number that is stated: finite, and never below zero, or two of them could hide each other.

    Raises
    ------
    KeyError
        It is not stated.
    ValueError
        It is not such a number.
    """
    number = table[key]
    if number is None:
        raise KeyError(key)
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise ValueError(key)
    return float(number)


def stated_count(table: Mapping[str, Any], key: str) -> int:
    """A whole number from one on; raises as :func:`stated_number`."""
    count = stated_number(table, key)
    if count != int(count) or count < 1:
        raise ValueError(key)
    return int(count)


_MOST_DIGITS = 20


def bins_by_digits(query: Mapping[str, Any]) -> int:
    """Bins of a histogram by leading binary digits, and that of zero; raises as :func:`stated_number`."""
    digits = stated_count(query, "digits")
    if digits > _MOST_DIGITS:
        raise ValueError("digits")
    return int(2 ** (digits + 1) + 1)


def largest_integer(stated: Mapping[str, Any]) -> int:
    """K: integers of the bits that the query asks for, of which the mechanism states the largest.

    Raises
    ------
    KeyError
        It does not state one of them.
    ValueError
        They are not those of each other.
    """
    bits = stated_count(stated["query"], "quantisation_bits")
    largest = (1 << min(bits, _MOST_BITS) - 1) - 1
    if bits > _MOST_BITS or stated_count(stated["mechanism"], "largest_integer") != largest:
        raise ValueError("largest_integer")
    return largest


def sizes(mechanism: Mapping[str, Any], key: str, count: int) -> list[float]:
    """Relative sizes of the noise along one side of an answer, all positive.

    Parameters
    ----------
    mechanism
        As the release states it.
    key
        ``row_spread`` or ``column_spread``: one number, or one for each row or column.
    count
        How many there are.

    Raises
    ------
    KeyError, ValueError
        They are not stated, or other ones.
    """
    numbers = mechanism[key]
    if not isinstance(numbers, list):
        return [_positive(mechanism, key)] * count
    if len(numbers) != count or not all(type(each) in (int, float) and 0.0 < each < math.inf for each in numbers):
        raise ValueError(key)
    return [float(each) for each in numbers]


def least_size(mechanism: Mapping[str, Any], key: str) -> float:
    """The smallest of them, however many there are; raises as :func:`sizes`."""
    spread = mechanism[key]
    return min(sizes(mechanism, key, len(spread))) if isinstance(spread, list) and spread else _positive(mechanism, key)


def _positive(table: Mapping[str, Any], key: str) -> float:
    number = stated_number(table, key)
    if number <= 0.0:
        raise ValueError(key)
    return number


def weights(found: Sequence[float], power: int) -> Weights:
    """Whole numbers just below and just above ``2**160 / size**power``."""
    by_size: dict[float, int] = {}
    for size in found:
        if size not in by_size:
            numerator, denominator = size.as_integer_ratio()
            by_size[size] = (denominator**power << UNIT_BITS) // numerator**power
    least = [by_size[size] for size in found]
    return Weights(least, [each + 1 for each in least])
