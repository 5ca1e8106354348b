"""What every backend of the ledger must keep. A test class inherits this and gives ``url`` and ``administrator``.

``url`` is the address of an empty place; ``administrator(statement)`` runs SQL there with every right that a database
gives, the triggers in force, and ``administrator.without_guards(statement)`` with the triggers removed.
"""

import io
import json
from dataclasses import astuple

import pytest
import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import BudgetExhausted, LedgerError, ReleaseConflict
from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import counted
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.statement import statement
from blockveil.pipeline.ledger.transfer import read_rows
from blockveil.testing.ledger_processes import STEPS, attempt, race
from blockveil.testing.ledger_support import MU, UNIT, grant, night_spec, reserve, reserve_night

PROCESSES = 32
NEVER = 0
COLUMNS = [column.name for column in entry.columns]
BEFORE = {
    "reserve": [],
    "commit": ["RESERVED"],
    "void": ["RESERVED"],
    "expire": ["RESERVED"],
    "released": ["RESERVED", "COMMITTED"],
}
AFTER = {"reserve": "RESERVED", "commit": "COMMITTED", "void": "VOID", "expire": "VOID", "released": "RELEASED"}


FORGED = [
    ("VOID", "1", "first", NOTHING, "VOID may not follow for this charge"),
    ("VOID", "1", "first", Ticks(-45035996273705, 0), "VOID may not follow for this charge"),
    ("COMMITTED", "9", "unknown", NOTHING, "COMMITTED may not follow for this charge"),
    ("RELEASED", "3", "third", NOTHING, "RELEASED may not follow for this charge"),
    ("COMMITTED", "4", "fourth", NOTHING, "COMMITTED may not follow for this charge"),
    ("RESERVED", "9", "new", Ticks(-1, 0), "charges or gives back what it may not"),
    ("RESERVED", "9", "new", Ticks(1, 0, 0, -1), "charges or gives back what it may not"),
    ("RESERVED", "1", "new", Ticks(1, 0), "the release has another charge that was not given back"),
    ("VOID", "3", "third", Ticks(-(2**60), 0), "charges or gives back what it may not"),
    ("VOID", "9", "third", NOTHING, "names another release than the charge was reserved for"),
    ("COMMITTED", "3", "third", Ticks(0, 0, -1), "charges or gives back what it may not"),
    ("COMMITTED", "1", "third", NOTHING, "names another release than the charge was reserved for"),
    ("WITHDRAWN", "3", "third", NOTHING, "WITHDRAWN may not follow for this charge"),
    ("BUDGET", None, None, Ticks(-1, 0), "a budget charges something"),
    ("OPENED", None, None, NOTHING, "OPENED may not follow here"),
]
"""Rows that no ledger writes: kind, release, charge, sizes, and what `verify` says of them."""


class Administrator:
    """Somebody with every right in a database."""

    def __init__(self, url, guards_off):
        self._engine, self._guards_off = sa.create_engine(url, poolclass=sa.NullPool), guards_off
        self.dialect = self._engine.dialect.name

    def __call__(self, statement):
        with self._engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def without_guards(self, statement):
        with self._engine.begin() as connection:
            for off in self._guards_off:
                connection.exec_driver_sql(off)
            connection.exec_driver_sql(statement)


def prepare(ledger, step, night):
    """Bring a release to where a step starts; its charge."""
    if not BEFORE[step]:
        return "none"
    charge = reserve(ledger, night).charge_id
    if step == "released":
        ledger.commit(charge, "check")
    return charge


def kinds(ledger, night):
    return [entry.kind for entry in ledger.history(release_id=f"people/covariance/{night}")]


