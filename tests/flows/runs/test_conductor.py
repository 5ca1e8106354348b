"""One conductor for both runners: the same steps in the same order, planned once, with the ledger opened once."""

import json
import sys
from contextlib import nullcontext
from datetime import date

import pytest
from prefect import get_client
from prefect.client.schemas.sorting import TaskRunSort

from blockveil.flows.cli import night_commands
from blockveil.flows.cluster import clusters
from blockveil.flows.runs import conductor
from blockveil.flows.runs.conductor import attempt_of, conduct
from blockveil.pipeline.base.errors import ComputeError, StoreError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import planning
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.releases import charged_steps, night
from blockveil.pipeline.releases.compute import ThreadCompute, translate
from blockveil.pipeline.releases.order import once
from tests.house import support

NIGHT = date(2026, 11, 20)
FULL = StoreError("The report cannot be written: the disk or quota is full", "It is written whole", "Free some space")


@pytest.fixture
def people(tmp_path):
    return support.prepare(tmp_path)


@pytest.fixture(params=["plain", "prefect"])
def run(request, people, monkeypatch):
    """`blockveil run` in this process, with and without Prefect."""
    if request.param == "prefect":
        request.getfixturevalue("prefect")
    monkeypatch.setattr(night_commands.server, "at_hand", nullcontext)
    plain = request.param == "plain"
    return lambda: night_commands.run(people.path, date=str(NIGHT), no_prefect=plain, timings=True)


def planned(loaded):
    ledger = Ledger(loaded.ledger_url)
    return plan_begun(loaded, NIGHT, ledger), ledger


def kinds(loaded):
    return [entry.kind for entry in Ledger(loaded.ledger_url).history()]


def test_a_night_that_only_lacks_its_report_says_that_it_is_released(people, monkeypatch):
    def unwritten(plan, ledger, outcome):
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(conductor, "make_report", unwritten)
        attempt = attempt_of(*planned(people), "test", None, lambda *_: None)
        with pytest.raises(StoreError, match=f"covariance/{NIGHT} is released, without a report. The report cannot"):
            conduct(attempt, once)
    assert kinds(people)[-1] == "RELEASED"
    attempt = attempt_of(*planned(people), "again", None, lambda *_: None)
    assert conduct(attempt, once).startswith("Released")
    assert kinds(people).count("COMMITTED") == 1


STAGES = [
    "start and imports",
    "plan and budget",
    "ledger",
    "cluster",
    "sums",
    "noise and writing",
    "digest",
    "publishing",
    "report",
]


def test_a_run_plans_and_opens_the_ledger_once_with_steps_in_order_and_each_timed(
    run, people, monkeypatch, request, capsys
):
    plans, ledgers, taken, plan, opened = [], [], [], planning.make_plan, Ledger.__init__

    def planned(*args):
        plans.append(args)
        return plan(*args)

    def opening(self, *args):
        ledgers.append(args)
        opened(self, *args)

    for module in list(sys.modules.values()):
        if vars(module).get("make_plan") is plan:
            monkeypatch.setattr(module, "make_plan", planned)
    for name in ("reserve", "measure", "publish", "seal"):
        work = getattr(charged_steps, name)
        monkeypatch.setattr(
            charged_steps, name, lambda *args, work=work, name=name: (taken.append(name), work(*args))[1]
        )
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "__init__", opening)
        run()
    assert kinds(people)[-1] == "RELEASED"
    assert len(plans) == 1
    assert len(ledgers) == 1
    assert taken == ["reserve", "measure", "publish", "seal"]
    by_prefect = request.node.callspec.params["run"] == "prefect"
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    begin = next(i for i, line in enumerate(shown) if line[:1] == ["Time"])
    said = {" ".join(line[:-2]): float(line[-2]) for line in shown[begin + 1 :]}
    assert list(said) == [*STAGES[:2], *["Prefect"] * by_prefect, *STAGES[2:]]
    assert abs(float(shown[begin][1]) - sum(said.values())) <= 0.05 * (len(said) + 1)
    if not by_prefect:
        return
    with get_client(sync_client=True) as client:
        (latest, *_) = client.read_flow_runs(limit=1, sort="START_TIME_DESC")
        tasks = client.read_task_runs(sort=TaskRunSort.EXPECTED_START_TIME_DESC)
    named = [task.name.rsplit("-", 1)[0] for task in tasks if task.flow_run_id == latest.id][::-1]
    assert named == ["plan", *(step.name for step in night.ORDER if step.name != "upload"), "report"]


