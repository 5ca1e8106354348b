"""The process of a Prefect server: it wants a login, and its log has an end."""

import os
import subprocess
import sys

import pytest

WRITING = """
import sys
from pathlib import Path
from blockveil.flows.service.start_server import rotate
log = Path(sys.argv[1])
for number in range(200):
    print("a line", number, "x" * 50, file=(sys.stdout, sys.stderr)[number % 2], flush=True)
    rotate(log, 1000)
"""


def test_a_log_is_set_aside_once_it_is_large_and_two_files_have_the_end_of_it(tmp_path):
    log = tmp_path / "server.log"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", WRITING, str(log)], stdout=file, stderr=file, check=True, timeout=60)
    before = log.with_name("server.log.1")
    assert sorted(tmp_path.iterdir()) == [log, before]
    assert log.stat().st_size < 1000 <= before.stat().st_size < 1100
    numbers = [int(line.split()[2]) for line in (before.read_text() + log.read_text()).splitlines()]
    assert numbers == list(range(numbers[0], 200)), "no line is lost or broken between them"


@pytest.mark.parametrize("login", [None, "  "])
def test_no_server_starts_without_a_login(tmp_path, login):
    environment = {name: value for name, value in os.environ.items() if "AUTH_STRING" not in name}
    environment |= {"PREFECT_HOME": str(tmp_path)} | (
        {} if login is None else {"PREFECT_SERVER_API_AUTH_STRING": login}
    )
    words = [sys.executable, "-P", "-m", "blockveil.flows.service.start_server", "--port", "0"]
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert "PREFECT_SERVER_API_AUTH_STRING is not set" in done.stderr
