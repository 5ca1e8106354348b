"""Sums of clipped gradients of a model, and its training by them."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"gradients": "sum of gradients"}, package=__name__, grows=True)
