"""Plans: complete without data, sensible weights, and the two worlds of a config kept apart."""

from datetime import date

import numpy as np
import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan import effort, summary
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

NIGHT = date(2026, 11, 20)


def plan(folder, *changes, night=NIGHT, **options):
    path = support.write_config(folder, **options)
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return make_plan(load_config(path), night)


BALL = (
    support.CONFIG[support.CONFIG.index("[query.geometry]") : support.CONFIG.index("[privacy]")]
    .replace("{{", "{")
    .replace("}}", "}"),
    "[query.geometry]\nkind = 'ball'\nradius = 2.0\nfeatures = [{name='a', origin=0}, {name='b', origin=1}]\n\n",
)
AXES = (
    BALL[0],
    "[query.geometry]\nkind = 'ellipsoid'\nshape = 'diagonal'\n"
    "features = [{name='a', origin=0, semi_axis=2}, {name='b', origin=1, semi_axis=8}]\n\n",
)
MATRIX = (
    BALL[0],
    "[query.geometry]\nkind = 'ellipsoid'\nshape = 'e.npy'\n"
    "features = [{name='a', origin=0}, {name='b', origin=1}]\n\n",
)
CAPPED = ('kind = "box"', 'kind = "box"\nnorm_at_most = 6e5')
ISOTROPIC = ('kind = "shaped-gaussian"\noptimise_for = "relative-error"', 'kind = "gaussian"')


@pytest.mark.parametrize(
    "change", [(), (BALL,), (AXES,), (CAPPED,), (ISOTROPIC,), (BALL, ISOTROPIC), (CAPPED, ISOTROPIC)]
)
@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_every_geometry_mechanism_query_and_relation_can_be_planned(tmp_path, change, kind, neighbours):
    made = plan(tmp_path, *change, kind=kind, neighbours=neighbours)
    width = len(made.columns) + (kind == "covariance")
    assert made.design.width == width
    assert made.design.sensitivity == made.question.problem.l2(made.design.spread)
    relation = 1.0 if neighbours == "add-remove" else np.sqrt(2)
    norm = np.sum(made.design.spread.rows**-2.0) if made.config.query.geometry.kind == "box" else None
    assert norm is None or made.design.sensitivity.bound <= relation * norm * (1 + 1e-9)
    assert dict(summary.describe(made, None))["Charge"].startswith("mu 0.2367")


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_a_norm_is_shown_lowers_the_noise_and_is_part_of_the_plan(tmp_path, kind):
    free, bound = plan(tmp_path, kind=kind), plan(tmp_path, CAPPED, kind=kind)
    assert "Norm" not in dict(summary.describe(free, None))
    assert dict(summary.describe(bound, None))["Norm"].startswith(
        "at most 600000 from the origin, besides the bounds of"
    )
    assert bound.digest != free.digest
    assert np.all(np.diagonal(raw_deviation(bound)) < np.diagonal(raw_deviation(free)))


def test_directions_and_a_norm_do_not_go_together(tmp_path):
    np.save(tmp_path / "w.npy", np.eye(3))
    along = (
        'kind = "shaped-gaussian"\noptimise_for = "relative-error"',
        'kind = "mvg-exact"\nallocation = { kind = "uniform" }\ndirections = "w.npy"\ndirections_source = "public"',
    )
    plan(tmp_path, along, kind="second-moment")
    with pytest.raises(ConfigError, match="norm_at_most"):
        plan(tmp_path, CAPPED, along, kind="second-moment")


def test_a_full_matrix_is_planned_and_its_content_is_part_of_the_plan(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[4.0, 1.0], [1.0, 2.0]]))
    first = plan(tmp_path, MATRIX)
    np.save(tmp_path / "e.npy", np.array([[4.0, 1.5], [1.5, 2.0]]))
    assert plan(tmp_path, MATRIX).digest != first.digest
    with pytest.raises(ConfigError, match='choose "shaped-gaussian"'):
        plan(tmp_path, MATRIX, ISOTROPIC)


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_the_noise_in_a_full_matrix_is_compared_with_what_records_can_give(tmp_path, kind):
    np.save(tmp_path / "e.npy", np.array([[4.0, 1.0], [1.0, 2.0]]))
    least, largest = plan(tmp_path, MATRIX, kind=kind).answer.noise_over_largest()
    assert 0.0 < least <= largest


def raw_deviation(made):
    scale = made.question.query.quantiser.coordinates.scale
    deviation = made.design.entry_standard_deviation()[-scale.size :, -scale.size :]
    return np.outer(scale, scale) * deviation


def test_isotropic_noise_is_equal_in_raw_units(tmp_path):
    deviation = raw_deviation(plan(tmp_path, ISOTROPIC, kind="second-moment"))
    assert np.ptp(np.diagonal(deviation)) / deviation[0, 0] < 1e-3


def test_relative_error_makes_noise_equal_to_each_features_range(tmp_path):
    made = plan(tmp_path, kind="second-moment")
    relative = np.diagonal(raw_deviation(made)) / made.question.query.quantiser.coordinates.scale**2
    assert np.ptp(relative) / relative[0] < 1e-6


def test_absolute_error_has_the_least_total_noise_in_raw_units(tmp_path):
    absolute = ('"relative-error"', '"absolute-error"')
    totals = {
        name: np.sum(raw_deviation(plan(tmp_path, *change, kind="second-moment")) ** 2)
        for name, change in (("isotropic", (ISOTROPIC,)), ("relative", ()), ("absolute", (absolute,)))
    }
    assert totals["absolute"] < totals["isotropic"]
    assert totals["absolute"] < totals["relative"]


