"""The Gram matrix is the exact integer answer under every chunking, row order, scheduler and lost worker."""

import dataclasses
import os
import signal
import time
import weakref
from fractions import Fraction
from threading import Event

import dask
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers import gram, layout
from blockveil.engine.answers.byte_sums import ByteTileSum
from blockveil.engine.answers.float_sums import FloatTileSum
from blockveil.engine.answers.graph import TaskFailed, assembled, exact_graph, noisy_graph
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.testing.moment_noise import calibrate

ROWS, FEATURES = 3001, 37
RECORDS = np.random.default_rng(8).standard_normal((ROWS, FEATURES)) * 2.0
BOX = Box(np.full(FEATURES, -1.0), np.linspace(1.0, 9.0, FEATURES), np.zeros(FEATURES))
QUANTISER = Quantiser(BOX.coordinates(), 32767, True, None)
KEY = NoiseKey.derive(bytes(range(32)), b"gram test")
DESIGN = calibrate(
    QUANTISER.coordinates.body,
    np.full(FEATURES, 0.8 / FEATURES),
    0.2,
    ApproxDP(1.0, 1e-6),
    Neighbours.ADD_REMOVE,
    QUANTISER.largest,
)


def exact_by_python_integers(records):
    rows = [[int(k) for k in row] for row in QUANTISER.quantise(records)]
    width = QUANTISER.width
    return np.array([[sum(r[i] * r[j] for r in rows) for j in range(width)] for i in range(width)], dtype=np.int64)


def cut(ranges, side=1024, groups=1):
    tiles = layout.grid((FEATURES + 1, FEATURES + 1), True, 1, side)
    return layout.summed(tiles, layout.grouped(tiles, groups), ranges)


def released(source, cut, chunk_rows, largest=32767, **how):
    keyring.install("gram-test", KEY)
    try:
        query = SecondMomentQuery(Quantiser(BOX.coordinates(), largest, True, None))
        graph = exact_graph(source, query, cut, chunk_rows, "test")
        tiles = dask.compute(*noisy_graph(graph.tiles, cut, DESIGN, "gram-test", "test"), **how)
        return assembled(tiles, cut, symmetric=True)
    finally:
        keyring.forget("gram-test")


REFERENCE = released(RECORDS, cut([(0, ROWS)]), ROWS, scheduler="synchronous")


def test_sums_that_fit_wait_in_32_bits_and_give_the_same_release():
    query, layout_ = SecondMomentQuery(Quantiser(BOX.coordinates(), 127, True, None)), cut([(0, 900), (900, ROWS)], 16)
    found = []
    keyring.install("gram-test", KEY)
    try:
        for narrow in (False, True):
            graph = exact_graph(RECORDS, query, layout_, 300, "test", narrow)
            held = dask.compute(*graph.tiles, scheduler="synchronous")
            noisy = dask.compute(*noisy_graph(graph.tiles, layout_, DESIGN, "gram-test", "test"))
            found.append((held, assembled(noisy, layout_, symmetric=True)))
    finally:
        keyring.forget("gram-test")
    (wide, released_wide), (narrow, released_narrow) = found
    assert {tile.dtype for tile in wide} == {np.dtype(np.int64)}
    assert {tile.dtype for tile in narrow} == {np.dtype(np.int32)}
    assert all(map(np.array_equal, wide, narrow))
    assert np.array_equal(released_wide, released_narrow)
    assert released_narrow.dtype == np.int64


def test_sums_that_fit_32_bits_are_never_all_there_in_64(monkeypatch):
    """A worker of a wide covariance would need half as much again for them as for what waits."""
    made, alive = [], []

    def watched(finish):
        def finished(total):
            tile = finish(total)
            made.append(weakref.ref(tile))
            alive.append(sum(each() is not None for each in made))
            return tile

        return finished

    for kind in (FloatTileSum, ByteTileSum):
        monkeypatch.setattr(kind, "finish", watched(kind.finish))
    query = SecondMomentQuery(Quantiser(BOX.coordinates(), 127, True, None))
    graph = exact_graph(RECORDS, query, cut([(0, ROWS)], 8), 300, "test", True)
    held = dask.compute(*graph.tiles, scheduler="synchronous")
    assert len(made) == len(held) == 15
    assert max(alive) <= 2, "the one that was narrowed last, and the next"


