"""A signed release shows whose it is, and whatever is changed in what it states is found."""

import json
import shutil
from dataclasses import replace
from datetime import date

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.verification.findings import Evidence
from blockveil.pipeline.verification.verified import verify
from tests.flows.cli.test_cli import blockveil
from tests.house.forged import forged
from tests.house.support import prepare

DAY = date(2026, 11, 20)


def key_file(path):
    key = Ed25519PrivateKey.generate()
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(encoded)
    path.chmod(0o600)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return key


def signed_config(folder, reference="file:signer.pem"):
    loaded = prepare(folder)
    loaded.path.write_text(loaded.path.read_text().replace("[output]", f'[output]\nsigning_key = "{reference}"'))
    return load_config(loaded.path)


def run(loaded):
    return run_release(make_plan(loaded, DAY), ThreadCompute(2), "test", lambda *_: None)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    key = key_file(folder / "signer.pem")
    run(signed_config(folder))
    return folder, key


@pytest.fixture
def release(made, tmp_path):
    (group,) = (made[0] / "releases").rglob("*.zarr")
    return shutil.copytree(group, tmp_path / group.name)


def signature(release, key=None):
    (found,) = [each for each in verify(release, Evidence(key)).findings if each.what == "Signature"]
    return found


def test_it_verifies_with_the_key_that_was_given_and_is_of_nobody_known_without_one(made, release):
    public = made[1].public_key()
    assert signature(release, public).holds is True
    assert verify(release, Evidence(public)).holds
    alone = signature(release)
    assert alone.holds is None
    assert "nobody vouched for" in alone.words


def test_another_key_does_not_hold_even_if_it_signed_everything_anew(made, release):
    def forge(stated):
        del stated["signature"]
        stated["signature"] = Signer(Ed25519PrivateKey.generate()).signature(stated)

    release = forged(release, forge)
    assert signature(release).holds is None  # a signature of somebody
    found = signature(release, made[1].public_key())
    assert found.holds is False
    assert "another key" in found.words


@pytest.mark.parametrize(
    "change",
    [
        lambda stated: stated["guarantee"].update(epsilon=0.1),
        lambda stated: stated["ledger"].update(sequence=99),
        lambda stated: stated.update(title="another title"),
        lambda stated: stated.update(added=1),
        lambda stated: stated["signature"].update(signature="00" * 64),
        lambda stated: stated["signature"].update(public_key="zz"),
        lambda stated: stated["signature"].update(algorithm="none"),
        lambda stated: stated.update(signature="none"),
    ],
)
def test_whatever_is_changed_in_what_it_states_is_found(made, release, change):
    release = forged(release, change)
    for key in (None, made[1].public_key()):
        assert signature(release, key).holds is False


def test_where_a_key_is_given_a_release_without_a_signature_does_not_hold(made, release):
    release = forged(release, lambda stated: stated.pop("signature"))
    assert signature(release, made[1].public_key()).holds is False
    assert signature(release).holds is None


def test_the_command_takes_the_public_key_by_reference(made, tmp_path, monkeypatch):
    folder, _ = made
    monkeypatch.chdir(tmp_path)
    key_file(tmp_path / "other.pem")
    shutil.copy(folder / "signer.pub", tmp_path)
    for key, code in (("file:signer.pub", 0), ("file:other.pub", 7), ("file:absent", 2), ("signer.pub", 2)):
        assert blockveil("verify", folder / "releases", "--key", key).returncode == code


