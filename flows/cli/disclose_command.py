"""``blockveil export disclosure``: a deployment as a record for a public registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Config, Json, parse_date, print_json, read_config, say
from blockveil.pipeline.base import named_files


def disclose(
    config: Config,
    disclosure: Annotated[
        Path,
        typer.Option(help="The curator's file, which docs/how-to/disclose.md shows.", show_default=False),
    ],
    tier: Annotated[int, typer.Option(min=1, max=3, help="Tier of the record; tier 3 leaves nothing blank.")] = 3,
    output: Annotated[Path | None, typer.Option(help="File (.yaml) to write; standard output by default.")] = None,
    as_json: Json = False,
) -> None:
    """Write the record of a deployment for the OpenDP registry: from plan, ledger, newest release and its curator.

    Reads no records and spends nothing.
    """
    import yaml

    from blockveil.pipeline.config.disclosure_file import load_disclosure
    from blockveil.pipeline.report.registry_record import DisclosedDeployment, record

    if output is not None:
        named_files.check(output)
    content, digest = load_disclosure(disclosure)
    entry, blank = record(DisclosedDeployment.of(read_config(config), parse_date(None)), content, digest, tier)
    if as_json:
        print_json({"record": entry, "blank": blank})
    text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
    if output is not None:
        named_files.write(output, text.encode(), "The record")
    elif not as_json:
        say(text, nl=False)
    if blank and not as_json:
        say(f"Blank for tier 3: {', '.join(blank)}", err=True)
