"""A study says what holds, and every draw says on itself that it is not private."""

import math

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.study import study_release as study

UBER = [
    "study",
    "r1smg",
    "--shape",
    "89x89",
    "--epsilon",
    "1e-5",
    "--delta",
    "1e-7",
    "--sensitivity",
    str(math.sqrt(2)),
]


def test_the_findings_at_the_papers_own_setting():
    found = study.r1smg_findings((89, 89), ApproxDP(1e-5, 1e-7), math.sqrt(2))
    assert found.variance == pytest.approx(402_110.0976, rel=1e-9)
    assert found.true_delta == pytest.approx(0.2166, rel=1e-3)
    assert found.true_epsilon == pytest.approx(77_509, rel=1e-4)
    assert found.attack_success == pytest.approx(0.60832, abs=2e-5)
    assert found.correct_variance / found.gaussian_variance == pytest.approx(5.17e4, rel=0.01)


def test_the_command_shows_claim_and_truth_and_labels_its_draw(tmp_path):
    shown = CliRunner().invoke(app, [*UBER, "--output", str(tmp_path / "drawn")])
    assert shown.exit_code == 0
    # The constants that the paper compares with, and the moments that it reads as stability.
    compared = ("against less than e^-5490", "is an upper one", "MVG at least", "relative spread 141.4% against 1.6%")
    for part in (study.LABEL, "0.2166", "7.751e+04", "0.6083", "0.5000025", *compared):
        assert part in shown.stdout
    group = zarr.open_group(tmp_path / "drawn", mode="r")
    assert group.attrs["label"] == study.LABEL
    assert group.attrs["private"] is False
    assert group.attrs["claimed"]["holds"] is False
    assert list(group.array_keys()) == ["not_private"]
    # One normal size for the whole answer: |noise|^2 / sigma_star is chi-squared with one degree of freedom.
    size = float(np.linalg.norm(group["not_private"][...])) / math.sqrt(402_110.0976)
    assert size < 6.2  # alpha 1e-9


def test_a_draw_is_added_to_a_public_matrix_in_blocks(tmp_path):
    found = study.r1smg_findings((1500, 3), ApproxDP(1.0, 1e-5), 1.0)
    key = NoiseKey(bytes(32))
    matrix = np.arange(4500.0).reshape(1500, 3)
    study.draw_r1smg(found, matrix, key, tmp_path / "a")
    study.draw_r1smg(found, np.zeros((1500, 3)), key, tmp_path / "b")
    drawn = [zarr.open_group(tmp_path / name, mode="r")["not_private"][...] for name in "ab"]
    assert np.allclose(drawn[0] - drawn[1], matrix)
    with pytest.raises(StoreError, match="exists"):
        study.draw_r1smg(found, matrix, key, tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("89x89", "89"), "is not a shape"),
        (("89x89", "1x2"), "at least 3"),
        (("1e-5", "-1"), "epsilon is -1"),
        (("1e-7", "2"), "delta is 2"),
    ],
)
def test_bad_parameters_are_refused_in_words(change, word):
    found = CliRunner().invoke(app, [change[1] if part == change[0] else part for part in UBER])
    assert isinstance(found.exception, ConfigError)
    assert word in str(found.exception)


def test_a_matrix_that_does_not_fit_is_refused(tmp_path):
    np.save(tmp_path / "m.npy", np.zeros((3, 3)))
    for name in ("m.npy", "none.npy"):
        found = CliRunner().invoke(app, [*UBER, "--output", str(tmp_path / "x"), "--matrix", str(tmp_path / name)])
        assert isinstance(found.exception, ConfigError)
    assert not (tmp_path / "x").exists()
