"""One night as plain functions: the answer, one charge, resume after every kill, refusals that spend nothing."""

import errno
import os
import re
import shutil
import signal
import threading
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.base import interrupts, staging
from blockveil.pipeline.base.errors import (
    BlockveilError,
    BudgetExhausted,
    ConfigError,
    DataError,
    ReleaseConflict,
    StoreError,
)
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import datasets
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import charged_steps, publishing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from tests.house import support, warm

NIGHT = date(2026, 11, 20)


def quiet(message, share=None):
    """Ignore progress."""


def run(loaded, night=NIGHT, compute=None):
    return run_release(make_plan(loaded, night), compute or ThreadCompute(2), "test", quiet)


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent_mu


def bits(outcome):
    group = zarr.open_group(outcome.path, mode="r")
    return {name: array[...].tobytes() for name, array in sorted(group.arrays()) if name != "feature"}


def charges(loaded):
    return [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]


def no_trace(loaded):
    assert KeyStore(loaded.keys_root).list() == []
    assert not [path for path in loaded.output_root.rglob("*") if ".staging" in path.name]


def test_a_night_releases_count_mean_and_covariance_near_the_truth(tmp_path):
    loaded = support.prepare(tmp_path, epsilon=20.0, budget=40.0)
    outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    values = support.records()
    for name, truth in (("count", len(values)), ("mean", values.mean(0)), ("covariance", np.cov(values.T, bias=True))):
        error = np.abs(group[name][...] - truth) / group[f"{name}_standard_deviation"][...]
        assert np.max(error) < 7  # seven standard deviations
    assert group.attrs["guarantee"]["epsilon"] == 20.0
    assert group.attrs["ledger"]["charge_id"] == outcome.charge_id
    assert group.attrs["mechanism"]["kind"] == loaded.config.mechanism.kind
    assert set(group.attrs["software"]) > {"blockveil", "numpy"}
    assert np.min(np.linalg.eigvalsh(group["covariance_psd"][...])) > -1e-6 * np.max(values.var(0))
    assert list(group["feature"][...]) == list(support.FEATURES)
    no_trace(loaded)


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_each_query_and_relation_is_released_and_charged_once(tmp_path, kind, neighbours):
    loaded = support.prepare(tmp_path, kind=kind, neighbours=neighbours)
    outcome = run(loaded)
    plan = make_plan(loaded, NIGHT)
    assert spent(loaded) == pytest.approx(plan.design.mu)
    group = zarr.open_group(outcome.path, mode="r")
    if kind == "covariance":
        assert (float(group["count"][...]) == 400) == (neighbours == "replace-one")
    again = run(loaded)
    assert again.output_digest == outcome.output_digest
    assert "complete already" in again.resumed
    assert len(charges(loaded)) == 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Worker processes."""
    with open_compute(support.prepare(tmp_path_factory.mktemp("cluster"), cluster="local")) as compute:
        yield compute


@pytest.mark.slow
def test_compute_settings_do_not_change_a_bit_of_the_release(tmp_path, monkeypatch, cluster):
    # One key for all: whatever differs then comes from chunks, threads or processes.
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *a: NoiseKey(bytes(32)))
    digests = set()
    settings = [("7", None), ("50", None), ("400", None), ("90", cluster)]
    for position, (block_rows, compute) in enumerate(settings):
        folder = tmp_path / str(position)
        folder.mkdir()
        support.prepare(folder, cluster="local" if compute else "threads")
        loaded = load_config(folder / "people.toml", overrides={"compute.block_rows": block_rows})
        digests.add(str(support.values_of(run(loaded, compute=compute).path)))
    assert len(digests) == 1


def test_runs_at_once_end_with_one_charge_and_one_release(tmp_path):
    loaded = support.prepare(tmp_path)
    runs = [process.wait() for process in [warm.start(KILL, str(loaded.path), "nowhere") for _ in range(4)]]
    # One that comes late may find the key destroyed and says so; none draws with another key.
    assert [each.stderr for each in runs if each.returncode != 0 and "KeyLost" not in each.stderr] == []
    assert any(each.returncode == 0 for each in runs)
    assert "complete already" in run(loaded).resumed
    assert len(charges(loaded)) == 1
    assert len(list(loaded.output_root.rglob("*.zarr"))) == 1
    no_trace(loaded)


KILL = """
import os, signal, sys
from datetime import date
from pathlib import Path
from blockveil.pipeline.releases import charged_steps, night, publishing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.engine.answers.second_moment import SecondMomentQuery

