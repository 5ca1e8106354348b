"""Tables with ordered axes are released end to end: ranges near the truth, with less noise and exact errors."""

import numpy as np
import pytest

import blockveil as bv
from blockveil.engine.answers.table_counts import table_counts
from blockveil.engine.workloads.ordered_axes import OrderedAxis
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from tests.house import support
from tests.pipeline.kinds.marginals.test_marginals import ADD, AUTO, GAUSSIAN, REPLACE, RESIDUALS, VALUES, asked
from tests.pipeline.questions.test_queries import NIGHT, config, run

PLAIN = """kind = "marginals"
rows_at_most = 500
missing = "drop"
outside = "clip"
ways = 2
axes = [
  { name = "age", lower = 0, upper = 120, cells = 24 }, { name = "ward", cells = 4 }, { name = "sex", cells = 2 },
]
"""
QUERY = PLAIN.replace("ways = 2", 'ways = 2\nordered = ["age"]')
RANGES = ({"age": (20, 65)}, {"age": (20, 65), "sex": (1, 2)}, {"age": (0, 120)}, {"ward": (1, 3), "sex": (0, 1)})


def released(folder, query, **settings):
    folder.mkdir()
    loaded = asked(folder, query, **settings)
    plan, outcome = run(loaded)
    assert Ledger(loaded.ledger_url).budget("people").spent_mu == pytest.approx(plan.charge.mu)
    return plan, bv.open(outcome.path)


@pytest.mark.parametrize("relation", support.slow_but([ADD], [ADD, REPLACE]))
def test_ranges_are_near_the_truth_and_have_less_noise_than_without_the_order(tmp_path, relation):
    plan, release = released(tmp_path / "ordered", QUERY, neighbours=relation)
    _, plain = released(tmp_path / "plain", PLAIN, neighbours=relation)
    truth = table_counts(VALUES, 0, len(VALUES), plan.question.query, 100)[0]
    ratio = (release.array("tables") - truth) / release.array("tables_standard_deviation")
    # 152 numbers: beyond 7 deviations with probability below 1e-9 in all.
    assert np.max(np.abs(ratio)) < 7
    by_sex = truth[96:144].reshape(24, 2)
    for ranges, exact in zip(RANGES, (by_sex[4:13].sum(), by_sex[4:13, 1].sum()), strict=False):
        found = release.range_count(ranges)
        assert abs(found.value - exact) < 7 * found.standard_error
        assert found.standard_error < 0.93 * plain.range_count(ranges).standard_error
    assert release.range_count({"ward": (2, 3)}).value == pytest.approx(release.array("table_3")[2].sum())


@pytest.mark.parametrize("query", [QUERY, QUERY.replace('["age"]', '["ward", "age"]')])
def test_ranges_and_their_errors_are_those_of_least_squares_from_what_was_measured(tmp_path, query):
    """From the published measurements and matrices alone, over the grid of all cells."""
    _, release = released(tmp_path / "one", query)
    sizes, names = {"age": 24, "ward": 4, "sex": 2}, ("age", "ward", "sex")
    rows, values, noise = [], [], []
    for each in release.measurements():
        matrix = np.ones((1, 1))
        for name, n in sizes.items():
            own = each.queries.get(name, np.eye(n) - 1.0 / n) if name in each.axes else np.ones((1, n))
            matrix = np.kron(matrix, own)
        rows.append(matrix)
        values.append(each.values.ravel())
        noise.append(np.full(each.values.size, each.standard_deviation))
    weights = 1.0 / np.concatenate(noise)
    back = np.linalg.pinv(np.vstack(rows) * weights[:, None], rcond=1e-10)
    for ranges in RANGES:
        edges = {"age": 5.0, "ward": 1.0, "sex": 1.0}
        inside = np.ones(())
        for name in names:
            low, high = ranges.get(name, (0, sizes[name] * edges[name]))
            places = np.arange(sizes[name]) * edges[name]
            inside = np.multiply.outer(inside, ((places >= low) & (places < high)).astype(float))
        along = inside.ravel() @ back
        found = release.range_count(ranges)
        assert found.value == pytest.approx(along @ (np.concatenate(values) * weights))
        assert found.standard_error == pytest.approx(np.linalg.norm(along))
    assert np.array_equal(release.array("axis_1_strategy"), OrderedAxis.of(24).real)


def test_the_plan_says_the_error_of_a_range_with_and_without_the_order(tmp_path):
    plan = make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=RESIDUALS), NIGHT)
    said = dict(describe(plan, None))["Expected error"]
    assert "that of a range along age" in said
    assert "without query.ordered" in said
    assert plan.answer.facts()["strategy"]["kind"] == "residuals of marginal tables with ranges, version 1"
    last = assess(plan, Population.of(plan, Supposed())).errors[-1]
    assert (last.what, last.size) == ("range", pytest.approx(1.96 * plan.answer.range_deviation(), rel=1e-3))
    separate = make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=GAUSSIAN), NIGHT)
    assert "without query.ordered" not in dict(describe(separate, None))["Expected error"]
    assert plan.answer.range_deviation() < separate.answer.range_deviation()


def test_a_config_without_ordered_axes_has_the_plan_that_it_always_had(tmp_path):
    plan = make_plan(config(tmp_path, PLAIN, neighbours=ADD, mechanism=RESIDUALS), NIGHT)
    assert "ordered" not in plan.answer.facts()
    assert plan.answer.facts()["strategy"]["kind"] == "residuals of marginal tables, version 1"
    ordered = make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=RESIDUALS), NIGHT)
    assert ordered.digest != plan.digest


def test_auto_takes_residuals_for_ranges_of_several_tables(tmp_path):
    more = QUERY.replace(
        '{ name = "sex", cells = 2 },',
        '{ name = "sex", cells = 2 }, { name = "a", cells = 5 }, { name = "b", cells = 5 },',
    )
    plan = make_plan(config(tmp_path, more, neighbours=ADD, mechanism=AUTO, epsilon=0.9), NIGHT)
    assert plan.answer.facts()["strategy"]["kind"].startswith("residuals of marginal tables with ranges")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ordered = ["age"]', 'ordered = ["town"]', "An ordered axis is a declared one"),
        ('ordered = ["age"]', 'ordered = ["age", "age"]', "named twice"),
        ('ordered = ["age"]', "ordered = []", "ordered"),
        ('ways = 2\nordered = ["age"]', 'tables = [["ward", "sex"]]\nordered = ["age"]', "in no table"),
        ("cells = 24", "cells = 513", "more than 512 cells"),
    ],
)
def test_what_cannot_be_ordered_is_refused_in_words(tmp_path, old, new, message):
    assert old in QUERY
    with pytest.raises(ConfigError, match=message) as caught:
        config(tmp_path, QUERY.replace(old, new), neighbours=ADD, mechanism=RESIDUALS)
    assert len(str(caught.value)) < 400


def test_ranges_that_the_tables_do_not_hold_are_refused(tmp_path):
    _, release = released(tmp_path / "one", QUERY)
    over = "no table over", [{}, {"town": (0, 1)}, {"age": (0, 5), "ward": (0, 1), "sex": (0, 1)}]
    cells = "not one of cells", [{"age": (1, 20)}, {"age": (20, 5)}, {"age": (20, 20)}]
    for message, cases in (over, cells):
        for ranges in cases:
            with pytest.raises(ConfigError, match=message):
                release.range_count(ranges)
