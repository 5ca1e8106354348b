"""The databases that ingests read in these tests."""

import pytest

from tests.pipeline.data.ingest.database_support import KINDS, Database


@pytest.fixture(params=KINDS)
def database(request, tmp_path, monkeypatch):
    """One database of each kind, empty; the address of a server is in the variable CLINIC."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    made = Database(request.param, tmp_path, server)
    if server is not None:
        monkeypatch.setenv("CLINIC", made.address)
    return made
