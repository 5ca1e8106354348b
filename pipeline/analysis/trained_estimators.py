"""The model that a release has trained, with the interface of scikit-learn; see :mod:`.estimators`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from blockveil.engine.answers.models import Output
from blockveil.engine.estimates.noisy_moments import Array
from blockveil.pipeline.analysis.estimators import FittedOnRelease, only_release
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.analysis.trained_model import TrainedModel
from blockveil.pipeline.base.errors import ConfigError


class _Trained(FittedOnRelease):
    """What both kinds of models have."""

    _number: bool

    def fit(self, release: Release, y: None = None) -> Self:
        """Take the model of a release; nothing is trained here.

        Parameters
        ----------
        release
            From ``blockveil.open`` or ``blockveil.run``; records are refused.
        y
            Nothing.

        Raises
        ------
        ConfigError
            This is no release, it has trained no model, or one of the other kind.
        """
        trained: TrainedModel = only_release(release, y).model
        if (trained.model.output is Output.SQUARED) != self._number:
            kinds = ("TrainedClassifier", "TrainedRegressor")
            raise ConfigError(
                f"The model does not fit {kinds[self._number]}",
                "A classifier has classes, a regressor predicts a number",
                f"Use {kinds[not self._number]}",
            )
        self.model_, self.card_ = trained, trained.card
        self._learn(trained.features)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803 - scikit-learn's name
        """What the model predicts of each row, shape (rows,); see :meth:`.trained_model.TrainedModel.predict`."""
        self._need_fit()
        return self.model_.predict(X)


class TrainedClassifier(_Trained):
    """Classes by the model that a release has trained.

    Attributes
    ----------
    classes_
        Codes 0, 1, ... of the classes.
    model_, card_
        The model, and its card.
    feature_names_in_, n_features_in_
        Features, and how many.
    """

    _kind, _number = "classifier", False

    def fit(self, release: Release, y: None = None) -> Self:
        """Take the model of a release, as the regressor does."""
        super().fit(release, y)
        self.classes_ = np.arange(int(self.model_.label[1]) + 1)
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name
        """Probability of each class of each row, shape (rows, classes)."""
        self._need_fit()
        return self.model_.predict_proba(X)


class TrainedRegressor(_Trained):
    """A number by the model that a release has trained.

    Attributes
    ----------
    model_, card_
        The model, and its card.
    feature_names_in_, n_features_in_
        Features, and how many.
    """

    _kind, _number = "regressor", True
