"""What holds for uploads to S3 holds for Google Cloud Storage and Azure: the same tests against stores like them."""

from __future__ import annotations

import base64
import hashlib
import json

import obstore
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import object_writes as writes
from blockveil.pipeline.data import objects
from tests.house import support
from tests.house.faulty_store import Door
from tests.house.other_clouds import Azure, Google
from tests.pipeline import conftest
from tests.pipeline.data import test_objects as reading
from tests.pipeline.data.test_objects import SECRET
from tests.pipeline.releases import test_opening_what_was_sent as opening
from tests.pipeline.releases import test_uploading as sending
from tests.pipeline.report import test_site_upload as pages

people, address, remote = sending.people, opening.address, reading.remote
pictures_in_words = conftest.pictures_in_words

SAME = (
    sending.test_all_objects_are_those_of_the_disk_and_the_pointer_comes_last,
    sending.test_what_is_there_already_is_not_sent_again,
    sending.test_what_somebody_has_removed_is_sent_again_and_what_somebody_has_changed_is_refused,
    sending.test_two_who_send_at_once_end_with_one_release,
    sending.test_other_bits_under_the_same_id_are_refused_and_those_that_are_there_stay,
    sending.test_an_object_that_is_not_of_the_release_is_refused_before_readers_see_it,
    sending.test_a_pointer_that_is_none_is_refused,
    sending.test_a_store_that_replaces_what_exists_is_refused_before_anything_is_paid_for,
    sending.test_a_write_that_is_denied_is_said_without_the_words_of_the_store,
    sending.test_a_bucket_that_is_not_there_is_named,
    sending.test_a_kill_at_each_object_leaves_nothing_visible_or_all_and_is_finished,
    sending.test_a_store_that_fails_every_third_request_gets_all_of_it,
    sending.test_a_store_that_loses_the_reply_of_every_put_ends_with_the_release_after_some_tries,
    sending.test_a_store_that_goes_away_at_each_request_leaves_nothing_or_all_and_is_finished,
    sending.test_a_release_comes_back_as_it_was,
    sending.test_a_damaged_or_hostile_release_does_not_come_back,
    sending.test_an_upload_that_fails_keeps_the_charge_and_is_finished_with_the_same_bits,
    sending.test_a_disk_that_is_lost_between_upload_and_seal_is_made_good_from_the_store,
    sending.test_pruning_removes_what_was_sent_too_and_goes_on_after_a_failure,
    sending.test_a_process_that_is_killed_while_it_sends_is_finished_by_another_one,
    pages.test_the_pages_are_those_of_the_site_and_the_first_one_comes_last,
    pages.test_only_what_changed_is_sent_and_what_is_no_longer_of_the_site_is_removed,
    pages.test_a_kill_at_each_request_leaves_whole_pages_and_is_finished,
    pages.test_of_two_senders_one_is_told_to_come_again_and_then_all_pages_are_right,
    pages.test_a_store_that_fails_every_third_request_gets_all_pages,
    pages.test_a_page_that_went_just_before_a_kill_is_sent_again_where_it_is_wanted_again,
    opening.test_the_last_night_of_a_folder_is_opened_and_what_is_no_night_is_left_out,
    opening.test_a_release_that_was_changed_in_the_store_is_refused,
    opening.test_all_releases_below_an_address_are_verified,
    opening.test_what_is_not_there_or_is_denied_or_away_is_said_without_secrets,
    reading.test_a_release_of_records_in_a_bucket_has_the_noise_free_parts_of_one_of_local_records,
    reading.test_a_grown_store_in_a_bucket_is_that_of_the_local_one_while_it_grows,
    reading.test_an_ingest_reads_objects_of_every_format,
    reading.test_an_object_that_is_replaced_while_it_is_read_is_refused,
    reading.test_a_file_like_object_reads_any_part,
)

globals().update({test.__name__: test for test in SAME})


@pytest.fixture(scope="module", params=[Google, Azure], ids=lambda kind: kind.scheme)
def door(request):
    """A store of another provider that can fail."""
    cloud = request.param()
    door = Door(cloud.address)
    door.cloud = cloud
    yield door
    door.close()
    cloud.close()


@pytest.fixture
def bucket(door, monkeypatch, request):
    """Address of a bucket of its own behind that door."""
    door.reset()
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.5)
    for name, value in door.cloud.environment(door.address, SECRET).items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"
    door.cloud.make(name)
    return f"{door.cloud.scheme}://{name}"


def test_of_two_who_read_one_state_one_replaces_it_although_the_content_has_come_back(bucket):
    place = objects.client(bucket)
    writes.put_over(place, "a", b"1")
    found = objects.content_of(place, "a")
    assert found is not None
    state = found[1]
    for content in (b"2", b"1"):
        writes.put_over(place, "a", content)
    assert writes.put_if_still(place, "a", b"3", state) is None
    assert writes.put_if_still(place, "b", b"3", state) is None
    now = objects.content_of(place, "a")
    assert now is not None
    made = writes.put_if_still(place, "a", b"4", now[1])
    assert made is not None
    assert writes.put_if_still(place, "a", b"5", made) is not None
    assert writes.put_if_still(place, "a", b"6", None) is None
    assert bytes(obstore.get(place, "a").bytes()) == b"5"


def test_an_object_is_known_by_one_identity_whether_it_is_listed_or_looked_up(bucket):
    place = objects.client(bucket)
    writes.put_over(place, "deep/a", b"1")
    (listed,) = objects.listed(place, "deep")
    assert listed == objects.looked_up(place, "deep/a")


@pytest.mark.parametrize("scheme", ["az", "azure", "abfs", "abfss"])
def test_a_client_of_azure_can_be_shown_wherever_its_account_is_named(scheme, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "clinic")
    for settings in (None, {"azure_storage_account_key": "a2V5"}, {"azure_storage_account_name": "clinic"}):
        shown = repr(objects.client(f"{scheme}://container/folder", settings))
        assert "clinic" in shown
        assert "a2V5" not in shown


def account_of_google(folder):
    """Settings that lead to the key of a service account, and a part of that key."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"client_email": "blockveil@example.org", "private_key_id": "1", "private_key": key.decode()}
    (folder / "account.json").write_text(json.dumps({"type": "service_account", **account}))
    return {"google_service_account": str(folder / "account.json")}, key.decode().splitlines()[3]


def test_an_account_that_the_config_refers_to_sends_a_night_and_shows_nowhere(
    tmp_path, people, door, bucket, monkeypatch
):
    if door.cloud.scheme == "gs":
        monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
        settings, hidden = account_of_google(tmp_path)
    else:
        hidden = base64.b64encode(b"a key of an account").decode()
        settings = {"azure_storage_account_key": hidden}
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    support.write_private(tmp_path / "upload.toml", "\n".join(lines))
    text = people.path.read_text().replace("[output]", '[output]\nupload_credentials = "file:upload.toml"')
    people.path.write_text(text)
    loaded = load_config(people.path)
    sending.run(loaded)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
    assert sending.pointers(f"{bucket}/out")
    kept = [file for file in tmp_path.rglob("*") if file.name not in ("account.json", "upload.toml") and file.is_file()]
    assert all(hidden.encode() not in file.read_bytes() for file in kept)
