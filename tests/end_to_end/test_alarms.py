"""Alarms on a real server: what fails is told through a block, an exhausted budget pauses its night."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from prefect import get_client

from blockveil.flows.service import automations
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import deploy, serve, server_alone, spoken_to, worker_of
from tests.house import certificates, mail_server, support
from tests.house.listening import listening

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"

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


def was_sent(served, run):
    """Whether the server says that an alarm of a failed run was sent to everybody."""
    about = f"{run}/{served.ask(f'/flow_runs/{run}')['run_count']}/failed"
    with spoken_to(served.url, served.login), get_client(sync_client=True) as client:
        told = automations.told(client, about, datetime.now(UTC))
    return {each.recipient for each in told if each.sent} == {"webhook/on-call", "mail/on-call"}


@pytest.fixture
def heard():
    """Address that listens for messages, and what it heard."""
    with listening() as (address, messages):
        yield address, messages


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
        assert served.ask("/automations/filter", {}) == []
        file.write_text(NIGHT + '[alerts]\nnotify = ["webhook/nobody"]\n')
        with pytest.raises(ConfigError, match='no block "webhook/nobody"'):
            deploy(tmp_path, served.url, served.login)

    file.write_text(NIGHT + '[alerts]\nnotify = ["webhook/on-call", "mail/on-call"]\n')
    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        names = sorted(each["name"] for each in served.ask("/automations/filter", {}))
        assert names == ["blockveil: alarms to mail/on-call", "blockveil: alarms to webhook/on-call"]

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

        failed = served.run(
            "release/by-hand", release="people", mode="dry-run", overrides={"privacy.epsilon": "no number"}
        )
        assert served.state(failed)["name"] == "BadConfig"
        served.wait(lambda: any("BadConfig" in text for text in messages), f"failed: {messages}")
        (text,) = [text for text in messages if "BadConfig" in text]
        assert f"/runs/flow-run/{failed}" in text
        # What a server that stops has not noted as sent is told again.
        served.wait(lambda: was_sent(served, failed), "the server does not say that it was sent to both")

    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1"):
        time.sleep(45)  # two looks at what is so
    for told in ("more nights like", "BudgetExhausted", "LedgerDamaged", "BadConfig"):
        assert len([text for text in messages if told in text]) == 1, messages
    for text in written():
        assert "a password of the mail server" not in text
        assert str(support.CANARY) not in text
    assert Ledger(loaded.ledger_url).budget("people").epsilon == 50.0
    assert str(support.CANARY) not in json.dumps(messages)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_tell_once_of_a_run_that_fell_silent_and_where_there_is_none_the_server_tells_of_that(
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

        late = served.run("verify-ledger/people", config="people")
        served.state(late, "Late")
        served.patience = 600.0
        served.wait(lambda: any("nobody has started the runs" in text for text in messages), f"alone: {messages}")
        assert served.ask(f"/flow_runs/{silent}")["state"]["type"] == "RUNNING", "there is nobody to judge"

        homes = [tmp_path / name for name in ("one", "two")]
        for each in homes:
            each.mkdir(mode=0o700)
        with worker_of(served, tmp_path, homes[0]), worker_of(served, tmp_path, homes[1]):
            state = served.state(silent, "Crashed")
            served.wait(lambda: any("Crashed" in text for text in messages), f"crashed: {messages}")
            served.state(late)
            time.sleep(60)
        assert "No sign of life" in state["message"]
        assert served.ask(f"/flow_runs/{others}")["state"]["type"] == "RUNNING"
        told = [text for text in messages if "nobody has started" not in text]
        assert len(told) == len(set(told)), told
        (ended,) = [text for text in told if "No sign of life" in text]
        assert f"/runs/flow-run/{silent}" in ended


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
        (tmp_path / "people.toml").read_text() + "\n[approval]\nthreshold_share = 0.001\n"
    )
    with serve(tmp_path, home) as served:
        missing = "is not released. Its run"
        told = served.wait(lambda: [text for text in messages if missing in text], f"missing: {messages}")
        assert "Suspended" in told[0]
        served.wait(lambda: any(missing in each.get_content() for _, _, each in mails), "no mail")
