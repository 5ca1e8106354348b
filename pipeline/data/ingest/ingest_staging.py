"""The staging folder of one ingest: private, locked by the ingest that works in it, resumable, gone at the end.

It lies beside the store that is made, is named after it, and has mode 0700, because it holds raw records. A lock of the
operating system keeps a second ingest out and falls with its process, however that ends. ``progress.json`` says what is
finished; everything else there is redone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import StoreError

_PROGRESS = "progress.json"


@dataclass(frozen=True)
class IngestProgress:
    """What is finished.

    Attributes
    ----------
    spec
        Digest of what is ingested; another one starts from the beginning.
    phase
        ``read``: from the source; ``merge``: from sorted runs.
    runs
        Finished runs.
    part, row
        Where to go on: in the phase ``read`` a file and a row of it, in ``merge`` a range of units and a row of it.
    written
        Rows that are in the store.
    ranges
        Number of ranges that units are split into.
    matched
        Columns of categories of which a value was in the declared list.
    taken
        Rows of finished runs.
    """

    spec: str
    phase: str = "read"
    runs: int = 0
    part: int = 0
    row: int = 0
    written: int = 0
    ranges: int = 0
    matched: tuple[str, ...] = ()
    taken: int = 0


class Staging:
    """An open staging folder."""

    def __init__(self, root: Path, progress: IngestProgress) -> None:
        self.root, self.progress = root, progress

    @property
    def store(self) -> Path:
        """Folder of the store that is being written."""
        return self.root / "store"

    @property
    def runs(self) -> Path:
        """Folder of sorted runs."""
        return self.root / "runs"

    def store_id(self) -> str:
        """Random name of the store that is being written: 32 hexadecimal digits, the same when a killed run goes on."""
        file = self.root / "store-id"
        if not file.exists():
            durable.replace_file(file, token_hex(16).encode(), self.root / "store-id.new")
        return file.read_text()

    @property
    def taken(self) -> Path:
        """Folder of the digests of rows that are read."""
        return self.root / "taken"

    def save(self, **changes: Any) -> None:
        """Record that more is finished; what it speaks of must be on the disk already."""
        self.progress = replace(self.progress, **changes)
        content = json.dumps(asdict(self.progress)).encode()
        durable.replace_file(self.root / _PROGRESS, content, self.root / f"{_PROGRESS}.new")

    def wipe(self) -> None:
        """Remove everything that is in the folder but the lock."""
        for entry in self.root.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def staging_path(target: Path) -> Path:
    """Staging folder of a store."""
    return target.parent / f".ingest-{target.name}"


def resumed(root: Path, spec: str) -> Staging:
    """A locked folder with what is finished of an ingest; what another one left there is removed."""
    progress = _read(root / _PROGRESS)
    staging = Staging(root, progress if progress is not None and progress.spec == spec else IngestProgress(spec))
    if progress is not staging.progress:
        staging.wipe()
    return staging


def discard(target: Path) -> bool:
    """Remove what an unfinished ingest left; returns whether there was anything.

    Raises StoreError where an ingest works on it, or it cannot be removed.
    """
    root = staging_path(target)
    if not root.exists():
        return False
    with locked(target):
        remove(root)
    return True


def remove(root: Path) -> None:
    """Remove a staging folder; StoreError where that fails, because it holds raw records."""
    try:
        shutil.rmtree(root)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    else:
        return
    raise StoreError(
        f'"{root.name}" cannot be removed ({reason})', "It holds raw records", "Remove this folder by hand"
    )


@contextmanager
def locked(target: Path) -> Iterator[Path]:
    """The staging folder of a store, locked; StoreError where another ingest works in it, or it cannot be used."""
    root = staging_path(target)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        failure = durable.store_error(error, f'"{root.name}" cannot be used', "ingest.store")
    else:
        try:
            require_private(root)
            _lock(descriptor, root)
            yield root
        finally:
            os.close(descriptor)
        return
    raise failure


def _lock(descriptor: int, root: Path) -> None:
    failure = StoreError(
        "Another ingest writes this store",
        "One ingest at a time makes a store",
        "Wait until it has ended, or run again",
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one that held it may have removed the folder meanwhile; then this lock is of a file that is gone.
        if os.path.samestat(os.fstat(descriptor), os.stat(root / "lock")):
            return
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        failure = durable.store_error(error, f'"{root.name}" cannot be locked', "ingest.store")
    raise failure


def not_written(error: OSError) -> StoreError:
    """Error for a file system that refuses what is to be stored."""
    return durable.store_error(error, "the store cannot be written", "ingest.store")


def require_private(folder: Path) -> None:
    """Refuse a folder or a link that somebody else put there, which could show them raw records; StoreError."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise StoreError(f'"{folder.name}" is not a folder', "Raw records lie where nobody else can read", "Remove it")
    if state.st_uid != os.getuid():
        raise StoreError(
            f'"{folder.name}" is not a folder of this user, but of account number {state.st_uid}',
            "Raw records, and what was taken in, lie where nobody else can read",
            "Run as that account, and do not remove it: without it nobody knows what the store has taken in",
        )
    folder.chmod(0o700)


def _read(file: Path) -> IngestProgress | None:
    """What is finished; None where nothing is, or where the file is not one of ours."""
    try:
        return IngestProgress(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
