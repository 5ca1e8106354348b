"""Somebody else in place of the PostgreSQL server of a source: told no password, and no record goes to it in clear."""

import pytest

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.postgres_address import proof
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_database_locks import COST
from tests.pipeline.ledger.test_impostors import ANSWERS, impostor

SECRET = "s3cr3t-of-the-clinic"
SOURCE = 'kind = "postgresql"\naddress = "env:CLINIC"\nquery = \'SELECT * FROM visits\''


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Reads a source at an address; the error."""

    def read(address):
        monkeypatch.setenv("CLINIC", address)
        with pytest.raises(StoreError) as caught:
            people.run(people.configure(tmp_path, COST, SOURCE))
        assert SECRET not in str(caught.value)
        return str(caught.value)

    return read


@pytest.mark.parametrize("login", ANSWERS)
def test_whoever_listens_at_this_machine_in_place_of_a_source_is_refused_and_told_no_password(refused, login):
    with impostor(ANSWERS[login]) as there:
        assert "cannot be read" in refused(f"postgresql://reader:{SECRET}@localhost:{there.port}/clinic")
        assert SECRET.encode() not in there.heard


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{SECRET}@clinic.example.org/clinic",
        f"postgres://reader:{SECRET}@clinic.example.org/clinic?sslmode=require",
        f"postgresql://reader:{SECRET}@localhost,clinic.example.org/clinic",
        f"postgresql://reader:{SECRET}@localhost/clinic?hostaddr=10.1.2.3",
        f"postgresql://reader:{SECRET}@[2001:db8::1]:5432/clinic",
        f"postgresql:///clinic?host=clinic.example.org&user=reader&password={SECRET}",
        f"postgresql:///clinic?service=clinic&password={SECRET}",
    ],
)
def test_a_source_on_another_machine_must_prove_who_it_is(refused, address):
    assert "is on another machine" in refused(address)
    assert proof(f"{address}{'&' if '?' in address else '?'}sslmode=verify-full").problem is None


def test_a_malformed_address_is_refused_and_not_shown(refused):
    for address in (f"postgresql://reader:{SECRET}@[::1/clinic", f"postgresql://reader:{SECRET}@h\u2100st/clinic"):
        assert "malformed" in refused(address)


@pytest.mark.parametrize("address", ["postgresql://[::1]:5433/x", "postgresql://%2Ftmp%2Fnowhere/x"])
def test_servers_of_this_machine_need_no_certificate(address):
    assert proof(address).problem is None
    assert bool(proof(address).options) is ("::1" in address)
