"""Many steps of training in one release: one charge, the noise of all steps, the same bits wherever it is finished."""

import numpy as np
import pandas as pd
import pytest
import zarr

import blockveil as bv
from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.records.geometry import Body
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.public import weights
from blockveil.pipeline.questions.stepwise import course_of
from blockveil.pipeline.releases import training_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from blockveil.pipeline.report import write_report
from tests.house import support
from tests.house.shipped import pinned_key
from tests.pipeline.kinds.gradients.test_training import HIDDEN, LOGISTIC, NIGHT, VALUES, X, config, release

STEPS = """[query.training]
steps = {steps}
batches = "full"
examples = 1500
optimiser = "{optimiser}"
learning_rate = {rate}
{more}
"""


def training(folder, model=LOGISTIC, pin=None, epsilon=5.0, steps=20, optimiser="sgd", rate=4.0, more=""):
    section = STEPS.format(steps=steps, optimiser=optimiser, rate=rate, more=more)
    pinned = "" if pin is None else f'weights = "{pin[0]}"\nweights_sha256 = "{pin[1]}"\n'
    return config(folder, model + pinned + section, None, epsilon)


def accuracy(found):
    return (((np.column_stack([np.ones(1500), X]) @ found.T)[:, 0] > 0) == (VALUES[:, -1] == 1)).mean()


def group_of(outcome):
    return zarr.open_group(outcome.path, mode="r")


@pytest.mark.parametrize(
    ("optimiser", "rate", "more"),
    [
        ("sgd", 8.0, ""),
        ("momentum", 2.0, "momentum = 0.9"),
        ("adam", 0.5, 'schedule = "cosine"'),
        ("sgd", 8.0, 'schedule = "linear"\nweight_decay = 0.001'),
    ],
)
def test_a_model_learns_in_one_release(tmp_path, optimiser, rate, more):
    outcome = release(training(tmp_path, steps=30, optimiser=optimiser, rate=rate, more=more))
    assert accuracy(group_of(outcome)["last_weights"][...]) > 0.9


def test_all_steps_are_one_charge_of_the_asked_loss(tmp_path):
    path = training(tmp_path, steps=25)
    outcome = release(path)
    loaded = load_config(path)
    plan = make_plan(loaded, NIGHT)
    entries = Ledger(loaded.ledger_url).history(release_id=plan.release_id)
    assert [entry.kind for entry in entries] == ["RESERVED", "COMMITTED", "RELEASED"]
    assert outcome.charge_id == entries[0].charge_id
    one = make_plan(load_config(config(tmp_path / "one", LOGISTIC)), NIGHT)
    assert plan.charge.mu == pytest.approx(one.charge.mu, rel=1e-6)
    ratio = plan.design.entry_standard_deviation().min() / one.design.entry_standard_deviation().max()
    assert 5.0 <= ratio < 5.01, "noise of each of 25 steps is five times that of one"


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("steps", [1, 2, 7, 400])
def test_the_sensitivity_of_all_steps_is_that_of_their_stack(neighbours, steps):
    def problem(count):
        return GradientProblem(
            Body.BALL, Body.BALL, np.ones(2 * count), np.full(5, 0.3), neighbours, 2**15 - 1, 1000, steps=count
        )

    def even(one):
        return one.spread(np.ones(one.shape[0]), np.ones(one.shape[1]))

    one, all_steps = problem(1), problem(steps)
    assert all_steps.shape == (2 * steps, 5)
    assert even(all_steps).changing == steps * even(one).changing
    least = one.l2(even(one)).bound * np.sqrt(steps)
    assert least <= all_steps.l2(even(all_steps)).bound <= least * (1 + 1e-12)
    assert all_steps.l1(even(all_steps)).bound == pytest.approx(one.l1(even(one)).bound * steps, rel=1e-12)
    assert all_steps.l1(even(all_steps)).bound >= one.l1(even(one)).bound * steps


