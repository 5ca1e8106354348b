"""The whole numbers of a map belong to a plan: another linear algebra library gives a refusal, not other numbers."""

from datetime import date

import numpy as np
import pytest

from blockveil.engine.records import geometry
from blockveil.pipeline.base.errors import ReleaseConflict, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHT, NEXT = date(2026, 11, 1), date(2026, 11, 2)
AXES = np.diag([120.0**2, 1e12, 25e10])
TURNED = AXES + np.array([[0, 9e6, 0], [9e6, 0, 1e11], [0, 1e11, 0]])
SERIES = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"


def prepare(folder, matrix=TURNED, section="", kind="second-moment"):
    support.write_records(folder, support.records(100))
    np.save(folder / "shape.npy", matrix)
    path = support.write_config(folder, kind=kind)
    text = path.read_text()
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    features = "".join(f'  {{ name = "{name}", origin = 0 }},\n' for name in support.FEATURES)
    shape = f'[query.geometry]\nkind = "ellipsoid"\nshape = "shape.npy"\nfeatures = [\n{features}]\n\n'
    path.write_text(text[:start] + shape + text[end:] + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(1), "test", lambda *a: None)


def killed(monkeypatch, release):
    """A release that ends between the commit of its charge and its noise."""
    with monkeypatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.releases.measurement.noisy_graph",
            lambda *a: (_ for _ in ()).throw(StoreError("a", "b", "c")),
        )
        with pytest.raises(StoreError):
            release()


def lapack(monkeypatch, change):
    """Another linear algebra library."""
    genuine = np.linalg.eigh
    monkeypatch.setattr(geometry.np.linalg, "eigh", lambda matrix: change(*genuine(matrix)))


def flipped(values, vectors):
    return values, vectors * np.array([-1.0, 1.0, -1.0])


def another_last_digit(values, vectors):
    # Far above what whole numbers of 2**-32 do not show, far below what a person would see.
    return values, vectors * (1.0 + 2.0**-30)


@pytest.mark.parametrize("kind", ["second-moment", "covariance"])
def test_the_plan_names_the_whole_numbers_of_its_map(tmp_path, kind):
    made = make_plan(prepare(tmp_path, kind=kind), NIGHT)
    mixing = made.question.query.quantiser.coordinates.mixing
    assert made.public["calibration"]["map"] == {"bits": mixing.bits, "sha256": mixing.digest}
    changed = geometry.Mixing(mixing.integers + np.eye(3), mixing.bits)
    assert len({mixing.digest, changed.digest, geometry.Mixing(mixing.integers, mixing.bits - 1).digest}) == 3


def test_directions_of_noise_have_their_map_in_the_plan_too(tmp_path):
    support.write_records(tmp_path, support.records(100))
    np.save(tmp_path / "w.npy", np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0)
    path = support.write_config(tmp_path, kind="second-moment")
    shares = (
        'kind = "mvg-exact"\ndirections = "w.npy"\ndirections_source = "public"\nallocation = { kind = "uniform" }\n'
    )
    text = path.read_text()
    path.write_text(text.replace('kind = "shaped-gaussian"\noptimise_for = "relative-error"\n', shares))
    made = make_plan(load_config(path), NIGHT)
    assert made.public["calibration"]["map"]["sha256"] == made.question.query.quantiser.coordinates.mixing.digest


def test_signs_of_eigenvectors_change_neither_the_map_nor_the_plan(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    before = make_plan(loaded, NIGHT).digest
    lapack(monkeypatch, flipped)
    assert make_plan(loaded, NIGHT).digest == before


def test_a_release_is_not_finished_with_another_map_than_it_was_begun_with(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    killed(monkeypatch, lambda: run(loaded))
    with monkeypatch.context() as patch:
        lapack(patch, another_last_digit)
        with pytest.raises(ReleaseConflict, match="map"):
            run(loaded)
        assert not list(tmp_path.glob("releases/**/*.zarr"))
    assert "same noise" in run(loaded).resumed
    assert len([entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]) == 1


def test_a_night_of_a_series_never_has_another_map_than_those_before(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, section=SERIES)
    run(loaded)
    with monkeypatch.context() as patch:
        lapack(patch, another_last_digit)
        with pytest.raises(ReleaseConflict, match="map"):
            run(loaded, NEXT)
    run(loaded, NEXT)
