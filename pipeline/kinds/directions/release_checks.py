"""Whether a release of principal directions is what it states: drawn alone, or those of a noisy second moment."""

from __future__ import annotations

from blockveil.pipeline.kinds.moments.release_checks import arrays as moments
from blockveil.pipeline.kinds.moments.release_checks import moved
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.released_directions import drawn, leading


def _arrays(check: ArrayCheck) -> None:
    if "concentration" in check.mechanism:
        drawn(check)
        return
    moments(check)
    leading(check)


RELEASE_CHECKS = {"moved": moved, "arrays": _arrays}
