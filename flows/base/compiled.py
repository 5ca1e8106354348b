"""Machine code for the inner loops of a large release, where the extra ``fast`` is installed.

What was compiled is kept on disk for other processes and nights. Loading it runs it, so whoever may write to its
folder could run code as this user: a folder is used only if it is this user's alone (mode 0700), and nobody but this
user and root may rename anything on the way to it. Where there is none, as in a read-only home, each process compiles
in memory, in some seconds. Whatever fails here leaves the work to NumPy, which gives the same bits.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from blockveil.engine.answers import compiled_halves
from blockveil.engine.noise import compiled_levels
from blockveil.engine.records import one_pass
from blockveil.pipeline.base.extras import is_installed

WORTH_VALUES = 2**29
"""Values of records for which compiled code saves more seconds than it takes to load."""

WORTH_ENTRIES = 2**26
"""Entries of an answer for which it does, as they get their noise."""

_PACKAGE = "numba"
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Compiled:
    """What is compiled in this process; None where NumPy does the work.

    Attributes
    ----------
    records
        Records to integers.
    noise
        Random words to Gaussian noise.
    halves
        Integers of 16 bits to halves, and products of halves to sums.
    """

    records: one_pass.Kernels | None = None
    noise: compiled_levels.Kernel | None = None
    halves: compiled_halves.HalfKernels | None = None


_lock = Lock()
_tried: list[Compiled] = []


def prepare() -> Compiled:
    """Compile or load the kernels once in this process, and let the engine use them."""
    with _lock:
        if not _tried:
            _tried.append(_prepare())
        return _tried[0]


def _prepare() -> Compiled:
    if not is_installed(_PACKAGE):
        return Compiled()
    place = folder()
    compiled = Compiled(*(_made(part.compiled_by, place) for part in (one_pass, compiled_levels, compiled_halves)))
    one_pass.use(compiled.records)
    compiled_levels.use(compiled.noise)
    compiled_halves.use(compiled.halves)
    return compiled


def _made(compiled_by: Callable[[_Compiler], _Made], place: Path | None) -> _Made | None:
    """What was compared with NumPy, kept in a folder or made in memory; None where neither works."""
    for where in [None] if place is None else [place, None]:
        try:
            return compiled_by(_Compiler(where))
        except Exception as error:  # noqa: BLE001 - a library's own failure; the other path is always there
            kind = type(error).__name__
            logging.getLogger(__name__).warning("compiled code is not used from %s (%s)", where or "memory", kind)
    return None


class _Compiler:
    """Compiles functions, and keeps what it made in a folder; in memory alone without one."""

    def __init__(self, place: Path | None) -> None:
        self._place = place

    def __call__(self, function: Callable[..., bool]) -> one_pass.Kernel:
        import numba
        from numba.core import config

        _forget_the_folder(config)
        if config.DISABLE_JIT:
            raise RuntimeError("compiling is switched off")
        compiled: Any = numba.njit(nogil=True)(function)
        if self._place is not None:
            before, config.CACHE_DIR = config.CACHE_DIR, str(self._place)
            try:
                compiled.enable_caching()  # reads the setting once
            finally:
                config.CACHE_DIR = before
        return compiled


def _forget_the_folder(config: Any) -> None:
    """Have the compiler obey its environment alone: it reads settings in a file of whatever folder this was called in.

    Whoever may write there could name a class to import, or instructions that this processor lacks. What it has read
    while it was imported is put back before it compiles anything.
    """
    if not hasattr(config, "_config_fname"):
        raise RuntimeError("it is not known which file the compiler reads its settings in")
    config._config_fname = os.devnull
    config.reload_config()


def folder() -> Path | None:
    """Folder of this user's alone for what is compiled from these sources by this compiler; None where none is safe."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        top = Path(os.path.realpath(base if os.path.isabs(base) else Path.home() / ".cache")) / "blockveil"
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = top / f"compiled-{_sources()}"
        place.mkdir(mode=0o700, exist_ok=True)
        problem = _problem(place)
    except (OSError, RuntimeError, ImportError) as error:  # no home, no room, or no version of the compiler
        problem = type(error).__name__
    if problem is None:
        return place
    logging.getLogger(__name__).warning("compiled code is not kept on disk: %s", problem)
    return None


def _sources() -> str:
    """Digest of what decides the machine code: sources, with the constants that they take over, and compiler."""
    digest = hashlib.sha256(version(_PACKAGE).encode())
    for module in (one_pass.__file__, compiled_levels.__file__, compiled_halves.__file__):
        for file in sorted(Path(module).parent.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _problem(place: Path) -> str | None:
    """Why somebody else could put code into a folder, which is no link; None where nobody can."""
    own = os.geteuid()
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != own or stat.S_IMODE(status.st_mode) != 0o700:
        return "its folder is not this user's alone (mode 0700)"
    for above in place.parents:
        state = above.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid not in (0, own):
            return "another account owns a folder above it"
        # In a sticky folder nobody renames what belongs to somebody else.
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not state.st_mode & stat.S_ISVTX:
            return "other accounts may write to a folder above it"
    for inner in place.rglob("*"):
        if inner.is_symlink() or inner.lstat().st_uid != own:
            return "it holds a link or a file of another account"
    return None
