"""Imports are not held up by a search for garbage, which is there again when they are done."""

import contextlib
import gc
import subprocess
import sys

import pytest

from blockveil.flows.base.imports import uncollected
from blockveil.flows.cli import commands

START = """
import gc, runpy, sys
import blockveil.flows.service

class Looking:
    def find_spec(self, name, *_):
        if name == "blockveil.flows.service.child":
            print("imported while the collector is", gc.isenabled())

sys.meta_path.insert(0, Looking())
try:
    runpy.run_module("blockveil.flows.service.start_child", run_name="__main__")
except KeyError as missing:
    print(missing, "is asked for while the collector is", gc.isenabled())
"""


@pytest.fixture(autouse=True)
def thawed():
    """What the tests freeze is looked through again."""
    yield
    gc.unfreeze()


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_is_off_while_something_is_imported_and_then_as_it_was(before):
    was = gc.isenabled()
    try:
        gc.enable() if before else gc.disable()
        with contextlib.suppress(ImportError), uncollected():
            during = gc.isenabled()
            raise ImportError
        assert (during, gc.isenabled()) == (False, before)
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable() if was else gc.disable()


def test_a_command_is_imported_so(monkeypatch):
    seen, import_module = [], commands.import_module
    monkeypatch.setattr(commands, "import_module", lambda name: seen.append(gc.isenabled()) or import_module(name))
    commands.load("plan")
    assert (seen, gc.isenabled()) == ([False], True)


def test_the_process_of_a_run_imports_what_it_needs_so():
    told = subprocess.run([sys.executable, "-P", "-c", START], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        "imported while the collector is False",
        "'PREFECT__FLOW_RUN_ID' is asked for while the collector is True",
    ]
