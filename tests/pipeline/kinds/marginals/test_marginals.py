"""Tables are released end to end: near the truth, agreeing, with honest errors of any linear function, charged once."""

import numpy as np
import pytest
import zarr

import blockveil as bv
from blockveil.engine.answers.table_counts import table_counts
from blockveil.engine.workloads.marginal_tables import centred
from blockveil.pipeline.accuracy.assessing import assess, noise_size
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.report import make_report
from tests.house import support
from tests.pipeline.questions.test_queries import NIGHT, config, run

QUERY = """kind = "marginals"
rows_at_most = 500
missing = "drop"
outside = "clip"
ways = 2
axes = [ { name = "age", edges = [0, 18, 65, 120] }, { name = "ward", cells = 4 }, { name = "sex", cells = 2 } ]
"""
CHOSEN = QUERY.replace("ways = 2", 'tables = [["ward", "age"], ["sex"]]')
ADD, REPLACE = "add-remove", "replace-one"
AUTO, RESIDUALS, GAUSSIAN = 'kind = "auto"\nminimise = "total"', 'kind = "residuals"', 'kind = "gaussian"'
RNG = np.random.default_rng(6)
VALUES = np.column_stack([RNG.integers(0, 121, 400), RNG.integers(0, 4, 400), RNG.integers(0, 2, 400)]).astype(float)


def asked(folder, query=QUERY, values=VALUES, **settings):
    support.write_records(folder, values)
    loaded = config(folder, query, **{"neighbours": ADD, "mechanism": RESIDUALS, **settings})
    support.set_budget(loaded, 150.0)
    return loaded


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("query", [QUERY, CHOSEN])
@pytest.mark.parametrize("mechanism", [RESIDUALS, GAUSSIAN])
def test_the_release_is_near_the_truth_with_honest_errors_and_a_report(tmp_path, relation, query, mechanism):
    loaded = asked(tmp_path, query, neighbours=relation, mechanism=mechanism)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    truth = table_counts(VALUES, 0, len(VALUES), plan.question.query, 100)[0]
    ratio = (group["tables"][...] - truth) / group["tables_standard_deviation"][...]
    # At most 26 numbers: beyond 6.5 deviations with probability below 1e-9 each.
    assert np.max(np.abs(ratio)) < 6.5
    assert Ledger(loaded.ledger_url).budget("people").spent_mu == pytest.approx(plan.charge.mu)
    assert make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text().count("svg")
    release = bv.open(outcome.path)
    assert list(release["table_1"].index) == ["0 to 18", "18 to 65", "65 to 120"]
    assert release["table_1"].shape == (3, 4)
    assert np.min(release["table_1_non_negative"].to_numpy()) >= 0.0


def test_tables_of_residuals_agree_and_so_do_those_without_negative_counts(tmp_path):
    _, outcome = run(asked(tmp_path, epsilon=0.5))
    release = bv.open(outcome.path)
    for suffix in ("", "_non_negative"):
        by_ward, by_sex, without_age = (release.array(f"table_{n}{suffix}") for n in (1, 2, 3))
        assert np.allclose(by_ward.sum(axis=1), by_sex.sum(axis=1))
        assert np.allclose(by_ward.sum(axis=0), without_age.sum(axis=1))


@pytest.mark.parametrize("mechanism", [RESIDUALS, GAUSSIAN])
def test_a_linear_function_of_all_tables_has_the_error_of_its_measurements(tmp_path, mechanism):
    """The same number and its error from independent measurements, by least squares of them."""
    _, outcome = run(asked(tmp_path, mechanism=mechanism))
    release = bv.open(outcome.path)
    one = release.linear_query({("age", "ward"): np.outer([1, 0, 0], [0, 1, 0, 0])})
    assert one.value == pytest.approx(release["table_1"].to_numpy()[0, 1])
    assert one.standard_error == pytest.approx(release.standard_error["table_1"].to_numpy()[0, 1])
    total = release.linear_query({("ward", "sex"): np.ones((4, 2))})
    by_axes = {each.axes: each for each in release.measurements()}
    if mechanism == RESIDUALS:
        assert total.standard_error == pytest.approx(by_axes[()].standard_deviation)
        assert total.value == pytest.approx(float(by_axes[()].values))
        assert all(np.allclose(each.values, centred(each.values)) and each.centred for each in by_axes.values())
        # Two tables say the same of the wards: their difference is known exactly.
        same = release.linear_query(
            {("age", "ward"): np.outer(np.ones(3), [1, 0, 0, 0]), ("ward", "sex"): -np.outer([1, 0, 0, 0], np.ones(2))}
        )
        assert same.value == pytest.approx(0.0, abs=1e-9)
        assert same.standard_error == pytest.approx(0.0, abs=1e-9)
    else:
        assert total.standard_error == pytest.approx(by_axes["ward", "sex"].standard_deviation * np.sqrt(8))