def stacked(plan, values, transcript):
    """Exact integers of all steps, of which each is at the weights that a fixed transcript of releases gives."""
    course, found = course_of(plan.question, plan.design), []
    for released in transcript:
        query = course.query()
        found.append(query.query.total(values, 0, len(values), 64))
        course.follow(released)
    return np.concatenate(found)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_never_further_apart_than_is_charged_whatever_was_released(tmp_path, neighbours, seed):
    path = training(tmp_path, steps=6, rate=300.0)
    path.write_text(path.read_text().replace("add-remove", neighbours))
    plan = make_plan(load_config(path), NIGHT)
    rng = np.random.default_rng(seed)
    rows = plan.design.shape[0] // 6
    # What was released is the same for both neighbours; here anything, so that the weights go anywhere.
    scale = 1500 * plan.question.problem.largest**2 / plan.design.steps((0, 1), (0, 1))[0, 0]
    transcript = [np.rint(rng.normal(size=(rows, 4)) * scale).astype(np.int64) for _ in range(6)]
    far = np.concatenate([rng.choice([-1e9, 1e9], 3), [1.0]])
    values = VALUES[:50]
    whole = stacked(plan, np.vstack([values, far]), transcript)
    other = np.vstack([values, np.append(-far[:3], 0.0)]) if neighbours == "replace-one" else values
    moved = whole - stacked(plan, other, transcript)
    unit, spread = plan.question.problem.scaling.unit, plan.design.spread
    distance = np.linalg.norm(moved / unit / np.outer(spread.rows, spread.columns))
    charged = plan.question.problem.l2(spread).bound
    assert distance <= charged
    assert distance > 0.2 * charged, "the records are far enough out to move it"


def test_the_noise_of_a_step_is_that_of_no_other(tmp_path):
    plan = make_plan(load_config(training(tmp_path, steps=40, epsilon=1.0)), NIGHT)
    with pinned_key():
        outcome = release(training(tmp_path, steps=40, epsilon=1.0))
    group = group_of(outcome)
    found, deviation = group["gradients"][...], group["gradients_standard_deviation"][...]
    course = course_of(plan.question, plan.design)
    noise = []
    for step in range(40):
        exact = course.query().query.total(VALUES, 0, 1500, 500)
        units = plan.question.query.units[0] / plan.question.problem.largest**2
        noise.append((found[step] - exact.ravel() * units) / deviation[step])
        grid = np.rint(found[step] / (deviation[step] / plan.design.grid.standard_deviation))
        course.follow(grid.astype(np.int64)[None, :])
    noise = np.array(noise)
    assert len({row.tobytes() for row in noise}) == 40
    assert abs(noise.std() - 1.0) < 6 / np.sqrt(2 * noise.size)
    assert np.abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 6 / np.sqrt(40)
    assert np.abs(np.mean(noise[1:] * noise[:-1])) < 6 / np.sqrt(noise.size)


