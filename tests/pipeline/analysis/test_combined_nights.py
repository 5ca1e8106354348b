"""Several nights as one: less error than the last alone, stated as it is, of nights whose noise is their own."""

from datetime import timedelta

import numpy as np
import pytest

import blockveil as bv
from blockveil.pipeline.analysis import combined_nights
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from tests.house import support
from tests.pipeline.releases.test_learning_stages import VALUES, learning
from tests.pipeline.releases.test_release import NIGHT, run

NIGHTS = 6


@pytest.fixture(scope="module")
def boxed(tmp_path_factory):
    """Nights in their box, whose errors are those of noise."""
    loaded = learning(tmp_path_factory.mktemp("boxed"), epsilon=20.0)
    loaded.path.write_text(loaded.path.read_text().replace('learn = "correlation"\n', ""))
    loaded = load_config(loaded.path)
    return [bv.open(run(loaded, NIGHT + timedelta(days=day)).path) for day in range(2)]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    loaded = learning(tmp_path_factory.mktemp("nights"))
    return [bv.open(run(loaded, NIGHT + timedelta(days=day)).path) for day in range(NIGHTS)]


def errors(release):
    pairs = np.triu_indices(3, 1)
    found = (np.asarray(release.correlation) - np.corrcoef(VALUES.T))[pairs]
    return found, np.asarray(release.standard_error.correlation)[pairs]


def test_several_nights_are_known_better_than_the_last(boxed):
    nights = bv.combine(boxed, drift=0.0)
    for name in ("mean", "covariance"):
        alone, together = (np.asarray(each.standard_error[name]) for each in (boxed[-1], nights))
        assert np.all(together < 0.75 * alone)
    away = (np.asarray(nights.covariance) - np.cov(VALUES.T, bias=True)) / np.asarray(nights.standard_error.covariance)
    assert np.all(np.abs(away) < 6.0)


def test_nights_that_learn_from_each_other_are_combined_with_all_that_follows_from_them(released):
    nights = bv.combine(released[::-1], drift=0.0)
    assert nights.release_ids == tuple(each.release_id for each in released)
    found, stated = errors(nights)
    assert np.mean((found / stated) ** 2) < 6.0
    assert np.all(np.abs(np.asarray(nights.mean) - VALUES.mean(axis=0)) < 5 * np.asarray(nights.standard_error.mean))
    low, high = nights.interval("covariance")
    assert np.all(np.asarray(low) < np.asarray(high))
    fit, parts = nights.regress("debt", ["age", "income"]), nights.pca(2)
    assert fit.features == ("age", "income")
    assert len(parts.explained_variance) == 2
    assert repr(nights).startswith("Nights('people/covariance/2026-11-20' to")
    assert "as one estimate of the last" in str(nights)


def test_the_more_records_drift_the_more_the_last_night_counts(released):
    last = np.asarray(released[-1].covariance)
    away = [np.abs(np.asarray(bv.combine(released, drift=each).covariance) - last).max() for each in (0.0, 0.05, 10.0)]
    assert away[0] > away[1] > away[2]
    assert away[2] < 1e-3 * np.abs(last).max()


def test_several_nights_have_no_promise_of_their_own_and_are_exported_as_none(released, tmp_path):
    nights = bv.combine(released[:2], drift=0.0)
    with pytest.raises(ConfigError, match="no promise of their own"):
        _ = nights.guarantee
    with pytest.raises(ConfigError, match="not exported"):
        nights.export(tmp_path / "tables", "csv")


@pytest.mark.parametrize("drift", [-0.1, np.nan, np.inf, None, True, "0.1"])
def test_a_drift_that_is_no_size_is_refused(released, drift):
    with pytest.raises(ConfigError, match="drift"):
        bv.combine(released, drift=drift)


def test_what_are_no_two_nights_of_one_release_is_refused(released, tmp_path):
    other = support.prepare(tmp_path, values=VALUES)
    other.path.write_text(other.path.read_text().replace('name = "covariance"', 'name = "other"'))
    another = bv.open(run(load_config(other.path)).path)
    for given in ([], released[:1], [released[0], "a path"], [released[0], bv.combine(released, drift=0.0)]):
        with pytest.raises(ConfigError, match="no two nights"):
            bv.combine(given, drift=0.0)
    with pytest.raises(ConfigError, match="twice"):
        bv.combine([released[0], released[0]], drift=0.0)
    with pytest.raises(ConfigError, match="not nights of one release"):
        bv.combine([released[0], another], drift=0.0)


def test_nights_of_other_declared_bounds_are_refused(boxed, monkeypatch):
    other = {**boxed[0].opened.attributes["query"]["geometry"], "origin": "zero"}
    monkeypatch.setitem(boxed[0].opened.attributes["query"], "geometry", other)
    with pytest.raises(ConfigError, match="same declared shape"):
        bv.combine(boxed, drift=0.0)


def test_nights_without_the_bounds_that_they_were_rounded_in_are_refused(boxed, monkeypatch):
    for each in boxed:
        geometry = each.opened.attributes["query"]["geometry"]
        features = [{"name": feature["name"]} for feature in geometry["features"]]
        monkeypatch.setitem(each.opened.attributes["query"], "geometry", {**geometry, "features": features})
    with pytest.raises(ConfigError, match="in which bounds its records were rounded"):
        bv.combine(boxed, drift=0.0)


def test_the_error_by_rounding_stays_however_many_nights_there_are(boxed):
    rounding = combined_nights._rounding(boxed[0], 3)
    stated = np.asarray(boxed[0].array("second_moment_standard_deviation"))
    together = np.asarray(bv.combine(boxed, drift=0.0).array("second_moment_standard_deviation"))
    assert np.all(rounding[1:, 1:] > 0.0)
    assert np.allclose(together**2, (stated**2 - rounding[1:, 1:] ** 2) / 2.0 + rounding[1:, 1:] ** 2)


def test_nothing_of_one_night_alone_is_stated_of_several(released):
    attributes = bv.combine(released, drift=0.0).attributes
    assert not {"guarantee", "ledger", "plan_digest", "signature", "approval", "error"} & set(attributes)
    assert attributes["nights"] == [each.release_id for each in released]


def test_nights_that_share_a_charge_are_refused(released, monkeypatch):
    monkeypatch.setitem(released[0].opened.attributes["guarantee"], "nights", 3)
    with pytest.raises(ConfigError, match="shares its charge"):
        bv.combine(released, drift=0.0)
