"""Errors of the coefficients of a logistic regression: one charge, fixed beforehand, and the same bits again."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from blockveil.engine.answers.layout import Tile
from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases import training_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.verification.verified import verify
from tests.house.shipped import pinned_key
from tests.pipeline.kinds.gradients.test_training import NIGHT, VALUES
from tests.pipeline.releases.test_training_steps import HIDDEN, group_of, release, training

SHARE = "errors_share = 0.4"


def with_errors(folder, more=SHARE, epsilon=20.0, **changes):
    return training(folder, more=more, epsilon=epsilon, **changes)


def planned(path):
    return make_plan(load_config(path), NIGHT)


def test_steps_and_errors_are_one_charge_of_the_asked_loss_in_the_declared_shares(tmp_path):
    path = with_errors(tmp_path, epsilon=5.0)
    plan, plain = planned(path), planned(training(tmp_path / "plain", epsilon=5.0))
    own, steps = plan.designed.stage_after.answer.design.loss, plan.design.loss
    assert plan.charge.mu == pytest.approx(plain.charge.mu, rel=1e-6)
    assert own.mu**2 / plan.charge.mu**2 == pytest.approx(0.4, rel=1e-6)
    # In exact fractions: what is booked is no less than both together, and no more than was asked.
    assert Fraction(own.mu) ** 2 + Fraction(steps.mu) ** 2 <= Fraction(plan.charge.mu) ** 2
    assert own.total_variation + steps.total_variation <= plan.charge.total_variation
    assert plan.charge.delta(5.0) <= plan.guarantee.delta
    assert release(path).charge_id
    entries = Ledger(load_config(path).ledger_url).history(release_id=plan.release_id)
    assert [entry.kind for entry in entries] == ["RESERVED", "COMMITTED", "RELEASED"]
    assert entries[0].ticks == Ticks.of(plan.charge)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("batches", ['batches = "full"', 'batches = "fixed"\nbatch_count = 4\nbatch_seed = "s"'])
def test_what_is_released_holds_by_itself(tmp_path, neighbours, batches):
    path = with_errors(tmp_path)
    path.write_text(path.read_text().replace("add-remove", neighbours).replace('batches = "full"', batches))
    outcome = release(path)
    findings = {each.what: each for each in verify(outcome.path).findings}
    assert findings["Errors"].holds
    assert all(each.holds is not False for each in findings.values())


@pytest.mark.parametrize("rows", [1, 3])
def test_a_unit_of_several_rows_is_charged_for_all_of_them_in_steps_and_stage(tmp_path, rows):
    path = with_errors(tmp_path)
    path.write_text(path.read_text().replace("[privacy]", f"[privacy]\nrows_per_unit = {rows}"))
    plan = planned(path)
    together = rows * np.hypot(plan.design.loss.mu, plan.designed.stage_after.answer.design.loss.mu)
    assert together <= plan.charge.mu <= together * (1 + 1e-9)
    assert plan.charge.delta(plan.guarantee.epsilon) <= plan.guarantee.delta


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_never_further_apart_than_is_charged_at_any_weights(tmp_path, neighbours, seed):
    path = with_errors(tmp_path)
    path.write_text(path.read_text().replace("add-remove", neighbours))
    fisher = planned(path).designed.stage_after
    rng, whole = np.random.default_rng(seed), [Tile((0, 9), (0, 9))]
    problem, spread = fisher.question.moment.problem, fisher.answer.design.spread
    charged, largest = problem.l2(spread).bound, 0.0
    for size in (0.0, 1.0, 40.0):
        weights = rng.normal(0.0, 1.0, (1, 4)) * size
        query = fisher.question.query({"last": weights})

        def exact(values, query=query):
            return query.partial(values, 0, len(values), 7, whole)[0]

        for _ in range(12):
            far = np.append(rng.choice([-1e9, 1e9, 1.0, 0.3], 3), rng.integers(0, 2))
            # The class that the weights hold for unlikely, which gives the longest vector.
            worst = np.append(np.sign(weights[0, 1:]) * 1e9, 0.0)
            for record in (far, worst):
                other = np.vstack([VALUES[:30], np.append(-record[:3], 1 - record[3])])
                base = other if neighbours == "replace-one" else VALUES[:30]
                moved = exact(np.vstack([VALUES[:30], record])) - exact(base)
                unit = problem.scaling.unit
                largest = max(largest, np.linalg.norm(moved / unit / np.outer(spread.rows, spread.columns)))
    assert largest <= charged
    assert largest > 0.5 * charged, "the records are far enough out to move it"


def test_the_stage_has_noise_of_its_own_that_all_steps_decide(tmp_path, monkeypatch):
    keys, drawn = [], training_steps.in_memory.drawn

    def noted(design, held, layout, compute, key, name):
        keys.append(key.stream(bytes(16), 16))
        return drawn(design, held, layout, compute, key, name)

    monkeypatch.setattr(training_steps.in_memory, "drawn", noted)
    folders = (tmp_path / "one", tmp_path / "two", tmp_path / "three")
    with pinned_key():
        release(with_errors(folders[0]))
        release(with_errors(folders[1]))
        release(with_errors(folders[2], rate=2.0))
    assert keys[0] == keys[1] != keys[2]


def test_a_release_that_was_killed_in_the_stage_is_finished_with_the_same_bits_and_no_further_charge(
    tmp_path, monkeypatch
):
    whole = tmp_path / "whole"
    path = with_errors(whole)
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    outcome = release(path)
    other = with_errors(tmp_path / "killed")
    draw = training_steps.StepwiseMeasurement._after

    def killed(*arguments):
        draw(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_steps.StepwiseMeasurement, "_after", killed)
    with pytest.raises(KeyboardInterrupt):
        release(other)
    monkeypatch.setattr(training_steps.StepwiseMeasurement, "_after", draw)
    again = release(other)
    assert again.resumed is not None
    entries = Ledger(load_config(other).ledger_url).history(release_id=planned(other).release_id)
    assert [entry.kind for entry in entries].count("COMMITTED") == 1
    for name in ("last_weights", "fisher_second_moment", "fisher_mean"):
        np.testing.assert_array_equal(group_of(again)[name][...], group_of(outcome)[name][...])


def test_nothing_changes_where_no_share_is_declared(tmp_path):
    plan = planned(training(tmp_path))
    assert plan.designed.stage_after is None
    assert "fisher" not in plan.public["calibration"]
    assert "errors_share" not in plan.public["query"]["training"]
    assert plan.stated is plan.public


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": "errors_share = 0"}, "errors_share"),
        ({"more": "errors_share = 1"}, "errors_share"),
        ({"model": HIDDEN.replace('hidden_units = 4\nactivation = "tanh"\n', "")}, "another model"),
    ],
)
def test_a_share_that_has_no_meaning_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        planned(with_errors(tmp_path, **changes))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('batches = "full"', 'batches = "poisson"\nsampling_probability = 0.1', "secret samples"),
        ('kind = "gaussian"', 'kind = "laplace"\noptimise_for = "relative-error"', "only Gaussian noise"),
        ('kind = "gaussian"', 'kind = "auto"\nminimise = "total"', "auto"),
    ],
)
def test_noise_whose_loss_does_not_add_up_in_squares_is_refused(tmp_path, old, new, message):
    path = with_errors(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=message):
        planned(path)


def test_a_stage_that_does_not_fit_is_refused_by_the_plan(tmp_path, monkeypatch):
    path, cut = with_errors(tmp_path), Effort.cut

    def full(effort, *arguments):
        if effort.answer.design.shape == (9, 9):
            raise ConfigError("too large", "It fits", "Lower it")
        return cut(effort, *arguments)

    monkeypatch.setattr(Effort, "cut", full)
    with pytest.raises(ConfigError, match="too large"):
        planned(path)


def test_samplers_of_both_are_paid_for_at_a_large_epsilon(tmp_path):
    plan = planned(with_errors(tmp_path, epsilon=40.0))
    assert plan.charge.delta(40.0) <= plan.guarantee.delta
    with pytest.raises(ConfigError, match="no room"):
        planned(with_errors(tmp_path / "more", epsilon=60.0))


def test_a_plan_says_what_errors_cost(tmp_path):
    said = dict(describe(planned(with_errors(tmp_path)), None))
    assert "40 % of mu squared" in said["Errors"]
    assert "with what errors follow from" in said["Training"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_an_audit_sends_neighbours_through_steps_and_stage_and_refutes_a_charge_without_it(tmp_path, neighbours):
    path = with_errors(tmp_path, steps=3)
    path.write_text(path.read_text().replace("add-remove", neighbours))
    plan = planned(path)
    found = replay(plan, ThreadCompute(1), lambda *said: None, draws=False)
    assert not found.refutations
    assert found.share > 0.8
    steps = plan.design.loss
    less = replace(plan, charge=Loss(steps.mu * 0.99, 0.0, steps.total_variation))
    assert replay(less, ThreadCompute(1), lambda *said: None, draws=False).refutations
