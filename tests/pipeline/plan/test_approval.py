"""When a person is asked: by the share of what is left that a release takes."""

import re
from dataclasses import replace
from datetime import date

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import approval
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

NIGHT = date(2026, 11, 20)


def planned(folder, share):
    loaded = support.prepare(folder, budget=3.0)
    with loaded.path.open("a") as file:
        file.write(f"\n[approval]\nthreshold_share = {share}\n")
    plan = make_plan(load_config(loaded.path), NIGHT)
    return plan, Ledger(loaded.ledger_url).budget("people")


def test_a_release_within_its_share_asks_nobody_and_one_above_it_does(tmp_path):
    plan, status = planned(tmp_path, 0.5)
    fits = status.nights_left(plan.charge)
    assert fits >= 3
    for share, asked in ((1.5 / fits, False), (0.5 / fits, True)):
        section = replace_section(plan, share)
        found = approval.question(section, status, charged=False)
        assert (found is not None) == asked
    assert f"would take up to {100 / fits:.3g} % of what is left" in found.text


def replace_section(plan, share):
    section = plan.config.approval.model_copy(update={"threshold_share": share})
    config = plan.config.model_copy(update={"approval": section})
    return replace(plan, loaded=replace(plan.loaded, config=config))


def test_nobody_is_asked_about_what_is_charged_already_or_cannot_be_charged(tmp_path):
    plan, status = planned(tmp_path, 0.01)
    assert approval.question(plan, status, charged=False) is not None
    assert approval.question(plan, status, charged=True) is None
    assert approval.question(plan, None, charged=False) is None
    support.set_budget(plan.loaded, 0.1)
    tight = Ledger(plan.loaded.ledger_url).budget("people")
    assert tight.nights_left(plan.charge) == 0
    assert approval.question(plan, tight, charged=False) is None, "the ledger refuses it; there is nothing to decide"


def test_an_answer_holds_for_one_plan_alone(tmp_path):
    plan, status = planned(tmp_path, 0.01)
    other = make_plan(plan.loaded, date(2026, 11, 21))
    keys = {approval.question(each, status, charged=False).key for each in (plan, other)}
    assert len(keys) == 2


@pytest.mark.parametrize("share", ["0", "1", "-0.1", "nan", '"half"'])
def test_a_share_that_is_none_is_refused(tmp_path, share):
    with pytest.raises(ConfigError, match="threshold_share"):
        planned(tmp_path, share)


def test_approval_does_not_change_what_a_release_is(tmp_path):
    plan, _ = planned(tmp_path, 0.01)
    plain = support.write_config(tmp_path)
    assert make_plan(load_config(plain), NIGHT).digest == plan.digest


def test_a_person_is_told_shares_of_the_budget_one_delta_and_what_a_guess_reaches(tmp_path):
    plan, status = planned(tmp_path, 0.01)
    text = approval.question(plan, status, charged=False).text
    booked = status.tally.book(status.cap, plan.charge, None)
    assert f"It costs {100 * status.cap.used(booked):.3g} % of the whole budget, of which 0 % is spent." in text
    assert re.findall(r"delta of (\S+)", text) == ["1e-05"]
    assert "1e-06" not in text
    assert "at most 54.8 % of the time with this release, at most 54.8 % with this and all releases so far" in text
    assert "and at most 64.1 % with all that the budget allows; a coin is right half of the time." in text
    assert "promises little" not in text
    large = support.prepare(tmp_path, budget=30.0, epsilon=12.0)
    large.path.write_text(large.path.read_text() + "\n[approval]\nthreshold_share = 0.01\n")
    budget = support.set_budget(large, 30.0).budget("people")
    warned = approval.question(make_plan(load_config(large.path), NIGHT), budget, charged=False)
    assert "An epsilon of 12 promises little" in warned.text
