"""Training on part of the records in each step, end to end: fixed batches, and secret samples."""

import logging

import numpy as np
import pytest
import zarr

from blockveil.engine.answers import held_records
from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.budget.filter import NOTHING, Cap
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.public import weights
from blockveil.pipeline.questions.stepwise import course_of
from blockveil.pipeline.releases import training_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.forged import forged
from tests.house.shipped import pinned_key
from tests.pipeline.kinds.gradients.test_training import HIDDEN, NIGHT, VALUES, release
from tests.pipeline.releases.test_training_steps import Killed, accuracy, group_of, training

FIXED = 'batch_count = 3\nbatch_seed = "any text"'
POISSON = "sampling_probability = 0.3"
BANDED = f"{FIXED}\nband = 3"
KINDS = {"fixed": FIXED, "poisson": POISSON, "banded": BANDED}


def batched(folder, kind, **changes):
    folder.mkdir(exist_ok=True)
    more = KINDS[kind] + "\n" + changes.pop("more", "")
    path = training(folder, **({"steps": 4} | changes), more=more)
    named = "fixed" if kind == "banded" else kind
    path.write_text(path.read_text().replace('batches = "full"', f'batches = "{named}"'))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_learns_from_a_part_of_the_records_at_a_time(tmp_path, kind):
    outcome = release(batched(tmp_path, kind, steps=30, rate=4.0, epsilon=8.0))
    assert accuracy(group_of(outcome)["last_weights"][...]) > 0.9
    page = write_report(outcome.path).path.read_text()
    said = {
        "fixed": "over one of 3 batches each, by",
        "poisson": "over a secret sample of 30 % of the records each",
        "banded": "over one of 3 batches each, whose noise takes away noise of the 2 steps before",
    }
    assert said[kind] in page


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_steps_over_fixed_batches_have_the_noise_of_their_epochs(tmp_path, neighbours):
    def deviation(kind, steps):
        path = batched(tmp_path / f"{kind}-{steps}", kind, steps=steps) if kind else training(tmp_path / "one", steps=1)
        path.write_text(path.read_text().replace("add-remove", neighbours))
        return make_plan(load_config(path), NIGHT).design.entry_standard_deviation().max()

    one = deviation("", 1)
    assert deviation("fixed", 3) == pytest.approx(one, rel=1e-3), "an epoch costs as much as one step over all records"
    assert deviation("fixed", 12) == pytest.approx(2.0 * one, rel=1e-3)
    assert deviation("fixed", 13) == pytest.approx(5.0**0.5 * one, rel=1e-3), "an epoch that has begun counts"


def test_a_plan_says_what_a_step_is_over_and_what_it_costs(tmp_path):
    plan = make_plan(load_config(batched(tmp_path / "f", "fixed", steps=12)), NIGHT)
    said = dict(describe(plan, None))["Training"]
    mu = plan.design.loss.mu
    assert (
        f"12 steps, each over one of 3 batches; a step alone has mu {mu / 2:.4g} for the records of its batch" in said
    )
    assert "each of which is in at most 4 steps" in said
    plan = make_plan(load_config(batched(tmp_path / "p", "poisson")), NIGHT)
    said = dict(describe(plan, None))["Training"]
    assert "4 steps, each over a secret sample of 0.3 of the records; a step alone has noise " in said
    assert "booked as one charge" in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 2])
def test_a_training_over_batches_that_is_killed_is_finished_with_the_same_bits_and_one_charge(
    tmp_path, monkeypatch, kind, at
):
    with pinned_key():
        whole = release(batched(tmp_path / "whole", kind))
    path = batched(tmp_path / "killed", kind)
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
    with pinned_key():
        again = run_release(plan, ThreadCompute(1), "second", lambda *_: None)
    for name, array in group_of(whole).arrays():
        assert np.array_equal(group_of(again)[name][...], array[...]), name
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history(release_id=plan.release_id)]
    assert kinds.count("COMMITTED") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_neither_blocks_nor_threads_change_a_bit_of_a_training_over_batches(tmp_path, kind):
    with pinned_key():
        found = [
            release(batched(tmp_path / str(rows), kind), overrides={"compute.block_rows": str(rows)})
            for rows in (17, 5000)
        ]
    one, other = (group_of(outcome)["gradients"][...] for outcome in found)
    assert np.array_equal(one, other)


