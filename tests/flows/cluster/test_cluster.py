"""The Dask cluster: one key where tasks run and nowhere else, progress, errors without text, private scratch."""

import multiprocessing
import os
import pickle
import signal
import socket
import ssl
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import dask
import numpy as np
import pytest
from dask import delayed
from distributed.comm import CommClosedError

from blockveil.engine.answers import layout
from blockveil.engine.answers.graph import ExactGraph, exact_graph
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.base import private_log
from blockveil.flows.cluster import clusters, scratch, workers
from blockveil.flows.cluster.clusters import DistributedCompute
from blockveil.flows.cluster.computing import open_compute
from blockveil.flows.cluster.distributed_compute import Paced
from blockveil.pipeline.base.errors import ComputeError, DataError, KeyLost, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT, run

SECRET = bytes(range(200, 232))


def in_threads(loaded):
    """The same config, whose work threads of the process do."""
    path = loaded.path.with_name("threads.toml")
    path.write_text(loaded.path.read_text().replace(support.CLUSTERS["local"], support.CLUSTERS["threads"]))
    return load_config(path)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    loaded = support.prepare(folder, cluster="local")
    with open_compute(loaded) as compute:
        yield loaded, compute


def test_workers_import_nothing_from_the_folder_in_which_a_run_is_started(tmp_path, monkeypatch):
    loaded, strange, pwned = support.prepare(tmp_path, cluster="local"), tmp_path / "strange", tmp_path / "pwned"
    strange.mkdir()
    for name in ("multiprocessing", "logging", "distributed", "sitecustomize"):
        (strange / f"{name}.py").write_text(f"open({str(pwned)!r}, 'a').write('{name} ')\nraise SystemExit\n")
    monkeypatch.chdir(strange)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with open_compute(loaded) as compute:
        assert len(compute._client.run(os.getpid)) == 2
    assert not pwned.exists(), pwned.read_text()
    assert "PYTHONSAFEPATH" not in os.environ, "what a program starts afterwards is as before"


def scheduler_dump(client):
    """Everything the scheduler knows of tasks, and of plugins."""

    def dump(dask_scheduler):
        import cloudpickle

        tasks = dask_scheduler.tasks
        seen = [
            repr(list(tasks)),
            repr([dask_scheduler.story(key) for key in tasks]),
            repr([(task.exception_text, task.traceback_text) for task in tasks.values()]),
        ]
        specs = [cloudpickle.dumps(task.run_spec) for task in tasks.values()]
        return "".join(seen).encode() + b"".join(specs), pickle.dumps(dask_scheduler.worker_plugins)

    logs = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
    tasks, plugins = client.run_on_scheduler(dump)
    return tasks + logs.encode(), plugins


def forms(secret):
    return [secret, secret.hex().encode(), repr(secret).encode()]


def graph(loaded, name):
    plan = make_plan(loaded, NIGHT)
    source = support.records()
    cut = cut_of(plan, layout.row_ranges(len(source), 50, 8))
    return plan, cut, exact_graph(source, plan.question.query, cut, 50, name)


def cut_of(plan, ranges):
    tiles = layout.grid(plan.answer.work(400).shape, True, 1, 2)
    return layout.summed(tiles, layout.grouped(tiles, 2), ranges)


def test_the_total_stays_on_the_cluster_and_the_key_is_in_no_task(setting):
    loaded, compute = setting
    assert isinstance(compute, DistributedCompute)
    client, shares = compute._client, []
    plan, cut, exact = graph(loaded, "stays")
    held = compute.hold(exact, shares.append)
    assert not any(isinstance(tile, np.ndarray) for tile in held)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    compute.install("stays", NoiseKey(SECRET))
    try:
        released = support.whole(compute, held, cut, plan, "stays", "stays")
        tasks, _ = scheduler_dump(client)
        assert not any(form in tasks for form in forms(SECRET))
    finally:
        compute.forget("stays")
    tasks, plugins = scheduler_dump(client)
    assert not any(form in tasks + plugins for form in forms(SECRET))
    assert set(client.run(lambda: len(keyring._keys)).values()) == {0}
    assert released.shape == (plan.design.width, plan.design.width)


