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
    typer.Option(help="Largest admissible distance of a record, in typical distances; what is beyond is clipped."),
]


Floor = Annotated[
    float,
    typer.Option(
        help="Eigenvalues of the release below this share of the largest are raised to it, 1e-12 to 1: noise of the "
        "release hides smaller ones. Lower it for a precise release of a steep spectrum."
    ),
]

List = Annotated[
    Path,
    typer.Argument(help="Public list of all records that there can be: .npy, or .csv with names above the numbers."),
]
Origin = Annotated[
    Literal["midpoint", "mean", "zero"],
    typer.Option(help="Centre of the ellipsoid, from the list: moments are taken about it."),
]


def shape(
    release: Release,
    output: Output,
    headroom: Headroom = 3.0,
    floor: Floor = FLOOR,
    as_json: Json = False,
) -> None:
    """Write the ellipsoid of least noise for records like those of a release. Public: the release was paid for."""
    from blockveil.pipeline.public import shaping

    found = shaping.adapted_shape(release, headroom, floor)
    shaping.save(found, output)
    print_answer(found.rows(output.name), as_json, written=output)


def shape_of_list(records: List, output: Output, origin: Origin = "midpoint", as_json: Json = False) -> None:
    """Write the ellipsoid of least noise that holds a public list of records, such as a price list or a code book."""
    from blockveil.pipeline.public import listed, shaping

    found = listed.shape_of_list(records, origin)
    shaping.save_matrix(found.matrix, output)
    print_answer(found.rows(output.name), as_json, written=output)
