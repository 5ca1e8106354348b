"""What every backend of the ledger must keep about charges of disjoint parts of the records.

A test class inherits this beside :class:`blockveil.testing.ledger.LedgerContract` and its fixtures.
"""

import io
from dataclasses import astuple

import pytest

from blockveil.engine.guarantees.events import Step
from blockveil.engine.guarantees.guarantee import GaussianDP, Loss, Neighbours
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import BudgetExhausted, LedgerError, ReleaseConflict
from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import Ledger, Night
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.statement import statement
from blockveil.pipeline.ledger.transfer import read_rows
from blockveil.pipeline.report.burndown import points
from blockveil.testing.ledger_processes import race
from blockveil.testing.ledger_support import MU, UNIT, grant, reserve

DAY, NEXT = ("day", "2026-11-20", "date"), ("day", "2026-11-21", "date")
LISTED = "0" * 64
"""Digest of a list of texts."""
WARD = ("ward", "a", "text", LISTED)
ONE = Ticks.of(Loss(MU, 0.0, 300 * 2.0**-90))


def share(ledger):
    """Share of the budget that is spent."""
    status = ledger.budget("people")
    return status.used


def shown(ledger):
    """The last point of the picture of the budget."""
    return points(ledger.history(), ledger.budget("people").cap)[-1][1]


def spent(ledger):
    return ledger.budget("people").spent


def largest(*ticks):
    return Ticks(*(max(parts) for parts in zip(*map(astuple, ticks), strict=True)))


