"""Metrics: public numbers of every nightly release for who has the token; an unreadable ledger shows as such."""

import socket
import stat
import urllib.error
import urllib.request
from datetime import UTC, date, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from blockveil.flows.service import metrics
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.end_to_end.served import free_port
from tests.flows.cli.test_cli import blockveil, refusal
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "UTC"
mode = "release"
missed_nights = "all"
"""


@pytest.fixture
def site(tmp_path):
    loaded = support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    return loaded


def scraped(text):
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def scrape(site):
    registry = CollectorRegistry()
    registry.register(metrics.Budgets(load_deployments(site.base)))
    return scraped(generate_latest(registry).decode())


def test_budgets_and_nights_are_told_and_nothing_of_the_records(site):
    before = scrape(site)
    assert before["blockveil_epsilon_spent"] == 0
    assert before["blockveil_releases"] == 0
    assert "blockveil_last_release_timestamp_seconds" not in before
    night = datetime.now(UTC).date()
    for day in (night, date.max):  # a date to come, mistyped or not, does not say that all is well until then
        run_release(make_plan(site, day), ThreadCompute(1), "test", lambda *_: None)
    after = scrape(site)
    assert after["blockveil_nights_left"] == before["blockveil_nights_left"] - 2
    assert after["blockveil_epsilon_granted"] == 3.0
    assert 0 < after["blockveil_epsilon_spent"] < 3.0
    status = Ledger(site.ledger_url).budget("people")
    assert after["blockveil_budget_spent_ratio"] == status.cap.used(status.spent) > 0
    assert after["blockveil_releases"] == 2
    assert after["blockveil_unfinished_nights"] == 0
    assert after["blockveil_last_release_timestamp_seconds"] == datetime(*night.timetuple()[:3], tzinfo=UTC).timestamp()
    assert after["blockveil_ledger_readable"] == 1
    assert not [value for value in after.values() if value in (400.0, support.CANARY)], "the number of rows is private"


def test_a_ledger_that_cannot_be_read_is_told_and_does_not_end_the_service(site):
    site.ledger_path.write_bytes(b"this is no ledger" * 100)
    assert scrape(site) == {"blockveil_ledger_readable": 0.0}


@pytest.fixture
def answering(site, monkeypatch, tmp_path):
    """Port of a running server of metrics, and the token that it wants."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    port, token = free_port(), metrics.token()
    server = metrics.start(load_deployments(site.base), "127.0.0.1", port, token)
    yield port, token
    server.close()


def ask(port, path="/metrics", method="GET", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def test_prometheus_is_answered_over_http_where_it_shows_the_token(answering):
    port, token = answering
    assert scraped(ask(port, Authorization=f"Bearer {token}"))["blockveil_epsilon_granted"] == 3.0


@pytest.mark.parametrize("path", ["/metrics", "/", "/favicon.ico", "/metrics?name[]=blockveil_nights_left"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE"])
def test_whoever_shows_no_token_or_another_one_sees_nothing(answering, path, method):
    port, token = answering
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"Basic {token}",
        token,
        "Bearer \xe9",
    ]
    for headers in ({}, *({"Authorization": text} for text in wrong)):
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            ask(port, path, method, **headers)
        assert b"blockveil" not in refused.value.read()


def test_bytes_that_are_no_text_are_refused_too(answering):
    port, _ = answering
    with socket.create_connection(("127.0.0.1", port), timeout=30) as asking:
        asking.sendall(b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert b" 401 " in asking.recv(1000)


def test_the_token_is_made_once_and_is_its_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    shown = blockveil("service", "metrics", "--show-token")
    assert shown.stdout == f"{metrics.token()}\n"
    assert len(metrics.token()) == 43
    file = tmp_path / "blockveil-metrics-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    assert "no token of this user alone" in refusal(blockveil("service", "metrics", "--show-token"), 7)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert "no token of this user alone" in refusal(blockveil("service", "metrics", "--show-token"), 7)
    file.unlink()
    file.write_text("short\n")
    file.chmod(0o600)
    assert "does not hold a token" in refusal(blockveil("service", "metrics", "--show-token"), 7)
