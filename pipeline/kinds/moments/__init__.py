"""Second moments of records, and the covariance that follows from one."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(
    titles={"covariance": "covariance", "second-moment": "second moment"},
    package=__name__,
    grows=True,
    learns={"covariance": ("correlation", "covariance")},
)
