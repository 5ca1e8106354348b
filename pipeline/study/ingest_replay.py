"""The config of an ingest under replay: made-up sources go through its own path, and the stores are compared.

A release protects a unit in the store, so the store must differ by that unit's rows alone, whoever else is in the
source and in whatever order the source hands its rows out. Rows of the declared types are made up and ingested by the
config's own rules: with all rows moved and divided into other files, with one unit present and absent, with more rows
of it than its bound, and over several appends where the store grows. Parquet files take the place of the source, of
which nothing is read.

**Source**: replay of neighbouring inputs, as :mod:`.replay`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
from numpy.typing import NDArray

from blockveil.pipeline.config.ingest_columns import BinsColumn, BooleanColumn, CategoryColumn, Column, DateColumn
from blockveil.pipeline.config.ingest_columns import IntegerColumn as WholeColumn
from blockveil.pipeline.config.ingest_file import ChosenRows, IngestConfig, LoadedIngest
from blockveil.pipeline.config.map_columns import CrossColumn, OnnxColumn
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.sparse_store import open_rows

Tell = Callable[[str, float | None], None]
Records = NDArray[Any]
Appends = Sequence[Sequence[pa.Table]]
"""Tables of each append, a file each."""

_SEED, _UNIT, _OTHERS, _MOST_ROWS = 20261127, 10_000, 12, 5_000
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
        found = [("Replayed", one) for one in self.compared]
        if self.compared:
            found.append(("Most records of a unit", f"{self.rows[0]:,}, of {self.rows[1]:,} that it may have"))
        found += [("Not tested", reason) for reason in self.not_tested]
        found += [("Refuted", claim) for claim in self.refutations]
        verdict = "no claim is refuted; an audit refutes and never proves" if self.compared else "nothing was tested"
        return found if self.refutations else [*found, ("Verdict", verdict)]

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

    Parameters
    ----------
    loaded
        Config of the ingest. Its source is not read.
    tell
        Receives progress.
    """
    config, reasons = loaded.config, []
    if any(isinstance(column, OnnxColumn) for column in config.columns):
        reasons.append("an ingest with a network, whose file is another program's")
    if config.rows_per_unit > _MOST_ROWS:
        reasons.append(f"units with more than {_MOST_ROWS:,} rows")
    if reasons:
        return ReplayedIngest((), (0, config.rows_per_unit), (), tuple(reasons))
    with TemporaryDirectory() as folder:
        return _Replay(config, Path(folder), tell).found()