class LedgerContract:
    """Who may spend, under concurrency, kills and tampering."""

    @pytest.fixture
    def ledger_of_two(self, url):
        """Seven rows: a budget, and two releases to their end."""
        ledger = grant(url, 5.0)
        for night in "12":
            charge = reserve(ledger, night).charge_id
            ledger.commit(charge, "check")
            ledger.released(charge, "digest", "place")
        return ledger

    @pytest.fixture
    def tamper(self, administrator):
        return administrator.without_guards

    def test_a_charge_goes_through_its_states_and_keeps_its_anchor(self, url):
        ledger = grant(url)
        new = reserve(ledger, "1")
        assert (new.state, new.is_new, new.key_check) == (State.RESERVED, True, None)
        committed = ledger.commit(new.charge_id, "check")
        assert (committed.state, committed.key_check) == (State.COMMITTED, "check")
        released = ledger.released(new.charge_id, "digest", "place")
        assert released.state is State.RELEASED
        assert (released.sequence, released.row_hash) == (committed.sequence, committed.row_hash)
        assert ledger.verify().problems == []

    def test_the_same_release_is_charged_once(self, url):
        ledger = grant(url)
        first = reserve(ledger, "1")
        again = reserve(ledger, "1")
        assert again.charge_id == first.charge_id
        assert not again.is_new
        assert ledger.budget("people").spent_mu == pytest.approx(MU)

    def test_the_first_key_check_stands_whatever_comes_later(self, url):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        assert ledger.commit(charge.charge_id, "first").key_check == "first"
        assert ledger.commit(charge.charge_id, "second").key_check == "first"

    def test_a_void_charge_costs_nothing_and_the_release_may_be_charged_again(self, url):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        assert ledger.void_if_reserved(charge.charge_id, "bad data")
        assert ledger.void_if_reserved(charge.charge_id, "bad data")
        assert ledger.budget("people").spent_mu == 0
        with pytest.raises(LedgerError, match="given back"):
            ledger.commit(charge.charge_id, "check")
        new = reserve(ledger, "1", spec={"other": 1})
        assert new.is_new
        assert new.charge_id != charge.charge_id

    def test_a_committed_charge_is_never_given_back(self, url):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        ledger.commit(charge.charge_id, "check")
        assert not ledger.void_if_reserved(charge.charge_id, "too late")
        assert ledger.budget("people").spent_mu == pytest.approx(MU)

    def test_only_a_committed_charge_is_released_and_with_one_output(self, url):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        with pytest.raises(LedgerError, match="Only a committed charge"):
            ledger.released(charge.charge_id, "digest", "place")
        ledger.commit(charge.charge_id, "check")
        ledger.released(charge.charge_id, "digest", "place")
        ledger.released(charge.charge_id, "digest", "place")
        with pytest.raises(LedgerError, match="one output"):
            ledger.released(charge.charge_id, "other", "place")
        assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]

    def test_a_withdrawal_is_for_good_costs_nothing_and_gives_nothing_back(self, url):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        with pytest.raises(LedgerError, match="is RESERVED"):
            ledger.withdraw("people/covariance/1", "a proof was wrong")
        ledger.commit(charge.charge_id, "check")
        ledger.released(charge.charge_id, "d" * 64, "x.zarr")
        spent = ledger.budget("people").spent
        for reason in ("a proof was wrong", "another reason"):
            found = ledger.withdraw("people/covariance/1", reason)
            assert (found.state, found.withdrawn) == (State.RELEASED, "a proof was wrong")
        assert ledger.budget("people").spent == spent
        assert [entry.kind for entry in ledger.history()][-1:] == ["WITHDRAWN"]
        assert len(ledger.history()) == 5
        assert ledger.verify().problems == []
        assert [line.state for line in statement(ledger.history())[1:]] == ["WITHDRAWN", "WITHDRAWN"]
        with pytest.raises(LedgerError, match="was withdrawn: a proof was wrong"):
            reserve(ledger, "1")
        with pytest.raises(LedgerError, match="has no charge"):
            ledger.withdraw("people/covariance/2", "never released")

    def test_another_specification_is_refused_with_what_differs_and_no_fingerprint(self, url):
        ledger = grant(url)
        old = {
            "privacy": {"epsilon": 1.0},
            "list": [1, 2],
            "data": {"fingerprint": "a" * 64},
            "calibration": {"mu": 1.0},
        }
        new = {
            "privacy": {"epsilon": 0.5},
            "list": [1, 3],
            "data": {"fingerprint": "b" * 64},
            "calibration": {"mu": 2.0},
        }
        reserve(ledger, "1", spec=old)
        with pytest.raises(ReleaseConflict) as caught:
            reserve(ledger, "1", spec=new)
        assert caught.value.differences == [
            "data.fingerprint: the records have changed",
            "list: changed",
            "privacy.epsilon: 1.0 -> 0.5",
        ]
        assert "aaaa" not in str(caught.value)
        assert "bbbb" not in str(caught.value)

    def test_a_full_budget_refuses_with_what_was_asked_and_what_is_left(self, url):
        ledger = grant(url)
        reserve(ledger, "1")
        with pytest.raises(BudgetExhausted) as caught:
            reserve(ledger, "2")
        for words in ("asked epsilon 0.83", "left epsilon 0.5", "of 1 ", "blockveil ledger grant"):
            assert words in str(caught.value)
        assert len(ledger.history()) == 2

    def test_budgets_rise_and_fall_but_not_below_what_is_spent(self, url):
        ledger = grant(url)
        reserve(ledger, "1")
        assert ledger.set_budget("people", 4.0, 1e-6, Neighbours.ADD_REMOVE, UNIT).epsilon == 4.0
        reserve(ledger, "2")
        with pytest.raises(LedgerError, match="below what 'people' has spent"):
            ledger.set_budget("people", 1.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        assert ledger.budget("people").epsilon == 4.0
        assert ledger.datasets() == ["people"]

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (float("nan"), 1e-6), (1, 0), (1, 1), (1e9, 0.1)]
    )
    def test_a_budget_without_meaning_is_refused(self, url, epsilon, delta):
        with pytest.raises(LedgerError, match="not usable"):
            grant(url).set_budget("people", epsilon, delta, Neighbours.ADD_REMOVE, UNIT)

    def test_relations_and_units_never_mix(self, url):
        ledger = grant(url)
        with pytest.raises(LedgerError, match="do not add up"):
            reserve(ledger, "1", neighbours=Neighbours.REPLACE_ONE)
        with pytest.raises(LedgerError, match="do not add up"):
            reserve(ledger, "1", unit="one visit")
        reserve(ledger, "1")
        with pytest.raises(LedgerError, match="do not add up"):
            ledger.set_budget("people", 2.0, 1e-6, Neighbours.REPLACE_ONE, UNIT)

    def test_data_sets_have_budgets_of_their_own(self, url):
        ledger = grant(url)
        ledger.set_budget("cars", 1.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        reserve(ledger, "1")
        assert reserve(ledger, "1", dataset="cars").is_new
        with pytest.raises(LedgerError, match="has no budget"):
            reserve(ledger, "1", dataset="boats")

    def test_a_thousand_charges_are_summed_exactly(self, url):
        ledger = grant(url, 1000.0)
        ticks, nothing = Ticks.of(Loss(0.01, 0.0, 1e-25)), {"spec": {}, "spec_digest": ""}
        with ledger._database.transaction() as connection:
            for night in range(1000):
                ledger._append(connection, "RESERVED", "people", nothing, f"r{night}", f"{night:032x}", ticks)
        assert ledger.budget("people").spent == ticks.times(1000)

    def test_the_cap_is_never_exceeded_by_32_processes(self, url):
        ledger = grant(url, 1.0)
        fits = ledger.budget("people").nights_left(Loss(0.1, 0.0, 300 * 2.0**-90))
        assert 1 < fits < PROCESSES
        answers = race(url, [f"night-{number}" for number in range(PROCESSES)])
        assert sorted(answers) == sorted(["new"] * fits + ["exhausted"] * (PROCESSES - fits))
        budget = Ledger(url).budget("people")
        assert budget.charges == fits
        assert budget.cap.holds(budget.spent)
        assert ledger.verify().problems == []

    def test_one_release_is_charged_once_by_32_processes(self, url):
        ledger = grant(url, 1.0)
        assert sorted(race(url, ["same"] * PROCESSES)) == ["known"] * (PROCESSES - 1) + ["new"]
        assert ledger.budget("people").charges == 1
        assert ledger.verify().problems == []

    def test_no_row_of_32_processes_is_lost(self, url):
        ledger = grant(url, 100.0)
        nights = [f"night-{number}" for number in range(PROCESSES)]
        assert set(race(url, nights)) == {"new"}
        booked = [entry.release_id for entry in ledger.history() if entry.kind == "RESERVED"]
        assert sorted(booked) == sorted(f"people/covariance/{night}" for night in nights)

    @pytest.mark.parametrize("step", BEFORE)
    def test_a_kill_at_any_statement_leaves_all_or_nothing_and_the_next_try_ends_it(self, url, step):
        ledger = grant(url, 1000.0)
        seen, boundary, ended = set(), 0, False
        while not ended:
            boundary += 1
            night = str(boundary)
            charge = prepare(ledger, step, night)
            ended = attempt(url, step, night, charge, boundary)
            booked = kinds(ledger, night)
            assert booked in (BEFORE[step], [*BEFORE[step], AFTER[step]])
            seen.add(len(booked) - len(BEFORE[step]))
            STEPS[step](ledger, night, charge)
            assert kinds(ledger, night) == [*BEFORE[step], AFTER[step]]
        assert boundary > 8
        assert seen == {0, 1}, "kills before and after the commit were both tried"
        assert ledger.budget("people").charges == (0 if AFTER[step] == "VOID" else boundary)
        assert ledger.verify().problems == []

    def test_a_kill_at_any_statement_of_a_grant_leaves_the_old_budget_or_the_new_one(self, url):
        ledger = grant(url, 1.0)
        boundary, ended, seen = 0, False, set()
        while not ended:
            boundary += 1
            old, new = ledger.budget("people").epsilon, 1.0 + boundary
            ended = attempt(url, "grant", str(new), "none", boundary)
            found = ledger.budget("people").epsilon
            assert found in (old, new)
            seen.add(found == new)
            STEPS["grant"](ledger, new, "none")
            assert ledger.budget("people").epsilon == new
        assert boundary > 8
        assert seen == {False, True}, "kills before and after the commit were both tried"
        assert ledger.verify().problems == []

    def test_a_kill_at_any_statement_of_a_closing_leaves_it_open_or_closed_and_the_next_try_ends_it(
        self, url, tmp_path
    ):
        there = f"sqlite:///{tmp_path / 'there.db'}"
        ledger = grant(url, 1000.0)
        boundary, kinds = 0, ["BUDGET"]
        while kinds == ["BUDGET"]:
            boundary += 1
            attempt(url, "close", there, "none", boundary)
            kinds = [entry.kind for entry in ledger.history()]
        assert boundary > 5
        STEPS["close"](ledger, there, "none")
        assert [entry.kind for entry in ledger.history()] == ["BUDGET", "CLOSED"]
        assert ledger.verify().problems == []

    def test_a_reservation_of_a_killed_run_can_be_given_back(self, url):
        ledger = grant(url)
        assert attempt(url, "reserve", "1", "none", NEVER)
        charge = ledger.find("people/covariance/1")
        assert ledger.void_if_reserved(charge.charge_id, "operator")
        assert ledger.budget("people").spent_mu == 0
        assert ledger.verify().problems == []

    def test_a_clock_that_goes_backwards_does_not_turn_back_the_ledger(self, url):
        times = iter(["2026-03-02T00:00:00+00:00", "2026-03-03T00:00:00+00:00", "2020-01-01T00:00:00+00:00"])
        ledger = grant(url, now=lambda: next(times))
        ledger.commit(reserve(ledger, "1").charge_id, "check")
        assert [entry.time[:10] for entry in ledger.history()] == ["2026-03-02", "2026-03-03", "2026-03-03"]
        assert ledger.verify().problems == []

    @pytest.mark.parametrize("statement", ["UPDATE entry SET dataset = 'x'", "DELETE FROM entry WHERE sequence = 3"])
    def test_the_database_refuses_to_change_rows(self, ledger_of_two, administrator, statement):
        with pytest.raises(sa.exc.DBAPIError, match="never changed"):
            administrator(statement)
        assert ledger_of_two.verify().problems == []

    @pytest.mark.parametrize(
        ("column", "value"),
        [("sequence", "sequence"), ("sequence", "99"), ("previous_hash", "previous_hash"), ("hash", "hash")],
    )
    def test_the_database_refuses_a_row_that_does_not_continue_the_last(
        self, ledger_of_two, administrator, column, value
    ):
        """Also by INSERT OR REPLACE, which on SQLite would remove rows without firing the guard of DELETE."""
        columns = dict.fromkeys(COLUMNS)
        columns |= {name: name for name in COLUMNS}
        columns |= {"sequence": "8", "hash": "'new'", "charge_id": "'new'"}
        columns["previous_hash"] = "(SELECT hash FROM entry WHERE sequence = 7)"
        columns[column] = value
        verbs = ["INSERT", "INSERT OR REPLACE"] if administrator.dialect == "sqlite" else ["INSERT"]
        before = ledger_of_two.history()
        for verb in verbs:
            with pytest.raises(sa.exc.DBAPIError):
                administrator(
                    f"{verb} INTO entry ({', '.join(columns)}) "
                    f"SELECT {', '.join(columns.values())} FROM entry WHERE sequence = 3"
                )
        assert ledger_of_two.history() == before
        assert ledger_of_two.verify().problems == []

    @pytest.mark.parametrize(
        "column", ["kind", "dataset", "release_id", "charge_id", "payload", "time", "nonce", "previous_hash", "hash"]
    )
    def test_an_edit_of_any_text_is_found(self, ledger_of_two, tamper, column):
        value = {"kind": "VOID", "payload": '{"key_check":"edited"}'}.get(column, "edited")
        tamper(f"UPDATE entry SET {column} = '{value}' WHERE sequence = 3")
        assert any("row 3" in problem for problem in ledger_of_two.verify().problems)

    @pytest.mark.parametrize("column", ["loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks"])
    def test_an_edit_of_a_charge_is_found(self, ledger_of_two, tamper, column):
        tamper(f"UPDATE entry SET {column} = {column} - 1 WHERE sequence = 5")
        assert "row 5: content does not match its hash; it was edited" in ledger_of_two.verify().problems

    def test_a_deletion_is_found(self, ledger_of_two, tamper):
        tamper("DELETE FROM entry WHERE sequence = 4")
        assert any("missing or out of order" in problem for problem in ledger_of_two.verify().problems)

    def test_a_reorder_is_found(self, ledger_of_two, tamper):
        for old, new in ((4, 99), (6, 4), (99, 6)):
            tamper(f"UPDATE entry SET sequence = {new} WHERE sequence = {old}")
        assert ledger_of_two.verify().problems

    def test_an_insertion_is_found(self, ledger_of_two, tamper):
        columns = ", ".join(COLUMNS)
        copied = columns.replace("sequence", "8").replace("charge_id", "'x'").replace(", hash", ", 'x'")
        tamper(f"INSERT INTO entry ({columns}) SELECT {copied} FROM entry WHERE sequence = 5")
        assert any("row 8" in problem for problem in ledger_of_two.verify().problems)

    def test_a_truncation_is_found_with_a_head_kept_elsewhere(self, ledger_of_two, tamper):
        ledger = ledger_of_two
        head = ledger.verify().head
        reserve(ledger, "3")
        assert ledger.verify(head).problems == [], "an older head stays valid"
        tamper("DELETE FROM entry WHERE sequence > 4")
        assert ledger.verify().problems == [], "without it the shorter chain looks whole"
        assert ledger.verify(head).problems == ["the expected head is not in the chain: rows were cut off or rewritten"]

    @pytest.mark.parametrize(("kind", "release", "charge", "ticks", "problem"), FORGED)
    def test_a_row_that_may_not_follow_is_refused_and_where_it_got_in_it_counts_for_nothing_and_is_found(
        self, ledger_of_two, tamper, kind, release, charge, ticks, problem
    ):
        ledger = ledger_of_two
        reserve(ledger, "3")
        ledger.void_if_reserved(reserve(ledger, "4").charge_id, "given back")
        charges = {name: ledger.find(f"people/covariance/{number}") for name, number in (("first", 1), ("third", 3))}
        known = charges[charge].charge_id if charge in charges else charge
        if charge == "fourth":
            known = ledger.history(release_id="people/covariance/4")[0].charge_id
        before, spent = ledger.history(), ledger.budget("people").spent

        def forge():
            with ledger._database.transaction() as connection:
                name = release and f"people/covariance/{release}"
                ledger._append(connection, kind, "people", ledger.history()[0].payload, name, known, ticks)

        with pytest.raises(LedgerError, match="break the ledger's rules"):
            forge()
        assert ledger.history() == before
        tamper("SELECT 1")  # the guards are gone
        forge()
        after = ledger.budget("people").spent
        assert min(new - old for new, old in zip(astuple(after), astuple(spent), strict=True)) >= 0
        assert counted(ledger.history())[-1].ticks.not_negative() == counted(ledger.history())[-1].ticks
        assert any(found.startswith("row 11: ") and problem in found for found in ledger.verify().problems)

    def test_a_commit_outlives_a_forged_row_that_gives_it_back(self, url, tamper):
        ledger = grant(url)
        charge = reserve(ledger, "1")
        ledger.commit(charge.charge_id, "check")
        spent = ledger.budget("people").spent
        tamper("SELECT 1")
        with ledger._database.transaction() as connection:
            ledger._append(connection, "VOID", "people", {}, charge.release_id, charge.charge_id, -spent)
        assert (ledger.budget("people").spent, ledger.budget("people").charges) == (spent, 1)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, "2")
        again = reserve(ledger, "1")
        assert (again.charge_id, again.state, again.key_check) == (charge.charge_id, State.COMMITTED, "check")
        assert not ledger.void_if_reserved(charge.charge_id, "once more")
        shown = statement(ledger.history())
        assert [(line.kind, line.state, line.spent) for line in shown[1:]] == [
            ("RESERVED", "COMMITTED", shown[1].spent),
            ("VOID", "COMMITTED", shown[1].spent),
        ]
        assert shown[2].note == "without effect: it stands"

    def test_a_charge_that_is_dated_back_counts_in_its_period(self, url):
        ledger = Ledger(url, now=lambda: "2026-11-20T02:00:00+00:00")
        month = (Period("month", 1.0),)
        ledger.set_budget("people", 5.0, 1e-6, Neighbours.ADD_REMOVE, UNIT, periods=month)
        dated = Ledger(url)
        dated._time = lambda _: "2026-01-01T00:00:00+00:00"
        reserve(dated, "1")
        assert [part.charges for part in ledger.budget("people").periods] == [1]
        with pytest.raises(BudgetExhausted, match="this month"):
            reserve(ledger, "2")

    def test_a_reservation_below_the_cost_of_its_release_pays_for_nothing(self, url):
        """Somebody who may add entries could write one, with everything right but its sizes."""
        ledger = grant(url)
        spec = {"some": "release"}
        payload = {"spec": spec, "spec_digest": digest(spec), "attempt": "forged"}
        for number, (changed, ticks) in enumerate(
            [({}, NOTHING), ({}, Ticks.of(Loss(MU / 2, 0.0, 300 * 2.0**-90))), ({"continues": "f" * 32}, NOTHING)]
        ):
            with ledger._database.transaction() as connection:
                name = f"people/covariance/{number}"
                ledger._append(connection, "RESERVED", "people", payload | changed, name, f"{number:032x}", ticks)
            with pytest.raises(LedgerError, match="not what this release costs"):
                reserve(ledger, number, spec=spec)
        ledger.set_budget("cars", 5.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        with ledger._database.transaction() as connection:
            cost = Ticks.of(Loss(MU, 0.0, 300 * 2.0**-90))
            ledger._append(connection, "RESERVED", "cars", payload, "people/covariance/9", "9" * 32, cost)
        with pytest.raises(LedgerError, match="not of this budget"):
            reserve(ledger, "9", spec=spec)

    @pytest.mark.parametrize("distance", [2.0**-41, 1e-6])
    def test_a_distance_that_cannot_be_stored_is_refused_in_words(self, url, distance):
        ledger = grant(url)
        with pytest.raises((LedgerError, BudgetExhausted)) as caught:
            ledger.reserve(ChargeRequest(
                release_id="people/covariance/1", dataset="people", spec={}, spec_digest=digest({}),
                charge=Loss(0.1, 0.0, distance), neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="test",
            ))  # fmt: skip
        assert isinstance(caught.value, BudgetExhausted) is (distance > 1e-9)
        assert len(ledger.history()) == 1

    def test_sums_beyond_64_bits_are_exact(self, url):
        ledger, nothing = grant(url, 1000.0), {"spec": {}, "spec_digest": ""}
        most = Ticks(2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1)
        with ledger._database.transaction() as connection:
            for night in range(5):
                ledger._append(connection, "RESERVED", "people", nothing, f"r{night}", f"{night:032x}", most)
            ledger._append(connection, "VOID", "people", nothing, "r0", f"{0:032x}", -most)
        assert ledger.budget("people").spent == most.times(4)

    def test_what_is_spent_is_the_sum_of_the_rows_that_count(self, url, tamper):
        ledger, nothing = grant(url, 1000.0), {"spec": {}, "spec_digest": ""}
        month = [Period("month", 900.0)]
        ledger.set_budget("people", 1000.0, 1e-6, Neighbours.ADD_REMOVE, UNIT, periods=month)
        sizes = [Ticks(3**night, 2**night, 5 * night % 3, night % 2) for night in range(30)]

        def rows(kind, nights, sign=1):
            with ledger._database.transaction() as connection:
                for night in nights:
                    ticks = sizes[night] if sign > 0 else -sizes[night]
                    ledger._append(connection, kind, "people", nothing, f"r{night}", f"{night:032x}", ticks)

        def summed():
            return sum((one.ticks for one in counted(ledger.history())), NOTHING)

        rows("RESERVED", range(30))
        rows("VOID", range(0, 30, 4), -1)
        for forged in (False, True):  # sizes below zero are counted another way
            if forged:
                tamper("SELECT 1")
                sizes.append(Ticks(-7, 4, -2, 1))
                rows("RESERVED", [30])
            budget = ledger.budget("people")
            assert budget.spent == summed() == budget.periods[0].spent
            assert budget.charges == budget.periods[0].charges == 22 + forged
            assert budget.spent.loss == sum(3**night for night in range(30) if night % 4)

    def test_a_closed_ledger_takes_no_entry_and_goes_on_where_it_was_closed_for(self, url, tmp_path):
        ledger, there = grant(url, 5.0), f"sqlite:///{tmp_path / 'there' / 'ledger.db'}"
        charges = [reserve(ledger, night) for night in "12"]
        ledger.commit(charges[1].charge_id, "check")
        with pytest.raises(LedgerError, match="its own address"):
            ledger.close_for(url)
        for _ in range(2):
            ledger.close_for(there)
        with pytest.raises(LedgerError, match="closed already"):
            ledger.close_for(f"sqlite:///{tmp_path / 'elsewhere.db'}")
        for use in (
            lambda: reserve(ledger, "1"),
            lambda: reserve(ledger, "3"),
            lambda: ledger.commit(charges[0].charge_id, "check"),
            lambda: ledger.void_if_reserved(charges[0].charge_id, "test"),
            lambda: ledger.released(charges[1].charge_id, "digest", "place"),
            lambda: ledger.set_budget("people", 9.0, 1e-6, Neighbours.ADD_REMOVE, UNIT),
        ):
            with pytest.raises(LedgerError, match="was closed"):
                use()
        assert [entry.kind for entry in ledger.history()][-2:] == ["COMMITTED", "CLOSED"]
        assert ledger.verify().problems == []
        stream = io.StringIO()
        ledger.export("jsonl", stream)
        moved = Ledger(there)
        (tmp_path / "there").mkdir()
        rows = read_rows(io.StringIO(stream.getvalue()))
        assert moved.load(rows, ledger.head()).problems == []
        assert moved.released(charges[1].charge_id, "digest", "place").state is State.RELEASED
        assert reserve(moved, "1").charge_id == charges[0].charge_id
        assert moved.budget("people").spent == ledger.budget("people").spent
        assert moved.datasets() == ["people"]

    @pytest.mark.parametrize("kind", ["BUDGET", "RESERVED", "CLOSED"])
    def test_the_database_keeps_a_closed_ledger_closed(self, url, tmp_path, kind, administrator):
        ledger = grant(url, 5.0)
        ledger.close_for(f"sqlite:///{tmp_path / 'there.db'}")
        sizes = ("loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks")
        columns = dict.fromkeys(COLUMNS, "NULL") | dict.fromkeys(sizes, "0")
        columns |= {name: name for name in ("dataset", "payload", "time")}
        columns |= {"sequence": "3", "kind": f"'{kind}'", "nonce": "'n'", "hash": "'h'", "previous_hash": "hash"}
        columns |= {"release_id": "'r'", "charge_id": "'c'"} if kind == "RESERVED" else {}
        forged = f"SELECT {', '.join(columns.values())} FROM entry WHERE sequence = 2"
        with pytest.raises(sa.exc.DBAPIError, match="may not follow"):
            administrator(f"INSERT INTO entry ({', '.join(columns)}) {forged}")
        administrator.without_guards(f"INSERT INTO entry ({', '.join(columns)}) {forged}")
        assert f"row 3: {kind} may not follow here" in ledger.verify().problems

    def test_hashes_hide_equal_content_behind_a_nonce(self, ledger_of_two):
        nonces = {entry.nonce for entry in ledger_of_two.history()}
        assert len(nonces) == len(ledger_of_two.history())

    def test_exports_hold_every_row_and_column(self, ledger_of_two):
        lines = io.StringIO()
        assert ledger_of_two.export("jsonl", lines) == 7
        rows = [json.loads(line) for line in lines.getvalue().splitlines()]
        assert [row["sequence"] for row in rows] == list(range(1, 8))
        assert rows[1]["previous_hash"] == rows[0]["hash"]

    def test_nights_that_share_a_charge_are_paid_once_and_drawn_in_order(self, url):
        ledger = grant(url)
        first = reserve_night(ledger, 1, 1, None)
        spent = ledger.budget("people").spent
        with pytest.raises(LedgerError, match="has not committed"):
            reserve_night(ledger, 2, 1, None)
        ledger.commit(first.charge_id, "check")
        with pytest.raises(LedgerError, match="is not released"):
            reserve_night(ledger, 3, 2, first.charge_id)
        ledger.released(first.charge_id, "digest", "place", "total")
        for number, newest in ((2, None), (3, first.charge_id)):
            with pytest.raises(LedgerError, match="meanwhile"):
                reserve_night(ledger, 3, number, newest)
        third = reserve_night(ledger, 3, 2, first.charge_id)
        assert (third.continues, first.continues, third.is_new) == (first.charge_id, None, True)
        assert reserve_night(ledger, 3, 2, None).is_new is False
        fifth = reserve_night(ledger, 5, 2, first.charge_id)
        with pytest.raises(ReleaseConflict, match="planned otherwise"):
            reserve_night(ledger, 4, 2, first.charge_id, series="other")
        assert ledger.commit(third.charge_id, "a key of its own").state is State.COMMITTED
        with pytest.raises(LedgerError, match="is not released"):
            ledger.commit(fifth.charge_id, "check")
        ledger.released(third.charge_id, "digest", "place", "total")
        with pytest.raises(LedgerError, match="meanwhile"):
            ledger.commit(fifth.charge_id, "check")
        with pytest.raises(LedgerError, match="comes after"):
            reserve_night(ledger, 2, 3, third.charge_id)
        assert ledger.budget("people").spent == spent
        nights = ledger.nights("people/covariance/9", night_spec(9))
        assert sorted(night.release_id[-1] for night in nights) == ["1", "3", "5"]
        assert ledger.verify().problems == []

    def test_a_night_that_paid_and_gave_back_leaves_the_next_one_to_pay(self, url):
        ledger = grant(url)
        first = reserve_night(ledger, 1, 1, None)
        spent = ledger.budget("people").spent
        assert ledger.void_if_reserved(first.charge_id, "test")
        assert ledger.budget("people").spent == NOTHING
        assert reserve_night(ledger, 2, 1, None).continues is None
        assert ledger.budget("people").spent == spent
