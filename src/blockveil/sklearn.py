"""Estimators with the interface of scikit-learn that fit a release, never records.

``fit`` takes what ``blockveil.open`` or ``blockveil.run`` returns; ``predict`` and ``transform`` take rows of your own.
"""

from blockveil.pipeline.analysis.estimators import PCA, MomentClassifier, Ridge
from blockveil.pipeline.analysis.trained_estimators import TrainedClassifier, TrainedRegressor

__all__ = ["PCA", "MomentClassifier", "Ridge", "TrainedClassifier", "TrainedRegressor"]
