"""The Prefect flow: states that explain themselves, artifacts, and forms that cannot spend by mistake."""

from datetime import date

import pytest
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from flows import release as module
from pipeline.errors import ConfigError
from pipeline.ledger import Ledger
from tests import support

NIGHT = date(2026, 11, 20)


@pytest.fixture
def people(tmp_path, monkeypatch, prefect):
    """A config named ``people`` under the config root."""
    monkeypatch.setenv(module.CONFIG_ROOT, str(tmp_path))

    def make(**options):
        return support.prepare(tmp_path, **options)

    return make


def run(mode="release", night=NIGHT, overrides=None):
    return module.release(release="people", mode=mode, logical_date=night, overrides=overrides or {}, return_state=True)


def artifacts(state):
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        found = client.read_artifacts(artifact_filter=wanted)
        return {artifact.key: artifact for artifact in found}


def flow_run(state):
    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id)


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent_mu


def test_a_release_completes_with_name_tags_and_all_artifacts(people):
    loaded = people()
    state = run()
    assert state.is_completed(), state.message
    assert state.message == "Released people/covariance/2026-11-20."
    found = artifacts(state)
    assert {"release-plan", "release-report", "release-error", "privacy-budget", "release-progress"} <= found.keys()
    report = found["release-report"].data
    assert report.count("data:image/svg+xml;base64,") == 2
    assert len(report) < 200_000
    assert "multiplies the probability" in report
    assert float(found["release-progress"].data) == 100.0
    about = flow_run(state)
    assert about.name == "people 2026-11-20 (release)"
    assert {"dataset:people", "release:covariance", "date:2026-11-20"} <= set(about.tags)
    assert spent(loaded) > 0


def test_the_same_night_again_costs_nothing_and_says_so(people):
    loaded = people()
    run()
    before = spent(loaded)
    state = run()
    assert state.is_completed()
    assert "complete already" in state.message
    assert spent(loaded) == before


def test_a_dry_run_spends_nothing_and_shows_the_plan(people):
    loaded = people()
    state = run(mode="dry-run")
    assert state.is_completed()
    assert "nothing was read" in state.message
    assert spent(loaded) == 0
    assert "Expected error" in artifacts(state)["release-plan"].data
    assert not loaded.output_root.exists()


def test_an_exhausted_budget_is_a_named_state_with_what_is_left(people):
    people(budget=1.1)
    run()
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


def test_a_changed_config_is_refused_with_the_difference(people, tmp_path):
    people()
    run()
    support.write_config(tmp_path, epsilon=0.5)
    state = run()
    assert state.name == "ReleaseConflict"
    assert "privacy.epsilon: 1.0 -> 0.5" in state.message


def test_a_lost_computation_is_tried_again_within_the_run(people, monkeypatch):
    from pipeline.compute import ThreadCompute, translate

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
    monkeypatch.setattr(module, "make_plan", lambda *a: 1 / 0 if a else None)
    state = run()
    assert state.is_failed()
    assert "ZeroDivisionError" in state.message
    assert "division by zero" not in state.message


@pytest.mark.parametrize("name", ["../people", "/etc/passwd", "People", "", "a/b", "people.toml", "x" * 80])
def test_a_release_is_chosen_by_name_and_never_by_path(name, monkeypatch, tmp_path):
    monkeypatch.setenv(module.CONFIG_ROOT, str(tmp_path))
    with pytest.raises(ConfigError, match="name of a reviewed config"):
        module.resolve(name, {}, module.OPEN_OVERRIDES)


@pytest.mark.parametrize("key", ["privacy.epsilon", "output.ledger", "query.rows_at_most", "data.store"])
def test_a_release_cannot_override_what_decides_it(people, key):
    loaded = people()
    state = run(overrides={key: "2"})
    assert state.name == "BadConfig"
    assert spent(loaded) == 0


def test_a_release_may_override_how_it_is_computed(people):
    people()
    assert run(overrides={"compute.block_rows": "100"}).is_completed()


def test_an_unknown_mode_is_refused_before_anything_runs(people):
    people()
    state = module.release(release="people", mode="yes", return_state=True)
    assert state.is_failed()
