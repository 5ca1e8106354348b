"""Whether a release of counts in the cells of a grid is what it states: how far a record moves it, and its arrays."""

from __future__ import annotations

from blockveil.pipeline.verification import moved_counts
from blockveil.pipeline.verification.released_counts import cells

RELEASE_CHECKS = {"moved": moved_counts.cells, "arrays": cells}
