"""An older copy of all that a backup holds is put back: no night is drawn again under a charge that was spent."""

import shutil
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

import blockveil as blockveil_in_python
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, KeyLost, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.marks import Mark, folder
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.releases import night
from blockveil.pipeline.releases.compute import ThreadCompute
from tests.house import support

SINCE = "2026-11-20T03:00"


class Service:
    """A service on one machine, whose ledger, releases and records can be copied and put back."""

    attempts = 0

    def __init__(self, tmp_path, server=None, series=False):
        self.home, self.server = tmp_path / "site", server
        self.home.mkdir()
        support.write_records(self.home, support.records())
        path = support.write_config(self.home)
        text = path.read_text() + ("\n[continual]\nnights = 10\nfirst = 2026-11-19\n" if series else "")
        if server is not None:
            text = text.replace('ledger = "ledger.db"', 'ledger = "env:LEDGER_ADDRESS"')
        path.write_text(text)
        self.path = path
        support.set_budget(self.loaded, 6.0)

    @property
    def loaded(self):
        return load_config(self.path)

    @property
    def ledger(self):
        return Ledger(self.loaded.ledger_url)

    def run(self, day):
        self.attempts += 1
        loaded = self.loaded
        plan = plan_begun(loaded, date(2026, 11, day), Ledger(loaded.ledger_url))
        return night.run_release(plan, ThreadCompute(1), f"attempt {self.attempts}", lambda *_: None)

    def back_up(self, to):
        """All that operations.md says, as the ledger's rows whatever keeps them; keys and marks are no part of it."""
        shutil.copytree(self.home / "releases", to / "releases", dirs_exist_ok=True)
        shutil.copytree(self.home / "records.zarr", to / "records.zarr", dirs_exist_ok=True)
        if self.server is None:
            with (
                closing(sqlite3.connect(self.home / "ledger.db")) as source,
                closing(sqlite3.connect(to / "db")) as copy,
            ):
                source.backup(copy)
        else:
            self.server.dump(self.loaded.ledger_url, to / "db")

    def restore(self, copy):
        shutil.rmtree(self.home / "releases")
        shutil.copytree(copy / "releases", self.home / "releases")
        if self.server is None:
            for extra in ("", "-wal", "-shm"):
                (self.home / f"ledger.db{extra}").unlink(missing_ok=True)
            shutil.copy(copy / "db", self.home / "ledger.db")
        else:
            self.server.restore(copy / "db")


class Rows:
    """Copies of a PostgreSQL ledger as its rows, put back into a database of its own, as a dump would be."""

    def __init__(self, server, monkeypatch):
        self._server, self._patch = server, monkeypatch
        self._rows = {}
        monkeypatch.setenv("LEDGER_ADDRESS", server.url(server.new_database()))

    def dump(self, url, name):
        self._rows[name] = Ledger(url)._rows()

    def restore(self, name):
        from blockveil.pipeline.ledger.schema import entry

        self._patch.setenv("LEDGER_ADDRESS", self._server.url(self._server.new_database()))
        database = Ledger(self._server_url())._database
        database.create()
        database.write(lambda connection: [connection.execute(entry.insert(), row) for row in self._rows[name]])

    def _server_url(self):
        import os

        return os.environ["LEDGER_ADDRESS"]


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request, tmp_path, monkeypatch):
    server = Rows(request.getfixturevalue("postgres"), monkeypatch) if request.param == "postgresql" else None
    return Service(tmp_path, server)


def blockveil(*words):
    found = CliRunner().invoke(app, list(map(str, words)))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


def spent(service):
    return service.ledger.budget("people").spent


def test_a_night_that_a_backup_by_the_book_forgot_is_not_drawn_again(service, tmp_path):
    service.run(19)
    service.back_up(tmp_path / "copy")
    lost = service.run(20)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    assert service.ledger.verify().problems == [], "the chain itself is sound: that is the danger"
    entries = len(service.ledger.history())

    for day in (20, 21):
        with pytest.raises(LedgerError, match="saw last on this machine, is not in this ledger"):
            service.run(day)
    with pytest.raises(LedgerError, match="saw last on this machine"):
        blockveil("ledger", "verify", service.path)
    assert len(service.ledger.history()) == entries, "nothing was written"

    told = blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert "Booked: people/covariance/2026-11-20" in told
    assert spent(service) == truth, "exactly what was missing is booked"
    assert service.ledger.verify().problems == []
    assert "booked after a copy was put back" in blockveil("ledger", "show", service.path)
    with pytest.raises(LedgerError, match="before an older copy of the ledger was put back"):
        service.run(20)
    assert spent(service) == truth
    assert service.run(21).release_id.endswith("21")
    assert blockveil("ledger", "verify", service.path)
    assert not lost.pointer.exists()


