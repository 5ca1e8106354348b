"""Settings of the whole run: a private Prefect home, deterministic property tests.

What keeps Prefect from reporting its use is set by the package itself, and here by its import.
"""

import atexit
import hashlib
import itertools
import os
import shutil
import sqlite3
import ssl
import tempfile
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import pytest

_HOME = tempfile.mkdtemp(prefix="blockveil-prefect-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.umask(0o022)  # folders of tests hold ledgers, which are refused where a group may write
os.environ.update(
    PREFECT_HOME=_HOME,
    OPENBLAS_NUM_THREADS="1",  # test processes share the cores; threads of each would wait for one another
)
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
from tests.order import ByFile, longest_first  # noqa: E402

# The same examples in every run, and none fails for being slow. HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


QUIETENED = ("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "PREFECT_SERVER_LOGGING_LEVEL")

_test, _number = "", itertools.count()


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin with what takes long."""
    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests out in that order."""
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _empty_database(config):
    """Where a Prefect server's database is kept as its migrations leave it: they take ten seconds of a core."""
    return config.cache.mkdir(f"prefect-{version('prefect')}") / "prefect.db"


def pytest_configure(config):
    """Let the servers that tests start in the private home find their tables made, from the second run on."""
    if hasattr(config, "cache") and _empty_database(config).exists():
        shutil.copyfile(_empty_database(config), Path(_HOME) / "prefect.db")


@pytest.fixture(scope="session")
def prefect(pytestconfig):
    """One Prefect server for all flow tests."""
    from prefect.client import orchestration
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness
    from prefect.types import _datetime

    contexts = mock.Mock(wraps=ssl, create_default_context=cache(ssl.create_default_context))
    folder = tempfile.mkdtemp(prefix="blockveil-prefect-server-")
    kept = _empty_database(pytestconfig) if hasattr(pytestconfig, "cache") else None
    if kept is not None and kept.exists():
        shutil.copyfile(kept, Path(folder) / "prefect-test.db")
    with (
        mock.patch("prefect.testing.utilities.mkdtemp", return_value=folder),
        # What Prefect asks the disk again and again: names of time zones, and every authority for each client.
        mock.patch.object(_datetime, "available_timezones", cache(_datetime.available_timezones)),
        mock.patch.object(orchestration, "ssl", contexts),
        prefect_test_harness(server_startup_timeout=120),
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),  # its thread costs a second a flow
    ):
        if kept is not None and not kept.exists():
            _keep_database(Path(folder) / "prefect-test.db", kept)
        yield


def _keep_database(made, kept):
    new = kept.with_name(f"{os.getpid()}.db")
    with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(new)) as copy:
        source.backup(copy)
    new.replace(kept)


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL server for all tests that need one; they are skipped, with the reason, where none can start."""
    from tests.postgres_server import CannotStart, PostgresServer

    try:
        server = PostgresServer()
    except CannotStart as reason:
        if os.environ.get("BLOCKVEIL_REQUIRE_POSTGRES"):
            raise
        pytest.skip(f"PostgreSQL cannot be started here: {reason}")
    yield server
    server.stop()
