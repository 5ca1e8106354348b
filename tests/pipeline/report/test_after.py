"""A release and its report show the error before and after post-processing, say which, and how it is known."""

from datetime import date

import numpy as np
import pytest

from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.kinds.moments import post_processing as of_moments
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import after, make_report
from tests.house import support
from tests.pipeline.plan import test_begun_plans
from tests.pipeline.public import test_noise_directions as directed
from tests.pipeline.questions import test_queries as queries

pytestmark = pytest.mark.usefixtures("pictures_in_words")
NIGHT = date(2026, 11, 20)


def released(folder, loaded):
    plan = make_plan(loaded, NIGHT)
    outcome = run_release(plan, ThreadCompute(2), "test", lambda *_: None)
    made = make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    return plan, read_release(outcome.path), made


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_a_release_with_shrunk_eigenvalues_says_so_and_how_large_its_error_may_be(tmp_path, kind):
    _, release, made = released(tmp_path, test_begun_plans.prepare_wide(tmp_path, kind=kind))
    error = release.attributes["error"]
    assert error["post_processing"] == of_moments.SHRUNK
    assert error["simulated"]["post_processed"]["frobenius"] < error["simulated"]["raw"]["frobenius"]
    page = made.path.read_text()
    assert "eigenvalues shrunk for the noise in them" in page
    if kind == "second-moment":
        assert error["post_processed_frobenius_norm_bound"] > error["simulated"]["post_processed"]["frobenius"]


@pytest.mark.slow
def test_the_bound_of_shrunk_eigenvalues_holds(tmp_path):
    loaded = test_begun_plans.prepare_wide(tmp_path, kind="second-moment")
    plan = make_plan(loaded, NIGHT)
    design, coordinates, d = plan.design, plan.question.query.quantiser.coordinates, 12
    rng, steps = np.random.default_rng(4), plan.design.steps((0, 12), (0, 12))
    inside = 0
    for strength in (0.0, 30.0, 300.0):
        truth = strength * np.diag(np.arange(d) < 3)
        for _ in range(50):
            noise = rng.standard_normal((d, d)) * design.entry_standard_deviation()
            noisy = truth + np.triu(noise) + np.triu(noise, 1).T
            integers = np.rint(noisy * design.shifted_unit / steps).astype(np.int64)
            arrays = plan.answer.arrays(integers, 400)
            bound = of_moments.post_processing(plan.answer, arrays)["post_processed_frobenius_norm_bound"]
            off = arrays["second_moment_psd"][0] / np.outer(coordinates.scale, coordinates.scale) - truth
            inside += np.linalg.norm(off) * coordinates.scale[0] ** 2 <= bound
    assert inside >= 150 * (0.95 - 6 * np.sqrt(0.05 * 0.95 / 150))


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_symmetric_release_tells_its_error_before_and_after(tmp_path, kind, relation):
    loaded = support.prepare(tmp_path, kind=kind, epsilon=8.0, budget=20.0, neighbours=relation)
    plan, release, made = released(tmp_path, loaded)
    error, name = release.attributes["error"], plan.answer.matrix
    assert error["post_processed"] == f"{name}_psd"
    assert error["post_processing"] == of_moments.NEAREST_PSD
    stated = np.sqrt(np.mean(release.arrays[f"{name}_standard_deviation"] ** 2))
    # 200 releases of six entries of uneven size: the largest, alone, has a standard error of 5 %.
    assert error["simulated"]["raw"]["entry"] == pytest.approx(stated, rel=0.31)
    assert [row["dimensions"] for row in error["subspace"]["leading"]] == [1, 2]
    for row in error["subspace"]["leading"]:
        assert 0 <= row["squared_sine_simulated"] <= row["squared_sine_bound"] <= 1
    assert ("simulated norm" in error["subspace"]["bound_by"]) == (kind == "covariance")
    page = made.path.read_text()
    assert "Error before and after post-processing" in page
    assert "nearest positive semi-definite matrix" in page
    assert "an estimate, not a bound" in page
    assert any(line[0] == "After post-processing" for line in made.lines)
    sizes = {row["what"]: row for row in after.sizes(error)}
    frobenius = sizes["Frobenius norm, 95 of 100 releases"]
    assert all(frobenius[column] for column in ("noisy, simulated", "after, simulated"))
    bounded = [bool(frobenius.get(column)) for column in ("after, at most", "noisy, at most")]
    assert bounded == [kind == "second-moment"] * 2
    assert all(any(row[column] for row in sizes.values()) for column in frobenius), "no column is empty"


def test_counts_are_made_whole_and_the_error_after_it_is_told(tmp_path):
    loaded = queries.prepare(tmp_path, queries.COUNTS, queries.records(queries.COUNTS))
    _, release, made = released(tmp_path, loaded)
    error = release.attributes["error"]
    assert error["post_processed"] == "counts_integer"
    assert "subspace" not in error
    assert error["simulated"]["raw"]["spectral"] is None
    assert error["post_processed_frobenius_norm_bound"] <= 2.01 * error["frobenius_norm_bound"]
    assert "not negative" in made.path.read_text()


def test_a_release_without_post_processing_says_nothing_of_it(tmp_path):
    loaded = queries.prepare(tmp_path, queries.ROWS, queries.records(queries.ROWS))
    _, release, made = released(tmp_path, loaded)
    assert "post_processing" not in release.attributes["error"]
    text = made.path.read_text()
    assert "Error before and after" not in text
    assert "After post-processing" not in text
    assert after.sizes({}) == after.sentence({}) == after.subspaces({}) == []


def test_directions_and_matrix_shapes_tell_their_error_too(tmp_path):
    _, release, _ = released(tmp_path, directed.prepare(tmp_path))
    error = release.attributes["error"]
    assert error["simulated"]["post_processed"]["entry"] <= 1.05 * error["simulated"]["raw"]["entry"]
    assert error["post_processed_frobenius_norm_bound"] > 0


def test_a_matrix_too_large_to_simulate_keeps_its_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.engine.estimates.simulated._ENTRIES", 100)
    loaded = support.prepare(tmp_path, kind="second-moment", epsilon=8.0, budget=20.0)
    _, release, made = released(tmp_path, loaded)
    error = release.attributes["error"]
    assert "simulated" not in error
    assert error["post_processed_frobenius_norm_bound"] > 0
    assert "too large to simulate" in made.path.read_text()


def test_the_bound_after_the_projection_holds_in_raw_units(tmp_path):
    loaded = support.prepare(tmp_path, kind="second-moment", epsilon=1.0, budget=2.0)
    plan = make_plan(loaded, NIGHT)
    design, coordinates = plan.design, plan.question.query.quantiser.coordinates
    rng, truth = np.random.default_rng(3), np.diag([30.0, 1.0, 0.0])
    steps = design.steps((0, 3), (0, 3))
    inside = 0
    for _ in range(150):
        noise = rng.standard_normal((3, 3)) * design.entry_standard_deviation()
        noisy = truth + np.triu(noise) + np.triu(noise, 1).T
        integers = np.rint(noisy * design.shifted_unit / steps).astype(np.int64)
        arrays = plan.answer.arrays(integers, 400)
        bound = of_moments.post_processing(plan.answer, arrays)["post_processed_frobenius_norm_bound"]
        off = arrays["second_moment_psd"][0] - truth * np.outer(coordinates.scale, coordinates.scale)
        inside += np.linalg.norm(off) <= bound
    assert inside >= 150 * (0.95 - 6 * np.sqrt(0.05 * 0.95 / 150))