def test_whoever_has_the_release_can_follow_each_step(tmp_path):
    path = training(tmp_path, steps=12, optimiser="adam", rate=0.3, more="weight_decay = 0.01")
    group = group_of(release(path))
    at, first, second = np.zeros(4), np.zeros(4), np.zeros(4)
    for step, gradient in enumerate(group["gradients"][...] / 1500, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        at = at * (1 - 0.3 * 0.01) - 0.3 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    assert np.allclose(group["last_weights"][...], at[None, :], rtol=1e-6)
    assert group["gradients"].shape == (12, 4)
    assert np.allclose(group["gradient_length"][...], np.linalg.norm(group["gradients"][...], axis=1))


class Killed(BaseException):
    """Not an error: nothing handles it."""


@pytest.mark.parametrize("at", [0, 1, 5, 11])
def test_a_training_that_is_killed_at_any_step_is_finished_with_the_same_bits_and_one_charge(tmp_path, monkeypatch, at):
    with pinned_key():
        whole = release(training(tmp_path / "whole", steps=12))
    path = training(tmp_path / "killed", steps=12)
    loaded = load_config(path)
    support.set_budget(loaded, 900.0, 1e-4)
    plan, drawn, draw = make_plan(loaded, NIGHT), [0], training_steps._draw

    def killed(*args):
        draw(*args)
        drawn[0] += 1
        if drawn[0] == at + 1:
            raise Killed

    with pinned_key(), monkeypatch.context() as patch:
        patch.setattr(training_steps, "_draw", killed)
        with pytest.raises(Killed):
            run_release(plan, ThreadCompute(2), "first", lambda *_: None)
    assert find_published(loaded.output_root, plan.release_id) is None
    with pinned_key():
        again = run_release(plan, ThreadCompute(1), "second", lambda *_: None)
    for name, array in group_of(whole).arrays():
        assert np.array_equal(group_of(again)[name][...], array[...]), name
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history(release_id=plan.release_id)]
    assert kinds.count("COMMITTED") == 1


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_end_while_the_key_is_forgotten_leaves_nothing_beside_the_release(tmp_path, monkeypatch, error):
    loaded = load_config(training(tmp_path, steps=3))
    support.set_budget(loaded, 900.0, 1e-4)

    def fail(compute, handle):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(ThreadCompute, "forget", fail)
        with pytest.raises(error):
            run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "first", lambda *_: None)
    assert not [path for path in loaded.output_root.rglob("*") if ".staging" in path.name]
    told = []
    second = run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "second", lambda stage, _: told.append(stage))
    assert second.path.exists()
    at = told.index("committing the charge")
    assert told[0] == "reserving the budget"
    assert told[at - 1 : at + 2] == ["training", "committing the charge", "training"]


def test_neither_blocks_nor_threads_change_a_bit(tmp_path):
    with pinned_key():
        found = [
            release(training(tmp_path / str(rows), steps=8), overrides={"compute.block_rows": str(rows)})
            for rows in (17, 5000)
        ]
    one, other = (group_of(outcome)["last_weights"][...] for outcome in found)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 3])
def test_each_step_adds_up_its_records_once_however_many_tiles_it_has(tmp_path, monkeypatch, threads):
    (tmp_path / "w").mkdir()
    wide = HIDDEN.replace("hidden_units = 4", "hidden_units = 200")
    start = weights.random(weights.shapes(4, (200,), 3), seed=1)
    pin = "w/start.npz", weights.save(start, tmp_path / "w" / "start.npz")
    loaded = load_config(training(tmp_path, wide, pin, epsilon=9.0, steps=3))
    support.set_budget(loaded, 900.0, 1e-4)
    plan, rows, total = make_plan(loaded, NIGHT), [], GradientsAtStep.total
    work = plan.answer.work(1500)
    assert len(work.tiles) > 1
    assert work.flops == 3 * 2 * 1500 * work.shape[0] * work.shape[1]  # forward, of its errors, and back
    monkeypatch.setattr(GradientsAtStep, "total", lambda step, *args: rows.append(args[1:3]) or total(step, *args))
    run_release(plan, ThreadCompute(threads), "t", lambda *_: None)
    assert sum(stop - start for start, stop in rows) == 3 * 1500


def test_a_hidden_layer_is_trained_and_has_a_report(tmp_path):
    (tmp_path / "w").mkdir()
    pin = "w/start.npz", weights.save(weights.random(weights.shapes(4, (4,), 3), seed=1), tmp_path / "w" / "start.npz")
    outcome = release(training(tmp_path, HIDDEN, pin, epsilon=9.0, steps=60, optimiser="adam", rate=0.2))
    group = group_of(outcome)
    assert group["hidden_weights"].shape == (4, 4)
    assert group["last_weights"].shape == (3, 5)
    assert group["weight"][5] == "unit 2 of x1"
    hidden = np.tanh(np.column_stack([np.ones(1500), X]) @ group["hidden_weights"][...].T)
    scores = np.column_stack([np.ones(1500), hidden]) @ group["last_weights"][...].T
    assert (scores.argmax(axis=1) == VALUES[:, -1]).mean() > 0.9
    page = write_report(outcome.path).path.read_text()
    assert "training of a model on people" in page
    assert "in 60 steps over all records, by adam at a learning rate of 0.2" in page
    assert "after a layer of 4 hidden units, which predicts y" in page
    assert "Length of the released sum of gradients of each of 60 steps" in page


