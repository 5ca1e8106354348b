"""The login of a machine's own server: made once, kept from others, and sent to that server alone."""

import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.base import private_log
from blockveil.flows.cli import app
from blockveil.flows.service import login, service
from blockveil.pipeline.base.errors import ConfigError, StoreError

NOBODY = 65534

LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in (login.SERVER, login.CLIENT, login.URL, "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    return tmp_path


@contextmanager
def listening(user):
    """A port at which a user listens."""
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield int(process.stdout.readline())
        process.stdin.close()


def test_a_login_is_made_once_and_is_a_file_of_this_user_alone(home):
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: login.kept(home), range(32)))
    (made,) = found
    user, _, password = made.partition(":")
    assert user == "blockveil"
    assert len(password) == 43, "32 random bytes"
    assert stat.S_IMODE((home / login.FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [login.FILE_NAME], "nothing unfinished is left"


def test_an_account_without_a_home_folder_is_asked_to_name_a_place(home, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert login.home() == home
    monkeypatch.delenv("PREFECT_HOME")
    with pytest.raises(ConfigError, match="no home folder") as refused:
        login.home()
    assert "PREFECT_HOME" in refused.value.remedy
    private_log.keep(ValueError("secret"), "number")  # which never fails


def test_nobody_else_can_hold_the_lock_of_a_service(home):
    lock = home / "blockveil-serve.lock"
    with service._alone(home):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        with pytest.raises(ConfigError, match="Another `blockveil serve`"), service._alone(home):
            pass
    lock.unlink()
    lock.symlink_to(home / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), service._alone(home):
        pass
    assert not (home / "elsewhere").exists()


def test_two_homes_have_two_logins(home):
    other = home / "other"
    other.mkdir()
    assert login.kept(home) != login.kept(other)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda home: home.chmod(0o777),
        lambda home: home.chmod(0o1777),
        lambda home: home.chmod(0o770),
        pytest.param(
            lambda home: os.chown(home, NOBODY, NOBODY),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away"),
        ),
    ],
    ids=["writable by all", "like /tmp", "writable by the group", "of another user"],
)
def test_a_home_into_which_others_could_put_settings_is_refused(home, spoil):
    spoil(home)
    with pytest.raises(StoreError, match="Prefect home"):
        login.home()


@pytest.mark.parametrize("kind", ["touch", "mkdir"])
@pytest.mark.parametrize("mode", [0o664, 0o622])
def test_what_others_could_change_in_a_home_that_they_reach_is_refused(home, kind, mode):
    getattr(home / "what Prefect obeys", kind)()
    (home / "what Prefect obeys").chmod(mode)
    home.chmod(0o755)
    with pytest.raises(StoreError, match='"what Prefect obeys" in the Prefect home') as refused:
        login.home()
    assert f"Run chmod 700 {home}" in str(refused.value)
    home.chmod(0o700)
    assert login.home() == home


def test_settings_elsewhere_that_others_could_change_are_refused(home, monkeypatch):
    profiles = home.parent / "profiles.toml"
    profiles.write_text(f'active = "team"\n[profiles.team]\n{login.CLIENT} = "ops:of the profile"\n')
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(profiles))
    assert login.configured() == "ops:of the profile"
    profiles.chmod(0o664)
    with pytest.raises(StoreError, match="PREFECT_PROFILES_PATH"):
        login.configured()


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o640),
        lambda path: path.chmod(0o602),
        link,
        pipe,
        lambda path: path.write_text(""),
        lambda path: path.write_text("blockveil:short\n"),
        pytest.param(
            lambda path: os.chown(path, NOBODY, NOBODY),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
        ),
    ],
    ids=["readable by the group", "writable by others", "a link", "a pipe", "empty", "too short", "of another user"],
)
def test_a_login_that_others_could_have_read_or_changed_is_refused(home, spoil):
    kept = login.kept(home)
    spoil(home / login.FILE_NAME)
    with pytest.raises(StoreError, match="login") as refused:
        login.kept(home)
    assert kept not in str(refused.value)


