"""Run events go where the config says, and nothing that goes wrong there reaches the release."""

import contextlib
import json
import logging
import threading
import time
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from jsonschema import Draft202012Validator

from blockveil.pipeline.base.errors import ComputeError, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import lineage
from blockveil.pipeline.releases.charged_steps import abandon, reserve
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.ledger.test_transfer import RUN_EVENT

NIGHT = date(2026, 11, 20)


@pytest.fixture
def loaded(tmp_path):
    return support.prepare(tmp_path)


def telling(loaded, place, key=None):
    """The same config with a place for events."""
    text = loaded.path.read_text().replace("[output]", f'[output]\nlineage = "{place}"')
    loaded.path.write_text(text if key is None else text.replace("[output]", f'[output]\nlineage_key = "{key}"'))
    return load_config(loaded.path)


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


class Catalogue:
    """An endpoint on this machine that keeps what it is sent."""

    def __init__(self, answer=lambda handler: handler.send_response(201)):
        self.requests = requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                requests.append((self.path, self.headers.get("Authorization"), json.loads(body)))
                with contextlib.suppress(OSError):  # whoever asked may be gone
                    answer(self)
                    self.end_headers()

            def log_message(self, *_):
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/api/v1/lineage"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def test_a_release_adds_its_events_to_the_file(loaded):
    loaded = telling(loaded, "events.jsonl")
    outcome = run(loaded)
    events = [json.loads(line) for line in (loaded.base / "events.jsonl").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    for event in events:
        Draft202012Validator(RUN_EVENT).validate(event)
        assert event["run"]["runId"].replace("-", "") == outcome.charge_id
        assert event["run"]["facets"]["blockveil_privacy"]["delta"] == 1e-5
        # Nothing else is told: no number of records, fingerprint, digest, path or key.
        assert set(event) == {"eventType", "eventTime", "producer", "schemaURL", "run", "job", "inputs", "outputs"}
        told = set(event["run"]["facets"]["blockveil_privacy"]) - {"_producer", "_schemaURL"}
        assert told == {"ledgerEntry", "ledgerHash", "epsilon", "delta", "neighbours", "privacyUnit"}
    run(loaded)  # the same night again: a catalogue takes an event twice as once
    assert len((loaded.base / "events.jsonl").read_text().splitlines()) == 4


def test_a_charge_that_is_given_back_is_told_as_aborted(loaded):
    plan, books = support.opened(make_plan(telling(loaded, "events.jsonl"), NIGHT))
    reservation = reserve(plan, books, "test")
    abandon(books, reservation, ComputeError.__name__)
    events = [json.loads(line) for line in (loaded.base / "events.jsonl").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "ABORT"]


def test_an_endpoint_gets_each_event_with_its_key(loaded, monkeypatch):
    with Catalogue() as catalogue:
        monkeypatch.setenv("LINEAGE", catalogue.address)
        monkeypatch.setenv("LINEAGE_KEY", "let me in")
        run(telling(loaded, "env:LINEAGE", "env:LINEAGE_KEY"))
    assert [(path, key) for path, key, _ in catalogue.requests] == [("/api/v1/lineage", "Bearer let me in")] * 2
    for _, _, event in catalogue.requests:
        Draft202012Validator(RUN_EVENT).validate(event)


def hang(handler):
    """Send a byte now and then, so that no timeout of a socket passes."""
    with contextlib.suppress(OSError):
        for _ in range(50):
            handler.wfile.write(b"H")
            time.sleep(0.1)


def elsewhere(handler):
    """Send who asks to another place."""
    handler.send_response(302)
    handler.send_header("Location", "http://127.0.0.1:9/secret-place")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda handler: handler.send_response(500), "HTTP 500"),
        (elsewhere, "HTTP 302"),
        (hang, "no answer within 1 seconds"),
    ],
    ids=["error", "redirect", "hang"],
)
def test_an_endpoint_that_fails_does_not_fail_the_release(loaded, monkeypatch, caplog, answer, said):
    monkeypatch.setattr(lineage, "WAIT_SECONDS", 1.0)
    with Catalogue(answer) as catalogue, caplog.at_level(logging.WARNING):
        monkeypatch.setenv("LINEAGE", f"{catalogue.address}?token=hidden")
        outcome = run(telling(loaded, "env:LINEAGE"))
    assert said in caplog.text
    assert "hidden" not in caplog.text
    assert Ledger(loaded.ledger_url).find(outcome.release_id).state == "RELEASED"


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:9/hidden", "http://example.org/hidden", "file:///etc/hidden", "", "no address: hidden"],
)
def test_an_address_that_is_of_no_use_does_not_fail_the_release(loaded, monkeypatch, caplog, address):
    monkeypatch.setenv("LINEAGE", address)
    outcome = run(telling(loaded, "env:LINEAGE"))
    assert "were not delivered" in caplog.text
    assert "hidden" not in caplog.text
    assert Ledger(loaded.ledger_url).find(outcome.release_id).state == "RELEASED"


@pytest.mark.parametrize("content", ["not events", '{"zarr_format": 3}'])
def test_events_are_never_added_to_another_file(loaded, caplog, content):
    (loaded.base / "notes.txt").write_text(content)
    outcome = run(telling(loaded, "notes.txt"))
    assert "holds something else than events" in caplog.text
    assert (loaded.base / "notes.txt").read_text() == content
    assert Ledger(loaded.ledger_url).find(outcome.release_id).state == "RELEASED"


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_config_that_names_the_ledger_for_events_is_refused(loaded, ending):
    (loaded.base / "link").symlink_to(f"{loaded.ledger_path}{ending}")
    with pytest.raises(ConfigError, match=r"output\.lineage names the ledger"):
        telling(loaded, "link")


def test_a_line_that_was_cut_off_does_not_spoil_the_next(loaded):
    (loaded.base / "events.jsonl").write_text('{"eventTi')
    run(telling(loaded, "events.jsonl"))
    assert [json.loads(line)["eventType"] for line in (loaded.base / "events.jsonl").read_text().splitlines()[1:]] == [
        "START",
        "COMPLETE",
    ]


def test_an_address_in_clear_is_refused(loaded):
    with pytest.raises(ConfigError, match="in clear") as caught:
        telling(loaded, "https://user:hidden@example.org")
    assert "hidden" not in str(caught.value)
