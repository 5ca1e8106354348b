"""A fleet of hosts whose links are cut, slow, long or lossy: the same bits as on one host, and one charge.

Hosts are network namespaces; without the rights to make them these tests are skipped, with the reason.
"""

import os
import shutil
import socket
import threading
import time

import pytest

from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.end_to_end.test_own_scheduler import documented
from tests.house import support
from tests.house.fleet_of_hosts import CHUNK, FEATURES, Fleet, Release, records, write_config
from tests.house.hosts import Network, missing, needs
from tests.house.shipped import pinned_key
from tests.pipeline.releases.test_release import NIGHT

READING, DRAWING = "reading", "drawing"
WHOLE = ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


@pytest.fixture(scope="module")
def permitted():
    """Skips where there are no rights over networks."""
    reason = missing()
    if reason is not None:
        if os.environ.get("BLOCKVEIL_REQUIRE_HOSTS"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Digests of the release's arrays, by threads of one process that reads from its own disk; and the records."""
    folder = tmp_path_factory.mktemp("alone")
    support.write_records(folder, records(), (CHUNK, FEATURES))
    loaded = load_config(write_config(folder))
    support.set_budget(loaded)
    with pinned_key():
        outcome = run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "alone", lambda *_: None)
    return str(support.values_of(outcome.path)), folder / "records.zarr"


@pytest.fixture(scope="module")
def hosts(permitted, alone, tmp_path_factory):
    """The hosts, the database and the store, with the records in it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on the PATH")
    _, store = alone
    with Fleet(tmp_path_factory.mktemp("fleet"), documented()) as made:
        for file in sorted(store.rglob("*")):
            if file.is_file():
                made.put(f"records/records.zarr/{file.relative_to(store)}", file.read_bytes())
        yield made


@pytest.fixture
def fleet(hosts):
    """A new release, on links that work; its cluster may have served another test."""
    hosts.new_release()
    if not hosts.processes:
        hosts.start_cluster()
    return hosts


@pytest.fixture
def harmed(fleet):
    """The same, for a test after which its cluster serves no other."""
    yield fleet
    fleet.stop_cluster()


def round_trip(here, there, size=1):
    """Seconds until a few bytes, or many, were answered."""

    def answer():
        with listening, listening.accept()[0] as peer:
            left = size
            while left:
                left -= len(peer.recv(min(left, 65536)))
            peer.sendall(b"x")

    with there.inside():
        listening = socket.create_server((there.address, 0))
    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    with here.inside():
        asking = socket.create_connection(listening.getsockname(), 10)
    with asking:
        begun = time.monotonic()
        asking.sendall(bytes(size))
        assert asking.recv(1) == b"x"
    answering.join()
    return time.monotonic() - begun


@pytest.mark.slow
def test_hosts_are_far_away_slow_or_gone_while_their_links_are(permitted):
    needs("tc")
    with Network(("here", "there")) as network:
        here, there = network["here"], network["there"]
        with there.delayed(0.1):
            assert round_trip(here, there) >= 0.2
        with there.limited("10mbit"):
            assert round_trip(here, there, 10**6) >= 0.6  # 8 Mbit, less what the queues of the link hold
        there.cut()
        with pytest.raises(OSError, match=r"timed out|No route"):
            round_trip(here, there)
        there.mend()
        assert round_trip(here, there) < 10


def check(fleet, alone, entries):
    """The release is whole where readers find it, was charged once, and has the bits of one host."""
    assert fleet.kinds() == entries
    assert fleet.digest() == alone[0]


@pytest.mark.slow
def test_a_release_on_three_hosts_has_the_bits_of_one(fleet, alone):
    status, said = Release(fleet).done()
    assert status == 0, said
    check(fleet, alone, WHOLE)


@pytest.mark.slow
def test_a_host_that_vanishes_while_reading_costs_one_charge_and_no_bit(harmed, alone):
    needs("tc")
    one = harmed.network["one"]
    with harmed.network["objects"].limited("20mbit"):
        attempt = Release(harmed, READING)
        with attempt.stopped():
            one.cut()
    try:
        status, said = attempt.done()
        assert status == 0, said
        check(harmed, alone, WHOLE)
    finally:
        one.mend()


@pytest.mark.slow
def test_a_host_that_vanishes_before_the_key_is_sent_costs_one_charge_and_no_bit(harmed, alone):
    attempt = Release(harmed, DRAWING)
    with attempt.stopped():
        harmed.network["two"].cut()
    try:
        status, said = attempt.done()
        assert status == 0, said
        check(harmed, alone, WHOLE)
    finally:
        harmed.network["two"].mend()


@pytest.mark.slow
def test_a_scheduler_that_is_killed_or_cut_off_is_noticed_and_costs_one_charge_and_no_bit(harmed, alone):
    with harmed.network["objects"].limited("20mbit"):
        attempt = Release(harmed, READING)
        with attempt.stopped():
            harmed.stop_cluster()
        status, said = attempt.done()
    assert status == 8, said
    assert "Traceback" not in said
    assert harmed.kinds() == ["BUDGET", "RESERVED", "VOID"]

    harmed.start_cluster()
    attempt = Release(harmed, DRAWING)
    with attempt.stopped():
        harmed.network["scheduler"].cut()
    try:
        status, said = attempt.done()
    finally:
        harmed.network["scheduler"].mend()
    assert status == 8, said
    assert "Traceback" not in said
    assert harmed.kinds()[3:] == ["RESERVED", "COMMITTED"]

    harmed.start_cluster()
    status, said = Release(harmed).done()
    assert status == 0, said
    check(harmed, alone, ["BUDGET", "RESERVED", "VOID", "RESERVED", "COMMITTED", "RELEASED"])


@pytest.mark.slow
def test_a_link_of_a_worker_that_is_away_for_a_while_and_comes_back_costs_one_charge_and_no_bit(harmed, alone):
    """The cluster is not started again: what held its place before the cut may come back after it."""
    attempt = Release(harmed, READING)
    with attempt.stopped():
        harmed.network["one"].cut()
    time.sleep(20)
    harmed.network["one"].mend()
    status, said = attempt.done()
    if status:
        assert status == 8, said
        assert "Traceback" not in said
        status, said = Release(harmed).done()
    assert status == 0, said
    entries = [kind for kind in harmed.kinds() if kind != "VOID"]
    assert (entries.count("COMMITTED"), entries[-1]) == (1, "RELEASED")
    assert harmed.digest() == alone[0]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [READING, DRAWING])
def test_a_database_that_is_away_for_half_a_minute_costs_one_charge_and_no_bit(fleet, alone, stage):
    attempt = Release(fleet, stage)
    with attempt.stopped():
        fleet.network["database"].cut()
    time.sleep(30)
    fleet.network["database"].mend()
    status, said = attempt.done()
    if status:
        assert status == 6, said
        assert "The ledger's server" in said
        assert "Traceback" not in said
        status, said = Release(fleet).done()
    assert status == 0, said
    assert fleet.kinds()[-1] == "RELEASED"
    check(fleet, alone, WHOLE)


def slow(fleet):
    needs("tc")
    return fleet.network["two"].limited("10mbit")


def lossy(fleet):
    needs("nft")
    return fleet.network["two"].lossy(1)


def far(fleet):
    return fleet.network["two"].delayed(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [slow, lossy, far])
def test_a_bad_link_of_a_worker_costs_time_and_no_bit(fleet, alone, fault):
    with fault(fleet):
        status, said = Release(fleet).done()
    assert status == 0, said
    check(fleet, alone, WHOLE)
