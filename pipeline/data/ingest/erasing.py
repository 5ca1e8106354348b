"""Erasure of units from a store that grows: their records go, and nobody else's are touched.

The order is what makes a kill harmless::

    lock staging -> which rows are theirs? -> write the parts that held them anew, without these rows
    -> new state beside the store -> move the new parts into the store -> do ledgers allow it? -> write down the rest
    -> book the new digests in each ledger -> replace the manifest -> destroy the old keys -> remove what was replaced

* Until the rest is written down the store is the old one, and a kill leaves nothing but files that no manifest names.
  From then on the same command finishes it, and no release begins and nothing is appended until it has.
* Rows of a part are in the order of their units, so how many rows each unit has in it says which rows these are.
* Ledgers hold digests of the records as they were. Their key is replaced and destroyed (:mod:`.finishing`), so that
  nobody can test with them what an erased record was. Nights and series go on by what is booked.
* Later rows of an erased unit are dropped: its bound counts as used up.

**Claim.** Whatever is erased and when, the noise of a release, or of nights that share a charge, is enough.

Of nights that share a charge each draws noise of its own.

**Proof.** Which rows an erasure removes of a unit v depends on v's rows alone, and it removes no others; so neighbours
still differ by rows of one unit u, at most k of them in all appends together, as erased rows count towards k. One such
row, were it not erased, would change the measurements of a series by the vector of its weights, ``w_0 x, w_1 x, ...``,
whose norm the noise is for. Erased before some night it changes the first of them alone; the norm of a vector
with components left out is at most that of the whole. QED.

What is read of a night keeps a share of an erased record that earlier nights had in them: see the documentation of
shared nights.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError, guard
from blockveil.pipeline.config.ingest_file import ChosenRows
from blockveil.pipeline.data.grown_rows import GrownRows, Manifest, PartRows, part_name
from blockveil.pipeline.data.ingest import appending, growth_state
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.column_faults import Unfit
from blockveil.pipeline.data.ingest.finishing import Ledgers, decide, finish
from blockveil.pipeline.data.ingest.growth_state import GrowthState
from blockveil.pipeline.data.ingest.identifiers import canonical
from blockveil.pipeline.data.ingest.new_files import erased_up_to, held_again
from blockveil.pipeline.data.ingest.source_rows import Source, Tell
from blockveil.pipeline.data.ingest.store_filling import refill
from blockveil.pipeline.data.ingest.store_writer import layout
from blockveil.pipeline.data.ingest.unit_bound import ENTRY, check, entries_of, file_name, rows_of, written
from blockveil.pipeline.data.ingest.units import Digester, Digests
from blockveil.pipeline.data.sparse_store import open_rows
from blockveil.pipeline.data.stores import unreadable

_ALGORITHM = "erasure 1"
_FINDING, _WRITING = "finding the rows of the units", "writing the other rows anew"


@dataclass(frozen=True, repr=False)
class Erasure:
    """What was erased. Private: for the person at the terminal, and kept nowhere.

    Attributes
    ----------
    units, rows
        Units of which the store held rows, and how many.
    """

    units: int
    rows: int

    def __repr__(self) -> str:
        """Show nothing."""
        return "Erasure()"

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        return (
            f"erased {self.rows:,} records of {self.units:,} units. These numbers are private: they are shown here, "
            "and kept nowhere."
        )


def read_units(file: Path) -> list[str]:
    """Identifiers of a file, one a line; of standard input where it is ``-``.

    Raises DataError where it cannot be read, is not UTF-8, or names nobody.
    """
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        # A byte order mark, as Windows writes it, is no part of the first identifier.
        lines = [line for line in text.decode("utf-8-sig").splitlines() if line]
    except OSError as error:
        problem = f"cannot be read ({os.strerror(error.errno or 0)})"
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    else:
        if lines:
            return lines
        problem = "names no unit"
    raise DataError(
        f'The file of units "{file.name}" {problem}', "It has one identifier a line", "Correct it, or name another file"
    )


def erase(source: Source, identifiers: Sequence[int | str], tell: Tell, ledgers: Ledgers) -> Erasure:
    """Remove all rows of some units from a store that grows, and what an unfinished ingest left of anybody.

    Parameters
    ----------
    source
        Config of the ingest, and the files of the source that are there: those that the store holds already may have
        changed, so that the units are gone from them, and are known as they are now.
    identifiers
        Units as the source names them, integers or texts, in any spelling that an ingest takes (:mod:`.identifiers`).
    tell
        Receives progress in the user's words.
    ledgers
        Ledgers of the releases that read the store.

    Raises
    ------
    BlockveilError
        With what to change; the store is as it was then.
    """
    target, unit = source.loaded.target, source.config.unit
    if not (source.config.ingest.append and isinstance(unit, ChosenRows)):
        raise DataError(
            "This ingest does not keep whose the stored rows are",
            'Units are erased from a store that grows (append = true) of chosen rows ([unit] kind = "choose")',
            "Delete their rows in the source, and ingest it into another store",
        )

    def erased() -> Erasure:
        with scratch.locked(target) as root:
            staging = scratch.Staging(root, scratch.IngestProgress(""))
            staging.wipe()  # raw records of an unfinished append, whose files the next one reads again
            try:
                erasure = _erase(source, unit, staging, identifiers, tell, ledgers)
            except BaseException:
                with suppress(StoreError):  # the first failure is the one to show; the next run removes what is left
                    scratch.remove(root)
                raise
            scratch.remove(root)
            return erasure

    def failure(error: Exception) -> BlockveilError:
        if isinstance(error, OSError):
            return scratch.not_written(error)
        return unreadable("The store of the records", error)

    return guard(erased, failure)


def _erase(
    source: Source,
    unit: ChosenRows,
    staging: scratch.Staging,
    identifiers: Sequence[int | str],
    tell: Tell,
    ledgers: Ledgers,
) -> Erasure:
    """Write parts and state, then what is to be done with them, and do it."""
    if source.loaded.target.exists():
        finish(source, ledgers)
    before = appending.store_before(source, staging.root)
    if before is None:
        raise StoreError(
            f'ingest.store "{source.config.ingest.store}" is not there',
            "Units are erased from a store that an ingest has made",
            "Correct ingest.store",
        )
    _, state = before
    gone, folder = _digests(unit, identifiers), growth_state.opened(source.loaded.target)
    parts = list(_found(folder, state, gone, tell))
    used_up, fields = _used_up(folder, unit, state, gone), _known(folder, source, state)
    if parts or used_up.size or fields != {name: getattr(state, name) for name in fields}:
        key = growth_state.key_of(source.loaded.target)
        spec = key.digest({"algorithm": _ALGORITHM, "before": state.spec})
        source = replace(source, spec=spec, store_id=key.store_id)
        manifest, new_state = _thinned(source, staging, before, parts, tell)
        if used_up.size:
            name = folder / f"erased-{spec[:32]}"
            new_state = replace(new_state, units=(*new_state.units, written(name, 1, iter([used_up.tobytes()]))))
        growth_state.write(folder, replace(new_state, spec=spec, **fields))
        new = [name for name, _ in manifest.parts if name not in dict(before[0].parts)]
        appending.move_in([_staged(staging, name) for name in new], source)
        decide(source, before, manifest, ledgers, changed=bool(parts))
        finish(source, ledgers)
    theirs = np.concatenate([np.empty(0, ENTRY), *(one.theirs for one in parts)])
    return Erasure(np.unique(theirs["unit"]).size, int(theirs["rows"].sum()))


def _used_up(folder: Path, unit: ChosenRows, state: GrowthState, gone: Digests) -> NDArray[np.void]:
    """Entries after which no row of the units is taken in any more, of those that may have some left."""
    rows = [rows_of(folder, state.units, one) for one in np.split(gone, gone.size)] if gone.size else []
    open_ends = gone[np.array(rows, np.int64) < unit.rows_at_most]
    entries: NDArray[np.void] = np.empty(open_ends.size, ENTRY)
    entries["unit"], entries["rows"] = open_ends, unit.rows_at_most
    return entries


def _known(folder: Path, source: Source, state: GrowthState) -> dict[str, Any]:
    """What the state says of the source, as it is now."""
    now = held_again(source, state)
    rows = None if now.rows is None else growth_state.with_rows(folder, now.rows, state.rows)
    return {"files": now.files, "rows": rows, "table": erased_up_to(source, state)}


def _digests(unit: ChosenRows, identifiers: Sequence[int | str]) -> Digests:
    # Integers by their digits: in a config of texts, Python's 7 is the text "7".
    texts = [str(one) for one in identifiers]
    try:
        canonical_texts = _canonical(unit, texts)
    except Unfit as fault:
        rule = fault.rule
    else:
        digests: Digests = np.unique(Digester(unit.seed).digests(canonical_texts))
        return digests
    # The identifier itself is whose data these are: no message holds it.
    number = next(number for number, one in enumerate(texts, 1) if not _is_known(unit, one))
    raise DataError(
        f'Identifier {number} of those to erase is no unit of type "{unit.type}" in its own spelling',
        rule,
        "Correct it; nothing was erased",
    )


def _canonical(unit: ChosenRows, texts: Sequence[str]) -> pa.Array:
    """Identifiers in the one form by which the ingest knows them."""
    return canonical(unit.column, pa.array(texts, pa.string()), unit.type)


def _is_known(unit: ChosenRows, text: str) -> bool:
    try:
        _canonical(unit, [text])
    except Unfit:
        return False
    return True


@dataclass(frozen=True)
class _Held:
    """Units of a part in the order of its rows, how many rows each has, and which of these units are to be erased."""

    position: int
    entries: NDArray[np.void]
    erased: NDArray[np.bool_]

    @property
    def theirs(self) -> NDArray[np.void]:
        """Entries of the units to erase."""
        return self.entries[self.erased]

    @property
    def others(self) -> NDArray[np.void]:
        """Entries of the other units."""
        return self.entries[~self.erased]

    def rows(self, part: PartRows, block: int) -> Iterator[NDArray[np.generic]]:
        """Rows of the other units, in their order."""
        mask = np.repeat(~self.erased, self.entries["rows"])
        if mask.size != part.shape[0]:
            raise ValueError("a part has other rows than its units have")
        for start in range(0, mask.size, block):
            yield part[start : start + block, :][mask[start : start + block]]


def _found(folder: Path, state: GrowthState, gone: Digests, tell: Tell) -> Iterator[_Held]:
    """Parts that hold rows of units to erase."""
    check(folder, state.owners)
    for position, owners in enumerate(state.owners):
        entries = entries_of(folder / owners.name)
        erased = np.isin(entries["unit"], gone)
        tell(_FINDING, (position + 1) / len(state.owners))
        if erased.any():
            yield _Held(position, entries, erased)


def _staged(staging: scratch.Staging, name: str) -> Path:
    """Where a part is written: each in a group of its own."""
    return staging.store / f"group-{name}" / name


def _thinned(
    source: Source, staging: scratch.Staging, before: appending.Before, found: list[_Held], tell: Tell
) -> tuple[Manifest, GrowthState]:
    """Write the parts anew, without rows of erased units; manifest and state that name the new ones."""
    manifest, state = before
    if not found:
        return before
    target, section = source.loaded.target, source.config.ingest
    records = open_rows(target, section.array, "ingest.store", "ingest.array")
    if not isinstance(records, GrownRows):
        raise TypeError(section.array)
    folder, block = growth_state.opened(target), layout(section, manifest.columns)[1]
    parts, owners = list(manifest.parts), list(state.owners)
    for number, part in enumerate(found, manifest.next_part):
        name = part_name(number)
        pieces = part.rows(records.part(part.position), block)
        parts[part.position] = name, refill(source, (_staged(staging, name).parent, name), pieces)
        content = iter([part.others.tobytes()])
        owners[part.position] = written(folder / file_name(number, 1), 1, content)
        tell(_WRITING, (number - manifest.next_part + 1) / len(found))
    return replace(manifest, parts=tuple(parts)), replace(state, owners=tuple(owners))
