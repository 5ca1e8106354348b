"""Products of integers in eight bits, for large sums of products where the extra ``fast`` and the processor allow it.

What is chosen is a matter of this process alone: the sums are the same integers. The log says what was chosen and why.
"""

from __future__ import annotations

import logging
import time
from threading import Lock

from threadpoolctl import threadpool_limits

from blockveil.engine.answers import eight_bit

WORTH_PRODUCTS = 2**36
"""Products of two values, in all records, for which eight bits save more seconds than it takes to choose."""

_lock = Lock()
_chosen: list[eight_bit.Choice] = []


def prepare() -> eight_bit.Choice:
    """Choose once in this process how integers of eight bits are multiplied, and let the engine do so."""
    with _lock:
        if not _chosen:
            with threadpool_limits(1, user_api="blas"):  # as where tasks run
                choice = eight_bit.choose(time.perf_counter)
            logging.getLogger(__name__).info("integers are multiplied in %s", choice.reason)
            eight_bit.use(choice)
            _chosen.append(choice)
        return _chosen[0]
