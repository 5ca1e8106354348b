"""Settings of pictures: the standard ones of the library and our own, whatever lies in the present folder.

Matplotlib reads a file ``matplotlibrc`` of the folder in which a program is called. Whoever may write there could
change what a page shows, and by ``text.usetex`` have LaTeX run a text of theirs as this user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_OF_WINDOWS = ("backend", "backend_fallback", "interactive", "toolbar")
"""Settings that choose how windows are shown, which no picture of ours needs, and which may not be set back."""


@contextmanager
def drawn_by(style: Mapping[str, Any]) -> Iterator[None]:
    """Draw with the library's standard settings and some of our own, for as long as the block runs."""
    import matplotlib  # takes a while to import, and most processes draw nothing

    standard = {name: value for name, value in matplotlib.rcParamsDefault.items() if name not in _OF_WINDOWS}
    with matplotlib.rc_context({**standard, **style}):
        yield
