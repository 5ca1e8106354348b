"""An account that may not read or write something is told so, and nothing is spent, granted or passed over."""

import os
import pwd
import shutil
from datetime import date

import pytest

from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.testing.ledger_processes import as_nobody
from tests.flows.cli.test_cli import blockveil
from tests.house import support

NIGHT = "people/covariance/2026-11-20"


@pytest.fixture
def site(open_to_all):
    """A released night, which every account may read."""
    loaded = support.prepare(open_to_all)
    run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "test", lambda *_: None)
    loaded.ledger_path.chmod(0o644)
    return loaded


def give(path):
    """Give a folder and all in it to the other account, where this one can."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for each in [path, *path.rglob("*")]:
            os.chown(each, nobody.pw_uid, nobody.pw_gid)


def parts(root):
    """The pointer, the group and a chunk of the night."""
    (group,) = root.glob("people/covariance/*.zarr")
    return {"pointer": root / f"{NIGHT}.json", "group": group, "chunk": group / "covariance" / "c" / "0" / "0"}


@pytest.mark.parametrize("part", ["pointer", "group", "chunk"])
def test_a_release_that_may_not_be_read_is_not_called_damaged(site, part):
    closed, places = parts(site.output_root)[part], parts(site.output_root)
    closed.chmod(0)
    asked = [["verify", str(places["pointer"])], ["report", NIGHT, "--config", str(site.path)]]
    for code, told in as_nobody(asked):
        assert code != 0
        assert "no permission" in told
        assert "run the release again" not in told
        assert "Restore it" not in told
        assert "FAILS" not in told
        assert "not use it" not in told


def test_a_withdrawal_that_may_not_be_read_is_not_taken_for_none(site):
    """Its group may be named instead of the pointer, and lies there until it is removed."""
    places = parts(site.output_root)
    content = places["pointer"].read_bytes()
    assert blockveil("ledger", "withdraw", site.path, NIGHT, "--why", "wrong").returncode == 0
    assert places["pointer"].read_bytes() != content
    asked = [["verify", str(places["group"])]]
    ((code, told),) = as_nobody(asked)
    assert (code != 0, "wrong" in told) == (True, True)
    places["pointer"].chmod(0)
    ((code, told),) = as_nobody(asked)
    assert (code != 0, "no permission" in told) == (True, True)


@pytest.mark.parametrize("closed", ["people", "people/covariance", NIGHT + ".json"])
def test_no_budget_is_granted_anew_by_an_account_that_may_not_see_what_was_released(site, closed):
    own = site.path.parent / "own"
    own.mkdir()
    give(own)
    site.path.write_text(site.path.read_text().replace('"ledger.db"', '"own/ledger.db"'))
    grant = ["ledger", "grant", str(site.path), "--epsilon", "9", "--delta", "1e-5"]
    (site.output_root / closed).chmod(0)
    ((code, told),) = as_nobody([grant])
    assert code != 0
    assert "cannot be looked into" in told or "no permission" in told
    assert list(own.iterdir()) == []
    (site.output_root / closed).chmod(0o755)
    ((code, told),) = as_nobody([grant])
    assert (code != 0, "is not in this ledger" in told) == (True, True)


@pytest.mark.parametrize("closed", ["records.zarr", "records.zarr/records/c/3/0", "releases", "keys"])
def test_a_run_that_may_not_read_or_write_spends_nothing_and_says_so(open_to_all, closed):
    loaded = support.prepare(open_to_all)
    loaded.output_root.mkdir(exist_ok=True)
    loaded.resolve("keys", "output.keys").mkdir(mode=0o700, exist_ok=True)
    give(open_to_all)
    (open_to_all / closed).chmod(0)
    ((code, told),) = as_nobody([["run", str(loaded.path), "--no-prefect", "--date", "2026-11-20"]])
    assert code != 0
    assert "ermission" in told
    assert Ledger(loaded.ledger_url).budget("people").spent_mu == 0.0


@pytest.mark.parametrize("closed", ["people", "people/covariance"])
def test_no_folder_is_called_verified_of_which_a_part_may_not_be_seen(site, closed):
    """The rest is there to be seen, and holds."""
    root = site.output_root
    shutil.copytree(root / "people", root / "others")
    (root / closed).chmod(0o711)  # who knows the name of a file may read it
    ((code, told),) = as_nobody([["verify", str(root)]])
    assert (code, f'"{root / closed}" cannot be looked into' in told) == (7, True), told


def test_a_command_that_is_refused_a_file_names_it_and_what_would_help(site, tmp_path):
    pointer = site.output_root / f"{NIGHT}.json"
    period = ["--since", "2026-11-01", "--until", "2026-11-30"]
    written = ["--format", "csv", "--output", str(tmp_path / "out")]
    asked = [
        ["verify", str(pointer)],
        ["export", "data", str(pointer), *written],
        ["export", "data", NIGHT, "--config", str(site.path), *written],
        ["export", "certificate", "--config", str(site.path), *period, "--output", str(tmp_path / "out.html")],
    ]
    site.output_root.chmod(0)
    for code, told in as_nobody(asked):
        assert (code, f'"{pointer}" to this account (Permission denied)' in told) == (7, True), told
        assert "give this account permission" in told
