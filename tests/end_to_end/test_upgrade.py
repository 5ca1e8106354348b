"""An upgrade with nights at work and waiting: the version before, this one, and a ledger between the two."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import blockveil
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests import support
from tests.end_to_end.served import COMMAND, kill_all, serve

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed = "all"
"""
GRANT = """
import sys
from pathlib import Path
from blockveil.pipeline.config import load_config
from tests import support
support.set_budget(load_config(Path(sys.argv[1])))
"""


@pytest.fixture
def earlier(tmp_path):
    """A folder with a package of other code, whose ledgers have the tables of the version before."""
    folder = tmp_path / "earlier"
    shutil.copytree(Path(blockveil.__file__).parent, folder / "blockveil", ignore=shutil.ignore_patterns("__pycache__"))
    database = folder / "blockveil" / "pipeline" / "ledger" / "database.py"
    text = database.read_text()
    assert 'REVISION = "0006"\n' in text
    database.write_text(text.replace('REVISION = "0006"\n', 'REVISION = "0005"\n', 1))
    (newest,) = (database.parent / "migrations" / "versions").glob("v0006_*.py")
    newest.unlink()
    return folder


def told(folder, *words):
    """What a command of the package in a folder says, and its exit code."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).resolve().parents[2]}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def dates(ledger, kind):
    return [entry.release_id[-10:] for entry in ledger.history() if entry.kind == kind]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nights_that_an_earlier_version_began_or_left_waiting_are_finished_by_this_one(tmp_path, earlier):
    support.write_records(tmp_path, support.records())
    config = support.write_config(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    code, said = told(earlier, sys.executable, "-c", GRANT, str(config))
    assert code == 0, said
    ledger, home = Ledger(load_config(config).ledger_url), tmp_path / "home"
    asked = {"release": "people", "mode": "release"}

    with serve(tmp_path, home, PYTHONPATH=str(earlier)) as served:
        pinned = served.ask("/deployments/name/release/people")["version"]
        begun = served.run("release/people", logical_date="2026-11-20", **asked)
        waiting = served.run("release/people", logical_date="2026-11-21", **asked)
        served.wait(lambda: dates(ledger, "RESERVED"), "the night does not begin")
        kill_all(served.process)
    assert "2026-11-21" not in dates(ledger, "RELEASED")

    with serve(tmp_path, home) as served:
        assert served.ask("/deployments/name/release/people")["version"] != pinned
        assert served.state(begun)["name"] == "Completed"
        code, said = told("", *COMMAND, "ledger", "upgrade", str(config))  # last, and with the service at work
        assert code == 0, said
        assert served.state(waiting)["name"] == "Completed"

    nights = ["2026-11-20", "2026-11-21"]
    assert sorted(dates(ledger, "RELEASED")) == sorted(dates(ledger, "COMMITTED")) == nights
    assert ledger.verify().problems == []
    # From then on the earlier one leaves it alone, and says with what to go on.
    release = (*COMMAND, "run", str(config), "--date", "2026-11-22", "--no-prefect")
    code, said = told(earlier, *release)
    assert code != 0
    assert "later version of Blockveil" in said
    assert "Use the later version" in said
    assert sorted(dates(ledger, "RESERVED")) == nights
