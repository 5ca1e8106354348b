"""Kinds of mechanisms and queries from other packages, whose proofs nobody here has checked.

A package offers them as entry points. None is imported before the config file itself names its kind, an override
cannot name one, and none can take the name of a kind that the product has. A plan and an audit need no more; a release
needs ``release.allow_unvetted`` (:mod:`.vetting`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args

from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.mechanisms.registry import FILES
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.kinds import FOLDERS, Kind
from blockveil.pipeline.config.mechanism_sections import AutoSection, section_of
from blockveil.pipeline.sections.fields import Section
from blockveil.pipeline.sections.query_sections import QuerySection

GROUPS = {"mechanism": "blockveil.mechanisms", "query": "blockveil.queries"}
"""Group of entry points of each table of a config."""

OURS = {"mechanism": {*FILES, *get_args(AutoSection.model_fields["kind"].annotation)}, "query": set(FOLDERS)}
"""Names that no other package can take."""

_NEEDED = ("section", "question")
"""Parts without which nothing of a kind can be planned."""


@dataclass(frozen=True)
class Unvetted:
    """A kind of another package that a config names.

    Attributes
    ----------
    table
        "mechanism" or "query".
    name
        The name that a config uses.
    package, version
        Where it comes from.
    declaration
        What its file declares.
    """

    table: str
    name: str
    package: str
    version: str
    declaration: MechanismDeclaration | Kind

    @property
    def section(self) -> type[Section]:
        """Model of the table."""
        declaration = self.declaration
        return declaration.part("section", QuerySection) if isinstance(declaration, Kind) else section_of(declaration)

    @property
    def facts(self) -> dict[str, str]:
        """What the plan states of it, as plain JSON values."""
        return {"table": self.table, "kind": self.name, "package": self.package, "version": self.version}


def offered(table: str) -> list[tuple[str, str]]:
    """Name and package of what other packages offer for a table; imports none of them."""
    offers = [(entry.name, _package(entry)) for entry in entry_points(group=GROUPS[table])]
    return sorted({(name, f"{package} {version}") for name, (package, version) in offers if name not in OURS[table]})


def named_by(tree: Mapping[str, Any]) -> tuple[Unvetted, ...]:
    """Kinds of other packages that a config file names; these are imported.

    Raises
    ------
    ConfigError
        Two packages offer the name, or what is offered cannot be imported or declares something else.
    """
    return tuple(_named(tree))


def _named(tree: Mapping[str, Any]) -> Iterator[Unvetted]:
    for table in GROUPS:
        section = tree.get(table)
        kind = section.get("kind") if isinstance(section, Mapping) else None
        offer = load(table, kind) if isinstance(kind, str) else None
        if offer is not None:
            yield offer


def load(table: str, kind: str) -> Unvetted | None:
    """Import what another package offers under a name; None where none does, or the name is one of ours.

    Raises
    ------
    ConfigError
        See :func:`named_by`.
    """
    entries = [] if kind in OURS[table] else list(entry_points(group=GROUPS[table], name=kind))
    if not entries:
        return None
    what, (package, version) = f'{table}.kind = "{kind}"', _package(entries[0])
    if len(entries) > 1:
        names = ", ".join(sorted(_package(entry)[0] for entry in entries))
        raise ConfigError(f"{what} is offered by {names}", "A kind has one origin", "Uninstall all but one of them")
    try:
        declaration = entries[0].load()
        lacking = [name for name in _NEEDED if isinstance(declaration, Kind) and declaration.part(name, None) is None]
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        problem = type(error).__name__
    else:
        expected = MechanismDeclaration if table == "mechanism" else Kind
        if isinstance(declaration, expected) and kind in _names(declaration) and not lacking:
            return Unvetted(table, kind, package, version, declaration)
        problem = f"it has no {lacking[0]}" if lacking else f"it is no {expected.__name__} of this name"
    raise ConfigError(
        f"{what} of {package} {version} cannot be used: {problem}",
        "An entry point names the declaration of its kind",
        "Ask who maintains the package, or choose a kind of the product",
    )


def _names(declaration: MechanismDeclaration | Kind) -> Collection[str]:
    return declaration.titles if isinstance(declaration, Kind) else (declaration.name,)


def _package(entry: EntryPoint) -> tuple[str, str]:
    return ("an unnamed package", "") if entry.dist is None else (entry.dist.name, entry.dist.version)
