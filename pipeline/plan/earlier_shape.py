"""Where the records of an earlier night lie: what was published of it, in the place of a pilot that costs budget.

The newest released night before a date is taken whose release was not withdrawn. It must have found an ellipsoid in the
same declared shape, of which shortening took little: else tonight asks a pilot, as the first night does, so that a
shape that no longer fits is learned anew. Totals say nothing of a spread: each of their nights asks pilots. What is
taken is copied into the ledger when the budget is reserved, and a night that was begun is finished with it, whatever
becomes of the release that it is from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.derived_noise import diagonal_of
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import WITHDRAWN
from blockveil.pipeline.sections.geometry_section import BoxGeometry

MOST_LOST = 0.5
"""Share of squared length that shortening took of a night by its rings, up to which others learn from it."""

_LEAST_NOISE = 1e-3
"""Of what shortening adds to a standard deviation, which is too much to tell smaller noise beside it."""


@dataclass(frozen=True)
class EarlierShape:
    """What was published of an earlier night.

    Attributes
    ----------
    release_id, output_digest
        Its release.
    features
        Of each feature: mean, variance, the standard deviation of the noise of the variance, and what shortening is
        expected to have taken from it; raw units.
    """

    release_id: str
    output_digest: str
    features: tuple[tuple[float, float, float, float], ...]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> EarlierShape:
        """From its plain values."""
        features = tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in plain["features"])
        return cls(str(plain["release_id"]), str(plain["output_digest"]), features)

    @property
    def plain(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "release_id": self.release_id,
            "output_digest": self.output_digest,
            "features": [list(each) for each in self.features],
        }

    @property
    def arrays(self) -> tuple[Vector, Vector, Vector, Vector]:
        """The same by kind, shape (d,) each."""
        mean, variance, noise, clipped_variance = np.array(self.features, dtype=np.float64).T
        return mean, variance, noise, clipped_variance

    @property
    def shortened(self) -> Vector:
        """Share of each variance that shortening is expected to have taken, shape (d,)."""
        _, variance, noise, clipped_variance = self.arrays
        share: Vector = clipped_variance / np.maximum(variance, 2.0 * noise)
        return share


def earlier_shape(loaded: LoadedConfig, ledger: Ledger, release_id: str) -> EarlierShape | None:
    """What a night may learn from; None where it asks a pilot.

    Parameters
    ----------
    loaded
        Config of the release.
    ledger
        Knows what was released, and what was withdrawn.
    release_id
        ``dataset/name/logical date`` of the night.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    StoreError
        What may pass keeps the earlier release from being read.
    """
    shape = next(iter(loaded.config.query.geometries.values()), None)
    if not isinstance(shape, BoxGeometry) or shape.learn in (None, "mean") or not ledger.exists():
        return None
    newest = _newest(ledger, loaded, release_id)
    if newest is None:
        return None
    earlier_id, digest = newest
    try:
        attributes, arrays = _read(loaded.output_root / f"{earlier_id}.json")
    except StoreError as error:
        if error.passes:
            raise
        return None  # it was pruned, or is damaged: a pilot costs little
    learned = attributes.get("learned", {})
    same = attributes["output_digest"] == digest and attributes["release_id"] == earlier_id
    if not same or learned.get("domain") != "ellipsoid" or learned["declared_geometry"] != shape.stated():
        return None
    if learned["clipped_squared_length_share"] > MOST_LOST:
        return None
    mean, clipped_variance = (np.asarray(arrays[name][...], np.float64) for name in ("mean", "clipped_variance"))
    variances, both = (diagonal_of(arrays[f"covariance{error}"]) for error in ("", "_standard_deviation"))
    # Stated errors hold what shortening is expected to take; they are to follow the noise.
    noise = np.maximum(np.sqrt(np.maximum(both**2 - clipped_variance**2, 0.0)), _LEAST_NOISE * clipped_variance)
    numbers = zip(mean.tolist(), variances.tolist(), noise.tolist(), clipped_variance.tolist(), strict=True)
    return EarlierShape(earlier_id, digest, tuple(numbers))


def is_withdrawn(ledger: Ledger, release_id: str) -> bool:
    """Whether a release was withdrawn; raises LedgerError where the ledger cannot be read."""
    return any(entry.kind == WITHDRAWN for entry in ledger.history(release_id=release_id))


def _newest(ledger: Ledger, loaded: LoadedConfig, release_id: str) -> tuple[str, str] | None:
    """Newest release of the same name before a night that was not withdrawn, and its digest."""
    owner, digests = release_id.rpartition("/")[0], dict[str, str]()
    for entry in ledger.history(dataset=loaded.config.release.account):
        name = str(entry.release_id)
        if name.rpartition("/")[0] != owner or name >= release_id:  # dates of one length: in order as texts
            continue
        if entry.kind == State.RELEASED:
            digests[name] = str(entry.payload["output_digest"])
        elif entry.kind == WITHDRAWN:
            digests.pop(name, None)
    return max(digests.items(), default=None)


def _read(pointer: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    release = open_release(pointer)
    return release.attributes, release.arrays
