"""What somebody with the server's password writes in place of a person's decision, and what becomes of it."""

import json
from datetime import date

import pytest
from prefect.states import AwaitingRetry, Crashed

from blockveil.flows.runs import release_flow
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.approval import ApprovalRequest, NotApproved
from blockveil.pipeline.plan.planning import make_plan
from tests.flows.service.test_deployments import APPROVAL, read, server, site, spent, start
from tests.house import support

__all__ = ["site"]

pytestmark = pytest.mark.usefixtures("prefect")  # which the site asks for: tests/house/order.py looks for the word

NIGHT = date(2026, 11, 20)
APPROVED = {"decision": "approve", "name": "the director"}


def key_of(found, night=NIGHT):
    """Under which name the server keeps the answer to a night's question."""
    plan, books = support.opened(make_plan(found.configs["people"], night))
    question = budgets.approval_needed(plan, books.ledger)
    return release_flow.keyset_from_base_key(f"suspended-{question.key}")["response"]


def asked_for(night=NIGHT):
    form = {"release": "people", "mode": "release", "logical_date": night.isoformat()}
    with server() as client:
        return client.create_flow_run_from_deployment(read("release/people").id, parameters=form)


def write(run, key, text):
    with server() as client:
        client._client.post(f"/flow_runs/{run.id}/input", json={"key": key, "value": text}).raise_for_status()


def go_on(run):
    """Start a run again that no form has resumed."""
    with server() as client:
        state = {"type": "SCHEDULED", "name": "Resuming"}
        client._client.post(f"/flow_runs/{run.id}/set_state", json={"state": state, "force": True}).raise_for_status()
        again = client.read_flow_run(run.id)
    return start(again)


def test_an_answer_that_was_there_before_the_question_releases_nothing_by_itself(site):
    found = site(more=APPROVAL)
    run = asked_for()
    write(run, key_of(found), json.dumps(APPROVED))
    assert start(run).name == "Suspended"
    assert spent(found) == 0


def test_an_answer_to_another_night_s_question_is_none(site):
    found = site(more=APPROVAL)
    run = asked_for()
    assert start(run).name == "Suspended"
    write(run, key_of(found, date(2026, 11, 21)), json.dumps(APPROVED))
    assert go_on(run).name == "Suspended", "it is asked anew"
    assert spent(found) == 0


@pytest.mark.parametrize("lost", [1, 3])
def test_a_run_whose_question_vanished_is_asked_anew_and_its_answer_counts(site, lost):
    found = site(more=APPROVAL)
    run = asked_for()
    for _ in range(lost):
        assert start(run).name == "Suspended"
        with server() as client:
            client.set_flow_run_state(run.id, Crashed(message="No sign of life"), force=True)
            client.set_flow_run_state(run.id, AwaitingRetry(), force=True)
            run = client.read_flow_run(run.id)
    assert start(run).name == "Suspended"
    assert spent(found) == 0
    with server() as client:
        client.resume_flow_run(run.id, run_input=APPROVED)
        run = client.read_flow_run(run.id)
    assert start(run).is_completed()
    assert spent(found) > 0


GARBAGE = {
    "no JSON": "approve",
    "a list": "[1, 2]",
    "a number": "7",
    "another word": json.dumps({**APPROVED, "decision": "APPROVE"}),
    "no name": json.dumps({**APPROVED, "name": ""}),
    "a name of a million letters": json.dumps({**APPROVED, "name": "SECRET" * 200_000}),
    "another field": json.dumps({**APPROVED, "epsilon": 100}),
    "a name that is a list": json.dumps({**APPROVED, "name": ["the director"]}),
    "a name without letters": json.dumps({**APPROVED, "name": "\x1b[2J\ud800 "}),
}


ONE_OF_EACH_KIND = ("no JSON", "another word")


@pytest.mark.parametrize("what", support.slow_but(ONE_OF_EACH_KIND, GARBAGE))
def test_garbage_in_place_of_an_answer_ends_the_run_in_words_and_spends_nothing(site, what):
    found = site(more=APPROVAL)
    run = asked_for()
    assert start(run).name == "Suspended"
    write(run, key_of(found), GARBAGE[what])
    state = go_on(run)
    assert state.name == "NotApproved"
    assert "Nothing was read, charged or released" in state.message
    assert "Run it again" in state.message
    assert len(state.message) < 400
    assert not [word for word in ("SECRET", "director", "\x1b") if word in state.message]
    assert spent(found) == 0
    assert start(asked_for()).name == "Suspended", "another run of the night asks as if nothing had been"


def test_whoever_has_the_password_can_answer_before_anybody_is_asked(site):
    """What docs/operations.md says that the password allows: under any name, and without an alarm."""
    found = site(more=APPROVAL)
    run, key = asked_for(), key_of(found)
    write(run, key, json.dumps(APPROVED))
    pause = key.removeprefix("suspended-").removesuffix("-response")
    with server() as client:
        policy = {"empirical_policy": {"pause_keys": [pause], "resuming": True}}
        client._client.patch(f"/flow_runs/{run.id}", json=policy).raise_for_status()
        again = client.read_flow_run(run.id)
    assert start(again).is_completed()
    (reserved,) = [e for e in Ledger(found.configs["people"].ledger_url).history() if e.kind == "RESERVED"]
    assert reserved.payload["attempt"].endswith("approved by the director")


@pytest.mark.parametrize("text", ["approve", "[1, 2]", json.dumps({"decision": "refuse"})])
def test_garbage_beside_a_signature_ends_the_run_in_words_too(monkeypatch, text):
    monkeypatch.setattr(release_flow, "_asked", lambda _: ("approve-1", json.loads(text)))
    with pytest.raises(NotApproved, match="no decision"):
        release_flow._answered(ApprovalRequest("approve-1", ""))
