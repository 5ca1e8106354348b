"""A study of PPCA as published: all leading directions as one frame, on a public second moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from blockveil.engine.estimates.directions import positive
from blockveil.engine.estimates.error_bounds import subspace_error
from blockveil.engine.estimates.postprocessing import symmetrise
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.directions import bingham
from blockveil.engine.mechanisms.published import subspace
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.study_release import write_draw

LABEL = "PPCA frame, for study only: no ledger paid for it, and its sampler runs on floats"

Rows = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class FrameFindings:
    """What is claimed for PPCA and what holds, at one public second moment.

    Attributes
    ----------
    guarantee, neighbours
        What is compared.
    moment
        Public second moment in units of the squared radius, shape (d, d).
    spectrum
        Its eigenvalues, descending.
    published, exact
        Draws of one frame: as published, and with the whole epsilon.
    true_epsilon
        Loss of the published law.
    errors
        Expected squared sine distances, first order, by name.
    """

    guarantee: ApproxDP
    neighbours: Neighbours
    moment: Matrix
    spectrum: Vector
    published: bingham.BinghamDraw
    exact: bingham.BinghamDraw
    true_epsilon: float
    errors: dict[str, float]

    def rows(self) -> Rows:
        """Lines for a reader."""
        k, epsilon = self.published.count, self.guarantee.epsilon
        law = f"concentration {self.published.concentration:.4g} for pure epsilon {epsilon:g}"
        return [
            ("Label", LABEL),
            ("Published", f"{law}: the law has {self.true_epsilon:.4g} under {self.neighbours.value}"),
            ("Exact", f"concentration {self.exact.concentration:.4g} for the same epsilon"),
            ("Sampler", "Gibbs chains have no useful bound of their distance; rejection on floats is not certified"),
            *((name, f"expected squared sine {error:.4g} of at most {k}") for name, error in self.errors.items()),
        ]


def frame_findings(
    matrix: Matrix, directions: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours
) -> FrameFindings:
    """What holds for PPCA at a public second moment.

    Parameters
    ----------
    matrix
        Public second moment (a sum over records), shape (d, d), positive semi-definite.
    directions
        k, between 1 and d - 1.
    radius
        Largest length of a record.
    guarantee
        The pure claim uses its epsilon, Gaussian noise both.
    neighbours
        Neighbouring relation.

    Raises
    ------
    ConfigError
        A parameter is out of range, or the matrix is no second moment.
    """
    try:
        if not 0.0 < radius < np.inf:
            raise ValueError(f"radius is {radius}; it must be positive and finite; state the longest record")
        moment = symmetrise(matrix) / radius**2
        spectrum = np.linalg.eigvalsh(moment)[::-1].astype(np.float64)
        if not np.allclose(matrix, matrix.T) or spectrum[-1] < -1e-9 * max(float(spectrum[0]), 1.0):
            raise ValueError("the matrix is not symmetric and positive semi-definite; give a sum of outer products")
        if not 1 <= directions < spectrum.size:
            raise ValueError(f"directions is {directions}; at least one and fewer than the {spectrum.size} features")
        exact = bingham.directions(directions, guarantee.epsilon, neighbours, joint=True)
        published = replace(exact, concentration=bingham.published_concentration(guarantee.epsilon))
        split = bingham.directions(directions, guarantee.epsilon, neighbours, joint=False)
        noise = subspace.least_noise(spectrum.size, 1.0, guarantee, neighbours).standard_deviation
    except ValueError as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    else:
        frames = {"One frame, published": published, "One frame, exact": exact, "One by one, exact": split}
        errors = {
            name: bingham.expected_sine_distance(spectrum, directions, d.concentration) for name, d in frames.items()
        }
        even = np.full(moment.shape, noise / np.sqrt(2.0))
        errors["Gaussian"] = subspace_error(even, spectrum, directions)
        factor = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0
        return FrameFindings(
            guarantee, neighbours, moment, spectrum, published, exact, factor * published.concentration, errors
        )
    raise failure


def draw_frame(findings: FrameFindings, which: str, key: NoiseKey, output: Path) -> float:
    """Write a frame drawn from the public second moment, labelled; return the share of variance that it captures.

    Raises
    ------
    ConfigError
        There is no such calibration, or no frame was accepted.
    StoreError
        The folder exists or cannot be written.
    """
    designs = {"published": findings.published, "exact": findings.exact}
    if which not in designs:
        raise ConfigError(
            f"There is no calibration {which[:40]!r}", "There are published and exact", "Name one of them"
        )
    try:
        frame = bingham.draw_directions(key, findings.moment, designs[which])
    except ValueError as error:
        failure = ConfigError("No frame was drawn", str(error), "Ask for fewer directions")
    else:
        variance = bingham.captured_variance(findings.moment, frame)
        claim = {"by": which, "epsilon": findings.guarantee.epsilon, "holds_for_the_law": True}
        facts = {"claimed": claim, "concentration": designs[which].concentration, "captured_variance": variance}
        attributes = {"label": LABEL, "private": False, "mechanism": "ppca", **facts}
        write_draw(output, attributes, {"not_private": (positive(frame), ("feature", "direction"))})
        return variance
    raise failure
