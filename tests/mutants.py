"""Mistakes for the tests that guard promises: each is planted into the product, and its test must fail then.

``python -m tests.mutants [TEST...]`` runs all of them, or those of some tests or files of tests, and prints which are
found, and the seconds of the processor that each took; ``--why`` shows how the tests fail, and ``--without`` which
claims have none, and why. A mistake is a change of the source of one function, whose code is exchanged in place, so
that every caller makes the mistake; or another value of a number that a module has.

All tests are collected once. Then the process parts for each mistake, so that none meets what another left in memory.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import hypothesis

from tests.planted import engine, promises, records, releases, rules, service, study
from tests.planted.mutant import Mutant
from tests.planted.none import WHY_NONE

_TOPICS = (promises, study, engine, rules, records, releases, service)

MUTANTS = tuple(mutant for topic in _TOPICS for mutant in topic.MUTANTS)
"""One for each test of a numbered promise, and for one of the tests of each claim where that can be done cheaply."""

CRASHES = (AttributeError, IndentationError, NameError, SyntaxError, UnboundLocalError)
"""What a program that cannot run fails with: nobody would commit that, so a test which meets it has found nothing."""


_FIRST = (hypothesis.Phase.explicit, hypothesis.Phase.generate)


class _Planting:
    """Parts the process once the tests are collected, for each mistake in turn, and hears how its test ends."""

    def __init__(self, mutants: list[Mutant]) -> None:
        self._mutants, self._planted = mutants, ExitStack()
        self.parted, self._failed, self._crashed = False, False, False
        self.unfound, self.times = 0, list[float]()

    @property
    def finds(self) -> bool:
        """Whether the test of this process found its mistake."""
        return self._failed and not self._crashed

    def pytest_collection_finish(self, session: Any) -> None:
        """Go on with the tests of one mistake in a process of its own, and with none in the first."""
        for mutant in self._mutants:
            own = [item for item in session.items if mutant.runs(item.nodeid)]
            if (child := _fork()) == 0:
                self.parted, session.items[:] = True, own
                _forget()
                # Whatever example fails is found, and none is made smaller.
                hypothesis.settings.register_profile("planted", hypothesis.settings.default, phases=_FIRST)
                hypothesis.settings.load_profile("planted")
                self._planted.enter_context(mutant.planted())
                return
            self._hear(mutant, child)
        session.items.clear()

    def _hear(self, mutant: Mutant, child: int) -> None:
        _, status, used = os.wait4(child, 0)
        found = os.waitstatus_to_exitcode(status) == 0
        self.times.append(used.ru_utime + used.ru_stime)
        self.unfound += not found
        words = f"{mutant.where}: {mutant.old!r}, by {mutant.test}"
        _say(f"{'found' if found else 'NOT FOUND'}: {self.times[-1]:5.1f} s: {words}")

    def pytest_runtest_makereport(self, call: Any) -> None:
        """What only makes the program crash is no mistake."""
        self._crashed = self._crashed or (call.excinfo is not None and issubclass(call.excinfo.type, CRASHES))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that cannot be set up finds nothing."""
        self._failed = self._failed or (report.when == "call" and report.failed)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 and later warn where libraries have threads of their own; none of them works or holds a lock here.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


_OUT = os.dup(1)
"""Where what is printed goes while tests are silent."""


def _say(line: str) -> None:
    os.write(_OUT, f"{line}\n".encode())


def main(tests: list[str], known: Sequence[Mutant] = MUTANTS, *, why: bool = False) -> int:
    """Plant those of some tests, or all, and print seconds of the processor for each; 1 where one is not found.

    Parameters
    ----------
    tests
        Tests, or files of them; all where there are none.
    known
        All mistakes.
    why
        Whether the tests may say how they fail.
    """
    mutants = [each for each in known if not tests or {each.test, each.test.partition("::")[0]} & set(tests)]
    planting = _Planting(mutants)
    _run(planting, sorted({each.run or each.test for each in mutants}), "short" if why else "no")
    together, most = sum(planting.times) + time.process_time(), max(planting.times, default=0.0)
    _say(f"{len(mutants)} mistakes, {planting.unfound} not found; {together:.0f} s together, {most:.1f} s at most")
    return 1 if planting.unfound or len(planting.times) < len(mutants) else 0


def _run(planting: _Planting, tests: list[str], traces: str) -> None:
    import pytest

    # The warning is of plugins of pytest that are imported by now.
    quiet = ["-q", "-x", "--no-header", f"--tb={traces}", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as silent:
        if traces == "no":
            os.dup2(silent.fileno(), 1)
        try:
            pytest.main([*quiet, "-p", "no:cacheprovider", f"--basetemp={folder}/tests", *tests], plugins=[planting])
        finally:
            if planting.parted:
                os._exit(0 if planting.finds else 1)


def _forget() -> None:
    """Empty the caches of the product, which tests may have filled while they were collected."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("blockveil", "tests"):
            classes = [each for each in vars(module).values() if isinstance(each, type)]
            for owner in (module, *classes):
                for each in list(vars(owner).values()):
                    if isinstance(each, _lru_cache_wrapper):
                        each.cache_clear()


MEASURED = "it is measured"


def unguarded() -> dict[str, str]:
    """Identifiers of claims none of whose tests has a mistake of its own, and why; nothing if nobody said."""
    claims = tomllib.loads((Path(__file__).parents[1] / "docs" / "evidence.toml").read_text())["claim"]
    known, found = {mutant.test for mutant in MUTANTS}, dict[str, str]()
    for each in claims:
        shown = each.get("shown_by", ())
        if known.isdisjoint(shown):
            reasons = sorted({WHY_NONE.get(test, "") for test in shown} or {MEASURED})
            found[each["id"]] = "; ".join(reasons) if all(reasons) else ""
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--without"]:
        print("\n".join(f"{claim} ({why or 'nobody has said why'})" for claim, why in unguarded().items()))
    else:
        sys.exit(main([word for word in sys.argv[1:] if word != "--why"], why="--why" in sys.argv))
