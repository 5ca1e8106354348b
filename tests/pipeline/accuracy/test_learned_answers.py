"""Plans of nights that learn: errors of the shape that is learned of supposed records, or as the night before was."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import blockveil as bv
from blockveil.engine.estimates.correlations import correlation
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, good_enough
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun_plans import plan_ahead
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.report.released_moments import moments_of
from tests.pipeline.releases.test_learning_stages import ROWS, learning
from tests.pipeline.releases.test_release import NIGHT, run

LOWER, UPPER = np.array([0.0, 0.0, -500_000.0]), np.array([120.0, 1_000_000.0, 500_000.0])
SPREAD = 0.05


def normal(tails=False):
    rng = np.random.default_rng(3)
    drawn = rng.standard_t(2.5, (ROWS, 3)) if tails else rng.normal(size=(ROWS, 3))
    return (LOWER + UPPER) / 2 + drawn / (drawn.std(axis=0) if tails else 1.0) * SPREAD * (UPPER - LOWER)


def error_of_correlation(plan, supposed):
    (found,) = good_enough(plan, AccuracyQuestion(supposed)).guess.pairs
    return found.size / 1.96


def stated(outcome):
    """Median standard error of correlations by noise, by the release."""
    moments = moments_of(bv.open(outcome.path).opened, "A correlation")
    errors = correlation(replace(moments, shortened=None)).standard_deviation
    return float(np.median(errors[np.triu_indices(3, 1)]))


@pytest.mark.parametrize("aim", ["correlation", "covariance"])
def test_errors_of_supposed_records_are_those_of_a_release_of_such_records(tmp_path, aim):
    loaded = learning(tmp_path, aim, normal(), epsilon=1.0)
    planned = error_of_correlation(make_plan(loaded, NIGHT), Supposed(ROWS, 0.0, SPREAD))
    assert 0.4 < planned / stated(run(loaded)) < 1.6
    wide = error_of_correlation(make_plan(loaded, NIGHT), Supposed(ROWS, 0.0, SPREAD / 4))
    assert wide == pytest.approx(planned, rel=0.05)  # the shape follows the records


def test_a_plan_knows_of_the_night_before_how_far_out_records_lie(tmp_path):
    loaded = learning(tmp_path, values=normal(tails=True), epsilon=1.0)
    supposed, ledger = Supposed(ROWS, 0.0, SPREAD), Ledger(loaded.ledger_url)
    alone = plan_ahead(loaded, NIGHT, ledger)
    run(loaded)
    plan = plan_ahead(loaded, NIGHT + timedelta(days=1), ledger)
    known = error_of_correlation(plan, supposed)
    assert "as published" not in dict(good_enough(alone, AccuracyQuestion(supposed)).lines)["Supposed"]
    found = stated(run(loaded, NIGHT + timedelta(days=1)))
    assert 0.2 < known / found < 2.0
    words = dict(good_enough(plan, AccuracyQuestion(supposed)).lines)["Supposed"]
    assert f"as published of people/covariance/{NIGHT}" in words


def test_a_preview_has_the_noise_of_the_shape_that_is_learned(tmp_path):
    loaded = learning(tmp_path, values=normal(), epsilon=1.0)
    shown = rehearse(make_plan(loaded, NIGHT), Supposed(ROWS, 0.5, SPREAD))
    assert np.max(np.abs(shown.released - shown.truth)) < 0.1  # that of the box has more than the matrix
    assert shown.covered >= 0.8 * shown.entries


def test_a_ledger_that_cannot_be_read_tells_a_plan_of_no_night_before(tmp_path):
    loaded = learning(tmp_path, values=normal(), epsilon=1.0)
    run(loaded)
    (tmp_path / "nothing").write_text("this is no ledger")
    assert plan_ahead(loaded, NIGHT + timedelta(days=1), Ledger(f"sqlite:///{tmp_path}/nothing")).designed.learning
