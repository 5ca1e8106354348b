"""Work on the parts of a large matrix side by side, whose results are taken one after the other."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Seen = TypeVar("Seen")

AT_ONCE = 4
"""Parts that are worked on at once, at most: what they take of memory adds up."""


def in_order(parts: Iterable[Part], look: Callable[[Part], Seen], take: Callable[[Seen], None]) -> None:
    """Look at parts in several threads, and take what was seen in the order of the parts: sums keep their bits.

    Parameters
    ----------
    parts
        The parts, in order.
    look
        Looks at one; called from several threads.
    take
        Takes what was seen of one; called from this thread alone.
    """
    waiting: deque[Future[Seen]] = deque()
    threads = max(1, min(AT_ONCE, os.cpu_count() or 1))
    with ThreadPoolExecutor(threads, "blockveil-look") as pool:
        for part in parts:
            if len(waiting) > threads:
                take(waiting.popleft().result())
            waiting.append(pool.submit(look, part))
        while waiting:
            take(waiting.popleft().result())
