"""Arrays of a release are held against the noise and the bounds that it states, and a forger's are told apart."""

import shutil
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.zarr_arrays import write_array
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.verification.stated_grid import law_deviation
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.forged import forged
from tests.house.support import slow_but

SHAPED = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
AIM = '\noptimise_for = "absolute-error"'
MADE = {
    "covariance": {},
    "replace-one": {"neighbours": "replace-one"},
    "gaussian": {"mechanism": 'kind = "gaussian"'},
    "joint-diagonal": {"mechanism": f'kind = "joint-diagonal"{AIM}'},
    "laplace": {"mechanism": f'kind = "laplace"{AIM}'},
    "shaped-diagonal": {"kind": "second-moment", "mechanism": f'kind = "shaped-diagonal"{AIM}'},
    "box-diagonal": {"kind": "second-moment", "mechanism": 'kind = "box-diagonal"'},
    "analyze-gauss": {"kind": "second-moment", "mechanism": 'kind = "analyze-gauss"'},
    "totals": {"kind": "totals"},
    "totals of a public number": {"kind": "totals", "neighbours": "replace-one"},
    "rows": {"kind": "rows", "neighbours": "replace-one", "mechanism": 'kind = "gaussian"'},
}


def released(folder, mechanism=SHAPED, **settings):
    loaded = support.prepare(folder, **settings)
    loaded.path.write_text(loaded.path.read_text().replace(SHAPED, mechanism))
    return run_release(make_plan(load_config(loaded.path), date(2026, 11, 20)), ThreadCompute(1), "t", lambda *_: None)


def arrays_of(found):
    (finding,) = [each for each in found.findings if each.what == "Arrays"]
    return finding


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return released(tmp_path_factory.mktemp("made")).path


@pytest.fixture
def release(made, tmp_path):
    return shutil.copytree(made, tmp_path / made.name)


@pytest.mark.parametrize("name", slow_but({"joint-diagonal", "totals"}, MADE))
def test_every_array_of_a_release_has_a_rule_and_holds(name, tmp_path):
    finding = arrays_of(verify(released(tmp_path, **MADE[name]).path))
    assert finding.holds is True, finding
    assert "not checked" not in finding.words


