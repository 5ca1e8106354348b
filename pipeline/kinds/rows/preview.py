"""What is shown of a preview."""

from __future__ import annotations

from blockveil.pipeline.accuracy.preview import Preview

PREVIEW = Preview(by_record=True)