def test_what_the_release_does_not_hold_is_refused(tmp_path):
    _, outcome = run(asked(tmp_path, CHOSEN))
    release = bv.open(outcome.path)
    for coefficients in ({("age",): np.ones(3)}, {("sex",): np.ones(3)}, {("sex", "x"): np.ones(2)}):
        with pytest.raises(ConfigError, match="The release has no table"):
            release.linear_query(coefficients)
    (tmp_path / "other").mkdir()
    other = bv.open(run(support.prepare(tmp_path / "other"))[1].path)
    with pytest.raises(ConfigError, match="holds no tables"):
        other.measurements()


def test_auto_takes_residuals_and_the_plan_says_the_noise_of_each_table(tmp_path):
    pairs = QUERY.replace(
        " ]\n", ', { name = "a", cells = 5 }, { name = "b", cells = 5 }, { name = "c", cells = 5 } ]\n'
    )
    plan = make_plan(config(tmp_path, pairs, neighbours=ADD, mechanism=AUTO, epsilon=0.9), NIGHT)
    assert plan.design.strategy is not None
    assert plan.answer.facts()["strategy"]["kind"] == "residuals of marginal tables, version 1"
    assert "at most 1.001 times the least of any Gaussian noise" in dict(describe(plan, None))["Expected error"]
    population = Population.of(plan, Supposed())
    errors = assess(plan, population).errors
    assert len(errors) == 15
    assert [error.what for error in errors[:2]] == ["cell by age, ward", "cell by age, sex"]
    separate = make_plan(config(tmp_path, pairs, neighbours=ADD, mechanism=GAUSSIAN, epsilon=0.9), NIGHT)
    assert noise_size(plan, population, ()) < noise_size(separate, population, ())


def test_blocks_do_not_change_a_bit(tmp_path):
    digests = set()
    for number, block_rows in enumerate((7, 50, 400)):
        folder = tmp_path / str(number)
        folder.mkdir()
        plan, _ = run(asked(folder, block_rows=block_rows))
        layout = plan.effort.cut(plan.effort.machine()).layout(400, block_rows)
        parts = [
            plan.question.query.partial(VALUES, each.start, each.stop, block_rows, layout.tiles)[0]
            for each in layout.parts
        ]
        digests.add((np.sum(parts, axis=0).tobytes(), plan.digest))
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ways = 2\n", "", "neither it nor tables"),
        ("ways = 2", 'ways = 2\ntables = [["age"]]', "given beside tables"),
        ("ways = 2", "ways = 4", "4 of 3 axes"),
        ("ways = 2", 'tables = [["age", "town"]]', '"town" is in one'),
        ("ways = 2", 'tables = [["age", "age"]]', "ascending"),
        ("ways = 2", 'tables = [["age"], ["age"]]', "asked for twice"),
        ("cells = 2", "cells = 1", "at least two"),
        ("cells = 4", "cells = 1_048_576", "at most"),
        ("rows_at_most = 500\n", "", "rows_at_most"),
    ],
)
def test_what_are_no_tables_is_refused_in_words(tmp_path, old, new, message):
    assert old in QUERY
    with pytest.raises(ConfigError, match=message) as caught:
        config(tmp_path, QUERY.replace(old, new), neighbours=ADD, mechanism=RESIDUALS)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("mechanism", ['kind = "matrix-mechanism"', 'kind = "dawa"', 'kind = "mvg-exact"'])
def test_a_mechanism_that_does_not_answer_tables_is_refused(tmp_path, mechanism):
    with pytest.raises(ConfigError):
        make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=mechanism), NIGHT)


def test_a_code_that_is_no_whole_number_is_refused_before_anything_is_charged(tmp_path):
    loaded = asked(tmp_path, values=VALUES + 0.5)
    with pytest.raises(DataError, match="not a whole number"):
        run(loaded)
