"""Tables of counts over chosen columns, which agree with each other."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"marginals": "tables of counts"}, package=__name__, grows=True)