def test_no_part_lets_in_who_lacks_the_certificate_of_the_run_and_none_serves_pages(setting):
    found = setting[1]._client.scheduler_info(n_workers=-1)
    parts = [found["address"], *found["workers"], *(worker["nanny"] for worker in found["workers"].values())]
    assert len(parts) == 5
    asking = ssl.create_default_context()
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE  # whoever answers, it is asked for nothing more
    for part in map(urlsplit, parts):
        assert (part.scheme, part.hostname) == ("tls", "127.0.0.1")
        with (
            socket.create_connection((part.hostname, part.port), 30) as plain,
            pytest.raises(ssl.SSLError, match="certificate required"),
            asking.wrap_socket(plain) as inside,
        ):
            inside.recv(1)
    assert [found["services"], *(worker["services"] for worker in found["workers"].values())] == [{}] * 3


def test_records_of_a_single_range_are_released_too(setting):
    loaded, compute = setting
    plan = make_plan(loaded, NIGHT)
    source = support.records()
    cut = cut_of(plan, [(0, len(source))])
    exact = exact_graph(source, plan.question.query, cut, 50, "single")
    held = compute.hold(exact, lambda share: None)
    compute.install("single", NoiseKey(SECRET))
    try:
        released = support.whole(compute, held, cut, plan, "single", "single")
    finally:
        compute.forget("single")
    assert released.shape == (plan.design.width, plan.design.width)


def test_releases_that_share_a_cluster_keep_each_their_key(setting):
    _, compute = setting
    client = compute._client
    handles = ("ab" * 16, "cd" * 16)
    for handle in handles:
        compute.install(handle, NoiseKey(SECRET))
    for handle in handles:
        assert all(client.run(lambda handle=handle: keyring.fetch(handle) is not None).values())
        compute.forget(handle)
        assert not any(client.run(lambda handle=handle: handle in keyring._keys).values())
    assert set(client.run(lambda: len(keyring._keys)).values()) == {0}


def kill_workers(client):
    for address, process in client.run(os.getpid).items():
        os.kill(process, signal.SIGKILL)
        while address in client.scheduler_info(n_workers=-1)["workers"]:
            time.sleep(0.05)


def test_a_restarted_worker_receives_the_key_and_the_bits_stay_the_same(setting):
    loaded, compute = setting
    client = compute._client
    plan, cut, exact = graph(loaded, "restart")
    held = compute.hold(exact, lambda share: None)
    compute.install("restart", NoiseKey(SECRET))
    try:
        first = support.whole(compute, held, cut, plan, "restart", "restart-a")
        kill_workers(client)
        client.wait_for_workers(2, timeout=60)
        # Both workers died, and the held total with them: it is computed again from the records.
        again = support.whole(compute, held, cut, plan, "restart", "restart-b")
    finally:
        compute.forget("restart")
    assert np.array_equal(first, again)


def test_workers_that_take_long_to_come_back_come_back(setting):
    """Dask's own cluster closes for good what would bring them back, if they are away at the moment when it looks."""
    client = setting[1]._client
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}):
        kill_workers(client)
    client.wait_for_workers(2, timeout=60)


def test_two_attempts_at_once_on_one_cluster_never_share_parts_of_their_sums(setting, tmp_path, monkeypatch):
    _, compute = setting
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *a: NoiseKey(bytes(32)))
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    expected = support.values_of(run(support.prepare(alone)).path)
    support.prepare(together)
    # Other blocks are other ranges of rows: a part of the one in a sum of the other would count records twice.
    slow, fast = (
        load_config(together / "people.toml", overrides={"compute.block_rows": rows}) for rows in ("400", "50")
    )
    overtaken = []

    class Slow:
        workers, threads = compute.workers, compute.threads

        def hold(self, graph, progress):
            held = compute.hold(graph, progress)
            overtaken.append(support.values_of(run(fast, compute=compute).path))
            return held

    with pytest.raises(KeyLost):
        run(slow, compute=Slow())
    assert overtaken == [expected]