def test_releases_that_were_not_put_back_are_known_again_once_their_charges_are_booked(service, tmp_path):
    service.run(19)
    service.back_up(tmp_path / "copy")
    lost = service.run(20)
    shutil.copytree(service.home / "releases", tmp_path / "newer")
    service.restore(tmp_path / "copy")
    shutil.copytree(tmp_path / "newer", service.home / "releases", dirs_exist_ok=True)
    blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert lost.pointer.exists()
    service.run(21)


def test_a_copy_that_is_put_back_again_and_again_books_each_charge_once(service, tmp_path):
    service.run(19)
    service.back_up(tmp_path / "copy")
    for day in (20, 21, 22):
        service.run(day)
        truth = spent(service)
        service.restore(tmp_path / "copy")
        for _ in range(2):
            blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
            assert spent(service) == truth
    assert service.ledger.verify().problems == []


def test_machines_that_share_a_ledger_book_the_union_of_what_they_saw(service, tmp_path, monkeypatch):
    def machine(name):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))

    service.run(19)
    for name in "ABC":
        machine(name)
        with pytest.raises(LedgerError, match="has never used this ledger on this machine"):
            service.run(20)
        blockveil("ledger", "admin", "attest", service.path, "--by", "J. Doe", "--why", "a new machine")
    service.back_up(tmp_path / "copy")
    for name, day in (("A", 20), ("B", 21), ("A", 22)):
        machine(name)
        service.run(day)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    machine("C")  # its mark is not newer than the copy: it goes on
    service.run(23)
    own = spent(service).loss
    for name in "BA":
        machine(name)
        with pytest.raises(LedgerError, match="is not in this ledger"):
            service.run(24)
        blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    nights = {entry.release_id for entry in service.ledger.history() if entry.kind == "RELEASED"}
    assert {f"people/covariance/2026-11-{day}" for day in (19, 20, 21, 22, 23)} == nights
    assert spent(service).loss == truth.loss + own // 2, "what C drew meanwhile counts beside all that was missing"
    for name in "ABC":
        machine(name)
        service.run({"A": 24, "B": 25, "C": 26}[name])
    assert service.ledger.verify().problems == []


def test_a_night_that_was_drawn_again_meanwhile_counts_twice(service, tmp_path, monkeypatch):
    service.run(19)
    service.back_up(tmp_path / "copy")
    service.run(20)
    service.restore(tmp_path / "copy")
    own = folder()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    told = blockveil("ledger", "admin", "reconcile", service.path)  # it knows of nothing that is missing
    assert "Nothing was booked: this account had not used this ledger on this machine" in told
    assert "blockveil ledger charge" in told
    service.run(20)
    before = spent(service).loss
    monkeypatch.setenv("XDG_STATE_HOME", str(own.parents[1]))
    blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert spent(service).loss == before // 2 * 3
    assert service.ledger.verify().problems == []


def test_a_night_that_the_copy_has_as_reserved_is_committed_under_the_same_key(service, tmp_path, monkeypatch):
    service.run(19)
    commit = Ledger.commit

    def copied(ledger, *of, **named):
        service.back_up(tmp_path / "copy")
        return commit(ledger, *of, **named)

    monkeypatch.setattr(Ledger, "commit", copied)
    service.run(20)
    truth = spent(service)
    monkeypatch.setattr(Ledger, "commit", commit)
    service.restore(tmp_path / "copy")
    assert spent(service) == truth, "the copy has the reservation"
    with pytest.raises(LedgerError, match="saw last on this machine"):
        service.run(20)
    blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert spent(service) == truth
    with pytest.raises(
        KeyLost, match="is gone although its charge is committed"
    ):  # its key was destroyed, and another draws nothing
        service.run(20)
    assert service.ledger.find("people/covariance/2026-11-20").state == "COMMITTED"


