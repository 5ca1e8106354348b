"""Quantiles of columns, each with an interval that holds it."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"quantiles": "quantiles of columns"}, package=__name__)
