"""The folder of this account for what a program remembers between its runs, which no config names."""

from __future__ import annotations

import os
from pathlib import Path


def state_home() -> Path:
    """``blockveil`` in ``XDG_STATE_HOME``, else in ``~/.local/state``; it need not exist.

    **Source**: XDG Base Directory Specification: a value that is no absolute path counts as none.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "blockveil"
