"""A mark outside the ledger: what this account has seen of it on this machine, so that an older copy is noticed.

The hash chain of an older copy is sound, and releases of the same time can be restored with it. What shows that nights
were drawn since is a file beside neither of them, named by the ledger's first entry, which its copies share. Each line
has the ledger's last entry as it was then, and the charges that were committed since the line before. A line is on the
disk after the commit and before the first draw.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.durable import kind_of, sync, sync_names
from blockveil.pipeline.base.errors import LedgerError, StoreError
from blockveil.pipeline.base.state_home import state_home
from blockveil.pipeline.budget.filter import Ticks

_TAIL = 65536
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Committed:
    """A charge that was committed.

    Attributes
    ----------
    charge_id, release_id, budget
        Its identifier, its release, and the name of the budget that pays.
    part
        Part of the records that it is of, as the ledger writes it; None for all of them.
    ticks
        What it costs.
    key_check
        Check value of its noise key.
    first
        First date of the series that it is a night of; None where it is of none.
    """

    charge_id: str
    release_id: str
    budget: str
    part: str | None
    ticks: Ticks
    key_check: str
    first: str | None

    @property
    def plain(self) -> list[Any]:
        """The same as plain JSON values."""
        ticks = [self.ticks.loss, self.ticks.sampler, self.ticks.pure, self.ticks.failure]
        return [self.charge_id, self.release_id, self.budget, self.part, ticks, self.key_check, self.first]

    @classmethod
    def of(cls, values: Any) -> Committed:
        """Read what :attr:`plain` gave."""
        charge_id, release_id, budget, part, ticks, key_check, first = values
        return cls(charge_id, release_id, budget, part, Ticks(*map(int, ticks)), key_check, first)


@dataclass(frozen=True)
class Seen:
    """What a ledger's last entry was, and which charges were committed since an earlier one.

    Attributes
    ----------
    sequence, hash
        The last entry.
    charges
        The charges.
    """

    sequence: int
    hash: str
    charges: tuple[Committed, ...] = ()


@dataclass(frozen=True)
class Last:
    """The last line of a mark.

    Attributes
    ----------
    seen
        What it says; of its charges nothing but those of the line itself.
    end
        Where it ends in the file, in bytes.
    """

    seen: Seen
    end: int


class Mark:
    """What this account has seen of one ledger on this machine.

    Parameters
    ----------
    ledger
        Hash of the ledger's first entry.
    """

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def last(self) -> Last | None:
        """Its last line; None where there is no mark.

        Raises
        ------
        StoreError
            It cannot be read, is damaged, or other accounts may change it.
        """
        try:
            with self._opened() as file:
                return _last(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            failure = _failure(error)
        raise failure

    def charges(self) -> dict[str, Committed]:
        """All charges that it knows, by identifier, in the order of their commits; raises as :meth:`last`."""
        try:
            with self._opened() as file:
                lines = list(map(_read, file.read().splitlines()))
        except OSError as error:
            failure = _failure(error)
        else:
            return {one.charge_id: one for line in lines for one in line[0].charges}
        raise failure

    def follow(self, last: Last, seen: Seen) -> None:
        """Add what was seen since a line, unless another process of this account has; on the disk when this returns.

        Raises
        ------
        LedgerError
            The ledger was restored meanwhile.
        StoreError
            The mark cannot be written.
        """
        try:
            with self._locked():
                with self._opened() as file:
                    content = file.read()
                lines = list(map(_read, content[last.end :].splitlines()))
                if any(restored for _, restored in lines):
                    raise _restored_meanwhile()
                newest = lines[-1][0] if lines else last.seen
                if seen.sequence > newest.sequence:
                    self._replace(content + _line(seen, restored=False))
                else:
                    sync(folder())  # whoever wrote it may have been killed before its name was on the disk
        except OSError as error:
            failure = _failure(error)
        else:
            return
        raise failure

    def begin(self, seen: Seen) -> None:
        """Make the mark, or let it go on from a ledger that was restored; on the disk when this returns.

        Raises
        ------
        StoreError
            The mark cannot be written.
        """
        try:
            folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                try:
                    with self._opened() as file:
                        content = file.read()
                except FileNotFoundError:
                    content = b""
                self._replace(content + _line(seen, restored=True))
            sync_names(folder())
        except OSError as error:
            failure = _failure(error)
        else:
            return
        raise failure

    def _path(self, ending: str) -> Path:
        return folder() / f"{self._ledger}.{ending}"

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        path = self._path("jsonl")
        _check(os.stat(path.parent), path.parent.name, _OTHERS_WRITE)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            _check(state, path.name, _OTHERS)
            if not stat.S_ISREG(state.st_mode):
                raise _damaged()
            yield file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not os.access(folder(), os.W_OK):  # before anything is charged, also where there is nothing to add
                raise PermissionError(errno.EACCES, "no permission")
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a process that was forked meanwhile holds a copy
            os.close(descriptor)

    def _replace(self, content: bytes) -> None:
        """Give the mark new content, whole or not at all; the lock is held."""
        scratch = self._path("new")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, self._path("jsonl"))
        sync(folder())


def folder() -> Path:
    """Folder of all marks of this account.

    Raises
    ------
    StoreError
        The account has no home.
    """
    try:
        return state_home() / "marks"
    except RuntimeError:
        pass
    raise _failure(FileNotFoundError())


def _last(file: BinaryIO) -> Last:
    """Last line, of which the end of the file is read alone where that is enough."""
    size = file.seek(0, os.SEEK_END)
    window = _TAIL
    while True:
        start = file.seek(max(0, size - window))
        lines = file.read().splitlines()
        if len(lines) > 1 or start == 0:
            break
        window *= 4
    return Last(_read(lines[-1] if lines else b"")[0], size)


def _read(line: bytes) -> tuple[Seen, bool]:
    """What a line says, and whether the ledger was restored before it; StoreError where it is no such line."""
    try:
        fields = json.loads(line)
        charges = tuple(map(Committed.of, fields["charges"]))
        return Seen(int(fields["sequence"]), str(fields["hash"]), charges), bool(fields["restored"])
    except (KeyError, RecursionError, TypeError, ValueError):
        pass
    raise _damaged()


def _line(seen: Seen, *, restored: bool) -> bytes:
    fields: Mapping[str, Any] = {
        "sequence": seen.sequence,
        "hash": seen.hash,
        "charges": [one.plain for one in seen.charges],
        "restored": restored,
    }
    return canonical_json(fields) + b"\n"


def _check(state: os.stat_result, name: str, forbidden: int) -> None:
    mode = stat.S_IMODE(state.st_mode)
    if mode & forbidden:
        raise StoreError(
            f'"{name}" of the ledger\'s marks has mode {mode:04o}: other accounts may use it',
            "Whoever may change a mark can hide that an older ledger was put back",
            f"Find out who used it, then run chmod {mode & ~forbidden:04o} on it",
        )
    if state.st_uid not in (0, os.geteuid()):
        raise StoreError(
            f'"{name}" of the ledger\'s marks belongs to another account (number {state.st_uid})',
            "Each account that releases keeps marks of its own",
            "Name a folder of this account in XDG_STATE_HOME",
        )


def _failure(error: OSError) -> StoreError:
    reason = os.strerror(error.errno) if error.errno else "this account has no home"
    return kind_of(error)(
        f"The mark that shows whether the ledger was restored cannot be used ({reason})",
        "It must be on the disk before noise is drawn, outside what backups bring back",
        "Name a folder that lasts and that this account may write to in XDG_STATE_HOME, and run again",
    )


def _damaged() -> StoreError:
    return StoreError(
        f"A ledger's mark in {folder()} is damaged",
        "It shows which charges this account has committed, so that an older ledger is noticed",
        "Compare the ledger with its newest backup, move the mark away, and run `blockveil ledger admin attest` or "
        "`blockveil ledger admin reconcile`",
    )


def _restored_meanwhile() -> LedgerError:
    return LedgerError(
        "The ledger was restored while this run was under way",
        "Noise is drawn only under a charge that the restored ledger has",
        "Run again",
    )
