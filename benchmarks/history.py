"""Run the benchmarks with a peer and append what they print to ``history.jsonl``: ``make bench``.

A line is one benchmark: the day, the commit, what it ran on, and its printed lines, so that a ratio can be followed
from version to version on one machine. ``python -m benchmarks.history noise gram`` runs these alone.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "benchmarks" / "history.jsonl"
WITH_A_PEER = ("noise", "quantise", "gram", "sparse", "columns", "ingest")
"""Those that take a minute or so and print ratios against a peer in the same run."""


def entry(name: str) -> dict[str, object]:
    """Run a benchmark; what the file keeps of it.

    Raises
    ------
    subprocess.CalledProcessError
        It failed: nothing is kept of it.
    """
    words = [sys.executable, "-m", f"benchmarks.{name}"]
    printed = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    machine, *lines = printed.splitlines()
    return {
        "benchmark": name,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.strip(),
        "python": platform.python_version(),
        "machine": machine,
        "lines": lines,
    }


def main(names: list[str]) -> None:
    """Append an entry for each."""
    for name in names:
        found = json.dumps(entry(name), ensure_ascii=False)
        with FILE.open("a") as file:
            file.write(found + "\n")
        print(found, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(WITH_A_PEER))