def die(*a, **k):
    signal.raise_signal(signal.SIGKILL)

def after(owner, name):
    original = getattr(owner, name)
    def call(*a, **k):
        original(*a, **k)
        die()
    setattr(owner, name, call)

point = sys.argv[2]
if len(sys.argv) > 3: os.getpid = lambda: int(sys.argv[3])
if point == "before reserve": Ledger.reserve = die
if point == "after reserve": after(Ledger, "reserve")
if point == "middle of the graph":
    original, calls = SecondMomentQuery.each, []
    def some(*a, **k):
        calls.append(1)
        return original(*a, **k) if len(calls) < 2 else die()
    SecondMomentQuery.each = some
if point == "after the key": after(KeyStore, "create")
if point == "after commit": after(Ledger, "commit")
if point == "middle of the noise": charged_steps.NoiseKey = type("K", (), {"derive": staticmethod(die)})
if point == "after staging": after(publishing.Draft, "finish")
if point == "after the name": after(publishing, "_settle")
if point == "after publish": after(publishing, "publish")
if point == "after the key is destroyed": after(KeyStore, "destroy")
plan = make_plan(load_config(Path(sys.argv[1])), date(2026, 11, 20))
night.run_release(plan, ThreadCompute(2), "killed", lambda *a: None)
"""

POINTS = {
    "before reserve": None,
    "after reserve": "nothing had been drawn",
    "middle of the graph": "nothing had been drawn",
    "after the key": "nothing had been drawn",
    "after commit": "the same noise is drawn again",
    "middle of the noise": "the same noise is drawn again",
    "after staging": "the same noise is drawn again",
    "after the name": "the same noise is drawn again",
    "after publish": "only the ledger entry was missing",
    "after the key is destroyed": "only the ledger entry was missing",
}


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_night_is_finished_by_the_next_run_with_one_charge(tmp_path, point):
    loaded = support.prepare(tmp_path)
    assert warm.run(KILL, str(loaded.path), point).returncode == -signal.SIGKILL
    published_before = list(loaded.output_root.rglob("*.zarr"))
    outcome = run(loaded)
    assert (outcome.resumed is None) == (POINTS[point] is None)
    assert POINTS[point] is None or POINTS[point] in outcome.resumed
    assert len(charges(loaded)) == 1
    assert spent(loaded) == pytest.approx(make_plan(loaded, NIGHT).design.mu)
    assert Ledger(loaded.ledger_url).verify().problems == []
    if published_before:
        assert published_before == [outcome.path]
    no_trace(loaded)


@pytest.mark.parametrize("point", ["after staging", "after the name", "after publish"])
@pytest.mark.parametrize("container", ["another host name", "the same process number"])
def test_nothing_unfinished_stays_beside_a_release_that_another_container_finished(
    tmp_path, monkeypatch, point, container
):
    loaded = support.prepare(tmp_path)
    number = [str(os.getpid())] if container == "the same process number" else []
    assert warm.run(KILL, str(loaded.path), point, *number).returncode == -signal.SIGKILL
    if container == "another host name":
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    outcome = run(loaded)
    assert sorted(outcome.path.parent.iterdir()) == sorted([outcome.path, outcome.pointer])


def test_a_night_that_is_complete_sweeps_what_killed_attempts_left_beside_it(tmp_path):
    loaded = support.prepare(tmp_path)
    outcome = run(loaded)
    (outcome.path.parent / ".staging-7c1d-0123456789ab").mkdir()
    run(loaded)
    no_trace(loaded)


def test_an_attempt_that_lives_beside_another_one_is_never_swept(tmp_path):
    loaded = support.prepare(tmp_path)
    folder = loaded.output_root / "people" / "covariance"
    folder.mkdir(parents=True)
    other = staging.Held(folder, "other")
    run(loaded)
    assert other.path.is_dir()
    other.discard()
    no_trace(loaded)


def test_a_place_without_locks_is_refused_before_anything_is_charged(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "as the system says")

    loaded = support.prepare(tmp_path)
    monkeypatch.setattr(staging.fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="no locks"):
        run(loaded)
    assert charges(loaded) == []


STEPS = {
    "in the ledger, after the entry": (Ledger, "reserve", "VOID"),
    "reading what is published": (publishing, "find_published", "VOID"),
    "in the sum": (ThreadCompute, "hold", "VOID"),
    "checking the records": (datasets.Dataset, "check_unchanged", "VOID"),
    "making the key": (KeyStore, "create", "VOID"),
    "in the ledger, after the commit": (Ledger, "commit", "COMMITTED"),
    "in the noise": (ThreadCompute, "stream", "COMMITTED"),
    "closing the release": (publishing.Draft, "finish", "COMMITTED"),
    "forgetting the key": (ThreadCompute, "forget", "COMMITTED"),
    "publishing": (publishing, "publish", "COMMITTED"),
    "destroying the key": (KeyStore, "destroy", "COMMITTED"),
}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("step", STEPS)
def test_whatever_ends_a_night_nothing_stays_reserved_or_unfinished(tmp_path, monkeypatch, step, error):
    loaded = support.prepare(tmp_path)
    owner, name, left = STEPS[step]
    original = getattr(owner, name)

    def fail(*given, **named):
        original(*given, **named)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(error):
            run(loaded)
    assert Ledger(loaded.ledger_url).history()[-1].kind == left
    assert not [path for path in loaded.output_root.rglob("*") if ".staging" in path.name]
    assert run(loaded).path.exists()
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()].count("COMMITTED") == 1
    no_trace(loaded)


def test_a_night_that_fails_before_it_reserves_leaves_that_of_another_attempt(tmp_path, monkeypatch):
    loaded = support.prepare(tmp_path)
    charged_steps.reserve(*support.opened(make_plan(loaded, NIGHT)), "another")
    monkeypatch.setattr(charged_steps, "open_records", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(loaded)
    assert Ledger(loaded.ledger_url).history()[-1].kind == "RESERVED"


def test_a_night_without_a_thread_left_gives_back_too(tmp_path, monkeypatch):
    def no_more(*_, **__):
        raise RuntimeError("can't start new thread")

    loaded = support.prepare(tmp_path)
    monkeypatch.setattr(ThreadCompute, "hold", no_more)
    # Of this module alone: other libraries start threads of their own, some of them in the first test only.
    monkeypatch.setattr(interrupts, "threading", SimpleNamespace(Event=threading.Event, Thread=no_more))
    with pytest.raises(RuntimeError):
        run(loaded)
    assert Ledger(loaded.ledger_url).history()[-1].kind == "VOID"


SIGNALLED = """
import os, sys, time
from blockveil.pipeline.ledger import Ledger
from blockveil.engine.answers.second_moment import SecondMomentQuery

