"""Rates of this machine are measured with what would do the work, and a plan says what that is."""

import dataclasses

import pytest

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.rates import SINGLE, Rates
from blockveil.pipeline.plan import machine_speed, summary
from tests.house.eight_bit_products import ProductByNumPy
from tests.pipeline.plan.test_planning import plan
from tests.pipeline.releases.test_bits import FEW


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Each rate from one call."""
    monkeypatch.setattr(machine_speed, "_SECONDS", 0.0)


@pytest.fixture(params=["eight bits", "halves", "BLAS"])
def chosen(request, monkeypatch):
    product = None if request.param == "BLAS" else ProductByNumPy()
    choice = eight_bit.Choice(product, request.param == "halves", "this way")
    monkeypatch.setattr(machine_speed, "products", lambda: choice)
    return choice


def test_every_rate_is_positive_and_narrow_integers_have_one_of_their_own_where_bytes_are_multiplied(chosen):
    rates = machine_speed.measure(1)
    assert all(value > 0 for value in dataclasses.astuple(rates))
    assert (rates.narrow == SINGLE * rates.flops) == (chosen.product is None)
    assert (rates.halves == rates.flops) == (not chosen.halves)


def test_a_plan_with_measured_rates_says_how_few_bits_are_multiplied(tmp_path, chosen):
    few = plan(tmp_path, FEW, kind="covariance")
    told, nominal = (dict(summary.describe(few, None, rates))["Cost"] for rates in (Rates(), None))
    assert told.endswith("(rates measured on this machine; products in this way)")
    assert nominal.endswith("(nominal rates)")
    wide = plan(tmp_path, (FEW[0], FEW[1].replace("8", "17")), kind="covariance")
    assert dict(summary.describe(wide, None, Rates()))["Cost"].endswith("(rates measured on this machine)")
    assert few.digest == plan(tmp_path, FEW, kind="covariance").digest


def test_what_multiplies_is_chosen_once():
    machine_speed.products.cache_clear()
    assert machine_speed.products() is machine_speed.products()
