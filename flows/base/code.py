"""Which code this is: the version and a digest of the sources, so that a deployment runs what was reviewed."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from blockveil.pipeline.base.errors import BlockveilError

_PACKAGES = ("engine", "flows", "pipeline")


class WrongVersion(BlockveilError):
    """A worker has other code than the deployment was made with."""

    exit_code: ClassVar[int] = 2


def installed() -> str:
    """Version of the installed package and the first digits of a digest of its sources, such as ``1.0.0+3f2a...``."""
    top = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in sorted((top / package).rglob("*.py")):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(top).as_posix()}\0{len(content)}\0".encode() + content)
    return f"{version('blockveil')}+{digest.hexdigest()[:12]}"


@cache
def running() -> str:
    """:func:`installed`, as it was when this process first asked."""
    return installed()


def check(pinned: str | None) -> None:
    """Refuse to run under a deployment that was made with other code.

    Raises
    ------
    WrongVersion
        It is another one than runs here.
    """
    if pinned != running():
        raise WrongVersion(
            f"This worker runs Blockveil {running()} and the deployment is pinned to {pinned or 'nothing'}",
            "A deployment runs the code that it was made with",
            "Install the pinned version here, or review the new one and run `blockveil service deploy` (or restart "
            "`blockveil serve`) with it",
        )
