"""What was begun alone or as a night of a series stays so; and positive semi-definite versions by their plan."""

from contextlib import contextmanager
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.engine.answers import work
from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.pipeline.base.errors import ReleaseConflict, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHT = date(2026, 11, 1)
SERIES = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"


def prepare(folder, section):
    support.write_records(folder, support.records(100))
    path = support.write_config(folder, kind="second-moment")
    path.write_text(path.read_text() + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def prepare_wide(folder, section="", kind="covariance", features=12):
    """Enough features for eigenvalues to be shrunk, with even noise."""
    support.write_records(folder, np.random.default_rng(5).uniform(0.0, 1.0, (100, features)))
    path = support.write_config(folder, kind=kind)
    text = path.read_text()
    start, end = text.index("features = ["), text.index("[privacy]")
    wide = f'features = [ {{ name = "x", lower = 0, upper = 1, count = {features} }} ]\n\n'
    path.write_text(text[:start] + wide + text[end:] + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(1), "test", lambda *a: None)


@contextmanager
def killed_after_its_commit():
    def dies(*_):
        raise StoreError("a", "b", "c")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.measurement.noisy_graph", dies)
        with pytest.raises(StoreError):
            yield


def reserved(loaded):
    return [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]


@pytest.mark.parametrize(("then", "now"), [("", SERIES), (SERIES, "")])
def test_a_release_that_was_begun_alone_is_no_night_of_a_series_and_the_other_way_round(tmp_path, then, now):
    loaded = prepare(tmp_path, then)
    with killed_after_its_commit():
        run(loaded)
    path = tmp_path / "people.toml"
    path.write_text(path.read_text().removesuffix(then) + now)
    with pytest.raises(ReleaseConflict):
        run(load_config(path))
    assert len(reserved(loaded)) == 1


def is_nearest(outcome, name="covariance"):
    """Whether the positive semi-definite version is the released matrix with eigenvalues cut at zero."""
    group = zarr.open_group(outcome.path, mode="r")
    nearest = nearest_psd(group[name][...])[0]
    return np.allclose(group[f"{name}_psd"][...], nearest, rtol=0.0, atol=1e-9 * np.abs(nearest).max())


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_eigenvalues_are_shrunk_from_ten_features_on_and_the_plan_says_so(tmp_path, kind):
    loaded = prepare_wide(tmp_path, kind=kind)
    plan = make_plan(loaded, NIGHT)
    assert "shrunk" in plan.public["calibration"]["psd"]
    outcome, name = run(loaded), plan.answer.matrix
    assert not is_nearest(outcome, name)
    assert np.linalg.eigvalsh(zarr.open_group(outcome.path, mode="r")[f"{name}_psd"][...]).min() >= -1e-9


def test_with_fewer_features_eigenvalues_are_cut_at_zero(tmp_path):
    loaded = prepare_wide(tmp_path, features=9)
    assert "psd" not in make_plan(loaded, NIGHT).public["calibration"]
    assert is_nearest(run(loaded))


def test_a_matrix_too_large_to_be_put_together_has_no_such_version_and_its_plan_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "_WHOLE_ENTRIES", 100)
    plan = make_plan(prepare_wide(tmp_path), NIGHT)
    assert plan.answer.work(10).blocked
    assert "psd" not in plan.public["calibration"]
