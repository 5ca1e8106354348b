"""The empty database of a Prefect server, made once on a machine: its migrations take ten seconds of a core."""

import fcntl
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

MIGRATE = (
    "import asyncio; from prefect.server.database import provide_database_interface as database; "
    "asyncio.run(database().create_db())"
)


KEPT = Path(tempfile.gettempdir()) / f"blockveil-tables-{os.getuid()}" / f"prefect-{version('prefect')}.db"


@cache
def tables(kept=KEPT):
    """Database of a Prefect server that has just been made; whoever comes meanwhile waits for it."""
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    with (kept.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=kept.parent) as home:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            subprocess.run([sys.executable, "-c", MIGRATE], env={**os.environ, "PREFECT_HOME": home}, check=True)
            assert not Path(home, "prefect.db-wal").exists()
            Path(home, "prefect.db").replace(kept)
    return kept
