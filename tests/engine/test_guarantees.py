"""Losses compose and convert as the independent numbers say, and are rounded to the safe side."""

import json
import math
from pathlib import Path

import pytest

from engine.calibration import CalibrationError
from engine.guarantees import ApproxDP, GaussianDP, Neighbours, compose

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "testvectors.json").read_text())


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["name"] == "gdp_composition"])
def test_mu_squared_adds_up(vector):
    total = compose(GaussianDP(float(mu)) for mu in vector["inputs"]["mus"])
    expected = float(vector["expected"]["mu"])
    assert expected <= total.mu * (1 + 1e-16)
    assert total.mu == pytest.approx(expected, rel=1e-12)
    assert total.delta(float(vector["inputs"]["eps"])) == pytest.approx(
        float(vector["expected"]["delta_at_eps"]), rel=1e-11
    )


def test_epsilon_and_delta_are_each_others_inverse():
    loss = GaussianDP(0.4)
    assert loss.delta(loss.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-9)
    assert loss.rho == pytest.approx(0.08)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_loss_must_be_stated(epsilon):
    with pytest.raises(CalibrationError):
        ApproxDP(epsilon, 1e-6)
    with pytest.raises(CalibrationError):
        GaussianDP(epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_delta_must_be_a_probability(delta):
    with pytest.raises(CalibrationError):
        ApproxDP(1.0, delta)


def test_nothing_composes_to_nothing():
    with pytest.raises(CalibrationError):
        compose([])


def test_relations_are_named_as_in_configs():
    assert {relation.value for relation in Neighbours} == {"add-remove", "replace-one"}
