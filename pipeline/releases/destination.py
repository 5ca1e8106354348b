"""A place in an object store that published releases are sent to, where readers of other machines find them.

::

    <address>/<dataset>/<name>/.blockveil                   shows that the place can be written, and only created once
    <address>/<dataset>/<name>/<date>-<digest>.zarr/...     chunks, then metadata, the group's own last of all
    <address>/<dataset>/<name>/<date>.json                  the pointer that readers follow, created last

Only what is sealed in ``output.root`` is sent. Objects are created where there are none and never replaced, so a killed
upload goes on where it stopped, the same bits may be sent again, and other bits under the same name are refused. Nobody
who follows the pointer, or opens the group, sees a part. No clock decides anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.secrets import read_credentials
from blockveil.pipeline.data import object_writes as writes
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.object_writes import StorePlace
from blockveil.pipeline.data.pointers import POINTER, RELEASE_FOLDER, split_release_id
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.releases import publishing
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.publishing import Published, Staged

KEY = "output.upload"
AT_ONCE = 8
"""Objects that are sent at the same time."""

_MARK = ".blockveil"
_MARK_TEXT = b"Blockveil publishes releases here. An object is created once and never replaced.\n"
_METADATA = "zarr.json"
_SAFE = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|$))[\w .-]+(?:/[\w .-]+)*", re.ASCII)


class Destination(StorePlace):
    """Place in an object store that releases are sent to; parameters as of :class:`.StorePlace`."""

    def pointer_address(self, release_id: str) -> str:
        """Address of the pointer of a release, which readers open."""
        return f"{self.address}/{_pointer(release_id)}"

    def require(self, release_id: str) -> None:
        """Check, before anything is paid for, that objects can be created, and created only once.

        Raises
        ------
        StoreError
            They cannot: two runs could replace each other's releases.
        """
        mark = f"{_folder(release_id)}/{_MARK}"
        create = partial(writes.put_new, self.place, mark, _MARK_TEXT)
        if self.ask(create) and self.ask(create):
            raise StoreError(
                f"{KEY}: the store replaces an object that was to be created only where there is none",
                "Of several runs one must publish, and a published release never changes",
                "Use a store with conditional writes (If-None-Match)",
            )

    def pointer(self, release_id: str) -> dict[str, Any] | None:
        """Pointer that readers see, or None.

        Raises
        ------
        StoreError
            It is not one, or the store refuses.
        """
        blob = self.ask(lambda: objects.content_of(self.place, _pointer(release_id)))
        return None if blob is None else _parsed(blob[0], release_id)

    def pointers(self, dataset: str, name: str, but: Iterable[str] = ()) -> list[bytes]:
        """Contents of the pointers of all nights of a release, but for those of the names given."""
        exclusions = set(but)

        def read() -> list[bytes]:
            there, _ = objects.names_in(self.place, f"{dataset}/{name}")
            names = [each for each in there if POINTER.fullmatch(each) and each not in exclusions]
            blobs = [objects.content_of(self.place, f"{dataset}/{name}/{each}") for each in names]
            return [each[0] for each in blobs if each is not None]

        return self.ask(read)

    def names(self, dataset: str) -> list[str]:
        """Names under which releases of a data set were sent."""
        return self.ask(lambda: objects.names_in(self.place, dataset)[1])

    def send(self, published: Published, tell: Callable[[float], None] = lambda share: None) -> None:
        """Send a published release; what is there already with the same bits is not sent again.

        Parameters
        ----------
        published
            The release in ``output.root``.
        tell
            Receives the share of objects that are there.

        Raises
        ------
        StoreError
            Other bits are there under the same id, or the store refuses. Sending again goes on.
        """
        release_id = "/".join([*published.pointer.parts[-3:-1], published.pointer.stem])
        pointer = self.pointer(release_id)
        if pointer is not None and pointer.get("output_digest") != published.output_digest:
            raise _other(release_id)
        files = _files(published.path)
        base = f"{_folder(release_id)}/{published.path.name}"
        there = self._sizes(base)
        # A release whose pointer is there was whole; what somebody has removed since is sent again.
        if pointer is None or there != {name: file.stat().st_size for name, file in files.items()}:
            self._send_files(release_id, base, files, there, tell)
        if pointer is None:
            self._create(release_id, _pointer(release_id), published.pointer, there=False)

    def _send_files(
        self,
        release_id: str,
        base: str,
        files: Mapping[str, Path],
        there: Mapping[str, int],
        tell: Callable[[float], None],
    ) -> None:
        if not there.keys() <= files.keys():
            raise _other(release_id)  # an object more would be an array or a chunk more
        *inner, last = sorted(files, key=_rank)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for level in (0, 1):
                # An array can be opened once its metadata are there, so they come after all chunks.
                names = [name for name in inner if _rank(name)[0] == level]
                work = [
                    partial(self._create, release_id, f"{base}/{name}", files[name], name in there) for name in names
                ]
                for count, _ in enumerate(pool.map(lambda send: send(), work), start=1):
                    tell(count / len(names) if level == 0 else 1.0)
        sizes = self._sizes(base)
        if sizes | {last: 0} != {name: files[name].stat().st_size for name in inner} | {last: 0}:
            raise _other(release_id)
        self._create(release_id, f"{base}/{last}", files[last], last in there)

    def _create(self, release_id: str, path: str, file: Path, there: bool) -> None:
        def create() -> None:
            if there or not writes.put_new(self.place, path, file):
                writes.require_same(self.place, path, file, _other(release_id))

        self.ask(create)

    def _sizes(self, base: str) -> dict[str, int]:
        """Sizes of the objects below a folder, by their names in it."""
        return self.ask(lambda: {f.path.removeprefix(f"{base}/"): f.size for f in objects.listed(self.place, base)})

    def send_pages(self, release_id: str, pages: Iterable[Path]) -> None:
        """Put pages beside a release; they may change, and each is replaced at once."""
        for page in pages:
            self.ask(partial(writes.put_over, self.place, f"{_folder(release_id)}/{page.name}", page))

    def bring_back(self, root: Path, release_id: str) -> Published | None:
        """Put a release that was sent into ``output.root`` again, as after the loss of a disk; None where none was.

        Raises
        ------
        StoreError
            It is damaged, or cannot be read or written.
        """
        pointer = self.pointer(release_id)
        if pointer is None:
            return None
        folder = root / _folder(release_id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            area = staging.Held(folder, "returned")
        except OSError as error:
            failure = durable.store_error(error, f"release {release_id} cannot be brought back")
        else:
            try:
                self._fetch(f"{_folder(release_id)}/{pointer['path']}", area.path, release_id)
                return publishing.publish(root, release_id, Staged(area.path, str(pointer["output_digest"]), area))
            finally:
                area.discard()
        raise failure

    def _fetch(self, base: str, target: Path, release_id: str) -> None:
        import obstore

        def fetch() -> None:
            for blob in objects.listed(self.place, base):
                name = blob.path.removeprefix(f"{base}/")
                if not _SAFE.fullmatch(name):
                    raise _other(release_id)
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                with (target / name).open("wb") as file:
                    for part in obstore.get(self.place, blob.path):
                        file.write(part)
            durable.sync_tree(target)

        self.ask(fetch)

    def remove(self, release_id: str) -> None:
        """Remove a release and its pages, the pointer first, so that no reader meets half of one."""

        def clear() -> None:
            writes.remove(self.place, [_pointer(release_id)])
            self._clear(release_id, values=True)

        self.ask(clear)

    def withdraw(self, release_id: str, notice: bytes, *, values: bool) -> None:
        """Replace the pointer of a release by a notice of its withdrawal, and remove its pages.

        Parameters
        ----------
        release_id
            ``dataset/name/date``.
        notice
            What readers find in place of the pointer.
        values
            Whether its values are removed too.
        """

        def replace() -> None:
            if objects.content_of(self.place, _pointer(release_id)) is None:
                return  # it was never sent, or it was removed
            writes.put_over(self.place, _pointer(release_id), notice)
            self._clear(release_id, values=values)

        self.ask(replace)

    def _clear(self, release_id: str, *, values: bool) -> None:
        """Remove the pages of a release, and its values on request."""
        folder, night = _folder(release_id), split_release_id(release_id)[2]
        names, folders = objects.names_in(self.place, folder)
        if values:
            ours = [each for each in folders if RELEASE_FOLDER.fullmatch(each) and each.startswith(f"{night}-")]
            for each in ours:
                # The group's own metadata go first: who opens it then finds nothing.
                inner = [blob.path for blob in objects.listed(self.place, f"{folder}/{each}")]
                last_first = sorted(inner, key=lambda path: _rank(path.partition(".zarr/")[2]), reverse=True)
                writes.remove(self.place, last_first)
        writes.remove(self.place, [f"{folder}/{each}" for each in names if each.startswith(f"{night}-")])


def destination_of(loaded: LoadedConfig) -> Destination | None:
    """Where the releases of a config are sent, or None; ConfigError where its credentials cannot be read."""
    output = loaded.config.output
    if output.upload is None:
        return None
    return Destination(
        output.upload, read_credentials("output.upload_credentials", output.upload_credentials, loaded.base)
    )


def require_places(loaded: LoadedConfig, root: Path, release_id: str) -> None:
    """Check, before anything is paid for, that a release can be written, signed, and sent where it is to be.

    Parameters
    ----------
    loaded
        Config of the release.
    root, release_id
        As for :func:`.publishing.find_published`.

    Raises
    ------
    ConfigError
        As :meth:`.Signer.of`.
    StoreError
        As :func:`.publishing.require_place` and :meth:`Destination.require`.
    """
    publishing.require_place(root, release_id)
    Signer.of(loaded)
    place = destination_of(loaded)
    if place is not None:
        place.require(release_id)


def send(loaded: LoadedConfig, published: Published, tell: Tell) -> None:
    """Send a published release, where it is to be; raises as :meth:`Destination.send`.

    Parameters
    ----------
    loaded
        Config of the release.
    published
        The release in ``output.root``.
    tell
        Receives progress in the user's words.
    """
    place = destination_of(loaded)
    if place is not None:
        place.send(published, lambda share: tell("sending the release", share))


def find_published(loaded: LoadedConfig, root: Path, release_id: str, charge_id: str) -> Published | None:
    """Return a release if it is published in ``output.root`` or was sent, from where it is brought back.

    Parameters
    ----------
    loaded
        Config of the release.
    root, release_id, charge_id
        As for :func:`.publishing.find_published`.

    Raises
    ------
    StoreError
        The release is damaged, or was paid for by another charge, or the object store refuses.
    """
    place = destination_of(loaded)
    release = publishing.find_published(root, release_id, charge_id)
    if place is None:
        return release
    pointer = place.pointer(release_id)
    if pointer is None:
        return release
    if pointer.get("ledger", {}).get("charge_id") != charge_id:
        raise StoreError(
            f"release {release_id} was sent to {KEY}, but under another charge",
            "A published release never changes, and its ledger entry must be in this ledger",
            f"Check that {KEY} and output.ledger belong together",
        )
    return release or place.bring_back(root, release_id)


def _folder(release_id: str) -> str:
    return "/".join(split_release_id(release_id)[:2])


def _pointer(release_id: str) -> str:
    return f"{release_id}.json"


def _files(path: Path) -> dict[str, Path]:
    return {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}


def _rank(name: str) -> tuple[int, str]:
    """Order of sending: chunks, metadata of arrays, metadata of the group."""
    if name == _METADATA or name.endswith(f".zarr/{_METADATA}"):
        return 2, name
    return int(name.endswith(f"/{_METADATA}")), name


def _parsed(content: bytes, release_id: str) -> dict[str, Any]:
    try:
        pointer = json.loads(content)
    except ValueError:
        pointer = None
    whole = isinstance(pointer, dict) and RELEASE_FOLDER.fullmatch(str(pointer.get("path")))
    if isinstance(pointer, dict) and "withdrawn" in pointer:
        raise StoreError(
            f"release {release_id} was withdrawn from {KEY}",
            "A withdrawn release is not sent again",
            "Release under another date or name",
        )
    if whole and isinstance(pointer.get("output_digest"), str) and isinstance(pointer.get("ledger", {}), dict):
        return dict(pointer)
    raise _other(release_id)


def _other(release_id: str) -> StoreError:
    return StoreError(
        f"release {release_id} was sent to {KEY} already, with other bits",
        "A published release never changes",
        f"Check that {KEY}, output.root and output.ledger belong together, or release under another name",
    )
