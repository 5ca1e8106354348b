"""Exact covariance sums from Zarr on a Dask cluster of this machine, against the machine itself and dask.array.

In one run, on the same store and with the same number of workers, medians of interleaved repeats:

* read     every chunk read by Zarr and checked, and nothing else
* straight the same chunks read and checked straight into place, as a release reads them
* multiply the flops that are needed, by BLAS on integers already in memory, one process a core
* integers the same operations in eight bits, by the product that a release would use here, on one block in the cache:
           the machine's limit for integers, where it has such a product
* ours     read, clip, quantise, multiply, add up: the exact sums that a release adds noise to, with the 8 bits a value
           that a plan chooses at these sizes
* cold     the same after the system was asked to forget the store, so that it comes from the disk
* sixteen  as ours, with 16 bits a value
* nearest  the same without places by content, which no release of a box has
* floats   the same plan and tiles without quantising, in plain float64
* peer     dask.array: ``X.T @ X`` after the clip that any private release needs, best of the chunkings tried
* peer32   the same in float32, whose sums are not exact, and multiply32 BLAS alone in float32
* numpy    ``np.cov`` of the whole array read into one process with all its BLAS threads, where it fits
* sklearn  scikit-learn's IncrementalPCA, leading ten components, in one process with all its BLAS threads, up to 500
           features, once, where scikit-learn is installed

Beside each stands the processor time of the workers and this process, which a busy machine hardly changes. Of ours
and cold it prints the share of the workers' cores lost to waiting: what of their elapsed time, one core each, is not
their processor time. That share means something on a quiet machine alone. Records lie in a temporary folder; where
that is in memory (``TMPDIR`` says where), cold is like ours.

From 10**12 products on (rows x features x features), dask.array's chunks are chosen in float32 on a quarter of the
rows, and what multiplies in double precision is left out: each of that takes minutes there. Names after REPEATS say
what to measure instead.

Whatever the environment says, workers have one BLAS thread each and this process as many as there are cores. Workers
have compiled their inner loops and chosen a product in eight bits before (the extra ``fast``), as for a release that is
large enough; how long that took is printed.

``python -m benchmarks.covariance [ROWS FEATURES [WORKERS [REPEATS [NAME ...]]]]``
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
import zarr
from distributed import Client, get_task_stream
from threadpoolctl import threadpool_limits
from zarr.codecs import Crc32cCodec

from benchmarks.covariance_peers import (
    LARGEST_ALONE,
    PEERS,
    WIDEST_PCA,
    chunkings,
    incremental_pca,
    numpy_alone,
    peer,
)
from benchmarks.machine import forget, instructions
from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.cost import Machine, choose
from blockveil.engine.answers.gram import arithmetic
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.answers.layout import row_ranges
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.flows.base import compiled, products
from blockveil.flows.cluster import local_workers
from blockveil.flows.cluster.clusters import DistributedCompute, memory_settings
from blockveil.pipeline.data.plain_rows import rows_of
from blockveil.pipeline.plan.machine_speed import measure

SIZES = ((200_000, 2_000), (50_000, 8_000), (1_000_000, 500))
MEMORY = 4 * 2**30
BOUND = 3.0
CHUNK_BYTES = 8 * 2**20
HEAVY = 10**12
"""Products of two values from which on double precision is left out."""

LIGHT = ("read", "straight", "multiply32", "integers", "ours", "cold", "peer32")
"""What is measured from there on."""


def make_store(path: Path, rows: int, features: int) -> zarr.Array[Any]:
    """Write float32 records in chunks of 8 MiB, as ingest does: uncompressed, since random numbers do not shrink."""
    chunk = max(1, min(rows, CHUNK_BYTES // (4 * features)))
    store = zarr.create_array(
        path,
        shape=(rows, features),
        chunks=(chunk, features),
        dtype="f4",
        compressors=[Crc32cCodec()],
    )
    rng = np.random.default_rng(0)
    for first in range(0, rows, chunk):
        count = min(chunk, rows - first)
        store[first : first + count] = rng.standard_normal((count, features), dtype=np.float32)
    return store


def open_store(path: Path) -> zarr.Array[Any]:
    """Store that was written before."""
    return zarr.open_array(path, mode="r")


def multiply_alone(client: Client, rows: int, features: int, workers: int, single: bool = False) -> None:
    """The flops that are needed, in as many processes as there are workers."""
    share = -(-rows // workers)
    client.gather([client.submit(_multiply, share, features + 1, single, pure=False) for _ in range(workers)])


def integers_alone(client: Client, rows: int, features: int, workers: int) -> None:
    """The same operations in eight bits, in as many processes as there are workers."""
    share = -(-rows // workers)
    client.gather([client.submit(_multiply_bytes, share, features + 1, pure=False) for _ in range(workers)])


class Floats(Quantiser):
    """Clips and does not quantise: what exactness costs is the difference."""

    def quantise_by_steps(self, records: Any, integers: Any, starts: Any = None) -> None:
        """Clip and scale."""
        step = self.cached_rows(records.dtype)
        for first in range(0, len(records), step):
            self.quantise_into(records[first : first + step], integers[first : first + min(step, len(records) - first)])

    def quantise_into(self, records: Any, integers: Any, starts: Any = None) -> None:
        """Clip and scale."""
        np.clip(records, self.coordinates.lower, self.coordinates.upper, out=integers, casting="unsafe")


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def peak_memory(client: Client) -> Iterator[list[float]]:
    """Largest growth of any worker's memory inside the block, in GiB."""
    pids = list(client.run(os.getpid).values())
    before, found, stop = {pid: _resident(pid) for pid in pids}, [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            found[0] = max([found[0], *((_resident(pid) - before[pid]) / 2**30 for pid in pids)])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Stored:
    """Rows of a store, read as a release reads them."""

    def __init__(self, store: Any) -> None:
        self._store, self.shape, self.chunks = store, store.shape, store.chunks

    def __getitem__(self, key: Any) -> Any:
        """Some of the rows."""
        return rows_of(self._store, key)


def _read(store: Any, start: int, stop: int) -> int:
    chunk = store.chunks[0]
    return sum(store[first : min(first + chunk, stop)].shape[0] for first in range(start, stop, chunk))


def _multiply(rows: int, features: int, single: bool) -> None:
    how = arithmetic(127 if single else 32767)
    piece = np.ones((min(rows, 2000), features), how.dtype)
    total = np.zeros((features, features), how.dtype, order="F")
    for first in range(0, rows, len(piece)):
        total = how.symmetric(1.0, piece[: rows - first].T, beta=1.0, c=total, lower=1, overwrite_c=1)


def _multiply_bytes(rows: int, features: int) -> None:
    """As many operations as ``rows`` rows need, on full blocks."""
    product = products.prepare().product
    assert product is not None
    shape = eight_bit.PIECE, 8 * eight_bit.BLOCK, eight_bit.BLOCK
    left, right = np.full(shape[1::-1], 129, np.uint8), np.ones((shape[0], shape[2]), np.int8)
    multiply = product.bind(left, right, np.empty(shape[1:], np.int32))
    for _ in range(-(-rows * features * (features + 1) // (2 * shape[0] * shape[1] * shape[2]))):
        multiply()


def prepare() -> tuple[str, float, float]:
    """What multiplies in this worker, and the seconds that choosing it and compiling took."""
    threadpool_limits(1, user_api="blas")
    start = time.perf_counter()
    reason = products.prepare().reason
    chosen = time.perf_counter()
    compiled.prepare()
    return reason, chosen - start, time.perf_counter() - chosen


def ours(client: Client, store: Any, quantiser: Quantiser) -> None:
    """Exact sums, as a release computes them."""
    compute = DistributedCompute(client)
    rows, features = store.shape
    machine = Machine(compute.workers, compute.threads, MEMORY)
    chunk_rows = max(1, 2**25 // (8 * features) // store.chunks[0]) * store.chunks[0]
    width = quantiser.width
    work = Work(GrowthKind.PRODUCTS, rows, features, (width, width), symmetric=True, lead=1, largest=quantiser.largest)
    cut = choose(work, machine, 8 * features * chunk_rows)
    layout, query = cut.layout(rows, chunk_rows), SecondMomentQuery(quantiser)
    graph = exact_graph(Stored(store), query, layout, chunk_rows, f"b{time.time()}", cut.work.narrow)
    compute.hold(graph, lambda _: None)


def predicted(store: Any, workers: int) -> float:
    """Time of the exact sums by the cost model, at rates measured on this machine."""
    rows, features = store.shape
    work = Work(GrowthKind.PRODUCTS, rows, features, (features + 1, features + 1), symmetric=True, lead=1, largest=127)
    return choose(work, Machine(workers, 1, MEMORY, measure(workers)), 2**25).exact_seconds


@contextmanager
def cluster_of(workers: int) -> Iterator[Client]:
    """Worker processes of this machine with one thread each, started as a release starts them."""
    with (
        dask.config.set(memory_settings()),
        local_workers.start(workers, 1, 0) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def processor(client: Client) -> tuple[float, float]:
    """Processor seconds of the workers, and of this process, with all their threads."""
    return sum(client.run(time.process_time).values()), time.process_time()


def compare(rows: int, features: int, workers: int, repeats: int, wanted: Collection[str] = ()) -> None:
    """Measure one size and print its lines."""
    with tempfile.TemporaryDirectory() as folder, cluster_of(workers) as client:
        store = make_store(Path(folder) / "x", rows, features)
        found = list(client.run(prepare).values())
        print(f"{instructions()}; products in {found[0][0]}")
        print("  chosen and compiled, or loaded, in " + ", ".join(f"{a:.2f} + {b:.2f} s" for _, a, b in found))
        heavy = rows * features**2 >= HEAVY
        runs = _runs(client, store, workers, wanted or (LIGHT if heavy else ()))
        if not all(reason.startswith("8 bits") for reason, *_ in found):
            runs.pop("integers", None)
        if runs.keys() & {"peer", "peer32"}:
            tried = chunkings(rows, features, store.chunks[0])
            how = ("f4", rows // 4) if heavy else ("f8",)
            best = min(tried, key=lambda chunks: seconds(partial(peer, client, store, chunks, BOUND, *how)))
            runs |= {name: partial(run, best) for name, run in runs.items() if name in ("peer", "peer32")}
        times: dict[str, list[float]] = {name: [] for name in (*runs, "predicted")}
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        memory: dict[str, float] = {}
        after: list[float] = []
        for _ in range(repeats):
            for name, run in runs.items():
                if name == "cold":
                    forget(Path(folder))
                before = processor(client)
                with peak_memory(client) as peak, get_task_stream(client) as stream:
                    times[name].append(seconds(run))
                theirs, own = processor(client)
                spent[name].append((theirs - before[0], own - before[1]))
                if name == "ours":
                    after.append(after_reading(stream.data) / times[name][-1])
                memory[name] = max(memory.get(name, 0.0), peak[0])
            times["predicted"].append(predicted(store, workers))
        if features <= WIDEST_PCA and importlib.util.find_spec("sklearn") and not wanted:
            times["sklearn"] = [seconds(partial(incremental_pca, store, BOUND))] * repeats
    show(rows, features, workers, times, memory)
    show_processor(workers, times, spent)
    share = statistics.median(after)
    print(f"  share of the time after the last task that reads, in which parts are added up: {share:.2f}")


def _runs(client: Client, store: Any, workers: int, wanted: Collection[str]) -> dict[str, Callable[..., object]]:
    """What is measured, by name; all there is where nothing is wanted, and ours always."""
    rows, features = store.shape
    box = Box(np.full(features, -BOUND), np.full(features, BOUND), np.zeros(features))
    nearest, floats = (kind(box.coordinates(), 32767, True, None) for kind in (Quantiser, Floats))
    fine = Quantiser(box.coordinates(), 32767, True, None, dither=FineDither(features, 32767))
    few = Quantiser(box.coordinates(), 127, True, None, dither=Dither(features))
    ranges = row_ranges(rows, store.chunks[0], 4 * workers)
    runs: dict[str, Callable[..., object]] = {
        "read": lambda: client.gather([client.submit(_read, store, *r, pure=False) for r in ranges]),
        "straight": lambda: client.gather([client.submit(_read, Stored(store), *r, pure=False) for r in ranges]),
        "multiply": partial(multiply_alone, client, rows, features, workers),
        "multiply32": partial(multiply_alone, client, rows, features, workers, single=True),
        "integers": partial(integers_alone, client, rows, features, workers),
        "ours": partial(ours, client, store, few),
        "cold": partial(ours, client, store, few),
        "sixteen": partial(ours, client, store, fine),
        "nearest": partial(ours, client, store, nearest),
        "floats": partial(ours, client, store, floats),
        "peer": lambda chunks: peer(client, store, chunks, BOUND),
        "peer32": lambda chunks: peer(client, store, chunks, BOUND, "f4"),
    }
    if rows * features <= LARGEST_ALONE:
        runs["numpy"] = partial(numpy_alone, store, BOUND)
    return {name: run for name, run in runs.items() if not wanted or name in wanted or name == "ours"}


def after_reading(tasks: list[dict[str, Any]]) -> float:
    """Seconds from the end of the last task that reads and multiplies to the end of the last of all."""
    ends = [(str(task["key"]), max(step["stop"] for step in task["startstops"])) for task in tasks]
    return max(end for _, end in ends) - max(end for key, end in ends if key.endswith("-read"))


def show(rows: int, features: int, workers: int, times: dict[str, list[float]], memory: dict[str, float]) -> None:
    """Medians, and ratios taken repeat by repeat."""
    middle = {name: statistics.median(found) for name, found in times.items()}
    columns = list(zip(*times.values(), strict=True))
    names = list(times)

    def ratio(of: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(of(dict(zip(names, column, strict=True))) for column in columns)

    print(f"{rows:,} x {features:,}, {workers} workers: " + ", ".join(f"{n} {t:.2f} s" for n, t in middle.items()))
    if {"read", "straight"} <= times.keys():
        print(f"  reading straight into place, times as fast as Zarr: {ratio(lambda t: t['read'] / t['straight']):.2f}")
    for name, words in (("ours", "8 bits"), ("sixteen", "16 bits")):
        if name not in times:
            continue
        print(f"  with {words}")
        for alone in [alone for alone in ("multiply", "multiply32", "integers") if {alone, "read"} <= times.keys()]:
            ceiling = ratio(lambda t, m=alone, n=name: max(t["read"], t[m]) / t[n])  # type: ignore[misc]
            both = ratio(lambda t, m=alone, n=name: (t["read"] + t[m]) / t[n])  # type: ignore[misc]
            print(f"    of max(read, {alone}): {ceiling:.2f} (of read + {alone}: {both:.2f})")
        if "integers" in times:
            share = ratio(lambda t, n=name: t["integers"] / t[n])  # type: ignore[misc]
            print(f"    of the machine's limit for integers, reading left out: {share:.2f}")
        for slow, peer_words in PEERS.items():
            if slow in times:
                times_as_fast = ratio(lambda t, s=slow, n=name: t[s] / t[n])  # type: ignore[misc]
                print(f"    times as fast as {peer_words}: {times_as_fast:.2f}")
    print(f"  predicted over measured time, with 8 bits: {ratio(lambda t: t['predicted'] / t['ours']):.2f}")
    of_dask = [f", of {PEERS[name]}: {memory[name]:.2f} GiB" for name in ("peer", "peer32") if name in memory]
    print(f"  memory of a worker: {memory['ours']:.2f} GiB" + "".join(of_dask))


def show_processor(workers: int, times: dict[str, list[float]], spent: dict[str, list[tuple[float, float]]]) -> None:
    """Medians of processor seconds, what they say beside dask.array, and the share lost to waiting."""
    total = {name: statistics.median(map(sum, found)) for name, found in spent.items()}
    print("  processor seconds of workers and this process: " + ", ".join(f"{n} {t:.1f}" for n, t in total.items()))
    for name in total.keys() & {"peer", "peer32"}:
        print(f"    of {PEERS[name]}, times ours with 8 bits: {total[name] / total['ours']:.2f}")
    for name, words in (("ours", "stored records in memory"), ("cold", "records from the disk")):
        if name in spent:
            lost = [1 - of[0] / (workers * took) for of, took in zip(spent[name], times[name], strict=True)]
            print(f"  share of the workers' cores lost to waiting, {words}: {statistics.median(lost):.3f}")


def main() -> None:
    """Compare at the size given on the command line, or at the default sizes."""
    given = [int(word) for word in sys.argv[1:5]]
    workers = given[2] if len(given) > 2 else os.cpu_count() or 1
    repeats = given[3] if len(given) > 3 else 5
    for rows, features in [(given[0], given[1])] if len(given) > 1 else SIZES:
        compare(rows, features, workers, repeats, sys.argv[5:])


if __name__ == "__main__":
    from benchmarks import covariance  # workers find functions by the module's name

    covariance.main()
