"""Readers open a release where it was sent, by its address, and get the numbers that were published or nothing."""

from __future__ import annotations

import json

import numpy as np
import obstore
import pytest

import blockveil as bv
from blockveil.flows.runs.conductor import attempt_of, conduct
from blockveil.pipeline.base.errors import ConfigError, StoreError, StoreUnreachable
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.released import open_release, read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.destination import Destination
from blockveil.pipeline.releases.order import plainly
from blockveil.pipeline.report import write_comparison, write_report
from blockveil.pipeline.verification.verified import releases_at, verify
from tests.flows.cli.test_report_command import report
from tests.house import support
from tests.pipeline.data.test_objects import SECRET, made_bucket
from tests.pipeline.releases import test_uploading as sending
from tests.pipeline.releases.test_uploading import FOLDER, NIGHT, local, names, sent_to

door, bucket = sending.door, sending.bucket

pytestmark = pytest.mark.usefixtures("pictures_in_words")


@pytest.fixture(scope="module")
def made(door, tmp_path_factory):
    """A release that was made and sent with its report: its config, and the address of the folder of its nights."""
    with pytest.MonkeyPatch.context() as patch:
        there = f"{made_bucket(door.address, patch, __name__)}/out"
        loaded = sent_to(support.prepare(tmp_path_factory.mktemp("made")), there)
        plan, ledger = make_plan(loaded, NIGHT), Ledger(loaded.ledger_url)
        conduct(attempt_of(plan, ledger, "test", None, lambda *_: None), plainly)
        yield loaded, f"{there}/people/covariance"


@pytest.fixture
def address(tmp_path, bucket):
    """Of the nights of a small release."""
    Destination(bucket).send(local(tmp_path))
    return f"{bucket}/{FOLDER}"


def test_the_same_numbers_are_opened_by_pointer_group_folder_and_id(made):
    people, address = made
    here = bv.open(people.output_root / "people" / "covariance")
    group = f"{address}/{here.opened.name}"
    for where in (f"{address}/2026-11-20.json", group, address, f"{address}/"):
        there = bv.open(where)
        assert there.path == group
        assert there.release_id == "people/covariance/2026-11-20"
        for name in here.names:
            np.testing.assert_array_equal(there.array(name), here.array(name))
    assert bv.open("people/covariance/2026-11-20", root=address.removesuffix("/people/covariance")).path == group
    assert read_release(group).output_digest == here.attributes["output_digest"]
    assert repr(bv.open(group)) == repr(here)


def test_the_last_night_of_a_folder_is_opened_and_what_is_no_night_is_left_out(address):
    place = objects.client(address)
    obstore.put(place, "2026-12-31.report.json", b"{}")
    obstore.put(place, "notes.json", b"{}")
    assert bv.open(address).release_id.endswith("2026-11-20")


def test_the_report_is_beside_what_was_sent_and_a_browser_shows_it(made):
    people, address = made
    here = people.output_root / "people" / "covariance"
    stem = bv.open(address).opened.name.removesuffix(".zarr")
    place = objects.client(address)
    for ending, kind in ((".html", "text/html; charset=utf-8"), (".report.json", "application/json")):
        got = obstore.get(place, f"{stem}{ending}")
        assert got.attributes["Content-Type"] == kind
        assert bytes(got.bytes()) == (here / f"{stem}{ending}").read_bytes()


@pytest.mark.slow
def test_the_command_reports_an_address_with_a_page_and_without(tmp_path, made):
    people, address = made
    said = report(address + "/2026-11-20.json", "--config", people.path)
    assert "people/covariance/2026-11-20" in said
    assert "the release is not on this machine" in said
    page = tmp_path / "page.html"
    report(address + "/2026-11-20.json", "--config", people.path, "--output", page)
    ours = json.loads(page.with_suffix(".json").read_text())
    (theirs,) = (people.output_root / "people" / "covariance").glob("*.report.json")
    assert ours == json.loads(theirs.read_text())


def test_a_page_beside_a_release_that_is_elsewhere_is_refused(made):
    with pytest.raises(ConfigError, match="no page is named"):
        write_report(f"{made[1]}/2026-11-20.json")


