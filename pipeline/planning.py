"""The plan of one release: every number that decides it, complete before any record is read.

A plan is a pure function of the config, the logical date and public files that the config names. Its canonical form is
what the ledger stores and what resuming compares; the fingerprint of the data is added to it when the budget is
reserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from engine import gram
from engine.cost import Cost, second_moment_cost
from engine.fixedpoint import Quantiser
from engine.geometry import Ball, Box, Coordinates, Ellipsoid, GeometryError, Vector
from engine.guarantees import ApproxDP, Neighbours
from engine.mechanisms.gaussian import CannotCalibrate, NoiseDesign, calibrate
from pipeline.accounting import GaussianCharge
from pipeline.canonical import digest
from pipeline.config import LoadedConfig, ReleaseConfig, release_world
from pipeline.errors import ConfigError

ALGORITHMS = {
    "quantise": "nearest integer, norm checked in int64, version 1",
    "gram": "exact int64, version 1",
    "noise": "AES-256-CTR, 127-bit table, 128 x 128 tiles, version 1",
    "constant weight": "1 / (1 + sqrt(d)), version 1",
}
"""Anything that changes a bit of a release, or its law, changes a version here and so makes a new release."""

CHUNK_BYTES = 64 * 2**20
"""Bytes of float64 records that a task reads at once, unless the config says how many rows."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is decided before data is read.

    Attributes
    ----------
    loaded
        Config with its paths resolved.
    release_id
        ``dataset/name/logical date``.
    quantiser, design
        How records become integers, and the noise.
    guarantee, neighbours
        What is promised.
    charge
        What the ledger books.
    public
        Canonical description of the release, plain JSON values, nothing private.
    """

    loaded: LoadedConfig
    logical_date: date
    release_id: str
    quantiser: Quantiser
    design: NoiseDesign
    guarantee: ApproxDP
    neighbours: Neighbours
    charge: GaussianCharge
    public: dict[str, Any]

    @property
    def config(self) -> ReleaseConfig:
        """The validated config."""
        return self.loaded.config

    @property
    def digest(self) -> str:
        """SHA-256 of the public description."""
        return digest(self.public)

    @property
    def features(self) -> tuple[str, ...]:
        """Feature names in column order."""
        return tuple(feature.name for feature in self.config.query.geometry.features)

    @property
    def augmented(self) -> bool:
        """Whether count and sums come with the second moment."""
        return self.config.query.kind == "covariance"

    def spec(self, fingerprint: str) -> dict[str, Any]:
        """Return the full specification that the ledger stores: the plan and the data it is for."""
        return {**self.public, "data": {**self.public["data"], "fingerprint": fingerprint}}

    def chunk_rows(self, stored_rows: int) -> int:
        """Rows a task reads at once: as configured, else whole stored chunks up to 64 MiB."""
        wanted = self.config.compute.block_rows or max(1, CHUNK_BYTES // (8 * self.quantiser.width))
        return max(1, wanted // stored_rows) * stored_rows if wanted >= stored_rows else wanted

    def cost(self, threads: int, workers: int) -> Cost:
        """Predicted cost at ``rows_at_most`` records."""
        rows = self.config.query.rows_at_most
        chunk = min(rows, self.chunk_rows(1)) * 8 * self.quantiser.width
        return second_moment_cost(rows, self.quantiser.width, chunk, threads, threads * workers)

    def guarantee_sentence(self) -> str:
        """Return the guarantee in one sentence."""
        change = "adding or removing" if self.neighbours is Neighbours.ADD_REMOVE else "replacing"
        return (
            f"Whatever an attacker knows already, {change} {self.config.privacy.unit} multiplies the probability of "
            f"any conclusion drawn from this release by at most e^{self.guarantee.epsilon:g} and adds at most "
            f"{self.guarantee.delta:g} to it."
        )


def make_plan(loaded: LoadedConfig, logical_date: date) -> Plan:
    """Plan a release; reads no data.

    Raises
    ------
    ConfigError
        The declared shape, privacy and size cannot be combined; the message says what to change.
    """
    config = loaded.config
    try:
        geometry = _geometry(loaded)
        quantiser = Quantiser(
            coordinates=geometry.coordinates(),
            largest=2 ** (config.query.quantisation_bits - 1) - 1,
            augmented=config.query.kind == "covariance",
            stand_in=_stand_in(config),
        )
        gram.check_no_overflow(config.query.rows_at_most, quantiser.largest)
        weights, constant = _weights(config, geometry, quantiser.augmented)
        guarantee = ApproxDP(config.privacy.epsilon, config.privacy.delta)
        neighbours = Neighbours(config.privacy.neighbours)
        design = calibrate(quantiser.coordinates.body, weights, constant, guarantee, neighbours, quantiser.largest)
    except (GeometryError, CannotCalibrate, OverflowError, ValueError) as error:
        raise ConfigError("This release cannot be planned", str(error), "Change the config accordingly") from None
    release_id = f"{config.release.dataset}/{config.release.name}/{logical_date.isoformat()}"
    plan = Plan(
        loaded=loaded,
        logical_date=logical_date,
        release_id=release_id,
        quantiser=quantiser,
        design=design,
        guarantee=guarantee,
        neighbours=neighbours,
        charge=GaussianCharge(design.mu, design.total_variation),
        public=_public(config, release_id, quantiser.coordinates, design),
    )
    _check_memory(plan)
    return plan


def _geometry(loaded: LoadedConfig) -> Box | Ball | Ellipsoid:
    declared = loaded.config.query.geometry
    if declared.kind == "box":
        lower = np.array([feature.lower for feature in declared.features], dtype=np.float64)
        upper = np.array([feature.upper for feature in declared.features], dtype=np.float64)
        origin = (lower + upper) / 2.0 if declared.origin == "midpoint" else np.zeros_like(lower)
        return Box(lower, upper, origin)
    origins = [feature.origin for feature in declared.features]
    if declared.kind == "ball":
        return Ball(origins, declared.radius)
    return Ellipsoid(origins, declared.semi_axes if declared.shape == "diagonal" else loaded.shape_matrix())


def _stand_in(config: ReleaseConfig) -> Vector | None:
    if config.query.missing == "refuse":
        return None
    return np.array([feature.impute for feature in config.query.geometry.features], dtype=np.float64)


def _weights(config: ReleaseConfig, geometry: Box | Ball | Ellipsoid, augmented: bool) -> tuple[Vector, float]:
    """Squared scale of each coordinate and of the constant one; the squared norm of a record sums to at most one."""
    raw = _raw_weights(config, geometry)
    total = float(np.sum(raw) if isinstance(geometry, Box) else np.max(raw))
    # The share that balances noise of sums against noise of products for records as far out as the shape allows.
    constant = 1.0 / (1.0 + np.sqrt(raw.size)) if augmented else 0.0
    return raw / total * (1.0 - constant), float(constant)


def _raw_weights(config: ReleaseConfig, geometry: Box | Ball | Ellipsoid) -> Vector:
    mechanism, coordinates = config.mechanism, geometry.coordinates()
    ones = np.ones(coordinates.dimension)
    if mechanism.kind == "gaussian":
        if coordinates.mixing is not None:
            raise GeometryError(
                'mechanism "gaussian" gives each raw entry the same noise and ignores a full matrix; '
                'choose "shaped-gaussian"'
            )
        return np.square(coordinates.scale / np.max(coordinates.scale))
    aim = mechanism.optimise_for
    if not isinstance(geometry, Box):
        if not isinstance(aim, str):
            raise GeometryError(
                "importances change nothing for a ball or an ellipsoid, whose own shape is optimal for all of them; "
                'set optimise_for = "relative-error"'
            )
        return ones
    if aim == "relative-error":
        return ones
    importance = ones if isinstance(aim, str) else np.array([aim[f.name] for f in config.query.geometry.features])
    weights: Vector = coordinates.scale / np.max(coordinates.scale) * np.sqrt(importance)
    return weights


def _public(config: ReleaseConfig, release_id: str, coordinates: Coordinates, design: NoiseDesign) -> dict[str, Any]:
    constant = design.width - coordinates.dimension
    numbers = {
        "body": coordinates.body.value,
        "weights": [float(weight) for weight in design.weights],
        "constant_coordinate": bool(constant),
        "sensitivity": design.sensitivity.bound,
        "sensitivity_exact": design.sensitivity.exact,
        "standard_deviation": design.standard_deviation,
        "grid": design.grid.label,
        "grid_standard_deviation": design.grid.standard_deviation,
        "largest_integer": design.largest,
        "mu": design.mu,
        "total_variation": design.total_variation,
    }
    return {"release_id": release_id, **release_world(config), "calibration": numbers, "algorithms": dict(ALGORITHMS)}


def _check_memory(plan: Plan) -> None:
    limit = plan.config.compute.memory_gib
    threads = getattr(plan.config.cluster, "threads_per_worker", 1)
    need = plan.cost(threads, 1).peak_bytes / 2**30
    if need > limit:
        raise ConfigError(
            f"A worker would need about {need:.2g} GiB and [compute] memory_gib is {limit:g}",
            "A plan must fit the memory bound before it starts",
            "Raise memory_gib, or lower block_rows or threads_per_worker",
        )
