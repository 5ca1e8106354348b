"""``blockveil site``: static pages of all releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Debug, Json, parse_date, print_answer
from blockveil.pipeline.base.errors import ConfigError

Source = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIGS", help="Folder of configs, which name releases and ledgers; or a folder of releases alone."
    ),
]
Output = Annotated[
    Path, typer.Option("--output", help="Place of the site: a link to its pages, replaced at once.", show_default=False)
]


def site(configs: Source, output: Output, as_json: Json = False, debug: Debug = False) -> None:
    """Write pages of all releases: findings, budgets, nights left, and what changed since the night before.

    They are made of published values and of what is public in ledgers, and load nothing from elsewhere.
    """
    del debug
    from blockveil.flows.base import code
    from blockveil.pipeline.report.release_site import make_site

    made = make_site(configs, _place(output), parse_date(None), code.running())
    rows = [
        ("Site", str(made.output / "index.html")),
        ("Shown", f"{made.releases} release{'' if made.releases == 1 else 's'}; {made.made} pages were made now"),
        *(("Warning", f"{name} cannot be shown") for name in made.unreadable),
    ]
    print_answer(rows, as_json, releases=made.releases, pages_made=made.made, unreadable=made.unreadable)


def _place(output: Path) -> Path:
    """Absolute path of the link that a site is; what it leads to is not followed."""
    from blockveil.pipeline.base.places import absolute

    if output.name in ("", ".."):
        raise ConfigError(f'--output "{output}" has no name', "A site is a new name in some folder", "Add a name to it")
    return absolute(output.parent, "--output") / output.name
