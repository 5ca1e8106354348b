"""Tests that processes share out: each is run once and heard, and none is lost with a process that dies."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests.house.processes import Processes

def pytest_configure(config):
    group_of, begin = lambda test: test.partition("::")[0], lambda number: None
    config.pluginmanager.register(Processes({count}, group_of, begin, {measured}))
"""


def run(folder, count, *words, measured=False, **files):
    (folder / "conftest.py").write_text(CONFTEST.format(root=str(ROOT), count=count, measured=measured))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", *words, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


NOTES = """
import os, pathlib
def note(name):
    with open(pathlib.Path(__file__).parent / "notes", "a") as notes:
        notes.write(f"{name} {os.getpid()}\\n")
"""


def test_each_test_is_run_once_in_the_process_of_its_file(tmp_path):
    tests = f"import pytest\n{NOTES}\n@pytest.mark.parametrize('n', range(5))\ndef test_a(n): note(__name__)\n"
    done = run(tmp_path, 2, **{f"test_{name}": tests for name in "abc"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed" in done.stdout
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    assert len(notes) == 15
    assert len({process for _, process in notes}) == 2
    assert all(len({process for name, process in notes if name == file}) == 1 for file, _ in notes)


def test_what_fails_is_skipped_or_says_something_is_heard(tmp_path):
    tests = (
        "import pytest, sys\ndef test_right(): print('not shown')\n"
        "def test_wrong():\n    print('in the test', file=sys.stderr)\n    assert 1 == 2\n"
        "def test_left_out(): pytest.skip('for a reason')\n"
    )
    done = run(tmp_path, 3, "-rs", test_a=tests, test_b="def test_right(): pass\n")
    assert done.returncode == 1
    assert "1 failed, 2 passed, 1 skipped" in done.stdout
    assert all(words in done.stdout for words in ("assert 1 == 2", "in the test", "for a reason"))
    assert "not shown" not in done.stdout


def test_a_process_that_dies_fails_the_test_that_it_ran_and_no_other(tmp_path):
    tests = "import os\ndef test_1(): pass\ndef test_2(): os._exit(7)\ndef test_3(): pass\n"
    done = run(tmp_path, 2, test_a=tests, test_b="def test_1(): pass\n")
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout
    assert "its process ended with 7" in done.stdout


def test_none_is_begun_after_the_first_that_fails_where_that_is_asked_for(tmp_path):
    tests = "import time\ndef test_1(): assert False\ndef test_2(): time.sleep(1)\ndef test_3(): pass\n"
    done = run(tmp_path, 1, "-x", test_a=tests, test_b="def test_1(): pass\n")
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout


def test_what_is_shared_by_a_file_or_a_process_is_ended_with_it(tmp_path):
    tests = (
        f"import pytest\n{NOTES}\n@pytest.fixture(scope='module')\ndef shared():\n    yield\n    note('ended')\n"
        "def test_1(shared): pass\ndef test_2(shared): note('used')\n"
    )
    assert run(tmp_path, 2, test_a=tests, test_b=tests).returncode == 0
    assert [line.split()[0] for line in (tmp_path / "notes").read_text().splitlines()].count("ended") == 2


COSTS = """
def pytest_sessionfinish(session):
    costs = next(each.costs for each in session.config.pluginmanager.get_plugins() if hasattr(each, "costs"))
    print("".join(f"{name} {seconds}\\n" for name, seconds in costs.items()))
"""


WORK = """
import os
def work():
    end = sum(os.times()[:4]) + 0.5
    while sum(os.times()[:4]) < end: pass
"""
SERVER = "import sys, test_a\nfor line in sys.stdin: test_a.work(); print(flush=True)"


def test_what_tests_share_has_its_own_costs_and_a_server_of_theirs_those_of_the_test_that_asks_it(tmp_path):
    tests = (
        f"import pytest, subprocess, sys\n{WORK}\n@pytest.fixture(scope='module')\ndef server():\n    work()\n"
        f"    command, pipe = [sys.executable, '-c', {SERVER!r}], subprocess.PIPE\n"
        "    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server: yield server\n    work()\n"
        "def ask(server): print(file=server.stdin, flush=True); server.stdout.readline()\n"
        "def test_1(server): pass\ndef test_2(server): ask(server)\ndef test_3(server): pass\n"
    )
    (tmp_path / "prints.py").write_text(COSTS)
    done = run(tmp_path, 1, "-s", "-p", "prints", measured=True, test_a=tests)
    assert done.returncode == 0, done.stdout + done.stderr
    words = (line.split() for line in done.stdout.splitlines() if "test_a.py::" in line)
    costs = {name.rpartition("::")[2]: float(seconds) for name, seconds in words}
    assert costs.keys() == {"server", "test_1", "test_2", "test_3"}
    assert costs["server"] > 0.9
    assert costs["test_2"] > 0.4 > costs["test_3"]


def test_a_stream_that_a_logger_took_during_the_collection_is_written_to_and_shown(tmp_path):
    tests = (
        "import logging, sys\nhandler = logging.StreamHandler(sys.stderr)\n"
        "def test_1():\n    handler.emit(logging.makeLogRecord({'msg': f'said by {__name__}'}))\n    assert False\n"
    )
    done = run(tmp_path, 2, test_a=tests, test_b=tests)
    assert "2 failed" in done.stdout
    assert all(f"said by test_{name}" in done.stdout for name in "ab")
    assert "closed file" not in done.stdout + done.stderr
