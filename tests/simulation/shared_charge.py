"""What must hold of nights that share a charge: one pays, each is drawn once and in order, and is read with the others.

Nothing here uses the product's own reading of them: what is read of a night is worked out from the weights in the
ledger, from what was published of the night, and from what was read of the nights before it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any


class SharedCharge:
    """The nights of one charge, as the ledger's rows say.

    Parameters
    ----------
    require
        Ends the schedule where something does not hold, with words.
    """

    def __init__(self, require: Callable[[bool, str], None]) -> None:
        self._require = require
        self.opening: str | None = None
        self.payers: dict[str, str] = {}
        self._said: dict[str, tuple[str, int, tuple[int, ...]]] = {}
        self._drawn: list[str] = []
        self._committed: set[str] = set()
        self._released: set[str] = set()
        self._read: dict[str, float] = {}

    def row(self, kind: str, release_id: str, charge: str, said: dict[str, Any]) -> None:
        """A row was added."""
        if kind == "RESERVED" and "continual" in said["spec"]:
            together = said["spec"]["calibration"]["continual"]
            self._said[charge] = release_id, int(together["night"]), tuple(together["weights"])
            self._reserved(charge, said.get("continues"))
        if charge not in self._said:
            return
        if kind == "COMMITTED":
            self._commits(charge)
        elif kind == "VOID" and charge == self.opening:
            self.opening = None
        elif kind == "RELEASED":
            self._released.add(charge)

    def forget(self, there: set[str]) -> None:
        """An older copy of the ledger is put back: charges that were never committed and are not there never were."""
        if self.opening is not None and self.opening not in self._committed | there:
            self.opening = None

    def _reserved(self, charge: str, payer: str | None) -> None:
        if payer is None:
            self._require(self.opening is None, "two nights pay for one charge")
            self.opening = charge
        else:
            self.payers[charge] = payer
            self._require(payer == self.opening, "a night names another charge than the one that pays")
            self._require(payer in self._committed, "a night is paid for by a charge that may be given back")

    def _commits(self, charge: str) -> None:
        release_id, number, _ = self._said[charge]
        self._require(self._released >= set(self._drawn), "a night was drawn before the one before it was released")
        self._require(number == len(self._drawn) + 1, "two nights of a charge draw for one place")
        earlier = [self._said[each][0] for each in self._drawn]
        self._require(all(each < release_id for each in earlier), "a night was drawn after a later one")
        self._drawn.append(charge)
        self._committed.add(charge)

    def read(self, charge: str, files: dict[str, bytes]) -> None:
        """What is published as read of a night follows from its sum and from what was read of those before it."""
        _, number, weights = self._said[charge]
        found = struct.unpack("<d", files["sum/c"][:-4])[0]
        for level in range(1, len(weights)):
            age = 2 ** (level - 1)
            if age < number:
                found -= float(weights[level] - weights[level - 1]) * self._read[self._drawn[number - age - 1]]
        found /= float(weights[0])
        said = struct.unpack("<d", files["running_total/c"][:-4])[0]
        shape = json.loads(files["running_total/zarr.json"])["shape"]
        self._require((said, shape) == (found, [1, 1]), "a night was read with other results than those before it")
        self._read[charge] = found