def test_a_more_important_feature_gets_less_noise(tmp_path):
    even = ('"relative-error"', "{ age = 1.0, income = 1.0, debt = 1.0 }")
    first = ('"relative-error"', "{ age = 1.0, income = 9.0, debt = 1.0 }")
    plain, favoured = (raw_deviation(plan(tmp_path, change, kind="second-moment")) for change in (even, first))
    assert favoured[1, 1] < plain[1, 1]
    assert favoured[2, 2] > plain[2, 2]


def test_importances_are_refused_where_they_change_nothing(tmp_path):
    with pytest.raises(ConfigError, match="importances change nothing"):
        plan(tmp_path, BALL, ('"relative-error"', "{ a = 1.0, b = 2.0 }"))


def test_only_the_deciding_sections_change_the_plan(tmp_path):
    base = plan(tmp_path).digest
    assert plan(tmp_path, ("block_rows = 50", "block_rows = 7\nmemory_gib = 9.0")).digest == base
    assert plan(tmp_path, ('kind = "threads"', 'kind = "local"\nworkers = 3')).digest == base
    assert plan(tmp_path, ('root = "releases"', 'root = "elsewhere"')).digest == base
    assert plan(tmp_path, epsilon=1.1).digest != base
    assert plan(tmp_path, night=date(2026, 11, 21)).digest != base
    assert plan(tmp_path, ("upper = 120", "upper = 121")).digest != base


@pytest.mark.parametrize(
    ("cluster", "rows", "threads"),
    [
        ('kind = "local"\nworkers = 3', "10_000", 3),
        ('kind = "local"\nworkers = 3\nthreads_per_worker = 2', "10_000", 6),
        ('kind = "local"\nworkers = 400', "10_000", 8),
        ('kind = "local"\nworkers = 3\nalways_start_workers = true', "10_000", None),
        ('kind = "local"\nworkers = 3', "1_000_000_000", None),
        ('kind = "threads"\nthreads_per_worker = 5', "1_000_000_000", 5),
        ('kind = "address"\naddress = "tls://127.0.0.1:1"', "10_000", None),
    ],
)
def test_no_workers_are_started_for_work_that_is_done_sooner_than_they_are(tmp_path, cluster, rows, threads):
    records = ("rows_at_most = 10_000", f"rows_at_most = {rows}")
    made = plan(tmp_path, ('kind = "threads"', cluster), records, ("delta = 1e-6", "delta = 1e-12"))
    assert made.effort.here == threads
    assert threads is None or made.effort.machine().slots == threads
    said = dict(summary.describe(made, None))["Computed by"]
    assert ("too little to start workers for" in said) == (threads is not None and "local" in cluster)


def test_a_machine_that_is_too_small_is_refused_without_a_word_about_the_records(tmp_path):
    made = plan(
        tmp_path, ("block_rows = 50", "block_rows = 100_000"), ("rows_at_most = 10_000", "rows_at_most = 100_000")
    )
    many = made.effort.machine(threads=4096)
    said = set()
    for rows in (100, 90_000, None):
        with pytest.raises(ConfigError, match="memory_gib") as refused:
            made.effort.cut(many, rows)
        said.add(str(refused.value))
    assert len(said) == 1


def test_a_plan_that_does_not_fit_the_memory_bound_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="memory_gib"):
        plan(tmp_path, ("block_rows = 50", "block_rows = 10_000_000\nmemory_gib = 0.001"))


def test_a_plan_shows_no_path_and_no_fingerprint(tmp_path):
    assert str(tmp_path) not in str(plan(tmp_path).public)
    assert "fingerprint" not in str(plan(tmp_path).public)


def test_whole_stored_chunks_are_read_where_they_fit(tmp_path):
    made = plan(tmp_path)
    assert made.effort.chunk_rows(20) == 40
    assert made.effort.chunk_rows(50) == 50
    assert made.effort.chunk_rows(64) == 50


@pytest.mark.parametrize("features", [4, 300])
def test_records_are_read_by_bytes_and_not_by_number(tmp_path, features):
    several = f'{{ name = "age", lower = 0, upper = 120, count = {features - 3} }}'
    made = plan(tmp_path, ("block_rows = 50", ""), ('{ name = "age", lower = 0, upper = 120 }', several))
    columns = len(made.effort.config.query.columns)
    assert made.effort.chunk_rows(1) == effort.CHUNK_BYTES // (8 * columns)
    assert made.effort.chunk_rows(1000) * 8 * columns <= effort.CHUNK_BYTES


def test_a_plan_counts_the_largest_chunk_that_may_be_read(tmp_path, monkeypatch):
    made, counted = plan(tmp_path, ("block_rows = 50", "")), []
    monkeypatch.setattr(effort, "CHUNK_BYTES", 8 * 1_000 * len(made.columns))
    choose = effort.choose
    monkeypatch.setattr(
        effort, "choose", lambda work, machine, chunk: counted.append(chunk) or choose(work, machine, chunk)
    )
    made.effort.cut(made.effort.machine())
    rows = made.effort.chunk_rows(1)
    largest = max(made.effort.chunk_rows(stored) for stored in (1, rows // 3, rows + 1, 2 * rows, 5 * rows))
    assert counted[0] >= 8 * largest * len(made.columns)


def test_a_large_stored_chunk_is_read_whole_or_in_equal_parts(tmp_path):
    made = plan(tmp_path, ("block_rows = 50", ""))
    rows = made.effort.chunk_rows(1)
    assert made.effort.chunk_rows(2 * rows) == 2 * rows
    assert made.effort.chunk_rows(9 * rows // 2) == -(-(9 * rows // 2) // 5)
    assert 3 * made.effort.chunk_rows(3 * rows - 1) >= 3 * rows - 1
