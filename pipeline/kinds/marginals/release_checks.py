"""Whether a release of tables is what it states: how far a record moves it, and its arrays."""

from __future__ import annotations

from blockveil.pipeline.verification import moved_counts
from blockveil.pipeline.verification.table_arrays import tables

RELEASE_CHECKS = {"moved": moved_counts.tables, "arrays": tables}
