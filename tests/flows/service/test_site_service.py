"""The site of releases beside the server: who is let in, what is there, and when its pages are made."""

import http.client
import json
import os
import socket
import threading
from base64 import b64encode

import pytest

from blockveil.flows.runs.artifacts import SITE
from blockveil.flows.service import site_service
from tests import support
from tests.end_to_end.served import free_port

LOGIN = "blockveil:the secret: of ümlauts"


@pytest.fixture
def folder(tmp_path):
    """A site of two pages, beside something private."""
    (tmp_path / "private.html").write_text("private")
    made = tmp_path / ".site-0123456789abcdef"
    (made / "people" / "covariance").mkdir(parents=True)
    (made / "index.html").write_text("first page")
    (made / "people" / "covariance" / "2026-11-20.html").write_text("a night")
    (made / "stray.html").write_text("not in the manifest")
    names = ("index.html", "people/covariance/2026-11-20.html")
    (made / "pages.json").write_text(json.dumps({name: {} for name in names}))
    (tmp_path / "site").symlink_to(made.name)
    return tmp_path / "site"


@pytest.fixture
def asking(folder):
    """Ask a running server; each answer is status, headers and body. And how often pages were wanted to be fresh."""
    calls = []
    server = site_service.listen(
        site_service.guarded_pages(folder, LOGIN, lambda: calls.append(1)), "127.0.0.1", free_port()
    )

    def ask(path, method="GET", login=LOGIN, **headers):
        if login is not None:
            headers["Authorization"] = "Basic " + b64encode(login.encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", server.server.server_port, timeout=60)
        connection.request(method, path, headers=headers)
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read().decode()

    ask.calls = calls
    yield ask
    server.close()


@pytest.mark.parametrize("login", [None, "", ":", "blockveil:", "blockveil:guessed", LOGIN + "x", LOGIN[:-1], "ü:ü"])
@pytest.mark.parametrize("path", ["/", "/people/covariance/2026-11-20.html", "/absent", "/../private.html"])
def test_nobody_is_told_anything_without_the_login(asking, path, login):
    status, headers, text = asking(path, login=login)
    assert (status, text) == (401, "Unauthorized\n")
    assert headers["WWW-Authenticate"].startswith("Basic ")
    assert asking.calls == []


def test_whoever_has_it_reads_the_pages_which_no_other_page_may_frame_or_keep(asking):
    status, headers, text = asking("/")
    assert (status, text) == (200, "first page")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert asking("/people/covariance/2026-11-20.html")[2] == "a night"
    assert asking("/", "HEAD")[2] == ""


@pytest.mark.parametrize(
    "path",
    [
        "/stray.html", "/pages.json", "/../private.html", "/people/../../private.html", "/%2e%2e/private.html",
        "//private.html", "/people", "/people/covariance/", "/index.html%00", "/index.html/", "/INDEX.HTML",
        "/people\\covariance", "/" + "a/" * 5 + "b.html", "/%E2%80%AE.html", "/index.html.bak",
    ],
)  # fmt: skip
def test_what_the_site_does_not_name_is_not_there(asking, path):
    assert asking(path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_done_but_reading(asking, method):
    assert asking("/", method)[0] == 405


def test_a_first_page_that_is_still_being_made_says_so(asking, folder):
    folder.unlink()
    status, headers, _ = asking("/")
    assert (status, headers["Retry-After"]) == (503, "30")
    assert asking.calls == [1]


def test_pages_are_made_when_they_are_asked_for_and_something_has_changed(tmp_path, monkeypatch):
    configs, home, made = tmp_path / "configs", tmp_path / "home", []
    configs.mkdir()
    home.mkdir()
    loaded = support.prepare(configs)

    def make(self, stamp):
        made.append(stamp)
        (home / site_service.FOLDER).mkdir(exist_ok=True)
        self._made = stamp

    monkeypatch.setattr(site_service.SiteMaker, "_make", make)
    maker = site_service.SiteMaker(configs, home)
    for _ in range(2):
        maker.refresh()
    assert len(made) == 1
    support.set_budget(loaded, 5.0)
    maker.refresh()
    assert len(made) == 2
    maker.close()


def test_pages_are_made_by_a_process_that_gets_no_login(tmp_path, monkeypatch):
    configs, home = tmp_path / "configs", tmp_path / "home"
    configs.mkdir()
    home.mkdir()
    support.prepare(configs)
    seen = {}

    class Process:
        returncode = 1

        def __init__(self, words, env, **options):
            seen.update(env=env, words=words)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def poll(self):
            return self.returncode

    monkeypatch.setenv("PREFECT_API_AUTH_STRING", LOGIN)
    monkeypatch.setattr(site_service.subprocess, "Popen", Process)
    maker = site_service.SiteMaker(configs, home)
    maker.refresh()
    maker.close()
    assert not [value for value in (*seen["env"].values(), *seen["words"]) if LOGIN in value]
    assert maker._made is None, "what failed is tried again"


def test_a_taken_port_is_said_and_stops_no_service(tmp_path):
    support.prepare(tmp_path)
    told, port = [], free_port()
    with (
        socket.create_server(("127.0.0.1", port)),
        site_service.shown(tmp_path, tmp_path, ("127.0.0.1", port), LOGIN, told.append),
    ):
        assert SITE not in os.environ, "no page of a run links to somebody else's server"
    assert "--site-port" in told[0]


def test_runs_are_told_where_the_site_is_while_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv(SITE, "")
    monkeypatch.delenv(SITE)
    support.prepare(tmp_path)
    told, port, threads = [], free_port(), threading.active_count()
    with site_service.shown(tmp_path, tmp_path, ("127.0.0.1", port), LOGIN, told.append):
        assert os.environ[SITE] == f"http://127.0.0.1:{port}/"
    assert LOGIN not in told[0]
    assert threading.active_count() == threads