number = int(sys.argv[2])

asks = [number, number]
def asked(*a, **k):
    if asks: os.kill(os.getpid(), asks.pop())
    time.sleep(1.5)  # the sum is at work when the signals come
    raise RuntimeError

give_back = Ledger.void_if_reserved
def asked_again(*a, **k):
    time.sleep(1.0)
    os.kill(os.getpid(), number)
    time.sleep(0.5)
    return give_back(*a, **k)

SecondMomentQuery.each, Ledger.void_if_reserved = asked, asked_again
from blockveil.flows.cli import main
sys.argv = ["blockveil", "run", sys.argv[1], "--no-prefect", "--date", "2026-11-20"]
main()
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_signal_that_comes_again_and_again_ends_a_run_without_prefect_with_nothing_reserved(tmp_path, number):
    loaded = support.prepare(tmp_path)
    ended = warm.run(SIGNALLED, str(loaded.path), str(int(number)))
    assert ended.returncode not in (0, -number), ended.stderr
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET", "RESERVED", "VOID"]
    assert "Traceback" not in ended.stderr
    no_trace(loaded)


@pytest.mark.parametrize("point", ["after commit", "middle of the noise", "after staging"])
def test_a_resumed_night_draws_the_very_same_noise(tmp_path, point):
    loaded = support.prepare(tmp_path)
    warm.run(KILL, str(loaded.path), point)
    keys = KeyStore(loaded.keys_root)
    (charge_id,) = keys.list()
    secret = keys.read(charge_id)
    first = run(loaded)
    # Replay the committed key by hand over the same plan: the published bits must be those and no others.
    from blockveil.engine.answers.gram import partial_gram
    from blockveil.engine.mechanisms.gaussian import add_noise
    from blockveil.engine.noise.discrete_gaussian import noise_block
    from blockveil.pipeline.data.datasets import open_records

    plan = make_plan(loaded, NIGHT)
    data = open_records(loaded)
    entry = next(entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED")
    size = (0, plan.design.width)
    noise = noise_block(
        NoiseKey.derive(secret, bytes.fromhex(entry.spec_digest)), size, size, grid=plan.design.grid, symmetric=True
    )
    exact = partial_gram(data.array, 0, data.rows, plan.question.query.quantiser, 100)
    arrays = plan.answer.arrays(add_noise(exact, plan.design.steps(size, size), noise, plan.design.shift), data.rows)
    assert bits(first) == {
        name: np.asarray(value).tobytes() for name, (value, _) in sorted(arrays.items()) if name != "feature"
    }


def test_changed_data_under_the_same_id_is_refused_with_the_difference(tmp_path):
    loaded = support.prepare(tmp_path)
    run(loaded)
    values = support.records()
    values[0, 0] += 1
    support.write_records(tmp_path, values)
    with pytest.raises(ReleaseConflict) as caught:
        run(loaded)
    assert any("fingerprint" in difference for difference in caught.value.differences)
    assert len(charges(loaded)) == 1


def test_a_changed_config_under_the_same_id_is_refused_with_the_difference(tmp_path):
    loaded = support.prepare(tmp_path)
    run(loaded)
    changed = load_config(support.write_config(tmp_path, epsilon=0.5))
    with pytest.raises(ReleaseConflict) as caught:
        run(changed)
    assert any("privacy.epsilon" in difference for difference in caught.value.differences)
    assert len(charges(loaded)) == 1


def test_an_exhausted_budget_is_refused_before_anything_is_computed(tmp_path):
    loaded = support.prepare(tmp_path, budget=1.1)
    run(loaded)

    class Never(ThreadCompute):
        def hold(self, *args, **kwargs):
            raise AssertionError("data was read")

    with pytest.raises(BudgetExhausted, match="ledger grant"):
        run(loaded, date(2026, 11, 21), Never())
    assert len(charges(loaded)) == 1
    no_trace(loaded)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_missing_value_voids_the_reservation_and_shows_no_value(tmp_path, bad, caplog):
    values = support.records()
    values[17, 1] = bad
    loaded = support.prepare(tmp_path, values=values)
    with pytest.raises(DataError, match="missing or infinite") as caught:
        run(loaded)
    shown = set(re.findall(r"[\w.]+", f"{caught.value} {caplog.text}"))
    assert shown.isdisjoint({*support.FEATURES, "17", str(len(values)), str(support.CANARY)})
    assert spent(loaded) == 0
    no_trace(loaded)
    support.write_records(tmp_path, support.records())
    assert run(loaded).resumed is None, "a clean night may follow under the same id"


def test_a_lost_cluster_before_the_commit_costs_nothing(tmp_path):
    loaded = support.prepare(tmp_path)

    class Breaks(ThreadCompute):
        def hold(self, graph, progress):
            from blockveil.pipeline.releases.compute import translate

            raise translate(RuntimeError(f"a value of {support.CANARY}"))

    with pytest.raises(BlockveilError) as caught:
        run(loaded, compute=Breaks())
    assert "RuntimeError" in str(caught.value)
    assert str(support.CANARY) not in str(caught.value)
    assert spent(loaded) == 0
    no_trace(loaded)


class Forgetful(ThreadCompute):
    """Loses what it holds, as a cluster does whose workers die after the commit: the answer is read and added again."""

    after_commit = staticmethod(lambda: None)

    def hold(self, graph, progress):
        super().hold(graph, progress)
        return graph.tiles

    def install(self, handle, key):
        super().install(handle, key)
        self.after_commit()


def test_records_that_change_before_a_lost_part_is_read_again_are_never_released(tmp_path):
    loaded, values = support.prepare(tmp_path), support.records()
    other = values.copy()
    other[:200] = values[200:]
    compute = Forgetful(2)
    compute.after_commit = lambda: support.write_records(tmp_path, other)
    with pytest.raises(DataError, match="Put back the records"):
        run(loaded, compute=compute)
    assert not list(loaded.output_root.rglob("*.zarr"))
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()][-1] == "COMMITTED"
    support.write_records(tmp_path, values)
    outcome = run(loaded, compute=Forgetful(2))
    assert "the same noise is drawn again" in outcome.resumed
    assert len(charges(loaded)) == 1
    no_trace(loaded)


