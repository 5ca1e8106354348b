"""``blockveil verify``: what releases show by themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from blockveil.flows.cli.common import Debug, Json, print_json, print_rows, say
from blockveil.flows.cli.named_release import named_release
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.verification.verified import NOT_CHECKED, Verified, releases_at, verify

Named = Annotated[
    list[str],
    typer.Argument(
        metavar="RELEASE...", help="Pointers or folders of releases, folders of many, or addresses.", show_default=False
    ),
]


def verify_releases(releases: Named, as_json: Json = False, debug: Debug = False) -> None:
    """Check releases by themselves: content, promise, noise and unit. Asks no ledger, key, config or server."""
    del debug
    places = [place for named in releases for place in releases_at(named_release(named, None))]
    found = [verify(place) for place in places]
    if as_json:
        print_json({"releases": [one.plain for one in found], "hold": all(one.holds for one in found)})
    else:
        for one in found:
            _print(one)
        print_rows([("Not checked", NOT_CHECKED)])
    failed = [one.name for one in found if not one.holds]
    if failed:
        raise StoreError(
            f"{failed[0]} does not verify" + (f", nor do {len(failed) - 1:,} more" if len(failed) > 1 else ""),
            "A release shows its content, its promise, its noise and its unit by itself",
            "Do not use it; ask who published it, or restore it from a backup",
        )


def _print(found: Verified) -> None:
    say(found.name)
    marks = {True: "", False: "FAILS: ", None: ""}
    print_rows([(f"  {one.what}", f"{marks[one.holds]}{one.words}") for one in found.findings])
