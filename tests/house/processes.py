"""Shares tests out among processes that part once all tests are collected: ``pytest --processes N``.

Imports and thousands of cases are collected once, and what caches hold by then is there in every process. A process
takes one group of tests after the other, so that tests of a file share what they start. One that dies fails the test
that it was running, and another takes its place.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import psutil
import pytest
from _pytest.reports import TestReport


@dataclass(eq=False)
class _Process:
    """A process of tests: its end of a pipe, its number, and the group that it runs."""

    pipe: Connection
    number: int
    pid: int = 0
    left: deque[Any] = field(default_factory=deque)


class Processes:
    """The plugin that replaces the loop over tests.

    Parameters
    ----------
    count
        Number of processes.
    group_of
        Name that tests of one process have in common, by the name of a test.
    begin
        Called with its number in each process before its first test.
    measured
        Whether to look at the processor's time before and after each test.

    Attributes
    ----------
    costs
        Seconds of a processor that each test took so far, in this process and those that it started; and each fixture
        that tests share, which no test's seconds hold.
    """

    def __init__(
        self, count: int, group_of: Callable[[str], Hashable], begin: Callable[[int], None], measured: bool = False
    ) -> None:
        self._count, self._group_of, self._begin, self._measured = count, group_of, begin, measured
        self._waiting, self._running = deque[list[Any]](), dict[Connection, _Process]()
        self.costs = defaultdict[str, float](float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Run all tests that were collected."""
        if session.config.option.collectonly or session.testsfailed:
            return None  # pytest's own loop says so
        groups = dict[Hashable, list[Any]]()
        for item in session.items:
            groups.setdefault(self._group_of(item.nodeid), []).append(item)
        self._waiting.extend(groups.values())
        self._running.clear()
        try:
            for number in range(min(self._count, len(groups))):
                self._start(session, number)
            while self._running:
                for pipe in wait(list(self._running)):
                    self._hear(session, self._running[pipe])  # type: ignore[index]
        finally:
            for process in self._running.values():
                os.kill(process.pid, 15)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _start(self, session: Any, number: int) -> None:
        mine, its = Pipe()
        with warnings.catch_warnings():
            # Python 3.12 and later warn where libraries have threads of their own; none of them holds a lock here.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = _Process(mine, number, os.fork())
        if process.pid == 0:
            for other in (mine, *self._running):
                other.close()
            _work(session, its, number, self._begin, self._measured)
        its.close()
        self._running[mine] = process

    def _hear(self, session: Any, process: _Process) -> None:
        try:
            kind, data = process.pipe.recv()
        except EOFError:
            self._ended(session, process)
            return
        if kind == "more":
            group = None if session.shouldfail or session.shouldstop or not self._waiting else self._waiting.popleft()
            process.left.extend(group or ())
            process.pipe.send(None if group is None else [session.items.index(item) for item in group])
        elif kind == "report":
            hook = session.config.hook
            report = hook.pytest_report_from_serializable(config=session.config, data=data)
            hook.pytest_runtest_logreport(report=report)
            if report.failed:  # nobody has to wait for the end to know
                session.config.pluginmanager.getplugin("terminalreporter").write_line(f"\nFAILED {report.nodeid}")
        elif kind == "done":
            whole, shared = data
            self.costs[process.left.popleft().nodeid] += whole - sum(shared.values())
            for name, seconds in shared.items():
                self.costs[name] += seconds
        else:
            process.left.clear()

    def _ended(self, session: Any, process: _Process) -> None:
        """Fail the test that a process died of, and let another one run what it has left."""
        del self._running[process.pipe]
        process.pipe.close()
        _, status = os.waitpid(process.pid, 0)
        if not process.left:
            return
        item = process.left.popleft()
        words = f"its process ended with {os.waitstatus_to_exitcode(status)}"
        report = TestReport(item.nodeid, item.location, {}, "failed", words, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        if process.left:
            self._waiting.appendleft(list(process.left))
        if self._waiting and not (session.shouldfail or session.shouldstop):
            self._start(session, process.number)


def _work(session: Any, pipe: Connection, number: int, begin: Callable[[int], None], measured: bool) -> None:
    """Run groups of tests until there is none left; the end of this process."""
    code = 1
    try:
        atexit._clear()  # what the first process does at its end is not for this one
        config = session.config
        reporter, capture = (config.pluginmanager.getplugin(name) for name in ("terminalreporter", "capturemanager"))
        reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 - until the end
        _write_apart(capture)
        session.config.pluginmanager.register(_Reports(config, pipe), "reports to the first process")
        begin(number)
        _run(session, pipe, measured)
        code = 0
    except BaseException as problem:  # whatever it is, this process ends here
        os.write(2, f"a process of tests ended: {problem!r}\n".encode())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def _write_apart(capture: Any) -> None:
    """Let what tests print go to files of this process alone.

    Loggers hold the streams that pytest gave them while tests were collected. So these streams stay, and the files
    below them are exchanged.
    """
    for part in (capture._global_capturing.out, capture._global_capturing.err):
        if hasattr(part, "targetfd"):  # not with -s
            with tempfile.TemporaryFile() as own:
                for there in (part.tmpfile.fileno(), part.targetfd):
                    os.dup2(own.fileno(), there)


def _run(session: Any, pipe: Connection, measured: bool) -> None:
    def more() -> Sequence[Any]:
        pipe.send(("more", None))
        return [session.items[place] for place in pipe.recv() or ()]

    shared = _SharedFixtures()
    if measured:
        session.config.pluginmanager.register(shared, "costs of fixtures")
    queue = deque(more())
    while queue:
        item = queue.popleft()
        if not queue:
            queue.extend(more())
        before = _processor_seconds() if measured else 0.0
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=queue[0] if queue else None)
        pipe.send(("done", (_processor_seconds() - before if measured else 0.0, dict(shared.costs))))
        shared.costs.clear()
        if session.shouldfail or session.shouldstop:
            pipe.send(("stopped", None))
            return


def _processor_seconds() -> float:
    """What this process and all that it started have taken, servers among them that still run."""
    seconds = sum(os.times()[:4])
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            seconds += sum(process.cpu_times()[:4])
    return seconds


class _SharedFixtures:
    """Measures what tests share: setting it up, and tearing it down again."""

    def __init__(self) -> None:
        self.costs = defaultdict[str, float](float)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Measure a fixture of several tests; its last finalizer runs first."""
        if fixturedef.scope == "function":
            return (yield)
        name = f"{fixturedef.baseid}::{fixturedef.argname}"
        before, after = [_processor_seconds()], list[float]()

        def count(begun: list[float]) -> None:
            self.costs[name] += _processor_seconds() - begun.pop()

        fixturedef.addfinalizer(lambda: count(after))
        try:
            return (yield)
        finally:
            count(before)
            fixturedef.addfinalizer(lambda: after.append(_processor_seconds()))


class _Reports:
    """Sends what happened to the first process."""

    def __init__(self, config: Any, pipe: Connection) -> None:
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Send the report of a part of a test."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))
