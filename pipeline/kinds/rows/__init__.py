"""The records themselves, with noise on each."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"rows": "records"}, package=__name__)
