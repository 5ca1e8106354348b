"""A release leaves for an object store whole or not at all, once, and counts as released when readers see it there."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from datetime import date

import obstore
import pytest

from blockveil.pipeline.base.errors import ConfigError, LedgerError, StoreError, StoreUnreachable
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import destination, lost_ledger, publishing, retention
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.destination import Destination
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from tests.house import support, warm
from tests.house.faulty_store import Door
from tests.pipeline.data.test_objects import SECRET, made_bucket, started_server
from tests.pipeline.releases.test_publishing import ATTRIBUTES, RELEASE, released

NIGHT = date(2026, 11, 20)
FOLDER = "people/moments"
PROVIDERS = ("AWS_", "GOOGLE_", "AZUR")
"""How names of variables of credentials begin."""


@pytest.fixture(scope="module")
def door():
    """A store that can fail."""
    running = started_server()
    host, port = running.get_host_and_port()
    door = Door(f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
    yield door
    door.close()
    running.stop()


@pytest.fixture
def bucket(door, monkeypatch, request):
    """Address of a bucket of its own behind that door."""
    door.reset()
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.5)
    return made_bucket(door.address, monkeypatch, request.node.nodeid)


def names(address):
    return sorted(found.path for found in objects.listed(objects.client(address)))


def local(root, shift=0.0, release_id=RELEASE):
    attributes = {**ATTRIBUTES, "release_id": release_id}
    arrays = {name: released(shift)[name] for name in ("count", "mean")}
    staged = publishing.stage_release(root, release_id, "first", arrays, attributes)
    return publishing.publish(root, release_id, staged)


def visible(address):
    """Whether readers see the release, which is then whole: its objects are those of the disk."""
    found = names(address)
    return f"{FOLDER}/2026-11-20.json" in found


def same_as(address, published):
    place, folder = objects.client(address), published.pointer.parent
    files = [published.pointer, *(file for file in published.path.rglob("*") if file.is_file())]
    for file in files:
        name = f"{FOLDER}/{file.relative_to(folder).as_posix()}"
        assert bytes(obstore.get(place, name).bytes()) == file.read_bytes()
    assert len([name for name in names(address) if not name.endswith(".blockveil")]) == len(files)


# What is sent, and when.


def test_all_objects_are_those_of_the_disk_and_the_pointer_comes_last(tmp_path, bucket, door):
    published = local(tmp_path)
    Destination(f"{bucket}/deep").send(published)
    same_as(f"{bucket}/deep", published)
    sent = [path.partition("/deep/")[2] for path in door.puts()]
    group = f"{FOLDER}/{published.path.name}"
    assert sent[-1] == f"{FOLDER}/2026-11-20.json"
    assert sent[-2] == f"{group}/zarr.json"
    kinds = [name.endswith("/zarr.json") for name in sent[:-1]]
    assert kinds == sorted(kinds)  # chunks before the metadata that let an array be opened


def test_what_is_there_already_is_not_sent_again(tmp_path, bucket, door):
    place, published = Destination(bucket), local(tmp_path)
    place.send(published)
    door.reset()
    place.send(published)
    assert door.puts() == []


def test_what_somebody_has_removed_is_sent_again_and_what_somebody_has_changed_is_refused(tmp_path, bucket):
    place, published = Destination(bucket), local(tmp_path)
    place.send(published)
    store, chunk = objects.client(bucket), f"{FOLDER}/{published.path.name}/mean/c/0"
    obstore.delete(store, chunk)
    place.send(published)
    same_as(bucket, published)
    obstore.put(store, chunk, b"cut")
    with pytest.raises(StoreError, match="with other bits"):
        place.send(published)


def test_two_who_send_at_once_end_with_one_release(tmp_path, bucket):
    from concurrent.futures import ThreadPoolExecutor

    published = local(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: Destination(bucket).send(published), range(4)))
    same_as(bucket, published)


def test_progress_is_told_from_nothing_to_all(tmp_path, bucket):
    told = []
    Destination(bucket).send(local(tmp_path), told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


# Other bits never replace those that readers have.


def test_other_bits_under_the_same_id_are_refused_and_those_that_are_there_stay(tmp_path, bucket):
    first = local(tmp_path / "one")
    Destination(bucket).send(first)
    with pytest.raises(StoreError, match="with other bits"):
        Destination(bucket).send(local(tmp_path / "two", shift=1.0))
    same_as(bucket, first)


@pytest.mark.parametrize("name", ["count/c", "more/zarr.json", "zarr.json"])
def test_an_object_that_is_not_of_the_release_is_refused_before_readers_see_it(tmp_path, bucket, name):
    published = local(tmp_path)
    obstore.put(objects.client(bucket), f"{FOLDER}/{published.path.name}/{name}", b"{}")
    with pytest.raises(StoreError, match="with other bits"):
        Destination(bucket).send(published)
    assert not visible(bucket)


def test_a_pointer_that_is_none_is_refused(tmp_path, bucket):
    for content in (b"", b"[]", b'{"path": "../../other", "output_digest": "0"}', b"\xff"):
        obstore.put(objects.client(bucket), f"{RELEASE}.json", content)
        with pytest.raises(StoreError, match="with other bits"):
            Destination(bucket).send(local(tmp_path))


def test_a_store_that_replaces_what_exists_is_refused_before_anything_is_paid_for(bucket, door):
    place = Destination(bucket)
    place.require(RELEASE)
    place.require(RELEASE)
    assert names(bucket) == [f"{FOLDER}/.blockveil"]
    door.fault = lambda method, path, number: "ignorant" if method == "PUT" else "pass"
    with pytest.raises(StoreError, match="replaces an object"):
        place.require(RELEASE)


@pytest.mark.parametrize("fault", ["denied", "skewed"])
def test_a_write_that_is_denied_is_said_without_the_words_of_the_store(tmp_path, bucket, door, fault):
    door.fault = lambda method, path, number: fault if method == "PUT" else "pass"
    place = Destination(bucket)
    for work in (lambda: place.require(RELEASE), lambda: place.send(local(tmp_path))):
        with pytest.raises(StoreError, match="no permission") as caught:
            work()
        assert type(caught.value) is StoreError  # another try would not help
        assert "clock" in str(caught.value)
        for word in (SECRET, "quoted", "127.0.0.1"):
            assert word not in str(caught.value)
        assert caught.value.__context__ is None
    assert names(bucket) == []


def test_a_bucket_that_is_not_there_is_named(bucket):
    with pytest.raises(StoreError, match="is not there"):
        Destination(f"{bucket}-other").require(RELEASE)
    with pytest.raises(StoreError, match="is not there"):  # a list has another error of the library
        Destination(f"{bucket}-other").pointers("people", "moments")


class Killed(BaseException):
    """The process ends here."""


def requests_of_one_upload(door, bucket, root):
    door.reset()
    Destination(f"{bucket}/whole").send(local(root))
    return len(door.seen)


# At whatever request an upload ends, readers see nothing or all, and the next one finishes it.


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_each_object_leaves_nothing_visible_or_all_and_is_finished(tmp_path, bucket, monkeypatch, when):
    published, put = local(tmp_path), destination.writes.put_new
    total = len([file for file in published.path.rglob("*") if file.is_file()]) + 1
    monkeypatch.setattr(destination, "AT_ONCE", 1)
    for last in range(1, total + 1):
        place, count = Destination(f"{bucket}/{last}"), 0

        def killed(*args, last=last):
            nonlocal count
            count += 1
            if count == last and when == "before":
                raise Killed
            made = put(*args)
            if count >= last:
                raise Killed
            return made

        monkeypatch.setattr(destination.writes, "put_new", killed)
        with pytest.raises(Killed):
            place.send(published)
        assert visible(place.address) == (last == total and when == "after")
        monkeypatch.setattr(destination.writes, "put_new", put)
        place.send(published)
        same_as(place.address, published)


@pytest.mark.parametrize("kind", ["busy", "lost"])
def test_a_store_that_fails_every_third_request_gets_all_of_it(tmp_path, bucket, door, kind):
    published = local(tmp_path)
    door.fault = lambda method, path, number: kind if number % 3 == 0 else "pass"
    Destination(bucket).send(published)
    door.reset()
    same_as(bucket, published)


def test_a_store_that_loses_the_reply_of_every_put_ends_with_the_release_after_some_tries(tmp_path, bucket, door):
    published, place = local(tmp_path), Destination(bucket)
    lost = set()

    def fault(method, path, number):
        if method == "PUT" and path not in lost:
            lost.add(path)
            return "lost"
        return "pass"

    door.fault = fault
    place.send(published)
    door.reset()
    same_as(bucket, published)


def test_a_store_that_goes_away_at_each_request_leaves_nothing_or_all_and_is_finished(
    tmp_path, bucket, door, monkeypatch
):
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.0)
    total = requests_of_one_upload(door, bucket, tmp_path)
    published = local(tmp_path)
    for last in range(1, total + 1, 3):
        door.reset()
        place = Destination(f"{bucket}/{last}")
        door.fault = lambda method, path, number, last=last: "busy" if number >= last else "pass"
        with pytest.raises(StoreUnreachable, match="does not answer as it should") as caught:
            place.send(published)
        assert SECRET not in str(caught.value)
        door.reset()
        assert not visible(place.address)
        place.send(published)
        same_as(place.address, published)


# After the loss of a disk the release is taken from where readers have it.


def test_a_release_comes_back_as_it_was(tmp_path, bucket):
    published, place = local(tmp_path / "one"), Destination(bucket)
    place.send(published)
    again = place.bring_back(tmp_path / "two", RELEASE)
    assert again is not None
    assert publishing.read_release(again.pointer).output_digest == published.output_digest
    assert again.pointer.read_bytes() == published.pointer.read_bytes()
    assert place.bring_back(tmp_path / "two", "people/moments/2026-11-21") is None


def test_a_damaged_or_hostile_release_does_not_come_back(tmp_path, bucket):
    published, place = local(tmp_path / "one"), Destination(bucket)
    place.send(published)
    store, chunk = objects.client(bucket), f"{FOLDER}/{published.path.name}/count/c"
    content = bytes(obstore.get(store, chunk).bytes())
    obstore.put(store, chunk, content[:-1])
    with pytest.raises(StoreError):
        place.bring_back(tmp_path / "two", RELEASE)
    obstore.put(store, chunk, content)
    obstore.put(store, f"{FOLDER}/{published.path.name}/count/größe", b"")
    with pytest.raises(StoreError):
        place.bring_back(tmp_path / "two", RELEASE)
    assert not list((tmp_path / "two").rglob("*.json"))
    assert not list((tmp_path / "two").rglob(".staging*"))


@pytest.fixture
def people(tmp_path, bucket):
    """A release that is sent, and its budget."""
    loaded = support.prepare(tmp_path)
    return sent_to(loaded, f"{bucket}/out")


def sent_to(loaded, address):
    text = loaded.path.read_text().replace("[output]", f'[output]\nupload = "{address}"')
    loaded.path.write_text(text)
    return load_config(loaded.path)


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


def kinds(loaded):
    return [entry.kind for entry in Ledger(loaded.ledger_url).history()]


def pointers(address):
    return [name for name in names(address) if name.endswith(".json") and ".zarr/" not in name]


# The upload as a step of a night.


def test_a_night_is_released_once_readers_see_it(people, bucket, monkeypatch):
    seen, told = [], Ledger.released

    def released_now(self, *args):
        seen.extend(pointers(f"{bucket}/out"))
        told(self, *args)

    monkeypatch.setattr(Ledger, "released", released_now)
    outcome = run(people)
    assert seen == ["people/covariance/2026-11-20.json"]
    pointer = objects.client(f"{bucket}/out")
    assert bytes(obstore.get(pointer, seen[0]).bytes()) == outcome.pointer.read_bytes()


def test_an_upload_that_fails_keeps_the_charge_and_is_finished_with_the_same_bits(people, bucket, door):
    door.fault = lambda method, path, number: "denied" if ".zarr/" in path and method == "PUT" else "pass"
    with pytest.raises(StoreError, match="no permission"):
        run(people)
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED"]
    assert len(KeyStore(people.keys_root).list()) == 1
    door.reset()
    outcome = run(people)
    assert "published this release" in outcome.resumed
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert pointers(f"{bucket}/out") == ["people/covariance/2026-11-20.json"]
    assert KeyStore(people.keys_root).list() == []


def test_a_store_that_refuses_beforehand_costs_nothing(people, door):
    door.fault = lambda method, path, number: "denied"
    with pytest.raises(StoreError, match="no permission"):
        run(people)
    assert "COMMITTED" not in kinds(people)
    assert Ledger(people.ledger_url).budget("people").spent_mu == 0


def test_a_disk_that_is_lost_between_upload_and_seal_is_made_good_from_the_store(people, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "released", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            run(people)
    assert KeyStore(people.keys_root).list() == []  # destroyed, so the noise could not be drawn again
    shutil.rmtree(people.output_root)
    outcome = run(people)
    assert kinds(people)[-1] == "RELEASED"
    assert publishing.read_release(outcome.pointer).output_digest == outcome.output_digest


def test_a_release_of_another_ledger_is_not_joined_by_a_second_one(people, tmp_path):
    run(people)
    shutil.rmtree(people.output_root)
    people.ledger_path.unlink()
    support.set_budget(people, 3.0)
    with pytest.raises(LedgerError, match="is not in this ledger"):
        run(people)
    assert kinds(people) == ["BUDGET"]


def test_a_ledger_that_forgot_a_release_is_refused_a_grant_although_the_disk_is_gone_too(people):
    run(people)
    shutil.rmtree(people.output_root)
    people.ledger_path.unlink()
    with pytest.raises(LedgerError, match="is not in this ledger"):
        lost_ledger.check_grant(people, Ledger(people.ledger_url), None)


def test_a_release_that_was_made_before_uploads_were_asked_for_is_sent_by_running_it_again(tmp_path, bucket):
    loaded = support.prepare(tmp_path)
    run(loaded)
    run(sent_to(loaded, f"{bucket}/out"))
    assert pointers(f"{bucket}/out") == ["people/covariance/2026-11-20.json"]
    assert kinds(loaded).count("RESERVED") == 1


def test_pruning_removes_what_was_sent_too_and_goes_on_after_a_failure(people, bucket, door):
    nights = [date(2026, 11, day) for day in (18, 19, 20)]
    small = load_config(people.path, overrides={"privacy.epsilon": "0.2"})
    for night in nights:
        run(small, night)
    old = retention.old_releases(small, nights[1])
    assert [each.release_id[-10:] for each in old] == ["2026-11-18"]
    door.reset()
    door.fault = lambda method, path, number: "denied" if number == 3 else "pass"
    with pytest.raises(StoreError, match="no permission"):
        retention.prune(old)
    door.reset()
    retention.prune(retention.old_releases(small, nights[1]))
    assert [name[-15:-5] for name in pointers(f"{bucket}/out")] == ["2026-11-19", "2026-11-20"]
    assert not [name for name in names(f"{bucket}/out") if "2026-11-18" in name]


def test_no_secret_of_the_store_reaches_the_release_or_the_ledger(people, bucket, tmp_path, monkeypatch):
    support.write_private(tmp_path / "keys.toml", f'aws_access_key_id = "me"\naws_secret_access_key = "{SECRET}"\n')
    text = people.path.read_text().replace("[output]", '[output]\nupload_credentials = "file:keys.toml"')
    people.path.write_text(text)
    loaded = load_config(people.path)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "")
        patch.setenv("AWS_ACCESS_KEY_ID", "")
        run(loaded)
    assert pointers(f"{bucket}/out")
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "keys.toml"]
    assert all(SECRET.encode() not in file.read_bytes() for file in kept)


KILL = """
import json, os, re, signal, sys
os.environ.update(json.loads(sys.argv[2]))
from datetime import date
from pathlib import Path
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import object_writes
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