def test_a_lost_computation_is_tried_again_by_both_runners(run, people, monkeypatch):
    hold, tries = ThreadCompute.hold, []

    def flaky(self, *args):
        tries.append(1)
        if len(tries) < 3:
            raise translate(RuntimeError("lost"))
        return hold(self, *args)

    monkeypatch.setattr(ThreadCompute, "hold", flaky)
    run()
    assert len(tries) == 3
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


def test_a_computation_that_stays_lost_ends_both_runners_with_nothing_held(run, people, monkeypatch):
    tries = []

    def lost(self, *args):
        tries.append(1)
        raise translate(RuntimeError("lost"))

    monkeypatch.setattr(ThreadCompute, "hold", lost)
    with pytest.raises(ComputeError):
        run()
    assert len(tries) == 3
    assert kinds(people) == ["BUDGET", "RESERVED", "VOID"]


def test_a_release_that_is_complete_opens_no_cluster_for_a_second_run(run, people, monkeypatch, capsys):
    run()
    monkeypatch.setattr(ThreadCompute, "__init__", lambda *_: pytest.fail("nothing is to be computed"))
    run()
    assert "This release is complete already" in capsys.readouterr().out
    assert kinds(people).count("RESERVED") == 1


def test_a_config_runs_through_prefect_under_whatever_name_its_file_has(people, monkeypatch, prefect):
    monkeypatch.setattr(night_commands.server, "at_hand", nullcontext)
    elsewhere = people.path.rename(people.path.with_name("People of the North.config"))
    night_commands.run(elsewhere, date=str(NIGHT))
    assert kinds(people)[-1] == "RELEASED"


def test_who_approved_stands_in_the_ledger_beside_who_ran(people):
    plan, ledger = planned(people)
    taken = []

    def recorded(name, work, retries=0):
        taken.append((name, retries))
        return work()

    said = conduct(attempt_of(plan, ledger, "process 1", "Ada", lambda *_: None), recorded)
    assert said == "Released people/covariance/2026-11-20."
    assert taken == [*((step.name, step.retries) for step in night.ORDER if step.name != "upload"), ("report", 0)]
    reserved = [entry for entry in ledger.history() if entry.kind == "RESERVED"]
    assert [entry.payload["attempt"] for entry in reserved] == ["process 1, approved by Ada"]


def test_small_work_of_a_local_cluster_starts_no_process(tmp_path, monkeypatch):
    loaded = support.prepare(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace('kind = "threads"', 'kind = "local"\nworkers = 3'))
    monkeypatch.setattr(clusters, "_start", lambda *_: pytest.fail("workers were started"))
    night_commands.run(loaded.path, date=str(NIGHT), no_prefect=True)
    assert kinds(loaded)[-1] == "RELEASED"


def test_the_stages_of_a_run_are_told_as_json_and_the_ledgers_calls_are_its_own_stage(people, monkeypatch, capsys):
    begun, found = [], []
    begin = night_commands.StageTimes.begin

    def beginning(self, stage):
        begun.append(stage)
        begin(self, stage)

    monkeypatch.setattr(night_commands.StageTimes, "begin", beginning)
    for name in ("reserve", "commit", "released"):
        work = getattr(Ledger, name)
        monkeypatch.setattr(
            Ledger, name, lambda *args, work=work, **kwargs: (found.append(begun[-1]), work(*args, **kwargs))[1]
        )
    night_commands.run(people.path, date=str(NIGHT), no_prefect=True, timings=True, as_json=True)
    assert list(json.loads(capsys.readouterr().out)["seconds"]) == STAGES
    assert found == ["ledger", "ledger", "ledger"]
