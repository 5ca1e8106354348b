"""Of every kind of answer and every strategy, each array follows from what is stated, and a forged one is found.

An array that cannot follow from what a release holds is named with the reason, and no other is let through.
"""

import shutil
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import weights
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_grid import read_factor
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.forged import forged
from tests.pipeline.kinds.counts import test_grids as grids
from tests.pipeline.kinds.counts import test_workloads as workloads
from tests.pipeline.kinds.gradients import test_training as gradients
from tests.pipeline.kinds.gradients import test_training_batches as batches
from tests.pipeline.kinds.histograms import test_column_histograms as histograms
from tests.pipeline.kinds.marginals import test_marginals as tables
from tests.pipeline.kinds.totals import test_totals as totals
from tests.pipeline.questions import test_ordered_axes as ordered
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases import test_directions_release as directions
from tests.pipeline.releases import test_growing_nights as growing
from tests.pipeline.releases import test_training_steps as training

DAY = date(2026, 11, 20)
TABLE = {"rows": 4, "columns": 5, "workload": '"ranges"'}
DAWA = 'kind = "dawa"\npartition_share = 0.25'


def counted(mechanism, query=workloads.TABLE, **shape):
    return lambda folder: workloads.release(folder, query, mechanism, **(shape or TABLE))[1].path


def of_queries(query, mechanism, **settings):
    return lambda folder: queries.run(queries.prepare(folder, query, mechanism=mechanism, **settings))[1].path


def of_grid(folder):
    support.write_records(folder, grids.VALUES)
    loaded = grids.config(folder)
    support.set_budget(loaded, 40.0)
    return grids.run(loaded)[1].path


def of_tables(query, mechanism):
    return lambda folder: queries.run(tables.asked(folder, query, mechanism=mechanism))[1].path


def of_histograms(mechanism, missing):
    query = histograms.QUERY.replace("drop", missing)
    return lambda folder: queries.run(histograms.asked(folder, query, mechanism=mechanism))[1].path


def trained(more="", **changes):
    return lambda folder: gradients.release(training.training(folder / "t", steps=4, more=more, **changes)).path


def hidden(folder):
    (folder / "t" / "w").mkdir(parents=True)
    start = weights.random(weights.shapes(4, (4,), 3), seed=1)
    pin = "w/start.npz", weights.save(start, folder / "t" / "w" / "start.npz")
    return gradients.release(gradients.config(folder / "t", gradients.HIDDEN, pin)).path


def in_a_matrix(folder):
    np.save(folder / "shape.npy", totals.MATRIX)
    loaded = totals.prepare(folder, totals.QUERIES["ellipsoid"], queries.VALUES, neighbours="add-remove")
    return totals.run(loaded)[1].path


def grown(folder):
    loaded = growing.prepared(folder, "continual = {nights = 3, first = 2026-11-01, windows = [1]}")
    for number in range(3):
        growing.grow(folder, number)
        outcome = growing.run(loaded, number)
    return outcome.path


KINDS = {
    "counts": counted('kind = "gaussian"'),
    "counts of three axes": of_grid,
    "matrix mechanism": counted('kind = "matrix-mechanism"'),
    "matrix mechanism of a line": counted(
        'kind = "matrix-mechanism"', workloads.LINE, columns=9, workload='"prefixes"'
    ),
    "hierarchy": counted('kind = "hierarchical"\nnoise = "gaussian"\nbranching = 2'),
    "hierarchy of Laplace noise": counted('kind = "hierarchical"\nnoise = "laplace"\nbranching = 3'),
    "buckets": counted(DAWA),
    "tables": of_tables(tables.CHOSEN, tables.GAUSSIAN),
    "residuals": of_tables(tables.QUERY, tables.RESIDUALS),
    "residuals of ordered axes": of_tables(ordered.QUERY, tables.RESIDUALS),
    "histograms": of_histograms(histograms.GAUSSIAN, "drop"),
    "histograms of residuals": of_histograms('kind = "histogram-residuals"', "count"),
    "K-norm": of_queries(queries.ROWS, 'kind = "k-norm"'),
    "outer products": of_queries(queries.OUTER, 'kind = "gaussian"'),
    "directions": lambda folder: directions.release(folder / "d", 'kind = "gaussian"')[1].path,
    "drawn directions": lambda folder: directions.release(folder / "d", 'kind = "exponential"')[1].path,
    "gradients": lambda folder: gradients.release(gradients.config(folder / "t", gradients.LOGISTIC)).path,
    "gradients of layers": hidden,
    "training": trained("momentum = 0.8\n", optimiser="momentum"),
    "training by Adam": trained('schedule = "cosine"\nweight_decay = 0.01\n', optimiser="adam", rate=0.3),
    "training of weights": trained('publishes = "last-weights"\n'),
    "training of batches": lambda folder: gradients.release(batches.batched(folder / "t", "poisson")).path,
    "training with a band": lambda folder: gradients.release(batches.batched(folder / "t", "banded")).path,
    "nights of a series": grown,
    "a shape by a matrix": in_a_matrix,
}
"""A small release of each kind, made in a folder."""

FREE = {
    "training of weights": {"gradient_length", "last_weights"},
    "nights of a series": {
        "running_total", *(f"{last}{name}" for last in ("", "last_1_") for name in ("count", "mean", "second_moment")),
    },
    "a shape by a matrix": {"totals", "totals_standard_deviation", "mean", "mean_standard_deviation"},
}  # fmt: skip
"""What cannot follow from a release: it is mixed, or read from sums, that the release does not hold."""

