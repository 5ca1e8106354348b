"""Each name that Prefect may take away does what the service needs: the first test that fails says which one moved."""

import asyncio
import inspect
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from packaging.version import Version
from prefect import flow
from prefect.deployments.runner import RunnerDeployment

from blockveil.flows.base import prefect_internals
from blockveil.flows.base.prefect_internals import NAMES, Execution, PrefectMoved

ROOT = Path(__file__).resolve().parents[3]
LOOK = "look at flows/base/prefect_internals.py, and at decision 28 for what replaces it"


@pytest.mark.parametrize("module", NAMES)
def test_the_module_has_what_is_taken_from_it(module):
    taken = __import__(module, fromlist=["_"])
    text = inspect.getsource(taken)
    for name in NAMES[module]:
        assert re.search(rf"\b{name}\b", text), f"{module} has no {name} any more: {LOOK}"


def surroundings(proposed):
    """What the executor of a run needs, without a server."""
    from prefect.runner._control_channel import ControlChannel  # noqa: TID251 - in place of a whole context
    from prefect.runner._process_manager import ProcessManager  # noqa: TID251

    async def nothing(number):
        return None

    async def crashed(run, message):
        proposed.append(message)

    async def submitting(run):
        return True

    context = object.__new__(prefect_internals._take("prefect.runner._flow_run_executor", "FlowRunExecutorContext"))
    context.process_manager = ProcessManager(on_add=nothing, on_remove=nothing)
    context.control_channel = ControlChannel()
    context._cancellation_manager = SimpleNamespace()
    context._state_proposer = SimpleNamespace(propose_crashed=crashed, propose_submitting=submitting)
    return context


def executed(script, folder, on_crash, during=None):
    """Run a script as the process of a run, with something beside it."""
    run, proposed = SimpleNamespace(id=uuid4(), state=None), []

    async def all_of_it():
        context = surroundings(proposed)
        async with context.process_manager, context.control_channel:
            execution = Execution(context)
            env = {"OURS": "here"}
            command = f"{sys.executable} -P -c '{script}'"
            work = asyncio.ensure_future(execution.run(run, command, folder, env, on_crash))
            if during is not None:
                await during(execution, run.id)
            await asyncio.wait_for(work, 60)

    asyncio.run(all_of_it())
    return run, proposed


def test_the_executor_asks_what_is_put_in_the_place_of_its_proposer_when_a_process_dies(tmp_path):
    asked = []

    async def on_crash(run, message, crash):
        asked.append((run.id, message))
        await crash()

    run, proposed = executed("raise SystemExit(7)", tmp_path, on_crash)
    assert [number for number, _ in asked] == [run.id], f"FlowRunExecutorContext asks another proposer: {LOOK}"
    assert "status code: 7" in asked[0][1]
    assert proposed == [asked[0][1]], "what marks a run as crashed is Prefect's own"


def test_the_starter_gives_a_process_its_folder_the_number_of_its_run_and_our_environment(tmp_path):
    script = 'import os; e = os.environ; print(e["PREFECT__FLOW_RUN_ID"], e["OURS"], os.getcwd(), file=open("a", "w"))'
    run, _ = executed(script, tmp_path, None)
    said = (tmp_path / "a").read_text().split()
    assert said == [str(run.id), "here", str(tmp_path)], f"EngineCommandStarter starts it otherwise: {LOOK}"


WAITS = """
import time
from pathlib import Path
from prefect.utilities.engine import capture_sigterm
from blockveil.flows.base import prefect_internals
prefect_internals.listen_for_the_end()
with capture_sigterm():
    Path("ready").touch()
    time.sleep(60)
"""


def test_a_process_that_listens_hears_that_it_shall_end(tmp_path):
    heard = []

    async def during(execution, number):
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0.1)
        assert execution.has_process(number)
        heard.append((await execution._context.control_channel.signal(number, "cancel")).name)
        await execution.end(number, 5)

    async def on_crash(run, message, crash):
        return None

    executed(WAITS, tmp_path, on_crash, during)
    assert heard == ["ACKNOWLEDGED"], f"configure_from_env does not connect a process with who started it: {LOOK}"


def test_the_form_of_a_deployment_is_what_it_is_set_to():
    @flow
    def night(date: str):
        pass

    made = RunnerDeployment.from_flow(night, name="a", version_type=prefect_internals.SIMPLE)
    field = prefect_internals.form(made).properties["date"]
    prefect_internals.set_form(made, properties={"date": {**field, "enum": ["b"]}})
    sent = made._parameter_openapi_schema.model_dump()["properties"]["date"]
    assert sent["enum"] == ["b"], f"_parameter_openapi_schema is not the form: {LOOK}"
    assert made.version_type is not None
    assert made.version_type.name == "SIMPLE"


def test_the_application_of_a_server_can_be_made_for_good():
    made = inspect.signature(prefect_internals._take("prefect.server.api.server", "create_app"))
    assert "final" in made.parameters, f"create_app makes servers otherwise: {LOOK}"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_times_of_a_schedule_are_those_of_the_server(zone):
    calendar = prefect_internals.cron_schedule("30 2 * * *", zone)
    start, end = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)
    found = [at.date().day for at in asyncio.run(calendar.get_dates(9, start=start, end=end))]
    assert found == [1, 2], f"CronSchedule plans otherwise: {LOOK}"


@pytest.mark.parametrize("lost", ["module", "name"])
def test_a_prefect_that_has_moved_a_name_is_refused_before_anything_starts(tmp_path, monkeypatch, lost):
    prefect_internals.require()
    module = "prefect.runner._starter_engine"
    for name, words in NAMES.items():
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name != module or lost == "name":
            path.write_text("other = 1" if name == module else " ".join(words))
    (tmp_path / "prefect" / "__init__.py").write_text("")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "prefect")])
    monkeypatch.setattr(prefect_internals, "find_spec", lambda _: spec)
    refused = f'no EngineCommandStarter in {re.escape(module)}.*pip install "prefect=={prefect_internals.LOCKED}"'
    with pytest.raises(PrefectMoved, match=f"(?s){refused}"):
        prefect_internals.require()


def test_a_name_that_cannot_be_imported_is_refused_in_the_same_words():
    with pytest.raises(PrefectMoved, match=r"no Absent in prefect\.runner"):
        prefect_internals._take("prefect.runner", "Absent")


def test_the_version_that_a_refusal_offers_is_that_of_the_lock():
    line = re.search(r"^prefect==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert Version(line[1]) == Version(prefect_internals.LOCKED)


@pytest.mark.parametrize("name", ["_parameter_openapi_schema", "_client._", "._client.request", "_state_proposer"])
def test_no_other_file_takes_private_attributes_of_prefect(name):
    others = [path for path in (ROOT / "flows").rglob("*.py") if path.name != "prefect_internals.py"]
    assert len(others) > 50  # so that it looks where the flows are
    assert [path.name for path in others if name in path.read_text()] == []