def test_a_login_of_the_environment_or_the_profile_is_used_for_server_and_clients(home, monkeypatch):
    assert login.configured() is None
    (home / "profiles.toml").write_text(f'active = "team"\n[profiles.team]\n{login.CLIENT} = "ops:of the profile"\n')
    assert login.configured() == "ops:of the profile"
    monkeypatch.setenv(login.CLIENT, "ops:of the environment")
    assert login.configured() == "ops:of the environment"


@pytest.mark.parametrize(
    "values",
    [{login.SERVER: ""}, {login.CLIENT: "  "}, {login.SERVER: "ops:one", login.CLIENT: "ops:another"}],
    ids=["empty", "blank", "two"],
)
def test_an_empty_login_or_two_of_them_are_refused(home, monkeypatch, values):
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="AUTH_STRING") as refused:
        login.configured()
    assert "ops:" not in str(refused.value)


def test_a_login_goes_to_the_recorded_address_while_this_user_listens_there_and_nowhere_else(home):
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        login.record(home, f"http://127.0.0.1:{port}/api")
        assert login.is_ours(home, f"http://127.0.0.1:{port}/api/")
        assert not login.is_ours(home, f"http://127.0.0.1:{port + 1}/api")
        assert not login.is_ours(home, f"https://evil.example:{port}/api")
        assert not login.is_ours(home, f"http://127.0.0.1:{port}@evil.example/api")
    assert not login.is_ours(home, f"http://127.0.0.1:{port}/api"), "nobody listens there now"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process of another user")
def test_a_login_is_not_sent_to_another_user_who_has_taken_the_port(home):
    with listening(NOBODY) as port:
        login.record(home, f"http://127.0.0.1:{port}/api")
        assert not login.is_ours(home, f"http://127.0.0.1:{port}/api")
        with socket.create_server(("127.0.0.2", port)):
            assert not login.is_ours(home, f"http://127.0.0.1:{port}/api"), "at another address of the same port"
    with listening(os.geteuid()) as port:
        login.record(home, f"http://127.0.0.1:{port}/api")
        assert login.is_ours(home, f"http://127.0.0.1:{port}/api")


def test_a_server_that_an_address_names_without_a_login_of_its_own_gets_this_one_only_where_it_is_ours(
    home, monkeypatch
):
    monkeypatch.setenv(login.URL, "https://team.example/api")
    login.join()
    assert login.CLIENT not in os.environ
    with socket.create_server(("127.0.0.1", 0)) as own:
        address = f"http://127.0.0.1:{own.getsockname()[1]}/api"
        login.record(home, address)
        monkeypatch.setenv(login.URL, address)
        monkeypatch.setenv(login.CLIENT, "ops:configured")
        login.join()
        assert os.environ[login.CLIENT] == "ops:configured"
        monkeypatch.delenv(login.CLIENT)
        login.join()
        assert os.environ[login.CLIENT] == login.kept(home)


def test_a_server_that_is_named_after_prefect_was_imported_is_used_and_its_login_is_left_to_no_other(home, monkeypatch):
    import prefect.context

    def settings():  # of the process; other tests may have a server of theirs for a while
        return prefect.context.GLOBAL_SETTINGS_CONTEXT.settings.api

    monkeypatch.setattr("prefect.context.GLOBAL_SETTINGS_CONTEXT", prefect.context.GLOBAL_SETTINGS_CONTEXT)
    with socket.create_server(("127.0.0.1", 0)) as own:
        address = f"http://127.0.0.1:{own.getsockname()[1]}/api"
        login.record(home, address)
        monkeypatch.setenv(login.URL, address)
        with login.joined():
            assert settings().url == address
            assert settings().auth_string.get_secret_value() == login.kept(home)
        assert login.CLIENT not in os.environ
        monkeypatch.setenv(login.URL, "https://team.example/api")
        with login.joined():
            assert settings().url == "https://team.example/api"
            assert settings().auth_string is None


def test_the_login_is_printed_when_it_is_asked_for(home):
    shown = CliRunner().invoke(app, ["serve", "--show-login"])
    assert shown.exit_code == 0
    assert shown.output == login.kept(home) + "\n"
