"""Progress of a command, as one line of the terminal."""

from __future__ import annotations

import sys
import time

from blockveil.flows.runs.pace import pace
from blockveil.pipeline.base.printable import one_line


class ProgressLine:
    """One line that is rewritten on a terminal; silent elsewhere. Its last words are "done", unless the work failed."""

    def __init__(self) -> None:
        self._live, self._started, self._open = sys.stderr.isatty(), time.monotonic(), False
        self._stage, self._began = "", self._started

    def __call__(self, stage: str, share: float | None) -> None:
        """Show a stage, and how far and how fast it goes where that is known."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began = stage, now
        done = "" if share is None else f" {100 * share:3.0f} %, {pace(share, now - self._began)}"
        self._show(f"{stage}{done}")

    def _show(self, text: str) -> None:
        if self._live:
            sys.stderr.write(f"\r\x1b[K{time.monotonic() - self._started:5.1f} s  {one_line(text)}")
            sys.stderr.flush()
            self._open = True

    def __enter__(self) -> ProgressLine:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the line."""
        if self._open:
            if kind is None:
                self._show("done")
            sys.stderr.write("\n")
