"""Nights that learn their shape and write their answer block by block: the bits of the whole, which nobody reads."""

import numpy as np
import pytest
import zarr

import blockveil.engine.answers.work
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.derived_noise import derived, diagonal_of
from blockveil.pipeline.data.released import open_release, read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.matrix import EntriesTile, ReleasedMatrix
from blockveil.pipeline.report.scan import noise_units
from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_stages import Stages
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.stopping import Stopped, StoppingCompute
from tests.pipeline.releases.test_learning_stages import attributes, learning
from tests.pipeline.releases.test_release import NIGHT, bits, quiet, run, spent

FEATURES, ROWS = 1100, 20_000
BETWEEN, NEXT = NIGHT.replace(day=21), NIGHT.replace(day=22)
NOISE = "_standard_deviation"
STATED = {"noise_by_row", "noise_off_diagonal", "noise_of_a_step", "unit_by_row"}

CONFIG = """
[release]
dataset = "people"
name = "covariance"
[data]
store = "records.zarr"
[query]
kind = "covariance"
rows_at_most = 20000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
learn = "correlation"
features = [
{features}
]
[privacy]
epsilon = 10.0
delta = 1e-5
neighbours = "add-remove"
unit = "a row"
[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def wide(folder):
    """A config of many features, of which few directions have all of the variance."""
    rng = np.random.default_rng(1)
    values = rng.standard_t(4, (ROWS, 5)) @ rng.normal(size=(5, FEATURES)) + rng.normal(size=(ROWS, FEATURES))
    support.write_records(folder, (0.05 * values).astype(np.float32), chunks=(2000, FEATURES))
    features = ",\n".join(f'{{ name = "f{i}", lower = -3.0, upper = {3 + i % 3}.0 }}' for i in range(FEATURES))
    path = folder / "people.toml"
    path.write_text(CONFIG.format(features=features))
    loaded = load_config(path)
    support.set_budget(loaded, 30.0, 1e-3)
    return loaded


def released(folder, patch, days):
    """Nights, each of which learns from the one before, under keys that are known."""
    folder.mkdir()
    loaded = wide(folder)
    with patch.context() as patched:
        patched.setattr(NoiseKey, "derive", classmethod(lambda cls, *_: cls(bytes(32))))
        # Slow, and not the matter here.
        patched.setattr("blockveil.engine.estimates.matrices.nearest_psd", lambda matrix: (matrix, 0.0))
        patched.setattr("blockveil.engine.estimates.matrices.shrunk", lambda matrix, noise: matrix)
        patched.setattr("blockveil.pipeline.releases.outputs.post_processing", lambda *_: {})
        plans = (plan_begun(loaded, night, Ledger(loaded.ledger_url)) for night in days)
        return loaded, [run_release(plan, ThreadCompute(2), "test", quiet) for plan in plans]


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A night that is held whole, and the same and the next in blocks."""
    folder, patch = tmp_path_factory.mktemp("nights"), pytest.MonkeyPatch()
    _, (whole,) = released(folder / "whole", patch, [NIGHT])
    with patch.context() as patched:
        patched.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 1000)
        loaded, blocks = released(folder / "blocks", patch, [NIGHT, NEXT])
        yield loaded, whole, blocks


@pytest.fixture
def in_blocks(monkeypatch):
    """Every answer is written block by block, small ones in one."""
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 4)
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))


def test_blocks_hold_the_bits_of_the_whole(nights):
    _, whole, (blocks, _) = nights
    kept, cut = read_release(whole.path), read_release(blocks.path)
    assert kept.attributes["learned"]["domain"] == "ellipsoid"
    assert kept.attributes["learned"] == cut.attributes["learned"]
    assert set(cut.arrays) - STATED <= set(kept.arrays)
    assert {"clipped_variance", f"mean{NOISE}", f"covariance{NOISE}"} <= set(cut.arrays)
    computed = {"clipped_variance", f"mean{NOISE}", f"covariance{NOISE}"}
    for name in set(cut.arrays) - STATED - computed:
        assert np.array_equal(cut.arrays[name], kept.arrays[name]), name
    for name in computed:
        assert np.allclose(cut.arrays[name], kept.arrays[name], rtol=1e-12, atol=0.0)
    assert f"covariance{NOISE}" not in zarr.open_group(blocks.path, mode="r")


def test_the_second_night_learned_from_the_diagonal_of_the_first(nights):
    _, _, (first, second) = nights
    arrays, learned = read_release(first.path).arrays, attributes(second)["learned"]
    mean, variance, noise, taken = np.array(learned["earlier"]["features"]).T
    assert learned["earlier"]["release_id"] == "people/covariance/2026-11-20"
    assert np.array_equal(mean, arrays["mean"])
    assert np.array_equal(variance, np.diagonal(arrays["covariance"]))
    assert np.array_equal(taken, arrays["clipped_variance"])
    assert np.allclose(np.hypot(noise, taken), np.diagonal(arrays[f"covariance{NOISE}"]), rtol=1e-6)


