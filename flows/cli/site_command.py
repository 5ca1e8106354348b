"""``blockveil export site``: static pages of all releases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blockveil.flows.cli.common import Json, parse_date, print_answer
from blockveil.pipeline.base.errors import ConfigError

if TYPE_CHECKING:
    from blockveil.pipeline.report.site_upload import SiteDestination

Source = Annotated[
    Path,
    typer.Argument(metavar="CONFIGS", help="Folder of configs, or folder of releases alone."),
]
Output = Annotated[
    Path, typer.Option("--output", help="Symbolic link to the pages, replaced atomically.", show_default=False)
]


Upload = Annotated[
    str | None,
    typer.Option("--upload", help="Address in an object store that the pages are sent to, such as s3://bucket/site."),
]
Credentials = Annotated[
    str | None,
    typer.Option(
        "--upload-credentials",
        help='"env:NAME" or "file:PATH" of the credentials of the upload; those of the environment otherwise.',
    ),
]


def site(
    configs: Source,
    output: Output,
    upload: Upload = None,
    upload_credentials: Credentials = None,
    as_json: Json = False,
) -> None:
    """Write pages of all releases: findings, budgets, nights left, and what changed since the night before.

    The pages hold published values and public parts of ledgers alone, and load nothing from elsewhere.
    """
    from blockveil.flows.base import code
    from blockveil.pipeline.report.release_site import make_site

    place = None if upload is None else _destination(upload, upload_credentials)
    site = make_site(configs, _place(output), parse_date(None), code.running())
    rows = [
        ("Site", str(site.output / "index.html")),
        ("Shown", f"{_counted(site.releases, 'release')}; made now: {_counted(site.made, 'page')}"),
        *(("Warning", f"{name} cannot be shown") for name in site.unreadable),
    ]
    values: dict[str, Any] = {"releases": site.releases, "pages_made": site.made, "unreadable": site.unreadable}
    if place is not None:
        values["pages_sent"] = count = place.upload(site.output)
        rows.append(("Sent to", f"{place.first_page}; {count} page{' was' if count == 1 else 's were'} sent now"))
    print_answer(rows, as_json, **values)


def _destination(address: str, credentials: str | None) -> SiteDestination:
    from blockveil.flows.cli.common import parse_address
    from blockveil.pipeline.config.secrets import read_credentials
    from blockveil.pipeline.report.site_upload import SiteDestination

    settings = read_credentials("--upload-credentials", credentials, Path.cwd())
    return SiteDestination(parse_address("--upload", address), settings, "--upload")


def _place(output: Path) -> Path:
    """Absolute path of the link that a site is; what it leads to is not followed."""
    from blockveil.pipeline.base.places import absolute

    if output.name in ("", ".."):
        raise ConfigError(f'--output "{output}" has no name', "A site is a new name in some folder", "Add a name to it")
    return absolute(output.parent, "--output") / output.name


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
