"""Whether the installed Prefect, SQLAlchemy and whenever plan runs together; where not, only a log says so."""

import httpx
import pytest
from prefect import get_client
from prefect.client.base import PrefectHttpxSyncClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.exceptions import PrefectHTTPStatusError

from blockveil.flows.service import deployments
from blockveil.flows.service.server import ServerFailed
from blockveil.pipeline.config.deployments_file import load_deployments
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "skip"
"""


@pytest.fixture
def registered(tmp_path, prefect):
    """The deployment of a night on the test server, and its number by its name."""
    support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    made = [each for each in deployments.build(load_deployments(tmp_path)) if each.full_name == "release/people"]
    return made, deployments.register(made)


def planned(numbers):
    """Times of the runs that are planned; the server's own scheduler may have planned some meanwhile."""
    wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=list(numbers.values())))
    with get_client(sync_client=True) as client:
        return [run.expected_start_time for run in client.read_flow_runs(flow_run_filter=wanted)]


def test_the_installed_versions_plan_the_next_run_once_and_nothing_that_is_paused(registered, monkeypatch):
    made, numbers = registered
    sent, asked = PrefectHttpxSyncClient.send, []

    def note(client, request, *words, **more):
        asked.append(request.url.path.rpartition("/")[2])
        return sent(client, request, *words, **more)

    monkeypatch.setattr(PrefectHttpxSyncClient, "send", note)
    made[0].paused = True
    deployments.require_schedule(made, numbers)
    assert "schedule" not in asked
    made[0].paused = False
    deployments.require_schedule(made, numbers)
    deployments.require_schedule(made, numbers)
    times = planned(numbers)
    assert asked.count("schedule") == 2
    assert len(times) == len(set(times)) >= 1


def test_a_server_whose_scheduler_fails_is_refused(registered, monkeypatch):
    answered = PrefectHttpxSyncClient.send

    def fail(client, request, *words, **more):
        if request.url.path.endswith("/schedule"):
            answer = httpx.Response(500, request=request)
            raise PrefectHTTPStatusError("failed", request=request, response=answer)
        return answered(client, request, *words, **more)

    monkeypatch.setattr(PrefectHttpxSyncClient, "send", fail)
    with pytest.raises(ServerFailed, match=r"cannot plan runs of release/people.*SQLAlchemy 2\.1"):
        deployments.require_schedule(*registered)
