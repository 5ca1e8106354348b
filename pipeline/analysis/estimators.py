"""Estimators with the interface of scikit-learn that fit a release, never records.

Records that were fitted here would escape the ledger, so ``fit`` takes a :class:`.release.Release` alone. What is
fitted predicts and transforms rows of the caller's own, which are charged nothing and are kept nowhere. scikit-learn
itself is not needed: parameters, fitted attributes and errors follow its conventions, so that its ``clone`` and
pipelines of fitted steps take these estimators.

**Source**: scikit-learn, "Developing scikit-learn estimators" (get_params, set_params, trailing underscores).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from blockveil.engine.estimates import components
from blockveil.engine.estimates.noisy_moments import Array
from blockveil.pipeline.analysis.fits import Regression, rows_of
from blockveil.pipeline.analysis.joint_noise import Names, positions
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import ConfigError

Target = TypeVar("Target", bound=Names)


class FittedOnRelease:
    """Parameters of an estimator, as scikit-learn reads and sets them."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor by name; there is nothing deeper."""
        del deep
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor; raises ValueError, as scikit-learn does, where one is unknown."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"{name[:60]!r} is not a parameter of {type(self).__name__}: {self._names()}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The call that makes it."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({parameters})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it has been fitted."""
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        """Tags of the latest scikit-learn, which asks for them; they hold for rows that are predicted."""
        tags = importlib.import_module("sklearn.utils")  # who asks has it
        return tags.Tags(estimator_type=self._kind, target_tags=tags.TargetTags(required=False))

    _kind: str | None = None

    def _need_fit(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise ConfigError(
                f"This {type(self).__name__} is not fitted", "It learns from a release first", "Call fit(release, ...)"
            )

    def _learn(self, features: Sequence[str]) -> None:
        self.feature_names_in_ = np.asarray(list(features), dtype=object)
        self.n_features_in_ = len(features)


class Ridge(FittedOnRelease):
    """Ridge regression on a release.

    Parameters
    ----------
    alpha
        What is added to each feature's sum of squares about the mean, in its unit squared, as scikit-learn has it.

    Attributes
    ----------
    coef_
        Coefficients in the order of the features, shape (k,).
    intercept_
        Intercept.
    coef_standard_error_, intercept_standard_error_
        Their standard errors from the noise of the release; infinite where it is too large to state one.
    regression_
        The same with labels and intervals: :class:`.fits.Regression`.
    feature_names_in_, n_features_in_
        Features, and how many.
    """

    _kind = "regressor"

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(
        self, release: Release, y: None = None, *, target: str | None = None, features: Sequence[str] | None = None
    ) -> Self:
        """Fit a release.

        Parameters
        ----------
        release
            From ``blockveil.open`` or ``blockveil.run``; records are refused.
        y
            Nothing: the target is named, and a list of its values is refused.
        target
            What is explained; it must be given.
        features
            What explains it; all other features where not given.

        Raises
        ------
        ConfigError
            This is no release, no target is named, or it cannot be regressed on so; see :meth:`.Release.regress`.
        """
        regression: Regression = only_release(release, y).regress(_named(target), features, float(self.alpha))
        self.regression_ = regression
        self.intercept_, self.coef_ = regression.intercept, regression.fit.values[1:].copy()
        self.intercept_standard_error_ = regression.intercept_standard_error
        self.coef_standard_error_ = regression.fit.standard_error[1:].copy()
        self._learn(regression.features)
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """Predicted target of rows of your own, shape (rows,).

        Parameters
        ----------
        X
            A DataFrame with the features as columns, or an array of shape (rows, k) in their order.

        Raises
        ------
        ConfigError
            It is not fitted, or these are not such rows.
        """
        self._need_fit()
        return self.regression_.predict(X)


class PCA(FittedOnRelease):
    """Principal components of a release.

    Parameters
    ----------
    n_components
        How many; all where None.

    Attributes
    ----------
    components_
        Unit directions, shape (k, d), largest variance first.
    explained_variance_, explained_variance_ratio_
        Variance along each, over the count, and its share of the total, shape (k,).
    explained_variance_standard_error_, components_standard_error_
        Their standard errors from the noise of the release; infinite where it is too large to state one.
    mean_
        Mean of each feature, shape (d,); the origin where the release has no mean.
    n_components_, feature_names_in_, n_features_in_
        How many components, the features, and how many.
    """

    _kind = None

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, release: Release, y: None = None, *, features: Sequence[str] | None = None) -> Self:
        """Fit a release.

        Parameters
        ----------
        release
            From ``blockveil.open`` or ``blockveil.run``; records are refused.
        y
            Nothing.
        features
            Which features; all where not given.

        Raises
        ------
        ConfigError
            This is no release with a second moment, a name is unknown, or the number of components is out of range.
        """
        whole = only_release(release, y)
        names = (
            list(whole.features) if features is None else [features] if isinstance(features, str) else list(features)
        )
        moments = whole.moments("A principal component").of(positions(whole.features, names))
        count = len(names) if self.n_components is None else self.n_components
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= len(names):
            raise ConfigError(
                "n_components is out of range", f"It is a whole number from 1 to {len(names)}, or None", "Correct it"
            )
        pca = components.components(moments, int(count), scaled=False)
        self.components_, self.components_standard_error_ = (
            pca.loadings.value,
            pca.loadings.standard_deviation,
        )
        self.explained_variance_ = pca.variances.value
        self.explained_variance_standard_error_ = pca.variances.standard_deviation
        self.explained_variance_ratio_ = pca.shares.value
        self.mean_, self.n_components_ = moments.origin + moments.mean, int(count)
        self._learn(names)
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """Coordinates of rows of your own along the components, shape (rows, k); see :meth:`Ridge.predict`."""
        self._need_fit()
        coordinates: Array = (rows_of(X, tuple(self.feature_names_in_)) - self.mean_) @ self.components_.T
        return coordinates

    def inverse_transform(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """Rows whose coordinates along the components are given, shape (rows, k) to (rows, d)."""
        self._need_fit()
        along = tuple(f"component {i + 1}" for i in range(self.n_components_))
        rows: Array = self.mean_ + rows_of(X, along) @ self.components_
        return rows


class MomentClassifier(FittedOnRelease):
    """Classes by scores that are linear in the features, from a released covariance.

    Parameters
    ----------
    rule
        ``ridge`` or ``lda``.
    ridge
        In units of the largest eigenvalue that noise alone gives; see :meth:`.Release.classifier`.

    Attributes
    ----------
    classes_
        Codes 0, 1, ... of the classes, in the order of the target's columns.
    coef_, intercept_
        Weights and constants of the scores, shapes (classes, k) and (classes,).
    classifier_
        The same with names: :class:`.linear_classifier.LinearClassifier`.
    feature_names_in_, n_features_in_
        Features, and how many.
    """

    _kind = "classifier"

    def __init__(self, rule: str = "ridge", ridge: float = 1.0) -> None:
        self.rule, self.ridge = rule, ridge

    def fit(
        self, release: Release, y: None = None, *, target: Names | None = None, features: Names | None = None
    ) -> Self:
        """Fit a release.

        Parameters
        ----------
        release
            From ``blockveil.open`` or ``blockveil.run``; records are refused.
        y
            Nothing: the target is named, and a list of its values is refused.
        target, features
            As for :meth:`.Release.classifier`; the target must be given.

        Raises
        ------
        ConfigError
            This is no release, no target is named, or it gives no such classifier.
        """
        classifier = only_release(release, y).classifier(_named(target), features, rule=self.rule, ridge=self.ridge)
        self.classifier_, self.classes_ = classifier, np.arange(len(classifier.classes))
        self.coef_, self.intercept_ = classifier.scores.weights, classifier.scores.constants
        self._learn(classifier.features)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803 - scikit-learn's name
        """Code of the class of each row, int64, shape (rows,); see :meth:`Ridge.predict`."""
        self._need_fit()
        return self.classifier_.predict(X)

    def decision_function(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """Score of each class, shape (rows, classes); see :meth:`Ridge.predict`."""
        self._need_fit()
        return self.classifier_.decision_function(X)


def _named(target: Target | None) -> Target:
    # Not left to Python: who calls fit(records, values), as of scikit-learn, first learns why records are refused.
    if target is None:
        raise ConfigError("fit was given no target", "A release has many columns", "Name the one to explain, target=")
    return target


def only_release(given: object, y: object) -> Release:
    """What was given, if it is a release alone.

    Raises
    ------
    ConfigError
        It is anything else, such as records, or there are values of a target beside it.
    """
    if isinstance(given, Release) and y is None:
        return given
    what = f"a {type(given).__name__}" if y is None else "values of a target"
    raise ConfigError(
        f"fit was given {what}",
        "These estimators learn from a release that was paid for: a fit of records would escape the ledger",
        "Release a covariance with blockveil.run, and fit what blockveil.open returns; name the target with target=",
    )
