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
from enum import StrEnum
from fractions import Fraction
from typing import Any

from blockveil.pipeline.verification.stated_numbers import largest_integer, stated_count, stated_number

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


class StatedLaw(StrEnum):
    """Laws of noise that is added to an answer."""

    GAUSSIAN = r"\d+ levels of width \d+"
    """In the L2 norm."""

    LAPLACE = r"discrete Laplace of rate \d+/\d+"
    """In the L1 norm."""

    LARGEST = r"K-norm of rate \d+/\d+, largest of \d+ entries, version 1"
    """By the largest entry of a row."""

    LENGTH = r"K-norm of rate \d+/\d+, length of \d+ entries, version 1"
    """By the length of the whole answer."""


def stated_law(mechanism: Mapping[str, Any]) -> StatedLaw:
    """StatedLaw of the stated noise; a KeyError where it is not known here."""
    grid = str(mechanism["grid"])
    for law in StatedLaw:
        if re.fullmatch(law.value, grid):
            return law
    raise KeyError(grid)


def replaces(stated: Mapping[str, Any]) -> bool:
    """Whether neighbours differ in a record that is replaced by another; else one is added or removed."""
    neighbours = stated["guarantee"]["neighbours"]
    if neighbours not in _CELLS:
        raise ValueError(neighbours)
    return bool(_CELLS[neighbours] == 2)


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
    part = "mu" if stated_law(mechanism) is StatedLaw.GAUSSIAN else "epsilon"
    return RowLoss(part, size, "sensitivity over scale is")


def _of_buckets(stated: Mapping[str, Any]) -> Fraction:
    """``c (2 D r1 + r2)``: a row moves c cells, each the cost of a bucket by D units at most, and one count."""
    partition, buckets = stated["mechanism"]["steps"]
    if (partition["step"], buckets["step"]) != ("partition", "buckets"):
        raise ValueError("steps")
    longest, unit = (int(stated_number(partition, key)) for key in ("longest", "unit"))
    # Costs are rounded down, and floors of numbers that are d apart are at most ceil(d) apart: d = (2 - 2/L) unit.
    cost_change = math.ceil(Fraction((2 * longest - 2) * unit, longest))
    if stated_number(partition, "sensitivity") < cost_change:
        raise ValueError("sensitivity")
    return _changes(stated) * (2 * cost_change * _rate(partition) + _rate(buckets))


def _of_directions(stated: Mapping[str, Any]) -> Fraction:
    """``k c``: v'Av moves by a record's squared length at most, and under replace-one both ways."""
    mechanism = stated["mechanism"]
    query, unit = stated["query"], largest_integer(stated) ** 2
    # Whole numbers are those of the query: a record in the ball is K long, and moves v'Av by one in units of K^2.
    if stated_number(mechanism, "unit") != unit or stated_number(mechanism, "directions") != query["directions"]:
        raise ValueError("unit")
    shape = query["geometry"]
    by_axes = shape["kind"] == "ellipsoid" and shape["shape"] == "diagonal"  # a ball in units of its axes
    if mechanism["body"] != "ball" or not (shape["kind"] == "ball" or by_axes):
        raise ValueError("body")  # the length of a record in another body is not its largest number
    direction_loss = _changes(stated) * Fraction(stated_number(mechanism, "concentration"))
    return stated_count(query, "directions") * direction_loss


def _changes(stated: Mapping[str, Any]) -> int:
    return 2 if replaces(stated) else 1


def _rate(step: Mapping[str, Any]) -> Fraction:
    """Rate of the noise of a step of counts, exact."""
    match = _RATE.fullmatch(str(step["noise"]))
    if match is None:
        raise KeyError("noise")
    return Fraction(int(match[1]), int(match[2]))
