"""Workers elsewhere get work only over TLS, with this code, and with the memory that the plan counts on."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dask import delayed
from distributed.comm import CommClosedError

from blockveil.engine.answers import layout
from blockveil.engine.answers.graph import ExactGraph, exact_graph
from blockveil.flows.cluster import workers
from blockveil.flows.cluster.clusters import DistributedCompute
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.base.errors import ComputeError, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.publishing import find_published
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT

ROOT = Path(__file__).parents[3]

CLASS = """
kind = "class"
cluster_class = "dask_jobqueue.local.LocalCluster"
workers = {workers}
wait_minutes = 1
[cluster.arguments]
cores = 1
memory = "4GiB"
protocol = "{protocol}"
security = {security}
interface = "lo"
log_directory = "{folder}"
shared_temp_directory = "{folder}"
"""


def of_class(folder, protocol="tls://", security="true", workers=1, **changes):
    path = support.write_config(folder)
    section = CLASS.format(protocol=protocol, security=security, workers=workers, folder=folder)
    text = path.read_text().replace('kind = "threads"', section)
    for old, new in changes.items():
        text = text.replace(old, new)
    path.write_text(text)
    return load_config(path)


@pytest.mark.slow
def test_a_release_runs_on_a_cluster_of_a_class_that_is_not_ours(tmp_path):
    support.prepare(tmp_path)
    loaded = of_class(tmp_path)
    # By the command line: that package's own warnings are not errors there. It also waits for a log line of the worker.
    environment = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "info"}
    command = [
        "-c",
        "from blockveil.flows.cli import main; main()",
        "run",
        str(loaded.path),
        "--no-prefect",
        "--date",
        str(NIGHT),
    ]
    shown = subprocess.run(
        [sys.executable, *command], capture_output=True, timeout=120, check=False, cwd=ROOT, env=environment
    )
    assert shown.returncode == 0, shown.stderr.decode()
    assert find_published(loaded.output_root, make_plan(loaded, NIGHT).release_id) is not None


def test_a_class_that_cannot_be_imported_is_named(tmp_path):
    loaded = of_class(tmp_path, **{"dask_jobqueue.local.LocalCluster": "nowhere.Cluster"})
    with pytest.raises(ConfigError, match=r"nowhere\.Cluster.*cannot be imported"), open_compute(loaded):
        pass


def test_a_class_that_refuses_its_arguments_is_named_without_them(tmp_path):
    changes = {'interface = "lo"': 'token = "secret-token"', "dask_jobqueue.local.LocalCluster": "datetime.date"}
    loaded = of_class(tmp_path, **changes)
    with pytest.raises(ConfigError, match=r"does not take its arguments \(TypeError\)") as caught, open_compute(loaded):
        pass
    assert "secret-token" not in str(caught.value)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    loaded = support.prepare(folder, cluster="local")
    with open_compute(loaded) as compute:
        yield loaded, compute


@pytest.mark.parametrize("package", ["numpy", "distributed"])
def test_a_worker_with_another_package_is_refused_by_name_and_versions(local, monkeypatch, package):
    _, compute = local
    here = workers.version
    # The client's own side is changed: what workers report is theirs.
    monkeypatch.setattr(workers, "versions", lambda: {**ORIGINAL(), package: "0.0.1"})
    with pytest.raises(workers.ClusterUnfit, match=rf"{package} {here(package)} in place of 0\.0\.1"):
        workers.check(compute._client, 2**20)


ORIGINAL = workers.versions


def test_a_worker_with_other_code_is_refused(local, monkeypatch):
    _, compute = local
    monkeypatch.setattr(workers, "versions", lambda: {**ORIGINAL(), "blockveil": "0.1.0+other"})
    with pytest.raises(workers.ClusterUnfit, match="blockveil"):
        workers.check(compute._client, 2**20)


def test_a_worker_with_too_little_memory_is_refused(local):
    _, compute = local
    with pytest.raises(workers.ClusterUnfit, match=r"A worker has 4 GiB and .* memory_gib is 64"):
        workers.check(compute._client, 64 * 2**30)


def test_equal_workers_pass(local):
    _, compute = local
    workers.check(compute._client, 2**30)


def test_a_cluster_without_any_progress_is_given_up(local):
    _, compute = local
    impatient = DistributedCompute(compute._client, patience=0.3)
    leaf = delayed(time.sleep, pure=False)(2, dask_key_name="sleeps")
    with pytest.raises(ComputeError, match="Stalled"):
        impatient.hold(ExactGraph({"sleeps": leaf}, [leaf]), lambda _: None)
    with pytest.raises(ComputeError, match="Stalled"):
        impatient.stream([delayed(time.sleep, pure=False)(2, dask_key_name="sleeps too")], print, lambda _: None)


def test_progress_of_other_runs_on_the_cluster_is_no_sign_of_life(local):
    _, compute = local
    client, impatient = compute._client, DistributedCompute(compute._client, patience=0.5)
    leaf = delayed(time.sleep, pure=False)(3, dask_key_name="silent")

    def others():
        from distributed import get_worker

        for step in range(20):
            get_worker().log_event("blockveil-progress", ("of-another-run", step / 20))
            time.sleep(0.15)

    busy = client.submit(others, key="busy", pure=False)
    with pytest.raises(ComputeError, match="Stalled"):
        impatient.hold(ExactGraph({"silent": leaf}, [leaf]), lambda _: None)
    assert not busy.done()
    busy.cancel()


def test_a_full_disk_and_a_lost_connection_are_told_apart(local):
    _, compute = local

    def lose(number):
        raise OSError(number, "from a worker")

    def full(position, value):
        raise OSError(28, "No space left on device")

    with pytest.raises(ComputeError, match="BrokenPipeError"):
        compute.stream([delayed(lose, pure=False)(32, dask_key_name="loses")], print, lambda _: None)
    with pytest.raises(OSError, match="No space left"):
        compute.stream([delayed(int, pure=False)(3, dask_key_name="three")], full, lambda _: None)


class Flaky:
    """Records whose store fails one read in three, and never twice for good."""

    def __init__(self, values):
        self.values, self.shape, self.reads = values, values.shape, 0

    def __getitem__(self, key):
        self.reads += 1
        if self.reads % 3 == 0:
            raise OSError("the store does not answer")
        return self.values[key]


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_a_store_that_fails_now_and_then_is_read_again(tmp_path, kind):
    loaded = support.prepare(tmp_path, kind=kind)
    plan, source = make_plan(loaded, NIGHT), support.records()
    work = plan.answer.work(400)
    cut = layout.summed(work.tiles, ((0,),), [(0, 200), (200, 400)])
    flaky, compute = Flaky(source), ThreadCompute(1)
    found = compute.hold(exact_graph(flaky, plan.question.query, cut, 10, "flaky"), lambda _: None)
    steady = compute.hold(exact_graph(source, plan.question.query, cut, 10, "steady"), lambda _: None)
    assert flaky.reads > 40
    assert np.array_equal(found[0], steady[0])


def test_a_store_that_always_fails_ends_the_run_with_the_kind_alone(tmp_path):
    loaded = support.prepare(tmp_path)
    plan = make_plan(loaded, NIGHT)

    class Broken(Flaky):
        def __getitem__(self, key):
            raise OSError(f"cannot read {support.CANARY}")

    cut = layout.summed(plan.answer.work(400).tiles, ((0,),), [(0, 400)])
    with pytest.raises(ComputeError, match="OSError") as caught:
        ThreadCompute(1).hold(
            exact_graph(Broken(support.records()), plan.question.query, cut, 50, "broken"), lambda _: None
        )
    assert str(support.CANARY) not in str(caught.value)


def test_a_worker_that_leaves_while_it_is_asked_is_not_taken_for_one_with_other_code():
    gone = CommClosedError("its address and more")
    workers._compare({"a": "1.0", "b": gone}, {"zarr": "1.0"}, "zarr")
    with pytest.raises(workers.ClusterUnfit, match="zarr none in place of"):
        workers._compare({"a": "1.0", "b": ModuleNotFoundError("zarr")}, {"zarr": "1.0"}, "zarr")
