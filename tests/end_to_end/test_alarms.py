"""Alarms on a real server: what fails is told through a block, an exhausted budget pauses its night."""

import json
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger import Ledger
from tests import certificates, mail_server, support
from tests.end_to_end.served import COMMAND, deploy, serve, server_alone, spoken_to

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed = "latest"

[[verify]]
config = "people"
cron = "0 6 * * *"
timezone = "Europe/Berlin"
"""


def make_blocks(served, url, port, authority):
    from prefect.blocks.webhook import Webhook

    from blockveil.flows.service.mail import Mail

    with spoken_to(served.url, served.login):
        Webhook(url=url).save("on-call")
        Mail(
            host="localhost", port=port, authority=authority, user="blockveil",
            password="a password of the mail server", sender="blockveil@example.org", recipients=["ada@example.org"],
        ).save("on-call")  # fmt: skip


@pytest.fixture
def heard():
    """Address that listens for messages, and what it heard."""
    messages = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self):
            messages.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", messages
        server.shutdown()
        thread.join()


@pytest.fixture
def mail(tmp_path):
    """A mail server: its port, its authority and what it was sent."""
    tls = certificates.make(tmp_path / "tls")
    with mail_server.running(tls, {("blockveil", "a password of the mail server")}) as (port, messages):
        yield str(port), str(tls / "authority.pem"), messages


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_failures_are_told_by_webhook_and_mail_an_exhausted_budget_pauses_its_night_and_a_damaged_ledger_all_of_them(
    tmp_path, heard, mail
):
    address, messages = heard
    port, authority, mails = mail

    def written():
        return [message.get_content() for _, _, message in mails]

    loaded = support.prepare(tmp_path, budget=1.1)
    file, home = tmp_path / "deployments.toml", tmp_path / "home"
    file.write_text(NIGHT)
    with server_alone(home) as served:
        make_blocks(served, address, port, authority)
        deploy(tmp_path, served.url, served.login)
        assert len(served.ask("/automations/filter", {})) == 2
        file.write_text(NIGHT + '[alerts]\nnotify = ["webhook/nobody"]\n')
        with pytest.raises(ConfigError, match='no block "webhook/nobody"'):
            deploy(tmp_path, served.url, served.login)

    file.write_text(NIGHT + '[alerts]\nnotify = ["webhook/on-call", "mail/on-call"]\nbudget_low_nights = 3\n')
    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        made = served.ask("/automations/filter", {})
        names = [each["name"] for each in made]
        assert len(names) == len(set(names)) == 8, "made again, not twice"
        of_exhausted = [
            each["name"] for each in made if "prefect.flow-run.BudgetExhausted" in each["trigger"]["expect"]
        ]
        assert "blockveil: budget exhausted" in of_exhausted
        assert "blockveil: failed" not in of_exhausted, "one alarm tells of it"

        night = {"release": "people", "mode": "release"}
        assert served.state(served.run("release/people", **night))["type"] == "COMPLETED"
        served.wait(lambda: any("more nights like" in text for text in messages), f"budget low: {messages}")

        refused = served.run("release/people", **night, logical_date="2026-11-19")
        assert served.state(refused)["name"] == "BudgetExhausted"
        served.wait(lambda: any("BudgetExhausted" in text for text in messages), f"budget exhausted: {messages}")
        served.wait(lambda: served.ask("/deployments/name/release/people")["paused"], "the night was not paused")
        served.post(f"/deployments/{served.deployment('release/people')}/resume_deployment")

        assert served.state(served.run("verify-ledger/people", config="people"))["type"] == "COMPLETED"
        with loaded.ledger_path.open("r+b") as ledger:  # as if somebody had restored something else
            ledger.truncate(0)
        for extra in ("-wal", "-shm"):
            loaded.ledger_path.with_name(loaded.ledger_path.name + extra).unlink(missing_ok=True)
        support.set_budget(loaded, 50.0)
        assert served.state(served.run("verify-ledger/people", config="people"))["name"] == "LedgerDamaged"
        served.wait(lambda: any("LedgerDamaged" in text for text in messages), f"ledger damaged: {messages}")
        served.wait(lambda: served.ask("/deployments/name/release/people")["paused"], "the nights were not paused")
        for told in ("more nights like", "BudgetExhausted", "LedgerDamaged"):
            served.wait(lambda told=told: any(told in each for each in written()), f"no mail of {told}: {written()}")

        def told_of_a_failure():  # again where the server's database was locked, which can lose an event
            wrong = {"privacy.epsilon": "no number"}
            failed = served.run("release/by-hand", release="people", mode="dry-run", overrides=wrong)
            assert served.state(failed)["name"] == "BadConfig"
            end = time.monotonic() + 30
            while time.monotonic() < end and not any("BadConfig" in text for text in messages):
                time.sleep(0.3)
            return any("BadConfig" in text for text in messages)

        served.wait(told_of_a_failure, f"failed: {messages}")

    for text in written():
        assert "a password of the mail server" not in text
        assert str(support.CANARY) not in text
    assert Ledger(loaded.ledger_url).budget("people").epsilon == 50.0
    assert str(support.CANARY) not in json.dumps(messages)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_falls_silent_is_ended_one_that_nobody_takes_is_told_of_and_runs_of_others_are_left_alone(
    tmp_path, heard, mail
):
    (address, messages), (port, authority, _) = heard, mail
    support.prepare(tmp_path)
    file, home = tmp_path / "deployments.toml", tmp_path / "home"
    file.write_text(NIGHT + '[alerts]\nnotify = ["webhook/on-call"]\nlate_minutes = 1\n')
    with server_alone(home) as served:
        make_blocks(served, address, port, authority)
        deploy(tmp_path, served.url, served.login)

        flow = served.ask("/flows/", {"name": "of others"})["id"]
        others = served.ask("/flow_runs/", {"flow_id": flow})["id"]
        silent = served.run("verify-ledger/people", config="people")
        for run in (others, silent):
            served.ask(f"/flow_runs/{run}/set_state", {"state": {"type": "RUNNING"}, "force": True})

        # There is no worker. One of two late runs is cancelled before the alarm.
        late, cancelled = (served.run("verify-ledger/people", config="people") for _ in range(2))
        for run in (late, cancelled):
            served.state(run, "Late")
        served.ask(f"/flow_runs/{cancelled}/set_state", {"state": {"type": "CANCELLED"}, "force": True})

        served.patience = 600.0  # a minute of lateness; and three beats of 30 s must be missed
        told = served.wait(lambda: [text for text in messages if "Not started" in text], f"late: {messages}")
        assert "Not started within 1 min" in told[0]
        assert "Late" in told[0]
        assert f"/runs/flow-run/{late}" in told[0]
        assert served.ask(f"/flow_runs/{silent}")["state"]["type"] == "RUNNING", "there is nobody to judge"

        log = tmp_path / "worker.log"
        with log.open("wb") as file:
            words = [*COMMAND, "worker", str(tmp_path)]
            worker = subprocess.Popen(words, env=served.client, stdout=file, stderr=file, cwd=home)
        try:
            state = served.state(silent, "Crashed")
        finally:
            worker.terminate()
            worker.wait(60)
        assert "No sign of life" in state["message"]
        assert served.ask(f"/flow_runs/{others}")["state"]["type"] == "RUNNING"
        assert not any(cancelled in text for text in messages)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_release_that_is_missing_is_told_of_by_the_ledger_and_the_server_says_that_it_was_sent(tmp_path, heard, mail):
    (address, messages), (port, authority, mails) = heard, mail
    support.prepare(tmp_path)
    at = datetime.now(UTC) + timedelta(minutes=6)  # once the service has started
    night = NIGHT.replace("30 2 * * *", f"{at.minute} {at.hour} * * *", 1).replace("Europe/Berlin", "UTC", 1)
    (tmp_path / "deployments.toml").write_text(
        night + '[alerts]\nnotify = ["webhook/on-call", "mail/on-call"]\nlate_minutes = 1\n'
    )
    home = tmp_path / "home"
    with server_alone(home) as served:
        make_blocks(served, address, port, authority)
    (tmp_path / "people.toml").write_text(
        (tmp_path / "people.toml").read_text() + "\n[approval]\nabove_share = 0.001\n"
    )
    with serve(tmp_path, home) as served:
        missing = "is not released. Its run"
        told = served.wait(lambda: [text for text in messages if missing in text], f"missing: {messages}")
        assert "Suspended" in told[0]
        served.wait(lambda: any(missing in each.get_content() for _, _, each in mails), "no mail")
