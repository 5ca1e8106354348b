"""Studies of Wishart noise and of Gaussian sketches: what is claimed, what holds, what Gaussian noise would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.published import subspace
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Matrix
from blockveil.engine.study import draws as study_draws
from blockveil.engine.study import projections, wishart
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.study_release import write_draw

WISHART_LABEL = "Wishart noise, for study only: no ledger paid for it"
SKETCH_LABEL = "Gaussian sketch, for study only: no ledger paid for it"

_BLOCK = 1024
Rows = list[tuple[str, str]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class WishartClaim:
    """One published calibration of Wishart noise and what holds for it.

    Attributes
    ----------
    name, claim
        Who published it, and what is claimed.
    noise
        Degrees and scale.
    true_delta
        Smallest delta at the claimed epsilon (a bound under replace-one, where ``at_least`` is a lower one).
    at_least
        Probability of outputs that are impossible on the neighbour; 0 where it is not known.
    holds
        Whether the claim holds.
    """

    name: str
    claim: str
    noise: wishart.WishartNoise
    true_delta: float
    at_least: float
    holds: bool


@dataclass(frozen=True)
class WishartFindings:
    """What holds for Wishart noise at one setting.

    Attributes
    ----------
    guarantee, neighbours
        What is compared.
    claims
        By name: "jiang", "imtiaz", "sheffet", and "exact" for the least noise with the degrees of the third.
    gaussian_variance
        Expected squared error of symmetric Gaussian noise at the same guarantee.
    """

    guarantee: ApproxDP
    neighbours: Neighbours
    claims: dict[str, WishartClaim]
    gaussian_variance: float

    def rows(self) -> Rows:
        """Lines for a reader."""
        lines: Rows = [("Label", WISHART_LABEL)]
        for finding in self.claims.values():
            low = f", at least {finding.at_least:.4g}" if finding.at_least else ""
            word = "holds" if finding.holds else "FALSE"
            lines += [
                (finding.name, f"claims {finding.claim}: {word}; delta {finding.true_delta:.4g} at that epsilon{low}"),
                (
                    "",
                    f"{finding.noise.degrees:,} degrees, squared error {finding.noise.total_variance:.4g} about its "
                    f"mean, which is {finding.noise.mean:.4g} on the diagonal",
                ),
            ]
        claim = f"epsilon {self.guarantee.epsilon:g} at delta {self.guarantee.delta:g}"
        return [*lines, ("Gaussian", f"squared error {self.gaussian_variance:.4g} for {claim}, without bias")]


def wishart_findings(features: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> WishartFindings:
    """What holds for each published calibration.

    Parameters
    ----------
    features
        d, at least 2.
    radius
        Largest length of a record.
    guarantee
        Claimed loss; the pure claims use its epsilon.
    neighbours
        Neighbouring relation.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """
    return _refused(lambda: _wishart(features, radius, guarantee, neighbours))


def _wishart(d: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> WishartFindings:
    epsilon = guarantee.epsilon
    replaced = neighbours is Neighbours.REPLACE_ONE
    claims = {}
    for key, name, noise in (
        ("jiang", "Jiang and others, 2016", wishart.jiang_wishart(d, radius, epsilon)),
        ("imtiaz", "Imtiaz and Sarwate, 2016", wishart.imtiaz_wishart(d, radius, epsilon)),
    ):
        impossible = wishart.impossible_after_replacement if replaced else wishart.impossible_after_removal
        least = impossible(noise.shift)
        claims[key] = WishartClaim(
            name, f"pure epsilon {epsilon:g}", noise, noise.delta(epsilon, neighbours), least, least <= 0.0
        )
    sheffet = wishart.sheffet_wishart(d, radius, guarantee)
    exact = wishart.calibrate_wishart(d, sheffet.excess, radius, guarantee, neighbours)
    claim = f"epsilon {epsilon:g} at delta {guarantee.delta:g}"
    for key, name, noise in (("sheffet", "Sheffet, 2019", sheffet), ("exact", "Least for as many degrees", exact)):
        delta = noise.delta(epsilon, neighbours)
        claims[key] = WishartClaim(name, claim, noise, delta, 0.0, delta <= guarantee.delta)
    gaussian = subspace.least_noise(d, radius, guarantee, neighbours)
    return WishartFindings(guarantee, neighbours, claims, gaussian.total_variance)


def draw_wishart(findings: WishartFindings, which: str, matrix: Matrix, key: NoiseKey, output: Path) -> None:
    """Write a public second moment with Wishart noise, labelled, as a Zarr group that does not exist yet.

    Raises
    ------
    ConfigError
        There is no such calibration, the matrix does not fit, or it has too many degrees to draw.
    StoreError
        The folder exists or cannot be written.
    """
    claim = findings.claims.get(which)
    if claim is None:
        names = ", ".join(findings.claims)
        raise ConfigError(f"There is no calibration {which[:40]!r}", f"There are {names}", "Name one of them")
    noise, d = claim.noise, claim.noise.dimension
    if matrix.shape != (d, d):
        raise ConfigError(f"The matrix has shape {matrix.shape}", f"It is a second moment, {d} x {d}", "Correct it")
    noisy = matrix.copy()
    for rows in _spans(d):
        for columns in _spans(d):
            noise_block = _refused(partial(study_draws.wishart_noise, key, noise.degrees, noise.scale, rows, columns))
            noisy[slice(*rows), slice(*columns)] += noise_block
    claimed = {"by": claim.name, "claim": claim.claim, "holds": claim.holds}
    facts = {"claimed": claimed, "delta_at_claimed_epsilon": claim.true_delta, "degrees": noise.degrees}
    attributes = {"label": WISHART_LABEL, "private": False, "mechanism": "wishart", **facts, "scale": noise.scale}
    write_draw(output, attributes, {"not_private": (noisy, ("row", "column"))})


@dataclass(frozen=True)
class SketchFindings:
    """What holds for Gaussian sketches at one setting.

    Attributes
    ----------
    guarantee, neighbours, features, records, sketch_rows, radius
        What is compared: d, n and k.
    floors
        Least singular values w by name: "blocki", "sheffet", "exact".
    deltas
        Smallest delta at the guarantee's epsilon for each (a bound under replace-one).
    moved_delta
        Delta at the floor of Blocki and others of a pair under their relation, in which a row moves by R.
    gaussian_variance
        Expected squared error of symmetric Gaussian noise at the same guarantee.
    """

    guarantee: ApproxDP
    neighbours: Neighbours
    features: int
    records: int
    sketch_rows: int
    radius: float
    floors: dict[str, float]
    deltas: dict[str, float]
    moved_delta: float
    gaussian_variance: float

    def error(self, which: str) -> float:
        """Expected squared error as an estimate of the second moment of no records at all, its least value."""
        return projections.expected_squared_error(self.sketch_rows, self.floors[which], np.zeros(self.features))

    def rows(self) -> Rows:
        """Lines for a reader."""
        epsilon = self.guarantee.epsilon
        claim = f"epsilon {epsilon:g} at delta {self.guarantee.delta:g}"
        names = {"blocki": "Blocki and others, 2012", "sheffet": "Sheffet, 2017", "exact": "Least that holds"}
        lines: Rows = [("Label", SKETCH_LABEL)]
        for which, name in names.items():
            word = "holds" if self.deltas[which] <= self.guarantee.delta else "NOT SHOWN TO HOLD"
            text = f"regularisation {self.floors[which]:.4g} for {claim}: {word}; delta {self.deltas[which]:.4g}"
            lines += [
                (name, text),
                ("", f"squared error at least {self.error(which):.4g} with {self.sketch_rows} rows"),
            ]
        block = projections.structured_block(self.records, self.features, self.sketch_rows)
        singular = (
            f"FALSE here: a released row lies in one of finitely many subspaces of dimension {block}, which the "
            f"{self.features} features of the records fix; delta is 1 at any epsilon"
            if block < self.features
            else f"not covered: blocks of {block} rows are at least as many as features; the claim is not checked there"
        )
        line = f"delta {self.moved_delta:.4g} at the first regularisation, for a row that moves by {self.radius:g}"
        return [
            *lines,
            ("Moved row", line),
            ("Upadhyay, 2014", singular),
            ("Gaussian", f"squared error {self.gaussian_variance:.4g} for {claim}, whatever the records"),
        ]


def sketch_findings(
    features: int, records: int, sketch_rows: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours
) -> SketchFindings:
    """What holds for each published regularisation.

    Parameters
    ----------
    features, records, sketch_rows
        d (at least 2), n and k.
    radius
        Largest length of a record.
    guarantee, neighbours
        Claimed loss of all rows of the sketch together, and the relation.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """

    def found() -> SketchFindings:
        floors = {
            "blocki": radius * projections.blocki_floor(sketch_rows, guarantee),
            "sheffet": projections.sheffet_floor(sketch_rows, radius, guarantee),
            "exact": projections.exact_floor(sketch_rows, radius, guarantee, neighbours),
        }
        deltas = {
            name: projections.sketch_delta(sketch_rows, radius, floor, guarantee.epsilon, neighbours)
            for name, floor in floors.items()
        }
        moved_row_delta = projections.moved_row_delta(sketch_rows, floors["blocki"] / radius, guarantee.epsilon)
        gaussian = subspace.least_noise(features, radius, guarantee, neighbours).total_variance
        return SketchFindings(
            guarantee, neighbours, features, records, sketch_rows, radius, floors, deltas, moved_row_delta, gaussian
        )

    return _refused(found)


def draw_sketch(findings: SketchFindings, which: str, records: Matrix, key: NoiseKey, output: Path) -> None:
    """Write a sketch of public records, labelled, and the second moment that it estimates.

    Raises
    ------
    ConfigError
        There is no such regularisation, or the records do not fit.
    StoreError
        The folder exists or cannot be written.
    """
    floor = findings.floors.get(which)
    if floor is None:
        names = ", ".join(findings.floors)
        raise ConfigError(f"There is no regularisation {which[:40]!r}", f"There are {names}", "Name one of them")
    if records.shape != (findings.records, findings.features):
        shape = (findings.records, findings.features)
        raise ConfigError(f"The records have shape {records.shape}", f"They were declared as {shape}", "Correct it")
    k, radius = findings.sketch_rows, findings.radius
    sketch = np.empty((k, findings.features))
    for rows in _spans(k):
        limbs = _refused(partial(study_draws.sketch, key, records, 0, rows, radius))
        sketch[slice(*rows)] = study_draws.finished_sketch(key, limbs, rows, radius, floor)
    attributes = {
        "label": SKETCH_LABEL,
        "private": False,
        "mechanism": "johnson-lindenstrauss",
        "regularisation": {"by": which, "value": floor, "delta_at_claimed_epsilon": findings.deltas[which]},
        "radius": radius,
    }
    estimate = sketch.T @ sketch / k - floor**2 * np.eye(findings.features)
    arrays = {
        "not_private_sketch": (sketch, ("sketch_row", "column")),
        "not_private_second_moment": (estimate, ("row", "column")),
    }
    write_draw(output, attributes, arrays)


def _spans(length: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, length)) for start in range(0, length, _BLOCK)]


def _refused(made: Callable[[], Result]) -> Result:
    try:
        return made()
    except (ValueError, OverflowError) as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    raise failure
