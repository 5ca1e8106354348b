"""How many threads a product of matrices takes: one, where tasks are parallel already or threads would only wait."""

from __future__ import annotations

import sys
from typing import Any

from threadpoolctl import ThreadpoolController

_found: tuple[int, ThreadpoolController] | None = None


def one_thread(user_api: str | None = None) -> Any:
    """Context in which the libraries of products take one thread.

    To look for them takes as long as a small step of a training, so they are looked for again only where something was
    imported since.

    Parameters
    ----------
    user_api
        ``"blas"`` for libraries of products alone; None for all that have threads.
    """
    global _found
    modules = len(sys.modules)  # whatever brings a library is imported
    cache = _found
    if cache is None or cache[0] != modules:
        cache = _found = modules, ThreadpoolController()
    return cache[1].limit(limits=1, user_api=user_api)
