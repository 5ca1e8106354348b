"""Mechanisms that are compared have names of their own, in a plan and in a report."""

import re
from datetime import date

from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.mechanisms_compared import bound_sentence, compared_rows, compared_text, names_apart
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from tests.house import support

FIXED = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'


def test_mechanisms_of_one_name_are_told_apart_by_what_they_differ_in():
    rows = [
        {"mechanism": "gaussian", "parameters": {}, "error": 1.0, "reason": ""},
        {"mechanism": "imgm", "parameters": {"optimise_for": "total", "weights": [1, 2]}, "error": 2.0, "reason": ""},
        {"mechanism": "imgm", "parameters": {"optimise_for": {"aim": "relative"}}, "error": 3.0, "reason": ""},
        {"mechanism": "mgm", "parameters": {"w": list(range(99))}, "error": None, "reason": "no"},
        {"mechanism": "mgm", "parameters": {"w": list(range(98))}, "error": None, "reason": "no"},
    ]
    expected = ["gaussian", "imgm (total, [1, 2])", "imgm (relative)", "mgm, choice 1", "mgm, choice 2"]
    assert names_apart(rows) == expected
    assert [row["mechanism"] for row in compared_text(rows)] == expected
    assert names_apart([]) == []


def test_a_comparison_says_the_error_over_the_chosen_one_and_why_others_were_not_chosen():
    rows = [
        {"mechanism": "gaussian", "parameters": {}, "error": 2.0, "reason": ""},
        {"mechanism": "imgm", "parameters": {}, "error": 2.0, "reason": ""},
        {"mechanism": "laplace", "parameters": {}, "error": 3.0, "reason": ""},
        {"mechanism": "mgm", "parameters": {}, "error": 8.0, "reason": ""},
        {"mechanism": "exponential", "parameters": {}, "error": None, "reason": "it draws directions; ask for them"},
    ]
    found = compared_text(rows)
    assert [row["over the chosen"] for row in found] == ["1", "1", "1.5", "4", ""]
    assert [row["why"] for row in found] == [
        "chosen: the least error",
        "the same error; the first is chosen",
        "larger error",
        "larger error: its published calibration is loose",
        "refused: it draws directions; ask for them",
    ]


def test_an_error_is_shown_over_the_least_of_any_gaussian_noise_and_rounded_up():
    rows = [
        {"mechanism": "gaussian", "parameters": {}, "error": 2.0, "reason": ""},
        {"mechanism": "laplace", "parameters": {}, "error": None, "reason": "it does not apply"},
    ]
    assert [row["over the bound"] for row in compared_text(rows, 1.6)] == ["1.25", ""]
    assert "over the bound" not in compared_text(rows)[0]
    assert bound_sentence(2.0004, 2.0) == "at most 1.001 times the least of any Gaussian noise"
    assert bound_sentence(1.0, 2.0).startswith("below the least of any Gaussian noise: at most 0.5 times")


def test_a_plan_says_how_far_its_error_is_from_the_least(tmp_path):
    path = support.write_config(tmp_path, kind="second-moment")
    path.write_text(path.read_text().replace(FIXED, 'kind = "auto"\nminimise = "relative"'))
    plan = make_plan(load_config(path), date(2026, 11, 20))
    assert plan.least <= plan.compared[0].error
    assert dict(describe(plan, None))["Bound"] == bound_sentence(plan.compared[0].error, plan.least)
    assert float(compared_rows(plan.compared, plan.least)[0]["over the bound"]) < 1.5


def test_a_plan_of_features_of_one_sign_says_what_tells_the_same_with_less_noise(tmp_path):
    path = support.write_config(tmp_path, kind="second-moment")
    text = path.read_text().replace(FIXED, 'kind = "auto"\nminimise = "relative"').replace('"midpoint"', '"zero"')
    start, end = text.index("features = ["), text.index("[privacy]")
    said = {}
    for lower in (0, -1):
        feature = f'features = [ {{ name = "x", lower = {lower}, upper = 1, count = 6 }} ]\n\n'
        path.write_text(text[:start] + feature + text[end:])
        said[lower] = dict(describe(make_plan(load_config(path), date(2026, 11, 20)), None))["Bound"]
    assert said[0].endswith('; kind = "covariance" with origin = "midpoint" tells the same with less noise')
    assert "midpoint" not in said[-1]


def test_a_plan_that_compares_gives_no_two_mechanisms_one_name(tmp_path):
    path = support.write_config(tmp_path)
    path.write_text(path.read_text().replace(FIXED, 'kind = "auto"\nminimise = "total"'))
    plan = make_plan(load_config(path), date(2026, 11, 20))
    assert len({row.mechanism for row in plan.compared}) < len(plan.compared), "some have several choices"
    compared = dict(describe(plan, None))["Compared"].partition("; not applicable")[0]
    names = [name for name in re.split(r" [\d.e+]+(?:, |$)", compared) if name]
    assert len(names) == len(set(names)) == sum(row.error is not None for row in plan.compared)