put = object_writes.put_new

def put_new(place, path, content):
    made = put(place, path, content)
    if re.search(sys.argv[3], path):
        signal.raise_signal(signal.SIGKILL)
    return made

object_writes.put_new = put_new
run_release(make_plan(load_config(Path(sys.argv[1])), date(2026, 11, 20)), ThreadCompute(2), "killed", lambda *_: None)
"""


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        pytest.param("[.]zarr/", False, marks=pytest.mark.slow),
        pytest.param("[.]zarr/zarr[.]json$", False, marks=pytest.mark.slow),
        ("2026-11-20[.]json$", True),
    ],
    ids=["a chunk", "the group", "the pointer"],
)
def test_a_process_that_is_killed_while_it_sends_is_finished_by_another_one(people, bucket, after, seen):
    settings = {name: value for name, value in os.environ.items() if name.startswith(PROVIDERS)}
    killed = warm.run(KILL, str(people.path), json.dumps(settings), after)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert bool(pointers(f"{bucket}/out")) == seen
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED"]
    (before,) = people.output_root.rglob("*.zarr")
    assert run(people).path == before
    assert pointers(f"{bucket}/out") == ["people/covariance/2026-11-20.json"]
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert open_release(f"{bucket}/out/people/covariance/2026-11-20.json").name == before.name


# What a config may say.


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('upload = "out"', "is the address of an object store"),
        ('upload = "s3://key:hunter2@bucket/x"', "not the address of an object store"),
        ('upload = "s3://bucket/x?sig=hunter2"', "not the address of an object store"),
        ('upload = "https://example.org/x"', "not the address of an object store"),
        ('upload_credentials = "env:KEYS"', "Credentials are those of an upload"),
        ('upload = "s3://b/x"\nupload_credentials = "hunter2"', "not a reference"),
    ],
)
def test_what_is_no_address_and_no_reference_is_refused_unseen(tmp_path, lines, said):
    loaded = support.prepare(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("[output]", f"[output]\n{lines}"))
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(loaded.path)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("store", ["s3://bucket/people", "s3://bucket/people/out/records.zarr", "s3://bucket"])
def test_releases_and_records_in_one_folder_are_refused(tmp_path, store):
    loaded = support.prepare(tmp_path)
    text = loaded.path.read_text().replace("records.zarr", store)
    loaded.path.write_text(text.replace("[output]", '[output]\nupload = "s3://bucket/people/out"'))
    with pytest.raises(ConfigError, match="must not read records"):
        load_config(loaded.path)


@pytest.mark.parametrize("content", ["hunter2", "a = 1", "", "[a]\nb = 'hunter2'"])
def test_credentials_that_are_none_are_refused_unseen(tmp_path, monkeypatch, content, people):
    monkeypatch.setenv("KEYS", content)
    people.path.write_text(people.path.read_text().replace("[output]", '[output]\nupload_credentials = "env:KEYS"'))
    with pytest.raises(ConfigError, match=r"output\.upload_credentials") as caught:
        run(load_config(people.path))
    assert "hunter2" not in str(caught.value)


def test_settings_that_no_provider_knows_are_refused_before_anything_is_paid_for(monkeypatch, people):
    monkeypatch.setenv("KEYS", f'aws_acces_key = "{SECRET}"')
    people.path.write_text(people.path.read_text().replace("[output]", '[output]\nupload_credentials = "env:KEYS"'))
    with pytest.raises(StoreError, match="names that the provider knows") as caught:
        run(load_config(people.path))
    assert SECRET not in str(caught.value)
    assert kinds(people) == ["BUDGET"]


def test_where_releases_are_sent_is_no_part_of_what_they_are(tmp_path, people):
    plain = load_config(people.path)
    without = replace(
        plain,
        config=plain.config.model_copy(update={"output": plain.config.output.model_copy(update={"upload": None})}),
    )
    assert make_plan(plain, NIGHT).digest == make_plan(without, NIGHT).digest
