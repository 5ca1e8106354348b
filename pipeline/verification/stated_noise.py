"""What one row can move a release by at most, from the mechanism's numbers alone, and of which kind the loss is.

* Noise on an answer: sensitivity over scale. Gaussian noise has a loss mu, Laplace and K-norm noise a pure epsilon.
* DAWA: the losses of its partition and of its counts, added up in exact fractions (Li, Hay, Miklau and Wang, 2014).
* Drawn directions: the exponent's constant times what a record moves it by, for each direction (McSherry and Talwar,
  2007).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

_GAUSSIAN, _PURE = re.compile(r"\d+ levels of width \d+"), re.compile(r"(discrete Laplace|K-norm) of rate .+")
_RATE = re.compile(r"discrete Laplace of rate (\d+)/(\d+)")
_CELLS = {"add-remove": 1, "replace-one": 2}
"""Cells of a table of counts that one row changes by one; and in how many directions it moves a second moment."""


@dataclass(frozen=True)
class RowLoss:
    """What the stated noise makes of one row.

    Attributes
    ----------
    part
        Kind of loss that noise of this law has: "mu" or "epsilon".
    size
        Loss of one row.
    words
        What its size is, for a person.
    """

    part: str
    size: float
    words: str


def stated_number(table: Mapping[str, Any], key: str) -> float:
    """A number that is stated: finite, and never below zero, or two of them could hide each other.

    Raises
    ------
    KeyError
        It is not stated.
    ValueError
        It is not such a number.
    """
    found = table[key]
    if found is None:
        raise KeyError(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or found < 0:
        raise ValueError(key)
    return float(found)


def row_loss(stated: Mapping[str, Any]) -> RowLoss:
    """Loss of one row by the stated mechanism.

    Parameters
    ----------
    stated
        Attributes of the release.

    Raises
    ------
    KeyError
        The release does not state what is needed, or a law that is not known here.
    TypeError, ValueError, ArithmeticError
        What it states cannot be.
    """
    mechanism = stated["mechanism"]
    if "steps" in mechanism:
        return RowLoss("epsilon", float(_of_buckets(stated)), "partition and counts together lose")
    if "concentration" in mechanism:
        return RowLoss("epsilon", float(_of_directions(stated)), "all directions together lose")
    size = stated_number(mechanism, "sensitivity") / stated_number(mechanism, "scale")
    law = str(mechanism["grid"])
    if _GAUSSIAN.fullmatch(law):
        return RowLoss("mu", size, "sensitivity over scale is")
    if _PURE.fullmatch(law):
        return RowLoss("epsilon", size, "sensitivity over scale is")
    raise KeyError(law)


def _of_buckets(stated: Mapping[str, Any]) -> Fraction:
    """``c (2 D r1 + r2)``: a row moves c cells, each the cost of a bucket by D units at most, and one count."""
    partition, buckets = stated["mechanism"]["steps"]
    if (partition["step"], buckets["step"]) != ("partition", "buckets"):
        raise ValueError("steps")
    longest, unit = (int(stated_number(partition, key)) for key in ("longest", "unit"))
    # Costs are rounded down, and floors of numbers that are d apart are at most ceil(d) apart: d = (2 - 2/L) unit.
    moved = math.ceil(Fraction((2 * longest - 2) * unit, longest))
    if stated_number(partition, "sensitivity") < moved:
        raise ValueError("sensitivity")
    return _CELLS[_relation(stated)] * (2 * moved * _rate(partition) + _rate(buckets))


def _of_directions(stated: Mapping[str, Any]) -> Fraction:
    """``k c (r / u)``: v'Av moves by a record's squared length over u at most, and under replace-one both ways."""
    mechanism = stated["mechanism"]
    directions, length, unit = (stated_number(mechanism, key) for key in ("directions", "largest_integer", "unit"))
    if mechanism["body"] != "ball":
        raise ValueError("body")  # the length of a record in another body is not its largest number
    moved = _CELLS[_relation(stated)] * Fraction(length) ** 2 / Fraction(unit)
    return Fraction(directions) * Fraction(stated_number(mechanism, "concentration")) * moved


def _relation(stated: Mapping[str, Any]) -> str:
    found = stated["guarantee"]["neighbours"]
    if found not in _CELLS:
        raise ValueError(found)
    return str(found)


def _rate(step: Mapping[str, Any]) -> Fraction:
    """Rate of the noise of a step of counts, exact."""
    found = _RATE.fullmatch(str(step["noise"]))
    if found is None:
        raise KeyError("noise")
    return Fraction(int(found[1]), int(found[2]))
