"""The number of records, and the total and the mean of each column."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"totals": "totals and means"}, package=__name__, grows=True, learns={"totals": ("mean",)})
