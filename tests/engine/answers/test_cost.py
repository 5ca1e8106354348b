"""The chosen cut fits in memory, is the cheapest that does, and does what its name says."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.cost import Machine, TooLarge, choose
from blockveil.engine.answers.gram import arithmetic
from blockveil.engine.answers.rates import Rates
from blockveil.engine.answers.work import GrowthKind, Work

GIB = 2**30


def moment(rows, features):
    return Work(GrowthKind.PRODUCTS, rows, features, (features + 1, features + 1), symmetric=True, lead=1)


def chosen(work, machine):
    return choose(work, machine, min(2**26, 8 * work.rows * work.columns))


@pytest.mark.parametrize(("rows", "features"), [(1_000_000, 500), (200_000, 2_000), (50_000, 8_000)])
def test_answers_that_fit_beside_each_other_are_computed_by_row_panels(rows, features):
    cut = chosen(moment(rows, features), Machine(4, 1, 4 * GIB))
    assert cut.name == "row panels"
    assert cut.bytes_read == 8.0 * rows * features
    assert "reading the records" not in cut.explain()


def test_products_in_single_precision_are_predicted_to_be_faster():
    work, machine = moment(200_000, 2_000), Machine(4, 1, 4 * GIB)
    double, single = chosen(work, machine), chosen(dataclasses.replace(work, largest=127), machine)
    assert single.seconds < double.seconds


@pytest.mark.parametrize("largest", [127, 255, 256, 32767, 2**17 - 1, 2**19 - 1])
def test_tasks_of_so_many_records_that_their_sums_need_int64_are_given_memory_for_it(largest):
    rows = arithmetic(largest).narrow_rows
    assert rows * largest**2 <= (2**31 - 1 if largest <= 256 else 2**53)
    assert (rows + arithmetic(largest).exact_rows) * largest**2 > (2**31 - 2**24 if largest <= 256 else 2**53)
    few, more = (
        choose(dataclasses.replace(moment(count, 3_000), largest=largest), Machine(1, 1, 64 * GIB), 2**20)
        for count in (rows, 8 * rows + 1)  # there are at most eight ranges of rows
    )
    assert more.peak_bytes - few.peak_bytes >= 8 * moment(1, 3_000).entries


def test_sums_that_32_bits_hold_wait_and_travel_in_half_the_memory():
    machine, most = Machine(4, 1, 64 * GIB), (2**31 - 1) // 127**2
    narrow, wide = (dataclasses.replace(moment(rows, 4_000), largest=127) for rows in (most, most + 1))
    assert (narrow.narrow, wide.narrow) == (True, False)
    assert most * 127**2 <= 2**31 - 1 < (most + 1) * 127**2
    assert not dataclasses.replace(narrow, weighted_sums=1).narrow
    assert not dataclasses.replace(narrow, largest=2**15 - 1).narrow
    few, more = choose(narrow, machine, 2**20), choose(wide, machine, 2**20)
    assert few.bytes_moved == more.bytes_moved / 2
    assert few.peak_bytes < more.peak_bytes


def test_an_answer_that_does_not_fit_beside_each_task_is_computed_by_tiles():
    work = moment(50_000, 40_000)
    cut = chosen(work, Machine(8, 1, 6 * GIB))
    assert cut.name == "tiles of the answer"
    assert cut.bytes_read == cut.groups * 8.0 * work.rows * work.columns
    assert f"reading the records {cut.groups} times" in cut.explain()


def test_twenty_thousand_features_fit_in_four_gibibytes_a_worker():
    cut = chosen(moment(200_000, 20_000), Machine(4, 1, 4 * GIB))
    assert cut.peak_bytes <= 4 * GIB


def test_nominal_rates_know_no_eight_bits_so_that_cuts_do_not_depend_on_the_machine():
    narrow, wider = (dataclasses.replace(moment(200_000, 2_000), largest=largest) for largest in (127, 128))
    machine = Machine(4, 1, 4 * GIB)
    assert chosen(narrow, machine).seconds == chosen(wider, machine).seconds
    fast = dataclasses.replace(machine, rates=Rates(narrow=1e12))
    assert chosen(narrow, fast).seconds < chosen(narrow, machine).seconds
    assert chosen(wider, fast).seconds == chosen(wider, machine).seconds
    halves, widest = (dataclasses.replace(narrow, largest=largest) for largest in (2**15 - 1, 2**15))
    assert chosen(halves, machine).seconds == chosen(widest, machine).seconds
    fast = dataclasses.replace(machine, rates=Rates(halves=1e12))
    assert chosen(halves, fast).seconds < chosen(widest, fast).seconds


def test_what_cannot_fit_is_refused_with_what_would():
    with pytest.raises(TooLarge, match=r"would need about .* GiB and memory_gib is 1;"):
        chosen(moment(10_000, 60_000), Machine(2, 1, GIB))


@given(
    rows=st.integers(1, 10**8),
    features=st.integers(1, 20_000),
    workers=st.integers(1, 64),
    threads=st.integers(1, 4),
    memory=st.integers(1, 64),
)
def test_a_cut_fits_and_its_layout_covers_all_records(rows, features, workers, threads, memory):
    machine = Machine(workers, threads, memory * GIB)
    try:
        cut = chosen(moment(rows, features), machine)
    except TooLarge:
        return
    assert cut.peak_bytes <= machine.memory
    layout = cut.layout(rows, 1000)
    for number in {0, len(layout.tiles) - 1}:
        parts = [(part.start, part.stop) for part in layout.parts if number in part.tiles]
        assert parts[0][0] == 0
        assert parts[-1][1] == rows
        assert all(a[1] == b[0] for a, b in zip(parts, parts[1:], strict=False))


def test_more_memory_and_more_workers_never_make_it_slower():
    work = moment(100_000, 10_000)
    times = [chosen(work, Machine(4, 1, memory * GIB)).seconds for memory in (2, 4, 8, 32)]
    assert times == sorted(times, reverse=True)
    times = [chosen(work, Machine(workers, 1, 8 * GIB)).seconds for workers in (1, 2, 4, 8, 16)]
    assert times == sorted(times, reverse=True)


def test_every_rate_counts():
    whole, machine = moment(100_000, 4_000), Machine(4, 1, 8 * GIB)
    for field in dataclasses.fields(Rates):
        work = dataclasses.replace(whole, density=0.01) if field.name == "pairs" else whole
        work = dataclasses.replace(work, largest={"narrow": 127, "flops": 2**17}.get(field.name, 2**15 - 1))
        base = chosen(work, machine).seconds
        slow = Rates(**{field.name: getattr(machine.rates, field.name) / 100})
        assert chosen(work, dataclasses.replace(machine, rates=slow)).seconds > base, field.name


def test_records_are_cut_at_borders_of_stored_chunks():
    work = Work(GrowthKind.RECORDS, 100_000, 300, (100_000, 300))
    layout = chosen(work, Machine(4, 1, 8 * GIB)).layout(100_000, 700)
    assert all(part.start % 1024 == 0 for part in layout.parts)
    assert work.blocked


def test_a_grid_larger_than_a_task_may_hold_is_cut_into_tiles_unless_one_task_needs_all_cells():
    work = Work(GrowthKind.CELLS, 10**8, 2, (16_384, 16_384), grid=(16_384, 16_384))
    cut = chosen(work, Machine(4, 1, 3 * GIB // 2))
    assert work.blocked
    assert cut.name == "tiles of the answer"
    assert cut.peak_bytes <= 3 * GIB // 2
    assert {tile for part in cut.layout(10**8, 10**5).parts for tile in part.tiles} == set(range(256))
    assert f"{cut.groups} groups of 256 tiles" in cut.explain()
    in_one = Work(GrowthKind.CELLS, 10**8, 2, (16_384, 16_384))
    assert not in_one.blocked
    assert chosen(in_one, Machine(4, 1, 16 * GIB)).explain().startswith("ranges of rows: the whole answer x")
    with pytest.raises(TooLarge, match="needs all cells in one task: a worker would need about"):
        chosen(in_one, Machine(4, 1, 3 * GIB // 2))


def test_a_small_grid_is_one_tile():
    cut = chosen(Work(GrowthKind.CELLS, 10**6, 3, (50, 24), grid=(50, 4, 6)), Machine(4, 1, GIB))
    assert cut.groups == 1
    assert cut.explain().startswith("ranges of rows: the whole answer x")


@pytest.mark.parametrize(("rows", "features"), [(1_000_000, 100_000), (10_000_000, 20_000)])
def test_a_fleet_of_many_workers_is_given_no_more_tasks_than_one_scheduler_has_time_for(rows, features):
    cut = chosen(dataclasses.replace(moment(rows, features), largest=127), Machine(1000, 1, 16 * GIB))
    tasks = cut.tasks + (cut.ranges + 1) * len(cut.work.tiles)
    assert tasks * 1e-3 <= cut.exact_seconds
    assert cut.exact_seconds < 500


def test_all_seconds_are_those_of_sums_noise_and_writing_and_a_large_matrix_is_written_once():
    for features, numbers in ((1_000, 2), (5_000, 1)):
        cut = chosen(moment(10_000, features), Machine(4, 1, 4 * GIB))
        rates = Rates()
        assert cut.seconds == pytest.approx(cut.exact_seconds + cut.noise_seconds + cut.writing_seconds)
        assert cut.noise_seconds == pytest.approx(cut.work.entries / rates.noise / 4)
        assert cut.writing_seconds == pytest.approx(8 * numbers * (features + 1) ** 2 / rates.write / 4)


def test_tiles_of_an_answer_are_cut_once_and_not_for_each_way_that_is_tried():
    work = moment(1_000_000, 100_000)
    assert work.tiles is work.tiles
