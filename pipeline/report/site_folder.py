"""The folder of a site: whoever reads it sees the old pages or the new ones, never some of both.

::

    <output> -> .<output>-<digest>      a link to the pages, replaced at once
    .<output>-<digest>/                 pages, named after their content: the same pages again change nothing
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.permissions import open_as
from blockveil.pipeline.report.markup import refilled
from blockveil.pipeline.report.report_sections import ReportSection

MANIFEST = "pages.json"
"""File that says of each page what it is of, so that the next site need not make it again."""

_PLACE = "the folder of the site"


class SiteDraft:
    """Pages that nobody sees yet."""

    def __init__(self, folder: Path, before: Path | None) -> None:
        self.folder, self._before = folder, before
        self._known = _manifest(before)
        self.manifest: dict[str, dict[str, Any]] = {}

    def again(self, name: str, of: list[str], places: Sequence[ReportSection]) -> str | None:
        """Take a page of the present site that is of the same content; what it says in one sentence, or None.

        Parameters
        ----------
        name
            Path of the page in the site.
        of
            What it is made of: digests of releases and of the code.
        places
            Sections of it that may have changed meanwhile.
        """
        entry = self._known.get(name)
        if self._before is None or not isinstance(entry, dict) or entry.get("of") != of:
            return None
        try:
            content = (self._before / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != entry.get("sha256"):
            return None
        summary = str(entry.get("said"))
        self.write(name, refilled(content.decode(), places).encode(), of, summary)
        return summary

    def write(self, name: str, content: bytes, of: list[str], summary: str) -> None:
        """Write a page, and keep what it is of and what it says in one sentence."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.manifest[name] = {"of": of, "said": summary, "sha256": hashlib.sha256(content).hexdigest()}

    def digest(self) -> str:
        """Write the manifest; SHA-256 of all pages, first digits."""
        text = canonical_json(self.manifest)
        (self.folder / MANIFEST).write_bytes(text + b"\n")
        return hashlib.sha256(text).hexdigest()[:16]


def _manifest(site: Path | None) -> dict[str, Any]:
    if site is None:
        return {}
    try:
        manifest = json.loads((site / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}  # then each page is made again
    return manifest if isinstance(manifest, dict) else {}


@contextmanager
def replacing(output: Path) -> Iterator[SiteDraft]:
    """Write pages where nobody looks, and show all of them at the end; after a failure the old site stays.

    Raises StoreError where there is something else at the place, or the file system refuses.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        lock = output.with_name(f".{output.name}.lock")
        descriptor = staging.claim(lock)  # one at a time: each removes what the one before has shown
        try:
            yield from _replacing(output)
        finally:
            staging.remove(lock)
            os.close(descriptor)
    except OSError as error:
        failure = durable.store_error(error, "The site cannot be written", _PLACE)
    else:
        return
    raise failure


def _replacing(output: Path) -> Iterator[SiteDraft]:
    before = _present(output)
    staging.sweep(output.parent)
    scratch = staging.Held(output.parent, "site")
    try:
        draft = SiteDraft(scratch.path, before)
        yield draft
        target = output.with_name(f".{output.name}-{draft.digest()}")
        if not _is_whole(target, draft.manifest):
            durable.sync_tree(scratch.path)
            open_as(scratch.path, output.parent)
            if target.exists():  # somebody has changed it
                target.rename(staging.scratch_path(output.parent, "site"))
            scratch.path.rename(target)
        _point(output, target)
    finally:
        scratch.discard()
    staging.sweep(output.parent)
    for old in output.parent.glob(f".{output.name}-*"):
        if _is_ours(output, old.name) and old != target:
            staging.remove(old)


def _is_whole(folder: Path, manifest: dict[str, dict[str, Any]]) -> bool:
    """Whether a folder of this account holds the pages of a manifest as they were written."""
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False  # whoever owns it could change the pages afterwards
        digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in manifest}
    except OSError:
        return False
    return digests == {name: page["sha256"] for name, page in manifest.items()} and _manifest(folder) == manifest


def _point(output: Path, target: Path) -> None:
    scratch = staging.scratch_path(output.parent, "site")
    scratch.symlink_to(target.name)
    try:
        scratch.replace(output)
    except OSError:
        with suppress(OSError):
            scratch.unlink()
        raise
    durable.sync(output.parent)


def _present(output: Path) -> Path | None:
    """Folder of the present site; None where there is none."""
    if output.is_symlink() and _is_ours(output, os.readlink(output)):
        return output.with_name(os.readlink(output))
    if not output.is_symlink() and (not output.exists() or (output.is_dir() and not any(output.iterdir()))):
        if output.is_dir():
            output.rmdir()  # an empty folder that somebody has made for it
        return None
    raise StoreError(
        f'"{output.name}" is there and is no site that was made here',
        "A site is shown at once, so that its place is replaced as a whole",
        "Name a place where nothing is, or move away what is there",
    )


def _is_ours(output: Path, name: str) -> bool:
    return re.fullmatch(rf"\.{re.escape(output.name)}-[0-9a-f]{{16}}", name) is not None
