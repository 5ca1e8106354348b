"""A published release becomes the public shape of a later one, and noise there is smaller."""

from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.engine.records.geometry import Ellipsoid
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import shaping
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHT, NEXT = date(2026, 11, 20), date(2026, 11, 21)


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


def test_a_shape_of_a_release_is_declared_by_the_next_one_and_both_are_charged(tmp_path):
    loaded = support.prepare(tmp_path, epsilon=20.0, budget=60.0)
    first = run(loaded)
    shown = CliRunner().invoke(app, ["public", "shape", str(first.path), "--output", str(tmp_path / "e.npy")])
    assert shown.exit_code == 0, shown.exception
    assert 'shape = "e.npy"' in shown.stdout
    text = (tmp_path / "people.toml").read_text()
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    features = ", ".join(f"{{ name = '{name}', origin = 0 }}" for name in support.FEATURES)
    shape = f"[query.geometry]\nkind = 'ellipsoid'\nshape = 'e.npy'\nfeatures = [{features}]\n\n"
    (tmp_path / "people.toml").write_text(text[:start] + shape + text[end:])
    again = run(load_config(tmp_path / "people.toml"), NEXT)
    assert again.release_id.endswith("2026-11-21")
    assert Ledger(loaded.ledger_url).budget("people").charges == 2


def test_the_shape_is_the_root_of_the_released_covariance_scaled_by_the_headroom(tmp_path):
    outcome = run(support.prepare(tmp_path, epsilon=20.0, budget=60.0))
    one, three = (shaping.adapted_shape(outcome.path, headroom) for headroom in (1.0, 3.0))
    assert np.allclose(three.matrix, 9 * one.matrix)
    assert np.linalg.eigvalsh(one.matrix)[0] > 0
    assert 0 < one.saving < 1


def test_what_gives_no_shape_is_refused_in_words(tmp_path):
    outcome = run(support.prepare(tmp_path, epsilon=20.0, budget=60.0))
    with pytest.raises(ConfigError, match="headroom"):
        shaping.adapted_shape(outcome.path, -1.0)
    found = shaping.adapted_shape(outcome.path, 3.0)
    with pytest.raises(ConfigError, match=r"no \.npy name"):
        shaping.save_matrix(found.matrix, tmp_path / "e.txt")
    shaping.save_matrix(found.matrix, tmp_path / "e.npy")
    with pytest.raises(StoreError, match="exists"):
        shaping.save_matrix(found.matrix, tmp_path / "e.npy")
    with pytest.raises(StoreError):
        shaping.adapted_shape(tmp_path / "nothing", 3.0)


def test_the_floor_says_which_eigenvalues_are_followed(tmp_path):
    # Correlated features of so many records that the noise brings no eigenvalue near zero.
    values = support.records(9000)
    values[:, 2] = 0.5 * values[:, 2] + 1.2 * (values[:, 1] - 60_000)
    outcome = run(support.prepare(tmp_path, epsilon=30.0, budget=60.0, values=values))
    scale = np.sqrt(np.diagonal(shaping.adapted_shape(outcome.path, 1.0, 1.0).matrix))
    spectra = {}
    for floor in (1.0, 0.5, 1e-12):
        found = shaping.adapted_shape(outcome.path, 1.0, floor)
        spectra[floor] = np.linalg.eigvalsh(found.matrix / np.outer(scale, scale))
        assert spectra[floor][0] >= np.sqrt(floor) * spectra[floor][-1] * (1 - 1e-9)
        Ellipsoid(found.origin, found.matrix).coordinates()  # a config may declare it
    assert np.ptp(spectra[1.0]) < 1e-9
    assert shaping.adapted_shape(outcome.path, 1.0, 1.0).raised == 2
    assert shaping.adapted_shape(outcome.path, 1.0, 1e-12).raised == 0
    assert spectra[1e-12][0] / spectra[1e-12][-1] < spectra[0.5][0] / spectra[0.5][-1]


def test_a_floor_out_of_range_is_refused_by_the_command(tmp_path):
    outcome = run(support.prepare(tmp_path, epsilon=20.0, budget=60.0))
    for floor in ("0", "-1", "1.5", "nan", "1e-13"):
        options = ["--output", str(tmp_path / "e.npy"), f"--floor={floor}"]
        shown = CliRunner().invoke(app, ["public", "shape", str(outcome.path), *options])
        assert isinstance(shown.exception, ConfigError)
        assert "floor" in str(shown.exception)
    assert not (tmp_path / "e.npy").exists()
