"""``blockveil public eigenpairs``: the leading directions of a released matrix of any size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, NamedRelease, OfRelease, print_answer, read_config
from blockveil.pipeline.base.errors import ConfigError

Count = Annotated[
    int | None,
    typer.Option(
        "--count", help="Number of eigenvalues and directions, at most 500.", show_default="10, or all where fewer"
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", help="New .npz file: eigenvalues, directions, and the factor F of the matrix F F'."),
]
Picture = Annotated[Path | None, typer.Option("--picture", help="New .svg file: eigenvalues beside the noise floor.")]


def leading(
    release: NamedRelease,
    count: Count = None,
    output: Output = None,
    picture: Picture = None,
    config: OfRelease = None,
    as_json: Json = False,
) -> None:
    """Show the largest eigenvalues of a released covariance or second moment of any size, and the noise floor."""
    for option, place, ending in (("--output", output, ".npz"), ("--picture", picture, ".svg")):
        if place is None:
            continue
        if place.suffix != ending:
            raise ConfigError(
                f'{option} "{place.name}" does not end in {ending}', "The file is of that kind", "Correct its name"
            )
        if os.path.lexists(place):  # said again when it is written; here, before minutes of work
            raise ConfigError(f'{option} "{place.name}" exists', "A file is not replaced", "Name another one")
    from blockveil.flows.cli.named_release import named_release
    from blockveil.pipeline.analysis.opening import open_
    from blockveil.pipeline.base import durable
    from blockveil.pipeline.report.papers import CARD

    opened = open_(named_release(release, None if config is None else read_config(config)))
    eigenpairs = opened.eigenpairs(min(10, len(opened.features)) if count is None else count)
    files = []
    if output is not None:
        eigenpairs.save(output)
        files.append(str(output))
    if picture is not None:
        durable.write_new(picture, eigenpairs.picture.draw(CARD).encode(), "the picture", "A file is not replaced")
        files.append(str(picture))
    print_answer(
        [
            ("Release", opened.release_id),
            ("Guarantee", opened.guarantee.sentence),
            *eigenpairs.rows(),
            *(("File", file) for file in files),
        ],
        as_json,
        values=eigenpairs.values.tolist(),
        errors=eigenpairs.errors.tolist(),
        noise_floor=eigenpairs.noise_floor,
        above_noise=eigenpairs.above_noise,
        files=files,
    )
