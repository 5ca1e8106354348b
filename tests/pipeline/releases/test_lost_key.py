"""The key of a ledger's digests is lost: an operator states it, and nothing that was paid for is drawn again."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

import blockveil
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import KeyLost, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.ingest import release_list
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.marks import Mark
from blockveil.pipeline.releases import lost_key
from blockveil.pipeline.releases.keys import ContentStore, KeyStore
from blockveil.pipeline.releases.lost_key import replace_lost_key
from tests.pipeline.budget import test_parts as parts
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.releases.test_growing_nights import FIRST, erase, grow_by_person, of_persons, run
from tests.pipeline.releases.test_renewing import SERIES, beside, dies, killed_at, ledger_of


def lose(folder):
    """Lose all keys of digests, and no noise key."""
    (key,) = (folder / "keys" / "content").iterdir()
    key.unlink()


def lost_key_command(loaded, *more):
    """Run what the refusal advises."""
    asked = [
        "ledger",
        "admin",
        "replace-key",
        str(loaded.path),
        "--by",
        "J. Doe",
        "--why",
        "disk of 20 November",
        *more,
    ]
    return CliRunner().invoke(app, asked)


@pytest.mark.parametrize("more", ["", SERIES])
def test_a_lost_key_is_refused_and_its_remedy_works_as_it_is_written(tmp_path, more):
    loaded = of_persons(tmp_path, more)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    spent = ledger_of(loaded).budget("people").spent
    lose(tmp_path)
    grow_by_person(tmp_path, 1)
    with pytest.raises(KeyLost) as refused:
        run(loaded, 1)
    assert "`blockveil ledger admin replace-key CONFIG --by NAME --why REASON`" in refused.value.remedy
    with pytest.raises(KeyLost):
        erase(tmp_path, [3])
    done = lost_key_command(loaded)
    assert done.exit_code == 0, done.output
    ledger = ledger_of(loaded)
    assert "RENEWED (the key of digests was lost, by J. Doe: disk of 20 November)" in show(loaded)
    assert ledger.verify().problems == []
    assert ledger.budget("people").spent == spent
    assert "complete already" in run(loaded, 0).resumed
    if more:
        with pytest.raises(LedgerError, match="that the key of digests was lost, and this night") as ended:
            run(loaded, 1)
        assert "another continual.first" in ended.value.remedy
        path = tmp_path / "release.toml"
        path.write_text(path.read_text().replace("first = 2026-11-01", "first = 2026-11-02"))
        loaded = load_config(path)
    assert run(loaded, 1).resumed is None
    twice = ledger.budget("people").spent
    assert twice.loss == 2 * spent.loss
    erase(tmp_path, [3])
    grow_by_person(tmp_path, 2)
    assert run(loaded, 2).resumed is None
    assert len(ContentStore(tmp_path / "keys").list()) == 1


def show(loaded):
    return CliRunner().invoke(app, ["ledger", "show", str(loaded.path)]).output


@pytest.mark.parametrize("more", ["", SERIES])
@pytest.mark.parametrize("step", ["RESERVED", "COMMITTED", "published"])
def test_a_night_that_was_begun_under_the_lost_key_is_given_back_refused_or_sealed(tmp_path, step, more):
    loaded = of_persons(tmp_path, more)
    grow_by_person(tmp_path, 0)
    _, reservation = killed_at(loaded, 0, step)
    ledger = ledger_of(loaded)
    lose(tmp_path)
    done = lost_key_command(loaded)
    assert done.exit_code == 0, done.output
    assert ("Given back" in done.output) == (step == "RESERVED")
    assert KeyStore(tmp_path / "keys").list() == ([reservation.charge.charge_id] if step == "COMMITTED" else [])
    if step == "COMMITTED":
        spent = ledger.budget("people").spent
        grow_by_person(tmp_path, 1)
        with pytest.raises(KeyLost, match="lost after this night had begun") as refused:
            run(loaded, 0)
        assert "another date" in refused.value.remedy
        assert ledger.budget("people").spent == spent
        erase(tmp_path, [3])  # a night that no records can finish holds up no erasure
    else:
        resumed = run(loaded, 0).resumed
        assert resumed is None if step == "RESERVED" else "only the ledger entry was missing" in resumed
    assert ledger.verify().problems == []
    if not more:
        assert run(loaded, 1).resumed is None


def test_a_damaged_key_that_is_removed_as_the_refusal_says_counts_as_lost(tmp_path):
    loaded = of_persons(tmp_path, "")
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    (key,) = (tmp_path / "keys" / "content").iterdir()
    key.write_bytes(b"half of it")
    with pytest.raises(StoreError, match="is damaged") as refused:
        run(loaded, 1)
    assert key.name in str(refused.value)
    assert "remove it and run again" in refused.value.remedy
    assert isinstance(lost_key_command(loaded).exception, StoreError)
    key.unlink()
    with pytest.raises(KeyLost):
        run(loaded, 1)
    assert lost_key_command(loaded).exit_code == 0
    grow_by_person(tmp_path, 1)
    run(loaded, 1)


def test_a_key_that_is_there_is_not_replaced(tmp_path):
    loaded = of_persons(tmp_path)
    with pytest.raises(LedgerError, match="is not lost"):
        replace_lost_key(loaded, "J. Doe", "a whim")
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    before = ledger_of(loaded).history()
    with pytest.raises(LedgerError, match="is not lost"):
        blockveil.ledger(loaded.path).replace_key(by="J. Doe", why="a whim")
    with pytest.raises(LedgerError, match="It is not stated who decides this, or why"):
        blockveil.ledger(loaded.path).replace_key(by="", why="a whim")
    assert ledger_of(loaded).history() == before
    assert len(ContentStore(tmp_path / "keys").list()) == 1


def test_a_store_of_the_ledger_that_is_away_is_named_and_its_remedy_works(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    other = tmp_path / "other"
    other.mkdir()
    run(beside(other), 0)
    (other / "out.zarr").rename(tmp_path / "away.zarr")
    lose(tmp_path)
    before = ledger_of(loaded).history()
    with pytest.raises(StoreError, match=r'"out\.zarr", which stands in the same ledger cannot be read') as refused:
        replace_lost_key(loaded, "J. Doe", "a disk")
    assert "--deleted-store PATH" in refused.value.remedy
    assert ledger_of(loaded).history() == before
    assert lost_key_command(loaded, "--deleted-store", str(other / "out.zarr")).exit_code == 0
    assert run(loaded, 1).resumed is None


def test_an_older_ledger_is_not_given_a_new_key(tmp_path):
    """Else what its copy has as reserved would be given back, though its noise was drawn."""
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    killed_at(loaded, 0, "RESERVED")
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    run(loaded, 0)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    lose(tmp_path)
    with pytest.raises(LedgerError, match="which this account saw last on this machine"):
        replace_lost_key(loaded, "J. Doe", "a disk")
    assert ledger_of(loaded).history()[-1].kind == "RESERVED"


def test_a_ledger_from_before_an_erasure_goes_on_though_its_key_was_destroyed(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    erase(tmp_path, [3])
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    with pytest.raises(KeyLost):
        run(loaded, 1)
    assert lost_key_command(loaded).exit_code == 0
    assert run(loaded, 1).resumed is None


def test_equal_records_are_found_again_as_those_of_another_data_set(tmp_path):
    loaded = of_persons(tmp_path)
    for number in range(2):
        grow_by_person(tmp_path, number)
    run(loaded, 0)
    other = tmp_path / "other"
    other.mkdir()
    others = beside(other)
    lose(tmp_path)
    replace_lost_key(loaded, "J. Doe", "a disk")
    run(others, 0)  # of the records that the first store had before its last append
    newest = [entry for entry in ledger_of(loaded).history() if entry.kind == "RESERVED"][-1]
    assert newest.payload["same_records"] == [{"budget": "people", "release": "people/stays/2026-11-01"}]
    erase(tmp_path, [5])
    erase(other, [5])
    run(others, 1)
    newest = [entry for entry in ledger_of(loaded).history() if entry.kind == "RESERVED"][-1]
    assert {"budget": "people", "release": "people/stays/2026-11-01"} in newest.payload["same_records"]


class TestParts:
    """Of parts only the largest charge counts, so records that were charged as one must not pass as another."""

    @pytest.fixture
    def bays(self, tmp_path):
        """A store of bay 7 as a whole number, charged, and the same table with texts."""
        loaded = parts.TestRelease()._of_bays(tmp_path)
        Ledger(loaded.ledger_url).set_budget("people", 3.0, 1e-9, Neighbours.ADD_REMOVE, parts.UNIT)
        parts.keep(tmp_path, 7, "bay", kind="whole")
        parts.release(loaded, FIRST)
        return loaded

    def test_records_that_are_still_there_are_found_as_the_part_that_they_were_charged_as(self, bays, tmp_path):
        lose(tmp_path)
        assert replace_lost_key(bays, "J. Doe", "a disk").parts == ()
        parts.keep(tmp_path, "07", "bay", source='kind = "csv"\nfiles = ["csv"]', kind="text")
        with pytest.raises(LedgerError, match="were charged as bay = 7 for 'people/costs/2026-11-01'"):
            parts.release(bays, parts.DATES[0])

    @pytest.mark.parametrize("away", ["replaced", "gone"])
    def test_where_they_are_not_no_other_part_is_charged_as_one_and_the_remedy_works(self, bays, tmp_path, away):
        spent = parts.status(bays).spent
        lose(tmp_path)
        more = ()
        if away == "replaced":
            parts.keep(tmp_path, 8, "bay", kind="whole")
        else:
            (tmp_path / "out.zarr").rename(tmp_path / "away.zarr")
            more = ("--deleted-store", str(tmp_path / "out.zarr"))
        said = lost_key_command(bays, *more)
        assert said.exit_code == 0, said.output
        assert "The records of people/costs/2026-11-01 are not all in a store" in " ".join(said.output.split())
        parts.keep(tmp_path, "07", "bay", source='kind = "csv"\nfiles = ["csv"]', kind="text")
        with pytest.raises(LedgerError, match="The key of digests was lost, and records of") as refused:
            parts.release(bays, parts.DATES[0])
        assert parts.status(bays).spent == spent
        assert "Leave data.partition_by out" in refused.value.remedy
        parts.keep(tmp_path, 7, "bay", kind="whole")
        parts.release(bays, parts.DATES[1])  # the same part adds up with itself
        parts.keep(tmp_path, "07", "bay", source='kind = "csv"\nfiles = ["csv"]', kind="text")
        parts.release(parts.load(tmp_path, partition_by=""), parts.DATES[0])
        assert parts.status(bays).spent.loss == 3 * spent.loss


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_the_loss_to_be_stated_again_or_done(tmp_path, monkeypatch):
    origin, folder = tmp_path / "origin", tmp_path / "work"
    origin.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(origin / "state"))
    loaded = of_persons(origin)
    grow_by_person(origin, 0)
    run(loaded, 0)
    killed_at(loaded, 1, "RESERVED")
    lose(origin)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    steps = (
        (ContentStore, "create"),
        (lost_key, "opened_store"),
        (Ledger, "renew"),
        (KeyStore, "destroy"),
        (Mark, "follow"),
    )
    boundary, ended, states = 0, False, set()
    while not ended:
        boundary += 1
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(origin, folder)
        again = load_config(folder / "release.toml")
        with pytest.MonkeyPatch.context() as patch:
            ended = not dies(patch, steps, boundary, lambda again=again: replace_lost_key(again, "J. Doe", "a disk"))
        ledger = ledger_of(again)
        generation = ledger.renewals().generation
        states.add((generation, len(ContentStore(folder / "keys").list())))
        kinds = [entry.kind for entry in ledger.history()]
        assert kinds.count("VOID") == kinds.count("RENEWED") == generation
        if generation == 0:
            with pytest.raises(KeyLost):
                run(again, 1)
            replace_lost_key(again, "J. Doe", "a disk")
        else:
            with pytest.raises(LedgerError, match="is not lost"):
                replace_lost_key(again, "J. Doe", "a disk")
        assert ledger.renewals().generation == 1
        assert ledger.verify().problems == []
        assert run(again, 1).resumed is None
        grow_by_person(folder, 1)
        assert run(again, 2).resumed is None
    assert len(states) >= 3
    assert boundary > 10


def test_an_erasure_that_was_killed_is_finished_after_the_key_was_lost(tmp_path, monkeypatch):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)
    run(loaded, 0)
    with monkeypatch.context() as patch:
        assert dies(patch, ((release_list, "write_pending"),), 2, lambda: erase(tmp_path, [3]))
    lose(tmp_path)
    with pytest.raises(KeyLost):
        erase(tmp_path, [3])
    assert lost_key_command(loaded).exit_code == 0
    erase(tmp_path, [3])
    assert 3 not in grown.records(tmp_path)[:, 0]
    assert run(loaded, 1).resumed is None
    assert len(ContentStore(tmp_path / "keys").list()) == 1
