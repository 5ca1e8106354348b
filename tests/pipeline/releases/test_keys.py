"""One secret a charge: private, durable, unique under races, and gone when destroyed."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.testing.key_store import KeyStoreContract

CHARGE = "ab" * 16
STRANGER = 4321
"""Number of an account that is neither root nor that of the tests."""


@pytest.fixture
def store(tmp_path):
    return KeyStore(tmp_path / "keys")


class TestKeyStoreInAFolder(KeyStoreContract):
    """The contract of all key stores, on the product's own."""

    @pytest.fixture
    def opened(self, tmp_path):
        return lambda: KeyStore(tmp_path / "keys")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_private_on_the_disk_and_stays_the_same(store, tmp_path):
    os.umask(0)  # even where the process would let others read
    secret = store.create(CHARGE)
    os.umask(0o022)
    assert len(secret) == 32
    assert mode(tmp_path / "keys" / CHARGE) == 0o600
    assert mode(tmp_path / "keys") == 0o700
    assert store.create(CHARGE) == secret == store.read(CHARGE)
    assert store.list() == [CHARGE]
    assert store.create("cd" * 16) != secret


def test_the_names_of_the_folders_of_a_new_store_are_on_the_disk_too(tmp_path, monkeypatch):
    synced, fsync = set(), os.fsync

    def seen(descriptor):
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", seen)
    root = tmp_path / "new" / "keys"
    KeyStore(root).create(CHARGE)
    assert {folder.stat().st_ino for folder in (root, root.parent, tmp_path)} <= synced


def test_racing_attempts_get_one_secret_and_leave_no_drafts(store, tmp_path):
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(store.create, [CHARGE] * 64))
    assert len(found) == 1
    assert [path.name for path in (tmp_path / "keys").iterdir()] == [CHARGE]
    assert store.read(CHARGE) in found


def test_a_secret_that_others_destroy_meanwhile_is_whole_and_no_error(store, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # more races in less time

    def act(number):
        return store.create(CHARGE) if number % 2 else store.destroy(CHARGE)

    with ThreadPoolExecutor(8) as pool:
        found = [secret for secret in pool.map(act, range(4000)) if secret is not None]
    assert len(found) == 2000
    assert all(len(secret) == 32 and any(secret) for secret in found)


def test_a_secret_that_is_being_destroyed_is_none(store, tmp_path):
    store.create(CHARGE)
    (tmp_path / "keys" / CHARGE).write_bytes(bytes(32))  # overwritten, and not yet removed
    assert store.read(CHARGE) is None


def test_a_destroyed_secret_is_overwritten_and_gone(store, tmp_path):
    secret = store.create(CHARGE)
    os.link(tmp_path / "keys" / CHARGE, tmp_path / "held")
    os.unlink(tmp_path / "held")
    with (tmp_path / "keys" / CHARGE).open("rb") as still_open:
        store.destroy(CHARGE)
        assert still_open.read() == bytes(32)
    assert store.read(CHARGE) is None
    assert store.list() == []
    store.destroy(CHARGE)
    assert store.create(CHARGE) != secret


def test_a_destroyed_secret_has_no_second_name_left_by_a_kill(store, tmp_path, monkeypatch):
    with monkeypatch.context() as killed:  # after the secret was linked, before its draft was removed
        killed.setattr(KeyStore, "_wipe", staticmethod(lambda path: None))
        store.create(CHARGE)
    names = list((tmp_path / "keys").iterdir())
    assert len(names) == 2
    with (tmp_path / "keys" / CHARGE).open("rb") as still_open:
        store.destroy(CHARGE)
        assert still_open.read() == bytes(32)
    assert list((tmp_path / "keys").iterdir()) == []


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_secret_that_others_could_read_is_refused(store, tmp_path, what):
    store.create(CHARGE)
    (tmp_path / "keys" / CHARGE if what == "file" else tmp_path / "keys").chmod(0o755 if what == "folder" else 0o644)
    with pytest.raises(StoreError, match="Only its owner"):
        store.create(CHARGE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_secret_that_another_account_owns_is_refused_and_stays(store, tmp_path, what):
    secret = store.create(CHARGE)
    place = tmp_path / "keys" / CHARGE if what == "file" else tmp_path / "keys"
    os.chown(place, STRANGER, STRANGER)
    for use in (store.create, store.read):
        with pytest.raises(StoreError, match=f'"{place.name}" .* belongs to another account .number {STRANGER}.'):
            use(CHARGE)
    assert (tmp_path / "keys" / CHARGE).read_bytes() == secret
    os.chown(place, 0, 0)
    assert store.create(CHARGE) == secret


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_an_account_that_is_not_root_uses_its_own_secrets_and_those_of_root_and_no_others(store, tmp_path, monkeypatch):
    secret, keys = store.create(CHARGE), tmp_path / "keys"
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert store.read(CHARGE) == secret
    for place in (keys, keys / CHARGE):
        os.chown(place, STRANGER, STRANGER)
    assert store.read(CHARGE) == secret
    os.chown(keys / CHARGE, STRANGER + 1, STRANGER)
    with pytest.raises(StoreError, match="belongs to another account"):
        store.read(CHARGE)


def test_a_damaged_secret_is_refused(store, tmp_path):
    store.create(CHARGE)
    (tmp_path / "keys" / CHARGE).write_bytes(b"short")
    with pytest.raises(StoreError, match="32 bytes"):
        store.read(CHARGE)


def test_a_store_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(StoreError, match="key store cannot be used"):
        KeyStore(tmp_path / "keys").create(CHARGE)


@pytest.mark.parametrize("name", ["../x", "", "ABCDEF0123456789", "ab/cd", "abc"])
def test_only_charge_identifiers_name_secrets(store, name):
    with pytest.raises(ValueError, match="hexadecimal"):
        store.create(name)


def test_a_key_is_not_called_destroyed_where_nobody_can_see_whether_it_has_a_second_name(store, monkeypatch):
    store.create(CHARGE)

    def closed(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(StoreError, match="Permission denied"):
        store.destroy(CHARGE)
