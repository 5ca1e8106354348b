"""The form for what-if questions and its flow: one refuses what the other refuses, and neither can spend."""

import copy
import json

import pytest
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import PrefectHTTPStatusError

from blockveil.flows.runs.plan_flow import plan
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import deployments
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import Ledger
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"
"""

ABSENT = object()


@pytest.fixture
def form(tmp_path, monkeypatch, prefect):
    """The deployment of the plan flow, its question, and the ledger."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    loaded = support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    made = {each.full_name: each for each in deployments.build(load_deployments(tmp_path))}["plan/people"]
    return made.apply(), made.parameters, Ledger(loaded.ledger_url)


def with_answers(parameters, answers):
    """Parameters of the form with some of them changed; keys are dotted paths."""
    changed = copy.deepcopy(parameters)
    for path, value in answers.items():
        *above, last = path.split(".")
        at = changed
        for key in above:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if value is ABSENT:
            del at[last]
        else:
            at[last] = value
    return changed


def the_form_takes(deployment, parameters):
    """Whether the server accepts the form, which is what its button asks."""
    with get_client(sync_client=True) as client:
        try:
            client.create_flow_run_from_deployment(deployment, parameters=parameters)
        except PrefectHTTPStatusError as answer:
            if answer.response.status_code != 409:
                raise
            return False
    return True


GOOD = (
    {},
    {"question.privacy.epsilon": 2},
    {"question.privacy.neighbours": "replace-one", "budget_of": None},
    {"question.mechanism": {"kind": "laplace", "optimise_for": "absolute-error"}, "logical_date": "2026-11-20"},
    {"question.query.geometry.features.0.upper": 60, "question.query.kind": "second-moment"},
    {"question.compute": {}},
)

BAD = (
    ({"question.privacy.epsilon": -1.0}, "question.privacy.epsilon = -1.0", "greater than 0"),
    ({"question.privacy.epsilon": "1.0"}, 'question.privacy.epsilon = "1.0"', "number"),
    ({"question.privacy.epsilon": None}, "question.privacy.epsilon = None", "number"),
    ({"question.privacy.epsilon": ABSENT}, "question.privacy.epsilon is not given", "no default"),
    ({"question.privacy.delta": 1.0}, "question.privacy.delta = 1.0", "less than or equal"),
    ({"question.privacy.neighbours": "near"}, 'question.privacy.neighbours = "near"', "add-remove"),
    ({"question.privacy.surprise": 1}, "question.privacy.surprise is not a known key", "known"),
    ({"question.release.name": "../up"}, 'question.release.name = "../up"', "lower-case letters"),
    ({"question.mechanism.kind": "magic"}, 'question.mechanism.kind = "magic"', "one of"),
    ({"question.query.rows_at_most": 0}, "question.query.rows_at_most = 0", "greater than"),
    ({"question.query.geometry.features": []}, "question.query.geometry.features", "at least"),
    ({"question.data": {"store": "/etc"}}, "question.data is not a known key", "known"),
    ({"question": None}, "question = None", "table"),
    ({"budget_of": "../people"}, "'../people' is not a name", "name of a reviewed config"),
    ({"question.mechanism": {"kind": "laplace"}}, "question.mechanism.optimise_for is not given", "no default"),
)


@pytest.mark.slow
def test_good_answers_are_taken_by_the_form_and_planned_by_the_flow(form):
    deployment, parameters, ledger = form
    before = ledger.head()
    for answers in GOOD:
        asked = with_answers(parameters, answers)
        assert the_form_takes(deployment, asked), answers
        state = plan(**asked, return_state=True)
        assert state.is_completed(), (answers, state.message)
    assert ledger.head() == before


@pytest.mark.slow
def test_what_the_form_refuses_the_flow_refuses_with_value_rule_and_remedy(form):
    deployment, parameters, ledger = form
    before = ledger.head()
    for answers, value, rule in BAD:
        asked = with_answers(parameters, answers)
        assert not the_form_takes(deployment, asked), answers
        state = plan(**asked, return_state=True)
        assert state.name == "BadConfig", (answers, state)
        assert value in state.message, (answers, state.message)
        assert rule in state.message, (answers, state.message)
        assert "Nothing was read, charged or released" in state.message
    assert ledger.head() == before


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"question.query.geometry.features.0.upper": -5}, "lower must be below upper"),
        ({"question.query.geometry.features.1.name": "age"}, "Feature names must differ"),
        ({"question.privacy.unit": "two\nlines"}, "printable text"),
        ({"logical_date": "someday"}, 'logical_date = "someday". It must be a valid date'),
        ({"question.privacy.neighbours": "replace-one"}, "do not add up"),
    ],
)
def test_what_no_form_can_check_the_flow_refuses(form, answers, told):
    deployment, parameters, ledger = form
    before = ledger.head()
    asked = with_answers(parameters, answers)
    assert the_form_takes(deployment, asked)
    state = plan(**asked, return_state=True)
    assert state.name == "BadConfig"
    assert told in state.message
    assert ledger.head() == before


def test_the_page_of_a_question_says_whether_it_is_good_enough_and_shows_a_preview(form):
    _, parameters, _ = form
    assert plan(**parameters, return_state=True).is_completed()
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=["what-if"]))
        text = client.read_artifacts(artifact_filter=wanted, sort=ArtifactSort.CREATED_DESC)[0].data
    for word in ("Is it good enough?", "times less noise", "as many as there may be", "data:image/svg+xml;base64,"):
        assert word in text
    assert "--json" not in text
    # A guess of the number of records would be kept by the server: it is no parameter.
    assert not {"rows", "wanted", "preview"} & set(parameters)


def test_the_form_names_no_place_and_offers_the_budgets_of_reviewed_configs(form):
    deployment, _, _ = form
    with get_client(sync_client=True) as client:
        schema = client.read_deployment(deployment).parameter_openapi_schema
    assert set(schema["properties"]) == {"question", "budget_of", "logical_date"}
    assert schema["properties"]["budget_of"]["anyOf"] == [{"type": "string", "enum": ["people"]}, {"type": "null"}]
    question = schema["definitions"]["WhatIf"]["properties"]
    assert set(question) == {"release", "query", "privacy", "mechanism", "compute"}
    assert not any(word in json.dumps(question) for word in ("ledger", "keys", "store", "output"))