def test_training_that_diverges_is_held_within_what_a_model_takes(tmp_path):
    group = group_of(release(training(tmp_path, steps=4, rate=1e6)))
    assert np.isfinite(group["last_weights"][...]).all()
    assert np.abs(group["last_weights"][...]).sum() <= 2.0**19 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimiser": "momentum"}, "query.training.momentum"),
        ({"more": "momentum = 0.9"}, "query.training.momentum"),
        ({"steps": 0}, "query.training.steps"),
        ({"rate": -1}, "query.training.learning_rate"),
        ({"more": 'schedule = "often"'}, "query.training.schedule"),
        ({"steps": "true"}, "query.training.steps"),
        ({"rate": "nan"}, "query.training.learning_rate"),
        ({"more": "weight_decay = inf"}, "query.training.weight_decay"),
    ],
)
def test_a_training_that_is_not_wholly_declared_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        load_config(training(tmp_path, **changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clipping_norm = 1.0", "clipping_norm = 0"), "It must be greater than or equal to 1e-30 "),
        (("clipping_norm = 1.0", "clipping_norm = nan"), "finite"),
        (("examples = 1500", "examples = 2001"), "2,001 with rows_at_most = 2,000"),
        (("examples = 1500", "examples = 0"), "query.training.examples"),
    ],
)
def test_numbers_that_no_training_can_have_are_refused(tmp_path, change, message):
    path = training(tmp_path)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert message in refused.value.in_full


