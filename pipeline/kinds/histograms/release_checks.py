"""Whether a release of histograms is what it states: how far a record moves it, and its arrays."""

from __future__ import annotations

from blockveil.pipeline.verification import moved_counts
from blockveil.pipeline.verification.table_arrays import histograms

RELEASE_CHECKS = {"moved": moved_counts.bins, "arrays": histograms}
