"""Commands that write a file where a person says: over no ledger, through nobody's link, with a mode of its own."""

import os
import shutil
import stat

import pytest

from tests.flows.cli.test_cli import blockveil, refusal
from tests.flows.cli.test_json import DISCLOSED
from tests.house import support
from tests.house.strangers import STRANGER
from tests.pipeline.verification.test_signed_releases import key_file

NIGHT = "people/covariance/2026-11-20"

WRITERS = {
    "report": f"report {NIGHT} --config people.toml --output",
    "certificate": f"export certificate {NIGHT} --config people.toml --output",
    "certificate of nights": "export certificate --config people.toml --since 2026-11-20 --output",
    "prove": f"ledger prove people.toml {NIGHT} --output",
    "head": "ledger head people.toml --output",
    "export": "ledger export people.toml --output",
    "export as OpenLineage": "ledger export people.toml --format openlineage --output",
    "disclose": "export disclosure people.toml --disclosure disclosure.toml --tier 1 --output",
    "approve": "ledger approve signed.toml --date 2026-11-21 --sign file:officer.pem --by Ann --why due --output",
    "plan": "plan people.toml --html",
    "weights": "public weights --inputs 3 --outputs 2 --seed 7 --output",
}
"""What writes a file that may be there already, by its command without the file."""

ENDINGS = {"forecast": ".svg", "weights": ".npz", "disclose": ".yaml"}


def name_for(writer):
    return f"file{ENDINGS.get(writer, '.html')}"


def prepare(folder):
    """A folder with a release, and with all that a command of :data:`WRITERS` reads."""
    loaded = support.prepare(folder)
    assert blockveil("run", loaded.path, "--no-prefect", "--date", "2026-11-20").returncode == 0
    (folder / "disclosure.toml").write_text(DISCLOSED)
    key_file(folder / "officer.pem")
    (folder / "signed.toml").write_text(
        loaded.path.read_text() + '[approval]\nthreshold_share = 0.01\nofficers = { Ann = "file:officer.pub" }\n'
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("places"))


@pytest.mark.parametrize("writer", WRITERS)
def test_neither_a_ledger_nor_a_file_of_another_account_is_reached_by_a_name(folder, tmp_path, monkeypatch, writer):
    monkeypatch.chdir(folder)
    ledger, linked, kept = (tmp_path / f"{each}{name_for(writer)}" for each in ("ledger-", "linked-", "kept-"))
    shutil.copy(folder / "ledger.db", ledger)
    before = ledger.read_bytes()
    refused = blockveil(*WRITERS[writer].split(), ledger)
    refusal(refused, refused.returncode)
    assert "is a database" in refused.stderr
    assert ledger.read_bytes() == before
    if os.getuid() == 0:  # who else can make a link of another account?
        kept.write_bytes(b"of another")
        linked.symlink_to(kept)
        os.lchown(linked, STRANGER, STRANGER)
        refused = blockveil(*WRITERS[writer].split(), linked)
        refusal(refused, refused.returncode)
        assert "of another account" in refused.stderr
        assert kept.read_bytes() == b"of another"
    assert not [each for each in tmp_path.iterdir() if each not in (ledger, linked, kept)]


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_is_new_and_its_mode_is_its_own(folder, tmp_path, monkeypatch, writer):
    monkeypatch.chdir(folder)
    place = tmp_path / name_for(writer)
    place.write_bytes(b"old")
    place.chmod(0o666)
    with place.open("rb") as opened:
        done = blockveil(*WRITERS[writer].split(), place)
        assert done.returncode == 0, done.stderr
        assert opened.read() == b"old"  # whoever has the old file open sees nothing of the new one
    found = stat.S_IMODE(place.stat().st_mode)
    assert place.read_bytes() != b"old"
    assert not found & stat.S_IWOTH
    if writer.startswith("export"):
        assert found == 0o600
