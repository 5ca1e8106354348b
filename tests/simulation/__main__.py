"""Run schedules of a range of seeds: ``python -m tests.simulation --seeds 0-9999``.

With ``--copied`` older copies of the ledger are put back. With ``--progress FILE`` an interrupted range goes on where
it stopped. Of a seed that fails the broken rule is printed; ``--seeds N --trace`` runs it again alone and prints every
step.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.simulation.schedule import Schedule
from tests.simulation.world import Violation


def main() -> int:
    """Run them; 1 where an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="nights under faults, by seed")
    parser.add_argument("--seeds", default="0-999", help="first and last seed, such as 0-9999")
    parser.add_argument("--progress", type=Path, help="file that keeps how far the range has come")
    parser.add_argument("--copied", action="store_true", help="put older copies of the ledger back")
    parser.add_argument("--trace", action="store_true", help="print every step of each schedule")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    begin, end = int(first), int(last or first)
    if asked.progress is not None:
        asked.progress.parent.mkdir(parents=True, exist_ok=True)
    if asked.progress is not None and asked.progress.exists():
        begin = max(begin, int(asked.progress.read_text()) + 1)
    return _range(begin, end, asked.progress, copied=asked.copied, trace=asked.trace)


def _range(begin: int, end: int, progress: Path | None, *, copied: bool, trace: bool) -> int:
    started, failed, moments, steps = time.monotonic(), 0, Counter[str](), 0
    for seed in range(begin, end + 1):
        schedule = Schedule(seed, copied=copied)
        schedule.world.log = [] if trace else None
        try:
            schedule.run()
        except Violation as violation:
            failed += 1
            print(f"seed {seed}: {violation}", flush=True)
        if trace:
            print("\n".join(schedule.world.log or []))
        moments.update(schedule.watcher.moments)
        steps += schedule.world.steps
        if seed % 100 == 0 or seed == end:
            if progress is not None:
                progress.write_text(f"{seed}\n")
            done = seed - begin + 1
            rate = 60 * done / max(time.monotonic() - started, 1e-9)
            print(f"{seed}: {done} schedules, {steps} steps, {rate:.0f} a minute, {failed} failed", flush=True)
    print(f"what came up, by the number of schedules: {dict(sorted(moments.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
