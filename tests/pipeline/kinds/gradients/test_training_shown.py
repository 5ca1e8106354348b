"""What a training publishes in the end, and what it shows on the way: functions of the released sums alone."""

from contextlib import nullcontext

import numpy as np
import pytest
import zarr

import blockveil as bv
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.gradients.training import Training, arrays
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import training_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import Attempt, walk
from blockveil.pipeline.releases.order import once
from blockveil.pipeline.report import papers, training_curve, write_report
from blockveil.pipeline.report.model_card import beyond_noise
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.pipeline.kinds.gradients.test_training import NIGHT, VALUES, X, release
from tests.pipeline.kinds.gradients.test_training_batches import batched
from tests.pipeline.releases.test_training_steps import group_of, training

WAYS = [None, "weights", "last-weights"]


def published(folder, publishes, **changes):
    folder.mkdir(exist_ok=True)
    more = changes.pop("more", "") + ("" if publishes is None else f'\npublishes = "{publishes}"')
    return training(folder, steps=12, optimiser="adam", rate=0.3, more=more, **changes)


@pytest.mark.parametrize("publishes", WAYS)
def test_what_is_published_has_its_report_and_its_model(tmp_path, publishes):
    outcome = release(published(tmp_path, publishes))
    group = group_of(outcome)
    assert group["gradients"].shape == ((12, 4) if publishes is None else (1, 4))
    assert ("after_each_step" in group) == (publishes == "weights")
    assert group["gradient_length"].shape == (12,)
    if publishes == "weights":
        assert np.array_equal(group["after_each_step"][-1], group["last_weights"][...].ravel())
        assert len(np.unique(group["after_each_step"][...], axis=0)) == 12
    opened = bv.open(outcome.pointer)
    assert (opened.predict(X) == VALUES[:, -1]).mean() > 0.8
    assert "adam" in opened.model.card
    assert "over all records, by adam" in write_report(outcome.path).path.read_text()
    assert verify(outcome.path).holds
    assert rehearse(make_plan(load_config(published(tmp_path, publishes)), NIGHT), Supposed(rows=1500)).entries > 0


@pytest.mark.parametrize("publishes", WAYS[1:])
def test_everything_published_follows_from_the_released_sums_of_all_steps(tmp_path, publishes):
    plan = make_plan(load_config(published(tmp_path, publishes)), NIGHT)
    whole = make_plan(load_config(published(tmp_path / "whole", None)), NIGHT)
    assert plan.charge == whole.charge, "what is left out is paid for all the same"
    question = plan.question
    steps = np.rint(np.random.default_rng(1).normal(size=plan.design.shape) * 1e6).astype(np.int64)
    found = arrays(question.training, question.query, plan.design, steps)
    unlimited = Training(question.training.descent, question.training.examples, question.training.start)
    everything = arrays(unlimited, question.query, plan.design, steps)
    for name, (value, axes) in found.items():
        if name == "after_each_step":
            early = [
                arrays(question.training, question.query, plan.design, np.where(kept, steps, 0))
                for kept in (np.arange(12)[:, None] <= k for k in range(12))
            ]
            assert all(np.array_equal(value[k], early[k][name][0][k]) for k in range(12)), "of steps before it alone"
        else:
            whole_value = everything[name][0]
            assert np.array_equal(value, whole_value if axes[0] != "last_step" else whole_value[-1:]), name


@pytest.mark.parametrize("publishes", WAYS)
@pytest.mark.parametrize("kind", ["full", "banded"])
def test_the_stated_error_is_that_of_what_is_published(tmp_path, publishes, kind):
    more = "" if publishes is None else f'publishes = "{publishes}"'
    path = training(tmp_path, steps=30, more=more) if kind == "full" else batched(tmp_path, kind, steps=30, more=more)
    answer = make_plan(load_config(path), NIGHT).answer
    shown = answer._deviations()[slice(None) if publishes is None else slice(-1, None)]
    stated, true = answer.error(), float((shown**2).sum())
    assert stated.total_variance == pytest.approx(true, rel=1e-3)
    assert true**0.5 < stated.spectral * 3
    assert stated.spectral <= stated.frobenius
    assert true**0.5 < stated.frobenius < 4 * true**0.5


def test_an_unknown_way_to_publish_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"query\.training\.publishes"):
        load_config(published(tmp_path, "nothing"))


