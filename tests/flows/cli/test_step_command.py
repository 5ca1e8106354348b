"""``blockveil public weights`` and ``blockveil public step``: the two lines that a config needs."""

import hashlib

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.public import weights
from tests.pipeline.kinds.gradients.test_training import LOGISTIC, config, release


def run(*words):
    found = CliRunner().invoke(app, list(map(str, words)))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return dict(line.split(maxsplit=1) for line in found.output.splitlines())


def test_a_step_writes_the_next_weights_and_prints_what_the_config_needs(tmp_path):
    outcome, output = release(config(tmp_path, LOGISTIC)), tmp_path / "weights-1.npz"
    told = run("public", "step", outcome.pointer, "--examples", 1500, "--learning-rate", 8, "--output", output)
    assert told == {
        "weights": f'"{output}"',
        "weights_sha256": f'"{hashlib.sha256(output.read_bytes()).hexdigest()}"',
    }
    second = tmp_path / "weights-2.npz"
    run(
        "public",
        "step",
        outcome.pointer,
        "--examples",
        1500,
        "--learning-rate",
        8,
        "--output",
        second,
        "--weights",
        output,
    )
    assert np.allclose(weights.load(second)["last"], 2.0 * weights.load(output)["last"])
    with pytest.raises(ConfigError, match="not positive"):
        run("public", "step", outcome.pointer, "--examples", 0, "--learning-rate", 8, "--output", second)
    with pytest.raises(StoreError, match="cannot be written"):
        run(
            "public",
            "step",
            outcome.pointer,
            "--examples",
            9,
            "--learning-rate",
            8,
            "--output",
            tmp_path / "nowhere" / "w.npz",
        )


def test_random_weights_begin_the_training_of_a_hidden_layer(tmp_path):
    sizes = ("--inputs", 3, "--hidden", 4, "--outputs", 2)
    one, other = (run("public", "weights", "--output", tmp_path / f"{i}.npz", *sizes, "--seed", 7) for i in range(2))
    assert one["weights_sha256"] == other["weights_sha256"], "a public seed gives the same weights"
    found = weights.load(tmp_path / "0.npz")
    assert {layer: array.shape for layer, array in found.items()} == {"hidden": (4, 4), "last": (2, 5)}
    assert not found["hidden"][:, 0].any()