class PartsContract:
    """Of the charges of parts by one column, the largest total counts (parallel composition)."""

    def test_of_two_values_the_larger_counts_and_of_one_value_the_sum(self, url):
        ledger = grant(url, 10.0)
        reserve(ledger, "1", part=DAY)
        assert spent(ledger) == ONE
        reserve(ledger, "2", part=NEXT)
        assert spent(ledger) == ONE
        reserve(ledger, "3", part=NEXT)
        assert spent(ledger) == ONE.times(2)
        assert ledger.budget("people").charges == 3
        assert ledger.verify().problems == []

    def test_a_charge_of_all_records_comes_on_top(self, url):
        ledger = grant(url, 10.0)
        reserve(ledger, "1")
        reserve(ledger, "2", part=DAY)
        reserve(ledger, "3", part=NEXT)
        assert spent(ledger) == ONE.times(2)

    def test_parts_by_two_columns_add_up(self, url):
        ledger = grant(url, 10.0)
        for night, part in enumerate((DAY, NEXT, WARD)):
            reserve(ledger, str(night), part=part)
        assert spent(ledger) == ONE.times(2)

    def test_parts_of_two_data_sets_that_share_a_budget_add_up(self, url):
        """A person has a row in each, and may have another value in each."""
        ledger = grant(url, 10.0)
        for dataset, part in (("people", DAY), ("cars", NEXT)):
            ledger.reserve(ChargeRequest(
                release_id=f"{dataset}/covariance/1", dataset="people", spec={}, spec_digest=digest({}),
                charge=Loss(MU, 0.0, 300 * 2.0**-90), neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="test",
                part=Part(dataset, *part),
            ))  # fmt: skip
        assert spent(ledger) == ONE.times(2)

    def test_gaussian_and_pure_losses_of_two_values_count_beside_each_other(self, url):
        ledger = Ledger(url)
        ledger.set_budget("people", 2.0, 1e-6, Neighbours.ADD_REMOVE, UNIT, reserve=0.5)
        pure = Loss(0.0, 0.4, 0.0)
        for night, part, charge in (("1", DAY, Loss(MU, 0.0, 0.0)), ("2", NEXT, pure), ("3", DAY, pure)):
            ledger.reserve(ChargeRequest(
                release_id=f"people/covariance/{night}", dataset="people", spec={}, spec_digest=digest({}),
                charge=charge, neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="test",
                part=Part("people", *part),
            ))  # fmt: skip
        # The reserve of 0.5 holds the pure loss of 0.4 for each day, and no day's twice.
        assert spent(ledger) == largest(Ticks.of(Loss(MU, 0.0, 0.0)), Ticks.of(pure))

    def test_what_is_given_back_leaves_the_next_largest_value(self, url):
        ledger = grant(url, 10.0)
        reserve(ledger, "1", part=DAY, mu=0.1)
        largest = reserve(ledger, "2", part=NEXT)
        assert spent(ledger) == ONE
        assert ledger.void_if_reserved(largest.charge_id, "test")
        assert spent(ledger) == Ticks.of(Loss(0.1, 0.0, 300 * 2.0**-90))
        assert shown(ledger) == share(ledger)

    def test_a_budget_that_holds_one_release_holds_one_of_each_value_and_then_none_of_all(self, url):
        ledger = grant(url, 0.843)  # a first release may use what is kept back from several
        assert ledger.budget("people").nights_left(Loss(MU, 0.0, 0.0), Part("people", "day", "")) == 1
        for night, part in (("1", DAY), ("2", NEXT), ("3", ("day", "2026-11-22", "date"))):
            reserve(ledger, night, part=part)
        for part in (None, DAY, WARD):
            with pytest.raises(BudgetExhausted):
                reserve(ledger, "4", part=part)
        assert ledger.verify().problems == []

    def test_a_period_holds_the_largest_value_too(self, url):
        ledger = Ledger(url)
        month = (Period("month", 0.9),)
        ledger.set_budget("people", 10.0, 1e-6, Neighbours.ADD_REMOVE, UNIT, periods=month)
        reserve(ledger, "1", part=DAY)
        reserve(ledger, "2", part=NEXT)
        with pytest.raises(BudgetExhausted, match="this month for day = 2026-11-21"):
            reserve(ledger, "3", part=NEXT)
        (status,) = ledger.budget("people").periods
        assert (status.spent, status.charges) == (ONE, 2)

    def test_a_part_is_refused_where_its_proof_does_not_hold(self, url):
        ledger = Ledger(url)
        ledger.set_budget("people", 5.0, 1e-6, Neighbours.REPLACE_ONE, UNIT)
        with pytest.raises(LedgerError, match="leave one part and enter another"):
            reserve(ledger, "1", part=DAY, neighbours=Neighbours.REPLACE_ONE)
        with pytest.raises(LedgerError, match="nights that share a charge"):
            reserve(ledger, "1", part=DAY, place=Night(None))
        common = {"dataset": "people", "spec": {}, "spec_digest": "", "unit": UNIT, "attempt": "test"}
        common |= {"neighbours": Neighbours.ADD_REMOVE, "release_id": "people/covariance/1"}
        with pytest.raises(LedgerError, match="A series of events"):
            ledger.reserve(ChargeRequest(**common, charge=(Step(GaussianDP(0.1), 1),), part=Part("people", *DAY)))
        for part in (Part("cars", *DAY), Part("people", "", "x", "text"), Part("people", "day", "", "text")):
            with pytest.raises(LedgerError, match="of the data set that is released"):
                ledger.reserve(ChargeRequest(**common, charge=Loss(0.1, 0.0, 0.0), part=part))
        for part in (
            Part("people", "day", "7"),
            Part("people", "day", "07", "whole"),
            Part("people", "x", "7", "date"),
        ):
            with pytest.raises(LedgerError, match="has a type, and its value the one spelling"):
                ledger.reserve(ChargeRequest(**common, charge=Loss(0.1, 0.0, 0.0), part=part))
        for part in (Part("people", "x", "y", "text"), Part("people", "x", "7", "whole", LISTED)):
            with pytest.raises(LedgerError, match="of a declared list of values"):
                ledger.reserve(ChargeRequest(**common, charge=Loss(0.1, 0.0, 0.0), part=part))
        assert len(ledger.history()) == 1

    def test_other_units_never_mix_with_parts(self, url):
        with pytest.raises(LedgerError, match="do not add up"):
            reserve(grant(url), "1", part=DAY, unit="one visit")

    def test_a_release_goes_on_only_with_a_charge_of_its_part_or_of_all_records(self, url):
        ledger = grant(url, 10.0)
        same = {"data": {"fingerprint": "f" * 64}}
        first = reserve(ledger, "1", part=DAY, spec=same)
        assert reserve(ledger, "1", part=DAY, spec=same).charge_id == first.charge_id
        for part in (None, NEXT, WARD, ("day", "2026-11-20", "text", LISTED)):
            with pytest.raises(LedgerError, match="part of the records"):
                reserve(ledger, "1", part=part, spec=same)
        whole = reserve(ledger, "2", spec=same)
        assert reserve(ledger, "2", part=DAY, spec=same).charge_id == whole.charge_id
        with pytest.raises(ReleaseConflict):
            reserve(ledger, "1", part=NEXT, spec={"other": 1})

    def test_columns_of_one_name_and_two_types_add_up(self, url):
        """A record has a value of each type: the whole number 7, and the text 07."""
        ledger = grant(url, 10.0)
        for night, part in enumerate((("day", "7", "whole"), ("day", "8", "whole"), ("day", "07", "text", LISTED))):
            reserve(ledger, str(night), part=part)
        assert spent(ledger) == ONE.times(2)
        assert ledger.verify().problems == []

    @pytest.mark.parametrize("part", [NEXT, WARD, ("day", "2026-11-20", "text", LISTED)])
    def test_records_that_were_charged_as_another_part_are_refused(self, url, part):
        ledger, same = grant(url, 10.0), {"data": {"fingerprint": "f" * 64}}
        first = reserve(ledger, "1", part=DAY, spec=same)
        with pytest.raises(LedgerError, match="charged as day = 2026-11-20 for 'people/covariance/1'"):
            reserve(ledger, "2", part=part, spec=same)
        assert (len(ledger.history()), spent(ledger)) == (2, ONE)
        assert reserve(ledger, "3", part=DAY, spec=same).is_new
        assert reserve(ledger, "4", spec=same).is_new  # as one of all records they are charged beside the part
        assert spent(ledger) == ONE.times(3)
        for night in "13":
            assert ledger.void_if_reserved(ledger.find(f"people/covariance/{night}").charge_id, "test")
        assert first.warning is None
        assert reserve(ledger, "2", part=part, spec=same).warning is None

    def test_records_that_stand_under_another_data_set_or_budget_are_warned_of(self, url):
        ledger, same = grant(url, 10.0), {"data": {"fingerprint": "f" * 64}}
        ledger.set_budget("cars", 10.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        assert reserve(ledger, "1", spec=same).warning is None
        found = reserve(ledger, "1", dataset="cars", spec=same)
        assert "'people/covariance/1' (budget 'people')" in found.warning
        assert "name one budget" in found.warning
        assert reserve(ledger, "1", dataset="cars", spec=same).warning == found.warning, "a re-run says it again"
        assert ledger.history("cars")[-1].payload["same_records"] == [
            {"release": "people/covariance/1", "budget": "people"}
        ]
        assert statement(ledger.history("cars"))[-1].note == "same records as people/covariance/1"
        assert reserve(ledger, "2", dataset="cars", spec={"data": {"fingerprint": "0" * 64}}).warning is None
        shared = ledger.reserve(ChargeRequest(
            release_id="vans/covariance/1", dataset="people", spec=same, spec_digest=digest(same),
            charge=Loss(MU, 0.0, 300 * 2.0**-90), neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="test",
        ))  # fmt: skip
        assert "'people/covariance/1' (budget 'people')" in shared.warning

    @pytest.mark.parametrize(
        "text",
        [
            "day",
            '["people","day"]',
            '["people", "day", "1"]',
            '["people","day","1"]',
            '["people","day","1",null]',
            '["people","day","07","whole"]',
            '["people","day","7","number"]',
            "[" * 9000,
            "{}",
        ],
    )
    def test_a_part_that_nobody_can_read_counts_as_all_records_and_is_found(self, url, text):
        ledger = grant(url, 10.0)
        reserve(ledger, "1", part=DAY)
        forged = type("Forged", (), {"text": text})()
        with ledger._database.transaction() as connection:
            payload = {"spec": {}, "spec_digest": ""}
            of = (ledger._time(connection), "people/x/1", "f" * 32, ONE)
            append(connection, "RESERVED", "people", payload, *of, part=forged)
        assert spent(ledger) == ONE.times(2)
        assert shown(ledger) == share(ledger)
        assert ledger.verify().problems == ["row 3: names a part of the records that it cannot be of"]

    @pytest.mark.parametrize("kind", ["COMMITTED", "VOID"])
    def test_a_part_on_another_kind_of_entry_counts_for_nothing_and_is_found(self, url, kind):
        ledger = grant(url, 10.0)
        charge = reserve(ledger, "1", part=DAY)
        reserve(ledger, "2", part=NEXT)
        ticks = -ONE if kind == "VOID" else NOTHING
        with ledger._database.transaction() as connection:
            other = Part("people", *NEXT)
            of = (ledger._time(connection), charge.release_id, charge.charge_id, ticks)
            append(connection, kind, "people", {"key_check": "x"}, *of, part=other)
        assert spent(ledger) == ONE
        assert shown(ledger) == share(ledger)
        assert ledger.verify().problems == ["row 4: names a part of the records that it cannot be of"]

    def test_an_edit_of_a_part_is_found(self, url, administrator):
        ledger = grant(url, 10.0)
        reserve(ledger, "1", part=DAY)
        for value in ("NULL", f"'{Part('people', *NEXT).text}'"):
            administrator.without_guards(f"UPDATE entry SET part = {value} WHERE sequence = 2")
            assert ledger.verify().problems == ["row 2: content does not match its hash; it was edited"]

    def test_the_statement_and_the_burn_down_say_what_the_budget_says(self, url):
        ledger = grant(url, 10.0)
        for night, part in enumerate((DAY, NEXT, None, DAY, WARD)):
            reserve(ledger, str(night), part=part)
            lines, status = statement(ledger.history()), ledger.budget("people")
            assert lines[-1].spent == status.spent_epsilon
            assert lines[-1].spent_share == shown(ledger) == share(ledger)
            assert lines[-1].left == status.remaining_epsilon
            assert lines[-1].note == ("" if part is None else f"of {part[0]} = {part[1]}")

    def test_parts_survive_an_export(self, url, tmp_path):
        ledger, stream = grant(url, 10.0), io.StringIO(newline="")
        for night, part in enumerate((DAY, ("day", 'a "b", c', "text", LISTED), None)):
            reserve(ledger, str(night), part=part)
        ledger.export("jsonl", stream)
        stream.seek(0)
        copy = Ledger(f"sqlite:///{tmp_path / 'copy.db'}")
        assert copy.load(read_rows(stream), ledger.head(), as_copy=True).problems == []
        assert copy.budget("people") == ledger.budget("people")

    def test_the_last_room_is_taken_by_two_processes_of_two_days_and_by_one_of_two_of_a_day(self, url):
        ledger = grant(url, 1.0)
        room = ledger.budget("people").nights_left(Loss(0.1, 0.0, 300 * 2.0**-90)) - 1
        for night in range(room):
            reserve(ledger, str(night), mu=0.1)
        assert sorted(race(url, ["a", "b"], [DAY, NEXT])) == ["new", "new"]
        charges = [ledger.find(f"people/covariance/{night}").charge_id for night in "ab"]
        assert all(ledger.void_if_reserved(charge, "test") for charge in charges)
        assert sorted(race(url, ["c", "d"], [DAY, DAY])) == ["exhausted", "new"]
        assert ledger.budget("people").cap.holds(spent(ledger))
        assert ledger.verify().problems == []
