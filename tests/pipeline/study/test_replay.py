"""The replay of a config: what is right is not refuted, and each mistake that is made on purpose is."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.audit.mutants import unclipped_quantiser
from blockveil.engine.noise.discrete_gaussian import Grid, NoiseKey
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.study.replay import replay
from tests.house.support import write_config
from tests.pipeline.kinds.gradients import test_training as training
from tests.pipeline.questions import test_queries as queries

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted(
    path.stem
    for path in (ROOT / "configs").glob("*.toml")
    if "[release]" in path.read_text() and path.stem != "growing"
)
DRAWN = {"directions"}
"""Configs whose release is not an answer with noise."""

DAY = date(2026, 11, 24)


def planned(path, day=DAY):
    return make_plan(load_config(path), day)


def replayed(plan):
    return replay(plan, ThreadCompute(2), lambda stage, share: None)


def changed(path, **words):
    """A config of a test with some of its text replaced."""
    text = path.read_text()
    for old, new in words.values():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def with_design(plan, design):
    return replace(plan, designed=replace(plan.designed, answer=plan.question.answer(design)))


def with_query(plan, query):
    question = replace(plan.question, query=query)
    return replace(plan, designed=replace(plan.designed, answer=question.answer(plan.design)))


@pytest.fixture
def people(tmp_path):
    return planned(write_config(tmp_path, kind="covariance"))


@pytest.mark.parametrize("name", SHIPPED)
def test_no_claim_of_a_shipped_config_is_refuted_and_its_charge_is_attained(name, monkeypatch):
    for variable in ("BLOCKVEIL_TLS_CA_FILE", "BLOCKVEIL_TLS_CERT_FILE", "BLOCKVEIL_TLS_KEY_FILE"):
        monkeypatch.setenv(variable, "/dev/null")
    found = replayed(planned(ROOT / "configs" / f"{name}.toml"))
    assert found.refutations == []
    assert found.share > 0.99
    assert len(found.not_tested) == (name in DRAWN)  # what is drawn is compared by statistics


@pytest.mark.slow
def test_nights_in_one_charge_spend_together_what_is_charged(tmp_path):
    text = (ROOT / "configs" / "growing.toml").read_text().replace("nights = 365", "nights = 21")
    (tmp_path / "growing.toml").write_text(text)
    plan = planned(tmp_path / "growing.toml", date(2026, 11, 1))
    found = replayed(plan)
    assert found.refutations == []
    assert found.share > 0.99
    one_night = replace(plan.charge, mu=plan.charge.mu / 2.0)
    assert "moves the release" in replayed(replace(plan, charge=one_night)).refutations[0]


@pytest.mark.slow
def test_no_claim_of_a_year_of_nights_is_refuted():
    found = replayed(planned(ROOT / "configs" / "growing.toml", date(2026, 11, 1)))
    assert found.refutations == []
    assert found.share > 0.99


def test_a_charge_for_one_of_three_rows_is_refuted(tmp_path):
    path = changed(
        write_config(tmp_path), unit=('unit = "one person (one row)"', 'unit = "one person"\nrows_per_unit = 3')
    )
    plan = planned(path)
    assert replayed(plan).refutations == []
    of_a_row = replace(plan.charge, mu=plan.charge.mu / 3.0)
    assert replayed(replace(plan, charge=of_a_row)).share == pytest.approx(3.0, rel=0.01)


def test_noise_of_half_the_size_is_refuted(people):
    found = replayed(with_design(people, replace(people.design, scale=people.design.scale / 2.0)))
    assert found.share == pytest.approx(2.0, rel=0.01)
    assert found.refutations


def k_norm(folder, query):
    path = queries.config(folder, queries.ROWS).path if query == "rows" else training.config(folder, training.LOGISTIC)
    text = path.read_text()
    start, end = text.index("[mechanism]"), text.index("[compute]")
    path.write_text(text[:start] + '[mechanism]\nkind = "k-norm"\n\n' + text[end:])
    return planned(path)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["rows", "gradients"])
def test_k_norm_noise_keeps_its_charge_and_half_of_it_is_refuted(query, tmp_path):
    plan = k_norm(tmp_path, query)
    found = replayed(plan)
    assert not found.refutations
    assert found.share == pytest.approx(1.0, abs=0.02)
    assert found.spread == pytest.approx(1.0, abs=0.2)
    half = replayed(with_design(plan, replace(plan.design, scale=plan.design.scale / 2.0)))
    assert half.share == pytest.approx(2.0, rel=0.03)
    assert half.refutations


FOLLOWING = 'kind = "shaped-diagonal"\noptimise_for = "absolute-error"'


@pytest.mark.parametrize(
    ("neighbours", "kind", "mechanism"),
    [
        ("add-remove", "second-moment", 'kind = "box-diagonal"'),
        ("replace-one", "second-moment", 'kind = "box-diagonal"'),
        pytest.param("add-remove", "second-moment", FOLLOWING, marks=pytest.mark.slow),
        pytest.param("replace-one", "second-moment", FOLLOWING, marks=pytest.mark.slow),
        pytest.param("add-remove", "covariance", FOLLOWING, marks=pytest.mark.slow),
        pytest.param("replace-one", "covariance", FOLLOWING, marks=pytest.mark.slow),
        pytest.param("add-remove", "covariance", FOLLOWING.replace("shaped", "joint"), marks=pytest.mark.slow),
    ],
)
def test_noise_with_a_diagonal_of_its_own_keeps_its_charge_and_half_of_it_is_refuted(
    neighbours, kind, mechanism, tmp_path
):
    path = write_config(tmp_path, kind=kind, neighbours=neighbours)
    text = path.read_text()
    start, end = text.index("[mechanism]"), text.index("[compute]")
    path.write_text(f"{text[:start]}[mechanism]\n{mechanism}\n\n{text[end:]}")
    plan = planned(path)
    assert (plan.design.spread.diagonal.shared > 0) == (neighbours == "add-remove")
    found = replayed(plan)
    assert not found.refutations
    # Of three features and a count whose weights no signs split evenly, under replace-one.
    assert found.share == pytest.approx(1.0, abs=0.03)
    assert found.spread == pytest.approx(1.0, abs=0.1)
    half = replayed(with_design(plan, replace(plan.design, scale=plan.design.scale / 2.0)))
    assert half.share == pytest.approx(2.0, rel=0.03)
    assert half.refutations


def test_a_missing_clip_is_refuted(people):
    query = people.question.query
    found = replayed(with_query(people, replace(query, quantiser=unclipped_quantiser(query.quantiser, 3))))
    assert found.share > 2.0
    assert "moves the release" in found.refutations[0]


def test_a_sampler_that_draws_less_noise_than_its_law_is_refuted(people):
    class Narrow(Grid):
        def draw(self, key, rows, columns, symmetric):
            return (super().draw(key, rows, columns, symmetric) * 0.95).astype(np.int64)

    narrow = Narrow(people.design.grid.levels)
    found = replayed(with_design(people, replace(people.design, grid=narrow)))
    assert found.spread == pytest.approx(0.95, rel=0.03)
    assert any("standard deviation of its law" in claim for claim in found.refutations)


@pytest.mark.parametrize("of", ["which key is drawn with", "how often is drawn"])
def test_noise_that_depends_on_the_records_is_refuted(people, monkeypatch, of):
    honest, other = type(people.design).release, NoiseKey(bytes(32))

    def depending(self, key, exact, block=None):
        odd = int(exact.flat[0]) % 2 == 1
        released = honest(self, other if odd and of.startswith("which") else key, exact, block)
        return released + self.noise(other, *block) if odd and of.startswith("how") else released

    assert replay(people, ThreadCompute(2), lambda *_: None, draws=False).refutations == []
    monkeypatch.setattr(type(people.design), "release", depending)
    found = replay(people, ThreadCompute(2), lambda *_: None, draws=False)
    assert found.spread is None
    assert "moves the release" in found.refutations[0]


def test_the_same_noise_in_two_rows_is_refuted(tmp_path):
    names = "\n".join(f'  {{ name = "x{i}", lower = -1, upper = 1 }},' for i in range(9))
    path = write_config(tmp_path)
    first, rest = path.read_text().split("features = [\n")
    path.write_text(f"{first}features = [\n{names}\n]\n" + rest.split("]\n", 1)[1])
    plan = planned(path)

    class Repeated(Grid):
        def draw(self, key, rows, columns, symmetric):
            noise = super().draw(key, rows, columns, symmetric)
            noise[1] = noise[0]
            return noise

    assert not replayed(plan).repeats
    found = replayed(with_design(plan, replace(plan.design, grid=Repeated(plan.design.grid.levels))))
    assert "two rows of the noise are the same" in found.refutations


def test_the_number_of_records_in_what_is_published_is_refuted(people, monkeypatch):
    honest = type(people.answer).arrays

    def telling(self, released, rows):
        return {**honest(self, released, rows), "rows": (np.array([rows]), ("one",))}

    assert replayed(people).counted is False
    monkeypatch.setattr(type(people.answer), "arrays", telling)
    assert any("number of records" in claim for claim in replayed(people).refutations)


def test_a_sensitivity_of_corners_alone_is_refuted_where_a_record_can_be_replaced(tmp_path):
    path = changed(
        write_config(tmp_path, kind="second-moment", neighbours="replace-one"),
        origin=('origin = "midpoint"', 'origin = "zero"'),
        age=('"age", lower = 0, upper = 120', '"age", lower = -1, upper = 2'),
        income=('  { name = "income", lower = 0, upper = 1_000_000 },\n', ""),
        debt=('  { name = "debt", lower = -500_000, upper = 500_000 },\n', ""),
    )
    plan = planned(path)
    assert replayed(plan).refutations == []
    # Corners are 2^2 - 1^2 = 3 apart, and the origin is 4 from the furthest one.
    of_corners = replace(plan.charge, mu=plan.charge.mu * 3.0 / 4.0)
    assert replayed(replace(plan, charge=of_corners)).refutations


def test_the_command_says_what_it_found_and_reads_no_records(tmp_path):
    done = CliRunner().invoke(app, ["audit", str(write_config(tmp_path))])
    assert done.exit_code == 0
    assert "of what is charged for a unit" in done.output
    assert "no claim is refuted" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.toml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gaussian", "--epsilon", "1"], "--epsilon or --delta is missing"),
        (["people.toml", "--epsilon", "1"], "is given with a config"),
        (["nowhere.toml"], "there is no such file"),
    ],
)
def test_a_call_that_cannot_be_answered_is_refused(words, said, tmp_path, monkeypatch):
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        CliRunner().invoke(app, ["audit", *words], catch_exceptions=False)


TRAINED = """
release = { dataset = "c", name = "model" }
data = { store = "c.zarr" }
privacy = { epsilon = 1.0, delta = 1e-5, neighbours = "add-remove", unit = "one" }
mechanism = { kind = "gaussian" }
output = { root = "r", ledger = "l.db", keys = "k" }
[query]
kind = "gradients"
rows_at_most = 50_000
missing = "refuse"
clipping_norm = 2.0
[query.geometry]
kind = "box"
origin = "zero"
features = [ { name = "f", lower = 0, upper = 1, count = 2 } ]
[query.model]
loss = "logistic"
target = { name = "y", classes = 2 }
[query.training]
%s
steps = 6
examples = 24_000
optimiser = "sgd"
learning_rate = 2.0
schedule = "constant"
"""


POISSON, FIXED = (
    'batches = "poisson"\nsampling_probability = 0.05',
    'batches = "fixed"\nbatch_count = 4\nbatch_seed = "a"',
)


@pytest.mark.parametrize(("batches", "least"), [(POISSON, 0.3), ('batches = "full"', 0.7)])
def test_training_is_replayed_over_samples_and_at_weights_that_give_large_gradients(tmp_path, batches, least):
    """A clip that shortens no gradient at weights of zero made it look wasteful."""
    (tmp_path / "train.toml").write_text(TRAINED % batches)
    plan = planned(tmp_path / "train.toml")
    found = replay(plan, ThreadCompute(1), lambda stage, share: None, draws=False)
    assert found.refutations == []
    assert found.not_tested == ()
    assert found.share > least
    half = with_design(plan, replace(plan.design, scale=plan.design.scale / 2.0))
    assert replay(half, ThreadCompute(1), lambda stage, share: None, draws=False).refutations


def long_training(folder, batches, steps):
    (folder / "train.toml").write_text((TRAINED % batches).replace("steps = 6", f"steps = {steps}"))
    return planned(folder / "train.toml")


@pytest.mark.parametrize("batches", [POISSON, pytest.param('batches = "full"', marks=pytest.mark.slow)])
def test_a_long_training_takes_few_sums_a_step_and_half_of_its_noise_is_refuted(tmp_path, batches, monkeypatch):
    plan, sums, honest = long_training(tmp_path, batches, 30), [], GradientsAtStep.total

    def counted(self, *arguments):
        sums.append(self.first_row)
        return honest(self, *arguments)

    monkeypatch.setattr(GradientsAtStep, "total", counted)
    found = replay(plan, ThreadCompute(1), lambda stage, share: None, draws=False)
    assert found.refutations == []
    assert found.pairs > 90
    assert set(sums) == set(range(30))
    # From two weights: each unit through the first steps, few through all; and one more release.
    assert len(sums) < (found.pairs + 2) * 8 + 12 * 30
    half = with_design(plan, replace(plan.design, scale=plan.design.scale / 2.0))
    refuted = replay(half, ThreadCompute(1), lambda stage, share: None, draws=False)
    assert refuted.share > 1.9 * found.share
    assert refuted.refutations


@pytest.mark.parametrize("batches", [POISSON, pytest.param(FIXED, marks=pytest.mark.slow)])
def test_a_mistake_in_the_last_steps_of_a_long_training_is_refuted(tmp_path, batches, monkeypatch):
    plan, honest = long_training(tmp_path, batches, 12), GradientsAtStep.total

    def once_more(self, *arguments):
        return honest(self, *arguments) * (4 if self.first_row >= 9 else 1)

    assert replay(plan, ThreadCompute(1), lambda stage, share: None, draws=False).refutations == []
    monkeypatch.setattr(GradientsAtStep, "total", once_more)
    assert replay(plan, ThreadCompute(1), lambda stage, share: None, draws=False).refutations
