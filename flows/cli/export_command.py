"""``blockveil export data``: the numbers of a release for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, NamedRelease, OfRelease, print_answer, read_config

Form = Annotated[
    str,
    typer.Option(
        "--format",
        help="parquet or csv, a folder of tables; netcdf, one file; onnx or npz, a trained model.",
        show_default=False,
    ),
]
Output = Annotated[
    Path, typer.Option("--output", help="New folder, or new file of netcdf, onnx or npz.", show_default=False)
]


def export(release: NamedRelease, form: Form, output: Output, config: OfRelease = None, as_json: Json = False) -> None:
    """Write the numbers of a release for other programs: tables, NetCDF, or a trained model as ONNX."""
    from blockveil.flows.cli.named_release import named_release
    from blockveil.pipeline.analysis.opening import open_

    opened = open_(named_release(release, None if config is None else read_config(config)))
    files = opened.export(output, form)
    rows = [("Release", opened.release_id), ("Guarantee", opened.guarantee.sentence)]
    print_answer([*rows, *(("File", str(file)) for file in files)], as_json, files=[str(file) for file in files])
