"""``blockveil study``: mechanisms that are not private as published, with what really holds."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from engine.guarantees import ApproxDP
from engine.noise import NoiseKey
from flows.cli.common import Debug, print_rows
from pipeline import study
from pipeline.errors import ConfigError

app = typer.Typer(help="Study what is not private as published; never reads records.", no_args_is_help=True)

Shape = Annotated[str, typer.Option(help="Shape of the answer, such as 89x89.")]
Epsilon = Annotated[float, typer.Option(help="Claimed epsilon.")]
Delta = Annotated[float, typer.Option(help="Claimed delta.")]
Sensitivity = Annotated[float, typer.Option(help="L2 sensitivity of the answer.")]
Output = Annotated[Path | None, typer.Option(help="New folder for a labelled draw, Zarr.")]
Matrix = Annotated[Path | None, typer.Option(help="A public .npy matrix that the draw is added to; zeros without it.")]


@app.callback()
def studies() -> None:
    """Study what is not private as published; never reads records."""


@app.command()
def r1smg(
    shape: Shape,
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Sensitivity,
    output: Output = None,
    matrix: Matrix = None,
    debug: Debug = False,
) -> None:
    """Rank-1 singular Gaussian noise: what it claims, what holds, and a labelled draw."""
    del debug
    size = _shape(shape)
    try:
        claim = ApproxDP(epsilon, delta)
    except ValueError as error:
        raise ConfigError("This study cannot be made", str(error), "Correct the parameter") from None
    findings = study.r1smg_findings(size, claim, sensitivity)
    print_rows(findings.rows())
    if output is not None:
        study.draw_r1smg(findings, _matrix(matrix, size), NoiseKey(os.urandom(32)), output)
        print_rows([("Written", f"{output}, labelled as not private")])


def _shape(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
    if found is None:
        raise ConfigError(f"--shape {text[:40]!r} is not a shape", "A shape is written ROWSxCOLUMNS", "Write 89x89")
    return int(found[1]), int(found[2])


def _matrix(path: Path | None, shape: tuple[int, int]) -> NDArray[np.float64]:
    if path is None:
        return np.zeros(shape)
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        raise ConfigError(f"--matrix {path.name} cannot be read ({kind})", "It is an .npy file", "Correct it") from None
    if loaded.shape != shape or loaded.dtype.kind not in "iuf":
        raise ConfigError(
            f"--matrix {path.name} has shape {loaded.shape}", f"It must be real numbers of shape {shape}", "Correct it"
        )
    return np.asarray(loaded, dtype=np.float64)
