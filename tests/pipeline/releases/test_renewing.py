"""An erasure replaces all digests of records in the ledgers of a store, and destroys the key that they were under."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from datetime import timedelta

import numpy as np
import pytest

from blockveil.pipeline.base.errors import BlockveilError, KeyLost, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.fingerprint import prefixes
from blockveil.pipeline.data.history import histories
from blockveil.pipeline.data.ingest import erasing, growth_state, release_list
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.renewals import Renewal
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import charged_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.contents import LedgerDigests, key_name
from blockveil.pipeline.releases.keys import ContentStore, KeyStore
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.house import support
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_append_kills import STEPS, Killed
from tests.pipeline.releases.test_growing_nights import FIRST, erase, grow_by_person, of_persons, run

SERIES = "continual = {nights = 5, first = 2026-11-01}"


def ledger_of(loaded):
    return Ledger(loaded.ledger_url)


def everything(folder):
    """Each file of store, state, ledger, key store and releases but the source and the configs."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] != "in" and file.suffix != ".toml"
    }


def plain_digests(array):
    """Every unkeyed digest of stored records that was ever written, or that one would think of."""
    rows = np.ascontiguousarray(array[:])
    begins = [b"", f"blockveil history 1 {rows.dtype.str} {rows.shape[1]}\n".encode()]
    found = set()
    for count in range(1, len(rows) + 1):
        for begin in begins:
            for kind in (hashlib.sha256, hashlib.blake2b):
                found.add(kind(begin + rows[:count].tobytes()).digest())
        found |= {kind(rows[count - 1].tobytes()).digest() for kind in (hashlib.sha256, hashlib.blake2b)}
    for identity in prefixes(array):
        found |= {bytes.fromhex(identity), hashlib.sha256(identity.encode()).digest()}
    return found


def test_no_digest_of_erased_records_that_can_be_recomputed_is_left_in_any_file(tmp_path):
    loaded = of_persons(tmp_path, SERIES)
    tried = set()
    keys = []
    for number in range(2):
        grow_by_person(tmp_path, number)
        run(loaded, number)
    before = grown.opened(tmp_path)
    for persons in ([3], [17], [3, 5]):
        tried |= plain_digests(before)
        first, generation = ledger_of(loaded).first(), ledger_of(loaded).renewals().generation
        keys.append(ContentKey(ContentStore(tmp_path / "keys").read(key_name(first, generation))))
        key = keys[-1]
        found = {*map(key.fingerprint, prefixes(before)), *histories(before, key, before.manifest.borders[1:])}
        assert any(digest.encode() in content for digest in found for content in everything(tmp_path).values())
        erase(tmp_path, persons)
        before = grown.opened(tmp_path)
    assert len(tried) > 400
    secrets = [key._secret for key in keys]
    for name, content in everything(tmp_path).items():
        assert not any(one in content or one.hex().encode() in content for one in (*tried, *secrets)), name
    assert len(ContentStore(tmp_path / "keys").list()) == 1


@pytest.mark.parametrize("more", ["", SERIES])
def test_nights_and_series_go_on_by_the_entry_alone(tmp_path, more):
    loaded = of_persons(tmp_path, more)
    for number in range(3):
        grow_by_person(tmp_path, number)
        run(loaded, number)
        erase(tmp_path, [3 + number, 17 + number])
    ledger = ledger_of(loaded)
    assert ledger.verify().problems == []
    assert [entry.kind for entry in ledger.history()].count("RENEWED") == 3
    assert "erased" not in json.loads((tmp_path / "out.zarr" / "records" / "zarr.json").read_text())["attributes"]
    if more:
        spent = ledger.budget("people").spent
        grow_by_person(tmp_path, 3)
        assert run(loaded, 3).resumed is None
        assert ledger.budget("people").spent == spent
    newest = ledger.history()[-1]
    assert newest.kind in ("RENEWED", "RELEASED")


def killed_at(loaded, number, step):
    """Leave a night as it is when its process dies."""
    plan, books = support.opened(make_plan(loaded, FIRST + timedelta(days=number)))
    reservation = charged_steps.reserve(plan, books, "killed")
    if step != "RESERVED":
        staged = charged_steps.measure(plan, books, reservation, ThreadCompute(1), lambda *_: None)
    if step == "published":
        published = charged_steps.publish(plan, staged)
        books.keys.destroy(reservation.charge.charge_id)
        staged.held.discard()
        del published
    return books, reservation