@pytest.mark.slow
def test_worker_processes_draw_the_samples_of_one_process(tmp_path):
    with pinned_key():
        wanted = group_of(release(batched(tmp_path / "one", "poisson")))
        path = batched(tmp_path / "other", "poisson")
        path.write_text(path.read_text().replace(support.CLUSTERS["threads"], support.CLUSTERS["local"]))
        loaded = load_config(path)
        support.set_budget(loaded, 900.0, 1e-4)
        with open_compute(loaded) as compute:
            found = run_release(make_plan(loaded, NIGHT), compute, "t", lambda *_: None)
    assert np.array_equal(group_of(found)["gradients"][...], wanted["gradients"][...])


class Watching(ThreadCompute):
    """Notes the names and the number of tasks."""

    def __init__(self):
        super().__init__(1)
        self.names = []

    def hold(self, graph, progress):
        self.note(graph)
        return super().hold(graph, progress)

    def defer(self, graph):
        self.note(graph)
        return super().defer(graph)

    def note(self, graph):
        self.names.append(sorted(name.split("-", 3)[3] for name in graph.parts))


def shown(folder, caplog):
    """What a training over samples shows: names of tasks and arrays, and lines of the log."""
    caplog.clear()
    path = batched(folder, "poisson")
    loaded = load_config(path)
    support.set_budget(loaded, 900.0, 1e-4)
    compute = Watching()
    outcome = run_release(make_plan(loaded, NIGHT), compute, "t", lambda *_: None)
    names = sorted(name for name, _ in group_of(outcome).arrays())
    told = [record.getMessage().replace(str(folder), "") for record in caplog.records]
    return compute.names, names, [line for line in told if "raining" in line or "sample" in line]


def test_neither_tasks_nor_logs_nor_what_is_published_show_a_sample(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    one, other = (shown(tmp_path / str(number), caplog) for number in range(2))  # two keys, so two samples
    assert one == other
    assert len(one[0]) == 5, "all records are read once before the charge, and once in each step"
    assert len({len(names) for names in one[0]}) == 1, "each step has the tasks of all records"


@pytest.mark.parametrize("leak", ["a name of a task", "a line of the log"])
def test_a_sample_that_shows_in_names_or_logs_would_be_seen(tmp_path, caplog, monkeypatch, leak):
    caplog.set_level(logging.DEBUG)
    sums = training_steps._hold

    def leaking(compute, dataset, layout, chunk_rows, query, name):
        drawn = 0 if query.batch is None else int(query.batch.taken(np.zeros((1500, 1)), 0).sum())
        if leak == "a name of a task":
            name = f"{name}-{drawn}"
        else:
            logging.getLogger("blockveil").info("a sample of %d records", drawn)
        return sums(compute, dataset, layout, chunk_rows, query, name)

    monkeypatch.setattr(training_steps, "_hold", leaking)
    one, other = (shown(tmp_path / str(number), caplog) for number in range(2))
    assert one != other


def whole_tables(monkeypatch):
    """Steps that read their records anew."""
    monkeypatch.setattr(held_records, "fits", lambda *_: False)


@pytest.mark.parametrize("kind", [*KINDS, "full", "hidden"])
def test_records_that_stay_where_they_were_read_change_no_bit_and_are_forgotten(tmp_path, monkeypatch, kind):
    def made(name):
        folder = tmp_path / name
        folder.mkdir()
        if kind == "hidden":
            digest = weights.save(weights.random(weights.shapes(4, (4, 3), 3), seed=1), folder / "start.npz")
            path = training(folder, HIDDEN.replace("= 4", "= [4, 3]"), ("start.npz", digest), steps=4)
        else:
            path = training(folder, steps=4) if kind == "full" else batched(folder, kind)
        with pinned_key():
            return group_of(release(path, overrides={"compute.block_rows": "600"}))["gradients"][...]

    kept, fetch, found = [], held_records.fetch, []

    def fetched(holding, start, stop):
        found.append(fetch(holding, start, stop) is not None)
        kept.append(held_records._taken)
        return fetch(holding, start, stop)

    with monkeypatch.context() as patch:
        patch.setattr(held_records, "fetch", fetched)
        one = made("kept")
    assert sum(found) >= 2 * 3, "from the second step on each range is there"
    assert max(kept) > 1500 * 4 * 6
    assert (held_records._kept, held_records._taken) == ({}, 0), "nothing is kept after the last step"
    whole_tables(monkeypatch)
    assert np.array_equal(made("anew"), one)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_over_records_that_stay_reads_nothing(tmp_path, monkeypatch, kind):
    reads, total = [], GradientsQuery.total

    class Counted:
        def __init__(self, source):
            self.source = source

        def __getitem__(self, rows):
            reads.append(rows)
            return self.source[rows]

    def counted(self, source, *rest):
        return total(self, Counted(source), *rest)

    monkeypatch.setattr(GradientsQuery, "total", counted)
    release(batched(tmp_path, kind, steps=6), overrides={"compute.block_rows": "600"})
    assert len(reads) == 2 * 3, "all records are read before the charge, and once more after it"


def test_records_are_forgotten_where_a_training_fails(tmp_path, monkeypatch):
    path = batched(tmp_path, "fixed")
    loaded = load_config(path)
    support.set_budget(loaded, 900.0, 1e-4)
    draws, draw = [], training_steps._draw

    def failing(*args):
        draws.append(held_records._taken)
        if len(draws) == 3:
            raise OSError("full")
        draw(*args)

    monkeypatch.setattr(training_steps, "_draw", failing)
    with pytest.raises(OSError, match="full"):
        run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "t", lambda *_: None)
    assert draws[2] > 0
    assert (held_records._kept, held_records._taken) == ({}, 0)


