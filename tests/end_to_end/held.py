"""A night that stands still once its charge is committed, until a test lets it go on: planted in a run's process."""

import os
from pathlib import Path

from blockveil.pipeline.releases.night import Attempt
from tests.house.paused_run import paused_at

PLACE = "HELD_NIGHTS"
"""Environment variable: folder in which a file ``hold`` asks for it; ``reached`` and ``go`` are as in paused_run."""


def plant():
    """Called in the process of each run, before it begins."""
    place = Path(os.environ[PLACE])
    if (place / "hold").exists():
        (place / "hold").unlink()
        Attempt.__init__ = paused_at("drawing", place)