@pytest.mark.parametrize("step", ["RESERVED", "COMMITTED"])
@pytest.mark.parametrize("more", ["", SERIES])
def test_units_are_not_erased_while_a_night_with_their_records_is_unfinished_and_its_remedy_works(tmp_path, step, more):
    loaded = of_persons(tmp_path, more)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    grow_by_person(tmp_path, 1)
    killed_at(loaded, 1, step)
    before = grown.files(tmp_path)
    with pytest.raises(LedgerError, match=f"began with records that are to be erased, and is {step}") as refused:
        erase(tmp_path, [3])
    assert grown.files(tmp_path) == before
    assert "for its date again" in refused.value.remedy
    assert ("ledger admin void" in refused.value.remedy) == (step == "RESERVED")
    assert step.lower() in run(loaded, 1).resumed
    erase(tmp_path, [3])
    grow_by_person(tmp_path, 2)
    assert run(loaded, 2).resumed is None
    assert 3 not in grown.records(tmp_path)[:, 0]


def test_a_charge_that_is_given_back_holds_up_no_erasure_and_its_number_is_not_lost(tmp_path):
    loaded = of_persons(tmp_path, SERIES)
    grow_by_person(tmp_path, 0)
    books, reservation = killed_at(loaded, 0, "RESERVED")
    assert books.ledger.void_if_reserved(reservation.charge.charge_id, "killed")
    erase(tmp_path, [3])
    assert run(loaded, 0).resumed is None


def test_a_night_that_was_published_and_not_sealed_is_sealed_after_an_erasure(tmp_path):
    loaded = of_persons(tmp_path, SERIES)
    grow_by_person(tmp_path, 0)
    killed_at(loaded, 0, "published")
    erase(tmp_path, [3])
    assert "only the ledger entry was missing" in run(loaded, 0).resumed
    grow_by_person(tmp_path, 1)
    assert run(loaded, 1).resumed is None