def test_a_comparison_takes_addresses(tmp_path, made):
    address = made[1]
    with pytest.raises(Exception, match="same release"):
        write_comparison(f"{address}/2026-11-20.json", f"{address}/2026-11-20.json", tmp_path / "page.html")


@pytest.mark.parametrize("harm", ["chunk", "missing", "array", "pointer", "none"])
def test_a_release_that_was_changed_in_the_store_is_refused(address, harm):
    place, pointer = objects.client(address), "2026-11-20.json"
    group = bv.open(address).opened.name
    if harm == "chunk":
        content = bytes(obstore.get(place, f"{group}/mean/c/0").bytes())
        obstore.put(place, f"{group}/mean/c/0", bytes(255 - byte for byte in content))
    elif harm == "missing":
        obstore.delete(place, f"{group}/mean/c/0")
    elif harm == "array":
        for name in names(f"{address}/{group}/count"):
            content = bytes(obstore.get(place, f"{group}/count/{name}").bytes())
            obstore.put(place, f"{group}/more/{name}", content)
    elif harm == "pointer":
        content = json.loads(bytes(obstore.get(place, pointer).bytes()))
        obstore.put(place, pointer, json.dumps({**content, "path": "../../../secret.zarr"}).encode())
    else:
        obstore.delete(place, pointer)
    with pytest.raises(StoreError) as caught:
        open_release(f"{address}/{pointer}")
    assert type(caught.value) is StoreError


@pytest.mark.parametrize("where", ["s3://me:{}@bucket/x.json", "s3://bucket/x.zarr?sig={}", "s3://bucket/#{}"])
def test_an_address_that_could_hold_credentials_is_refused_unseen(where):
    for work in (lambda: bv.open(where.format(SECRET)), lambda: write_report(where.format(SECRET))):
        with pytest.raises(StoreError, match="without credentials") as caught:
            work()
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("where", ["s3://", "ftp://a/b.json", "az://c/x.json", "s3://b/a b/ü.json", "s3://b/\0.json"])
def test_what_is_no_address_is_refused_in_words(bucket, where):
    with pytest.raises(StoreError):
        bv.open(where)


@pytest.mark.parametrize("where", ["https://example.org/people/2026-11-20.json", "http://127.0.0.1:9/people"])
def test_a_web_server_is_no_object_store(where):
    for work in (lambda: bv.open(where), lambda: [verify(each).holds for each in releases_at(where)]):
        with pytest.raises(StoreError, match="address of a web server"):
            work()


def test_all_releases_below_an_address_are_verified(bucket, address):
    here = f"{address}/2026-11-20.json"
    for place in (bucket, f"{bucket}/people", f"{address}/"):
        assert here in releases_at(place)
        found = [{line.what: line.holds for line in verify(each).findings} for each in releases_at(place)]
        assert all(each["Content"] and each["Place"] for each in found)
    assert releases_at(here) == [here]
    with pytest.raises(StoreError, match="holds no release"):
        releases_at(f"{bucket}/nothing")


def test_what_is_not_there_or_is_denied_or_away_is_said_without_secrets(bucket, address, door):
    for where in (f"{bucket}/nothing", f"{bucket}/nothing/2026-11-20.json", f"{bucket}/people/x.zarr"):
        with pytest.raises(StoreError, match="missing"):
            bv.open(where)
    opened = bv.open(address)
    faults = {"denied": StoreError, "busy": StoreUnreachable}
    for fault, kind in faults.items():
        door.fault = lambda method, path, number, fault=fault: fault
        for work in (
            lambda: bv.open(address),
            lambda: bv.open(f"{address}/2026-11-20.json"),
            lambda: bv.open(opened.path),
            lambda: opened.array("count"),
            *([lambda: verify(f"{address}/2026-11-20.json")] if kind is StoreUnreachable else []),
        ):
            with pytest.raises(kind) as caught:
                work()
            for word in (SECRET, "127.0.0.1", "quoted"):
                assert word not in str(caught.value)
        door.reset()
    np.testing.assert_array_equal(opened.array("count"), bv.open(address).array("count"))
