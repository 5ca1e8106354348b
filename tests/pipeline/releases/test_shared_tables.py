"""Nights that share a charge of tables that agree, workloads of counts, and gradients at fixed weights."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import zarr

import blockveil as bv
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.changes import changes
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.accuracy.rhythm import rhythm_of
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from blockveil.pipeline.study.replay import replay
from tests.house import support
from tests.pipeline.kinds.counts.test_workloads import MECHANISMS, TABLE
from tests.pipeline.kinds.gradients.test_training import LOGISTIC
from tests.pipeline.kinds.gradients.test_training import QUERY as OF_A_MODEL
from tests.pipeline.kinds.gradients.test_training import VALUES as LABELLED
from tests.pipeline.kinds.marginals.test_marginals import GAUSSIAN, QUERY, RESIDUALS, VALUES
from tests.pipeline.questions.test_queries import config

pytestmark = pytest.mark.usefixtures("pictures_in_words")
WORKLOAD = TABLE.format(workload='"ranges"', rows=5, columns=9)
RANGES = QUERY.replace("ways = 2", 'ways = 2\nordered = ["age", "ward"]')
GRADIENTS = OF_A_MODEL + LOGISTIC
WAYS = {
    "residuals": (QUERY, RESIDUALS, "tables"),
    "ranges": (RANGES, RESIDUALS, "tables"),
    "tables": (QUERY, GAUSSIAN, "tables"),
    "matrix-mechanism": (WORKLOAD, MECHANISMS["matrix-mechanism"], "counts"),
    "hierarchical": (WORKLOAD, MECHANISMS["hierarchical"], "counts"),
    "gradients": (GRADIENTS, GAUSSIAN, "gradients"),
}
RECORDS = {
    **dict.fromkeys((QUERY, RANGES), VALUES),
    WORKLOAD: np.random.default_rng(8).uniform(0, 1, (400, 2)),
    GRADIENTS: LABELLED[:400],
}
STEPS = """[query.training]
steps = 3
batches = "full"
examples = 400
optimiser = "sgd"
learning_rate = 1.0
"""


def asked(folder, way, rows=100, section="nights = 5\nfirst = 2026-11-20\nwindows = [2]", **settings):
    query, mechanism, _ = WAYS[way]
    values = RECORDS[query]
    support.write_records(folder, values[:rows])
    loaded = config(folder, query, **{"neighbours": "add-remove", "mechanism": mechanism, **settings})
    loaded.path.write_text(loaded.path.read_text().replace("\n[compute]", f"\n[continual]\n{section}\n[compute]"))
    support.set_budget(load_config(loaded.path), 150.0)
    return load_config(loaded.path), values


def exact_of(plan, values):
    tiles = plan.effort.cut(plan.effort.machine(), 400).layout(400, 50).tiles
    exact = plan.question.query.partial(values, 0, len(values), 50, tiles)
    return exact[0]


QUICK = ("residuals", "hierarchical")
SLOW = [
    *((way, "add-remove") for way in QUICK),
    *(pytest.param(way, "add-remove", marks=pytest.mark.slow) for way in WAYS if way not in QUICK),
    *(pytest.param(way, "replace-one", marks=pytest.mark.slow) for way in WAYS),
]


@pytest.mark.parametrize(("way", "relation"), SLOW)
def test_nights_of_sums_share_a_charge_and_are_near_the_truth_with_honest_errors(tmp_path, way, relation):
    loaded, values = asked(tmp_path, way, neighbours=relation)
    spent = set()
    for day, rows in ((20, 100), (22, 250), (23, 400)):
        support.write_records(tmp_path, values[:rows])
        plan = make_plan(loaded, date(2026, 11, day))
        outcome = run_release(plan, ThreadCompute(2), "test", lambda *_: None)
        group, name = zarr.open_group(outcome.path, mode="r"), WAYS[way][2]
        for prefix, first in (("", 0), ("last_2_", 0 if day < 23 else 100)):
            exact = exact_of(plan, values[first:rows])
            truth = plan.question.query.split(exact / plan.design.unit)[0] if way == "gradients" else exact
            noise = group[prefix + name][...] - truth.reshape(group[name].shape)
            # At most 45 numbers of nine arrays: beyond 7 deviations with probability below 1e-9 in all.
            assert np.max(np.abs(noise / group[f"{prefix}{name}_standard_deviation"][...])) < 7
        spent.add(Ledger(loaded.ledger_url).budget("people").spent_mu)
    assert len(spent) == 1
    assert Ledger(loaded.ledger_url).verify().problems == []
    if way == "residuals":
        assert relation == "add-remove" or make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.exists()
        tables = bv.open(outcome.path)
        assert np.allclose(tables.array("table_1").sum(axis=1), tables.array("table_2").sum(axis=1))


@pytest.mark.parametrize(("way", "relation"), SLOW)
def test_neighbours_differ_over_all_nights_by_what_is_charged_and_hardly_less(tmp_path, way, relation):
    loaded, _ = asked(tmp_path, way, section="nights = 3\nfirst = 2026-11-20", neighbours=relation)
    found = replay(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(2), lambda *_: None)
    assert 0.8 < found.share <= 1.0
    assert (found.refutations, found.not_tested) == ([], ())


@pytest.mark.parametrize("way", ["residuals", "matrix-mechanism", "hierarchical"])
def test_sums_by_digits_of_the_weights_are_measured_as_the_whole_sum(tmp_path, way):
    loaded, values = asked(tmp_path, way)
    plan = make_plan(loaded, date(2026, 11, 20))
    whole, exact = plan.design, exact_of(plan, values)
    cut, key = replace(whole, digit_bits=4), NoiseKey(bytes(32))
    digits = np.stack([(201 & 15) * exact, (201 >> 4) * exact])
    assert np.array_equal(cut.release(key, digits), whole.release(key, 201 * exact))


def test_the_plan_says_the_noise_of_a_night_and_no_other_mechanism_is_taken(tmp_path):
    loaded, _ = asked(tmp_path, "residuals")
    said = dict(describe(make_plan(loaded, date(2026, 11, 22)), None))
    assert "least of any Gaussian noise" not in said["Expected error"]
    assert "of one release for the whole charge" in said["Nights' noise"]
    text = loaded.path.read_text()
    for mechanism in ('kind = "auto"\nminimise = "total"', 'kind = "discrete-laplace"'):
        loaded.path.write_text(text.replace(RESIDUALS, mechanism))
        with pytest.raises(ConfigError, match=r"Choose one of gaussian, .*residuals"):
            load_config(loaded.path)
    loaded, _ = asked(tmp_path, "gradients")
    loaded.path.write_text(loaded.path.read_text().replace("[privacy]", f"{STEPS}[privacy]"))
    with pytest.raises(BlockveilError, match="would not measure one sum"):
        load_config(loaded.path)
    folder = tmp_path / "laplace"
    folder.mkdir()
    laplace = config(folder, WORKLOAD, mechanism=MECHANISMS["laplace hierarchy"], neighbours="add-remove").path
    laplace.write_text(laplace.read_text() + "\n[continual]\nnights = 5\nfirst = 2026-11-20\n")
    with pytest.raises(BlockveilError, match=r'"hierarchical" with \[continual\]'):
        load_config(laplace)


@pytest.mark.parametrize("way", ["hierarchical", "matrix-mechanism"])
def test_a_preview_of_such_a_night_is_near_its_made_up_truth(tmp_path, way):
    loaded, _ = asked(tmp_path, way)
    made = rehearse(make_plan(loaded, date(2026, 11, 22)), Supposed(rows=500))
    assert made.covered >= 0.7 * made.entries


def test_tables_have_no_preview_and_are_not_called_a_query_of_another_package(tmp_path):
    loaded, _ = asked(tmp_path, "residuals")
    said = rehearse(make_plan(loaded, date(2026, 11, 22)), Supposed(rows=500))
    assert said == "There is no preview of this kind of query: no records are simulated for it."


def test_where_the_best_is_chosen_tables_of_residuals_are_offered_for_shared_nights(tmp_path):
    more = "".join(f', {{ name = "{name}", cells = 5 }}' for name in "abc")
    query = QUERY.replace(" ]\n", f"{more} ]\n")
    auto = config(tmp_path, query, neighbours="add-remove", mechanism='kind = "auto"\nminimise = "total"', epsilon=0.9)
    plan = make_plan(auto, date(2026, 11, 20))
    offered = [change for change in changes(plan, 400, rhythm_of(auto)) if "in one shared charge" in change.what]
    assert [change.loaded.config.mechanism.kind for change in offered] == ["residuals"]