def test_a_night_that_was_committed_and_whose_noise_key_is_lost_holds_up_no_erasure_and_draws_nothing(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    _, reservation = killed_at(loaded, 0, "COMMITTED")
    key = tmp_path / "keys" / reservation.charge.charge_id
    secret = key.read_bytes()
    key.unlink()
    erase(tmp_path, [3])
    key.write_bytes(secret)  # from a backup
    key.chmod(0o600)
    with pytest.raises(BlockveilError, match="Some of the records with which this night began were erased"):
        run(loaded, 0)
    assert run(loaded, 1).resumed is None


def test_records_of_other_stores_and_of_earlier_parts_go_on_while_their_night_is_unfinished(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    loaded = of_persons(tmp_path)
    others = beside(other)
    for number in range(2):
        grow_by_person(other, number)
        grow_by_person(tmp_path, number)
        run(loaded, number)
        if number == 0:
            run(others, number)
    killed_at(others, 1, "COMMITTED")
    erase(tmp_path, [3])
    warned = [entry for entry in ledger_of(loaded).history() if "same_records" in entry.payload]
    assert warned, "the same records under another data set are found"
    assert "committed" in run(others, 1).resumed
    grow_by_person(other, 2)
    assert run(others, 2).resumed is None
    erase(other, [5])
    grow_by_person(other, 3)
    assert run(others, 3).resumed is None
    assert run(loaded, 2).resumed is None


def test_a_store_that_cannot_be_read_stops_the_erasure_until_it_is_said_to_be_gone(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    other = tmp_path / "other"
    other.mkdir()
    run(beside(other), 0)
    store = other / "out.zarr"
    store.rename(tmp_path / "away.zarr")
    before, keys = grown.files(tmp_path), ContentStore(tmp_path / "keys").list()
    with pytest.raises(StoreError, match=r'"out\.zarr", which stands in the same ledger cannot be read') as refused:
        erase(tmp_path, [3])
    assert "--deleted-store" in refused.value.remedy
    assert grown.files(tmp_path) == before
    assert ContentStore(tmp_path / "keys").list() == keys
    source = look(people.configure(tmp_path, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next"))
    erasing.erase(source, [3], lambda *_: None, ReleaseLedgers(gone=[str(store)]))
    assert 3 not in grown.records(tmp_path)[:, 0]
    assert run(loaded, 1).resumed is None


def beside(folder):
    """A release of another data set, of a store of its own, in the ledger of the folder above."""
    grow_by_person(folder, 0)
    of_persons(folder, SERIES)
    text = (folder / "release.toml").read_text().replace('dataset = "people"', 'dataset = "others"')
    text = text.replace('ledger = "ledger.db", keys = "keys"', 'ledger = "../ledger.db", keys = "../keys"')
    (folder / "release.toml").write_text(text)
    loaded = load_config(folder / "release.toml")
    support.set_budget(loaded, 3.0)
    return loaded


def test_the_config_of_a_release_that_is_gone_stops_the_erasure_until_it_is_said_to_be_gone(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    (tmp_path / "release.toml").rename(tmp_path / "renamed.toml")
    with pytest.raises(StoreError, match=r'The config "release\.toml" of a release of these records'):
        erase(tmp_path, [3])
    source = look(people.configure(tmp_path, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next"))
    ledgers = ReleaseLedgers([tmp_path / "renamed.toml"], [str(tmp_path / "release.toml")])
    erasing.erase(source, [3], lambda *_: None, ledgers)
    assert ledger_of(loaded).renewals().generation == 1


@pytest.mark.slow
def test_a_kill_at_any_step_loses_nothing_and_the_same_command_finishes(tmp_path, monkeypatch):
    origin, folder = tmp_path / "origin", tmp_path / "work"
    origin.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(origin / "state"))  # copied too: each try is a machine of its own
    loaded = of_persons(origin, SERIES)
    for number in range(2):
        grow_by_person(origin, number)
        run(loaded, number)
    before = grown.records(origin)
    after = before[before[:, 0] != 3]
    steps = (
        *STEPS,
        (Ledger, "renew"),
        (ContentStore, "create"),
        (KeyStore, "destroy"),
        (release_list, "write_pending"),
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    boundary, ended, states = 0, False, set()
    while not ended:
        boundary += 1
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(origin, folder)  # with its configs: what is beside the store finds those of the copy
        with pytest.MonkeyPatch.context() as patch:
            ended = not dies(patch, steps, boundary, lambda: erase(folder, [3]))
        state = (
            grown.records(folder).tobytes() == after.tobytes(),
            (folder / ".grown-out.zarr" / growth_state.PENDING).exists(),
            ledger_of(load_config(folder / "release.toml")).renewals().generation,
            len(ContentStore(folder / "keys").list()),
        )
        if state in states and boundary % 5:
            continue
        states.add(state)
        again = load_config(folder / "release.toml")
        if state[1]:
            with pytest.raises(StoreError, match="An erasure of units from"):
                run(again, 2)
            with pytest.raises(StoreError, match="An erasure of units from"):
                grow_by_person(folder, 2)
        erase(folder, [3])
        assert grown.records(folder).tobytes() == after.tobytes()
        assert ledger_of(again).renewals().generation == 1
        assert ledger_of(again).verify().problems == []
        assert len(ContentStore(folder / "keys").list()) == 1
        assert not (folder / ".grown-out.zarr" / growth_state.PENDING).exists()
        grow_by_person(folder, 2)
        assert run(again, 2).resumed is None
    assert len(states) >= 5
    assert boundary > 20


def dies(patch, steps, boundary, work):
    """Whether work is stopped before or after the step of a number."""
    count = 0

    def step():
        nonlocal count
        count += 1
        if count == boundary:
            raise Killed

    def around(owner, name):
        do = getattr(owner, name)

        def stepping(*args, **keys):
            step()
            found = do(*args, **keys)
            step()
            return found

        patch.setattr(owner, name, stepping)

    for owner, name in steps:
        around(owner, name)
    try:
        work()
    except Killed:
        return True
    return False


def test_a_release_that_begins_while_an_erasure_looks_refuses_one_of_the_two(tmp_path, monkeypatch):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    ledger = ledger_of(loaded)
    seen = ledger.renewals()
    charged_steps.reserve(*support.opened(make_plan(loaded, FIRST + timedelta(days=1))), "meanwhile")
    with pytest.raises(LedgerError, match="A release began while the ledger's digests of records were renewed"):
        ledger.renew(Renewal("a", "b"), seen)
    assert ledger.renewals().generation == 0
    stale = LedgerDigests.of(ledger, KeyStore(tmp_path / "keys"))
    ledger.renew(Renewal("a", "b"), ledger.renewals())
    ledger.renew(Renewal("a", "b"), ledger.renewals())
    assert ledger.renewals().generation == 1
    monkeypatch.setattr(LedgerDigests, "of", lambda *_: stale)
    with pytest.raises(LedgerError, match="The key of this ledger's digests of records was replaced while"):
        run(loaded, 2)
    assert [entry.kind for entry in ledger.history()].count("RESERVED") == 2


def test_a_key_that_is_lost_is_noticed_and_another_is_not_taken_for_it(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    (key,) = ContentStore(tmp_path / "keys").list()
    secret = (tmp_path / "keys" / "content" / key).read_bytes()
    for content in (None, bytes(reversed(secret))):
        (tmp_path / "keys" / "content" / key).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "keys" / "content" / key).write_bytes(content)
            (tmp_path / "keys" / "content" / key).chmod(0o600)
        with pytest.raises(KeyLost, match="The key of what the ledger says of records"):
            run(loaded, 1)
    (tmp_path / "keys" / "content" / key).write_bytes(secret)
    assert run(loaded, 1).resumed is None


def test_renewals_one_after_the_other_are_one(tmp_path):
    loaded = of_persons(tmp_path)
    ledger = ledger_of(loaded)
    digests = {"c1": {"fingerprint": "b"}, "c2": {"fingerprint": "d", "history": "h"}}
    ledger.renew(Renewal("1", "x", digests, ["c1"]), ledger.renewals())
    ledger.renew(Renewal("2", "y", {"c1": {"fingerprint": "e"}}, ["c3"]), ledger.renewals())
    found = ledger.renewals()
    assert found.charges_of("e") == ["c1"]
    assert found.charges_of("b") == []
    assert found.newest["c2"] == {"fingerprint": "d", "history": "h"}
    assert found.erased == {"c1", "c3"}
    assert (found.check_value, found.generation) == ("y", 2)
    assert (repr(Renewal("1", "x")), repr(found)) == ("Renewal()", "Renewals(generation=2)")


def test_what_a_reservation_says_of_its_store_stays_in_the_ledger(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    outcome = run(loaded, 0)
    written = [file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()]
    (reserved,) = (entry for entry in ledger_of(loaded).history() if entry.kind == "RESERVED")
    said = reserved.payload["stored"]
    assert said["store"] == str(tmp_path / "out.zarr")
    assert outcome.path.exists()
    assert not any(said["check"].encode() in content or said["store"].encode() in content for content in written)
    assert re.fullmatch("[0-9a-f]{64}", said["check"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("more", ["", SERIES])
def test_a_store_that_another_account_ingests_is_refused_and_a_copy_of_it_is_released(tmp_path, more):
    loaded = of_persons(tmp_path, more)
    grow_by_person(tmp_path, 0)
    beside_it = tmp_path / ".grown-out.zarr"
    os.chown(beside_it, 65534, 65534)
    before = {file.name: file.read_bytes() for file in beside_it.iterdir()}
    for work in (lambda: run(loaded, 0), lambda: erase(tmp_path, [3]), lambda: grow_by_person(tmp_path, 1)):
        with pytest.raises(StoreError, match="account number 65534") as refused:
            work()
        assert "Run as that account" in refused.value.remedy
        assert "Remove it" not in refused.value.remedy
    assert {file.name: file.read_bytes() for file in beside_it.iterdir()} == before
    copy = tmp_path / "nightly"
    copy.mkdir()
    shutil.copytree(tmp_path / "out.zarr", copy / "out.zarr")
    path = tmp_path / "release.toml"
    path.write_text(path.read_text().replace('store = "out.zarr"', 'store = "nightly/out.zarr"'))
    loaded = load_config(path)
    assert run(loaded, 0).resumed is None
    os.chown(beside_it, 0, 0)  # the other account erases, and names the release
    source = look(people.configure(tmp_path, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next"))
    erasing.erase(source, [3], lambda *_: None, ReleaseLedgers([path]))
    assert ledger_of(loaded).renewals().generation == 1
