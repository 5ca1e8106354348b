"""The site of releases beside the server: who is let in, what is there, and when its pages are made."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from base64 import b64encode

import pytest

from blockveil.flows.runs.artifacts import SITE
from blockveil.flows.service import service, site_service
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import Deployments, LoadedDeployments
from blockveil.pipeline.data import objects
from tests.end_to_end.served import free_port
from tests.house import support
from tests.pipeline.data.test_objects import SECRET
from tests.pipeline.releases import test_uploading as sending
from tests.pipeline.report.test_site_upload import same_as, text

bucket, door = sending.bucket, sending.door
LOGIN = "blockveil:the secret: of ümlauts"


def nothing_scheduled(root, **site):
    """Deployments of no night, whose site is perhaps sent somewhere."""
    return LoadedDeployments(Deployments(site=site or None), root, {})


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
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
            connection.request(method, path, headers=headers)
            found = connection.getresponse()
            return found.status, found.headers, found.read().decode()

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


def test_a_websocket_is_asked_for_the_login_like_everything_and_costs_no_line(asking, capfd):
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert asking("/", login=None, **wanted, **{"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="})[0] == 401
    assert capfd.readouterr() == ("", "")


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
    assert (status, headers["Retry-After"], headers["Refresh"]) == (503, "5", "5")
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
        site_service.shown(nothing_scheduled(tmp_path), tmp_path, ("127.0.0.1", port), LOGIN, told.append),
    ):
        assert SITE not in os.environ, "no page of a run links to somebody else's server"
    assert "--site-port" in told[0]


def test_runs_are_told_where_the_site_is_while_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv(SITE, "")
    monkeypatch.delenv(SITE)
    support.prepare(tmp_path)
    told, port, threads = [], free_port(), threading.active_count()
    with site_service.shown(nothing_scheduled(tmp_path), tmp_path, ("127.0.0.1", port), LOGIN, told.append):
        assert os.environ[SITE] == f"http://127.0.0.1:{port}/"
    assert LOGIN not in told[0]
    assert threading.active_count() == threads


def until(true, seconds=600):
    """Wait for what another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def sent(tmp_path, bucket, door, monkeypatch):
    """Deployments whose site is sent with credentials that only a file holds, and the home they are served from."""
    own = {name.lower(): os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    for name in own:
        monkeypatch.delenv(name.upper())
    client = objects.client  # of what the tests read back
    monkeypatch.setattr(objects, "client", lambda address, credentials=None: client(address, credentials or own))
    configs, home = tmp_path / "configs", tmp_path / "home"
    configs.mkdir()
    home.mkdir()
    support.write_private(
        configs / "site.secret",
        f'aws_access_key_id = "me"\naws_secret_access_key = "{SECRET}"\naws_region = "us-east-1"\n'
        f'aws_endpoint = "{door.address}"\n',
    )
    monkeypatch.setattr(site_service, "LOOK_SECONDS", 0.1)
    loaded = support.prepare(configs)
    place = {"upload": f"{bucket}/pages", "upload_credentials": "file:site.secret"}
    return loaded, nothing_scheduled(configs, **place), home


def test_a_site_is_sent_without_being_asked_for_and_again_after_a_change(sent, bucket):
    config, loaded, home = sent
    told, address = [], f"{bucket}/pages"
    with site_service.made(loaded, home, told.append) as maker:
        until(lambda: maker._made is not None)
        same_as(address, home / site_service.FOLDER)
        before = text(address, "index.html")
        support.set_budget(config, 5.0)
        until(lambda: "pages.json" in sending.names(address) and text(address, "index.html") != before)
    assert address in told[0]
    assert SECRET not in told[0]


@pytest.mark.slow  # it waits until the client gives up
def test_a_site_that_a_store_refuses_is_sent_once_it_does_not(sent, bucket, door, caplog):
    _, loaded, home = sent
    door.fault = lambda method, path, number: "denied"
    with site_service.made(loaded, home, lambda line: None) as maker:
        until(lambda: maker._failed)
        assert maker._made is None
        assert (home / site_service.FOLDER / "index.html").exists(), "readers of the service have it"
        door.reset()
        until(lambda: maker._made is not None)
    same_as(f"{bucket}/pages", home / site_service.FOLDER)
    assert caplog.text.count("not made or sent") == 1


def test_a_site_is_sent_although_its_port_is_taken(sent, bucket):
    _, loaded, home = sent
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)),
        site_service.shown(loaded, home, ("127.0.0.1", port), LOGIN, lambda line: None),
    ):
        until(lambda: "index.html" in sending.names(f"{bucket}/pages"))


def test_a_service_does_not_begin_without_the_credentials_of_its_site(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    loaded = nothing_scheduled(tmp_path, upload="s3://bucket/site", upload_credentials="file:absent")
    with pytest.raises(ConfigError, match=r"site\.upload_credentials"):
        service.serve(loaded, "127.0.0.1", free_port(), lambda line: None)