def test_a_failing_task_is_shown_by_its_kind_only(setting):
    _loaded, compute = setting

    def fail(records):
        raise ValueError(f"{records}")

    leaf = delayed(fail, pure=False)(support.CANARY, dask_key_name="fails")
    with pytest.raises(ComputeError) as caught:
        compute.hold(ExactGraph({str(leaf.key): leaf}, [leaf]), lambda share: None)
    assert "ValueError" in str(caught.value)
    assert str(support.CANARY) not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_value_on_a_worker_is_a_data_error(setting):
    loaded, compute = setting
    plan = make_plan(loaded, NIGHT)
    source = support.records()
    source[7, 2] = np.nan
    exact = exact_graph(source, plan.question.query, cut_of(plan, [(0, 200), (200, 400)]), 50, "missing")
    with pytest.raises(DataError, match="missing or infinite"):
        compute.hold(exact, lambda share: None)


def test_workers_use_one_blas_thread_and_a_private_scratch_folder(setting):
    _loaded, compute = setting
    client = compute._client
    assert set(client.run(lambda: os.environ.get("OPENBLAS_NUM_THREADS")).values()) == {"1"}
    for folder in client.run(lambda dask_worker: dask_worker.local_directory).values():
        home = Path(tempfile.gettempdir()) / f"blockveil-{os.getuid()}"
        assert home in Path(folder).parents
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert set(client.run(lambda: os.umask(0o077)).values()) == {0o077}


def test_scratch_is_gone_after_the_run_and_that_of_dead_runs_before_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    loaded = support.prepare(tmp_path, cluster="local")
    home = tmp_path / f"blockveil-{os.getuid()}"
    home.mkdir(mode=0o700)
    left = [home / f".staging-scratch-{number:012x}" for number in (1, os.getpid())]

    def leave():
        for dead in left:
            dead.mkdir()
            (dead / "spilled").write_bytes(b"raw")

    leave()
    with open_compute(loaded):
        assert not any(dead.exists() for dead in left)
        [alive] = [path for path in home.iterdir() if path.is_dir()]
        leave()
        with open_compute(in_threads(loaded)):
            assert alive.exists(), "the folder of a run that lives is left alone"
        assert not any(dead.exists() for dead in left)
    assert list(home.iterdir()) == []


class _Dying:
    """A plugin whose first worker dies while it is set up."""

    def setup(self, worker):
        with suppress(FileExistsError):
            (Path(os.environ["DIED"]) / self.name).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        super().setup(worker)


class DyingCompiled(_Dying, clusters.CompiledPlugin):
    pass


class DyingProducts(_Dying, clusters.ProductsPlugin):
    pass


class DyingFiles(_Dying, clusters.PrivateFilesPlugin):
    pass


class DyingEncrypted(_Dying, workers.Encrypted):
    pass


class DyingSameCode(_Dying, workers.SameCode):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "dying"),
    [
        (clusters, "CompiledPlugin", DyingCompiled),
        (clusters, "ProductsPlugin", DyingProducts),
        (clusters, "PrivateFilesPlugin", DyingFiles),
        (workers, "Encrypted", DyingEncrypted),
        (workers, "SameCode", DyingSameCode),
    ],
)
# The scheduler may leave the socket open on which it told the worker that died.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_dies_while_a_plugin_is_set_up_ends_no_run(tmp_path, monkeypatch, module, name, dying):
    (tmp_path / "died").mkdir()
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    monkeypatch.setattr(module, name, dying)
    section = support.prepare(tmp_path, cluster="local")
    with clusters.open_cluster(section, section.config.cluster, True, True) as compute:
        compute._client.wait_for_workers(section.config.cluster.workers, timeout=300)
        plugins = compute._client.run(lambda dask_worker: sorted(dask_worker.plugins), on_error="ignore")
    assert [path.name for path in (tmp_path / "died").iterdir()] == [dying.name]
    assert any(dying.name in each for each in plugins.values())


def test_a_plugin_is_sent_again_after_a_connection_that_ended_and_not_for_ever():
    sent = []

    class Client:
        def register_plugin(self, plugin):
            sent.append(plugin)
            if len(sent) < fails:
                raise CommClosedError

    fails = 3
    workers.register(Client(), "a plugin")
    assert sent == ["a plugin"] * 3
    fails = 9
    with pytest.raises(CommClosedError):
        workers.register(Client(), "a plugin")
    assert len(sent) == 6


