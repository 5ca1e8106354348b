"""The command line under a pinned key, which stops once at a stage until it is told to go on.

``python -m tests.house.paused_run FOLDER STAGE run CONFIG ...`` makes the file ``reached`` in the folder when a stage
that begins with these words is told with some progress, and goes on when there is a file ``go``. The cluster works on.
"""

import sys
import time
from pathlib import Path
from unittest import mock

from blockveil.flows.cli import main
from blockveil.pipeline.releases.night import Attempt
from tests.house.shipped import pinned_key


def paused_at(wanted, folder):
    """A constructor of attempts that stop at a stage."""
    begin = Attempt.__init__

    def begin_paused(attempt, plan, ledger, name, compute, tell, *others):
        def told(stage, share):
            tell(stage, share)
            if wanted and stage.startswith(wanted) and share != 0.0 and not (folder / "reached").exists():
                (folder / "reached").touch()
                while not (folder / "go").exists():
                    time.sleep(0.02)

        begin(attempt, plan, ledger, name, compute, told, *others)

    return begin_paused


if __name__ == "__main__":
    place, words, *command = sys.argv[1:]
    sys.argv[1:] = command
    with pinned_key(), mock.patch.object(Attempt, "__init__", paused_at(words, Path(place))):
        main()
