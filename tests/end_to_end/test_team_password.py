"""A team's server and its worker: what the holder of the server's password can make the worker do, and what not.

Whatever is written to the server, the worker's machine runs the reviewed folder alone: no other code, no other loss, no
second charge, no approval in an officer's place. What the password allows is in docs/operations.md.
"""

import json
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import count
from urllib.error import HTTPError
from uuid import uuid4

import pytest
from prefect.input.run_input import keyset_from_base_key

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.keys import KeyStore
from tests.end_to_end import forked, held
from tests.end_to_end.served import deploy, server_alone, worker_of
from tests.house import support
from tests.pipeline.plan.test_signed_approval import ASKED, approve
from tests.pipeline.verification.test_signed_releases import key_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NIGHT = """
[[night]]
config = "{name}"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "skip"
"""
BUDGET = ["BUDGET"]
WHOLE = ["RESERVED", "COMMITTED", "RELEASED"]
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Team:
    """The server, a worker with a home of its own, and who knows the password.

    Parameters
    ----------
    folder
        The reviewed folder of the worker; beside it lies what the attacker would like to have run or written.
    served, worker
        Server and worker, as :mod:`tests.end_to_end.served` has them.
    """

    def __init__(self, folder, served, worker, officer):
        self.folder, self.served, self.worker, self.pwned = folder, served, worker, folder / "PWNED"
        self.officer = officer
        self.loaded = {name: load_config(folder / f"{name}.toml") for name in ("people", "signed")}
        self.ledger = Ledger(self.loaded["people"].ledger_url)
        self._days = count()
        self.script = {"prefect.deployments.steps.run_shell_script": {"script": f"id > {self.pwned}"}}
        self.command = {
            "command": f"sh -c 'id > {self.pwned}'",
            "env": {"PYTHONPATH": str(folder), "PYTHONSTARTUP": str(folder / "evil.py")},
        }
        (folder / "evil.py").write_text(f"open({str(self.pwned)!r}, 'w').write('evil')\n")

    def day(self):
        """A date that no other test has."""
        return date(2026, 1, 1) + timedelta(days=next(self._days))

    def ask(self, path, body=None, method=None):
        """One request of who has the password."""
        return self.served.ask(path, body, method)

    def block(self, kind, **data):
        """A block of Prefect's own types on the server; its number."""
        made = self.ask(f"/block_types/slug/{kind}")
        (schema, *_) = self.ask("/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [made["id"]]}}})
        body = {"name": f"a{uuid4().hex}", "data": data, "block_schema_id": schema["id"], "block_type_id": made["id"]}
        return self.ask("/block_documents/", body)["id"]

    def state(self, run, state, **more):
        """Write a state of a run, as only somebody with the password can."""
        return self.ask(f"/flow_runs/{run}/set_state", {"state": {"type": state, **more}, "force": True})

    def fire(self, actions, done):
        """Make an automation of somebody else and send its event, until it has done something, and a little longer."""
        event = f"evil.{uuid4().hex}"
        trigger = {"type": "event", "expect": [event], "posture": "Reactive", "threshold": 1, "within": 0}
        made = self.ask("/automations/", {"name": event, "trigger": trigger, "actions": actions})["id"]

        def sent():  # again, for the part of the server that looks at events may not know of it yet
            now = datetime.now(UTC).isoformat()
            about = {"resource": {"prefect.resource.id": "evil"}, "id": str(uuid4()), "occurred": now}
            self.ask("/events", [{"event": event, **about}])
            time.sleep(3)
            return done()

        self.served.wait(sent, "the automation does nothing")
        time.sleep(3)
        self.ask(f"/automations/{made}", method="DELETE")

    @contextmanager
    def held(self, day):
        """A run of a night that stands still, its charge committed; what its process does then is waited for."""
        place = self.folder / "held"
        for file in place.iterdir():
            file.unlink()
        (place / "hold").touch()
        run = self.served.run("release/people", logical_date=str(day))
        self.served.wait((place / "reached").exists, "the night does not begin")
        yield run
        (place / "go").touch()

    def kinds(self, day=None, name="people"):
        """Entries of the ledger, all or those of a date."""
        release_id = None if day is None else f"people/{'covariance' if name == 'people' else 'signed'}/{day}"
        assert self.ledger.verify().problems == []
        return [entry.kind for entry in self.ledger.history(release_id=release_id)]

    def nothing_happened(self, before):
        """No code ran, nothing was charged, no secret is in what the server or the worker's log has."""
        assert not self.pwned.exists(), self.pwned.read_text()
        assert self.kinds() == before
        self.nothing_leaked()

    def put_right(self):
        """What an operator does once the server was changed."""
        assert deploy(self.folder, self.served.url, self.served.login).exit_code == 0

    def nothing_leaked(self):
        said = self.worker.log.read_text() + json.dumps(self.ask("/logs/filter", {"limit": 200}))
        assert str(support.CANARY)[:9] not in said
        assert self.served.login.partition(":")[2] not in said
        assert KeyStore(self.loaded["people"].keys_root).list() == []


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("PREFECT_WORKER_QUERY_SECONDS", "1")
        patch.setenv(held.PLACE, str(folder / "held"))
        (folder / "held").mkdir()
        loaded = support.prepare(folder, budget=100.0)
        officer = key_file(folder / "officer.pem")
        text = loaded.path.read_text().replace('name = "covariance"', 'name = "signed"')
        (folder / "signed.toml").write_text(text + ASKED.replace("0.01", "1e-9"))
        (folder / "deployments.toml").write_text("".join(NIGHT.format(name=name) for name in ("people", "signed")))
        home = folder / "home of the worker"
        home.mkdir(mode=0o700)
        with server_alone(folder / "home") as served:
            assert deploy(folder, served.url, served.login).exit_code == 0
            with worker_of(served, folder, home, forked.command("tests.end_to_end.held")) as worker:
                yield Team(folder, served, worker, officer)


def released(team, day, name="people"):
    """The night is released by the worker, at one charge."""
    state = team.served.state(team.served.run(f"release/{name}", logical_date=str(day)))
    assert state["type"] == "COMPLETED", state
    assert team.kinds(day, name)[-3:] == WHOLE
    assert team.kinds(day, name).count("COMMITTED") == 1


CHANGES = {
    "release/people": lambda team: {"pull_steps": [team.script]},
    "release/signed": lambda team: {"entrypoint": f"{team.folder}/evil.py:release", "path": str(team.folder)},
    "release/by-hand": lambda team: {"entrypoint": "evil.release", "job_variables": team.command},
    "plan/people": lambda team: {"storage_document_id": team.block("local-file-system", basepath=str(team.folder))},
    "plan/signed": lambda team: {"enforce_parameter_schema": False, "parameters": {"budget_of": "../evil"}},
}
"""What somebody makes of each deployment."""


def test_deployments_that_somebody_has_changed_or_made_are_refused_by_the_worker(team):
    before, runs = team.kinds(), {}
    for name, change in CHANGES.items():
        deployment = team.served.deployment(name)
        team.ask(f"/deployments/{deployment}", change(team), "PATCH")
        body = {"parameters": {}, "enforce_parameter_schema": False}
        runs[name] = team.ask(f"/deployments/{deployment}/create_flow_run", body)["id"]
    version = team.ask("/deployments/name/release/people")["version"]
    for flow, pinned in (("evil", version), ("release", version), ("release", None)):
        name = f"of-another-{uuid4().hex}"
        made = team.ask("/deployments/", {
            "name": name, "flow_id": team.ask("/flows/", {"name": flow})["id"], "version": pinned,
            "entrypoint": f"{team.folder}/evil.py:release", "path": str(team.folder), "pull_steps": [team.script],
            "work_pool_name": "blockveil", "tags": ["blockveil", "dataset:people"],
        })["id"]  # fmt: skip
        runs[name] = team.ask(f"/deployments/{made}/create_flow_run", {})["id"]
    for name, run in runs.items():
        state = team.served.state(run)
        assert state["name"] == "NotReviewed", (name, state)
    team.nothing_happened(before)
    team.put_right()


FORMS = {
    "a template": {"logical_date": {"__prefect_kind": "jinja", "template": "{{ 7 * 7 }}"}},
    "a variable": {"release": {"__prefect_kind": "workspace_variable", "variable_name": "evil"}},
    "a block": {"overrides": {"$ref": {"block_document_id": "BLOCK"}}},
    "text of JSON": {"overrides": {"__prefect_kind": "json", "value": '{"privacy.epsilon": "100"}'}},
    "another loss": {"overrides": {"privacy.epsilon": "100"}},
    "another place": {"overrides": {"output.root": '"/tmp"'}},
    "another scheduler": {"overrides": {"cluster.address": '"tcp://127.0.0.1:1"', "cluster.kind": '"address"'}},
    "a path for a name": {"release": "../evil"},
    "another field": {"approve": "A. Officer"},
}


def test_forms_with_templates_variables_blocks_and_another_loss_are_refused_however_a_run_is_made(team):
    """Whether the server fills them in or hands them on: what reaches the worker is none of the form."""
    before, deployment = team.kinds(), team.ask("/deployments/name/release/people")
    team.ask("/variables/", {"name": f"evil{uuid4().hex}", "value": "../evil"})
    text = json.dumps({what: {**deployment["parameters"], **values} for what, values in FORMS.items()})
    forms = json.loads(text.replace("BLOCK", team.block("secret", value="../evil")))
    runs = {}
    for number, (what, form) in enumerate(forms.items()):
        for make in (by_deployment, beside_deployment)[: 1 + number % 2]:
            try:
                runs[make(team, deployment, form)] = what
            except HTTPError as refused:  # by the server itself
                if refused.code not in (400, 409, 422):
                    raise
    alone = {"release": "people", "mode": "release", "logical_date": str(team.day())}
    actions = [{"parameters": forms[what]} for what in ("another loss", "another place")]
    actions += [{"parameters": alone, "job_variables": team.command}]
    runs |= dict.fromkeys(by_automation(team, deployment, actions), "an automation")
    assert {"another loss", "another place", "an automation"} <= {*runs.values()}
    for run, what in runs.items():
        state = team.served.state(run)
        assert state["type"] == "FAILED", (what, state)
    team.nothing_happened(before)


def by_deployment(team, deployment, form):
    body = {"parameters": form, "enforce_parameter_schema": False}
    return team.ask(f"/deployments/{deployment['id']}/create_flow_run", body)["id"]


def beside_deployment(team, deployment, form):
    """A run that is made without the route of its deployment, so that the server replaces nothing in its form."""
    body = {"flow_id": deployment["flow_id"], "deployment_id": deployment["id"], "parameters": form}
    place = {"work_pool_name": "blockveil", "work_queue_name": "default", "state": {"type": "SCHEDULED"}}
    return team.ask("/flow_runs/", {**body, **place})["id"]


def by_automation(team, deployment, actions):
    """Runs that an automation of somebody else makes, which fires at an event that they send."""
    known = set(runs_of(team, deployment))
    usual = {"type": "run-deployment", "source": "selected", "deployment_id": deployment["id"]}
    team.fire([{**usual, **action} for action in actions], lambda: set(runs_of(team, deployment)) - known)
    return [run for run in runs_of(team, deployment) if run not in known]


def runs_of(team, deployment):
    body = {"deployments": {"id": {"any_": [deployment["id"]]}}, "sort": "EXPECTED_START_TIME_DESC", "limit": 200}
    return [run["id"] for run in team.ask("/flow_runs/filter", body) if not run["auto_scheduled"]]


def deleted(team, run):
    team.ask(f"/flow_runs/{run}", method="DELETE")


def called(state):
    return lambda team, run: team.state(run, state)


def without_limits(team, run):
    for limit in team.ask("/v2/concurrency_limits/filter", {}):
        team.ask(f"/v2/concurrency_limits/{limit['id']}", method="DELETE")


FORGED = {
    "deleted": deleted,
    "called completed": called("COMPLETED"),
    "called scheduled": called("SCHEDULED"),
    "without limits": without_limits,
}


def test_whatever_somebody_makes_of_a_run_at_work_its_night_is_charged_once_and_released(team):
    for what, forge in FORGED.items():
        day = team.day()
        with team.held(day) as run:
            forge(team, run)
            again = team.served.run("release/people", logical_date=str(day))  # beside it, where no turn is waited for
            time.sleep(5)
        team.served.wait(lambda day=day: team.kinds(day)[-1:] == ["RELEASED"], f"no release: {what}")
        assert team.kinds(day) == WHOLE, what
        assert team.served.state(again)["type"] == "COMPLETED", what
        assert team.kinds(day) == WHOLE, what
    team.put_right()
    team.nothing_leaked()


def test_neither_an_answer_nor_a_resumption_that_somebody_writes_stands_for_a_signature(team):
    day = team.day()
    plan = make_plan(team.loaded["signed"], day)
    key = budgets.approval_needed(plan, Ledger(plan.loaded.ledger_url)).key
    run = team.served.run("release/signed", logical_date=str(day))
    team.served.state(run, "Suspended")
    answer = json.dumps({"decision": "approve", "name": "A. Officer"})
    names = keyset_from_base_key(f"suspended-{key}")
    for name, value in ((names["response"], answer), (names["response"] + "-2", answer)):
        team.ask(f"/flow_runs/{run}/input", {"key": name, "value": value})
    team.ask(f"/flow_runs/{run}", {"empirical_policy": {"pause_keys": [key], "resuming": True}}, "PATCH")
    team.state(run, "SCHEDULED", name="Resuming")
    assert team.served.state(run)["name"] == "NotApproved"
    other = team.served.run("release/signed", logical_date=str(day))
    team.served.state(other, "Suspended")
    team.fire([{"type": "resume-flow-run", "flow_run_id": other}], lambda: True)
    team.state(other, "RUNNING")
    team.state(other, "COMPLETED", name="Released")
    assert team.kinds(day, "signed") == []
    approve(team.loaded["signed"], team.officer, day)
    released(team, day, "signed")


def test_nothing_of_a_run_is_written_where_the_server_would_like_it(team):
    stolen, deployment = team.folder / "stolen", "release/people"
    block = team.block("local-file-system", basepath=str(stolen))
    team.ask("/admin/storage", {"default_result_storage_block_id": block}, "PUT")
    step = {"blockveil.evil": {"script": f"id > {team.pwned}"}}
    storage = {"bundle_upload_step": step, "bundle_execution_step": step, "default_result_storage_block_id": block}
    template = {"job_configuration": team.command, "variables": {"type": "object", "properties": {}}}
    team.ask("/work_pools/blockveil", {"base_job_template": template, "storage_configuration": storage}, "PATCH")
    released(team, team.day())
    assert not stolen.exists()
    assert not team.pwned.exists()
    assert team.ask(f"/deployments/name/{deployment}")


def test_a_worker_goes_on_where_its_pool_was_deleted_and_is_there_again(team):
    team.ask("/work_pools/blockveil", method="DELETE")
    time.sleep(5)
    team.put_right()
    released(team, team.day())
    team.nothing_leaked()