def take_the_place(kind, place):
    """Somebody else was there first."""
    match kind:
        case "link":
            (place.parent / "elsewhere").mkdir(mode=0o777)
            place.symlink_to(place.parent / "elsewhere")
        case "dangling link":
            place.symlink_to(place.parent / "nowhere")
        case "file":
            place.write_bytes(b"")
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir(mode=0o777)
            os.chown(place, 65534, 65534)


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link", "file", "pipe"])
def test_whoever_takes_the_usual_place_of_scratch_stops_no_run_and_reads_nothing(tmp_path, monkeypatch, kind):
    if kind == "folder" and os.getuid() != 0:
        pytest.skip("only root makes folders of other accounts")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = tmp_path / f"blockveil-{os.getuid()}"
    take_the_place(kind, usual)
    take_the_place(kind, tmp_path / f"{usual.name}-first") if kind in ("folder", "file", "pipe") else None
    before = set(tmp_path.iterdir())
    with scratch.private_folder() as first, scratch.private_folder() as second:
        (home,) = set(tmp_path.iterdir()) - before
        assert first.parent == second.parent == home
        assert stat.S_IMODE(home.lstat().st_mode) == 0o700
        (home / ".staging-scratch-000000000001").mkdir()
        scratch.sweep()
        assert first.exists(), "the folder of a run that lives is left alone"
    assert list(home.iterdir()) == []
    with scratch.private_folder() as again:
        assert again.parent == home, "runs share one folder, and do not leave one each"


def test_what_a_dead_run_left_in_a_drawn_place_is_wiped_after_the_usual_place_is_free_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = tmp_path / f"blockveil-{os.getuid()}"
    take_the_place("file", usual)
    with scratch.private_folder() as first:
        drawn = first.parent
    left = drawn / ".staging-scratch-000000000001"
    left.mkdir()
    usual.unlink()
    with scratch.private_folder() as folder:
        assert folder.parent == usual
        assert not left.exists()


def test_a_temporary_folder_that_cannot_be_written_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match="cannot hold what workers spill") as refused, scratch.private_folder():
        pass
    assert "TMPDIR" in refused.value.remedy


def test_partial_sums_leave_the_workers_while_others_are_still_computed(setting):
    _loaded, compute = setting
    client = compute._client

    def leaf(number):
        time.sleep(0.3)  # long beside what a busy machine takes to move and add up numbers
        return np.full(10, number)

    leaves = [delayed(leaf, pure=False)(i, dask_key_name=f"leaf-{i}") for i in range(24)]
    parts = [delayed(sum, pure=False)(leaves[i : i + 4], dask_key_name=f"part-{i}") for i in range(0, len(leaves), 4)]
    total = delayed(sum, pure=False)(parts, dask_key_name="whole")

    def kept(dask_scheduler):
        tasks = dask_scheduler.tasks
        return sum(task.state == "memory" for key, task in tasks.items() if str(key).startswith("leaf-"))

    seen = []
    exact = ExactGraph({str(leaf.key): leaf for leaf in leaves}, [total])
    (held,) = compute.hold(exact, lambda share: seen.append(client.run_on_scheduler(kept)))
    assert len(seen) == len(leaves)
    assert max(seen) <= len(leaves) * 3 // 4
    assert np.array_equal(held.result(), np.full(10, sum(range(24))))


def test_an_idle_worker_takes_over_no_task_of_another(setting):
    """It would be sent whole parts, of which it takes a tile."""
    found = setting[1]._client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.extensions))
    assert "publish" in found
    assert "stealing" not in found


def test_a_task_tells_few_shares_a_second_and_always_its_end():
    told, times = [], iter([0.0, 0.1, 0.2, 0.3, 0.31, 0.32, 0.33])
    tell = Paced(lambda part, share: told.append((part, share)), lambda: next(times))
    for part, share in (("a", 0.1), ("a", 0.2), ("b", 0.1), ("a", 0.3), ("a", 0.4), ("a", 1.0), ("b", 0.2)):
        tell(part, share)
    assert told == [("a", 0.1), ("b", 0.1), ("a", 0.3), ("a", 1.0)]


def test_a_cluster_whose_start_fails_leaves_no_process_behind(tmp_path, monkeypatch):
    loaded = support.prepare(tmp_path, cluster="local")
    before = {child.pid for child in multiprocessing.active_children()}

    def fail(*args, **kwargs):
        raise OSError("no more files")

    monkeypatch.setattr("blockveil.flows.cluster.clusters.Client", fail)
    with pytest.raises(ComputeError), open_compute(loaded):
        pass
    assert {child.pid for child in multiprocessing.active_children()} <= before


