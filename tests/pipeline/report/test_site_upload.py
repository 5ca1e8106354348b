"""A site in an object store: its first page always leads to whole pages, and only what changed is sent."""

from __future__ import annotations

import obstore
import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError, StoreUnreachable
from blockveil.pipeline.data import objects
from blockveil.pipeline.report import site_upload
from blockveil.pipeline.report.site_folder import replacing
from blockveil.pipeline.report.site_upload import SiteDestination
from tests.house import support
from tests.pipeline.data.test_objects import SECRET
from tests.pipeline.releases import test_uploading as sending
from tests.pipeline.releases.test_uploading import Killed, names

door, bucket = sending.door, sending.bucket
NIGHT = "people/covariance/2026-11-{}.html"


def site(folder, nights, code="1"):
    """A site of some nights, whose first page names them."""
    with replacing(folder / "site") as draft:
        for night in nights:
            draft.write(NIGHT.format(night), f"<p>{night} by {code}</p>".encode(), [], "")
        draft.write("index.html", f"<p>{' '.join(map(str, nights))} by {code}</p>".encode(), [], "")
    return folder / "site"


def text(address, name):
    return bytes(obstore.get(objects.client(address), name).bytes()).decode()


def same_as(address, output):
    there = {name: text(address, name) for name in names(address)}
    folder = output.resolve()
    assert there == {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.*")}


def first_page_leads_to_whole_pages(address):
    """What a reader checks who comes by the first page."""
    if "index.html" in names(address):
        for night in text(address, "index.html")[3:].split(" by ")[0].split():
            assert text(address, NIGHT.format(night)).startswith(f"<p>{night} by")


def test_the_pages_are_those_of_the_site_and_the_first_one_comes_last(tmp_path, bucket, door):
    output = site(tmp_path, [20, 21])
    assert SiteDestination(f"{bucket}/site").upload(output) == 3
    same_as(f"{bucket}/site", output)
    assert [path.rpartition("/")[2] for path in door.puts()][-2:] == ["index.html", "pages.json"]
    got = obstore.get(objects.client(bucket), "site/index.html")
    assert got.attributes["Content-Type"] == "text/html; charset=utf-8"


def test_only_what_changed_is_sent_and_what_is_no_longer_of_the_site_is_removed(tmp_path, bucket, door):
    place = SiteDestination(bucket)
    place.upload(site(tmp_path, [20, 21]))
    door.reset()
    assert place.upload(tmp_path / "site") == 0
    assert door.puts() == []
    assert place.upload(site(tmp_path, [21, 22])) == 2  # the new night and the first page
    same_as(bucket, tmp_path / "site")
    assert place.upload(site(tmp_path, [21, 22], code="2")) == 3
    same_as(bucket, tmp_path / "site")


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_kill_at_each_request_leaves_whole_pages_and_is_finished(tmp_path, bucket, monkeypatch, when):
    old, new = site(tmp_path / "old", [20, 21]), site(tmp_path / "new", [21, 22], code="2")
    whole, number = site_upload.writes.answered, 0
    monkeypatch.setattr(site_upload, "AT_ONCE", 1)
    while True:
        number += 1
        place, count = SiteDestination(f"{bucket}/{number}"), 0
        place.upload(old)

        def killed(name, work, number=number):
            nonlocal count
            count += 1
            if count == number and when == "before":
                raise Killed
            found = whole(name, work)
            if count == number:
                raise Killed
            return found

        with monkeypatch.context() as patch:
            patch.setattr(site_upload.writes, "answered", killed)
            try:
                place.upload(new)
            except Killed:
                first_page_leads_to_whole_pages(place.address)
            else:
                break
        place.upload(new)
        same_as(place.address, new)
    assert number > 6


def test_of_two_senders_one_is_told_to_come_again_and_then_all_pages_are_right(tmp_path, bucket, monkeypatch):
    place, put = SiteDestination(bucket), site_upload.writes.put_over
    first, second = site(tmp_path / "one", [20, 21], "1"), site(tmp_path / "two", [20, 21], "2")

    def meanwhile(*args):
        monkeypatch.setattr(site_upload.writes, "put_over", put)
        SiteDestination(bucket).upload(second)
        put(*args)  # a page of the slow one, over that of the other

    monkeypatch.setattr(site_upload, "AT_ONCE", 1)
    monkeypatch.setattr(site_upload.writes, "put_over", meanwhile)
    with pytest.raises(StoreUnreachable, match="Somebody else"):
        place.upload(first)
    place.upload(first)
    same_as(bucket, first)


@pytest.mark.parametrize("fault", ["busy", "lost"])
def test_a_store_that_fails_every_third_request_gets_all_pages(tmp_path, bucket, door, fault):
    output = site(tmp_path, range(10, 20))
    door.fault = lambda method, path, number: fault if number % 3 == 0 else "pass"
    for _ in range(5):
        try:
            SiteDestination(bucket).upload(output)
        except StoreUnreachable:  # the reply to a claim was lost
            continue
        break
    door.reset()
    same_as(bucket, output)


def test_a_page_that_went_just_before_a_kill_is_sent_again_where_it_is_wanted_again(tmp_path, bucket, monkeypatch):
    place, before = SiteDestination(bucket), site(tmp_path / "before", [20, 21])
    place.upload(before)
    with monkeypatch.context() as patch:
        remove = site_upload.writes.remove
        patch.setattr(site_upload.writes, "remove", lambda *args: (remove(*args), (_ for _ in ()).throw(Killed())))
        with pytest.raises(Killed):
            place.upload(site(tmp_path / "after", [21]))
    assert NIGHT.format(20) not in names(bucket)
    place.upload(before)
    same_as(bucket, before)


def test_a_manifest_that_somebody_has_changed_makes_nothing_else_go(tmp_path, bucket):
    place = objects.client(bucket)
    for name in ("people/covariance/2026-11-20.json", "notes.html", "people/x.zarr/zarr.json"):
        obstore.put(place, name, b"kept")
    for content in (
        b"[]",
        b"{",
        b'{"people/covariance/2026-11-20.json": {}, "notes.html": {}, "../x.html": {}, "a": 1}',
    ):
        obstore.put(place, "pages.json", content)
        SiteDestination(bucket).upload(site(tmp_path, [20]))
        for name in ("people/covariance/2026-11-20.json", "notes.html", "people/x.zarr/zarr.json"):
            assert text(bucket, name) == "kept"


def test_the_command_sends_the_site_and_says_where(tmp_path, bucket, door, pictures_in_words):
    loaded = support.prepare(tmp_path)
    words = ["export", "site", str(loaded.base), "--output", str(tmp_path / "site"), "--upload", f"{bucket}/pages"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert f"{bucket}/pages/index.html; 1 page was sent now" in found.output
    same_as(f"{bucket}/pages", tmp_path / "site")
    door.fault = lambda method, path, number: "denied"
    with pytest.raises(StoreError, match="no permission"):
        SiteDestination(bucket, key="--upload").upload(tmp_path / "site")
    for address in ("out", f"s3://key:{SECRET}@bucket/x"):
        refused = CliRunner().invoke(app, [*words[:-1], address])
        assert isinstance(refused.exception, ConfigError)
        assert SECRET not in str(refused.exception)
