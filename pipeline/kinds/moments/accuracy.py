"""How exactly a second moment or covariance will be known."""

from __future__ import annotations

from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.kinds.moments.directions_found import angles_in_noise, found_in_noise
from blockveil.pipeline.kinds.moments.feature_errors import correlations, errors_by_feature, typical_correlation

ACCURACY = Accuracy(errors_by_feature, typical_correlation, correlations, found_in_noise, angles_in_noise)
