"""A preview goes the way of a release with simulated records, and leaves nothing behind."""

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy import rehearsal
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.rehearsal import Rehearsal, rehearse
from blockveil.pipeline.accuracy.rehearsal_picture import picture
from blockveil.pipeline.accuracy.shading import blocks, side_by_side
from blockveil.pipeline.accuracy.simulated_records import simulated_records
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan, plan_near
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.report.papers import DARK, LIGHT
from tests.house import support

NIGHT = date(2026, 11, 20)
KEY = NoiseKey.derive(bytes(32), b"a preview that is always the same")


def wide(folder, features, kind="covariance", **changes):
    path = support.write_config(folder, kind=kind, **changes)
    text = path.read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    feature = f'{{ name = "f", lower = -1, upper = 1, count = {features} }}'
    path.write_text(f"{text[:start]}features = [{feature}{text[end:]}")
    return make_plan(load_config(path), NIGHT)


@pytest.mark.parametrize(
    "name", ["quickstart", "totals", "nightly", "training", "visits", "pickups", "growing", "directions"]
)
def test_every_kind_of_release_has_a_preview_near_the_truth(name, monkeypatch):
    monkeypatch.setenv("BLOCKVEIL_TLS_KEY_FILE", "/dev/null")
    plan = plan_near(load_config(Path("configs") / f"{name}.toml"), NIGHT)
    made = rehearse(plan, Supposed(), KEY)
    assert isinstance(made, Rehearsal)
    assert made.truth.shape == made.released.shape
    assert not np.array_equal(made.truth, made.released)
    assert made.simulated * made.copies <= plan.config.query.rows_at_most
    if name != "directions":
        # Numbers that share the noise of count and sums err together, so that few numbers may miss more often.
        furthest = 5.0 * math.sqrt(0.05 * 0.95 / made.entries)
        assert abs(made.covered / made.entries - 0.955) < furthest + 0.02
    assert all(line == line.rstrip("\n") for line in side_by_side(made))
    json.dumps(made.plain, allow_nan=False)


def test_the_truth_of_a_preview_is_that_of_its_simulated_records(tmp_path):
    plan = wide(tmp_path, 5)
    made = rehearse(plan, Supposed(rows=10_000, correlation=0.5), KEY)
    population = Population.of(plan, Supposed(rows=10_000, correlation=0.5))
    records = np.clip(simulated_records(plan, population, made.simulated), -1.0, 1.0)
    assert made.truth == pytest.approx(np.corrcoef(records, rowvar=False), abs=1e-3)
    assert made.truth[0, 1] == pytest.approx(0.5, abs=0.05)
    assert made.truth[0, 2] == pytest.approx(0.25, abs=0.05)
    assert made.rows == made.columns == tuple(f"f{i}" for i in range(1, 6))


def test_copies_of_records_count_as_many_records(tmp_path, monkeypatch):
    plan = wide(tmp_path, 3, "second-moment")
    once = rehearse(plan, Supposed(rows=10_000), KEY)
    monkeypatch.setattr(rehearsal, "_MOST_VALUES", 300)
    copied = rehearse(plan, Supposed(rows=10_000), KEY)
    assert (once.copies, copied.copies) == (1, 100)
    assert copied.simulated == 100
    assert copied.truth == pytest.approx(once.truth, abs=0.3)
    # The same noise beside as many records.
    assert copied.released - copied.truth == pytest.approx(once.released - once.truth, abs=0.02)


def test_records_are_previewed_too(tmp_path):
    made = rehearse(wide(tmp_path, 4, "rows", neighbours="replace-one"), Supposed(), KEY)
    assert made.truth.shape == (200, 4)
    assert 0.92 < made.covered / made.entries < 0.98


def test_a_wide_matrix_is_sized_down_and_the_preview_says_so(tmp_path):
    made = rehearse(wide(tmp_path, 400), Supposed(), KEY)
    assert made.truth.shape == (150, 150)
    assert "the first 150 of 400 features" in made.sized_down
    assert made.sized_down in made.sentences
    assert "the first 16 of 150 features" in side_by_side(made)[0]
    assert len(side_by_side(made)) == 2 + 16


def test_what_is_too_large_for_a_preview_says_so():
    assert "no preview of records of 1,108 columns" in rehearse(
        plan_near(load_config(Path("configs/gradients.toml")), NIGHT), Supposed()
    )


def test_a_preview_opens_nothing_keeps_no_key_and_draws_other_noise_each_time(tmp_path, monkeypatch):
    plan = wide(tmp_path, 3)
    before = sorted(tmp_path.rglob("*"))
    keys, installed = dict(keyring._keys), []
    usual = keyring.install
    monkeypatch.setattr(keyring, "install", lambda handle, key: (installed.append(handle), usual(handle, key)))
    for opened in ("blockveil.pipeline.ledger.Ledger.__init__", "blockveil.pipeline.releases.keys.KeyStore.create"):
        monkeypatch.setattr(opened, None)
    first, second = (rehearse(plan, Supposed()) for _ in range(2))
    assert np.array_equal(first.truth, second.truth)
    assert not np.array_equal(first.released, second.released)
    assert len(set(installed)) == 2
    assert keyring._keys == keys
    assert sorted(tmp_path.rglob("*")) == before


def test_no_key_is_left_where_a_preview_fails(tmp_path, monkeypatch):
    plan, keys = wide(tmp_path, 3), dict(keyring._keys)
    monkeypatch.setattr(in_memory, "noisy_graph", None)
    with pytest.raises(TypeError):
        rehearse(plan, Supposed(), KEY)
    assert keyring._keys == keys


def test_one_feature_one_record_and_excess_noise_have_a_preview(tmp_path):
    for features, rows in ((1, 10), (3, 1), (3, 2)):
        made = rehearse(wide(tmp_path, features), Supposed(rows=rows), KEY)
        assert isinstance(made, Rehearsal)
        assert side_by_side(made)
        assert "<svg" in picture(made).draw(LIGHT)


def test_the_picture_is_the_same_for_the_same_numbers_and_its_text_says_what_it_shows(tmp_path):
    made = rehearse(wide(tmp_path, 4), Supposed(), KEY)
    shown = picture(made)
    assert shown.draw(LIGHT) == shown.draw(LIGHT)
    assert shown.draw(DARK) != shown.draw(LIGHT)
    assert "true and released" in shown.text
    assert "95 % interval" in shown.text


def test_blocks_are_means_and_leave_small_matrices_as_they_are():
    table = np.arange(40.0).reshape(4, 10)
    assert np.array_equal(blocks(table, 16), table)
    small = blocks(table, 4)
    assert small.shape == (4, 4)
    assert small[0, 0] == table[0, :2].mean()
