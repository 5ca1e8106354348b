"""``blockveil public shape``, ``shape-of-list``: from a release, or a public list, to the shape of records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from blockveil.engine.shapes.adapted import FLOOR
from blockveil.flows.cli.common import Json, print_answer

Release = Annotated[Path, typer.Argument(help="Folder of a published covariance or second moment.")]
Output = Annotated[Path, typer.Option(help="New .npy file for the matrix of the ellipsoid.")]
Headroom = Annotated[
    float,
    typer.Option(
        help="Largest distance of a record from the centre, in typical distances; records beyond are clipped."
    ),
]


Floor = Annotated[
    float,
    typer.Option(
        help="Smallest eigenvalue as a share of the largest, 1e-12 to 1; smaller ones are raised to it, because noise "
        "hides them. Lower it for a precise release of a steep spectrum."
    ),
]

List = Annotated[
    Path,
    typer.Argument(help="Public list of all possible records: .npy, or .csv with a header line."),
]
Origin = Annotated[
    Literal["midpoint", "mean", "zero"],
    typer.Option(help="Centre of the ellipsoid and origin of the moments, from the list."),
]


def shape(
    release: Release,
    output: Output,
    headroom: Headroom = 3.0,
    floor: Floor = FLOOR,
    as_json: Json = False,
) -> None:
    """Write the ellipsoid with the least noise for records like those of a release. Costs no privacy."""
    from blockveil.pipeline.public import shaping

    ellipsoid = shaping.adapted_shape(release, headroom, floor)
    shaping.save_matrix(ellipsoid.matrix, output)
    print_answer(ellipsoid.rows(output.name), as_json, written=output)


def shape_of_list(records: List, output: Output, origin: Origin = "midpoint", as_json: Json = False) -> None:
    """Write the ellipsoid with the least noise that contains a public list of records, such as a price list."""
    from blockveil.pipeline.public import listed, shaping

    ellipsoid = listed.shape_of_list(records, origin)
    shaping.save_matrix(ellipsoid.matrix, output)
    print_answer(ellipsoid.rows(output.name), as_json, written=output)
