"""Arrays of one release that are held against what follows from what it states, and which of them were.

Every array is either checked, or named with the reason why it cannot be; one that belongs to no such release is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.kinds import kind_of
from blockveil.pipeline.verification.stated_grid import StatedGrid, Values, on_steps, same, stated_grid

_SLAB = 2**20
"""Entries of a large array that are looked at together."""

CLOSE = 1e-8
"""Relative distance of two ways to compute a result of several sums."""

DEVIATION = "_standard_deviation"

_NOTHING: Mapping[str, Any] = {}

_READ = "read from the measurements of several nights, which are not in it"


def kind_checks(kind: str) -> Mapping[str, Any]:
    """How a kind of query recomputes its sensitivity and arrays; empty where its folder does not say.

    Of another package nothing is known here: what builds on a kind of ours may move by more.
    """
    return kind_of(kind).part("release_checks", _NOTHING)


class OtherArray(Exception):
    """An array is not what the release states; the text names it."""


class CheckedArrays:
    """Arrays of one release, and what is known of each.

    Parameters
    ----------
    stated
        Attributes of the release.
    arrays
        Its stored arrays by name.

    Attributes
    ----------
    checked
        Names of the arrays that hold.
    reasons
        Of others, why they cannot be checked.
    """

    def __init__(self, stated: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self.stated, self.arrays = stated, arrays
        self.checked, self.reasons = list[str](), dict[str, str]()

    @property
    def mechanism(self) -> Mapping[str, Any]:
        """What it states of its mechanism."""
        mechanism: Mapping[str, Any] = self.stated["mechanism"]
        return mechanism

    @property
    def query(self) -> Mapping[str, Any]:
        """What it states of its query."""
        query: Mapping[str, Any] = self.stated["query"]
        return query

    def finish(self) -> None:
        """Refuse arrays that no rule knows, and a release without its matrix; raises OtherArray."""
        matrix = str(self.stated["matrix"])
        self.stored(matrix, None)
        if f"{matrix}{DEVIATION}" not in self.arrays and "noise_of_a_step" not in self.arrays:
            raise OtherArray(f"{matrix} has no standard deviations, so that it is no matrix of a release")
        for name in sorted(self.arrays):
            if name not in self.checked and name not in self.reasons:
                raise OtherArray(f"{name} is no array of such a release")

    def stored(self, name: str, axes: int | None) -> Any:
        """An array with so many axes, not read yet; raises OtherArray."""
        array = self.arrays.get(name)
        if array is None or (axes is not None and len(array.shape) != axes):
            raise OtherArray(f"{name} is missing, or has another shape than follows from its query")
        return array

    def of(self, name: str, shape: tuple[int, ...]) -> Any:
        """An array of a shape, not read yet; raises OtherArray."""
        array = self.stored(name, len(shape))
        if tuple(array.shape) != shape:
            raise OtherArray(f"{name} has another shape than follows from its query")
        return array

    def read(self, name: str, shape: tuple[int, ...]) -> Values:
        """A small array of a shape; raises OtherArray."""
        return np.asarray(self.of(name, shape)[...], np.float64)

    def require(self, name: str, holds: bool) -> None:
        """Note that an array holds; raises OtherArray where it does not."""
        if not holds:
            raise OtherArray(f"{name} is not what the stated noise and bounds give")
        if name not in self.checked:
            self.checked.append(name)

    def on_grid(self, name: str, values: Values, steps: tuple[Values, Values], allowed: Values | float = 0.0) -> None:
        """Require that values lie on whole steps, or say why they need not.

        Parameters
        ----------
        name
            Array that they are of.
        values, steps, allowed
            As for :func:`.stated_grid.on_steps`.
        """
        if "continual" in self.mechanism:
            self.skip(name, _READ)
        else:
            self.require(name, on_steps(values, steps, allowed))

    def skip(self, name: str, why: str) -> None:
        """Note why an array cannot be checked, where there is one."""
        if name in self.arrays:
            self.reasons[name] = why

    def names(self, name: str, geometry: Mapping[str, Any]) -> None:
        """Require names of the features of a shape."""
        self.texts(name, [str(feature["name"]) for feature in geometry["features"]])

    def texts(self, name: str, wanted: list[str]) -> None:
        """Require an array of texts."""
        array = self.of(name, (len(wanted),))
        self.require(name, [str(each) for each in np.asarray(array[...]).tolist()] == wanted)

    def same_as(self, name: str, wanted: Values) -> None:
        """Require small numbers that follow from others without an error that counts."""
        values = self.read(name, wanted.shape)
        both = np.isnan(values) & np.isnan(wanted)
        with np.errstate(invalid="ignore"):
            # Infinite ends of bins are equal, and of others the difference counts.
            holds = both | (values == wanted) | (np.abs(values - wanted) <= CLOSE * np.abs(wanted))
        self.require(name, bool(np.all(holds)))

    def sums_to(self, name: str, wanted: Values, size: float | None = None) -> None:
        """Require small results of sums, within the float error of numbers of a size."""
        sums = self.read(name, wanted.shape)
        largest = float(np.max(np.abs(wanted), initial=0.0)) if size is None else size
        self.require(name, bool(np.all(np.abs(sums - wanted) <= CLOSE * max(largest, 1e-300))))

    def constant(self, name: str, values: tuple[float, float]) -> None:
        """Require that all entries of an array are one of two numbers."""
        array = self.stored(name, None)
        for part in slabs(array.shape):
            self.require(name, same(array[part], *values))

    def grid(self, shape: tuple[int, int], lead: int = 0, *, unscaled: bool = True) -> StatedGrid:
        """Grid of an answer; see :func:`.stated_grid.stated_grid`."""
        return stated_grid(self.mechanism, shape, lead, unscaled=unscaled)


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices of rows with not too many entries each; all of an array without axes."""
    if not shape:
        yield ()
        return
    step = max(1, _SLAB // max(1, int(np.prod(shape[1:]))))
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])),)


def close(values: NDArray[Any], *expected: Values) -> bool:
    """Whether all values are near those of one of the expected arrays."""
    numbers = np.asarray(values, np.float64)
    fits = np.zeros(numbers.shape, bool)
    for each in expected:
        fits |= np.abs(numbers - each) <= CLOSE * np.abs(each)
    return bool(np.all(fits))