STEPPED = """[release]
dataset = "d"
name = "n"
[data]
store = "records.zarr"
[query]
kind = "{kind}"
rows_at_most = 100
missing = "refuse"
quantisation_bits = 16
{shapes}
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "add-remove"
unit = "one row"
[mechanism]
kind = "gaussian"
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def stepped(folder, kind):
    """A release of whole numbers and of others, which are rounded."""
    keys = ("left", "right") if kind == "outer-products" else ("geometry",)
    bounds = ("lower = -2, upper = 9, step = 1", "lower = -1.3, upper = 6.7", "lower = 0, upper = 41, step = 1")
    shapes = ""
    for key in keys:
        features = ", ".join(f'{{name = "{key}{i}", {each}}}' for i, each in enumerate(bounds))
        shapes += f'[query.{key}]\nkind = "box"\norigin = "midpoint"\nfeatures = [{features}]\n'
    path = folder / "release.toml"
    path.write_text(STEPPED.format(kind=kind, shapes=shapes))
    loaded = load_config(path)
    records = np.random.default_rng(3).integers(0, 8, (60, 3 * len(keys))).astype(np.float64)
    support.write_records(folder, records)
    support.set_budget(loaded, epsilon=10.0, delta=1e-5)
    return run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "t", lambda *_: None)


@pytest.mark.parametrize("kind", ["covariance", "second-moment", "totals", "outer-products"])
def test_steps_and_errors_of_whole_numbers_are_recomputed_and_another_one_is_found(kind, tmp_path):
    path = stepped(tmp_path, kind).path
    found = verify(path)
    assert not [each for each in found.findings if each.holds is False], found.findings
    stated = dict(zarr.open_group(path, mode="r").attrs)
    names = ("by_row", "by_column") if kind == "outer-products" else ("by_coordinate",)
    for name in names:
        errors = stated["error"]["rounding_error"][name]
        assert [each == 0.0 for each in errors] == [True, False, True]
    name = "totals" if kind == "totals" else kind.replace("-", "_")
    last_entry_moved(path, f"{name}_standard_deviation")
    assert arrays_of(verify(forged(path))).holds is False


def times(factor):
    def change(group, name):
        array = zarr.open_array(group / name, mode="r+")
        array[...] = array[...] * factor

    return change


def last_entry_moved(group, name):
    array = zarr.open_array(group / name, mode="r+")
    values = np.array(array[...])
    values.flat[-1] = values.flat[-1] * (1.0 + 1e-5) + 1e-3
    array[...] = values


NUMBERS = [
    "count", "count_standard_deviation", "mean", "mean_standard_deviation", "covariance",
    "covariance_standard_deviation", "second_moment", "second_moment_standard_deviation",
]  # fmt: skip


@pytest.mark.parametrize("change", [times(0.01), times(1.0 + 1e-6), last_entry_moved], ids=["less", "near", "one"])
@pytest.mark.parametrize("name", NUMBERS)
def test_an_array_that_is_not_what_the_stated_noise_gives_is_found(name, change, release):
    change(release, name)
    finding = arrays_of(verify(forged(release)))
    assert finding.holds is False, finding


def test_a_matrix_of_other_values_is_found_though_everything_else_agrees(release):
    for name, value in (("covariance", np.eye(3) * 0.123456789), ("covariance_psd", np.eye(3)), ("mean", 0.25)):
        zarr.open_array(release / name, mode="r+")[...] = value
    assert arrays_of(verify(forged(release))).holds is False


def test_a_version_that_is_not_positive_semi_definite_is_found(release):
    zarr.open_array(release / "covariance_psd", mode="r+")[...] = -np.eye(3)
    assert "covariance_psd" in arrays_of(verify(forged(release))).words


def wider(stated):
    for feature in stated["query"]["geometry"]["features"]:
        feature["lower"] *= 1000.0
        feature["upper"] *= 1000.0


def finer(stated):
    stated["mechanism"]["shift"] += 20
    stated["mechanism"]["grid_standard_deviation"] *= 1e-6


@pytest.mark.parametrize(
    "change",
    [
        wider,
        finer,
        lambda stated: stated["mechanism"].update(shift=stated["mechanism"]["shift"] + 1),
        lambda stated: stated["mechanism"].update(unit=stated["mechanism"]["unit"] * 2),
        lambda stated: stated["mechanism"].update(grid_standard_deviation=1.0),
        lambda stated: stated["mechanism"].update(grid="3 levels of width 2048"),
        lambda stated: stated["mechanism"].update(scale=stated["mechanism"]["scale"] * 1.5),
        lambda stated: stated["query"]["geometry"]["features"][0].update(upper=121.0),
        lambda stated: stated["query"]["geometry"].update(origin="zero"),
        lambda stated: stated["query"]["geometry"]["features"].reverse(),
    ],
)
def test_arrays_do_not_hold_under_other_bounds_or_another_grid(change, release):
    found = verify(forged(release, change))
    assert arrays_of(found).holds is False, found
    assert not found.holds


def test_an_array_that_no_such_release_has_is_refused(release):
    write_array(zarr.open_group(release, mode="r+"), "more", np.ones(3), ("cell",))
    finding = arrays_of(verify(forged(release)))
    assert (finding.holds, finding.words) == (False, "more is no array of such a release")


@pytest.mark.parametrize("key", ["shift", "unit", "scale", "grid", "row_spread"])
def test_a_release_that_leaves_out_what_its_arrays_follow_from_is_refused(key, release):
    assert arrays_of(verify(forged(release, lambda stated: stated["mechanism"].pop(key)))).holds is False


@pytest.mark.parametrize("rate", [(1, 9), (7, 3), (1, 10**6)])
def test_the_deviation_of_a_law_is_that_of_its_probabilities(rate):
    top, below = rate
    far = 60 * below // top + 10
    steps = np.arange(-far, far + 1, dtype=np.float64)
    if steps.size < 10**6:
        weights = np.exp(-np.abs(steps) * top / below)
        expected = np.sqrt(np.sum(weights * steps**2) / np.sum(weights))
    else:
        expected = np.sqrt(2.0) * below / top
    found = law_deviation({"grid": f"discrete Laplace of rate {top}/{below}"})[0]
    assert found == pytest.approx(expected, rel=1e-9)
