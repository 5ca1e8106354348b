"""Somebody else at the port or the socket of the ledger's server: refused, and told no password."""

import socket
import threading
from contextlib import contextmanager

import pytest

from blockveil.pipeline.base import postgres_address
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.database import Unreachable
from blockveil.testing.ledger_support import grant
from tests.end_to_end.served import free_port
from tests.house import certificates
from tests.house.postgres_server import CannotStart, PostgresServer

PASSWORD = "s3cr3t-of-the-ledger"
OK = b"R\x00\x00\x00\x08\x00\x00\x00\x00"
READY = b"Z\x00\x00\x00\x05I"
ANSWERS = {
    "none": OK + READY,
    "in clear": b"R\x00\x00\x00\x08\x00\x00\x00\x03",
    "md5": b"R\x00\x00\x00\x0c\x00\x00\x00\x05salt",
    "scram without a proof": b"R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00",
}
"""What an impostor asks for as a login."""


class Impostor:
    """Listens at a port of this machine, offers no TLS, asks for a login, and keeps what it is told."""

    def __init__(self, answer):
        self._answer, self.heard = answer, b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listening.close()

    def _serve(self):
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(5)
                try:
                    self._talk(peer)
                except OSError:
                    continue

    def _talk(self, peer):
        first = peer.recv(65536)
        while len(first) == 8:  # it asks for TLS, or for GSSAPI
            peer.sendall(b"N")
            first = peer.recv(65536)
        peer.sendall(self._answer)
        while said := peer.recv(65536):
            self.heard += said
            peer.sendall(OK + READY)


@contextmanager
def impostor(answer):
    there = Impostor(answer)
    try:
        yield there
    finally:
        there.close()


def refusal(address):
    with pytest.raises(LedgerError) as refused:
        Ledger(address).budget("people")
    assert PASSWORD not in str(refused.value)
    return refused.value


@pytest.mark.parametrize("login", ANSWERS)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_whoever_listens_at_this_machine_in_place_of_the_server_is_refused_and_told_no_password(login, host):
    with impostor(ANSWERS[login]) as there:
        error = refusal(f"postgresql://nightly:{PASSWORD}@{host}:{there.port}/ledger")
        assert isinstance(error, Unreachable), "the night is tried again once the server is back"
        if login != "scram without a proof":
            assert "does not prove that it knows the role's password" in str(error)
        assert PASSWORD.encode() not in there.heard


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_whoever_offers_no_encryption_where_the_config_asks_for_it_is_told_nothing(mode, tmp_path):
    authority = certificates.make(tmp_path / "tls") / "authority.pem"
    with impostor(ANSWERS["in clear"]) as there:
        options = f"sslmode={mode}&sslrootcert={authority}"
        assert isinstance(
            refusal(f"postgresql://nightly:{PASSWORD}@127.0.0.1:{there.port}/ledger?{options}"), Unreachable
        )
        assert there.heard == b""


def test_a_socket_in_a_folder_that_is_open_to_all_needs_the_account_of_the_server(tmp_path):
    for mode in (0o777, 0o1777):
        tmp_path.chmod(mode)
        address = f"postgresql://nightly@/ledger?host={tmp_path}"
        assert "every account may put one" in str(refusal(address))
        assert "cannot be reached" in str(refusal(f"{address}&requirepeer=postgres"))
    tmp_path.chmod(0o755)
    assert "cannot be reached" in str(refusal(address))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A server that listens at this machine, with TLS too, and the certificates of it and of another authority."""
    folder = tmp_path_factory.mktemp("tls")
    own, other = (certificates.make(folder / name) for name in ("own", "other"))
    port = free_port()
    try:
        server = PostgresServer(address="127.0.0.1", certificates=own, port=port)
    except CannotStart as reason:
        pytest.skip(f"PostgreSQL cannot be started here: {reason}")
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("local all all trust\nhost all nightly 127.0.0.1/32 scram-sha-256\nhost all all all trust\n")
    server.execute(f"CREATE ROLE nightly LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    server.execute("SELECT pg_reload_conf()")
    grant(server.url(), 5.0)
    yield server, port, own / "authority.pem", other / "authority.pem"
    server.stop()


@pytest.mark.parametrize("address", ["postgresql:///ledger", "postgresql://nightly@:5433/ledger?host="])
def test_an_address_without_a_host_means_a_folder_that_is_looked_at(tmp_path, monkeypatch, address):
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.setattr(postgres_address, "_USUAL_SOCKET", tmp_path)
    assert postgres_address.proof(address).options == {"host": str(tmp_path)}
    tmp_path.chmod(0o1777)
    assert "every account may put one" in str(refusal(address))
    tmp_path.chmod(0o755)
    assert str(tmp_path) not in str(refusal(address))


def test_the_server_itself_is_known_by_the_password_and_a_role_that_needs_none_is_refused(real):
    _, port, *_ = real
    assert Ledger(f"postgresql://nightly:{PASSWORD}@127.0.0.1:{port}/postgres").budget("people") is not None
    assert "does not prove" in str(refusal(f"postgresql://postgres@127.0.0.1:{port}/postgres"))
    assert "refuses the role" in str(refusal(f"postgresql://nightly:another@127.0.0.1:{port}/postgres"))


def test_a_certificate_of_another_authority_or_for_another_name_is_refused(real, monkeypatch):
    _, port, own, other = real
    address = f"postgresql://nightly:{PASSWORD}@{{host}}:{port}/postgres?sslmode=verify-full&sslrootcert={{authority}}"
    assert Ledger(address.format(host="127.0.0.1", authority=own)).budget("people") is not None
    assert isinstance(refusal(address.format(host="127.0.0.1", authority=other)), Unreachable)
    elsewhere = address.format(host="ledger.example.org", authority=own) + "&hostaddr=127.0.0.1"
    assert isinstance(refusal(elsewhere), Unreachable)
    assert Ledger(elsewhere.replace("verify-full", "verify-ca")).budget("people") is not None
