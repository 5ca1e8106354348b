"""A withdrawn release is refused to every reader and is never made again, and what it spent remains spent."""

import json
from datetime import date

import obstore
import pytest
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, KeyLost, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import objects, pointers
from blockveil.pipeline.data.released import open_release, read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import retention, withdrawing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.withdrawing import withdraw
from blockveil.pipeline.report.release_site import make_site
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.pipeline.data.test_objects import made_bucket, started_server

NIGHTS = date(2026, 11, 20), date(2026, 11, 21)
FIRST, SECOND = (f"people/covariance/{night}" for night in NIGHTS)
WHY = "the proof of its mechanism was wrong"

pytestmark = pytest.mark.usefixtures("pictures_in_words")


def two_nights(folder):
    loaded = support.prepare(folder, budget=9.0)
    for night in NIGHTS:
        run(loaded, night)
    return loaded


@pytest.fixture
def people(tmp_path):
    """A config with two released nights."""
    return support.made_once(tmp_path / "configs", two_nights)


def run(loaded, night):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


def folder_of(loaded):
    return loaded.output_root / "people" / "covariance"


def test_a_release_whose_pointer_may_not_be_read_is_not_taken_for_one_that_was_not_withdrawn(people, monkeypatch):
    withdraw(people, SECOND, WHY, remove=False)
    content = pointers._content

    def denied(place):
        if str(place).endswith(".json"):
            raise PermissionError(13, "Permission denied")
        return content(place)

    monkeypatch.setattr(pointers, "_content", denied)
    group = next(folder_of(people).glob(f"{NIGHTS[1]}-*.zarr"))
    for read in (read_release, open_release, bv.open, verify):
        with pytest.raises(StoreError, match="no permission"):
            read(group)


def test_readers_of_the_pointer_and_of_the_folder_are_refused_with_the_reason(people):
    pointer, group = folder_of(people) / f"{NIGHTS[1]}.json", next(folder_of(people).glob(f"{NIGHTS[1]}-*.zarr"))
    withdraw(people, SECOND, WHY, remove=False)
    for read in (read_release, open_release, bv.open):
        for place in (pointer, group):
            with pytest.raises(StoreError, match=f"{SECOND} was withdrawn on .*: {WHY}"):
                read(place)
    assert read_release(folder_of(people) / f"{NIGHTS[0]}.json").attributes["release_id"] == FIRST


def test_it_verifies_no_longer_and_says_why(people):
    withdraw(people, SECOND, WHY, remove=False)
    found = verify(folder_of(people) / f"{NIGHTS[1]}.json")
    assert (found.name, found.holds) == (SECOND, False)
    assert WHY in found.findings[0].words
    assert verify(next(folder_of(people).glob(f"{NIGHTS[1]}-*.zarr"))).findings == found.findings
    for command in ("verify", "export certificate"):  # from a backup it would come back without the notice
        done = CliRunner().invoke(app, [*command.split(), str(folder_of(people) / f"{NIGHTS[1]}.json")])
        assert isinstance(done.exception, StoreError)
        assert "backup" not in str(done.exception)


def test_its_budget_stays_spent_and_it_is_never_made_again(people):
    ledger = Ledger(people.ledger_url)
    spent = ledger.budget("people").spent
    withdraw(people, SECOND, WHY, remove=True)
    assert ledger.budget("people").spent == spent
    assert ledger.verify().problems == []
    with pytest.raises(LedgerError, match=WHY):
        run(people, NIGHTS[1])
    assert ledger.budget("people").spent == spent
    assert "withdrawn" in json.loads((folder_of(people) / f"{NIGHTS[1]}.json").read_text())
    assert run(people, NIGHTS[0]).resumed  # the other night stands
    assert run(people, date(2026, 11, 22)).release_id  # nights after it are released as ever