def test_more_numbers_than_are_kept_are_refused_at_the_plan(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.kinds.gradients.training.MOST_ENTRIES", 79)
    with pytest.raises(ConfigError, match="train fewer steps or a smaller model"):
        make_plan(load_config(training(tmp_path, steps=20)), NIGHT)


@pytest.mark.parametrize("cluster", ["local", "threads"])
def test_worker_processes_make_the_bits_of_one_process(tmp_path, cluster):
    with pinned_key():
        wanted = group_of(release(training(tmp_path / "one", steps=4)))
        path = training(tmp_path / "other", steps=4)
        path.write_text(path.read_text().replace(support.CLUSTERS["threads"], support.CLUSTERS[cluster]))
        loaded = load_config(path)
        support.set_budget(loaded, 900.0, 1e-4)
        with open_compute(loaded) as compute:
            found = run_release(make_plan(loaded, NIGHT), compute, "t", lambda *_: None)
    for name, array in wanted.arrays():
        assert np.array_equal(group_of(found)[name][...], array[...]), name


def test_a_release_predicts_records_of_ones_own(tmp_path):
    outcome = release(training(tmp_path, steps=30, rate=8.0))
    opened = bv.open(outcome.pointer)
    found = opened.predict(X)
    assert found.dtype == np.int64
    assert (found == VALUES[:, -1]).mean() > 0.9
    shares = opened.model.predict_proba(pd.DataFrame({"z": 0.0, "x3": X[:, 2], "x1": X[:, 0], "x2": X[:, 1]}))
    assert np.array_equal(shares[:, 1] > 0.5, found == 1)
    assert np.array_equal(opened.predict(X * 1e6), opened.predict(np.clip(X * 1e6, -1, 1))), "values outside the bounds"


@pytest.mark.parametrize(
    "records", [X[:, :2], X[:, 0], [["a", "b", "c"]], X * np.nan, pd.DataFrame({"x1": [1.0]}), None]
)
def test_records_that_are_not_the_models_features_are_refused(records, trained):
    with pytest.raises(ConfigError, match=r"The rows (have no column|are not numbers|hold a missing)"):
        trained.predict(records)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return bv.open(release(training(tmp_path_factory.mktemp("trained"), steps=2)).pointer)


@pytest.mark.slow
def test_a_number_is_predicted_in_its_unit(tmp_path):
    values = np.column_stack([X, 50 + 20 * (X @ [0.5, -0.2, 0.1])])
    model = 'loss = "squared"\ntarget = { name = "y", lower = 30, upper = 70 }\n'
    path = training(tmp_path, model, steps=60, rate=0.5)
    support.write_records(tmp_path, values, (200, 4))
    opened = bv.open(release(path).pointer)
    assert np.abs(opened.predict(X) - values[:, -1]).mean() < 2.0
    with pytest.raises(ConfigError, match="predicts a number"):
        opened.model.predict_proba(X)


def test_a_release_without_training_has_no_model(tmp_path):
    with pytest.raises(ConfigError, match="has trained no model"):
        bv.open(release(config(tmp_path, LOGISTIC)).pointer).predict(X)


def test_a_preview_goes_through_all_steps(tmp_path):
    plan = make_plan(load_config(training(tmp_path, steps=10)), NIGHT)
    found = rehearse(plan, Supposed(rows=1500))
    assert found.entries == 40
    assert found.covered >= 30


def test_the_plan_says_what_a_step_costs_and_what_all_of_them(tmp_path):
    plan = make_plan(load_config(training(tmp_path, steps=16)), NIGHT)
    lines = dict(describe(plan, None))
    mu = plan.design.loss.mu
    assert (
        f"16 steps, each over all records; a step alone has mu {mu / 4:.4g}, all together mu {mu:.4g}"
        in lines["Training"]
    )
    assert "in each of 16 steps" in lines["Expected error"]


@pytest.mark.slow
def test_several_hidden_layers_are_trained_and_used(tmp_path):
    (tmp_path / "w").mkdir()
    start = weights.random(weights.shapes(4, (6, 4), 2), seed=1)
    assert list(start) == ["hidden_1", "hidden_2", "last"]
    pin = "w/start.npz", weights.save(start, tmp_path / "w" / "start.npz")
    model = 'loss = "softmax"\ntarget = { name = "y", classes = 2 }\nhidden_units = [6, 4]\nactivation = "gelu"\n'
    outcome = release(training(tmp_path, model, pin, epsilon=9.0, steps=80, optimiser="adam", rate=0.1))
    group = group_of(outcome)
    shapes = [group[f"{layer}_weights"].shape for layer in ("hidden_1", "hidden_2", "last")]
    assert shapes == [(6, 4), (4, 7), (2, 5)]
    assert group["weight"][6 * 4] == "unit_2 1 of constant"
    assert group["gradients"].shape == (80, 6 * 4 + 4 * 7 + 2 * 5)
    assert (bv.open(outcome.pointer).predict(X) == VALUES[:, -1]).mean() > 0.9
    page = write_report(outcome.path).path.read_text()
    assert "after a layer of 6 hidden units and then a layer of 4 hidden units" in page


def test_one_night_of_several_layers_has_a_gradient_for_each(tmp_path):
    (tmp_path / "w").mkdir()
    start = weights.random(weights.shapes(4, (6, 4), 2), seed=1)
    pin = "w/start.npz", weights.save(start, tmp_path / "w" / "start.npz")
    model = 'loss = "softmax"\ntarget = { name = "y", classes = 2 }\nhidden_units = [6, 4]\nactivation = "relu"\n'
    outcome = release(config(tmp_path, model, pin))
    after = weights.step(outcome.path, start, 1500, 1.0)
    assert {layer: array.shape for layer, array in after.items()} == {k: array.shape for k, array in start.items()}
