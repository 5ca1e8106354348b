"""The site of the documentation is built whole, without a warning and without another host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from blockveil.flows.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_there_with_every_command_key_and_call(site):
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"blockveil {name}" in commands for name in COMMANDS)
    keys = (site / "reference" / "keys.html").read_text()
    assert all(key in keys for key in ("rows_at_most", "neighbours", "norm_at_most", "missed_nights", "strictness"))
    python = (site / "reference" / "python.html").read_text()
    assert all(name in python for name in ("init", "plan", "budget", "run", "open_", "Release", "Ridge", "PCA"))
    assert (site / "docs" / "tutorial.html").exists()


@pytest.mark.slow
def test_no_page_fetches_anything_from_another_host(site):
    fetched = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["'](?:https?:)?//([^"'/]+)""")
    found = {page.name: fetched.findall(page.read_text()) for page in site.rglob("*.html")}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}