@pytest.mark.parametrize("there", ["another copy", "nothing"])
def test_a_worker_elsewhere_that_finds_other_records_ends_the_night_unspent(tmp_path, monkeypatch, there):
    loaded, store = support.prepare(tmp_path), tmp_path / "records.zarr"

    class Elsewhere(ThreadCompute):
        """Reads as a process of another machine does: it has identified nothing yet, and has a disk of its own."""

        def hold(self, graph, progress):
            monkeypatch.setattr(datasets, "_identified", set())
            store.rename(tmp_path / "client.zarr")
            if there == "another copy":
                support.write_records(tmp_path, support.records()[::-1].copy())
            try:
                return super().hold(graph, progress)
            finally:
                shutil.rmtree(store, ignore_errors=True)
                (tmp_path / "client.zarr").rename(store)

    with pytest.raises(DataError, match="does not find the records"):
        run(loaded, compute=Elsewhere(2))
    assert spent(loaded) == 0
    no_trace(loaded)
    assert run(loaded).path.exists()


@pytest.mark.parametrize("damage", ["cut short", "overwritten"])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", "checksum", "none"])
def test_a_damaged_chunk_is_named_and_costs_nothing(tmp_path, damage, codec):
    if (damage, codec) == ("overwritten", "none"):
        pytest.skip("plain numbers hold no sign of being others; the fingerprint says so")
    loaded = support.prepare(tmp_path)
    codecs = {"zstd": "auto", "gzip": [GzipCodec()], "blosc": [BloscCodec()], "none": None}
    group = zarr.open_group(tmp_path / "records.zarr", mode="w")
    records = group.create_array(
        "records",
        shape=(400, 3),
        chunks=(50, 3),
        dtype="f8",
        compressors=codecs.get(codec, [ZstdCodec(), Crc32cCodec()]),
    )
    records[...] = support.records()
    chunk = tmp_path / "records.zarr" / "records" / "c" / "3" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[: len(content) // 2] if damage == "cut short" else bytes(len(content)))
    with pytest.raises(DataError, match="a chunk is cut short, or its content is not what was written") as caught:
        run(loaded)
    assert "worker" not in str(caught.value)
    assert spent(loaded) == 0
    no_trace(loaded)


def test_a_damaged_chunk_is_named_by_workers_of_a_cluster_too(tmp_path, cluster):
    loaded = support.prepare(tmp_path, cluster="local")
    chunk = tmp_path / "records.zarr" / "records" / "c" / "3" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    with pytest.raises(DataError, match="a chunk is cut short"):
        run(loaded, compute=cluster)
    assert spent(loaded) == 0
    no_trace(loaded)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (np.empty((0, 3)), DataError),
        (np.zeros((5, 2)), DataError),
        (np.zeros(5), DataError),
        (np.zeros((5, 3), dtype=complex), DataError),
        (np.zeros((10_001, 3), dtype="i1"), DataError),
    ],
)
def test_records_of_the_wrong_shape_or_type_are_refused_and_spend_nothing(tmp_path, values, error):
    loaded = support.prepare(tmp_path, values=support.records())
    if values.shape[0] == 0:
        group = zarr.open_group(tmp_path / "records.zarr", mode="w")
        group.create_array("records", shape=values.shape, chunks=(5, 3), dtype="f8")
    else:
        support.write_records(tmp_path, values)
    with pytest.raises(error) as caught:
        run(loaded)
    assert "10001" not in str(caught.value)
    assert spent(loaded) == 0


