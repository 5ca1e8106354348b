"""Starts the process of one run: what :mod:`.runner` calls with ``python -P -m``."""

from __future__ import annotations

import sys

from blockveil.flows.base.imports import uncollected

if __name__ == "__main__":
    with uncollected():
        from blockveil.flows.service import child
    child.main()
    sys.exit(0)