class _Replay:
    """Stores of made-up sources."""

    def __init__(self, config: IngestConfig, folder: Path, tell: Tell) -> None:
        self._config, self._folder, self._tell, self._made = config, folder, tell, 0
        self._rng = np.random.default_rng(_SEED)
        self._bounded = config.bounded is not None
        k = config.rows_per_unit if isinstance(config.unit, ChosenRows) else 3
        sizes = [1 + number % (k + 3) for number in range(_OTHERS)] if k < _OTHERS else [k + 2] * 2
        self._others = [self._rows(unit, size) for unit, size in enumerate(sizes)]
        self._own = self._rows(_UNIT, k + 1 if self._bounded else 1)

    def found(self) -> ReplayedIngest:
        """Compare all of them."""
        compared = ["all rows in another order and in other files", "one unit present and absent"]
        claims, not_tested, most = list[str](), list[str](), 0
        everybody = pa.concat_tables([*self._others, self._own])
        here = self._store([[everybody]])
        if not self._same(here, self._store([self._divided(everybody)])):
            claims.append("the order of the rows of a source decides what is stored")
        pairs = [(here, self._store([self._divided(pa.concat_tables(self._others))]), "")]
        if self._bounded:
            compared.append(f"one unit with {self._own.num_rows:,} rows")
        if self._config.ingest.append:
            compared.append("the same over three appends")
            pairs.append((self._store(self._appends(True)), self._store(self._appends(False)), " over several appends"))
        else:
            not_tested.append("several appends: the store does not grow")
        allowed = self._config.rows_per_unit
        for present, absent, where in pairs:
            own, changed = Counter(present), Counter(absent)
            own.subtract(absent)
            changed.subtract(present)
            rows = sum((+own).values())
            most = max(most, rows)
            if +changed:
                claims.append(f"records of others change where one unit is there or not{where}")
            elif rows > allowed:
                claims.append(f"a unit has {rows:,} records{where}, and {allowed:,} are declared")
        return ReplayedIngest(tuple(compared), (most, allowed), tuple(dict.fromkeys(claims)), tuple(not_tested))

    def _same(self, one: list[bytes], other: list[bytes]) -> bool:
        return one == other if self._bounded else Counter(one) == Counter(other)

    def _divided(self, rows: pa.Table) -> list[pa.Table]:
        """The same rows in another order, in three files."""
        moved = rows.take(pa.array(self._rng.permutation(rows.num_rows)))
        size = max(1, rows.num_rows // 3)
        return [moved.slice(0, size), moved.slice(size, size), moved.slice(2 * size)]

    def _appends(self, present: bool) -> Appends:
        """Three appends; the unit has rows in each, more than its bound together."""
        found = []
        for number in range(3):
            others = [one.slice(number % one.num_rows, one.num_rows) for one in self._others]
            own = [self._own.slice(0, 1 if number == 0 and self._bounded else self._own.num_rows)] if present else []
            if not self._bounded:
                own = own[: int(number == 1)]
            found.append(self._divided(pa.concat_tables([*others, *own])))
        return found

    def _store(self, appends: Appends) -> list[bytes]:
        """Records of the store that a source becomes, in their order."""
        self._tell("replaying the ingest", min(1.0, self._made / _STEPS))
        folder = self._folder / str(self._made)
        self._made += 1
        (folder / "in").mkdir(parents=True)
        fields = self._config.model_dump(exclude_unset=True)
        fields["source"] = {"kind": "parquet", "files": ["in"]}
        fields["ingest"] |= {"store": "out.zarr", "array": "records", "accept_repeated_rows": "an audit"}
        fields["ingest"].pop("layout", None)
        loaded = LoadedIngest(IngestConfig.model_validate(fields), folder / "ingest.toml")
        for number, tables in enumerate(appends):
            for part, table in enumerate(tables):
                arrow_parquet.write_table(table, folder / "in" / f"{number}-{part}.parquet")
            ingest(look(loaded), lambda stage, share: None)
        records = np.asarray(open_rows(loaded.target, "records", "ingest.store")[:])
        return [row.tobytes() for row in records]

    def _rows(self, unit: int, count: int) -> pa.Table:
        """Rows of one unit, some of which are equal."""
        config, columns = self._config, dict[str, pa.Array]()
        for column in config.columns:
            for name in column.inputs:
                known = columns.get(name)
                made = _values(column, name, self._rng, count)
                # A column that is declared twice holds the values of the narrower declaration.
                if known is None or _RANK.get(type(column), 0) > self._rank(name, column):
                    columns[name] = made
        if config.bounded is not None:
            kind, named = config.bounded.type, [unit] * count
            columns[config.bounded.column] = pa.array(named if kind == "whole" else [f"unit {one}" for one in named])
        if config.ingest.only is not None:
            columns[config.ingest.only.column] = _repeated(config.ingest.only.type, config.ingest.only.value, count)
        table = pa.table(columns)
        # Every third row is the one before it.
        return table.take(pa.array([place - (place % 3 == 2) for place in range(count)]))

    def _rank(self, name: str, last: Column) -> int:
        """Rank of the narrowest declaration of a column before one."""
        before = self._config.columns[: self._config.columns.index(last)]
        return max((_RANK.get(type(one), 0) for one in before if name in one.inputs), default=0)


_RANK: dict[type[Any], int] = {
    BinsColumn: 1,
    WholeColumn: 2,
    DateColumn: 3,
    BooleanColumn: 4,
    CategoryColumn: 5,
    CrossColumn: 6,
}
"""A value of a declaration of higher rank fits the others of the same column."""


def _values(column: Column, name: str, rng: np.random.Generator, count: int) -> pa.Array:
    """Values of a column that fit its declaration."""
    match column:
        case WholeColumn():
            return pa.array(rng.integers(-50, 50, count))
        case BooleanColumn():
            return pa.array(rng.integers(0, 2, count).astype(np.bool_))
        case CategoryColumn():
            return pa.array([column.categories[place] for place in rng.integers(0, len(column.categories), count)])
        case CrossColumn():
            labels = next(each.categories for each in column.of if each.name == name)
            return pa.array([labels[place] for place in rng.integers(0, len(labels), count)])
        case DateColumn():
            return pa.array(rng.integers(20_000, 20_400, count).astype(np.int32), pa.date32())
        case BinsColumn():
            return pa.array(rng.uniform(column.edges[0], column.edges[-1], count))
    return pa.array(rng.normal(0.0, 1.0, count))


def _repeated(kind: str, value: str, count: int) -> pa.Array:
    """The value of the records that are kept."""
    if kind == "date":
        return pa.array([date.fromisoformat(value)] * count)
    return pa.array([int(value)] * count if kind == "whole" else [value] * count)
