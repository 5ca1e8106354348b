"""Sums of outer products of the two halves of a record."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"outer-products": "sum of outer products"}, package=__name__, grows=True)
