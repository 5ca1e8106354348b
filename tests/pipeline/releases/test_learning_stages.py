"""A night that learns its shape: three stages under one charge, the same bits wherever it is finished, nothing told."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import zarr

import blockveil as bv
from blockveil.engine.answers.work import GrowthKind
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.config import LocalCluster, load_config
from blockveil.pipeline.data.datasets import Records
from blockveil.pipeline.kinds.spread.learning_night import OF_PILOTS, OF_RINGS
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases import measurement, night
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.stopping import Stopped, StoppingCompute
from tests.pipeline.releases.test_release import NIGHT, bits, charges, no_trace, quiet, run, spent

ROWS = 6_000
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.5, 0.7]])
DRAWN = np.random.default_rng(2).normal(size=(ROWS, 3)) @ MIX.T
VALUES = np.array([45.0, 60_000.0, 8_000.0]) + DRAWN * [4.0, 9_000.0, 11_000.0]


EPSILON = 5.0


def learning(folder, aim="correlation", values=VALUES, **more):
    loaded = support.prepare(folder, values=values, budget=60.0, **{"epsilon": EPSILON, **more})
    text = loaded.path.read_text().replace('origin = "midpoint"', f'origin = "midpoint"\nlearn = "{aim}"')
    if aim == "mean":
        text = text.replace('kind = "covariance"', 'kind = "totals"')
    loaded.path.write_text(text)
    return load_config(loaded.path)


def attributes(outcome):
    return zarr.open_group(outcome.path, mode="r").attrs.asdict()


def correlations(outcome):
    matrix = zarr.open_group(outcome.path, mode="r")["covariance"][...]
    with np.errstate(invalid="ignore"):
        return matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))


@pytest.mark.parametrize("aim", ["correlation", "covariance"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_night_that_learns_is_charged_once_for_less_error_and_verifies(tmp_path, aim, neighbours):
    loaded = learning(tmp_path, aim, neighbours=neighbours)
    outcome = run(loaded)
    assert len(charges(loaded)) == 1
    assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6), rel=1e-6)
    learned = attributes(outcome)["learned"]
    assert learned["domain"] == "ellipsoid"
    assert np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T))) < 0.15
    loaded.path.write_text(loaded.path.read_text().replace(f'learn = "{aim}"\n', "").replace("covariance", "boxed", 1))
    boxed = run(load_config(loaded.path))
    error = np.abs(np.nan_to_num(correlations(boxed), nan=1.0) - np.corrcoef(VALUES.T))
    assert np.max(error) > 3 * np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T)))
    found = {finding.what: finding for finding in verify(outcome.path).findings}
    assert all(finding.holds is not False for finding in found.values()), found
    assert found["Stages"].holds
    assert found["Arrays"].holds
    no_trace(loaded)


def test_standard_errors_hold_what_shortening_takes_beside_the_noise(tmp_path):
    rng = np.random.default_rng(5)
    values = np.array([45.0, 60_000.0, 8_000.0]) + (rng.standard_t(3, (ROWS, 3)) @ MIX.T) * [3.0, 8_000.0, 9_000.0]
    loaded, scores, shortened = learning(tmp_path, values=values), [], []
    bounds = np.array([[0, 0, -500_000], [120, 1_000_000, 500_000]])
    truth = np.cov(np.clip(values, *bounds).T, bias=True)
    for day in range(20, 26):
        group = zarr.open_group(run(loaded, NIGHT.replace(day=day)).path, mode="r")
        error = (group["covariance"][...] - truth) / group["covariance_standard_deviation"][...]
        scores.append(error[np.triu_indices(3)])
        shortened.append(group.attrs["learned"]["clipped_share"])
    assert np.mean(shortened) > 0
    assert np.sqrt(np.mean(np.square(scores))) < 1.6


def test_correlations_are_no_further_off_than_noise_takes_them_though_records_far_out_were_shortened(tmp_path):
    rng = np.random.default_rng(6)
    tails = np.sqrt(rng.chisquare(3, (ROWS, 1)) / 3.0)
    values = np.array([45.0, 60_000.0, 8_000.0]) + (DRAWN / tails) * [1.5, 5_000.0, 4_000.0]
    loaded, errors, scores = learning(tmp_path, values=values, epsilon=3.0), [], []
    bounds, pairs = np.array([[0, 0, -500_000], [120, 1_000_000, 500_000]]), np.triu_indices(3, 1)
    truth = np.corrcoef(np.clip(values, *bounds).T)
    for day in range(20, 26):
        outcome = run(loaded, NIGHT.replace(day=day))
        group = zarr.open_group(outcome.path, mode="r")
        assert np.all(group["clipped_variance"][...] > 0.1 * np.diagonal(group["covariance"][...]))
        release = bv.open(outcome.path)
        error = (np.asarray(release.correlation) - truth)[pairs]
        raw = (correlations(outcome) - truth)[pairs]
        errors.append([np.mean(error**2), np.mean(raw**2)])
        scores.append(error / np.asarray(release.standard_error.correlation)[pairs])
    ours, of_ratio = np.mean(errors, axis=0)
    assert ours < 1.3 * of_ratio
    assert 0.01 < np.mean(np.square(scores)) < 1.5  # so wide bounds hide whether a quarter lies far out


def test_what_stands_out_is_judged_by_what_shortening_takes_of_features_that_are_not_related(tmp_path):
    rng = np.random.default_rng(7)
    drawn = rng.standard_t(3, (ROWS, 3))
    drawn[:, 1] = drawn[:, 0] + 0.3 * drawn[:, 1]
    values = np.array([45.0, 60_000.0, 8_000.0]) + drawn * [3.0, 8_000.0, 9_000.0]
    loaded, away = learning(tmp_path, values=values), []
    for day in range(20, 24):
        facts = Facts(bv.open(run(loaded, NIGHT.replace(day=day)).path).opened)
        matrix, error = (facts.matrix.array(name) for name in ("covariance", "covariance_standard_deviation"))
        stands = facts.scan.alone.stands(0, 0, matrix, error)
        assert np.all(np.diagonal(stands))
        assert stands[0, 1]
        away += [stands[0, 2], stands[1, 2]]
    assert not any(away)


def test_records_that_fill_their_bounds_stay_in_the_box(tmp_path):
    values = np.random.default_rng(3).uniform([0, 0, -500_000], [120, 1_000_000, 500_000], (9_000, 3))
    loaded = learning(tmp_path, "covariance", values, epsilon=8.0)
    outcome = run(loaded)
    stated = attributes(outcome)
    assert stated["learned"]["domain"] == "box"
    assert stated["query"]["geometry"]["kind"] == "box"
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)


class TestKilledAtAnyStage:
    """Whatever ends an attempt, the next has the same bits for the same charge; before the pilot it costs nothing."""

    @pytest.fixture
    def whole(self, tmp_path, monkeypatch, aim):
        monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
        folder = tmp_path / "whole"
        folder.mkdir()
        return bits(run(learning(folder, aim)))

    @pytest.mark.parametrize("aim", ["correlation", "mean"])
    @pytest.mark.parametrize("stop", range(1, 9))
    def test_the_night_is_finished_with_the_bits_of_one_that_nothing_ended(self, tmp_path, whole, stop, aim):
        folder = tmp_path / "killed"
        folder.mkdir()
        loaded = learning(folder, aim)

        with pytest.raises(Stopped):
            run(loaded, compute=StoppingCompute(stop))
        after = spent(loaded)
        assert (after == 0.0) == (stop == 1)
        outcome = run(loaded)
        assert bits(outcome) == whole
        assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6), rel=1e-6)
        assert len([each for each in Ledger(loaded.ledger_url).history() if each.kind == "COMMITTED"]) == 1
        assert KeyStore(loaded.keys_root).list() == []


def test_each_stage_has_noise_of_its_own_that_all_before_it_decides(tmp_path, monkeypatch):
    keys, drawn = [], NoiseKey.of_stage

    def of_stage(key, context):
        keys.append(context)
        return drawn(key, context)

    monkeypatch.setattr(NoiseKey, "of_stage", of_stage)
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    first, second = [], []
    for found, values in ((first, VALUES), (second, VALUES + np.array([0.0, 0.0, 1.0]))):
        folder = tmp_path / str(len(found) + (found is second))
        folder.mkdir(parents=True, exist_ok=True)
        run(learning(folder, values=values))
        found += keys
        keys.clear()
    assert len(set(first)) == 4
    assert first[0] == second[0]  # the pilot's is bound by the plan, which holds the records' fingerprint
    assert not set(first[1:]) & set(second[1:])


def test_no_stage_draws_from_the_key_of_another(tmp_path, monkeypatch):
    used = []
    release = NoiseDesign.release

    def kept(design, key, exact, block=None):
        used.append((design.shape, key))
        return release(design, key, exact, block)

    monkeypatch.setattr(NoiseDesign, "release", kept)
    run(learning(tmp_path))
    by_stage = {}
    for shape, key in used:
        by_stage.setdefault(shape, set()).add(id(key))
    assert sorted(by_stage) == [(1, 7), (1, 24), (4, 4)]
    assert len(set.union(*by_stage.values())) == 4


def test_missing_values_are_found_before_anything_is_committed(tmp_path):
    values = VALUES.copy()
    values[17, 1] = np.nan
    loaded = learning(tmp_path, values=values)
    with pytest.raises(DataError):
        run(loaded)
    assert spent(loaded) == 0.0
    no_trace(loaded)


def test_the_charge_is_fixed_before_the_records_are_seen(tmp_path):
    plan = make_plan(learning(tmp_path), NIGHT)
    stages = plan.designed.learning
    pilots, parts = 2 * [stages.pilot.loss.mu], [stages.rings.design.loss.mu, plan.design.loss.mu]
    assert sum(mu**2 for mu in pilots + parts) <= plan.charge.mu**2
    assert sum(mu**2 for mu in pilots) / plan.charge.mu**2 == pytest.approx(OF_PILOTS, rel=1e-3)
    assert parts[0] ** 2 / plan.charge.mu**2 == pytest.approx(OF_RINGS, rel=1e-3)
    assert stages.ellipsoid.loss.mu <= plan.design.loss.mu * (1 + 1e-9)
    assert plan.charge.delta(EPSILON) <= 1e-6
    for last in stages.extremes():
        assert plan.of_last_stage(last).digest == plan.digest
        assert plan.of_last_stage(last).charge == plan.charge
    said = dict(describe(plan, None))
    assert "7 % of mu squared" in said["Learns"]
    rows, machine = plan.config.query.rows_at_most, plan.effort.machine()
    stages = [Effort(plan.config, each, weighs=False) for each in stages.before]
    own = plan.effort.cut(machine, rows)
    assert plan.effort._seconds(own) == pytest.approx(
        own.seconds + sum(each.cut(machine, rows).seconds for each in stages)
    )


def test_a_unit_of_several_rows_is_charged_for_all_of_them_in_every_stage(tmp_path):
    loaded = learning(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("[mechanism]", "rows_per_unit = 3\n\n[mechanism]"))
    plan = make_plan(load_config(loaded.path), NIGHT)
    stages = plan.designed.learning
    row = sum(each.loss.mu**2 for each in (2 * [stages.pilot] + [stages.rings.design, stages.ellipsoid])) ** 0.5
    assert plan.charge.mu == pytest.approx(3 * row, rel=1e-9)
    assert plan.charge.mu <= gaussian_mu(EPSILON, 1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind = "covariance"', 'kind = "second-moment"'),
        ('kind = "shaped-gaussian"\noptimise_for = "relative-error"', 'kind = "gaussian"'),
        ('kind = "shaped-gaussian"\noptimise_for = "relative-error"', 'kind = "auto"\nminimise = "spectral"'),
        ('learn = "correlation"', 'learn = "correlation"\nnorm_at_most = 10.0'),
        ('learn = "correlation"', 'learn = "mean"'),
        ('kind = "covariance"', 'kind = "totals"'),
        ('kind = "covariance"', 'kind = "rows"'),
        ('"relative-error"', "{ age = 1.0, income = 1.0, debt = 2.0 }"),
        ("[compute]", "[continual]\nfirst = 2026-11-20\nnights = 3\n\n[compute]"),
    ],
)
def test_what_has_no_learned_ellipsoid_is_refused_by_name(tmp_path, old, new):
    loaded = learning(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match="learn"):
        load_config(loaded.path)


@pytest.mark.parametrize(("least", "aim"), [("relative", "relative-error"), ("total", "absolute-error")])
def test_auto_with_a_learned_shape_is_the_mechanism_that_has_one(tmp_path, least, aim):
    plans = []
    for new in (f'kind = "auto"\nminimise = "{least}"', f'kind = "shaped-gaussian"\noptimise_for = "{aim}"'):
        folder = tmp_path / new[8:12]
        folder.mkdir()
        loaded = learning(folder)
        old = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
        loaded.path.write_text(loaded.path.read_text().replace(old, new))
        plans.append(make_plan(load_config(loaded.path), NIGHT))
    auto, chosen = plans
    assert auto.mechanism == chosen.mechanism
    assert auto.design.facts() == chosen.design.facts()
    assert auto.charge == chosen.charge


def test_a_guarantee_without_room_for_three_stages_is_refused(tmp_path):
    loaded = learning(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("epsilon = 5.0", "epsilon = 1e-6"))
    with pytest.raises(ConfigError, match=r"larger|delta"):
        make_plan(load_config(loaded.path), NIGHT)


def test_every_cut_of_the_work_learns_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    found = []
    for blocks, threads in ((50, 1), (977, 2)):
        folder = tmp_path / str(blocks)
        folder.mkdir()
        loaded = learning(folder)
        loaded.path.write_text(loaded.path.read_text().replace("block_rows = 50", f"block_rows = {blocks}"))
        found.append(bits(run(load_config(loaded.path), compute=ThreadCompute(threads))))
    assert found[0] == found[1]


def test_records_are_read_once_where_memory_holds_them_and_for_each_stage_where_not(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    found, reads, read = [], [], Records.__getitem__

    def counted(records, key):
        reads.append((key.start, key.stop))
        return read(records, key)

    monkeypatch.setattr(Records, "__getitem__", counted)
    for times in (1, 4):
        folder = tmp_path / str(times)
        folder.mkdir()
        if times > 1:
            monkeypatch.setattr(Effort, "room", lambda *_: 0)
        found.append(bits(run(learning(folder))))
        assert {reads.count(each) for each in reads} == {times}
        reads.clear()
    assert found[0] == found[1]


def test_the_plan_counts_the_records_that_stay_in_memory(tmp_path):
    effort, memory = make_plan(learning(tmp_path), NIGHT).effort, 4 * 2**30
    rows = effort.config.query.rows_at_most
    assert effort.room(memory // 2) == 8 * 3 * rows
    assert effort.room(memory - 1000) == 1000
    assert effort.room(memory + 1) == 0
    held = effort.cut(effort.machine()).peak_bytes + 8 * 3 * rows
    assert f"at most {held / 2**20:,.0f} of 4,096 MiB" in dict(effort.lines())["Cost"]
    assert replace(effort, keeps=False).room(0) == 0
    elsewhere = effort.config.model_copy(update={"cluster": LocalCluster(kind="local", always_start_workers=True)})
    assert replace(effort, config=elsewhere).room(0) == 0


def test_nothing_of_the_records_is_told_while_it_learns(tmp_path):
    told = []
    run_release(make_plan(learning(tmp_path), NIGHT), ThreadCompute(1), "test", lambda *said: told.append(said))
    stages = [what for what, _ in told]
    assert stages.index("learning where records lie") < stages.index("committing the charge")
    assert stages.index("committing the charge") < stages.index("learning how far records spread")
    assert not any(character.isdigit() for what, _ in told for character in what)


def test_readers_find_the_shape_and_its_cost(tmp_path):
    outcome = run(learning(tmp_path))
    page = write_report(outcome.path)
    assert page
    written = json.loads(next(outcome.path.parent.glob("*.report.json")).read_text())
    assert "were shortened to it" in dict(written["in_words"])["Shape"]
    release = bv.open(outcome.path)
    assert not np.isnan(np.asarray(release.correlation)).any()
    assert "radius" in release.attributes["learned"]


@pytest.mark.parametrize("bound", [1e29, 1e-29])
def test_far_bounds_are_refused_or_released(tmp_path, bound):
    loaded = learning(tmp_path)
    text = loaded.path.read_text().replace("upper = 1_000_000", f"upper = {bound!r}")
    loaded.path.write_text(text)
    try:
        plan = make_plan(load_config(loaded.path), NIGHT)
    except ConfigError:
        return
    outcome = run_release(plan, ThreadCompute(1), "test", quiet)
    assert verify(outcome.path).findings[2].holds


def bound(name, *before):
    return measurement._stage_digest(name, before)


def test_a_stage_that_is_seen_with_other_integers_has_other_noise():
    released, other = np.array([[1, 2, 3]]), np.array([[1, 2, 4]])
    axes = np.array([0.5])
    assert bound("rings", released, axes) == bound("rings", released.copy(), axes)
    assert bound("rings", released, axes) != bound("rings", other, axes)
    assert bound("rings", released, axes) != bound("rings", released, axes * (1 + 1e-16 * 4))
    assert bound("rings", released, axes) != bound("answer", released, axes)


@pytest.mark.parametrize("kind", list(GrowthKind)[:3])
def test_a_stage_that_does_not_fit_what_runs_it_is_refused_before_anything_is_committed(tmp_path, monkeypatch, kind):
    loaded, cut = learning(tmp_path), Effort.cut

    def cut_there(effort, machine, rows=None):
        if rows is not None and effort.answer.work(rows).kind is kind:
            raise ConfigError("It", "does not fit", "here")
        return cut(effort, machine, rows)

    monkeypatch.setattr(Effort, "cut", cut_there)
    with pytest.raises(ConfigError, match="does not fit"):
        run(loaded)
    assert spent(loaded) == 0.0
    no_trace(loaded)


def test_a_stage_that_is_tried_again_by_its_own_attempt_has_the_same_key(tmp_path):
    lost = []

    class Losing(ThreadCompute):
        def stream(self, values, consume, progress):
            lost.append(1)
            if len(lost) == 2:
                raise StoreError("lost", "once", "again")
            super().stream(values, consume, progress)

    loaded = learning(tmp_path)
    plan = make_plan(loaded, NIGHT)
    with night.Attempt(plan, Ledger(plan.loaded.ledger_url), "test", lambda: nullcontext(Losing(1)), quiet) as attempt:
        attempt.reserve()
        with pytest.raises(StoreError, match="lost"):
            attempt.measure()
        attempt.measure()
        attempt.publish()
        attempt.seal()
    assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6), rel=1e-6)
    assert verify(attempt.outcome.path).findings[-2].holds
    no_trace(loaded)


def test_no_path_of_a_file_of_bounds_is_published(tmp_path):
    plan = make_plan(learning(tmp_path), NIGHT)
    shape = plan.config.query.geometry
    assert shape.model_copy(update={"bounds": "/home/somebody/bounds.toml"}).stated()["bounds"] == "file"
    assert shape.stated() == plan.stated["query"]["geometry"]
