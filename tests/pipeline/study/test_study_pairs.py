"""A study of IMGM says what any pair of covariances costs and needs."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.pairs import pair_findings

CLAIM = ApproxDP(1.0, 1e-5)


def test_a_dense_pair_is_charged_by_its_least_singular_values_and_errs_by_its_traces():
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((3, 3)) + 5 * np.eye(3), rng.standard_normal((2, 2)) + 5 * np.eye(2)
    found = pair_findings(left, right, 1.5, CLAIM, 4, np.ones((3, 2)))
    least = [np.linalg.svd(factor, compute_uv=False)[-1] for factor in (left, right)]
    assert found.product == pytest.approx(np.prod(least))
    assert found.loss.mu == pytest.approx(2 * 1.5 / np.prod(least))
    assert found.holds == (found.product >= found.required)
    assert found.required == pytest.approx(1.5 * 2 / gaussian_mu(1.0, 1e-5))
    assert found.error.mean == pytest.approx(np.sum(left**2) * np.sum(right**2))
    assert found.change == pytest.approx(np.linalg.norm(np.linalg.inv(left) @ np.ones((3, 2)) @ np.linalg.inv(right).T))


def test_equal_noise_at_the_requirement_holds_and_a_thousandth_less_does_not():
    needed = pair_findings(np.ones(2), np.ones(3), 1.0, CLAIM, 1, None).required
    enough, less = (
        pair_findings(np.full(2, needed * size), np.ones(3), 1.0, CLAIM, 1, None) for size in (1 + 1e-9, 0.999)
    )
    assert enough.holds
    assert not less.holds
    assert enough.error.mean == pytest.approx(enough.equal_error)


def test_the_command_prints_the_loss_the_requirement_and_both_divergences(tmp_path):
    np.save(tmp_path / "left.npy", np.eye(2) * 4.0)
    np.save(tmp_path / "right.npy", np.array([1.0, 2.0]))
    np.save(tmp_path / "change.npy", np.array([[0.0, 1.0], [0.0, 0.0]]))
    files = [f"--{name}={tmp_path / name}.npy" for name in ("left", "right", "change")]
    shown = CliRunner().invoke(
        app, ["study", "imgm", *files, "--epsilon", "1", "--delta", "1e-5", "--sensitivity", "1", "--steps", "1"]
    )
    assert shown.exit_code == 0
    for part in ("holds over the Frobenius ball", "mu 0.25", "requires 3.73", "5051", "mu 0.125"):
        assert part in shown.stdout
    np.save(tmp_path / "left.npy", np.zeros((2, 2)))
    found = CliRunner().invoke(
        app, ["study", "imgm", *files, "--epsilon", "1", "--delta", "1e-5", "--sensitivity", "1"]
    )
    assert isinstance(found.exception, ConfigError)
    assert "singular" in str(found.exception)
