"""Correlations as the purpose of a first release."""

from __future__ import annotations

from blockveil.pipeline.report.released_moments import MOST_FEATURES
from blockveil.pipeline.scaffold.purposes import RELATIVE, Purpose

INTERVIEW = (
    Purpose(
        name="correlations",
        meaning="counts, means, covariances, and from them regressions, principal components and classifiers",
        synonyms=("regression", "regressions", "covariance", "covariances", "classifier"),
        query={"kind": "covariance"},
        remark="# Count, means and covariances, hence correlations, regressions and linear classifiers.",
        stepped=True,
        learn="correlation",
        most_learned=lambda unknown: MOST_FEATURES,
        noise=RELATIVE,
    ),
)
