"""Quantiles by two stages: one charge that is fixed before, the same bits wherever it is finished, errors that hold."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.column_bins import column_histograms
from blockveil.engine.audit.mutants import half_steps
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.number_error import INTERVAL
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.quantiles.learning import OF_RANKS
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_stages import Stages
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.stopping import Stopped, StoppingCompute
from tests.pipeline.questions.test_queries import config
from tests.pipeline.releases.test_release import NIGHT, bits, quiet, run, spent

EPSILON = 8.0
QUERY = """kind = "quantiles"
rows_at_most = 500
missing = "refuse"
probabilities = [0.5, 0.9]
axes = [
  { name = "age", cells = 121 },
  { name = "income", lower = 0, upper = 100_000, cells = 1000 },
  { name = "grade", cells = 5 },
]
"""
RNG = np.random.default_rng(8)
VALUES = np.column_stack([RNG.integers(18, 90, 400), RNG.gamma(2.0, 9_000.0, 400), RNG.integers(0, 5, 400)])


def staged(folder, query=QUERY, neighbours="add-remove", values=VALUES):
    folder.mkdir(exist_ok=True)
    support.write_records(folder, values)
    loaded = config(folder, query, neighbours=neighbours, mechanism='kind = "gaussian"', epsilon=EPSILON)
    support.set_budget(loaded, 40.0)
    return loaded


def several_rows(loaded, rows):
    unit, text = 'unit = "one person (one row)"', loaded.path.read_text()
    if rows > 1:
        loaded.path.write_text(text.replace(unit, f'unit = "one person"\nrows_per_unit = {rows}'))
    return load_config(loaded.path)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_both_stages_are_one_charge_of_the_asked_loss_in_the_declared_shares(tmp_path, neighbours, missing):
    loaded = staged(tmp_path, QUERY.replace("refuse", missing), neighbours)
    plan = make_plan(loaded, NIGHT)
    stages = plan.designed.learning
    first, last = stages.first.design.loss, plan.design.loss
    assert first.mu**2 + last.mu**2 <= plan.charge.mu**2 * (1 + 1e-12)
    assert first.mu**2 / plan.charge.mu**2 == pytest.approx(OF_RANKS, rel=1e-3)
    assert plan.charge.mu == pytest.approx(gaussian_mu(EPSILON, 1e-6), rel=1e-6)
    assert plan.charge.delta(EPSILON) <= 1e-6
    assert "20 % of mu squared" in dict(describe(plan, None))["Learns"]
    outcome = run(loaded)
    assert spent(loaded) == pytest.approx(plan.charge.mu, rel=1e-9)
    found = {finding.what: finding for finding in verify(outcome.path).findings}
    assert all(finding.holds is not False for finding in found.values()), found
    assert found["Stages"].words == "2 under one promise"
    assert found["Sensitivity"].words.startswith("recomputed")
    assert "not checked" not in found["Arrays"].words


@pytest.mark.parametrize("stop", range(1, 5))
def test_a_night_that_is_killed_at_any_stage_is_finished_with_the_same_bits(tmp_path, monkeypatch, stop):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    whole, loaded = bits(run(staged(tmp_path / "whole"))), staged(tmp_path / "killed")

    with pytest.raises(Stopped):
        run(loaded, compute=StoppingCompute(stop))
    assert (spent(loaded) == 0.0) == (stop == 1)
    assert bits(run(loaded)) == whole
    assert len([each for each in Ledger(loaded.ledger_url).history() if each.kind == "COMMITTED"]) == 1
    assert KeyStore(loaded.keys_root).list() == []


def test_the_second_stage_has_another_key_where_the_first_released_other_integers(tmp_path, monkeypatch):
    contexts, of_stage = [], NoiseKey.of_stage
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))

    def recorded(key, context):
        contexts.append(context)
        return of_stage(key, context)

    monkeypatch.setattr(NoiseKey, "of_stage", recorded)
    for name, values in (("one", VALUES), ("other", VALUES + np.array([0.0, 0.0, 1.0]) * (VALUES[:, 2:] < 4))):
        run(staged(tmp_path / name, values=values))
    assert contexts[0] == contexts[2]
    assert len(set(contexts)) == 3


def ranks(stated):
    return stated["learned"]["stages"]["ranks"]["mechanism"]


def scaled(table, key, factor):
    table[key] *= factor


FORGED = {
    "less noise in the first stage": lambda stated, _: scaled(ranks(stated), "scale", 0.5),
    "a smaller sensitivity": lambda stated, _: scaled(ranks(stated), "sensitivity", 0.9),
    "a promise without the first stage": lambda stated, _: scaled(stated["guarantee"]["loss"], "mu", 0.8**0.5),
    "a sampler that is nearer": lambda stated, _: scaled(stated["guarantee"]["loss"], "total_variation", 0.5),
    "no first stage": lambda stated, _: stated["learned"]["stages"].pop("ranks"),
    "another matrix": lambda _, arrays: arrays.update(ranks_measured_kernel=2 * arrays["ranks_measured_kernel"]),
    "exact ranks": lambda _, arrays: arrays.update(ranks_cumulative=arrays["ranks_cumulative"] + 1e-3),
    "one array more": lambda _, arrays: arrays.update(ranks_secret=np.zeros(3)),
}
OF_CELLS = {
    "cells that are not declared": lambda arrays: arrays.update(last_cell=arrays["last_cell"] + 1),
    "cells in another order": lambda arrays: arrays.update(last_cell=arrays["last_cell"][:, ::-1]),
    "ends of other cells": lambda arrays: arrays.update(cell_upper=arrays["cell_upper"] + 1.0),
    "no cells": lambda arrays: arrays.pop("last_cell"),
}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    group = zarr.open_group(run(staged(tmp_path_factory.mktemp("released"))).path, mode="r")
    return group.attrs.asdict(), {name: array[...] for name, array in group.arrays()}


class TestVerification:
    """What a release states of its stages is held against what it holds."""

    @pytest.mark.parametrize("forged", FORGED)
    def test_what_is_not_as_a_stage_states_is_refuted(self, released, forged):
        stated, arrays = copy.deepcopy(released[0]), dict(released[1])
        assert Stages(stated, arrays).failure() is None
        FORGED[forged](stated, arrays)
        try:
            failure = Stages(stated, arrays).failure()
        except (OtherArray, KeyError) as problem:
            failure = str(problem)
        assert failure is not None

    @pytest.mark.parametrize("forged", OF_CELLS)
    def test_cells_that_are_not_joined_of_declared_ones_are_refuted(self, released, forged):
        stated, arrays = released[0], dict(released[1])
        last = Stages(stated, arrays).last
        ArrayCheck(stated, last).run()
        OF_CELLS[forged](last)
        with pytest.raises(OtherArray):
            ArrayCheck(stated, last).run()


class TestAudit:
    """Neighbours differ in both stages by what is charged for them, and by more where a stage has half its noise."""

    @pytest.mark.parametrize(("neighbours", "rows"), [("add-remove", 1), ("replace-one", 1), ("add-remove", 3)])
    def test_neighbours_attain_the_charge_and_none_passes_it(self, tmp_path, neighbours, rows):
        plan = make_plan(several_rows(staged(tmp_path, neighbours=neighbours), rows), NIGHT)
        found = replay(plan, ThreadCompute(1), quiet, draws=False)
        assert not found.refutations
        # Of the grades the farthest two cells are among those that rows of a unit are tried in.
        assert found.share > 0.9

    @pytest.mark.parametrize("stage", ["first", "last"])
    def test_half_the_noise_in_either_stage_is_refuted(self, tmp_path, stage):
        plan = make_plan(staged(tmp_path), NIGHT)
        stages = plan.designed.learning
        part = "first" if stage == "first" else "plain_answer"
        answer = getattr(stages, part)
        less = replace(stages, **{part: replace(answer, design=half_steps(answer.design))})
        plan = replace(plan, designed=replace(plan.designed, learning=less))
        found = replay(plan, ThreadCompute(1), quiet, draws=False)
        assert any("as far as its charge allows" in claim for claim in found.refutations)


def test_ranks_have_the_errors_that_a_plan_expects_and_five_percent_more_or_less_is_rejected(tmp_path):
    axes = ",\n".join(f'{{ name = "c{k}", cells = 60 }}' for k in range(200))
    query = f'kind = "quantiles"\nrows_at_most = 10_000\nmissing = "drop"\nprobabilities = [0.3]\naxes = [{axes}]\n'
    plan = make_plan(config(tmp_path, query, neighbours="add-remove", mechanism='kind = "gaussian"'), NIGHT)
    stages, counts, off = plan.designed.learning, np.full((200, 60), 50), []
    expected = assess(plan, Population.of(plan, Supposed(3_000))).errors[0].size

    def released(answer, key):
        exact = np.zeros((200, max(answer.question.problem.sizes)), np.int64)
        for row, own, last in zip(exact, counts, answer.question.last_cells, strict=True):
            row[: last.size] = np.diff(np.cumsum(own)[last], prepend=0)
        return answer.design.release(NoiseKey(bytes([key, len(last)]) * 16), answer.question.problem.answers(exact))

    for key in range(30):
        drawn = [replace(each, released=released(each.stage.answer, key)) for each in stages.blank(3_000)]
        answer = plan.of_last_stage(stages.learned(drawn, 3_000)).answer
        arrays = {name: values for name, (values, _) in answer.arrays(released(answer, key), 3_000).items()}
        border = np.argmin(np.abs(50.0 * (arrays["last_cell"] + 1) - 900.0), axis=1)[:, None]
        rank = np.take_along_axis(arrays["cumulative"], border, 1)[:, 0] - 0.3 * arrays["values"]
        off.append(rank - 50.0 * (np.take_along_axis(arrays["last_cell"], border, 1)[:, 0] + 1) + 900.0)
    # 6,000 ranks, each independent of those of other columns: a standard deviation is known to 0.9 %.
    assert abs(INTERVAL * np.std(off) / expected - 1.0) < 0.035
    assert abs(np.mean(off)) < 0.06 * np.std(off)


def test_few_cells_count_what_the_declared_cells_that_they_join_count_also_of_values_at_borders(tmp_path):
    question = make_plan(staged(tmp_path), NIGHT).designed.learning.first.question
    last = np.array([5, 9, 20, 120]), np.array([7, 99, 999]), np.arange(5)
    edges = [np.resize(axis.edges, 2_000) for axis in question.query.histograms.bins]
    records = np.column_stack(edges)
    declared, joined = (
        column_histograms(records, 0, 2_000, each.query.histograms, 500) for each in (question, question.joined(last))
    )
    for row, ends in enumerate(last):
        assert np.cumsum(joined[row])[: ends.size].tolist() == np.cumsum(declared[row])[ends].tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind = "gaussian"', 'kind = "laplace"\noptimise_for = "absolute-error"'),
        ("[0.5, 0.9]", str([round(0.01 * k, 2) for k in range(1, 100)])),
        ("cells = 121", "cells = 4"),
        ("epsilon = 8.0\ndelta = 1e-6", "epsilon = 1e-3\ndelta = 1e-3"),
    ],
)
def test_where_few_cells_do_not_help_there_is_one_stage(tmp_path, old, new):
    query = QUERY.replace("cells = 1000", "cells = 4") if old == "cells = 121" else QUERY
    loaded = staged(tmp_path, query)
    loaded.path.write_text(loaded.path.read_text().replace(old, new))
    assert make_plan(load_config(loaded.path), NIGHT).designed.learning is None
