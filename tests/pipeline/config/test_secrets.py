"""Files that hold secrets: of this account or root, and of nobody else; public keys may be read by all."""

import os

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import secrets
from tests.house import support

VALUE = "a secret that no message may hold"
PUBLIC = "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----"
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def read(path):
    return secrets.read_secret("output.signing_key", f"file:{path}", path.parent)


def refused(path):
    with pytest.raises(ConfigError) as found:
        read(path)
    assert VALUE not in str(found.value)
    assert len(str(found.value)) <= 400
    return str(found.value)


def owned_by_another(path, monkeypatch, owner, user=1000):
    """Let this account be another one, and the file belong to an owner; as a container's mounts have it."""
    os.chown(path, owner, 1000)
    monkeypatch.setattr(os, "geteuid", lambda: user)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_secret_of_this_account_alone_is_read(tmp_path, mode, monkeypatch):
    path = support.write_private(tmp_path / "secret", f"  {VALUE}\n")
    path.chmod(mode)
    if os.geteuid() == 0:
        owned_by_another(path, monkeypatch, 1000)
    assert read(path) == VALUE


@pytest.mark.parametrize(("mode", "what"), [(0o644, "read"), (0o604, "read"), (0o620, "change"), (0o666, "change")])
def test_a_secret_that_others_can_read_or_change_is_refused(tmp_path, mode, what):
    path = support.write_private(tmp_path / "secret", VALUE)
    path.chmod(mode)
    assert f"has mode {mode:04o}: other accounts may {what} it" in refused(path)


@as_root
@pytest.mark.parametrize(("owner", "mode", "read_by"), [(0, 0o440, True), (0, 0o444, False), (1000, 0o440, False)])
def test_a_group_may_read_what_root_owns_and_nothing_else(tmp_path, monkeypatch, owner, mode, read_by):
    path = support.write_private(tmp_path / "secret", VALUE)
    path.chmod(mode)
    owned_by_another(path, monkeypatch, owner)
    if read_by:
        assert read(path) == VALUE
    else:
        assert "has mode" in refused(path)


@as_root
def test_a_secret_of_another_account_is_refused(tmp_path):
    path = support.write_private(tmp_path / "secret", VALUE)
    os.chown(path, NOBODY, NOBODY)
    assert f"belongs to another account (number {NOBODY})" in refused(path)


def test_a_link_is_judged_by_what_it_leads_to(tmp_path):
    path = support.write_private(tmp_path / "secret", VALUE)
    (tmp_path / "link").symlink_to(path)
    assert read(tmp_path / "link") == VALUE
    path.chmod(0o644)
    assert "has mode 0644" in refused(tmp_path / "link")


def test_all_may_read_a_public_key_and_nobody_else_may_change_it(tmp_path):
    path = tmp_path / "key.pub"
    path.write_text(PUBLIC)
    path.chmod(0o644)
    assert read(path) == PUBLIC
    path.chmod(0o664)
    assert "has mode 0664: other accounts may change it" in refused(path)
    path.write_text(f"{PUBLIC}\n-----BEGIN PRIVATE KEY-----\n{VALUE}")
    path.chmod(0o644)
    assert "other accounts may read it" in refused(path)


def test_a_file_without_an_end_is_refused(tmp_path):
    with support.write_private(tmp_path / "secret", "").open("wb") as file:
        file.truncate(1 << 40)
    assert "is too long" in refused(tmp_path / "secret")


@pytest.mark.parametrize("name", ["ca_file", "client_cert", "client_key"])
def test_what_a_scheduler_is_known_by_is_looked_at_too(tmp_path, name):
    certificate = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    for each in ("ca_file", "client_cert", "client_key"):
        support.write_private(tmp_path / each, VALUE if each == "client_key" else certificate).chmod(
            0o600 if each == "client_key" else 0o644
        )
    files = "\n".join(f'tls_{each} = "file:{each}"' for each in ("ca_file", "client_cert", "client_key"))
    path = support.write_config(tmp_path)
    path.write_text(path.read_text().replace('kind = "threads"', f'kind = "address"\naddress = "tls://a:1"\n{files}'))
    loaded = support.load_config(path)
    assert set(loaded.tls_files()) == {"tls_ca_file", "tls_client_cert", "tls_client_key"}
    (tmp_path / name).chmod(0o664)
    with pytest.raises(ConfigError, match=f'cluster.tls_{name}: the file "{name}" has mode 0664'):
        loaded.tls_files()
