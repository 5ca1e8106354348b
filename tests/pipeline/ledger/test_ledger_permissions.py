"""Who may write to a ledger in a file: its owner, and nobody else; and the line of those who do."""

import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.base.permissions import COMPANIONS, beside
from blockveil.pipeline.data import quickstart
from blockveil.pipeline.ledger import Ledger, writer_queue
from blockveil.testing.ledger_processes import race_when_busy
from blockveil.testing.ledger_support import grant, make, reserve
from tests.house import support, warm

NOBODY = 65534
root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another account")


def uses(ledger):
    """What opens a ledger, to read it or to write it."""
    return (
        lambda: reserve(ledger, "1"),
        lambda: ledger.budget("people"),
        ledger.verify,
        lambda: grant(ledger._url, 5.0),
    )


@pytest.mark.parametrize("ending", ["", *COMPANIONS])
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_refused(tmp_path, ending, mode):
    ledger = make(tmp_path)
    file = beside(tmp_path / "ledger.db", ending)
    file.touch()
    file.chmod(mode)
    for use in uses(ledger):
        with pytest.raises(LedgerError, match=f'file "{file.name}" has mode {mode:04o}') as caught:
            use()
        assert f"chmod {mode & ~0o022:04o}" in caught.value.remedy
    file.chmod(0o600)
    if ending in ("-wal", "-journal"):
        file.unlink()
    assert [entry.kind for entry in ledger.history()] == ["BUDGET"]
    assert reserve(ledger, "1").is_new


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_and_gets_no_ledger(tmp_path, mode):
    (tmp_path / "private").mkdir()
    ledger = make(tmp_path / "private")
    (tmp_path / "private").chmod(mode)
    for use in uses(ledger):
        with pytest.raises(LedgerError, match=f'folder "private" has mode {mode:04o}') as caught:
            use()
        assert f"chmod {mode & ~0o022:04o}" in caught.value.remedy
    (tmp_path / "new").mkdir()
    (tmp_path / "new").chmod(mode)
    with pytest.raises(LedgerError, match=f'folder "new" has mode {mode:04o}'):
        make(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("open_one", ["of the link", "of the file"])
def test_a_link_is_as_safe_as_both_of_its_folders(tmp_path, open_one):
    for name in ("link", "file"):
        (tmp_path / name).mkdir()
    make(tmp_path / "file")
    (tmp_path / "link" / "ledger.db").symlink_to(tmp_path / "file" / "ledger.db")
    ledger = Ledger(f"sqlite:///{tmp_path / 'link' / 'ledger.db'}")
    assert reserve(ledger, "1").is_new
    (tmp_path / open_one.split()[-1]).chmod(0o777)
    with pytest.raises(LedgerError, match="other accounts may write"):
        reserve(ledger, "2")


@pytest.mark.parametrize("way", ["by its name", "by a link"])
def test_a_folder_above_in_which_every_account_could_put_an_older_ledger_is_refused(tmp_path, way):
    """Its owner's own backup is enough: renamed, it belongs to the right account, and its chain is whole."""
    above = tmp_path / "above"
    (above / "state" / "inner").mkdir(parents=True)
    made = make(above / "state" / "inner")
    shutil.copytree(above / "state", above / "backup")
    assert reserve(made, "1").is_new
    (tmp_path / "link").symlink_to(above / "state" / "inner" / "ledger.db")
    ledger = made if way == "by its name" else Ledger(f"sqlite:///{tmp_path / 'link'}")
    above.chmod(0o777)
    (above / "state").rename(above / "gone")
    (above / "backup").rename(above / "state")
    for use in uses(ledger):
        with pytest.raises(LedgerError, match='folder "above" above the ledger\'s has mode 0777') as caught:
            use()
        assert "chmod 0775" in caught.value.remedy
    above.chmod(0o1777)
    assert ledger.budget("people").charges == 0, "it was put there: in a sticky folder nobody could have"


@root_alone
@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-lock", "."])
def test_a_ledger_of_another_account_is_read_and_not_written(tmp_path, name):
    ledger = make(tmp_path)
    os.chown(tmp_path / name, NOBODY, NOBODY)
    for use in (lambda: reserve(ledger, "1"), lambda: grant(ledger._url, 5.0)):
        with pytest.raises(LedgerError, match=f"belongs to another account \\(number {NOBODY}\\)"):
            use()
    assert ledger.budget("people").charges == 0


def test_where_a_group_may_write_by_default_a_new_ledger_is_for_its_owner_alone(tmp_path):
    """As on systems where each user has a group of their own."""
    code = (
        "import os, sys\nos.umask(0o002)\nfrom pathlib import Path\n"
        "from blockveil.testing.ledger_support import grant, reserve\n"
        "reserve(grant(f'sqlite:///{sys.argv[1]}/a/b/ledger.db'), '1')\n"
        "from blockveil.pipeline.data import quickstart\n"
        "quickstart.write_records(Path(sys.argv[2]), Path(sys.argv[1]) / 'demo' / 'records.zarr')\n"
        "reserve(grant(f'sqlite:///{sys.argv[1]}/demo/ledger.db'), '1')\n"
    )
    made = warm.run(code, str(tmp_path), str(quickstart.SOURCE))
    assert made.returncode == 0, made.stderr
    for name in ("a/b", "demo"):
        assert (tmp_path / name).stat().st_mode & 0o022 == 0
        assert {file.stat().st_mode & 0o777 for file in (tmp_path / name).glob("ledger.db*")} == {0o600}


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_journal_without_its_ledger_is_refused(tmp_path, ending):
    """SQLite would play what it holds into a new one."""
    beside(tmp_path / "ledger.db", ending).write_bytes(b"what was committed last")
    with pytest.raises(LedgerError, match=f'"ledger.db{ending}" is there, and "ledger.db" is not'):
        make(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [f"ledger.db{ending}"]


def test_the_command_line_says_what_to_do(tmp_path):
    loaded = support.prepare(tmp_path)
    loaded.ledger_path.chmod(0o666)
    found = CliRunner().invoke(app, ["ledger", "budget", str(loaded.path)])
    assert isinstance(found.exception, LedgerError)
    assert "chmod 0644" in str(found.exception)


def test_of_32_processes_none_fails_while_the_cores_are_busy(tmp_path):
    ledger = make(tmp_path, 1000.0)
    said = race_when_busy(ledger._url, 32, busy=2)
    assert said == ["new"] * 32
    budget = ledger.budget("people")
    assert budget.charges == 32
    assert ledger.verify().problems == []


def test_who_stands_in_the_line_waits_for_who_is_served_and_not_longer(tmp_path, monkeypatch):
    ledger = make(tmp_path)
    monkeypatch.setattr(writer_queue, "WAIT_SECONDS", 0.2)
    with writer_queue.in_turn(tmp_path / "ledger.db-lock"):
        with pytest.raises(LedgerError, match="stayed locked"):
            reserve(ledger, "1")
        assert ledger.budget("people").charges == 0, "who only reads waits for nobody"
    assert reserve(ledger, "1").is_new, "a place that was given up is not served afterwards"


def test_a_killed_process_gives_up_its_place(tmp_path):
    ledger = make(tmp_path)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom blockveil.pipeline.ledger import writer_queue\n"
        "with writer_queue.in_turn(Path(sys.argv[1])):\n    print('served', flush=True)\n    time.sleep(600)"
    )
    lock = tmp_path / "ledger.db-lock"
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "served\n"
        process.kill()
    assert reserve(ledger, "1").is_new


def test_a_process_that_is_forked_meanwhile_keeps_nobody_waiting(tmp_path):
    code = (
        "import os, sys, time\nfrom pathlib import Path\nfrom blockveil.pipeline.ledger import writer_queue\n"
        "writer_queue.WAIT_SECONDS = 30\nlock = Path(sys.argv[1])\n"
        "with writer_queue.in_turn(lock):\n    child = os.fork()\n    if child == 0:\n        time.sleep(600)\n"
        "with writer_queue.in_turn(lock):\n    os.kill(child, 9)\n"
    )
    done = warm.run(code, str(tmp_path / "lock"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["a link", "a folder"])
def test_a_ledger_whose_line_cannot_be_stood_in_is_written_without_it(tmp_path, way):
    """The line is for fairness; SQLite's own lock keeps writers apart."""
    ledger = make(tmp_path)
    lock = tmp_path / "ledger.db-lock"
    lock.unlink()
    lock.mkdir(mode=0o700) if way == "a folder" else lock.symlink_to(tmp_path / "elsewhere")
    assert reserve(ledger, "1").is_new
    assert not (tmp_path / "elsewhere").exists()