def test_bad_records_are_found_before_the_charge_of_samples_is_committed(tmp_path):
    path = batched(tmp_path, "poisson")
    values = VALUES.copy()
    values[700, 1] = np.nan
    support.write_records(tmp_path, values, (200, 4))
    loaded = load_config(path)
    support.set_budget(loaded, 900.0, 1e-4)
    plan = make_plan(loaded, NIGHT)
    with pytest.raises(DataError, match="missing or infinite"):
        run_release(plan, ThreadCompute(2), "t", lambda *_: None)
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history(release_id=plan.release_id)]
    assert kinds == ["RESERVED", "VOID"]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("poisson", ('"add-remove"', '"replace-one"'), "add-remove"),
        ("poisson", ('unit = "', 'rows_per_unit = 2\nunit = "'), "one row a unit"),
        ("poisson", ('kind = "gaussian"', 'kind = "laplace"\noptimise_for = "absolute-error"'), "Gaussian noise"),
        ("poisson", ("sampling_probability = 0.3", ""), "query.training.sampling_probability"),
        (
            "poisson",
            ("sampling_probability = 0.3", "sampling_probability = 1.0"),
            "query.training.sampling_probability",
        ),
        ("fixed", ("batch_count = 3", ""), "query.training.batch_count"),
        ("fixed", ('batch_seed = "any text"', ""), "query.training.batch_seed"),
        (
            "fixed",
            ("batch_count = 3", "batch_count = 3\nsampling_probability = 0.1"),
            "query.training.sampling_probability",
        ),
        ("fixed", ("batch_count = 3", "batch_count = 1501"), "1,501 with examples = 1,500"),
        ("poisson", ("sampling_probability = 0.3", "sampling_probability = 0.0006"), "at least one record on average"),
        ("banded", ("band = 3", "band = 4"), r"(?s)query.training.band.*Lower it to 3 at most"),
        ("banded", ("steps = 4", "steps = 2"), r"(?s)query.training.band.*Lower it to 2 at most"),
        (
            "poisson",
            ("sampling_probability = 0.3", "sampling_probability = 0.3\nband = 2"),
            'Leave it out, or set batches = "fixed"',
        ),
        ("banded", ('kind = "gaussian"', 'kind = "laplace"\noptimise_for = "absolute-error"'), "Gaussian noise"),
    ],
)
def test_batches_that_are_not_declared_or_not_proven_are_refused(tmp_path, kind, change, message):
    path = batched(tmp_path, kind)
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(ConfigError, match=message):
        make_plan(load_config(path), NIGHT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_goes_through_the_steps_of_batches(tmp_path, kind):
    found = rehearse(make_plan(load_config(batched(tmp_path, kind)), NIGHT), Supposed(rows=1500))
    assert found.entries == 16
    assert found.covered >= 10


@pytest.mark.parametrize("kind", ["fixed", "banded"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_replay_of_fixed_batches_finds_no_more_than_is_charged(tmp_path, kind, relation):
    path = batched(tmp_path, kind, steps=6)
    path.write_text(path.read_text().replace("add-remove", relation))
    found = replay(make_plan(load_config(path), NIGHT), ThreadCompute(1), lambda *_: None)
    assert found.refutations == []
    assert 0.2 < found.share <= 1.0
    assert abs(found.spread - 1.0) < found.sees


def test_a_replay_finds_a_band_that_is_charged_as_if_its_noise_were_of_one_step(tmp_path, monkeypatch):
    monkeypatch.setattr(GradientProblem, "patterns", property(lambda self: 0.5))
    found = replay(make_plan(load_config(batched(tmp_path, "banded", steps=6)), NIGHT), ThreadCompute(1), lambda *_: 0)
    assert found.share > 1.0
    assert found.refutations


def test_steps_with_a_band_have_noise_of_which_a_part_is_gone_in_their_sum(tmp_path):
    plan = make_plan(load_config(batched(tmp_path, "banded", steps=30, epsilon=1.0)), NIGHT)
    with pinned_key():
        outcome = release(batched(tmp_path, "banded", steps=30, epsilon=1.0))
    group, course, errors = group_of(outcome), course_of(plan.question, plan.design), []
    found, deviation = group["gradients"][...], group["gradients_standard_deviation"][...]
    step = deviation[0] / plan.design.grid.standard_deviation
    units = plan.question.query.units[0] / plan.question.problem.largest**2
    for number in range(30):
        errors.append(found[number] - course.query().total(VALUES, 0, 1500, 500).ravel() * units)
        course.follow(np.rint(found[number] / step).astype(np.int64)[None, :])
    errors = np.array(errors) / deviation[0]
    band = plan.design.band
    assert np.allclose(deviation / deviation[0], band.deviations[:, None])
    own = plan.design.apart(errors)
    assert abs(own.std() - 1.0) < 6 / np.sqrt(2 * own.size)
    assert np.abs(np.mean(own[1:] * own[:-1])) < 6 / np.sqrt(own.size)
    assert np.abs(np.mean(errors[1:] * errors[:-1])) > 6 / np.sqrt(own.size), "a step takes away noise of the last one"
    assert verify(outcome.path).holds
    assert "with noise that takes away noise of the 2 steps before" in dict(describe(plan, None))["Training"]


def test_a_replay_of_secret_samples_finds_no_more_than_is_charged_and_leaves_nothing_untested(tmp_path):
    plan = make_plan(load_config(batched(tmp_path / "p", "poisson")), NIGHT)
    found = replay(plan, ThreadCompute(1), lambda *_: None)
    assert found.refutations == []
    assert 0.2 < found.share <= 1.0
    assert found.not_tested == ()


def test_whoever_verifies_a_release_accounts_for_its_samples_by_another_library(tmp_path):
    outcome = release(batched(tmp_path, "poisson", epsilon=1.0))
    found = {each.what: each for each in verify(outcome.path).findings}
    assert found["Noise"].holds
    assert "by dp-accounting" in found["Noise"].words
    assert found["Promise"].holds
    assert found["Unit"].holds
    scale = zarr.open_group(outcome.path, mode="r").attrs["mechanism"]["scale"]
    less = forged(outcome.path, lambda stated: stated["mechanism"].update(scale=0.8 * scale))
    assert not {each.what: each for each in verify(less).findings}["Noise"].holds


def test_a_failure_of_samples_is_booked_as_one_and_leaves_room_beside_it(tmp_path):
    loaded = load_config(batched(tmp_path, "poisson", epsilon=1.0))
    charge = make_plan(loaded, NIGHT).charge
    assert 0.0 < charge.failure < 1e-8
    assert charge.delta(1.0) <= 1e-5
    cap = Cap(4.0, 1e-5)
    booked = cap.book(charge, NOTHING)
    assert booked.failure_probability >= charge.failure
    assert cap.nights(NOTHING, booked) > 8
