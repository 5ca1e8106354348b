"""The study of PPCA: the published constant, what it costs, and a labelled draw on public data."""

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.study import frames as study_frames

CLAIM = ApproxDP(1.0, 1e-6)
AXES = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
MOMENT = (AXES * np.array([8000.0, 7000.0, 400.0, 300.0, 100.0])) @ AXES.T


def test_the_published_constant_is_exact_for_one_relation_and_cautious_for_the_other():
    for relation, true, error in ((Neighbours.ADD_REMOVE, 0.5, 0.5), (Neighbours.REPLACE_ONE, 1.0, 1.0)):
        found = study_frames.frame_findings(MOMENT, 2, 1.0, CLAIM, relation)
        assert found.true_epsilon == pytest.approx(true)
        ratio = found.errors["One frame, exact"] / found.errors["One frame, published"]
        assert ratio == pytest.approx(error, rel=1e-9)
        assert found.errors["One by one, exact"] == pytest.approx(2 * found.errors["One frame, exact"], rel=1e-9)
    gaps = np.subtract.outer([8000.0, 7000.0], [400.0, 300.0, 100.0])
    found = study_frames.frame_findings(MOMENT, 2, 1.0, CLAIM, Neighbours.ADD_REMOVE)
    assert found.errors["One frame, published"] == pytest.approx(np.sum(1 / gaps), rel=1e-9)
    scaled = study_frames.frame_findings(MOMENT * 9, 2, 3.0, CLAIM, Neighbours.ADD_REMOVE)
    assert scaled.errors == pytest.approx(found.errors, rel=1e-9)


def test_the_command_shows_claim_and_truth_and_labels_its_draw(tmp_path):
    np.save(tmp_path / "m.npy", MOMENT)
    arguments = ["study", "ppca", "--matrix", str(tmp_path / "m.npy"), "--directions", "2", "--epsilon", "1"]
    arguments += ["--delta", "1e-6", "--neighbours", "add-remove", "--output", str(tmp_path / "o")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.stdout
    for part in (study_frames.LABEL, "the law has 0.5 under add-remove", "Gibbs", "One by one", "captures"):
        assert part in shown.stdout
    group = zarr.open_group(tmp_path / "o", mode="r")
    assert group.attrs["label"] == study_frames.LABEL
    assert group.attrs["private"] is False
    assert group.attrs["captured_variance"] > 0.99
    assert group["not_private"].shape == (5, 2)
    found = study_frames.frame_findings(MOMENT, 2, 1.0, CLAIM, Neighbours.ADD_REMOVE)
    with pytest.raises(StoreError, match="exists"):
        study_frames.draw_frame(found, "published", NoiseKey(bytes(32)), tmp_path / "o")
    with pytest.raises(ConfigError, match="no calibration"):
        study_frames.draw_frame(found, "best", NoiseKey(bytes(32)), tmp_path / "p")


@pytest.mark.parametrize(
    ("matrix", "directions", "radius", "words"),
    [
        (MOMENT, 5, 1.0, "fewer than the 5"),
        (MOMENT, 2, 0.0, "radius"),
        (-MOMENT, 2, 1.0, "positive semi-definite"),
        (np.triu(MOMENT), 2, 1.0, "not symmetric"),
    ],
)
def test_what_is_no_second_moment_is_refused(matrix, directions, radius, words):
    with pytest.raises(ConfigError, match=words):
        study_frames.frame_findings(matrix, directions, radius, CLAIM, Neighbours.ADD_REMOVE)


def test_a_matrix_that_is_not_square_is_refused(tmp_path):
    np.save(tmp_path / "m.npy", MOMENT[:3])
    arguments = ["study", "ppca", "--matrix", str(tmp_path / "m.npy"), "--directions", "2", "--epsilon", "1"]
    found = CliRunner().invoke(app, [*arguments, "--delta", "1e-6", "--neighbours", "add-remove"])
    assert isinstance(found.exception, ConfigError)
    assert "square" in str(found.exception)
