"""How long each stage of a run takes, for ``--timings``."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAGES = (
    ("reserving the budget", "ledger"),
    ("starting workers", "cluster"),
    ("reading", "sums"),
    ("training", "training"),
    ("committing the charge", "ledger"),
    ("drawing the noise", "noise and writing"),
    ("closing", "digest"),
    ("publishing", "publishing"),
    ("sending", "sending"),
    ("sealing", "ledger"),
    ("writing the report", "report"),
    ("starting Prefect", "Prefect"),
    ("stopping Prefect", "Prefect"),
)
"""How what a run says of its stage begins, and what the stage is called; anything else belongs to the stage before.

The ledger's stage is to reserve, to commit and to seal the charge: with the identity of the records, which a charge is
for, and the key.
"""


class StageTimes:
    """Adds up the time of each stage, from the start of this process on."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {"start and imports": _age()}
        self._stage, self._since = "", time.perf_counter()

    def begin(self, stage: str) -> None:
        """End a stage, and begin another one."""
        now = time.perf_counter()
        if self._stage:
            self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def heard(self, text: str) -> None:
        """Begin the stage that a run speaks of."""
        stage = next((stage for words, stage in _STAGES if text.startswith(words)), self._stage)
        if stage != self._stage:
            self.begin(stage)

    def seconds(self) -> dict[str, float]:
        """Seconds of each stage in the order in which they began."""
        self.begin("")
        return dict(self._seconds)


def in_words(seconds: dict[str, float]) -> list[tuple[str, str]]:
    """Lines (what, value)."""
    total = [("Time", f"{sum(seconds.values()):.1f} s in all")]
    return [*total, *((f"  {stage}", f"{took:.1f} s") for stage, took in seconds.items())]


def _age() -> float:
    """Seconds since this process began; of its processor time where the system does not say."""
    try:
        # The name of the program, in brackets, may hold blanks. The twentieth number after it is in ticks since boot.
        began = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, float(Path("/proc/uptime").read_text().split()[0]) - began)
    except (OSError, ValueError, IndexError):
        return time.process_time()
