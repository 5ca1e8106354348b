"""What an earlier version began is finished with its own noise, where this version proves that less is enough."""

import shutil
from contextlib import contextmanager
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.engine.answers import work
from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.pipeline.base.errors import ReleaseConflict, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import editions
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import Workspace, run_release
from tests import support
from tests.pipeline.questions import test_queries as queries

NIGHT, NEXT = date(2026, 11, 1), date(2026, 11, 2)
SERIES = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"
SHAPED = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
AUTO = 'kind = "auto"\nminimise = "total"'


def prepare(folder, section="", mechanism=SHAPED, kind="second-moment", neighbours="replace-one"):
    """A box whose bounds are not even about the origin."""
    support.write_records(folder, support.records(100))
    path = support.write_config(folder, kind=kind, neighbours=neighbours)
    text = path.read_text().replace('origin = "midpoint"', 'origin = "zero"').replace(SHAPED, mechanism)
    path.write_text(text.replace("lower = -500_000", "lower = -100_000") + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def prepare_wide(folder, section="", kind="covariance", features=12):
    """Enough features for eigenvalues to be shrunk, with even noise."""
    support.write_records(folder, np.random.default_rng(5).uniform(0.0, 1.0, (100, features)))
    path = support.write_config(folder, kind=kind)
    text = path.read_text()
    start, end = text.index("features = ["), text.index("[privacy]")
    wide = f'features = [ {{ name = "x", lower = 0, upper = 1, count = {features} }} ]\n\n'
    path.write_text(text[:start] + wide + text[end:] + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(1), "test", lambda *a: None)


@contextmanager
def before():
    """As versions before the first edition planned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.plan.resolving.by_edition",
            lambda question, mechanism, _: editions.by_edition(question, mechanism, 0),
        )
        yield


@contextmanager
def killed_after_its_commit():
    def dies(*_):
        raise StoreError("a", "b", "c")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.charged_steps.noisy_graph", dies)
        with pytest.raises(StoreError):
            yield


def bits(outcome):
    group = zarr.open_group(outcome.path, mode="r")
    return {name: array[...].tobytes() for name, array in sorted(group.arrays()) if name != "feature"}


def reserved(loaded):
    return [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]


@pytest.mark.parametrize("mechanism", [SHAPED, AUTO, 'kind = "laplace"\noptimise_for = "relative-error"'])
@pytest.mark.parametrize("kind", ["second-moment", "covariance"])
def test_the_newest_edition_has_less_noise_and_the_earlier_one_that_of_before(tmp_path, kind, mechanism):
    loaded = prepare(tmp_path, mechanism=mechanism, kind=kind)
    with before():
        then = make_plan(loaded, NIGHT)
    assert make_plan(loaded, NIGHT, edition=0).digest == then.digest
    now = make_plan(loaded, NIGHT)
    assert now.design.scale < 0.99 * then.design.scale
    assert now.digest != then.digest
    assert now.charge == then.charge


def test_where_records_are_added_or_removed_nothing_is_new(tmp_path):
    loaded = prepare(tmp_path, neighbours="add-remove")
    plan = make_plan(loaded, NIGHT)
    assert plan.digest == make_plan(loaded, NIGHT, edition=0).digest


@pytest.mark.parametrize("mechanism", [SHAPED, AUTO])
def test_a_release_that_was_committed_before_is_finished_with_its_own_noise_at_no_further_charge(tmp_path, mechanism):
    (tmp_path / "now").mkdir()
    loaded = prepare(tmp_path / "now", mechanism=mechanism)
    with before(), killed_after_its_commit():
        run(loaded)
    (entry,), spent = reserved(loaded), Ledger(loaded.ledger_url).budget("people").spent
    shutil.copytree(tmp_path / "now", tmp_path / "before", copy_function=shutil.copy2)
    with before():
        expected = run(load_config(tmp_path / "before" / "people.toml"))
    outcome = run(loaded)
    assert bits(outcome) == bits(expected)
    assert "same noise" in outcome.resumed
    assert outcome.charge_id == entry.charge_id
    assert Ledger(loaded.ledger_url).budget("people").spent == spent
    assert len(reserved(loaded)) == 1
    assert run(loaded).resumed.startswith("this release is complete")


def test_its_plan_is_that_of_the_version_that_began_it_and_the_next_one_is_new(tmp_path):
    loaded = prepare(tmp_path)
    with before(), killed_after_its_commit():
        run(loaded)
    with before():
        begun = make_plan(loaded, NIGHT)
    plan = Workspace.open(make_plan(loaded, NIGHT)).plan
    assert plan.digest == begun.digest
    assert plan.design.facts() == begun.design.facts()
    assert Workspace.open(make_plan(loaded, NEXT)).plan.digest == make_plan(loaded, NEXT).digest


def test_a_series_that_was_begun_before_goes_on_with_its_noise_under_its_charge(tmp_path):
    loaded = prepare(tmp_path, SERIES)
    with before():
        run(loaded)
        second = as_begun(make_plan(loaded, NEXT), Ledger(loaded.ledger_url))
    spent = Ledger(loaded.ledger_url).budget("people").spent
    assert make_plan(loaded, NEXT).series.digest != second.series.digest
    assert Workspace.open(make_plan(loaded, NEXT)).plan.digest == second.digest
    run(loaded, NEXT)
    assert Ledger(loaded.ledger_url).budget("people").spent == spent
    last = reserved(loaded)[-1].payload["spec"]["calibration"]
    assert last["scale"] == second.design.scale


def test_another_config_under_what_was_begun_is_refused_as_ever(tmp_path):
    loaded = prepare(tmp_path)
    with before(), killed_after_its_commit():
        run(loaded)
    path = tmp_path / "people.toml"
    path.write_text(path.read_text().replace("lower = -100_000", "lower = -200_000"))
    with pytest.raises(ReleaseConflict):
        run(load_config(path))
    assert len(reserved(loaded)) == 1


@pytest.mark.parametrize(("then", "now"), [("", SERIES), (SERIES, "")])
def test_a_release_that_was_begun_alone_is_no_night_of_a_series_and_the_other_way_round(tmp_path, then, now):
    loaded = prepare(tmp_path, then)
    with killed_after_its_commit():
        run(loaded)
    path = tmp_path / "people.toml"
    path.write_text(path.read_text().removesuffix(then) + now)
    with pytest.raises(ReleaseConflict):
        run(load_config(path))
    assert len(reserved(loaded)) == 1


def test_a_charge_that_was_given_back_leaves_the_newest_edition(tmp_path):
    loaded = prepare(tmp_path)

    def dies(*_):
        raise StoreError("a", "b", "c")

    with before(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.charged_steps.exact_graph", dies)
        with pytest.raises(StoreError):
            run(loaded)
    assert Workspace.open(make_plan(loaded, NIGHT)).plan.digest == make_plan(loaded, NIGHT).digest


def is_nearest(outcome, name="covariance"):
    """Whether the positive semi-definite version is the released matrix with eigenvalues cut at zero."""
    group = zarr.open_group(outcome.path, mode="r")
    nearest = nearest_psd(group[name][...])[0]
    return np.allclose(group[f"{name}_psd"][...], nearest, rtol=0.0, atol=1e-9 * np.abs(nearest).max())


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_eigenvalues_are_shrunk_from_ten_features_on_and_the_plan_says_so(tmp_path, kind):
    loaded = prepare_wide(tmp_path, kind=kind)
    plan = make_plan(loaded, NIGHT)
    assert "shrunk" in plan.public["calibration"]["psd"]
    assert plan.digest != make_plan(loaded, NIGHT, edition=1).digest
    assert make_plan(loaded, NIGHT, edition=1).digest == make_plan(loaded, NIGHT, edition=0).digest
    assert "psd" not in make_plan(loaded, NIGHT, edition=1).public["calibration"]
    assert make_plan(loaded, NIGHT, edition=1).design.facts() == plan.design.facts(), "the noise is as it was"
    outcome, name = run(loaded), plan.answer.matrix
    assert not is_nearest(outcome, name)
    assert np.linalg.eigvalsh(zarr.open_group(outcome.path, mode="r")[f"{name}_psd"][...]).min() >= -1e-9


def test_with_fewer_features_nothing_is_new(tmp_path):
    plan = make_plan(prepare_wide(tmp_path, features=9), NIGHT)
    assert "psd" not in plan.public["calibration"]
    assert plan.digest == make_plan(plan.loaded, NIGHT, edition=0).digest


@pytest.mark.parametrize("section", ["", SERIES])
def test_what_was_begun_with_eigenvalues_cut_at_zero_is_finished_so(tmp_path, section):
    loaded = prepare_wide(tmp_path, section)
    with before(), killed_after_its_commit():
        run(loaded)
    outcome = run(loaded)
    assert "same noise" in outcome.resumed
    assert is_nearest(outcome)
    assert len(reserved(loaded)) == 1
    following = run(loaded, NEXT)
    assert is_nearest(following) == bool(section), "later nights of its series are made alike, others are new"


def test_a_matrix_too_large_to_be_put_together_has_no_such_version_and_its_plan_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "_WHOLE_ENTRIES", 100)
    plan = make_plan(prepare_wide(tmp_path), NIGHT)
    assert plan.answer.work(10).blocked
    assert "psd" not in plan.public["calibration"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("kind", "taken"), [("second-moment", "box-diagonal"), ("covariance", "shaped-diagonal")])
def test_a_moment_that_auto_began_with_other_noise_is_finished_with_it(tmp_path, neighbours, kind, taken):
    support.write_records(tmp_path, np.random.default_rng(5).uniform(0.0, 1.0, (100, 6)))
    path = support.write_config(tmp_path, kind=kind, neighbours=neighbours)
    text = path.read_text().replace(SHAPED, AUTO)
    start, end = text.index("features = ["), text.index("[privacy]")
    path.write_text(text[:start] + 'features = [ { name = "x", lower = 0, upper = 1, count = 6 } ]\n\n' + text[end:])
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    plan = make_plan(loaded, NIGHT)
    taken = "joint-diagonal" if (kind, neighbours) == ("covariance", "add-remove") else taken
    assert plan.mechanism.name == taken
    with before():
        then = make_plan(loaded, NIGHT)
    assert taken not in {row.mechanism for row in then.compared}
    earlier = 3 if kind == "second-moment" else 4
    assert make_plan(loaded, NIGHT, edition=earlier).mechanism.name == then.mechanism.name
    if taken == "joint-diagonal":
        assert make_plan(loaded, NIGHT, edition=5).mechanism.name == "shaped-diagonal"
    with before(), killed_after_its_commit():
        run(loaded)
    outcome = run(loaded)
    assert "same noise" in outcome.resumed
    assert len(reserved(loaded)) == 1
    assert "diagonal" not in zarr.open_group(outcome.path, mode="r").attrs["mechanism"]
    following = zarr.open_group(run(loaded, NEXT).path, mode="r").attrs["mechanism"]
    assert (following["diagonal"]["shared"] > 0) == (neighbours == "add-remove")


def test_rows_that_auto_began_with_other_noise_are_finished_with_it_and_new_ones_have_k_norm_noise(tmp_path):
    loaded = queries.prepare(tmp_path, queries.ROWS, queries.records(queries.ROWS), mechanism=AUTO)
    plan = make_plan(loaded, NIGHT)
    assert plan.mechanism.name == "k-norm"
    with before():
        then = make_plan(loaded, NIGHT)
    assert then.mechanism.name == "laplace"
    assert "k-norm" not in {row.mechanism for row in then.compared}
    assert make_plan(loaded, NIGHT, edition=2).mechanism.name == "laplace"
    with before(), killed_after_its_commit():
        run(loaded)
    outcome = run(loaded)
    assert "same noise" in outcome.resumed
    assert len(reserved(loaded)) == 1
    released = zarr.open_group(outcome.path, mode="r")
    assert released.attrs["mechanism"]["grid"].startswith("discrete Laplace")
    following = zarr.open_group(run(loaded, NEXT).path, mode="r")
    assert following.attrs["mechanism"]["grid"].startswith("K-norm")


def test_histograms_that_auto_began_with_independent_noise_are_finished_with_it(tmp_path):
    """Also their comparison, in which places without a bin counted."""
    edges = ", ".join(f'{{ name = "x{k}", edges = {list(range(4 + k % 2))} }}' for k in range(30))
    query = f'kind = "column-histograms"\nrows_at_most = 500\nmissing = "drop"\nfeatures = [ {edges} ]\n'
    support.write_records(tmp_path, np.random.default_rng(5).uniform(-1.0, 5.0, (100, 30)))
    loaded = queries.config(tmp_path, query, mechanism=AUTO, neighbours="add-remove")
    support.set_budget(loaded, 150.0)
    plan = make_plan(loaded, NIGHT)
    assert plan.mechanism.name == "histogram-residuals"
    with before():
        then = make_plan(loaded, NIGHT)
    assert then.mechanism.name == "shaped-gaussian"
    assert make_plan(loaded, NIGHT, edition=6).digest == then.digest
    assert "histogram-residuals" not in {row.mechanism for row in then.compared}
    for made, places in ((then, 30 * 6), (plan, 15 * 5 + 15 * 6)):
        (error,) = {row.error for row in made.compared if row.mechanism == "gaussian"}
        assert error == pytest.approx(places * then.design.entry_standard_deviation()[0, 0] ** 2, rel=1e-3)
    with before(), killed_after_its_commit():
        run(loaded)
    outcome = run(loaded)
    assert "same noise" in outcome.resumed
    assert "strategy" not in zarr.open_group(outcome.path, mode="r").attrs["mechanism"]
    following = zarr.open_group(run(loaded, NEXT).path, mode="r").attrs["mechanism"]
    assert following["strategy"]["kind"] == "residuals of histograms, version 1"
