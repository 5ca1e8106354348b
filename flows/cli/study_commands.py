"""``blockveil study``: mechanisms that no config can name, with what is claimed for them and what really holds."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.study.noisy_training import TrainingAsked
from blockveil.flows.cli.common import Json, parse_guarantee, print_answer
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study import frames as study_frames
from blockveil.pipeline.study import moments as study_moments
from blockveil.pipeline.study import pairs, sampling, training_findings
from blockveil.pipeline.study import study_release as study

_claim = partial(parse_guarantee, what="study")

Shape = Annotated[str, typer.Option(help="Shape of the answer, such as 89x89.")]
Epsilon = Annotated[float, typer.Option(help="Claimed epsilon.")]
Delta = Annotated[float, typer.Option(help="Claimed delta.")]
Sensitivity = Annotated[float, typer.Option(help="L2 sensitivity of the answer.")]
Features = Annotated[int, typer.Option(help="Number of features.", min=2)]
Relation = Annotated[Neighbours, typer.Option(help="Neighbouring relation.")]
Radius = Annotated[float, typer.Option(help="Largest length of a record.")]
Output = Annotated[Path | None, typer.Option(help="New folder for a labelled draw, Zarr.")]
Matrix = Annotated[Path | None, typer.Option(help="A public .npy matrix that the draw is added to; zeros without it.")]


def r1smg(
    shape: Shape,
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Sensitivity,
    output: Output = None,
    matrix: Matrix = None,
    as_json: Json = False,
) -> None:
    """Rank-1 singular Gaussian noise: what it claims, what holds, and a labelled draw."""
    size = _shape(shape)
    findings = study.r1smg_findings(size, _claim(epsilon, delta), sensitivity)
    rows = list(findings.rows())
    if output is not None:
        study.draw_r1smg(findings, _matrix(matrix, size), NoiseKey(os.urandom(32)), output)
        rows.append(("Written", f"{output}, labelled as not private"))
    print_answer(rows, as_json)


def wishart(
    features: Features,
    epsilon: Epsilon,
    delta: Delta,
    neighbours: Relation,
    radius: Radius = 1.0,
    output: Output = None,
    matrix: Matrix = None,
    calibration: Annotated[str, typer.Option(help="Of the draw: jiang, imtiaz, sheffet or exact.")] = "exact",
    as_json: Json = False,
) -> None:
    """Wishart noise on a second moment: what is claimed, what holds, and a labelled draw."""
    findings = study_moments.wishart_findings(features, radius, _claim(epsilon, delta), neighbours)
    rows = list(findings.rows())
    if output is not None:
        public = _matrix(matrix, (features, features))
        study_moments.draw_wishart(findings, calibration, public, NoiseKey(os.urandom(32)), output)
        rows.append(("Written", f"{output}, labelled"))
    print_answer(rows, as_json)


def johnson_lindenstrauss(
    records: Annotated[int, typer.Option(help="Number of records.", min=1)],
    features: Features,
    rows: Annotated[int, typer.Option(help="Rows of the sketch.", min=1)],
    epsilon: Epsilon,
    delta: Delta,
    neighbours: Relation,
    radius: Radius = 1.0,
    output: Output = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Public records, .npy, one a row; zeros without it. They are drawn from.")
    ] = None,
    calibration: Annotated[str, typer.Option(help="Of the draw: blocki, sheffet or exact.")] = "exact",
    as_json: Json = False,
) -> None:
    """Gaussian sketches of regularised records: what is claimed, what holds, and a labelled draw."""
    claim = _claim(epsilon, delta)
    findings = study_moments.sketch_findings(features, records, rows, radius, claim, neighbours)
    lines = list(findings.rows())
    if output is not None:
        public = _matrix(matrix, (records, features))
        study_moments.draw_sketch(findings, calibration, public, NoiseKey(os.urandom(32)), output)
        lines.append(("Written", f"{output}, labelled"))
    print_answer(lines, as_json)


def ppca(
    matrix: Annotated[Path, typer.Option(help="A public second moment (a sum over records), .npy.")],
    directions: Annotated[int, typer.Option(help="Number of directions.", min=1)],
    epsilon: Epsilon,
    delta: Delta,
    neighbours: Relation,
    radius: Radius = 1.0,
    output: Output = None,
    calibration: Annotated[str, typer.Option(help="Of the draw: published or exact.")] = "exact",
    as_json: Json = False,
) -> None:
    """Principal directions as one frame (PPCA): what is claimed, what holds, and a labelled draw."""
    findings = study_frames.frame_findings(
        _matrix(matrix, None), directions, radius, _claim(epsilon, delta), neighbours
    )
    rows = list(findings.rows())
    if output is not None:
        share = study_frames.draw_frame(findings, calibration, NoiseKey(os.urandom(32)), output)
        rows.append(("Written", f"{output}, labelled; it captures {share:.1%} of the largest possible variance"))
    print_answer(rows, as_json)


def imgm(
    left: Annotated[Path, typer.Option(help="Factor U1 of the row covariance, .npy: a matrix, or a diagonal.")],
    right: Annotated[Path, typer.Option(help="Factor U2 of the column covariance, .npy: a matrix, or a diagonal.")],
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Sensitivity,
    steps: Annotated[int, typer.Option(help="Number of releases with this noise.", min=1, max=10**6)] = 1,
    change: Annotated[Path | None, typer.Option(help="A known change of the answer, .npy.")] = None,
    as_json: Json = False,
) -> None:
    """Matrix Gaussian noise of any two covariances: exact loss, what is required, and the error."""
    shift = None if change is None else _numbers(change)
    findings = pairs.pair_findings(_numbers(left), _numbers(right), sensitivity, _claim(epsilon, delta), steps, shift)
    print_answer(findings.rows(), as_json)


def sampled(
    epsilon: Epsilon,
    delta: Delta,
    rate: Annotated[float, typer.Option("--sampling-probability", help="Probability of a record to be in a step.")],
    epochs: Annotated[float, typer.Option(help="Number of steps times the sampling probability.")],
    slack: Annotated[float, typer.Option(help="Part of delta for the composition theorem.")],
    as_json: Json = False,
) -> None:
    """Steps that see sampled records: what R1SMG and IMGM claim for them, and what is proven."""
    print_answer(sampling.sampling_findings(_claim(epsilon, delta), rate, epochs, slack).rows(), as_json)


def trained(
    data: Annotated[Path, typer.Option(help="Public records, .npz with X and y (codes of classes).")],
    epsilon: Epsilon,
    delta: Delta,
    rate: Annotated[
        float,
        typer.Option("--sampling-probability", help="Probability of a record to be in a step.", min=1e-6, max=1.0),
    ],
    epochs: Annotated[float, typer.Option(help="Number of steps times the sampling probability.", min=1e-6, max=1e4)],
    slack: Annotated[float, typer.Option(help="Part of delta for the composition theorem, for R1SMG.")],
    clip: Annotated[float, typer.Option("--clipping-norm", help="Largest norm of a gradient.", min=1e-9)] = 1.0,
    length: Annotated[float, typer.Option("--learning-rate", help="Length of a step.", min=1e-9)] = 2.0,
    seeds: Annotated[int, typer.Option(help="Number of trainings with each noise.", min=1, max=100)] = 1,
    as_json: Json = False,
) -> None:
    """Training as R1SMG and IMGM (type I and II) describe it: how well it learns, and what really holds."""
    settings = TrainingAsked(_claim(epsilon, delta), rate, epochs, slack, clip, length)
    findings = training_findings.training_findings(training_findings.public_records(data), settings, seeds)
    print_answer(findings.rows(), as_json)


def _shape(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
    if match is None:
        raise ConfigError(f"--shape {text[:40]!r} is not a shape", "A shape is written ROWSxCOLUMNS", "Write 89x89")
    return int(match[1]), int(match[2])


def _matrix(path: Path | None, shape: tuple[int, int] | None) -> NDArray[np.float64]:
    """Matrix of a file, of this shape, or square where none is asked for; zeros without a file."""
    if path is None:
        return np.zeros(shape or (0, 0))
    loaded = _numbers(path)
    square = loaded.ndim == 2 and loaded.shape[0] == loaded.shape[1] > 0
    if not (loaded.shape == shape if shape else square):
        requirement = f"of shape {shape}" if shape else "in a square"
        raise ConfigError(
            f"--matrix {path.name} has shape {loaded.shape}", f"It must be real numbers {requirement}", "Correct it"
        )
    return loaded


def _numbers(path: Path) -> NDArray[np.float64]:
    """Finite real numbers of a file."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        kind = type(error).__name__
        raise ConfigError(f"{path.name} cannot be read ({kind})", "It is an .npy file", "Correct it") from None
    if loaded.dtype.kind not in "iuf":
        raise ConfigError(f"{path.name} holds {loaded.dtype}", "It must be real numbers", "Correct it")
    if not np.all(np.isfinite(loaded)):
        raise ConfigError(f"{path.name} is not finite", "Noise is added to numbers", "Correct it")
    return np.asarray(loaded, dtype=np.float64)