def test_a_cluster_that_closes_badly_does_not_undo_the_run(tmp_path, monkeypatch):
    from distributed import Client

    closed = []

    class Badly(Client):
        def close(self, *args, **kwargs):
            super().close(*args, **kwargs)
            if not closed:  # once: what a finaliser raises is no answer to anybody
                closed.append(self.status)
                raise TimeoutError

    monkeypatch.setattr("blockveil.flows.cluster.clusters.Client", Badly)
    with open_compute(support.prepare(tmp_path, cluster="local")) as compute:
        assert (compute.workers, compute.threads) == (2, 1)
    assert closed == ["closed"]


def test_kinds_and_lines_of_a_failure_are_kept_under_its_number_without_values(setting, tmp_path, monkeypatch):
    _loaded, compute = setting
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))

    def fail(value):
        raise ValueError(f"{value}") from KeyError(value)

    leaf = delayed(fail, pure=False)(support.CANARY, dask_key_name="fails-privately")
    with pytest.raises(ComputeError) as caught:
        compute.hold(ExactGraph({str(leaf.key): leaf}, [leaf]), lambda share: None)
    [kept] = private_log.folder().iterdir()
    assert kept.stem == caught.value.error_id
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "builtins.ValueError" in kept.read_text()
    assert str(support.CANARY) not in kept.read_text()


def at_address(tmp_path, address, tls=""):
    path = support.prepare(tmp_path).path
    path.write_text(path.read_text().replace('kind = "threads"', f'kind = "address"\naddress = "{address}"\n{tls}'))
    return load_config(path)


def test_the_loss_of_a_worker_that_a_cluster_does_not_know_ends_nothing(setting):
    """It is told so of a worker that dies just after it joined, and Dask's own cluster cannot be closed any more."""
    _, compute = setting
    cluster = compute._client.cluster

    async def hear():
        cluster._update_worker_status("remove", "tls://127.0.0.1:9")

    cluster.sync(hear)
    assert len(cluster.scheduler_info["workers"]) == len(compute._client.scheduler_info(n_workers=-1)["workers"])


def test_a_scheduler_that_cannot_be_reached_is_a_compute_error(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.flows.cluster.clusters.CONNECT_SECONDS", 1)
    with pytest.raises(ComputeError), open_compute(at_address(tmp_path, "tcp://127.0.0.1:9", "insecure = true")):
        pass


def test_a_scheduler_that_accepts_and_stays_silent_is_a_compute_error(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.flows.cluster.clusters.CONNECT_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        loaded = at_address(tmp_path, f"tcp://127.0.0.1:{silent.getsockname()[1]}", "insecure = true")
        with pytest.raises(ComputeError, match="TimeoutError"), open_compute(loaded):
            pass


def test_an_encrypted_scheduler_at_an_address_gives_the_same_bits_as_threads(tmp_path):
    from distributed import LocalCluster
    from distributed.security import Security

    security = Security.temporary()
    names = {name: getattr(security, f"tls_{name}") for name in ("ca_file", "client_cert", "client_key")}
    for name, text in names.items():
        support.write_private(tmp_path / f"{name}.pem", text)
    tls = "\n".join(f'tls_{name} = "file:{tmp_path}/{name}.pem"' for name in names)
    with LocalCluster(n_workers=1, threads_per_worker=1, security=security, dashboard_address="127.0.0.1:0") as cluster:
        loaded = at_address(tmp_path, cluster.scheduler_address, tls)
        with open_compute(loaded) as compute:
            assert isinstance(compute, DistributedCompute)
            apart = noised(loaded, compute)
    assert np.array_equal(apart, noised(loaded, ThreadCompute(2)))


def noised(loaded, compute):
    plan, cut, exact = graph(loaded, "anywhere")
    held = compute.hold(exact, lambda share: None)
    compute.install("anywhere", NoiseKey(SECRET))
    try:
        return support.whole(compute, held, cut, plan, "anywhere", "anywhere")
    finally:
        compute.forget("anywhere")
