"""A run that needs an officer's signature: what a person says in the browser does not stand for one."""

import logging
from types import SimpleNamespace

import pytest
from prefect.input import keyset_from_paused_state
from prefect.states import Suspended

from blockveil.flows.runs import release_flow
from blockveil.flows.runs.steps import Stopped
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.approval import ApprovalRequest, NotApproved
from blockveil.pipeline.plan.planning import make_plan
from tests.pipeline.plan.test_signed_approval import NIGHT, approve, asked

__all__ = ["asked"]


@pytest.fixture
def waiting(asked, monkeypatch):
    """Config and key, what a person answers in the browser, and what asks."""
    loaded, key = asked
    answer = SimpleNamespace(decision="approve", name="A. Officer", asked=0)

    def suspend(**_):
        answer.asked += 1
        return answer

    monkeypatch.setattr(release_flow, "suspend_flow_run", suspend)
    monkeypatch.setattr(release_flow, "read_flow_run_input", lambda key: None)
    monkeypatch.setattr(release_flow, "_used_names", tuple)
    monkeypatch.setattr(release_flow, "get_run_logger", lambda: logging.getLogger("test"))
    monkeypatch.setattr(release_flow, "runtime", SimpleNamespace(deployment=SimpleNamespace(id="one")))
    steps = SimpleNamespace(run=lambda name, work: work())
    ledger = Ledger(loaded.ledger_url)
    return loaded, key, answer, lambda given=None: release_flow._ask(steps, make_plan(loaded, NIGHT), ledger, given)


def test_a_name_in_the_browser_or_on_the_command_line_is_no_signature(waiting):
    _, _, answer, ask = waiting
    for given in (None, "A. Officer"):
        with pytest.raises(NotApproved, match="blockveil ledger approve"):
            ask(given)
    assert answer.asked == 2


def test_a_signature_that_is_there_asks_nobody_and_one_that_comes_lets_the_run_go_on(waiting, monkeypatch):
    loaded, key, answer, ask = waiting

    def signed_meanwhile(**_):
        approve(loaded, key)
        answer.name = "somebody"
        return answer

    monkeypatch.setattr(release_flow, "suspend_flow_run", signed_meanwhile)
    assert ask() == "A. Officer"
    monkeypatch.setattr(release_flow, "suspend_flow_run", lambda **_: pytest.fail("it asks"))
    assert ask() == "A. Officer"


def test_a_refusal_in_the_browser_ends_a_run_that_nobody_signed(waiting):
    _, _, answer, ask = waiting
    answer.decision = "refuse"
    with pytest.raises(Stopped) as refused:
        ask()
    assert "was refused by A. Officer" in refused.value.state.message


def test_a_refusal_in_the_browser_ends_a_run_that_an_officer_signed_meanwhile(waiting, monkeypatch):
    loaded, key, _, ask = waiting
    approve(loaded, key)
    said = {"decision": "refuse", "name": "B. Clerk"}
    monkeypatch.setattr(release_flow, "read_flow_run_input", lambda name: said if name.endswith("-response") else None)
    with pytest.raises(NotApproved, match="was refused by B"):
        ask()
    said["decision"] = "approve"
    assert ask() == "A. Officer"


def test_the_answer_is_looked_for_where_prefect_keeps_it(monkeypatch):
    state, asked_for = Suspended(pause_key="approve-1"), []
    monkeypatch.setattr(release_flow, "_used_names", tuple)
    monkeypatch.setattr(release_flow, "read_flow_run_input", asked_for.append)
    release_flow._answered(ApprovalRequest("approve-1", ""))
    assert asked_for == [keyset_from_paused_state(state)["response"]]


def test_a_run_that_cannot_wait_says_how_to_sign(waiting, monkeypatch):
    _, _, _, ask = waiting
    monkeypatch.setattr(release_flow, "runtime", SimpleNamespace(deployment=SimpleNamespace(id=None)))
    with pytest.raises(Stopped) as refused:
        ask()
    assert "blockveil ledger approve" in refused.value.state.message
