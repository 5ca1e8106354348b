"""How exactly a second moment or covariance will be known."""

from __future__ import annotations

from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.kinds.moments.directions_found import angles_in_noise, found_in_noise
from blockveil.pipeline.kinds.moments.feature_errors import correlations, errors_by_feature, typical_correlation
from blockveil.pipeline.kinds.moments.question import Moment


def _features(question: Moment) -> tuple[Coordinates]:
    return (question.coordinates,)


ACCURACY = Accuracy(
    errors_by_feature, typical_correlation, correlations, found_in_noise, angles_in_noise, features=_features
)
