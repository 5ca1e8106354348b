"""Processes that use a ledger and may be killed: forked from one clean server, so that each starts in milliseconds."""

import codecs
import contextlib
import io
import multiprocessing
import os
import pkgutil
import pwd
import signal
import sqlite3  # noqa: F401 - imported before a process gives up its rights
import sys
import tempfile

import sqlalchemy as sa

import blockveil.flows.cli
import blockveil.pipeline
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import BlockveilError, BudgetExhausted
from blockveil.pipeline.ledger import Ledger
from blockveil.testing.ledger_support import UNIT, reserve

WAIT = 120

_forked = multiprocessing.get_context("forkserver")
_modules = [
    module.name
    for package in (blockveil.flows.cli, blockveil.pipeline)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
"""What commands import when they run; imported once, by the server."""

_LATE = ("multiprocessing.pool", "concurrent.futures.process", "concurrent.futures.thread", "distributed")
"""What a run imports when it computes, which another account may not be allowed to read."""

_forked.set_forkserver_preload([__name__, "psycopg", *_LATE, *_modules])


def race(url, nights, parts=None):
    """Let one process for each night reserve at the same moment, each of its part of the records; their answers."""
    gate, queue = _forked.Barrier(len(nights)), _forked.Queue()
    parts = parts or [None] * len(nights)
    each = zip(nights, parts, strict=True)
    running = [_forked.Process(target=_race, args=(url, night, part, gate, queue)) for night, part in each]
    for process in running:
        process.start()
    answers = [queue.get(timeout=WAIT) for _ in running]
    for process in running:
        process.join(WAIT)
        assert process.exitcode == 0
    return answers


def _race(url, night, part, gate, queue):
    ledger = Ledger(url)
    gate.wait(WAIT)
    try:
        queue.put("new" if reserve(ledger, night, mu=0.1, part=part).is_new else "known")
    except BudgetExhausted:
        queue.put("exhausted")


def race_when_busy(url, processes, busy):
    """Let processes reserve at the same moment while others keep cores busy; their answers, sorted."""
    burning = [_forked.Process(target=_burn, daemon=True) for _ in range(busy)]
    for process in burning:
        process.start()
    try:
        return sorted(race(url, [f"night-{number}" for number in range(processes)]))
    finally:
        for process in burning:
            process.kill()
            process.join(WAIT)


def _burn():
    while True:
        pass


def as_nobody(commands, *, drop=True, tries=None):
    """Exit code and output of commands, by an account that owns nothing, or by this one.

    All modules were imported before the account is left, which may not be allowed to read them.
    """
    queue = _forked.Queue()
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o777)  # for files of libraries
        process = _forked.Process(target=_as_nobody, args=(commands, home, drop, tries, queue))
        process.start()
        answer = queue.get(timeout=WAIT)
        process.join(WAIT)
    return answer


def _as_nobody(commands, home, drop, tries, queue):
    from blockveil.flows.cli import main
    from blockveil.pipeline.ledger import read_only

    read_only._TRIES = tries or read_only._TRIES
    codecs.lookup("unicode-escape")  # with which templates are read
    os.environ["HOME"] = os.environ["MPLCONFIGDIR"] = os.environ["TMPDIR"] = home
    os.chdir(home)
    if drop:
        os.environ["XDG_STATE_HOME"] = os.path.join(home, "state")
    if drop and os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    answers_of_each = []
    for command in commands:
        sys.argv, shown, code = ["blockveil", *command], io.StringIO(), 0
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        answers_of_each.append((code, shown.getvalue()))
    queue.put(answers_of_each)


def reserve_without_rights(url):
    """Reserve as a user who owns nothing, for root may write what others may not; the answer of the ledger."""
    queue = _forked.Queue()
    process = _forked.Process(target=_reserve_without_rights, args=(url, queue))
    process.start()
    answer = queue.get(timeout=WAIT)
    process.join(WAIT)
    return answer


def _reserve_without_rights(url, queue):
    if os.geteuid() == 0:
        os.setuid(pwd.getpwnam("nobody").pw_uid)
    try:
        queue.put(f"booked {reserve(Ledger(url), '1')}")
    except BlockveilError as error:
        queue.put(f"{type(error).__name__}: {error}")


STEPS = {
    "reserve": lambda ledger, night, _: reserve(ledger, night),
    "commit": lambda ledger, _, charge: ledger.commit(charge, "check"),
    "released": lambda ledger, _, charge: ledger.released(charge, "digest", "place"),
    "void": lambda ledger, _, charge: ledger.void_if_reserved(charge, "reason"),
    "expire": lambda ledger, _, charge: ledger.expire("people", "9999", lambda other: other != charge),
    "grant": lambda ledger, epsilon, _: ledger.set_budget("people", float(epsilon), 1e-6, Neighbours.ADD_REMOVE, UNIT),
    "close": lambda ledger, address, _: ledger.close_for(address),
}


def attempt(url, step, night, charge, last):
    """Run a step in a process that is killed at its boundary number ``last``; whether it got to its end."""
    process = _forked.Process(target=_attempt, args=(url, step, night, charge, last))
    process.start()
    process.join(WAIT)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == 0


def _attempt(url, step, night, charge, last):
    ledger = Ledger(url)
    count = 0

    def boundary(*_):
        nonlocal count
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

    for event in ("begin", "before_cursor_execute", "after_cursor_execute", "commit"):
        sa.event.listen(ledger._database._engine, event, boundary)
    STEPS[step](ledger, night, charge)
    boundary()