def test_they_verify_and_what_is_forged_is_found(nights):
    for outcome in nights[2]:
        found = {finding.what: finding for finding in verify(outcome.path).findings}
        assert found["Stages"].holds
        assert found["Arrays"].holds
        opened = open_release(outcome.path)
        arrays = {name: array[...] for name, array in zarr.open_group(outcome.path, mode="r").arrays()}
        less = {
            **arrays,
            "clipped_variance": arrays["clipped_variance"] * np.where(np.arange(FEATURES) % 2, 1, 0.5),
        }
        forged = {**less, f"covariance{NOISE}": opened.arrays[f"covariance{NOISE}"]}
        assert Stages(opened.attributes, forged).failure() == "what shortening takes is not what its rings say"
        with pytest.raises(OtherArray, match=f"mean{NOISE}"):
            ArrayCheck(opened.attributes, Stages(opened.attributes, less).last).run()


def test_nobody_reads_the_whole_matrix_at_once(nights, monkeypatch):
    loaded, _, (first, _) = nights
    sizes, real = [], zarr.Array.__getitem__

    def read(array, key):
        found = real(array, key)
        sizes.append(np.size(found))
        return found

    monkeypatch.setattr(zarr.Array, "__getitem__", read)
    monkeypatch.setattr("blockveil.pipeline.report.spectrum.WHOLE", 512)  # all eigenvalues of up to so many features
    assert plan_begun(loaded, BETWEEN, Ledger(loaded.ledger_url)).designed.learning.earlier is not None
    verify(first.path)
    write_report(first.path)
    assert FEATURES < max(sizes) < FEATURES**2


def test_what_stands_out_is_judged_by_the_same_noise(nights):
    _, one, (other, _) = nights
    whole, blocks = (ReleasedMatrix(open_release(outcome.path)) for outcome in (one, other))
    tile = EntriesTile((1000, 1090), (1010, 1100), False)
    kept, cut = (NoiseAlone(matrix, (360, 360)) for matrix in (whole, blocks))
    value, deviation = (getattr(whole, name)(tile.rows, tile.columns) for name in ("value", "deviation"))
    for ours, theirs in (
        (cut.own_noise, kept.own_noise),
        (noise_units(blocks)[0], noise_units(whole)[0]),
        (cut.noise(tile, value, deviation), kept.noise(tile, value, deviation)),
        (cut.ratio.sums, kept.ratio.sums),
    ):
        assert np.allclose(ours, theirs, rtol=1e-9)
    assert np.all(cut.noise(tile, value, deviation) <= deviation)
    assert np.any(cut.noise(tile, value, deviation) < 0.9 * deviation)
    assert np.array_equal(*(each.stands(1000, 1010, value, deviation) for each in (cut, kept)))


def test_records_that_fill_their_bounds_stay_in_a_box_of_blocks(tmp_path, in_blocks):
    values = np.random.default_rng(3).uniform([0, 0, -500_000], [120, 1_000_000, 500_000], (9_000, 3))
    outcome = run(learning(tmp_path, "covariance", values, epsilon=8.0))
    assert attributes(outcome)["learned"]["domain"] == "box"
    assert "clipped_variance" not in zarr.open_group(outcome.path, mode="r")
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)


@pytest.mark.parametrize("aim", ["correlation", "covariance"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_every_aim_and_relation_has_the_errors_of_the_whole_and_verifies(tmp_path, monkeypatch, aim, neighbours):
    monkeypatch.setattr(NoiseKey, "derive", classmethod(lambda cls, *_: cls(bytes(32))))
    found = []
    for entries in (2**24, 4):
        monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", entries)
        (tmp_path / str(entries)).mkdir()
        loaded = learning(tmp_path / str(entries), aim, neighbours=neighbours)
        outcome = run(loaded)
        assert attributes(outcome)["learned"]["domain"] == "ellipsoid"
        assert all(finding.holds is not False for finding in verify(outcome.path).findings)
        found.append(read_release(outcome.path).arrays)
        assert attributes(run(loaded, NEXT))["learned"]["earlier"]["release_id"] == "people/covariance/2026-11-20"
    whole, blocks = found
    for name in ("covariance", f"covariance{NOISE}", f"mean{NOISE}", "clipped_variance"):
        assert np.allclose(blocks[name], whole[name], rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("stop", [1, 7, 8, 9])
def test_a_night_that_was_killed_is_finished_with_the_same_bits(tmp_path, in_blocks, stop):
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    whole, loaded = bits(run(learning(tmp_path / "whole"))), learning(tmp_path / "killed")

    with pytest.raises(Stopped):
        run(loaded, compute=StoppingCompute(stop))
    assert (spent(loaded) == 0.0) == (stop == 1)
    assert bits(run(loaded)) == whole
    assert KeyStore(loaded.keys_root).list() == []


@pytest.mark.parametrize(
    "learned",
    [None, [], {}, {"clipped_share": 0.1}]
    + [{"clipped_share": share, "clipped_share_standard_deviation": 0.1} for share in (-0.1, 10**400, "x", None)],
)
def test_no_deviations_are_computed_of_a_release_that_does_not_state_its_share(tmp_path, in_blocks, learned):
    opened = open_release(run(learning(tmp_path)).path)
    assert diagonal_of(opened.arrays[f"covariance{NOISE}"]).shape == (3,)
    assert derived(opened.arrays, opened.attributes)
    assert not derived(opened.arrays, {**opened.attributes, "learned": learned})
