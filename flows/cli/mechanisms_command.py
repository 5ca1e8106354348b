"""``blockveil study mechanisms``: what there is, and the guarantee that each really has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from blockveil.engine.mechanisms.auto import Auto, Metric, proven
from blockveil.engine.mechanisms.catalogue import ENTRIES, find
from blockveil.engine.mechanisms.declaration import CatalogueEntry
from blockveil.engine.mechanisms.registry import declared
from blockveil.flows.cli.common import Json, print_answer, print_json, say
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.unvetted import offered

Name = Annotated[str | None, typer.Argument(help="Name of a mechanism, to explain it.", show_default=False)]

_USES = {
    "release": "a config may name it",
    "study": "for study only: no config can release it as private",
    "library": "for programs; no config names it",
}

_UNVETTED = "a config may name it; a release needs allow_unvetted = true in [release]"


def mechanisms(name: Name = None, as_json: Json = False) -> None:
    """List all mechanisms with their status, or explain one with its theorem and what was found of it."""
    if name is None:
        _list(as_json)
        return
    if name == Auto.name:
        print_answer(_auto(), as_json)
        return
    entry = find(name)
    others = dict(offered("mechanism"))
    if entry is None and name in others:
        rows = [("Mechanism", name), ("Package", others[name]), ("Status", "unvetted"), ("Use", _UNVETTED)]
        print_answer(rows, as_json)
        return
    if entry is None:
        raise ConfigError(
            f"There is no mechanism {name[:60]!r}",
            "A mechanism has one of the names that are listed",
            "Run `blockveil study mechanisms`",
        )
    from blockveil.engine.audit.small_problems import served  # problems of all kinds of query

    declaration = declared(entry.name)
    rows = _lines(entry, () if declaration is None else served(declaration))
    print_answer(rows, as_json, name=entry.name, title=entry.title)


def _list(as_json: bool) -> None:
    if as_json:
        ours = [{"name": each.name, "status": each.status, "use": each.use, "title": each.title} for each in ENTRIES]
        others = [
            {"name": name, "status": "unvetted", "use": "release", "package": of} for name, of in offered("mechanism")
        ]
        print_json([*ours, *others])
        return
    width = max(len(entry.name) for entry in ENTRIES)
    for entry in ENTRIES:
        say(f"{entry.name:<{width}}  {entry.status.value:<12}  {entry.use:<7}  {entry.title}")
    for name, package in offered("mechanism"):
        say(f"{name:<{width}}  {'unvetted':<12}  {'release':<7}  of {package}")
    say('\nWith mechanism kind "auto" a release takes the proven one with the least expected error.')


def _auto() -> list[tuple[str, str]]:
    candidates = dict.fromkeys(mechanism.name for mechanism in proven(Metric("total")))
    left_out = [entry.name for entry in ENTRIES if entry.use == "release" and entry.name not in candidates]
    return [
        ("Mechanism", "auto: the proven mechanism with the least expected error"),
        ("Compared", ", ".join(candidates)),
        ("Left out", f"{', '.join(left_out)}, whose error depends on the records, so that nobody knows it beforehand"),
        (
            "By",
            "the expected error that minimise names, at the same epsilon and delta, for the declared query and shape",
        ),
        ("Where", "the comparison is in the plan, the ledger's entry and the report"),
        ("Loss charged", "that of the mechanism that is chosen; choosing reads no records and costs nothing"),
        ("Use", _USES["release"]),
    ]


def _lines(entry: CatalogueEntry, queries: Sequence[str]) -> list[tuple[str, str]]:
    return [
        ("Mechanism", f"{entry.name}: {entry.title}"),
        ("Status", entry.status.value),
        ("Source", entry.source),
        ("Theorem", entry.theorem),
        ("Neighbours", ", ".join(relation.value for relation in entry.relations)),
        ("Queries", ", ".join(queries) or "none: no config can name it"),
        ("Needs", entry.needs),
        ("Loss charged", entry.loss),
        ("Expected error", entry.error),
        ("What was found", entry.finding),
        ("Use", _USES[entry.use]),
    ]
