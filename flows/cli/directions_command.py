"""``blockveil public directions``: from a paid-for release to the directions of later noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, print_answer

Release = Annotated[
    Path, typer.Argument(help="Folder of a published covariance, second moment, rows or principal directions.")
]
Output = Annotated[Path, typer.Option(help="New .npy file for the matrix, one direction a column.")]


def directions(release: Release, output: Output, as_json: Json = False) -> None:
    """Write the principal directions of a release, for mvg and mvg-exact. Costs no privacy."""
    from blockveil.pipeline.public import noise_directions, shaping

    basis = noise_directions.principal_directions(release)
    shaping.save_matrix(basis.matrix, output)
    print_answer(basis.rows(output.name), as_json, written=output)