def shown(folder, monkeypatch, seconds=0.0, **changes):
    """All that a training shows on its way, and its release."""
    monkeypatch.setattr(training_steps, "SHOWN_SECONDS", seconds)
    monkeypatch.setattr(training_steps, "_SHARE", 0.0)
    loaded = load_config(training(folder, steps=8, **changes))
    support.set_budget(loaded, 900.0, 1e-4)
    heard, compute = [], ThreadCompute(1)
    plan = make_plan(loaded, NIGHT)
    attempt = Attempt(
        plan, Ledger(plan.loaded.ledger_url), "t", lambda: nullcontext(compute), lambda *_: None, heard.append
    )
    return heard, attempt, plan


def test_what_is_shown_on_the_way_is_what_is_released(tmp_path, monkeypatch):
    heard, attempt, _ = shown(tmp_path, monkeypatch)
    group = zarr.open_group(walk(attempt, once).path, mode="r")
    assert [len(one.lengths) for one in heard] == list(range(1, 9))
    assert np.allclose(heard[-1].lengths, group["gradient_length"][...], rtol=1e-12)
    assert np.allclose(heard[-1].noise, group["gradient_length_of_noise"][...], rtol=1e-12)
    page = training_curve.under_way(heard[3])
    assert "Step 4 of 8." in page
    assert "Length of the released sum of gradients of each of 4 steps" in page


@pytest.mark.parametrize("made", [1, 2, 600])
def test_a_curve_has_room_for_the_steps_to_come_and_no_broken_step(monkeypatch, made):
    drawn = []
    monkeypatch.setattr(training_curve, "pictured", lambda draw, text: drawn.append((draw(papers.LIGHT), text)))
    monkeypatch.setattr(training_curve, "image", lambda _: "")
    lengths = (9.0, *(2.5,) * (made - 1))
    said = training_curve.under_way(training_steps.StepsSoFar(600, lengths, (1.0,) * made))
    (figure, text), (axes,) = drawn[0], drawn[0][0].axes
    assert said.startswith(f"Step {made} of 600.")
    assert axes.get_xlim() == (0.5, 600.5)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    assert ("of one step beside" in text) == (made == 1)
    assert ("In 1 of 1 step the released sum is" in text) == (made == 1)
    sums, noise = axes.lines
    assert (sums.get_marker() == "o") == (made <= 100)
    assert (noise.get_marker() == "o") == (made == 1), "a line of one point is not seen"
    figure.clear()


@pytest.mark.parametrize(("grid", "attributes"), [("Gaussian", {"grid": "2 levels"}), ("any", None)])
def test_a_training_of_noise_alone_has_no_step_whose_sum_is_said_to_be_longer_than_noise(grid, attributes):
    """Of 2,000 steps of two weights some 40 are twice as long as the root mean square of their noise."""
    rng, trials = np.random.default_rng(16), 100
    noise = np.ones(2000)
    lengths = np.sqrt((rng.standard_normal((trials, 2000, 2)) ** 2).mean(axis=2))
    assert (lengths > 2.0).sum(axis=1).min() > 10
    stated = None if attributes is None else {"mechanism": attributes}
    said = [beyond_noise(stated, each, noise) for each in lengths]
    assert sum(text.startswith("In 0 of 2,000 steps ") for text in said) >= trials - 5
    assert "which noise alone is in no step in 95 of 100 releases" in said[0]
    assert beyond_noise(stated, lengths[0] + 9.0, noise).startswith("In 2,000 of 2,000 steps ")
    early = beyond_noise(stated, lengths[0][:1], noise[:1], 2000)
    assert early.partition("more than")[2] == said[0].partition("more than")[2], "the same at each look"


def test_looks_at_a_training_are_some_seconds_apart(tmp_path, monkeypatch):
    heard, attempt, _ = shown(tmp_path, monkeypatch, seconds=1e6)
    walk(attempt, once)
    assert len(heard) == 1


def test_nothing_is_shown_of_records_that_have_changed_meanwhile(tmp_path, monkeypatch):
    heard, attempt, plan = shown(tmp_path, monkeypatch)
    draw, drawn = training_steps._draw, []

    def changing(*args):
        draw(*args)
        drawn.append(1)
        if len(drawn) == 3:
            support.write_records(tmp_path, VALUES + 1.0, (200, 4))

    monkeypatch.setattr(training_steps, "_draw", changing)
    with pytest.raises(DataError, match="changed"):
        walk(attempt, once)
    assert [len(one.lengths) for one in heard] == [1, 2], "noise of a step is seen with one state of the records alone"
    kinds = [entry.kind for entry in Ledger(plan.loaded.ledger_url).history(release_id=plan.release_id)]
    assert kinds == ["RESERVED", "COMMITTED"]
