"""Settings of the whole run: a private Prefect home, deterministic property tests.

What keeps Prefect from reporting its use is set by the package itself, and here by its import.
"""

import atexit
import gc
import hashlib
import itertools
import os
import shutil
import ssl
import sys
import tempfile
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

os.umask(0o022)  # folders of tests hold ledgers, which are refused where a group may write
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # test processes share the cores; threads of each would wait for one another


def own_home():
    """A new private home of Prefect and of the product's state, for the rest of this process; its folder."""
    home = tempfile.mkdtemp(prefix="blockveil-prefect-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(PREFECT_HOME=home, XDG_STATE_HOME=os.path.join(home, "state"))
    return Path(home)


HOME = own_home()
for _name in (
    "PREFECT_API_URL",
    "PREFECT_API_KEY",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_PROFILE",
    "BLOCKVEIL_CONFIG_ROOT",
):
    os.environ.pop(_name, None)

from hypothesis import settings  # noqa: E402 - after the environment is set

import blockveil.flows  # noqa: E402, F401 - before any test imports Prefect
from tests.house.in_memory import new_folder  # noqa: E402
from tests.house.order import (  # noqa: E402
    beyond_samples,
    is_costly,
    longest_first,
    may_be_costly,
    may_be_slow,
    share_of,
    shares_with,
)
from tests.house.prefect_tables import KEPT, tables  # noqa: E402
from tests.house.processes import Processes  # noqa: E402

# The same examples in every run, and none fails for being slow. HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


QUIETENED = ("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "PREFECT_SERVER_LOGGING_LEVEL")

_test, _number = "", itertools.count()
_slow_files = set()
_failed = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Start a test's secrets anew, so that they do not depend on the tests before it."""
    global _test, _number
    _test, _number = item.nodeid, itertools.count()


@pytest.fixture(autouse=True)
def as_loud_as_before():
    """A run quietens Prefect for its own process, which is that of the tests; children of later ones shall be heard."""
    before = {name: os.environ.get(name) for name in QUIETENED}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session", autouse=True)
def known_secrets():
    """The same noise in every run, so that what holds in 95 of 100 releases holds always or never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.releases.keys.token_bytes",
            lambda length: hashlib.sha256(f"{_test} {next(_number)}".encode()).digest()[:length],
        )
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage among what imports and thousands of tests leave in memory, which stays there."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path, config):
    """Import for slow and for costly tests only the files that can have some."""
    may_have_some = {"slow": may_be_slow, "costly and not slow": may_be_costly}.get(config.option.markexpr)
    return True if may_have_some and not may_have_some(collection_path) else None


def pytest_itemcollected(item):
    """Tell tests that took many seconds of a processor."""
    if is_costly(item.nodeid, item.fixturenames) and not item.get_closest_marker("slow"):
        item.add_marker(pytest.mark.costly)


def pytest_deselected(items):
    """Remember the files of slow tests, so that a test can see that none of them would be left out."""
    _slow_files.update(item.path for item in items if item.get_closest_marker("slow"))


@pytest.fixture(scope="session")
def slow_files():
    """Files of the slow tests that were collected and are not run."""
    return _slow_files


def pytest_addoption(parser):
    """Take a share of the tests, such as ``1/3``, and run it by several processes."""
    parser.addoption("--share", default="1/1", help="run one of several equal shares of the tests, such as 1/3")
    parser.addoption("--processes", type=int, default=0, help="number of processes that run tests")
    parser.addoption("--costs", help="file for the seconds that tests and fixtures of files took, the dearest first")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Let cases beyond a sample be slow before markers choose; then begin with what takes long, of one share."""
    quick = {item.nodeid: item for item in items if not item.get_closest_marker("slow")}
    for test in () if config.option.costs else beyond_samples(quick):  # all are measured
        quick[test].add_marker(pytest.mark.slow)
    yield
    longest_first(items)
    items[:] = share_of(items, config.option.share)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Where several processes are to run tests, begin to make the tables of their servers while they import.

    Folders of tests that are not slow are in memory then, where it has room.
    """
    if count := config.option.processes:
        making = threading.Thread(target=tables)
        making.start()
        folder = None if config.option.markexpr in ("", "slow") or config.option.basetemp else new_folder()
        if folder is not None:
            config.option.basetemp = folder / "tests"
            config.add_cleanup(lambda: None if _failed else shutil.rmtree(folder, ignore_errors=True))

        def begin(number):
            making.join()
            folders = config._tmp_path_factory
            folders._basetemp = folders.getbasetemp() / f"process-{number}"
            folders._basetemp.mkdir(exist_ok=True)
            shutil.copyfile(KEPT, own_home() / "prefect.db")
            if "prefect.context" in sys.modules:
                sys.modules["prefect.context"].refresh_global_settings_context()

        measured = config.option.costs is not None
        config.pluginmanager.register(Processes(count, shares_with, begin, measured), "processes")


def pytest_sessionfinish(session, exitstatus):
    """Remember whether somebody may want to look into the folders of tests that failed, and write what tests cost."""
    global _failed
    _failed = exitstatus == pytest.ExitCode.TESTS_FAILED
    if (file := session.config.option.costs) and (processes := session.config.pluginmanager.get_plugin("processes")):
        costs = Counter()
        for test, seconds in processes.costs.items():
            costs[test.partition("[")[0]] += seconds
        # What is shared by all files is of no file.
        listed = ((test, seconds) for test, seconds in costs.most_common() if seconds >= 0.5 and ".py::" in test)
        lines = [f"{seconds:.2f} {test}\n" for test, seconds in listed]
        Path(file).write_text("".join(lines))


def pytest_collection_finish(session):
    """Make the folder of all tests, and let servers in the private home find their tables, where these are known."""
    session.config._tmp_path_factory.getbasetemp()
    if KEPT.exists() and not session.config.option.collectonly:
        shutil.copyfile(KEPT, HOME / "prefect.db")


@pytest.fixture(scope="session")
def prefect():
    """One Prefect server for all flow tests."""
    from prefect.client import orchestration
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness
    from prefect.types import _datetime

    contexts = mock.Mock(wraps=ssl, create_default_context=cache(ssl.create_default_context))
    folder = tempfile.mkdtemp(prefix="blockveil-prefect-server-")
    shutil.copyfile(tables(), Path(folder) / "prefect-test.db")
    with (
        mock.patch("prefect.testing.utilities.mkdtemp", return_value=folder),
        # What Prefect asks the disk again and again: names of time zones, and every authority for each client.
        mock.patch.object(_datetime, "available_timezones", cache(_datetime.available_timezones)),
        mock.patch.object(orchestration, "ssl", contexts),
        prefect_test_harness(server_startup_timeout=120),
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),  # its thread costs a second a flow
    ):
        yield


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL server for all tests that need one; they are skipped, with the reason, where none can start."""
    from tests.house.postgres_server import CannotStart, PostgresServer

    try:
        server = PostgresServer()
    except CannotStart as reason:
        if os.environ.get("BLOCKVEIL_REQUIRE_POSTGRES"):
            raise
        pytest.skip(f"PostgreSQL cannot be started here: {reason}")
    yield server
    server.stop()
