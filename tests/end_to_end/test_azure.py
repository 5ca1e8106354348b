"""Releases and a site in Azure's blob storage, as its emulator (``npm install azurite``) has it where there is one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from datetime import UTC, datetime

import pytest

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.releases.destination import Destination
from blockveil.pipeline.report.site_upload import SiteDestination
from tests.pipeline.releases.test_uploading import RELEASE, local, names
from tests.pipeline.report.test_site_upload import site

EMULATOR = shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every emulator has, and its key, which the emulator's page states."""

NEEDED = "BLOCKVEIL_REQUIRE_AZURITE" in os.environ
pytestmark = [pytest.mark.slow, pytest.mark.skipif(EMULATOR is None and not NEEDED, reason="azurite is not installed")]


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Address of a container of an emulator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(EMULATOR), "--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobPort", str(port)]
    with subprocess.Popen([*words, "--location", str(tmp_path / "azurite")]) as running:
        place = f"http://127.0.0.1:{port}/{ACCOUNT}"
        settings = {"STORAGE_ACCOUNT_NAME": ACCOUNT, "STORAGE_ACCOUNT_KEY": KEY, "STORAGE_USE_EMULATOR": "true"}
        for name, value in {**settings, "ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(f"AZURE_{name}", value)
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
        while not listens(port):
            time.sleep(0.1)
        make_container(place, "releases")
        yield "az://releases/out"
        running.terminate()


def listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def make_container(place, name):
    """Sign and send the one request that the product never makes."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
    signed = "\n".join(f"{key}:{value}" for key, value in headers.items())
    text = f"PUT{12 * chr(10)}{signed}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    code = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{code}", "Content-Length": "0"}
    request = urllib.request.Request(f"{place}/{name}?restype=container", method="PUT", headers=headers)
    urllib.request.urlopen(request).close()


def test_what_holds_in_s3_holds_in_azure(tmp_path, container):
    published, place = local(tmp_path / "one"), Destination(container)
    place.require(RELEASE)
    place.require(RELEASE)
    for _ in range(2):
        place.send(published)
    with pytest.raises(StoreError, match="with other bits"):
        place.send(local(tmp_path / "two", 1.0))
    opened = open_release(f"{container}/{RELEASE}.json")
    assert opened.attributes["output_digest"] == published.output_digest
    again = place.bring_back(tmp_path / "three", RELEASE)
    assert again is not None
    assert again.output_digest == published.output_digest
    place.remove(RELEASE)
    assert names(container) == ["people/moments/.blockveil"]
    place.send(published)
    found = {each.path: each for each in objects.listed(place.place)}
    assert all(objects.looked_up(place.place, path) == each for path, each in found.items())
    place.remove(RELEASE)
    pages = SiteDestination(f"{container}/site")
    assert [pages.upload(site(tmp_path, nights)) for nights in ([20, 21], [20, 21], [21])] == [4, 0, 2]
