"""Commands for operators: approval on the command line, pruning, and servers that are not named."""

from datetime import date

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import night
from blockveil.pipeline.releases.compute import ThreadCompute
from tests.end_to_end.served import free_port
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "UTC"
mode = "release"
missed_nights = "all"
"""


def blockveil(*words):
    """Run a command in this process; its errors are raised as they are."""
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


@pytest.fixture
def site(tmp_path):
    loaded = support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    return loaded


def test_a_costly_release_on_the_command_line_needs_a_name_which_the_ledger_keeps(site):
    site.path.write_text(site.path.read_text() + "\n[approval]\nthreshold_share = 0.05\n")
    command = ("run", site.path, "--no-prefect", "--date", "2026-11-20")
    with pytest.raises(NotApproved, match="of what is left") as refused:
        blockveil(*command)
    assert refused.value.exit_code == 11
    assert "--approve NAME" in str(refused.value)
    assert [entry.kind for entry in Ledger(site.ledger_url).history()] == ["BUDGET"]
    done = blockveil(*command, "--approve", "Ada")
    assert done.exit_code == 0, done.output
    (reserved,) = (entry for entry in Ledger(site.ledger_url).history() if entry.kind == "RESERVED")
    assert reserved.payload["attempt"].endswith("approved by Ada")
    assert blockveil(*command).exit_code == 0, "finishing what is charged asks nobody"


def test_pruning_shows_first_and_removes_only_when_told(site):
    for day in (10, 11):
        plan = make_plan(site, date(2020, 11, day))
        night.run_release(plan, ThreadCompute(1), "test", lambda *_: None)
    folder = site.output_root / "people" / "covariance"
    shown = blockveil("service", "prune", site.base, "--keep-days", "30")
    assert "people/covariance/2020-11-10" in shown.output
    assert "1 releases" in shown.output
    assert "would be removed" in shown.output
    assert (folder / "2020-11-10.json").exists()
    done = blockveil("service", "prune", site.base, "--keep-days", "30", "--apply")
    assert "removed" in done.output
    assert not (folder / "2020-11-10.json").exists()
    assert (folder / "2020-11-11.json").exists()


@pytest.mark.parametrize("command", ["serve", "service deploy", "service metrics", "service prune"])
def test_a_folder_without_a_deployments_file_is_refused_by_every_command(command, tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        blockveil(*command.split(), tmp_path)


@pytest.mark.parametrize("command", ["service deploy", "service catch-up"])
def test_what_needs_a_permanent_server_refuses_to_work_without_one(command, site):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from blockveil.flows.service.server import ServerFailed

    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(ServerFailed, match="PREFECT_API_URL"):
        blockveil(*command.split(), site.base)


@pytest.mark.parametrize("command", ["service deploy", "service catch-up"])
def test_a_server_that_does_not_answer_is_told_in_words(command, site):
    import socket

    from prefect.settings import PREFECT_API_URL, temporary_settings

    from blockveil.flows.service.server import ServerFailed

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/api"
    with temporary_settings({PREFECT_API_URL: address}), pytest.raises(ServerFailed, match="Nobody answers at"):
        blockveil(*command.split(), site.base)


def test_a_run_that_no_server_recorded_is_told_why(site):
    import http.server
    import threading

    from prefect.settings import PREFECT_API_URL, temporary_settings

    from blockveil.flows.service.named_server import why_not_recorded

    class LoginWanted(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(401)
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - the name that http.server calls

        def log_message(self, *words):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), LoginWanted) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{served.server_port}/api"}):
            found, _, remedy = why_not_recorded(RuntimeError("secret"), "give --no-prefect")
        served.shutdown()
        thread.join()
    assert "does not let this command in (401)" in found
    assert remedy.startswith("Set PREFECT_API_AUTH_STRING")
    assert remedy.endswith("run again (what was done is resumed), or give --no-prefect")
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        found, rule, _ = why_not_recorded(RuntimeError("secret"), "give --no-prefect")
    assert found == "Prefect failed with RuntimeError"
    assert "else a temporary one" in rule


def test_a_server_of_metrics_that_finds_its_port_taken_says_so(site):
    import socket

    from blockveil.flows.service.server import ServerFailed

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ServerFailed, match="cannot be listened at"),
    ):
        blockveil("service", "metrics", site.base, "--port", taken.getsockname()[1])


def test_a_deployment_file_of_prefect_itself_would_lose_the_forms(site):
    from prefect.cli.deploy._models import DeploymentConfig
    from prefect.utilities.callables import parameter_schema

    from blockveil.flows.runs.plan_flow import plan
    from blockveil.flows.runs.release_flow import release
    from blockveil.flows.service import deployments
    from blockveil.pipeline.config.deployments_file import load_deployments

    assert not [field for field in DeploymentConfig.model_fields if "schema" in field and "enforce" not in field]
    assert "enum" not in parameter_schema(release).properties["release"]
    assert "\\p{" in str(parameter_schema(plan).definitions)
    made = {each.full_name: each._parameter_openapi_schema for each in deployments.build(load_deployments(site.base))}
    assert made["release/by-hand"].properties["release"]["enum"] == ["people"]
    assert "\\p{" not in str(made["plan/people"].definitions)


@pytest.mark.slow
def test_the_lock_of_leases_that_a_killed_server_left_is_gone_before_the_next_one_starts(tmp_path, monkeypatch):
    from blockveil.flows.service import server

    lock = tmp_path / "concurrency_leases" / "expirations.lock"
    lock.parent.mkdir()
    lock.write_text("1")  # a process that lives, and is no Prefect server: it would be waited for for ever
    monkeypatch.setattr(server, "START_SECONDS", 0.0)
    with (
        pytest.raises(server.ServerFailed, match="did not come up"),
        server.running("127.0.0.1", free_port(), tmp_path / "server.log", "ops:a login"),
    ):
        pass
    assert not lock.exists()
