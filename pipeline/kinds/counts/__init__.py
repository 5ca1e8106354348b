"""Counts of records in the cells of a grid."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"counts": "counts"}, package=__name__, grows=True)
