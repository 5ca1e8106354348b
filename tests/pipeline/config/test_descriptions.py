"""What forms and refusals say of a key is true of the code that takes it."""

import json
import math
import re
from datetime import date
from pathlib import Path
from typing import ClassVar

import pytest

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.flows.service.deployments import build
from blockveil.pipeline.budget.filter import NOTHING, Accountant, Cap, Ticks
from blockveil.pipeline.config import PrivacySection, load_config
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.model import SHARING
from blockveil.pipeline.config.queries import GROWING
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.shares import guarantee_of
from blockveil.pipeline.plan.splitting import split
from blockveil.pipeline.sections.fields import Section, Whole
from tests.flows.cli.test_store_check import NIGHT as NIGHTLY
from tests.house import support

NIGHT = date(2026, 11, 20)
ROOT = Path(__file__).parents[3]


def described(key):
    return " ".join(PrivacySection.model_fields[key].description.split())


def shared(folder, name, share):
    text = support.write_config(folder).read_text().replace('name = "covariance"', f'name = "{name}"', 1)
    path = folder / f"{name}.toml"
    path.write_text(text.replace("delta = 1e-6", f"delta = 1e-6\nshare = {share}"))
    return make_plan(load_config(path), NIGHT)


def test_shares_add_up_in_the_currency_that_their_description_names(tmp_path):
    """Mu squared does; the epsilons of the parts at the guarantee's delta exceed it together."""
    shares = (0.5, 0.3, 0.2)
    plans = [shared(tmp_path, f"part-{number}", share) for number, share in enumerate(shares)]
    whole = gaussian_mu(1.0, 1e-6)
    assert sum(plan.charge.mu**2 for plan in plans) == pytest.approx(whole**2, rel=1e-6)
    for plan, share in zip(plans, shares, strict=True):
        assert plan.charge.mu**2 == pytest.approx(share * whole**2, rel=1e-6)
        assert plan.guarantee.epsilon != pytest.approx(share * 1.0, rel=0.05)
        assert plan.guarantee.delta == 1e-6
    assert sum(plan.guarantee.epsilon for plan in plans) > 1.3
    assert split(plans).together.epsilon(1e-6) <= 1.0
    assert "share of mu squared, not of epsilon or delta" in described("share")
    assert "Gaussian noise" in described("share")


def test_delta_is_what_the_description_says_and_not_the_probability_of_a_larger_loss():
    """For Gaussian noise the loss exceeds epsilon with another probability, ten times as large here."""
    mu = gaussian_mu(1.0, 1e-6)
    exceeds = 0.5 * math.erfc((1.0 / mu - mu / 2.0) / math.sqrt(2.0))
    assert exceeds > 5e-6
    assert gaussian_delta(mu, 1.0) == pytest.approx(1e-6, rel=1e-6)
    # The largest P - e^epsilon P' over all sets of outputs, at the threshold where the densities' ratio is e^epsilon.
    threshold = 1.0 / mu + mu / 2.0
    with_unit = 0.5 * math.erfc((threshold - mu) / math.sqrt(2.0))
    without = 0.5 * math.erfc(threshold / math.sqrt(2.0))
    assert with_unit - math.e * without == pytest.approx(1e-6, rel=1e-6)
    assert "P <= e^epsilon P' + delta for every set of outputs" in described("delta")
    assert "probability that the loss" not in described("delta")


def test_epsilon_with_a_share_is_that_of_all_releases_together():
    fields = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove", "unit": "one person", "share": 0.25}
    alone = guarantee_of(PrivacySection.model_validate(fields))
    assert alone == ApproxDP(gaussian_epsilon(gaussian_mu(1.0, 1e-6) / 2.0 * (1 - 1e-9), 1e-6), 1e-6)
    assert alone.epsilon < 1.0
    assert "with a share, that of all releases that share it" in described("epsilon")


def test_what_the_form_shows_is_the_description_of_the_model(tmp_path):
    support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHTLY)
    made = {each.full_name: each for each in build(load_deployments(tmp_path))}["plan/people"]
    section = made._parameter_openapi_schema.definitions["PrivacySection"]["properties"]
    for key, field in PrivacySection.model_fields.items():
        assert section[key]["description"] == field.description
    whole = json.dumps(made._parameter_openapi_schema.model_dump())
    assert "may exceed epsilon" not in whole


def read(page, start):
    """The paragraph of a page that begins so."""
    return " ".join((ROOT / page).read_text().partition(start)[2].partition("\n\n")[0].split())


def test_what_configs_say_of_nights_that_share_a_charge_are_the_kinds_that_can():
    said = read("configs/README.md", "`[continual]` makes one charge").partition("It is for ")[2]
    queries, _, mechanisms = said.partition(" with ")
    assert set(re.findall("`([a-z-]+)`", queries)) == set(GROWING)
    assert set(re.findall("`([a-z-]+)`", mechanisms)) == set(SHARING)


def test_what_the_accounting_page_says_of_a_first_charge_holds_in_either_currency():
    """In rho a release needs a larger budget than its own guarantee, and a pure loss is charged as rho."""
    mu, pure = Loss(gaussian_mu(1.0, 1e-6) * (1.0 - 1e-9), 0.0, 0.0), Loss(0.0, 1.0, 0.0)
    usual, rho = (Cap(1.0, 1e-6, accountant=currency) for currency in Accountant)
    assert all(usual.holds(usual.book(each, NOTHING), 1) for each in (mu, pure))
    assert not any(rho.holds(rho.book(each, NOTHING), 1) for each in (mu, pure))
    assert rho.book(pure, NOTHING).pure == 0 < rho.book(pure, NOTHING).loss
    said = read("docs/accounting.md", "A first charge is also admitted")
    assert "In a budget that accounts in rho there is no such exception" in said
    assert "pure losses beyond the reserve are charged as rho" in read("docs/accounting.md", "`--reserve 0.5` sets")


def test_half_of_the_slack_is_for_events_with_a_delta_of_their_own():
    cap = Cap(3.0, 1e-5, slack=0.1)
    held = [cap.holds(Ticks.of(Loss(0.1, 0.0, 0.0, share * 1e-6)), 2) for share in (0.49, 0.51, 0.9)]
    assert held == [True, False, False]
    assert "of which half is for events that have a delta of their own" in read("docs/accounting.md", "`--slack 0.1`")


class Table(Section):
    """A table of these tests."""

    first: Whole
    """what comes
    first"""
    second: Whole = 2
    third: ClassVar[int] = 3
    """of a class, and so no key"""


class Longer(Table):
    """A table with what another one has."""

    fourth: Whole = 4
    """what comes last"""


def test_a_key_is_described_by_the_text_right_below_it_also_where_a_table_inherits_it():
    found = {key: field.description for key, field in Longer.model_fields.items()}
    assert found == {"first": "what comes\nfirst", "second": None, "fourth": "what comes last"}
    shown = Longer.model_json_schema()["properties"]
    assert {key: each.get("description") for key, each in shown.items()} == found


def test_a_table_that_has_no_source_is_a_table_without_descriptions():
    unwritten = type("Unwritten", (Section,), {"__module__": "builtins", "__annotations__": {"key": int}})
    assert unwritten.model_validate({"key": 1}).model_dump() == {"key": 1}
    assert unwritten.model_fields["key"].description is None