def test_a_charge_that_was_given_back_in_an_older_copy_is_booked_all_the_same(service, tmp_path, monkeypatch):
    service.run(19)
    commit, name = Ledger.commit, "people/covariance/2026-11-20"

    def copied(ledger, *of, **named):
        service.back_up(tmp_path / "copy")
        return commit(ledger, *of, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", copied)
        service.run(20)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    charge = service.ledger.find(name)
    assert not service.ledger.void_if_reserved(charge.charge_id, "operator"), "the mark knows that it was committed"
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        assert service.ledger.void_if_reserved(charge.charge_id, "operator"), "nothing shows it there"
    for _ in range(2):
        blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
        assert spent(service) == truth
    assert service.ledger.verify().problems == []
    with pytest.raises(LedgerError, match="before an older copy"):
        service.run(20)


def test_a_reservation_that_nothing_was_drawn_on_is_given_back(service, tmp_path, monkeypatch):
    service.run(19)

    def stopped(*_, **__):
        service.back_up(tmp_path / "copy")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", stopped)
        patch.setattr(Ledger, "void_if_reserved", lambda *_: False)
        with pytest.raises(KeyboardInterrupt):
            service.run(20)
    service.restore(tmp_path / "copy")
    before = spent(service).loss
    told = blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert "Given back, for nothing was drawn: people/covariance/2026-11-20" in told
    assert spent(service).loss == before // 2
    assert [each.name for each in (service.home / "keys").iterdir()] == ["content"]
    service.run(20)


def test_a_series_that_was_open_when_a_copy_was_put_back_has_no_further_night(tmp_path):
    service = Service(tmp_path, series=True)
    service.run(19)
    service.back_up(tmp_path / "copy")
    service.run(20)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert spent(service) == truth
    for day in (20, 21):
        with pytest.raises(LedgerError, match="older copy of the ledger was put back"):
            service.run(day)
    service.path.write_text(service.path.read_text().replace("first = 2026-11-19", "first = 2026-11-22"))
    service.run(22)
    assert spent(service).loss > truth.loss, "new nights are a new charge"


def test_a_series_that_began_after_the_copy_does_not_begin_again(tmp_path):
    service = Service(tmp_path, series=True)
    (service.home / "releases").mkdir()
    service.back_up(tmp_path / "copy")
    service.run(19)
    service.run(20)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
    assert spent(service) == truth
    for day in (19, 20, 21):
        with pytest.raises(LedgerError, match="older copy of the ledger was put back"):
            service.run(day)


def test_python_states_what_the_command_line_states(tmp_path, monkeypatch):
    service = Service(tmp_path)
    service.run(19)
    newest = service.ledger.history()[-1].time
    service.back_up(tmp_path / "copy")
    service.run(20)
    truth = spent(service)
    service.restore(tmp_path / "copy")
    done = blockveil_in_python.ledger(service.path).reconcile()
    assert done.booked == ("people/covariance/2026-11-20",)
    assert done.newest == newest
    assert f"The newest entry of the copy is of {newest}." in str(done)
    assert spent(service) == truth
    assert f"a copy of {newest} was put back, 1 charges were missing" in blockveil("ledger", "show", service.path)
    assert "No charge that this account knows was missing." in str(
        blockveil_in_python.ledger(service.path).reconcile(since="2026-11-20")
    )
    assert "a copy of 2026-11-20T00:00+00:00 was put back" in blockveil("ledger", "show", service.path)
    for wrong in ("tomorrow", "2999-01-01", ""):
        with pytest.raises(ConfigError, match="no time at which a copy can have been made"):
            blockveil_in_python.ledger(service.path).reconcile(since=wrong)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new"))
    with pytest.raises(LedgerError, match="It is not stated who decides this, or why"):
        blockveil_in_python.ledger(service.path).attest(by="J. Doe", why="")
    assert blockveil_in_python.ledger(service.path).attest(by="J. Doe", why="a new machine") == len(
        service.ledger.history()
    )
    service.run(21)


class TestMark:
    """The file outside the ledger: private, monotone, and whole after a kill or a lost power."""

    @pytest.fixture
    def service(self, tmp_path):
        return Service(tmp_path)

    def file(self, service):
        return folder() / f"{service.ledger.first()}.jsonl"

    def test_a_kill_between_the_commit_and_the_mark_is_made_good_by_the_next_run(self, service, monkeypatch):
        def killed(_mark, _last, seen):
            if seen.charges:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Mark, "follow", killed)
            with pytest.raises(KeyboardInterrupt):
                service.run(19)
        assert service.ledger.find("people/covariance/2026-11-19").state == "COMMITTED"
        assert not Mark(service.ledger.first()).charges()
        service.run(19)
        assert len(Mark(service.ledger.first()).charges()) == 1
        assert service.ledger.budget("people").charges == 1

    def test_nothing_is_drawn_before_the_mark_is_on_the_disk(self, service, monkeypatch):
        from blockveil.pipeline.releases import charged_steps

        known = []
        derive = charged_steps.NoiseKey.derive
        monkeypatch.setattr(
            charged_steps.NoiseKey,
            "derive",
            lambda *of: known.append(len(Mark(service.ledger.first()).charges())) or derive(*of),
        )
        service.run(19)
        assert known == [1], "the key of the noise is made after the mark has the charge"

    def test_it_is_of_its_owner_alone_and_its_folder_too(self, service):
        assert self.file(service).stat().st_mode & 0o777 == 0o600
        assert folder().stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o640, 0o602])
    def test_one_that_others_may_use_is_refused(self, service, mode):
        self.file(service).chmod(mode)
        with pytest.raises(StoreError, match="other accounts may use it"):
            service.run(19)

    def test_a_link_in_its_place_is_refused(self, service, tmp_path):
        file = self.file(service)
        shutil.move(file, tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")
        with pytest.raises(StoreError, match="cannot be used"):
            service.run(19)

    def test_one_that_cannot_be_written_stops_a_night_before_anything_is_charged(self, service, monkeypatch):
        import os

        real = os.open

        def read_only(path, flags, *rest, **named):
            if folder() in Path(path).parents and flags & (os.O_RDWR | os.O_WRONLY):
                raise OSError(30, "Read-only file system")
            return real(path, flags, *rest, **named)

        monkeypatch.setattr(os, "open", read_only)
        with pytest.raises(StoreError, match="Read-only file system") as caught:
            service.run(19)
        assert "XDG_STATE_HOME" in caught.value.remedy
        assert [entry.kind for entry in service.ledger.history()] == ["BUDGET"]

    @pytest.mark.parametrize("tail", [b'{"sequence": 99', b"\0" * 40, b"[]\n"])
    def test_a_damaged_one_is_refused(self, service, tail):
        service.run(19)
        with self.file(service).open("ab") as file:
            file.write(tail)
        with pytest.raises(StoreError, match="damaged") as refused:
            service.run(20)
        assert "move the mark away, and run `blockveil ledger admin attest` or `blockveil ledger admin reconcile`" in (
            refused.value.remedy
        )
        with pytest.raises(StoreError, match="damaged"):
            blockveil(
                "ledger", "admin", "attest", service.path, "--by", "J. Doe", "--why", "compared with the newest backup"
            )
        self.file(service).rename(self.file(service).with_suffix(".damaged"))
        if tail == b"[]\n":
            blockveil("ledger", "admin", "reconcile", service.path)
        else:
            blockveil(
                "ledger", "admin", "attest", service.path, "--by", "J. Doe", "--why", "compared with the newest backup"
            )
        service.run(20)

    def test_a_run_that_was_under_way_while_the_ledger_was_restored_draws_nothing(self, service, monkeypatch):
        service.run(19)
        commit = Mark.follow

        def late(mark, last, seen):
            if seen.charges:
                blockveil("ledger", "admin", "reconcile", service.path, "--since", SINCE)
            return commit(mark, last, seen)

        monkeypatch.setattr(Mark, "follow", late)
        with pytest.raises(LedgerError, match="while this run was under way"):
            service.run(20)

    def test_what_an_operator_says_counts_only_where_nothing_else_shows_it(self, service, monkeypatch, tmp_path):
        with pytest.raises(LedgerError, match="nothing is missing"):
            blockveil("ledger", "admin", "attest", service.path, "--by", "J. Doe", "--why", "no reason")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new"))
        with pytest.raises(LedgerError, match=r"blockveil ledger admin attest CONFIG --by NAME --why REASON"):
            service.run(19)
        blockveil("ledger", "admin", "attest", service.path, "--by", "J. Doe", "--why", "moved to this machine")
        assert "nothing was put back, by J. Doe: moved to this machine" in blockveil("ledger", "show", service.path)
        service.run(19)

    def test_many_charges_of_one_line_are_read_again(self, service, monkeypatch):
        monkeypatch.setattr("blockveil.pipeline.ledger.marks._TAIL", 64)
        for day in (19, 20, 21):
            service.run(day)
        assert len(Mark(service.ledger.first()).charges()) == 3

    def test_it_lies_outside_of_what_is_backed_up(self, service):
        for place in (service.loaded.output_root, service.loaded.ledger_path.parent, service.loaded.keys_root):
            assert not folder().is_relative_to(Path(place))
