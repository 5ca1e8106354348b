"""Estimators fit a release and never records, and keep to what scikit-learn asks of them."""

import pickle

import numpy as np
import pandas as pd
import pytest

from blockveil.pipeline.analysis.estimators import PCA, Ridge
from blockveil.pipeline.base.errors import ConfigError


def clone(estimator):
    """What scikit-learn's ``clone`` does, with its checks."""
    given = estimator.get_params(deep=False)
    copy = type(estimator)(**given)
    assert all(copy.get_params(deep=False)[name] is value for name, value in given.items())
    return copy


@pytest.mark.parametrize("estimator", [Ridge(alpha=3.0), PCA(n_components=2)])
def test_parameters_are_read_set_cloned_and_shown(estimator):
    (name,) = estimator.get_params()
    copy = clone(estimator)
    assert copy.set_params(**{name: 1}) is copy
    assert copy.get_params() == {name: 1}
    assert estimator.get_params() != {name: 1}
    with pytest.raises(ValueError, match="not a parameter"):
        copy.set_params(other=1)
    assert repr(copy) == f"{type(copy).__name__}({name}=1)"
    assert not copy.__sklearn_is_fitted__()


@pytest.mark.parametrize("estimator", [Ridge(), PCA()])
@pytest.mark.parametrize("given", [np.full((3, 2), 271828.0), pd.DataFrame({"age": [271828.0]}), [[271828.0]], None])
def test_records_are_refused_and_not_quoted(estimator, given):
    arguments = {"target": "age"} if isinstance(estimator, Ridge) else {}
    with pytest.raises(ConfigError, match="a fit of records would escape the ledger") as refused:
        estimator.fit(given, **arguments)
    assert "271828" not in str(refused.value)
    assert not estimator.__sklearn_is_fitted__()


def test_values_of_a_target_are_refused(known):
    with pytest.raises(ConfigError, match="values of a target"):
        Ridge().fit(known.release, known.records[:, 1], target="weight")


def test_records_and_values_of_a_target_are_refused_in_words_as_scikit_learn_would_call_it(known):
    with pytest.raises(ConfigError, match="a fit of records would escape the ledger"):
        Ridge().fit(known.records, known.records[:, 1])


def test_a_target_that_is_not_named_is_asked_for(known):
    with pytest.raises(ConfigError, match="no target"):
        Ridge().fit(known.release)


def test_what_is_not_fitted_predicts_nothing():
    for ask in (
        lambda: Ridge().predict([[1.0]]),
        lambda: PCA().transform([[1.0]]),
        lambda: PCA().inverse_transform([[1.0]]),
    ):
        with pytest.raises(ConfigError, match="is not fitted"):
            ask()


def test_ridge_is_the_regression_of_the_release_and_predicts_rows_of_the_caller(known):
    made = Ridge(alpha=500.0).fit(known.release, target="weight", features=["height", "age"])
    same = known.release.regress("weight", ["height", "age"], ridge=500.0)
    assert made.coef_ == pytest.approx(same.coefficients.to_numpy())
    assert made.coef_standard_error_ == pytest.approx(same.standard_error.to_numpy())
    assert (made.intercept_, made.intercept_standard_error_) == (same.intercept, same.intercept_standard_error)
    assert list(made.feature_names_in_) == ["height", "age"]
    assert made.n_features_in_ == 2
    rows = known.records[:50][:, [0, 3]]
    assert made.predict(rows) == pytest.approx(made.intercept_ + rows @ made.coef_)
    error = known.records[:50, 1] - made.predict(rows)
    assert float(np.std(error)) < 0.9 * float(np.std(known.records[:50, 1]))
    again = pickle.loads(pickle.dumps(made.coef_))
    assert np.array_equal(again, made.coef_)


def test_ridge_is_that_of_the_records_but_for_noise(known):
    """As scikit-learn's Ridge: alpha beside the sums of squares about the mean."""
    chosen = known.records[:, [0, 3]]
    centred, alpha = chosen - chosen.mean(axis=0), 2000.0
    target = known.records[:, 1] - known.records[:, 1].mean()
    truth = np.linalg.solve(centred.T @ centred + alpha * np.eye(2), centred.T @ target)
    made = Ridge(alpha=alpha).fit(known.release, target="weight", features=["height", "age"])
    assert np.all(np.abs(made.coef_ - truth) <= 6.5 * made.coef_standard_error_)


def test_components_transform_rows_and_back(known):
    made = PCA().fit(known.release)
    assert made.n_components_ == 4
    assert made.components_ @ made.components_.T == pytest.approx(np.eye(4), abs=1e-12)
    assert made.explained_variance_ratio_.sum() == pytest.approx(1.0)
    assert made.explained_variance_ == pytest.approx(known.release.pca(4).explained_variance.to_numpy())
    rows = known.records[:20]
    assert made.inverse_transform(made.transform(rows)) == pytest.approx(rows)
    assert made.mean_ == pytest.approx(known.release.mean.to_numpy())
    assert PCA(1).fit(known.release, features=["height", "weight"]).transform(rows[:, :2]).shape == (20, 1)


@pytest.mark.parametrize("count", [0, 5, 1.5, "mle", True])
def test_a_number_of_components_that_there_is_not_is_refused(known, count):
    with pytest.raises(ConfigError, match="n_components"):
        PCA(count).fit(known.release)