def test_its_pages_go_and_its_values_only_on_request(people):
    group = next(folder_of(people).glob(f"{NIGHTS[1]}-*.zarr"))
    group.with_suffix(".html").write_text("a report")
    withdraw(people, SECOND, WHY, remove=False)
    assert {path.name for path in folder_of(people).glob(f"{NIGHTS[1]}*")} == {f"{NIGHTS[1]}.json", group.name}
    withdraw(people, SECOND, "asked again", remove=True)
    assert {path.name for path in folder_of(people).glob(f"{NIGHTS[1]}*")} == {f"{NIGHTS[1]}.json"}
    assert json.loads((folder_of(people) / f"{NIGHTS[1]}.json").read_text())["withdrawn"]["reason"] == WHY


@pytest.mark.parametrize("broken", ["_replace_here", "destination_of"])
def test_a_withdrawal_that_was_cut_off_is_finished_by_asking_again(people, monkeypatch, broken):
    def cut(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(withdrawing, broken, cut)
        with pytest.raises(KeyboardInterrupt):
            withdraw(people, SECOND, WHY, remove=False)
    with pytest.raises(LedgerError, match="was withdrawn"):
        run(people, NIGHTS[1])
    assert withdraw(people, SECOND, WHY, remove=False).reason == WHY
    assert not verify(folder_of(people) / f"{NIGHTS[1]}.json").holds
    assert len([entry for entry in Ledger(people.ledger_url).history() if entry.kind == "WITHDRAWN"]) == 1


def test_the_site_says_it_first_and_shows_the_newest_night_that_stands(people, tmp_path):
    make_site(people.base, tmp_path / "site", date(2026, 11, 22), "code")
    withdraw(people, SECOND, "<b>wrong</b>", remove=False)
    made = make_site(people.base, tmp_path / "site", date(2026, 11, 22), "code")
    assert made.unreadable == ()
    text = (tmp_path / "site" / "index.html").read_text()
    assert text.index("&lt;b&gt;wrong&lt;/b&gt;") < text.index("What is there?")
    assert "<b>wrong" not in text
    newest = text[text.index("What is there?") :].partition("</table>")[0]
    assert str(NIGHTS[0]) in newest
    assert str(NIGHTS[1]) not in newest
    listed = json.loads((tmp_path / "site" / "pages.json").read_text())
    assert [f"{each}.html" in listed for each in (FIRST, SECOND)] == [True, False]


def test_pruning_leaves_the_notice(people):
    run(people, date(2026, 11, 22))
    withdraw(people, FIRST, WHY, remove=False)
    old = retention.old_releases(people, date(2026, 11, 22))
    assert [each.release_id for each in old] == [SECOND]


@pytest.mark.parametrize(
    ("release_id", "reason", "error", "said"),
    [
        ("people/other/2026-11-20", WHY, ConfigError, "no release of this config"),
        ("people/covariance/2026-13-40", WHY, ConfigError, "no release of this config"),
        ("../covariance/2026-11-20", WHY, ConfigError, "no release of this config"),
        ("people/covariance/2026-11-29", WHY, LedgerError, "has no charge"),
        (FIRST, " ", LedgerError, "does not say a reason"),
        (FIRST, "two\nlines", LedgerError, "does not say a reason"),
        (FIRST, "x" * 201, LedgerError, "does not say a reason"),
    ],
)
def test_what_cannot_be_withdrawn_is_refused_and_changes_nothing(people, release_id, reason, error, said):
    before = len(Ledger(people.ledger_url).history())
    with pytest.raises(error, match=said):
        withdraw(people, release_id, reason, remove=True)
    assert len(Ledger(people.ledger_url).history()) == before
    assert verify(folder_of(people) / f"{NIGHTS[0]}.json").holds


def test_a_release_in_a_bucket_is_withdrawn_there_too(people, monkeypatch, request):
    server = started_server()
    try:
        host, port = server.get_host_and_port()
        address = made_bucket(
            f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}", monkeypatch, request.node.name
        )
        text = people.path.read_text().replace("[output]", f'[output]\nupload = "{address}/out"')
        people.path.write_text(text)
        loaded = load_config(people.path)
        for night in NIGHTS:
            run(loaded, night)
        assert bv.open(f"{address}/out/{SECOND}.json").guarantee
        withdraw(loaded, SECOND, WHY, remove=True)
        with pytest.raises(StoreError, match=f"{SECOND} was withdrawn"):
            bv.open(f"{address}/out/{SECOND}.json")
        place = objects.client(f"{address}/out")
        names = [found.path for found in objects.listed(place, "people/covariance") if str(NIGHTS[1]) in found.path]
        assert names == [f"{SECOND}.json"]
        assert WHY.encode() in bytes(obstore.get(place, f"{SECOND}.json").bytes())
        assert bv.open(f"{address}/out/{FIRST}.json").guarantee
        # A disk that is lost brings nothing back that was withdrawn.
        (folder_of(people) / f"{NIGHTS[1]}.json").unlink()
        with pytest.raises(LedgerError, match=WHY):
            run(loaded, NIGHTS[1])
    finally:
        server.stop()