def test_an_unreadable_store_is_refused_and_spends_nothing(tmp_path):
    loaded = support.prepare(tmp_path)
    (tmp_path / "records.zarr" / "zarr.json").unlink()
    (tmp_path / "records.zarr" / "records" / "zarr.json").write_text("not json")
    with pytest.raises((StoreError, DataError)):
        run(loaded)
    assert spent(loaded) == 0


@pytest.mark.parametrize("dtype", [">f8", "f4", "i4", "u2"])
@pytest.mark.parametrize("rows", [1, 2, 400])
def test_every_real_dtype_and_few_rows_are_released(tmp_path, dtype, rows):
    values = np.clip(support.records(), 0, 60_000)[:rows].astype(dtype)
    loaded = support.prepare(tmp_path, values=values)
    assert run(loaded).path.exists()


def test_a_config_that_cannot_be_planned_says_what_to_change(tmp_path):
    loaded = support.prepare(tmp_path)
    many = "rows_at_most = 10_000_000_000\nquantisation_bits = 16"
    text = loaded.path.read_text().replace("rows_at_most = 10_000", many)
    loaded.path.write_text(text.replace("delta = 1e-6", "delta = 1e-12"))
    with pytest.raises(ConfigError, match="lower rows_at_most"):
        make_plan(load_config(loaded.path), NIGHT)
