"""``blockveil public bounds``: from a config without bounds to a release of histograms, and on to bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, print_answer

Wanted = Annotated[
    Path,
    typer.Argument(help="Config of the release that needs bounds; its features may lack them.", show_default=False),
]
Draft = Annotated[Path, typer.Option("--output", help="New config, .toml, in the same folder.")]
Share = Annotated[float, typer.Option(help="Share of that release's guarantee (of mu squared) for the histograms.")]
Powers = Annotated[
    tuple[int, int],
    typer.Option(help="Smallest and largest exponent of the powers of two between bins, for either sign."),
]
Clipped = Annotated[
    bool,
    typer.Option("--count-clipped", help="Count the values outside the config's present bounds, which it would clip."),
]
Release = Annotated[Path, typer.Argument(help="Folder of a published release of histograms.", show_default=False)]
Output = Annotated[Path, typer.Option("--output", help="New .toml file that a config names as its bounds.")]
Outside = Annotated[
    float,
    typer.Option(
        "--outside-share", help="Share of a column's values that may lie outside its bounds; 0 for none that is shown."
    ),
]


def draft(
    config: Wanted,
    output: Draft,
    share: Share = 0.02,
    powers: Powers = (-10, 40),
    clipped: Clipped = False,
    as_json: Json = False,
) -> None:
    """Write the config of a release of histograms of the same columns. Reads no data and spends nothing."""
    from blockveil.pipeline.base.errors import ConfigError
    from blockveil.pipeline.public import bounds_draft, private_bounds

    if output.absolute().parent.resolve() != config.absolute().parent.resolve():
        raise ConfigError(
            f'"{output.name}" is not in the folder of "{config.name}"',
            "Paths in a config start from its folder",
            "Write the draft beside the config",
        )
    if clipped:
        text, then = bounds_draft.clipped_draft(config, share), "its report has the share outside, for each column"
    else:
        text, then = (
            bounds_draft.bounds_draft(config, share, powers),
            "blockveil public bounds read RELEASE --output FILE.toml",
        )
    private_bounds.save_toml(text, output)
    rows = [
        ("Written", str(output)),
        ("Cost", f"blockveil plan {output}"),
        ("Release", f"blockveil run {output}"),
        ("Then", then),
    ]
    print_answer(rows, as_json)


def read(release: Release, output: Output, outside: Outside = 0.0, as_json: Json = False) -> None:
    """Choose bounds from a release of histograms, and write them. Costs no privacy."""
    from blockveil.pipeline.public import private_bounds

    bounds = private_bounds.private_bounds(release, outside)
    private_bounds.save_bounds(bounds, output)
    print_answer(bounds.rows(output.name), as_json, written=output)
