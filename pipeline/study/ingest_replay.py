"""The config of an ingest under replay: made-up sources go through its own path, and the stores are compared.

A release protects a unit in the store, so the store must differ by that unit's rows alone, whoever else is in the
source and in whatever order the source hands its rows out. Rows of the declared types are made up and ingested by the
config's own rules from a source of its kind: with all rows moved and divided into other files, with one unit present
and absent, with more rows of it than its bound, and over several appends where the store grows. Nothing is read of the
source itself.

**Source**: replay of neighbouring inputs, as :mod:`.replay`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from blockveil.pipeline.config.ingest_file import ChosenRows, IngestConfig, LoadedIngest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.sparse_store import open_rows
from blockveil.pipeline.study.made_up_rows import MadeUpRows
from blockveil.pipeline.study.made_up_source import MadeUpSource, replaced_by

Tell = Callable[[str, float | None], None]
Records = NDArray[Any]
Appends = Sequence[Sequence[pa.Table]]
"""Tables of each append, a file each."""

_SEED, _UNIT, _OTHERS, _MOST_ROWS = 20261127, 10_000, 12, 1_000
_STEPS = 6


@dataclass(frozen=True)
class ReplayedIngest:
    """What the replay of an ingest found.

    Attributes
    ----------
    compared
        What was compared, in words.
    rows
        Most records of one unit in a store, and how many it may have.
    refutations
        Claims that are refuted, in words; empty where none is.
    not_tested
        What was not compared, and why, in words.
    """

    compared: tuple[str, ...]
    rows: tuple[int, int]
    refutations: tuple[str, ...]
    not_tested: tuple[str, ...]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value) of what was found, for a person."""
        lines = [("Replayed", one) for one in self.compared]
        if self.compared:
            lines.append(("Most records of a unit", f"{self.rows[0]:,}, of {self.rows[1]:,} that it may have"))
        lines += [("Not tested", reason) for reason in self.not_tested]
        lines += [("Refuted", claim) for claim in self.refutations]
        verdict = "no claim is refuted; an audit refutes and never proves" if self.compared else "nothing was tested"
        return lines if self.refutations else [*lines, ("Verdict", verdict)]

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "compared": list(self.compared),
            "most_records_of_a_unit": self.rows[0],
            "records_that_a_unit_may_have": self.rows[1],
            "not_tested": list(self.not_tested),
            "refuted": list(self.refutations),
        }


def replay_ingest(loaded: LoadedIngest, tell: Tell) -> ReplayedIngest:
    """Ingest made-up sources by the rules of a config, and compare the stores.

    The source of the config is not read.
    """
    with TemporaryDirectory() as folder:
        return _Replay(loaded, Path(folder), tell).outcome()


class _Replay:
    """Stores of made-up sources."""

    def __init__(self, loaded: LoadedIngest, folder: Path, tell: Tell) -> None:
        self._config, self._path, self._folder, self._tell, self._stores = loaded.config, loaded.path, folder, tell, 0
        self._rows = MadeUpRows(loaded.config, _SEED)
        self._bounded = loaded.config.bounded is not None
        self._allowed = min(loaded.config.rows_per_unit, _MOST_ROWS)
        k = self._allowed if isinstance(loaded.config.unit, ChosenRows) else 3
        sizes = [1 + number % (k + 3) for number in range(_OTHERS)] if k < _OTHERS else [k + 2] * 2
        self._others = [self._rows.of_unit(unit, size) for unit, size in enumerate(sizes)]
        self._own = self._rows.of_unit(_UNIT, k + 1 if self._bounded else 1)
        self._kind, self._not_replayed = replaced_by(loaded.config, self._own.schema)

    def outcome(self) -> ReplayedIngest:
        """Compare all of them."""
        compared = [f"all rows in another order and in other files ({self._kind})", "one unit present and absent"]
        claims, not_tested, most = list[str](), list(self._not_replayed), 0
        if self._allowed < self._config.rows_per_unit:
            not_tested.append(
                f"units of more than {self._allowed:,} rows: unit.rows_at_most was replayed as this number"
            )
        everybody = pa.concat_tables([*self._others, self._own])
        here = self._store([[everybody]])
        if not self._same(here, self._store([self._rows.moved(everybody)])):
            claims.append("the order of the rows of a source decides what is stored")
        pairs = [(here, self._store([self._rows.moved(pa.concat_tables(self._others))]), "")]
        if self._bounded:
            compared.append(f"one unit with {self._own.num_rows:,} rows")
        if self._config.ingest.append:
            compared.append("the same over three appends")
            pairs.append((self._store(self._appends(True)), self._store(self._appends(False)), " over several appends"))
        else:
            not_tested.append("several appends: the store does not grow")
        for present, absent, where in pairs:
            own, changed = Counter(present), Counter(absent)
            own.subtract(absent)
            changed.subtract(present)
            rows = sum((+own).values())
            most = max(most, rows)
            if +changed:
                claims.append(f"records of others change where one unit is there or not{where}")
            elif rows > self._allowed:
                claims.append(f"a unit has {rows:,} records{where}, and {self._allowed:,} are declared")
        return ReplayedIngest(tuple(compared), (most, self._allowed), tuple(dict.fromkeys(claims)), tuple(not_tested))

    def _same(self, one: list[bytes], other: list[bytes]) -> bool:
        return one == other if self._bounded else Counter(one) == Counter(other)

    def _appends(self, present: bool) -> Appends:
        """Three appends; the unit has rows in each, more than its bound together."""
        appends = []
        for number in range(3):
            others = [one.slice(number % one.num_rows, one.num_rows) for one in self._others]
            own = [self._own.slice(0, 1 if number == 0 and self._bounded else self._own.num_rows)] if present else []
            if not self._bounded:
                own = own[: int(number == 1)]
            appends.append(self._rows.moved(pa.concat_tables([*others, *own])))
        return appends

    def _store(self, appends: Appends) -> list[bytes]:
        """Records of the store that a source becomes, in their order."""
        self._tell("replaying the ingest", min(1.0, self._stores / _STEPS))
        folder = self._folder / str(self._stores)
        self._stores += 1
        source = MadeUpSource(self._config, self._kind, folder)
        for tables in appends:
            source.append(tables)
            loaded = self._loaded(source, folder)
            ingest(look(loaded, before=source.before), lambda stage, share: None, remembered=False)
        records = np.asarray(open_rows(folder / "out.zarr", "records", "ingest.store")[:])
        return [row.tobytes() for row in records]

    def _loaded(self, source: MadeUpSource, folder: Path) -> LoadedIngest:
        """The config as it is, but for where it reads and writes."""
        fields = self._config.model_dump(exclude_unset=True) | {"source": source.section}
        fields["ingest"] |= {"store": "out.zarr", "array": "records", "accept_repeated_rows": "an audit"}
        if "rows_at_most" in fields["unit"]:
            fields["unit"]["rows_at_most"] = self._allowed
        for column in fields["columns"]:
            if "file" in column:  # of a public network
                column["file"] = str(self._path.parent / column["file"])
        return LoadedIngest(IngestConfig.model_validate(fields), folder / "ingest.toml")