def test_a_proof_shows_that_it_was_paid_for_and_whether_it_was_withdrawn(made, tmp_path, monkeypatch):
    folder, _ = made
    copied = shutil.copytree(folder, tmp_path / "copied")
    monkeypatch.chdir(copied)
    key_file(copied / "keeper.pem")
    pointer, release_id = "releases/people/covariance/2026-11-20.json", "people/covariance/2026-11-20"
    (group,) = (copied / "releases").rglob("*.zarr")
    elsewhere = shutil.copytree(group, tmp_path / group.name)
    prove = ("ledger", "prove", "people.toml", release_id, "--sign", "file:keeper.pem", "--output")
    assert blockveil(*prove, "proof.json").returncode == 0
    check = ("verify", elsewhere, "--proof", "proof.json", "--ledger-key")
    held = blockveil(*check, "file:keeper.pub")
    assert (held.returncode, "not withdrawn by" in held.stdout) == (0, True)
    assert "whether it was withdrawn after its proof" in held.stdout
    assert blockveil(*check, "file:signer.pub").returncode == 7  # another key than the ledger's keeper has
    alone = blockveil(*check[:-1])
    assert (alone.returncode, "nobody vouched for" in alone.stdout) == (0, True)
    assert blockveil("ledger", "withdraw", "people.toml", release_id, "--why", "wrong").returncode == 0
    assert blockveil(*prove, "later.json").returncode == 0
    later = blockveil("verify", elsewhere, "--proof", "later.json", "--ledger-key", "file:keeper.pub")
    assert (later.returncode, "it was withdrawn by" in later.stdout) == (7, True)
    assert blockveil("verify", pointer).returncode == 7
    assert blockveil("verify", elsewhere, "--proof", "absent.json").returncode == 7


def test_a_proof_of_another_ledger_does_not_hold(made, tmp_path):
    folder, _ = made
    prepare(tmp_path)
    other = load_config(tmp_path / "people.toml")
    run(other)
    found = Ledger(other.ledger_url).proof("people/covariance/2026-11-20")
    (group,) = (folder / "releases").rglob("*.zarr")
    stated = json.loads((group / "zarr.json").read_text())["attributes"]["ledger"]
    other_entry = replace(found, sequence=stated["sequence"], row_hash=stated["row_hash"])
    for proof, holds in ((found, None), (other_entry, False)):
        (finding,) = [one for one in verify(group, Evidence(proofs=(proof,))).findings if one.what == "Ledger"]
        assert finding.holds is holds


def test_a_release_that_names_the_entry_of_another_is_not_called_paid_for(made, tmp_path):
    folder, key = made
    key_file(tmp_path / "keeper.pem")
    keeper, vouching = ((tmp_path / f"keeper.{end}").read_text() for end in ("pem", "pub"))
    unsigned = prepare(tmp_path)
    fake = run(unsigned).path  # of the same name and night, and of another ledger
    (group,) = (folder / "releases").rglob("*.zarr")
    paid = json.loads((group / "zarr.json").read_text())["attributes"]["ledger"]
    fake = forged(fake, lambda stated: stated.update(ledger=paid))
    real = Ledger(load_config(folder / "people.toml").ledger_url).proof("people/covariance/2026-11-20")
    proof = replace(real, head=real.head.signed(keeper))
    for given, of_fake, of_real in ((None, None, None), (key.public_key(), None, True)):
        evidence = Evidence(given, (proof,), vouching)
        for release, holds in ((fake, of_fake), (group, of_real)):
            (finding,) = [one for one in verify(release, evidence).findings if one.what == "Ledger"]
            assert finding.holds is holds, finding


def test_neither_the_private_key_nor_its_place_is_in_what_is_published(made):
    folder, key = made
    secret = key.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )
    for file in (folder / "releases").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert secret not in content
        assert secret.hex().encode() not in content
        assert b"signer.pem" not in content
    assert "Ed25519" not in repr(Signer(key))


@pytest.mark.parametrize("reference", ["file:absent.pem", "env:NO_SUCH_KEY", "file:people.toml"])
def test_a_key_that_cannot_be_used_is_told_before_anything_is_spent(tmp_path, reference):
    loaded = signed_config(tmp_path, reference)
    with pytest.raises(ConfigError, match=r"output\.signing_key"):
        run(loaded)
    assert Ledger(loaded.ledger_url).budget("people").charges == 0


def test_a_release_that_was_killed_is_finished_with_the_same_signature(tmp_path, monkeypatch):
    key_file(tmp_path / "signer.pem")
    loaded = signed_config(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.charged_steps.seal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(loaded)
    (group,) = (tmp_path / "releases").rglob("*.zarr")
    before = (group / "zarr.json").read_bytes()
    shutil.rmtree(group)
    next((tmp_path / "releases").rglob("*.json")).unlink()
    assert run(loaded).resumed
    assert (group / "zarr.json").read_bytes() == before
