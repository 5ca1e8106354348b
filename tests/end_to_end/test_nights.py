"""A few nights of ``python -m tests.nights``: each has a fault, and is released by itself."""

import shutil

import pytest

from tests.house.postgres_server import CannotStart
from tests.nights.__main__ import lived

FAULTS = {
    ("sqlite", "service"): ("service killed", "killed while publishing", "disk full"),
    ("postgres", "service"): ("ledger away", "connection cut in COMMIT", "service stopped"),
    ("postgres", "worker"): ("killed after COMMITTED", "store of releases fails", "service stopped"),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("database", "what"), FAULTS)
def test_nights_under_faults_are_released_by_themselves_with_one_charge_and_the_bits_of_an_undisturbed_one(
    database, what
):
    if shutil.which("cc") is None:
        pytest.skip("a clock that is turned needs a C compiler")
    try:
        problems = lived(database, FAULTS[database, what], 1, what == "worker")
    except CannotStart as reason:
        pytest.skip(f"PostgreSQL cannot be started here: {reason}")
    assert problems == []