QUICK = {"matrix mechanism", "residuals", "training"}


class Held:
    """A release in memory, whose arrays and attributes may be changed."""

    def __init__(self, path):
        opened = open_release(path)
        self.stated = dict(opened.attributes)
        self.arrays = {name: np.asarray(array[...]) for name, array in opened.arrays.items()}

    def refused(self, stated=None, **arrays):
        try:
            ArrayCheck(stated or self.stated, {**self.arrays, **arrays}).run()
        except (OtherArray, ValueError, KeyError, ArithmeticError):
            return True
        return False


@pytest.fixture(scope="module")
def kind_of(tmp_path_factory):
    made = {}

    def release(name):
        if name not in made:
            made[name] = KINDS[name](tmp_path_factory.mktemp("kind"))
        return made[name]

    return release


def no_size(name):
    """Of some it is known alone that nothing is negative: no count, and no direction."""
    return name.endswith(("_non_negative", "_psd"))


@pytest.mark.parametrize("name", support.slow_but(QUICK, KINDS))
class TestEveryKind:
    def test_holds_and_names_what_cannot_follow(self, name, kind_of):
        (finding,) = [each for each in verify(kind_of(name)).findings if each.what == "Arrays"]
        assert finding.holds is True, finding
        _, _, rest = finding.words.partition("not checked: ")
        named = {each for part in rest.split("; ") for each in part.partition(": ")[0].split(", ") if each}
        assert named == FREE.get(name, set())

    def test_is_refused_where_any_of_its_numbers_is_another(self, name, kind_of):
        held = Held(kind_of(name))
        for each, array in held.arrays.items():
            if each in FREE.get(name, ()) or no_size(each) or array.dtype.kind not in "fiub" or not np.any(array):
                continue
            more = array * 1.01 if array.dtype.kind == "f" else array + 1
            assert held.refused(**{each: more}), each
            # One number alone, the largest of those that are finite.
            one = array.copy()
            place = int(np.argmax(np.where(np.isfinite(array), np.abs(array), -1.0)))
            one.flat[place] = one.flat[place] * 1.01 if array.dtype.kind == "f" else one.flat[place] + 1
            assert held.refused(**{each: one}), each

    def test_is_refused_where_it_states_other_noise(self, name, kind_of):
        held = Held(kind_of(name))
        mechanism = held.stated["mechanism"]
        if "grid" not in mechanism:
            mechanism = {**mechanism, "steps": [{**each, "noise": "none"} for each in mechanism.get("steps", [])]}
            assert held.refused({**held.stated, "mechanism": mechanism}) == (name == "buckets")
            return
        for key in ("scale", "grid_standard_deviation"):
            assert held.refused({**held.stated, "mechanism": {**mechanism, key: mechanism[key] * 2}}), key
        for key in ("scale", "grid_standard_deviation", "grid", "unit", "shift", "row_spread"):
            rest = {each: value for each, value in mechanism.items() if each != key}
            assert held.refused({**held.stated, "mechanism": rest}), key

    def test_is_refused_with_an_array_too_many_or_too_few(self, name, kind_of):
        held = Held(kind_of(name))
        assert held.refused(more=np.ones(3))
        values = held.stated["matrix"]
        del held.arrays[values]
        assert held.refused()


@pytest.mark.parametrize("name", support.slow_but({"hierarchy"}, sorted({"hierarchy", "residuals", "buckets"})))
def test_a_forged_release_of_a_strategy_does_not_verify(name, kind_of, tmp_path):
    path = kind_of(name)
    copy = shutil.copytree(path, tmp_path / path.name)
    deviation = f"{open_release(path).attributes['matrix']}_standard_deviation"
    zarr.open_array(copy / deviation, mode="r+")[...] *= 0.5
    found = verify(forged(copy))
    assert not found.holds
    assert deviation in str([each.words for each in found.findings if each.what == "Arrays"])


def test_noise_of_a_night_and_of_a_window_is_that_of_the_weights():
    series = {"weights": [4, 3, 2], "night": 6}
    differences = {0: 4.0, 1: -1.0, 2: -1.0}
    matrix = np.array([[differences.get(row - column, 0.0) for column in range(6)] for row in range(6)])
    noise = np.linalg.inv(matrix)[-1]
    assert read_factor({"continual": series}) == pytest.approx(np.linalg.norm(noise), rel=1e-12)
    change = noise - np.linalg.inv(matrix)[3]
    found = read_factor({"continual": {**series, "window of nights": 2}})
    assert found == pytest.approx(np.linalg.norm(change), rel=1e-12)


def test_an_ellipsoid_along_its_axes_has_the_rules_of_a_box(tmp_path):
    features = ", ".join(f'{{ name = "x{i}", origin = 0.1, semi_axis = {i + 1}.0 }}' for i in range(4))
    text = f'[query.geometry]\nkind = "ellipsoid"\nshape = "diagonal"\nfeatures = [{features}]\n'
    query = queries.ROWS[: queries.ROWS.index("[query.geometry]")] + text
    loaded = queries.prepare(tmp_path, query.replace('"rows"', '"covariance"'), neighbours="add-remove",
                             mechanism='kind = "shaped-gaussian"\noptimise_for = "absolute-error"')  # fmt: skip
    path = run_release(make_plan(load_config(loaded.path), DAY), ThreadCompute(1), "t", lambda *_: None).path
    (finding,) = [each for each in verify(path).findings if each.what == "Arrays"]
    assert (finding.holds, "not checked" in finding.words) == (True, False), finding
