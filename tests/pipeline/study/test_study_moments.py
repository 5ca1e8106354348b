"""Studies of Wishart noise and sketches: what holds, in numbers, and draws that say what they are."""

import math

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.study import moments as study_moments

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
CLAIM = ApproxDP(1.0, 1e-6)
KEY = NoiseKey(bytes(32))
COMMON = ["--features", "20", "--epsilon", "1", "--delta", "1e-6", "--neighbours", "add-remove"]
WISHART = ["study", "wishart", *COMMON]
SKETCH = ["study", "johnson-lindenstrauss", "--records", "300", "--rows", "100", *COMMON]


def test_the_pure_wishart_claims_are_false_and_the_other_is_loose():
    found = study_moments.wishart_findings(20, 1.0, CLAIM, ADD)
    assert found.claims["jiang"].true_delta == pytest.approx(-math.expm1(-1 / 3), rel=1e-9)
    assert found.claims["imtiaz"].true_delta == pytest.approx(-math.expm1(-1.0), rel=1e-9)
    assert [claim.holds for claim in found.claims.values()] == [False, False, True, True]
    assert found.claims["sheffet"].true_delta < 1e-40
    assert 0.999e-6 < found.claims["exact"].true_delta <= 1e-6
    least = found.claims["exact"].noise.total_variance
    assert found.gaussian_variance < least < found.claims["sheffet"].noise.total_variance
    replaced = study_moments.wishart_findings(20, 1.0, CLAIM, REPLACE)
    assert not replaced.claims["jiang"].holds
    assert replaced.claims["jiang"].at_least == pytest.approx(0.2041, abs=1e-4)


def test_the_published_sketch_floors_hold_and_are_loose():
    found = study_moments.sketch_findings(20, 300, 100, 1.0, CLAIM, ADD)
    assert found.floors["blocki"] == pytest.approx(12_916, rel=1e-3)
    assert found.floors["sheffet"] == pytest.approx(26.6, rel=2e-3)
    assert found.floors["exact"] == pytest.approx(5.96, rel=1e-3)
    assert all(delta <= 1e-6 for delta in found.deltas.values())
    assert found.error("exact") > found.gaussian_variance
    scaled = study_moments.sketch_findings(20, 300, 100, 3.0, CLAIM, ADD)
    assert scaled.floors["exact"] == pytest.approx(3 * found.floors["exact"], rel=1e-9)
    assert scaled.moved_delta == found.moved_delta


def test_the_commands_show_claim_and_truth_and_label_their_draws(tmp_path):
    shown = CliRunner().invoke(app, [*WISHART, "--output", str(tmp_path / "w"), "--calibration", "imtiaz"])
    assert shown.exit_code == 0, shown.stdout
    for part in (study_moments.WISHART_LABEL, "FALSE; delta 0.2835", "FALSE; delta 0.6321", "holds", "Gaussian"):
        assert part in shown.stdout
    group = zarr.open_group(tmp_path / "w", mode="r")
    assert group.attrs["label"] == study_moments.WISHART_LABEL
    assert group.attrs["private"] is False
    assert group.attrs["claimed"]["holds"] is False
    noise = group["not_private"][...]
    assert np.array_equal(noise, noise.T)
    assert np.linalg.eigvalsh(noise)[0] > 0
    shown = CliRunner().invoke(app, [*SKETCH, "--output", str(tmp_path / "s")])
    assert shown.exit_code == 0, shown.stdout
    for part in (study_moments.SKETCH_LABEL, "1.292e+04", "26.56", "5.962", "FALSE here", "subspaces"):
        assert part in shown.stdout
    group = zarr.open_group(tmp_path / "s", mode="r")
    assert group.attrs["private"] is False
    assert set(group.array_keys()) == {"not_private_sketch", "not_private_second_moment"}
    assert group["not_private_sketch"].shape == (100, 20)


def test_draws_are_added_to_public_data_and_never_overwrite(tmp_path):
    found = study_moments.wishart_findings(4, 1.0, CLAIM, ADD)
    for name, matrix in (("a", np.diag([1.0, 2, 3, 4])), ("b", np.zeros((4, 4)))):
        study_moments.draw_wishart(found, "exact", matrix, KEY, tmp_path / name)
    a, b = (zarr.open_group(tmp_path / name, mode="r")["not_private"][...] for name in "ab")
    assert np.allclose(a - b, np.diag([1.0, 2, 3, 4]))
    with pytest.raises(StoreError, match="exists"):
        study_moments.draw_wishart(found, "exact", np.zeros((4, 4)), KEY, tmp_path / "a")
    records = np.random.default_rng(1).standard_normal((300, 20))
    sketches = study_moments.sketch_findings(20, 300, 4000, 1.0, CLAIM, ADD)
    study_moments.draw_sketch(sketches, "exact", records, KEY, tmp_path / "s")
    estimate = zarr.open_group(tmp_path / "s", mode="r")["not_private_second_moment"][...]
    clipped = records / np.maximum(1, np.linalg.norm(records, axis=1))[:, None]
    truth = clipped.T @ clipped
    expected = (np.trace(truth) + 20 * sketches.floors["exact"] ** 2) ** 2 / 4000
    assert np.sum((estimate - truth) ** 2) < 4 * expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*WISHART, "--radius", "0"], "radius"),
        ([*WISHART, "--calibration", "best", "--output", "x"], "no calibration"),
        ([*SKETCH, "--calibration", "best", "--output", "x"], "no regularisation"),
        ([*SKETCH, "--radius", "nan"], "radius"),
        ([*WISHART, "--epsilon", "1e-6"], "use Gaussian noise"),
    ],
)
def test_bad_parameters_are_refused_in_words(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, ConfigError), found.exception
    assert words in str(found.exception)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("content", [b"", b"x", None])
def test_a_matrix_that_cannot_be_read_is_refused(tmp_path, content):
    path = tmp_path / "m.npy"
    if content is None:
        np.save(path, np.full((20, 20), np.nan))
    else:
        path.write_bytes(content)
    found = CliRunner().invoke(app, [*WISHART, "--output", str(tmp_path / "o"), "--matrix", str(path)])
    assert isinstance(found.exception, ConfigError), found.exception
    assert not (tmp_path / "o").exists()
