"""A site is sent to an object store, where it has no links to replace.

Pages keep their addresses, so that they can be bookmarked. A page of a release is of that release, and of its budget as
it stood when the page was made, so old and new pages may lie beside each other; the first page comes last. The manifest
is replaced only by who has read it: before a page is sent it no longer claims that page, so that after a kill, or
beside another sender, a page is sent again rather than believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import StoreUnreachable
from blockveil.pipeline.data import object_writes as writes
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.object_writes import StorePlace
from blockveil.pipeline.releases.destination import AT_ONCE
from blockveil.pipeline.report.release_site import INDEX
from blockveil.pipeline.report.site_folder import MANIFEST

if TYPE_CHECKING:
    from obstore import UpdateVersion

_PAGE = re.compile(r"(?:[\w-]+/){2,3}[\w-]+\.html", re.ASCII)

Pages = Mapping[str, Mapping[str, Any]]


class SiteDestination(StorePlace):
    """Place in an object store that a site is sent to; parameters as of :class:`.StorePlace`."""

    @property
    def first_page(self) -> str:
        """Address of the page that leads to all others."""
        return f"{self.address}/{INDEX}"

    def upload(self, site: Path) -> int:
        """Send the pages that are not there yet, and remove those that are no longer of the site.

        Returns
        -------
        How many pages were sent.

        Raises
        ------
        StoreError
            The store refuses. The first page that is there leads to whole pages at any time.
        """
        folder = site.resolve()
        pages: Pages = json.loads((folder / MANIFEST).read_bytes())
        read = self.ask(lambda: objects.content_of(self.place, MANIFEST))
        remote = _pages(None if read is None else read[0])
        changed = {name for name, page in pages.items() if remote.get(name, {}).get("sha256") != page["sha256"]}
        gone = [name for name in sorted(remote.keys() - pages.keys()) if _PAGE.fullmatch(name)]
        if read is not None and not changed and remote.keys() == pages.keys():
            return 0
        # Of pages that are about to change or go, the names stay and the digests do not.
        interim = {name: {} if name in changed or name in gone else page for name, page in remote.items()}
        state = self._claim(interim, None if read is None else read[1])
        self._send(folder, changed)
        self.ask(lambda: writes.remove(self.place, gone))
        self._claim(pages, state)
        return len(changed)

    def _send(self, folder: Path, names: set[str]) -> None:
        def send(name: str) -> None:
            self.ask(lambda: writes.put_over(self.place, name, folder / name))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(send, sorted(names - {INDEX})))
        for name in names & {INDEX}:
            send(name)

    def _claim(self, pages: Pages, state: UpdateVersion | None) -> UpdateVersion:
        text = canonical_json(pages) + b"\n"
        version = self.ask(lambda: writes.put_if_still(self.place, MANIFEST, text, state))
        if version is None:
            raise StoreUnreachable(
                "Somebody else has sent a site there meanwhile",
                "Of several senders one at a time replaces the pages",
                "Run again",
            )
        return version


def _pages(content: bytes | None) -> dict[str, dict[str, Any]]:
    """Pages of a manifest by their names; none where it cannot be read, so that each is sent again."""
    try:
        manifest = json.loads(content or b"")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(manifest, dict):
        return {}
    return {name: page for name, page in manifest.items() if isinstance(page, dict)}
