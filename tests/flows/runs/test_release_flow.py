"""The Prefect flow: states that explain themselves, artifacts, and forms that cannot spend by mistake."""

import json
import re
import shutil
import signal
import stat
import time
from dataclasses import replace
from datetime import date

import pytest
from prefect import get_client, tags
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.exceptions import TerminationSignal
from prefect.utilities.callables import parameter_schema

from blockveil.engine.answers.gram import DamagedRecordsError, UnreachableRecordsError
from blockveil.flows.base import private_log
from blockveil.flows.runs import artifacts as shown
from blockveil.flows.runs import overrides
from blockveil.flows.runs import release_flow as module
from blockveil.flows.runs.pace import pace
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import charged_steps, night, publishing
from blockveil.pipeline.releases.compute import ThreadCompute, translate
from tests.house import support

NIGHT = date(2026, 11, 20)


@pytest.fixture
def people(tmp_path, monkeypatch, prefect):
    """A config named ``people`` under the config root."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))

    def make(**options):
        return support.prepare(tmp_path, **options)

    return make


@pytest.fixture(scope="module")
def first_night(tmp_path_factory, prefect):
    """A folder with one released night, whose budget holds no second one, and the state of its run."""
    folder = tmp_path_factory.mktemp("first")
    support.prepare(folder, budget=1.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONFIG_ROOT, str(folder))
        return folder, run()


@pytest.fixture
def released(first_night, tmp_path, monkeypatch):
    """A copy of that folder."""
    shutil.copytree(first_night[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    return load_config(tmp_path / "people.toml")


def run(mode="release", night=NIGHT, overrides=None):
    return module.release(release="people", mode=mode, logical_date=night, overrides=overrides or {}, return_state=True)


def artifacts(state):
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        found = client.read_artifacts(artifact_filter=wanted)
        return {artifact.key: artifact for artifact in found}


def task_names(state):
    with get_client(sync_client=True) as client:
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        return [task.name.rsplit("-", 1)[0] for task in client.read_task_runs(flow_run_filter=wanted)]


def flow_run(state):
    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id)


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent_mu


def test_a_release_completes_with_name_tags_and_all_artifacts(first_night):
    folder, state = first_night
    loaded = load_config(folder / "people.toml")
    assert state.is_completed(), state.message
    assert state.message == "Released people/covariance/2026-11-20."
    found = artifacts(state)
    assert {"what-it-costs", "summary", "what-each-feature-says", "what-is-left", "where-it-stands"} <= found.keys()
    for key in ("what-stands-out", "what-is-left"):
        assert found[key].data.count("data:image/svg+xml;base64,") == 1
        assert len(found[key].data) < 200_000
    for key in ("summary", "what-is-promised"):
        assert "multiplies the probability" in found[key].data
    assert "by tossing a coin" in found["what-is-promised"].data
    assert str(loaded.output_root) in found["summary"].data
    for said in ("Nothing has been read or spent", "Is it good enough?", "records (as many as there may be)"):
        assert said in found["what-it-costs"].data
    assert float(found["where-it-stands"].data) == 100.0
    assert re.fullmatch(r"people/covariance/2026-11-20: done in \d+ s", found["where-it-stands"].description)
    assert "which-mechanism" not in found
    assert [key for key, each in found.items() if each.task_run_id is None] == ["summary"], "it is shown first"
    about = flow_run(state)
    assert about.name == "people 2026-11-20 (release)"
    assert {"dataset:people", "release:covariance", "date:2026-11-20"} <= set(about.tags)
    assert spent(loaded) > 0


def test_a_mechanism_that_was_chosen_shows_what_it_was_compared_with(people, tmp_path):
    people()
    config = tmp_path / "people.toml"
    chosen = 'kind = "auto"\nminimise = "total"'
    config.write_text(config.read_text().replace('kind = "shaped-gaussian"\noptimise_for = "relative-error"', chosen))
    state = run(mode="dry-run")
    rows = json.loads(artifacts(state)["which-mechanism"].data)
    assert len(rows) > 3
    assert {"mechanism", "parameters", "expected error", "over the chosen", "why"} == rows[0].keys()


def test_the_log_says_what_was_planned_spent_and_where_the_report_lies_and_that_a_catalogue_was_not_told(people):
    path = people().path
    path.write_text(path.read_text().replace("[output]", '[output]\nlineage = "absent/events.jsonl"'))
    state = run()
    wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    told, patience = "", 60
    while ".html" not in told and patience:  # log lines are sent in batches
        time.sleep(0.5)
        patience -= 1
        with get_client(sync_client=True) as client:
            told = "\n".join(log.message for log in client.read_logs(log_filter=wanted))
    for words in (
        "is planned: charge mu",
        "Nothing has been read or spent",
        "people/covariance/2026-11-20: reading",
        "not delivered",
    ):
        assert words in told
    assert ".html" in told


@pytest.mark.parametrize(
    ("share", "seconds", "said"),
    [
        (0.0, 1.0, "just begun"),
        (0.5, 10.0, "5 % a second, about 10 s left"),
        (0.01, 60.0, "1 % a minute, about 1.6 h left"),
        (0.001, 60.0, "0.1 % a minute, about 16.6 h left"),
        (1.0, 200.0, "30 % a minute, done in 3 min"),
        (0.5, 0.001, "50000 % a second, about 1 s left"),
    ],
)
def test_progress_has_a_pace_and_a_time_left_and_no_number_of_records(share, seconds, said):
    assert pace(share, seconds) == said


def test_each_step_is_a_task_and_keeps_no_result(first_night):
    steps = ["measure and add noise", "plan", "publish", "report", "reserve budget", "seal"]
    assert sorted(task_names(first_night[1])) == steps


def test_tags_that_a_run_has_already_stay(people):
    people()
    with tags("team:fraud"):
        state = run(mode="dry-run")
    assert {"team:fraud", "dataset:people", "date:2026-11-20"} <= set(flow_run(state).tags)


def test_every_field_of_the_form_is_described():
    fields = parameter_schema(module.release).properties
    assert list(fields) == ["release", "mode", "logical_date", "overrides"]
    assert all(field["description"] for field in fields.values())
    assert "cluster.workers" in fields["overrides"]["description"]
    assert fields["mode"]["default"] == "dry-run"


def test_the_same_night_again_costs_nothing_and_says_so(released):
    before = spent(released)
    state = run()
    assert state.is_completed()
    assert "complete already" in state.message
    assert spent(released) == before


def test_a_dry_run_spends_nothing_and_shows_the_plan(people):
    loaded = people()
    state = run(mode="dry-run")
    assert state.is_completed()
    assert "nothing was read" in state.message
    assert spent(loaded) == 0
    assert "Expected error" in artifacts(state)["what-it-costs"].data
    assert not loaded.output_root.exists()


def test_an_exhausted_budget_is_a_named_state_with_what_is_left(released):
    state = run(night=date(2026, 11, 21))
    assert state.is_failed()
    assert state.name == "BudgetExhausted"
    assert "left epsilon" in state.message
    assert "Nothing was spent" in state.message


def test_bad_data_is_a_named_state_that_gives_the_budget_back(people):
    values = support.records()
    values[3, 0] = float("nan")
    loaded = people(values=values)
    state = run()
    assert state.name == "BadData"
    assert "the budget was given back" in state.message
    assert spent(loaded) == 0


def test_a_changed_config_is_refused_with_the_difference(released, tmp_path):
    support.write_config(tmp_path, epsilon=0.5)
    state = run()
    assert state.name == "ReleaseConflict"
    assert "privacy.epsilon: 1.0 -> 0.5" in state.message


def test_a_lost_computation_is_tried_again_within_the_run(people, monkeypatch):
    from blockveil.pipeline.releases.compute import ThreadCompute, translate

    loaded, original, calls = people(), ThreadCompute.hold, []

    def flaky(self, *args):
        calls.append(1)
        if len(calls) < 3:
            raise translate(RuntimeError("lost"))
        return original(self, *args)

    monkeypatch.setattr(ThreadCompute, "hold", flaky)
    state = run()
    assert state.is_completed(), state.message
    assert len(calls) == 3
    assert len([e for e in Ledger(loaded.ledger_url).history() if e.kind == "RESERVED"]) == 1


def test_an_unexpected_error_shows_only_its_kind(people, monkeypatch):
    people()
    monkeypatch.setattr("blockveil.pipeline.plan.begun_plans.make_plan", lambda *a: 1 / 0 if a else None)
    state = run()
    assert state.is_failed()
    assert state.name == "Unexpected"
    assert "ZeroDivisionError" in state.message
    assert "division by zero" not in state.message


def test_an_unexpected_error_in_the_measurement_is_not_tried_again_and_gives_the_budget_back(
    people, monkeypatch, tmp_path
):
    loaded, calls = people(), []

    def fail(*_):
        calls.append(1)
        raise OSError(f"record {support.CANARY}")

    monkeypatch.setattr(charged_steps, "measure", fail)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    state = run()
    assert state.name == "Unexpected"
    assert "the budget was given back" in state.message
    assert spent(loaded) == 0
    assert len(calls) == 1
    [kept] = private_log.folder().iterdir()
    assert kept.stem in state.message
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "OSError" in kept.read_text()
    assert "in fail" in kept.read_text()
    assert str(support.CANARY) not in kept.read_text() + state.message


def test_a_store_that_stays_away_is_asked_again_and_then_named_and_damage_is_not_tried_again(people, monkeypatch):
    loaded, calls = people(), []

    def fail(self, *args):
        calls.append(1)
        raise translate(UnreachableRecordsError() if len(calls) <= 3 else DamagedRecordsError())

    monkeypatch.setattr(ThreadCompute, "hold", fail)
    away = run()
    assert away.name == "StoreProblem"
    assert "did not answer" in away.message
    assert len(calls) == 3
    damaged = run()
    assert damaged.name == "BadData"
    assert "a chunk is cut short" in damaged.message
    assert len(calls) == 4
    assert spent(loaded) == 0


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("hold", KeyboardInterrupt()),
        ("hold", SystemExit(1)),
        ("hold", TerminationSignal(signal.SIGTERM)),
        ("find_published", TerminationSignal(signal.SIGTERM)),
    ],
)
def test_an_interrupt_gives_the_budget_back_and_goes_on(people, monkeypatch, error, step):
    def interrupted(*_):
        raise error

    loaded = people()
    monkeypatch.setattr(*((ThreadCompute, step) if step == "hold" else (publishing, step)), interrupted)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Prefect sends itself again what it has taken
    try:
        with pytest.raises(type(error)):
            run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET", "RESERVED", "VOID"]


def test_an_error_between_two_steps_gives_the_budget_back(people, monkeypatch):
    loaded = people()
    charged_steps.reserve(*support.opened(make_plan(loaded, NIGHT)), "killed")
    first, second, *_ = night.ORDER
    monkeypatch.setattr(night, "ORDER", (first, replace(second, due=lambda _: 1 / 0)))
    assert run().is_failed()
    assert Ledger(loaded.ledger_url).history()[-1].kind == "VOID"


def test_a_cluster_that_stays_lost_is_a_named_state_that_gives_the_budget_back(people, monkeypatch):
    from blockveil.pipeline.releases.compute import ThreadCompute, translate

    loaded, calls = people(), []

    def lost(self, *args):
        calls.append(1)
        raise translate(RuntimeError("lost"))

    monkeypatch.setattr(ThreadCompute, "hold", lost)
    state = run()
    assert state.name == "ClusterLost"
    assert len(calls) == 3
    assert spent(loaded) == 0


def test_a_failure_after_the_commit_says_that_the_charge_stands_and_the_next_run_finishes(people, monkeypatch):
    loaded = people()
    with monkeypatch.context() as patch:
        patch.setattr(charged_steps, "publish", lambda *_: 1 / 0)
        state = run()
    assert "The charge stands" in state.message
    before = spent(loaded)
    state = run()
    assert state.is_completed(), state.message
    assert "at no further cost" in state.message
    assert spent(loaded) == before > 0


def test_a_page_that_cannot_be_updated_does_not_stop_a_release(people, monkeypatch):
    people()

    def unreachable(*args, **kwargs):
        raise ConnectionError("the server is away")

    for name in ("create_markdown_artifact", "create_table_artifact", "create_progress_artifact", "get_client"):
        monkeypatch.setattr(shown, name, unreachable)
    assert run().is_completed()


def test_progress_that_cannot_be_shown_does_not_stop_a_release(people, monkeypatch):
    people()
    monkeypatch.setattr(shown, "update_progress_artifact", lambda *_, **__: 1 / 0)
    assert run().is_completed()


def test_a_ledger_that_cannot_be_read_is_a_named_state(people):
    loaded = people()
    loaded.ledger_path.write_bytes(b"this is no ledger" * 100)
    assert run(mode="dry-run").name == "LedgerProblem"
    assert run().name == "LedgerProblem"


def test_a_dry_run_before_any_budget_is_granted_shows_the_plan(people):
    people().ledger_path.unlink()
    state = run(mode="dry-run")
    assert state.is_completed(), state.message
    assert "none granted yet" in artifacts(state)["what-it-costs"].data


@pytest.mark.parametrize("name", ["../people", "/etc/passwd", "People", "", "a/b", "people.toml", "x" * 80])
def test_a_release_is_chosen_by_name_and_never_by_path(name, monkeypatch, tmp_path):
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    with pytest.raises(ConfigError, match="name of a reviewed config"):
        module.resolve(name, {}, overrides.RELEASE)


ELSEWHERE = '{kind = "address", address = "tcp://127.0.0.1:9"}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("output.ledger", '"other.db"'),
        ("query.rows_at_most", "2"),
        ("data.store", '"other.zarr"'),
        ("cluster", ELSEWHERE),
        ("cluster.address", '"tcp://127.0.0.1:9"'),
        ("cluster.tls_client_key", '"file:/etc/passwd"'),
        ("cluster.insecure", "true"),
    ],
)
def test_a_release_cannot_override_what_decides_it_nor_where_its_records_go(tmp_path, monkeypatch, key, value):
    support.write_config(tmp_path)
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    with pytest.raises(ConfigError, match="may not be overridden"):
        module.resolve("people", {key: value}, overrides.RELEASE)


def test_a_run_that_would_override_what_decides_it_spends_nothing(people):
    loaded = people()
    state = run(overrides={"privacy.epsilon": "2"})
    assert state.name == "BadConfig"
    assert "may not be overridden" in state.message
    assert spent(loaded) == 0


def test_a_dry_run_answers_what_if_and_leaves_the_places_of_output_alone(people):
    people()
    state = run(mode="dry-run", overrides={"privacy.epsilon": "2.0", "query.rows_at_most": "500"})
    assert "by at most e^2 and adds at most 1e-06" in artifacts(state)["what-it-costs"].data
    for key in ("output", "output.ledger", "output.keys"):
        assert run(mode="dry-run", overrides={key: '"other.db"'}).name == "BadConfig"


def test_a_release_may_override_how_it_is_computed(people):
    people()
    assert run(overrides={"compute.block_rows": "100"}).is_completed()


def test_an_unknown_mode_is_refused_before_anything_runs(people):
    people()
    state = module.release(release="people", mode="yes", return_state=True)
    assert state.is_failed()