def test_the_command_says_what_it_did_and_the_statement_shows_it(people, monkeypatch):
    monkeypatch.chdir(people.base)
    done = CliRunner().invoke(app, ["ledger", "withdraw", "people.toml", SECOND, "--why", WHY])
    assert (done.exit_code, "Its budget remains spent" in done.output) == (0, True)
    shown = CliRunner().invoke(app, ["ledger", "show", "people.toml"]).output
    assert "WITHDRAWN" in shown
    assert f"withdrawn ({WHY})" in shown
    again = CliRunner().invoke(app, ["ledger", "withdraw", "people.toml", SECOND, "--why", "another one"])
    assert f": {WHY}\nIt had been withdrawn before; the first reason stays.\n" in again.output


# What the page on withdrawals says to do in each case.


def test_a_proof_was_wrong_and_what_was_spent_beyond_the_charge_is_booked(people):
    events = people.base / "events.toml"
    events.write_text(f'unit = "{support.UNIT}"\nneighbours = "add-remove"\n[[event]]\nkind = "gaussian"\nmu = 0.2\n')
    withdraw(people, SECOND, WHY, remove=False)
    before = Ledger(people.ledger_url).budget("people").spent_mu
    call = ["ledger", "charge", str(people.path), str(events), "--name", "correction", "--date", str(NIGHTS[1])]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert Ledger(people.ledger_url).budget("people").spent_mu == pytest.approx((before**2 + 0.2**2) ** 0.5)


def test_bounds_came_from_the_data_and_the_release_under_another_name_is_charged_anew(people):
    withdraw(people, SECOND, "its bounds were taken from the records", remove=True)
    people.path.write_text(
        people.path.read_text().replace('name = "covariance"', 'name = "covariance-public-bounds"', 1)
    )
    before = Ledger(people.ledger_url).budget("people").spent_mu
    assert run(load_config(people.path), NIGHTS[1]).resumed is None
    assert Ledger(people.ledger_url).budget("people").spent_mu > before


def test_a_key_may_have_leaked_and_the_night_that_was_committed_with_it_is_never_drawn(people, monkeypatch):
    night = date(2026, 11, 22)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ThreadCompute, "install", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(people, night)
    charge = Ledger(people.ledger_url).find(f"people/covariance/{night}")
    assert charge.state == "COMMITTED"
    keys = KeyStore(people.keys_root)
    assert keys.read(charge.charge_id) is not None
    assert all(keys.read(Ledger(people.ledger_url).find(each).charge_id) is None for each in (FIRST, SECOND))
    keys.destroy(charge.charge_id)  # the file, removed
    with pytest.raises(KeyLost):
        run(people, night)
    assert Ledger(people.ledger_url).find(f"people/covariance/{night}").state == "COMMITTED"  # it stays charged


def test_a_ledger_from_a_backup_forgot_a_withdrawal_and_the_notice_still_refuses(people):
    path = people.ledger_path
    backup = path.read_bytes()
    withdraw(people, SECOND, WHY, remove=False)
    path.write_bytes(backup)
    assert Ledger(people.ledger_url).find(SECOND).withdrawn is None
    with pytest.raises(StoreError, match=WHY):
        run(people, NIGHTS[1])
    assert withdraw(people, SECOND, WHY, remove=False).reason == WHY  # asked again, it stands in this ledger too
    with pytest.raises(LedgerError, match=WHY):
        run(people, NIGHTS[1])
