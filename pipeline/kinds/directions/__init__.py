"""Leading principal directions of records."""

from __future__ import annotations

from blockveil.pipeline.base.kinds import Kind

KIND = Kind(titles={"principal-directions": "principal directions"}, package=__name__)
