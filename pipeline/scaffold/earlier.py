"""A release of the same source that is there already: a further question joins its ledger, keys, store and budget.

Two ledgers of one population know nothing of each other: each would grant, and spend, the whole promise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Cap, Chargeable, Ticks
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows, LoadedIngest, load_ingest
from blockveil.pipeline.data.ingest.known_sources import (
    configs_in,
    overlap,
    path_name,
    readers_of,
    remembered,
    server_names,
    source_names,
    table_name,
)
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.scaffold.answers import AVERAGE, EACH_ROW
from blockveil.pipeline.scaffold.column_names import table_place

_MOST_EPSILON = 1000.0

_MOST_FOLDERS = 200
"""Folders beside one another that are looked at."""


@dataclass(frozen=True)
class Earlier:
    """A release of the same source."""

    ingest: LoadedIngest
    release: LoadedConfig

    @property
    def folder(self) -> Path:
        """Where its configs are."""
        return self.release.path.parent

    @property
    def cap(self) -> Cap:
        """The budget as granted; what the config promises where nothing is granted yet."""
        privacy = self.release.config.privacy
        with suppress(BlockveilError):
            return Ledger(self.release.ledger_url).budget(self.release.config.release.account).cap
        return Cap(privacy.epsilon, privacy.delta)

    def together(self, charges: Sequence[tuple[Chargeable, int]]) -> float:
        """Epsilon, at the budget's delta, that holds all that the budget allows now and further charges beside it.

        Each further charge comes with how often it is made.
        """
        cap = self.cap
        # One charge alone may be a little larger than several together.
        total = Ticks(max(cap.most_loss, Ticks.of(Loss(cap.left(NOTHING), 0.0, 0.0)).loss), 0, cap.most_pure)
        for charge, count in charges:
            total += cap.book(charge, total).times(count)
        low, high = cap.epsilon, _MOST_EPSILON
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if replace(cap, epsilon=middle).holds(total) else (middle, high)
        return min(math.ceil(high * 1e4) / 1e4, _MOST_EPSILON)

    def inherited(self) -> dict[str, Any]:
        """Answers that the further question has in common with it, by their key."""
        config, unit = self.release.config, self.ingest.config.unit
        answers: dict[str, Any] = {
            "dataset": config.release.dataset,
            "unit": config.privacy.unit,
            "row_count_public": config.privacy.neighbours == Neighbours.REPLACE_ONE,
            "unit_column": getattr(unit, "column", EACH_ROW),
        }
        if isinstance(unit, ChosenRows | AggregatedRows):
            answers["unit_type"] = unit.type
        if isinstance(unit, ChosenRows):
            answers["rows_per_unit"] = unit.rows_at_most
        elif isinstance(unit, AggregatedRows):
            answers["rows_per_unit"] = AVERAGE
        rows_at_most = getattr(config.query, "rows_at_most", None)
        return answers if rows_at_most is None else {**answers, "rows_at_most": rows_at_most}

    def require_same(self, given: Mapping[str, Any]) -> None:
        """Refuse answers that would put another unit or relation under its budget.

        Raises
        ------
        ConfigError
            With the first answer that differs.
        """
        terms = self.inherited()
        for key in ("dataset", "unit", "unit_column", "row_count_public"):
            if given.get(key, terms[key]) != terms[key]:
                raise ConfigError(
                    f'{key}: {given[key]!r}, where "{self.release.path.name}" has {terms[key]!r}',
                    "It reads the same source, and one budget has one unit, one relation and one name",
                    "Leave the answer out; or give --new-budget with the reason for a second promise to these people",
                )


def find_earlier(location: str, base: Path, folder: Path) -> Earlier | None:
    """A release of the same source in a folder, beside it, or of an ingest that this account remembers.

    Parameters
    ----------
    location
        The source, as a path from ``base`` or an address.
    base
        Folder that relative paths start from.
    folder
        Where the further question would be written.
    """
    names = names_of(location, base)
    for path in _candidates(base, folder):
        with suppress(BlockveilError, OSError):
            ingest = load_ingest(path)
            if overlap(names, source_names(ingest)):
                releases = readers_of(ingest.target, path.parent)
                if releases:
                    return Earlier(ingest, releases[0])
    return None


def names_of(location: str, base: Path) -> tuple[str, ...]:
    """Names of the source of an ``init``, as :func:`.known_sources.source_names` has those of an ingest."""
    place = table_place(location)
    if place is None:
        return (location if location.startswith("catalog:") else path_name(location, base),)
    server = place.key == "address"
    databases = server_names(place.database, base) if server else (path_name(place.database, base),)
    return tuple(table_name(place.kind, database, place.table) for database in databases)


def _candidates(base: Path, folder: Path) -> Iterator[Path]:
    """Configs that may be of an ingest of the source, the nearest first, each once."""
    real_paths: set[str] = set()
    folders = [folder, base, *_within(base), *_within(folder.parent)]
    for path in [*(path for each in folders for path in configs_in(each)), *remembered()]:
        if (real := os.path.realpath(path)) not in real_paths:
            real_paths.add(real)
            yield path


def _within(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())[:_MOST_FOLDERS]
    return []