@dataclasses.dataclass(frozen=True)
class Constant:
    """A query whose every partial sum is one number."""

    value: int

    def partial(self, source, start, stop, chunk_rows, tiles):
        return [np.full(tile.shape, self.value, np.int64) for tile in tiles]


@pytest.mark.parametrize(("value", "fits"), [(2**31 - 1, False), (2**30 - 1, True), (2**30, False), (2**31, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_32_bits_fails_and_never_wraps_around(value, fits, sign):
    graph = exact_graph(RECORDS, Constant(sign * value), cut([(0, 900), (900, ROWS)]), 300, "test", True)
    if fits:
        (found,) = dask.compute(*graph.tiles, scheduler="synchronous")
        assert np.all(found == 2 * sign * value)
        return
    if sign * value == -(2**30):
        return  # twice that is the least that 32 bits hold
    with pytest.raises(TaskFailed, match="OverflowError"):
        dask.compute(*graph.tiles, scheduler="synchronous")


def test_the_sum_equals_python_integers():
    few = RECORDS[:40]
    assert np.array_equal(gram.partial_gram(few, 0, 40, QUANTISER, 7), exact_by_python_integers(few))


def test_blocks_are_split_before_they_could_become_inexact():
    wide = Quantiser(BOX.coordinates(), 2**20 - 1, True, None)
    records = np.broadcast_to(BOX.upper, (20_000, FEATURES))
    assert wide.exact_rows < 20_000
    found = gram.partial_gram(records, 0, 20_000, wide, 20_000)
    largest = wide.largest
    assert int(found[0, 0]) == 20_000 * largest**2
    assert np.all(found == 20_000 * largest**2)


@pytest.mark.parametrize("largest", [127, 255, 256, 257, 511])
def test_few_bits_are_multiplied_in_single_precision_only_where_that_is_exact(largest):
    how = gram.arithmetic(largest)
    assert (how.dtype is np.float32) == (largest <= 256)
    assert how.exact_rows * largest**2 <= (2**24 if how.dtype is np.float32 else 2**53)
    coarse = Quantiser(BOX.coordinates(), largest, True, None)
    furthest = np.broadcast_to(BOX.upper, (5_000, FEATURES))
    assert np.all(gram.partial_gram(furthest, 0, 5_000, coarse, 5_000) == 5_000 * largest**2)


@pytest.mark.parametrize("rows", [127 * 256, 127 * 256 + 1, 3 * 127 * 256 - 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_in_single_precision_leave_int32_before_they_could_wrap_around(rows, sign):
    few = Box(np.full(2, -1.0), np.ones(2), np.zeros(2))
    records = np.broadcast_to([1.0, sign], (rows, 2))
    found = gram.partial_gram(records, 0, rows, Quantiser(few.coordinates(), 256, False, None), 10_000)
    assert rows * 256**2 >= 2**31 - 2**24
    assert np.array_equal(found, np.array([[1, sign], [sign, 1]]) * rows * 256**2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_gives_the_sums_of_whole_numbers_for_every_chunking_and_tiling(dtype):
    coarse, rng = Quantiser(BOX.coordinates(), 127, True, None), np.random.default_rng(10)
    records = RECORDS.astype(dtype)
    integers = coarse.quantise(records).astype(np.int64)
    for _ in range(20):
        start, stop = sorted(int(row) for row in rng.choice(ROWS + 1, 2, replace=False))
        tiles = layout.grid((FEATURES + 1, FEATURES + 1), True, 1, int(rng.integers(1, 50)))
        factor = gram.IntegerFactor(coarse, (0, FEATURES))
        found = gram.tile_sums(records, start, stop, factor, None, int(rng.integers(1, 1500)), tiles)
        exact = integers[start:stop].T @ integers[start:stop]
        assert all(
            np.array_equal(sums, exact[slice(*tile.rows), slice(*tile.columns)])
            for sums, tile in zip(found, tiles, strict=True)
        )


def test_single_precision_gives_the_outer_products_of_whole_numbers():
    left, right = (Quantiser(BOX.coordinates(), 127, False, None) for _ in range(2))
    records = np.hstack([RECORDS, RECORDS[::-1]])
    tiles = layout.grid((FEATURES, FEATURES), False, 0, 16)
    factors = gram.IntegerFactor(left, (0, FEATURES)), gram.IntegerFactor(right, (FEATURES, 2 * FEATURES))
    found = gram.tile_sums(records, 0, ROWS, *factors, 700, tiles)
    a = left.quantise(RECORDS).astype(np.int64)
    exact = a.T @ a[::-1]
    assert all(
        np.array_equal(sums, exact[slice(*tile.rows), slice(*tile.columns)])
        for sums, tile in zip(found, tiles, strict=True)
    )


def test_random_chunkings_tilings_row_orders_and_schedulers_release_the_same_bits():
    rng = np.random.default_rng(9)
    for trial in range(20):
        order = rng.permutation(ROWS)
        chunk_rows = int(rng.integers(1, 800))
        ranges = layout.row_ranges(ROWS, chunk_rows, int(rng.integers(1, 20)))
        # Tiles of single entries once, of two ranges: hundreds of tiles in each range cost Dask seconds.
        side, ranges = (1, [(0, ROWS // 2), (ROWS // 2, ROWS)]) if trial == 0 else (int(rng.integers(3, 50)), ranges)
        chosen = cut(ranges, side=side, groups=int(rng.integers(1, 12)))
        scheduler = ["synchronous", "threads"][trial % 2]
        assert np.array_equal(released(RECORDS[order], chosen, chunk_rows, scheduler=scheduler), REFERENCE)


@pytest.mark.slow
@pytest.mark.parametrize("largest", [127, 32767])
def test_a_killed_worker_changes_no_bit(tmp_path, largest):
    store = zarr.create_array(tmp_path / "records", shape=RECORDS.shape, chunks=(64, 20), dtype="f8")
    store[:] = RECORDS
    chosen = cut(layout.row_ranges(ROWS, 64, 12), side=20, groups=2)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(keyring.install, "gram-test", KEY)
        query = SecondMomentQuery(Quantiser(BOX.coordinates(), largest, True, None))
        graph = exact_graph(store, query, chosen, 64, "killed", narrow=largest == 127)
        futures = client.compute(list(graph.parts.values())[:20])
        client.gather(futures[:5])
        address, victim = next(iter(client.run(os.getpid).items()))
        os.kill(victim, signal.SIGKILL)
        while address in client.scheduler_info(n_workers=-1)["workers"]:
            time.sleep(0.05)
        client.wait_for_workers(2, timeout=60)
        client.run(keyring.install, "gram-test", KEY)
        noisy = noisy_graph(graph.tiles, chosen, DESIGN, "gram-test", "killed")
        tiles = client.gather(client.compute(noisy, optimize_graph=False))
    expected = REFERENCE if largest == 32767 else released(RECORDS, cut([(0, ROWS)]), ROWS, largest)
    assert np.array_equal(assembled(tiles, chosen, symmetric=True), expected)


@given(rows=st.integers(1, 10_000), chunk_rows=st.integers(1, 3000), tasks=st.integers(1, 50))
def test_row_ranges_cover_each_row_once_on_chunk_borders(rows, chunk_rows, tasks):
    ranges = layout.row_ranges(rows, chunk_rows, tasks)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == rows
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
    assert all(start % chunk_rows == 0 and start < stop for start, stop in ranges)
    assert len(ranges) <= tasks


def test_a_plan_that_could_overflow_is_refused():
    gram.check_no_overflow(2**62 // 32767**2, 32767)
    with pytest.raises(OverflowError, match="lower rows_at_most"):
        gram.check_no_overflow(2**62 // 32767**2 + 1, 32767)


def test_the_answer_is_the_plain_second_moment_to_within_quantisation():
    found = gram.partial_gram(RECORDS, 0, ROWS, QUANTISER, 500)[1:, 1:] / float(Fraction(32767**2))
    inside = np.clip(RECORDS, BOX.lower, BOX.upper) / BOX.half_widths
    # Each coordinate errs by at most half a step, so a product by one step and a sum by one step a record.
    assert np.max(np.abs(found - inside.T @ inside)) <= ROWS / 32767


def test_one_chunk_is_read_while_the_one_before_it_is_worked_on_and_no_more():
    begun = [Event() for _ in range(4)]

    class Told:
        shape = RECORDS.shape

        def __getitem__(self, rows):
            begun[rows.start // 10].set()
            return RECORDS[rows]

    found = gram.chunks(Told(), 0, 35, 10, (0, FEATURES))
    for number in range(4):
        assert np.array_equal(next(found), RECORDS[10 * number : min(10 * number + 10, 35)])
        assert all(each.wait(30) for each in begun[: number + 2])
        assert not any(each.is_set() for each in begun[number + 2 :])
    assert list(found) == []
