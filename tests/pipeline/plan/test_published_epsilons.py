"""What published deployments promise stands in one place: plans and the page on epsilon agree, each with its source."""

import re
from datetime import date
from pathlib import Path

import pytest

from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.published_epsilons import DEPLOYMENTS, nearest
from blockveil.pipeline.plan.summary import describe
from tests.house import support

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "epsilon.md"


def test_the_page_on_epsilon_has_the_deployments_of_plans_and_no_others():
    table = PAGE.read_text().partition("## What have others chosen?")[2]
    rows = [tuple(cells.split(" | ")) for cells in re.findall(r"^\| (.+) \|$", table, re.MULTILINE)][1:]
    assert rows == [(each.name, each.unit, each.promise, each.source) for each in DEPLOYMENTS]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each.name)
def test_numbers_are_those_of_the_words(deployment):
    words = deployment.promise.partition(" at delta")[0]
    assert sorted(map(float, re.findall(r"\d+(?:\.\d+)?", words))) == sorted(deployment.epsilons)


@pytest.mark.parametrize(
    ("epsilon", "named"),
    [
        (1.0, ["1.453"]),
        (1.8, ["1.68 by Google", "2 by Apple"]),
        (17.14, ["17.14"]),
        (500.0, ["17.14"]),
        (4.0, ["4 by"]),
    ],
)
def test_the_nearest_ones_below_and_above_are_named(epsilon, named):
    said = nearest(epsilon)
    assert all(word in said for word in named)
    assert said.endswith("of other data, units and adversaries")


def test_a_plan_says_it_beside_the_coin(tmp_path):
    rows = dict(describe(make_plan(load_config(support.write_config(tmp_path)), date(2026, 11, 20)), None))
    assert rows["Elsewhere"] == nearest(1.0)
    assert list(rows).index("Elsewhere") == list(rows).index("In words") + 1
