"""The tests that reach a file by what they import, the nearest first: ``make test-of FILE=engine/noise/keyring.py``.

Most files are reached by most tests in the end. So tests are taken by how many imports lie between, as many as take
:data:`SECONDS` of a processor together; ``make test`` has the others.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.house.order import COSTS, ROOT, file_of, is_costly

SECONDS = 15.0
"""How much the tests may take together, by tests/costs.txt; imports come on top."""

_FOLDERS = {"blockveil": ROOT / "src" / "blockveil", "tests": ROOT / "tests", "benchmarks": ROOT / "benchmarks"}
_LEAST = 0.05
"""Seconds of a file of tests of which nothing is listed."""


def modules() -> dict[str, Path]:
    """All modules of product, tests and benchmarks, with their files below the project."""
    found = {}
    for package, folder in _FOLDERS.items():
        # The product's folders are links, which one search does not follow.
        for path in (*folder.glob("*.py"), *(each for part in folder.iterdir() for each in part.rglob("*.py"))):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = path.resolve().relative_to(ROOT)
    return found


_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n(#]+))", re.MULTILINE)
_NAMED = re.compile(r"^[ \t]*import[ \t]+([\w.]+)|\"((?:blockveil|tests)\.[\w.]+)[\":]", re.MULTILINE)


def imports(path: Path, known: Collection[str]) -> Iterator[str]:
    """Modules that a file imports, at the top or within functions, or names in a text."""
    text = (ROOT / path).read_text()
    for found in _FROM.finditer(text):
        parts = [f"{found[1]}.{name.split()[0]}" for name in (found[2] or found[3]).split(",") if name.strip()]
        yield from (part if part in known else found[1] for part in parts)
    for found in _NAMED.finditer(text):
        name = found[1] or found[2]
        while name and name not in known:
            name = name.rpartition(".")[0]
        yield name


def reached_by(file: Path) -> dict[Path, int]:
    """Files of tests that reach a file, and by how many imports: none for itself, one where they import it."""
    known = modules()
    importers = defaultdict(set)
    for path in known.values():
        for name in imports(path, known):
            if name in known:
                importers[known[name]].add(path)
    steps, next_ones, found = 0, {file}, dict[Path, int]()
    while next_ones:
        found |= dict.fromkeys(next_ones, steps)
        steps += 1
        next_ones = {each for path in next_ones for each in importers[path]} - found.keys()
    return {path: steps for path, steps in found.items() if path.match("test_*.py")}


def cost_of(path: Path) -> float:
    """Seconds of a processor that the tests of a file take which ``make test`` runs."""
    listed = [seconds for test, seconds in COSTS.items() if file_of(test) == str(path) and not is_costly(test)]
    return max(sum(listed), _LEAST)


def nearest(file: Path, seconds: float = SECONDS) -> tuple[list[Path], int]:
    """The nearest files of tests, at least one, that take so many seconds together, and how many reach the file."""
    steps = reached_by(file)
    taken, total = [], 0.0
    for path in sorted(steps, key=lambda each: (steps[each], cost_of(each), each)):
        total += cost_of(path)
        if taken and total > seconds:
            break
        taken.append(path)
    return taken, len(steps)


def main(name: str) -> None:
    """Print the tests for one file; how many they are goes to standard error."""
    file = Path(name).resolve()
    if not file.is_relative_to(ROOT) or file.suffix != ".py" or not file.is_file():
        sys.exit(f"{name} is no module of the project. Name one, such as engine/noise/keyring.py.")
    taken, reaching = nearest(file.relative_to(ROOT))
    if not taken:
        sys.exit(f"No test imports {name}, by any way. `make test` runs all.")
    print(f"{len(taken)} of the {reaching} files of tests that reach {name}; `make test` has them all", file=sys.stderr)
    print(*taken, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
