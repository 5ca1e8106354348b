"""Each option for a target is enough, and a little less is not."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, good_enough
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.priced_change import epsilon_of_nights, fewer_rows
from blockveil.pipeline.accuracy.target import AccuracyTarget, answer_target
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.excess_noise import with_epsilon
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

NIGHT = date(2026, 11, 20)
ROWS = 2_000


@pytest.fixture
def plan(tmp_path):
    """A covariance of people with at most 20 rows each."""
    path = support.write_config(tmp_path)
    path.write_text(path.read_text().replace('unit = "one person', 'rows_per_unit = 20\nunit = "one person'))
    return make_plan(load_config(path), NIGHT)


def reached(loaded, text):
    """Whether a changed config reaches what is wanted."""
    plan = make_plan(loaded, NIGHT)
    found = assess(plan, Population.of(plan, Supposed(rows=ROWS)))
    return AccuracyTarget.parse(text, found).ratio(found) <= 1.0


def answer(plan, text):
    return answer_target(plan, Population.of(plan, Supposed(rows=ROWS)), text)


@pytest.mark.parametrize(
    "text", ["correlation 0.3", "mean of age 1.5", "standard deviation of debt 50000", "directions 2"]
)
def test_each_option_is_enough_on_its_own_and_a_little_less_is_not(plan, text):
    found = answer(plan, text)
    assert not found.met
    options = {option.key: option.value for option in found.options}
    assert {"privacy.epsilon", "privacy.rows_per_unit"} <= options.keys()
    epsilon, rows = options["privacy.epsilon"], int(options["privacy.rows_per_unit"])
    assert reached(with_epsilon(plan.loaded, epsilon), text)
    assert not reached(with_epsilon(plan.loaded, 0.98 * epsilon), text)
    assert reached(fewer_rows(plan, rows).loaded, text)
    assert not reached(fewer_rows(plan, rows + 1).loaded, text)
    if "nights" in options:
        nights = int(options["nights"])
        assert reached(with_epsilon(plan.loaded, epsilon_of_nights(plan, nights)), text)
        fewer = epsilon_of_nights(plan, nights - 1) if nights > 2 else plan.config.privacy.epsilon
        assert not reached(with_epsilon(plan.loaded, fewer), text)


def test_what_is_reached_already_is_told_with_the_least_epsilon_that_still_does(plan):
    loaded = fewer_rows(plan, 1).loaded
    found = answer(make_plan(loaded, NIGHT), "correlation 0.5")
    assert found.met
    (option,) = found.options
    assert option.value < 1.0
    assert reached(with_epsilon(loaded, option.value), "correlation 0.5")
    assert not reached(with_epsilon(loaded, 0.98 * option.value), "correlation 0.5")


def test_where_nothing_reaches_it_the_reason_is_said(plan):
    for text, reason in (
        ("correlation 0.1", "the largest that can be planned"),
        ("directions 4", "there are 3 directions"),
    ):
        found = answer(plan, text)
        assert found.options == ()
        assert reason in found.reason
        assert ("  none", found.reason) in found.lines


def test_a_large_epsilon_is_told_to_promise_little(plan):
    (option,) = [option for option in answer(plan, "correlation 0.3").options if option.key == "privacy.epsilon"]
    assert option.value > 10.0
    assert "promises little" in option.words
    assert "a guess is right at most" in option.words


@pytest.mark.parametrize(
    "text",
    [
        "", "correlation", "0.5", "correlation x", "correlation nan", "correlation inf", "correlation 0",
        "correlation -1", "directions 2.5", "mean of nobody 3", "cell 3", "correlation 0.1 0.2", "x" * 5000,
        "\x1b[31m 1", "mean of age\n1 2",
    ],
)  # fmt: skip
def test_what_is_no_number_of_the_release_is_refused_with_what_can_be_wanted(plan, text):
    with pytest.raises(ConfigError) as refused:
        answer(plan, text)
    assert "What can be wanted is" in str(refused.value)
    assert len(str(refused.value)) < 400
    assert "\x1b" not in str(refused.value)


def test_how_exact_a_number_is_depends_on_how_many_records_there_are(plan):
    with pytest.raises(ConfigError, match="without --rows"):
        good_enough(plan, AccuracyQuestion(target="correlation 0.1"))


def test_counts_are_wanted_by_cell_and_total():
    plan = make_plan(load_config(Path("configs/visits.toml")), NIGHT)
    found = answer_target(plan, Population.of(plan, Supposed(rows=1_000_000)), "cell 3")
    options = {option.key: option.value for option in found.options}
    assert 0.5 < options["privacy.epsilon"] < 2.0
    assert answer_target(plan, Population.of(plan, Supposed(rows=1_000_000)), "total 2000").met


def test_fewer_nights_are_an_option_only_where_there_are_several_releases(plan):
    deployments = plan.loaded.base / "deployments.toml"
    deployments.write_text("")
    assert "nights" not in {option.key for option in answer(plan, "correlation 0.3").options}
    deployments.unlink()
    assert "nights" in {option.key for option in answer(plan, "correlation 0.3").options}


def test_releases_that_share_a_promise_are_never_told_of_more_than_it_pays_for(plan):
    privacy = plan.config.privacy.model_copy(update={"share": 1 / 31})
    shared = make_plan(replace(plan.loaded, config=plan.config.model_copy(update={"privacy": privacy})), NIGHT)
    (size,) = (
        each.size
        for each in assess(shared, Population.of(shared, Supposed(rows=ROWS))).errors
        if each.what == "mean of age"
    )
    (option,) = (option for option in answer(shared, f"mean of age {size / 3}").options if option.key == "nights")
    assert option.value == 9
    assert "with a share of 0.290" in option.words
    assert not any(option.key == "nights" for option in answer(shared, f"mean of age {size / 6}").options)
