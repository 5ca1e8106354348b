"""A trained logistic regression in the hands of an analyst: errors, intervals and p-values, or that none is known."""

import copy

import numpy as np
import pytest

import blockveil as bv
from blockveil.pipeline.analysis.labelled import plain
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.report import write_report
from blockveil.pipeline.report.released_coefficients import coefficients_of
from tests.house.shipped import pinned_key
from tests.pipeline.releases.test_fisher_step import with_errors
from tests.pipeline.releases.test_training_steps import release, training


def known(folder):
    """A release whose noise hides nothing, under one key."""
    with pinned_key():
        return release(with_errors(folder, more="errors_share = 0.8", epsilon=30.0))


def test_python_the_card_and_the_report_have_the_errors_of_coefficients(tmp_path):
    outcome = known(tmp_path)
    found = bv.open(outcome.pointer)
    fit = found.logistic_regression()
    assert (fit.target, fit.features) == ("y", ("x1", "x2", "x3"))
    narrow, wide = fit.interval(), fit.interval(of="population")
    assert np.all(wide["high"] - wide["low"] > narrow["high"] - narrow["low"])
    assert list(narrow.index) == ["(intercept)", "x1", "x2", "x3"]
    assert fit.p_values["x1"] < fit.p_values["x2"] < fit.p_values["x3"] < 1.0
    assert fit.coefficients["x1"] > 0 > fit.coefficients["x2"]
    assert "95 %" in str(fit)
    assert "| x1 |" in found.model.card
    with pytest.raises(ConfigError, match="An interval is not of"):
        fit.interval(of="people")
    report = write_report(outcome.path)
    assert "largest likelihood" in report.path.read_text()
    assert "## Coefficients" in report.model


def test_errors_that_the_noise_hides_are_said_to_be_unknown(tmp_path):
    outcome = release(with_errors(tmp_path, epsilon=0.3))
    found = bv.open(outcome.pointer)
    fit = found.logistic_regression()
    assert "not known" in str(fit)
    assert np.all(np.isinf(fit.standard_error))
    assert np.all(fit.p_values == 1.0)
    assert np.all(np.isinf(fit.interval(of="population")))
    assert "noise hides" in found.model.card


def test_a_training_without_a_share_for_errors_has_none(tmp_path):
    found = bv.open(release(training(tmp_path)).pointer)
    with pytest.raises(ConfigError, match="errors_share"):
        found.logistic_regression()
    assert "## Coefficients" not in found.model.card


def test_coefficients_are_in_the_units_of_the_features_about_their_own_zero(tmp_path):
    """Records that were moved and stretched before they were bounded have the same log odds."""
    opened = bv.open(known(tmp_path).pointer).opened
    stated = plain(opened.attributes)
    moved = copy.deepcopy(stated)
    for each in moved["query"]["geometry"]["features"]:
        each.update(lower=10.0, upper=16.0)
    one, other = (coefficients_of(each, lambda name: opened.arrays[name][...]) for each in (stated, moved))
    x = np.array([0.3, -0.7, 0.1])
    np.testing.assert_allclose(one.values[1:], 3.0 * other.values[1:])
    odds = one.values[0] + x @ one.values[1:]
    assert other.values[0] + (13.0 + 3.0 * x) @ other.values[1:] == pytest.approx(odds)
    np.testing.assert_allclose(one.noise[1:], 3.0 * other.noise[1:])
    moved["query"]["geometry"].update(origin="zero")
    for each in moved["query"]["geometry"]["features"]:
        each.update(lower=-0.5, upper=3.0)
    from_zero = coefficients_of(moved, lambda name: opened.arrays[name][...])
    np.testing.assert_allclose(from_zero.values[1:] * 3.0, one.values[1:])
    for each in moved["query"]["geometry"]["features"]:
        del each["lower"]
    assert coefficients_of(moved, lambda name: opened.arrays[name][...]) is None
