"""A histogram of each column, in public bins."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"column-histograms": "histograms of columns"}, package=__name__)
