"""Progress of a command: a bar on a terminal, with rate and time left, and nothing elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from blockveil.flows.runs.pace import pace
from blockveil.pipeline.base.printable import one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressLine:
    """One line that is drawn anew on a terminal; silent elsewhere. Its last words are "done", unless the work failed.

    It shows shares and never a number of rows: that number can be private, and terminals are recorded.
    """

    def __init__(self) -> None:
        self._live, self._stage, self._began = sys.stderr.isatty(), "", time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, stage: str, share: float | None) -> None:
        """Show a stage, and how far and how fast it goes where that is known."""
        if not self._live:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began = stage, now
        self._show(stage, share, "" if share is None else pace(share, now - self._began))

    def _show(self, stage: str, share: float | None, speed: str) -> None:
        progress, task = self._bar = self._bar or _bar()
        progress.tasks[task].total = None if share is None else 1.0  # an update keeps the old total in place of None
        progress.update(task, description=one_line(stage), completed=share or 0.0)
        progress.update(task, speed=speed, refresh=share in (None, 1.0))  # else a thread draws some times a second

    def __enter__(self) -> ProgressLine:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the line."""
        if self._bar is not None:
            if kind is None:
                self._show("done", 1.0, "")
            self._bar[0].stop()


def _bar() -> tuple[Progress, TaskID]:
    # Imported where a person waits: a start in a pipe does not pay for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}", markup=False),
        console=Console(file=sys.stderr),
        refresh_per_second=8,
    )
    progress.start()
    return progress, progress.add_task("", total=None, speed="")
