"""What a level of strictness is said to promise holds for the noise that would be released, whatever noise that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.pipeline.budget.filter import Cap, Ticks
from blockveil.pipeline.ledger.guessing import percent, with_promise, with_ticks
from blockveil.pipeline.scaffold.folder import BegunFolder, compose
from blockveil.pipeline.scaffold.interview import answered
from blockveil.pipeline.scaffold.promised import levels
from tests.pipeline.scaffold import scaffold_support as first

FOLDER, BASE = Path("/made/visits"), Path("/made")
ONCE = {"every": "once", "until": None}
FEW = {**ONCE, "purpose": "gradients", "target": "cost", "columns": {"age": "0 to 120", "cost": "0 to 900"}}
CELLS = {
    **ONCE,
    "purpose": "counts",
    "columns": {"age": "0 to 120 in 2"},
    "rows_per_unit": 1,
    "row_count_public": False,
}


@pytest.mark.parametrize("changes", [{}, ONCE, FEW, CELLS], ids=["nights", "once", "gradients", "counts"])
def test_each_level_says_what_its_own_plan_promises_over_all_nights(changes):
    given = first.given(strictness=None, **changes)
    lines = levels(begun(given), given)
    assert [line.partition(":")[0] for line in lines] == ["strict", "usual", "loose"]
    for line in lines:
        answers = answered(given, first.SCHEMA, {"strictness": line.partition(":")[0]})
        plan = compose(begun(answers), answers).plan
        together = Ticks.of(plan.charge).times(answers.nights)
        alone = with_promise(ApproxDP(answers.epsilon, answers.delta))
        assert Cap(answers.epsilon, answers.delta).holds(together, answers.nights)
        assert f"right at most {percent(min(with_ticks(together), alone))} of the time" in line
        assert f"({plan.mechanism.name})" in line
        assert f"with any noise at most {percent(alone)}" in line
        assert ("all 31 nights together" if answers.nights > 1 else "this one release") in line
        assert "one person" in line


def begun(answers):
    return BegunFolder(answers, first.SCHEMA, FOLDER, BASE)


def test_what_is_said_of_noise_that_is_not_gaussian_is_not_the_bound_of_gaussian_noise():
    (strict, *_) = levels(begun(first.given(strictness=None, **FEW)), first.given(strictness=None, **FEW))
    strictest = first.given(**{**FEW, "strictness": "strict"})
    plan = compose(begun(strictest), strictest).plan
    assert plan.charge.epsilon > 0.0, "the best noise for few weights has a pure loss"
    assert "right at most 73.2 % of the time" in strict
    assert "54.8" not in strict


def test_a_level_that_no_noise_keeps_is_still_bounded_by_its_epsilon(monkeypatch):
    from blockveil.pipeline.base.errors import ConfigError
    from blockveil.pipeline.scaffold import promised

    def refuse(*_):
        raise ConfigError("no noise", "It is none", "None")

    monkeypatch.setattr(promised, "compose", refuse)
    (strict, *_) = levels(begun(first.given(strictness=None)), first.given(strictness=None))
    assert "right at most 73.2 % of the time with all 31 nights together" in strict
