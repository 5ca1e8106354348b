"""Heads kept elsewhere: signed, checked, and found again or not."""

import hashlib
import hmac
import json
import sqlite3
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import BlockveilError, LedgerError
from blockveil.pipeline.ledger import Head
from blockveil.testing.ledger_support import make, reserve
from tests.house import support

SECRET = "a secret of more than thirty-two characters"
HEAD = Head(3, "ab" * 32, "2026-11-20T00:00:00+00:00", "cd" * 32, ())


def pem(key, public=False):
    if public:
        return (
            key.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture(scope="module")
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture(params=["ed25519", "hmac-sha256"])
def keys(request, key):
    """What signs and what checks."""
    return (pem(key), pem(key, public=True)) if request.param == "ed25519" else (SECRET, SECRET)


def test_a_signed_head_is_read_back_and_checked(keys):
    signs, checks = keys
    kept = Head.from_json(HEAD.signed(signs).to_json())
    kept.check(checks)
    kept.check(signs)
    assert (kept.entries, kept.hash, kept.time) == (HEAD.entries, HEAD.hash, HEAD.time)


@pytest.mark.parametrize(
    "change", [{"entries": 2}, {"hash": "ac" * 32}, {"time": ""}, {"signature": "00" * 64}, {"signature": "not hex"}]
)
def test_a_head_that_was_changed_is_refused(keys, change):
    signs, checks = keys
    with pytest.raises(LedgerError, match="does not carry a signature of this key"):
        replace(HEAD.signed(signs), **change).check(checks)


def test_a_signature_of_another_key_is_refused(key):
    for signs, checks in ((SECRET, SECRET + "x"), (pem(Ed25519PrivateKey.generate()), pem(key, public=True))):
        with pytest.raises(LedgerError, match="signature of this key"):
            HEAD.signed(signs).check(checks)


def test_one_kind_of_key_does_not_stand_for_the_other(key):
    public = pem(key, public=True)
    forged = replace(HEAD.signed(public.replace("-----BEGIN", "_____BEGIN")), algorithm="hmac-sha256")
    for head, checks in ((forged, public), (HEAD.signed(pem(key)), SECRET)):
        with pytest.raises(LedgerError, match="signature of this key"):
            head.check(checks)


def test_a_public_key_below_a_comment_is_no_secret_that_everybody_knows(key):
    public = f"# the key of the ledger's keeper\n{pem(key, public=True)}"
    secret = hmac.new(public.encode(), HEAD._message(), hashlib.sha256).hexdigest()
    with pytest.raises(LedgerError, match="signature of this key"):
        replace(HEAD, algorithm="hmac-sha256", signature=secret).check(public)
    HEAD.signed(pem(key)).check(public)


def test_a_signed_head_without_a_key_and_a_key_without_a_signature_are_refused():
    HEAD.check(None)
    with pytest.raises(LedgerError, match="no key is given"):
        HEAD.signed(SECRET).check(None)
    with pytest.raises(LedgerError, match="not signed"):
        HEAD.check(SECRET)


def test_keys_that_are_none_are_refused_and_not_shown():
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for bad in ("short", "-----BEGIN rubbish", pem(other)):
        with pytest.raises(LedgerError, match="not usable") as caught:
            HEAD.signed(bad)
        assert bad not in str(caught.value)
    for bad in ("-----BEGIN rubbish", pem(other, public=True)):
        with pytest.raises(LedgerError, match="not usable"):
            HEAD.signed(pem(Ed25519PrivateKey.generate())).check(bad)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nothing",
        HEAD.to_json().replace("ab" * 32, "x"),
        HEAD.to_json().replace("cd" * 32, "x"),
        HEAD.to_json().replace("cd" * 32, ""),
        HEAD.to_json().replace("[]", "[1]"),
        HEAD.to_json().replace("[]", "{}"),
        HEAD.to_json().replace('"withdrawn":[]', '"withdrawn":[],"more":1'),
        HEAD.to_json().replace('"withdrawn":[]', '"withdrawn":[],"algorithm":"ed25519"'),
        HEAD.to_json().replace(',"withdrawn":[]', ""),
        HEAD.to_json().replace("3", "true", 1),
    ],
)
def test_what_is_no_head_is_refused(text):
    with pytest.raises(LedgerError, match="not readable"):
        Head.from_json(text)


def test_a_head_must_be_in_its_place(tmp_path):
    ledger = make(tmp_path)
    reserve(ledger, "1")
    head = ledger.head()
    assert (head.entries, head.time) == (2, ledger.history()[-1].time)
    assert ledger.verify(head).problems == []
    assert ledger.verify(replace(head, entries=1)).problems, "the hash is there, but of another row"
    reserve(ledger, "1b", mu=0.01)
    assert ledger.verify(head).problems == []


def test_the_commands_keep_a_head_and_find_a_truncation(tmp_path, key, monkeypatch):
    ledger = make(tmp_path)
    reserve(ledger, "1")
    database, kept = str(tmp_path / "ledger.db"), tmp_path / "head.json"
    support.write_private(tmp_path / "private.pem", pem(key))
    (tmp_path / "public.pem").write_text(pem(key, public=True))
    monkeypatch.setenv("SECRET", SECRET)

    def run(*words):
        return CliRunner().invoke(app, ["ledger", *map(str, words), "--ledger", database])

    assert run("head", "--sign", f"file:{tmp_path / 'private.pem'}", "--output", kept).exit_code == 0
    assert json.loads(kept.read_text())["entries"] == 2
    public = f"file:{tmp_path / 'public.pem'}"
    assert "2 entries, chain intact" in run("verify", "--head", kept, "--key", public).output
    by_secret = tmp_path / "by-secret.json"
    by_secret.write_text(run("head", "--sign", "env:SECRET").output)
    assert run("verify", "--head", by_secret, "--key", "env:SECRET").exit_code == 0
    for words in (
        ("--head", kept),
        ("--head", kept, "--key", "env:SECRET"),
        ("--head", ledger.verify().head, "--key", public),
        ("--head", tmp_path / "absent"),
        ("--head", kept, "--key", "env:ABSENT"),
        ("--head", kept, "--key", "the-secret-itself"),
    ):
        refused = run("verify", *words)
        assert isinstance(refused.exception, BlockveilError)
        assert "the-secret-itself" not in str(refused.exception)
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TRIGGER no_delete")
        connection.execute("DELETE FROM entry WHERE sequence = 2")
    connection.close()
    assert run("verify").exit_code == 0, "without a head the shorter chain looks whole"
    cut = run("verify", "--head", kept, "--key", public)
    assert "cut off or rewritten" in str(cut.exception)


def test_a_broken_ledger_has_no_head_to_vouch_for(tmp_path):
    ledger = make(tmp_path)
    reserve(ledger, "1")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE entry SET loss_ticks = 0 WHERE sequence = 2")
    connection.close()
    with pytest.raises(LedgerError, match="does not verify"):
        ledger.head()
