"""What is asked of a machine: how an answer grows with the records, as public sizes alone.

Notation: n records of which c columns are read, an answer of A entries (tiles on and above the diagonal where it is
symmetric). What it costs, and how it is cut, is in :mod:`.cost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import sqrt

from blockveil.engine.answers.gram import arithmetic
from blockveil.engine.answers.layout import Tile, boxes, grid
from blockveil.engine.answers.rates import NOMINAL

_WHOLE_ENTRIES = 2**24
"""Answers of up to this many entries are put together as one array before they are published."""


class GrowthKind(StrEnum):
    """How an answer grows with the records."""

    PRODUCTS = "products"
    """A sum of products: a second moment, outer products."""

    CELLS = "cells"
    """Counts in the cells of a grid: little arithmetic."""

    SUMS = "sums"
    """A sum of each column: one row, and no products."""

    RECORDS = "records"
    """A row of the answer for each record."""


FEW = sqrt(NOMINAL.pairs / NOMINAL.flops * 2.0)
"""Share of values other than zero below which multiplying only these is faster: s^2 / 2 pairs against one operation."""


@dataclass(frozen=True)
class Work:
    """What is asked.

    Attributes
    ----------
    kind
        How the answer grows.
    rows, columns
        Records, and columns of them that are read.
    shape
        Shape of the answer.
    symmetric
        Whether one triangle is enough.
    lead
        Entries in front of the first regular border of the answer's tiles.
    last_bytes, last_seconds
        What one task needs besides, once the whole answer is there.
    density
        Of a symmetric answer, public bound on the share of values other than zero; None where none is known.
    largest
        Largest integer of a record, which decides the arithmetic of products; see
        :func:`.gram.arithmetic`.
    grid
        Of counts, cells along each axis where tiles of them may be counted apart; empty where the whole answer is
        turned into something else by one task.
    weighted_sums
        Sums of weighted records that are kept beside the one without weights, one for each digit of the weights; 0
        where no records are weighted. See :class:`.weighted.WeightedQuery`.
    indivisible
        Whether a task computes all tiles whichever of them it gives, as passes over a model do: to share them out
        among tasks would repeat the work, not divide it.
    passes
        How often so many products are computed for one answer.
    """

    kind: GrowthKind
    rows: int
    columns: int
    shape: tuple[int, int]
    symmetric: bool = False
    lead: int = 0
    last_bytes: int = 0
    last_seconds: float = 0.0
    density: float | None = None
    largest: int = 2**15 - 1
    grid: tuple[int, ...] = ()
    weighted_sums: int = 0
    indivisible: bool = False
    passes: int = 1

    @property
    def single(self) -> bool:
        """Whether products are computed in single precision."""
        return arithmetic(self.largest).single

    @property
    def narrow(self) -> bool:
        """Whether 32 bits hold every sum of products over some of the records, without weights."""
        # Every such sum is at most rows * K**2 <= 2**31 - 1.
        bounded = self.rows * self.largest**2 < 2**31
        return self.kind is GrowthKind.PRODUCTS and not self.weighted_sums and bounded

    @property
    def pairs(self) -> float:
        """Products of two values other than zero, where there are no more of these than expected."""
        share = 1.0 if self.density is None else self.density
        return float(self.rows) * (share * self.shape[0]) ** 2 / 2.0

    @property
    def sparse(self) -> bool:
        """Whether multiplying only values other than zero is faster; a function of public numbers, not of the data."""
        return self.density is not None and self.density < FEW

    @property
    def flops(self) -> float:
        """Useful operations."""
        m, n = self.shape
        if self.kind is not GrowthKind.PRODUCTS:
            return 0.0
        return float(self.rows) * m * (n + 1 if self.symmetric else 2 * n) * self.passes

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """Tiles of the answer; one where all cells are needed at once."""
        if self.kind is GrowthKind.PRODUCTS:
            return grid(self.shape, self.symmetric, self.lead)
        if self.grid:
            return boxes(self.grid)
        return (Tile((0, self.shape[0]), (0, self.shape[1])),)

    @cached_property
    def entries(self) -> int:
        """Entries of the answer that are kept."""
        return sum(tile.entries for tile in self.tiles)

    @property
    def blocked(self) -> bool:
        """Whether the answer is too large to be put together in one piece."""
        in_one = self.kind is GrowthKind.CELLS and not self.grid
        return not in_one and self.shape[0] * self.shape[1] > _WHOLE_ENTRIES

    @property
    def in_tiles(self) -> bool:
        """Whether tasks may compute some tiles of the answer each, over ranges of rows."""
        return not self.indivisible and (self.kind is GrowthKind.PRODUCTS or bool(self.grid))
