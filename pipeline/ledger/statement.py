"""The ledger as a bank statement: what each release cost, and what its data set had spent and left then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.ledger.entries import WITHDRAWN, Entry, State, counted, state_of
from blockveil.pipeline.ledger.grants import Grant, granted_words
from blockveil.pipeline.ledger.guessing import with_ticks
from blockveil.pipeline.ledger.restoring import LOST


@dataclass(frozen=True)
class Line:
    """One line of a statement.

    Attributes
    ----------
    sequence, time, kind, dataset, release_id
        The entry: its number, its time (UTC, ISO text), what it is and what it is about.
    mu, pure_epsilon, failure
        Gaussian and pure loss and probability of failure that it books; negative where it gives a charge back.
    cost
        Epsilon of that loss alone at the budget's delta, with its sign; None where there is none.
    spent
        Epsilon of all charges up to here at that delta; None where no epsilon holds.
    left
        Epsilon of the largest single release that still fits, at that delta.
    cost_share, spent_share
        What the entry books, with its sign, and all charges up to here, as shares of the budget, which add up
        within one currency; None where there is nothing or no budget.
    guess
        Bound of how often a guess is right with all releases up to here; a coin is right half of the time.
    rows_per_unit
        Rows of a unit that the charge is for; None where the entry says none.
    budget_epsilon, delta
        The budget that stood then; None before any was granted.
    state
        Where the charge stands today; empty for an entry of no charge.
    note
        Reason of a charge given back, place of a release, part of the records that a charge is of and releases of the
        same records elsewhere, what a budget is for, or why the ledger was closed.
    """

    sequence: int
    time: str
    kind: str
    dataset: str
    release_id: str | None
    mu: float
    pure_epsilon: float
    failure: float
    cost: float | None
    spent: float | None
    left: float | None
    cost_share: float | None
    spent_share: float | None
    guess: float | None
    rows_per_unit: int | None
    budget_epsilon: float | None
    delta: float | None
    state: str
    note: str


@dataclass(frozen=True)
class Days:
    """First and last day of a statement, UTC, both included; None leaves a side open."""

    since: date | None = None
    until: date | None = None

    def holds(self, entry: Entry) -> bool:
        """Whether an entry lies within."""
        day = entry.time[:10]
        return (self.since is None or day >= self.since.isoformat()) and (
            self.until is None or day <= self.until.isoformat()
        )


@dataclass
class _Account:
    """One data set while the entries are read."""

    cap: Cap | None = None
    tally: Tally = field(default_factory=Tally)


def statement(
    entries: Sequence[Entry],
    *,
    dataset: str | None = None,
    release: str | None = None,
    days: Days | None = None,
    every_entry: bool = False,
) -> list[Line]:
    """Return the lines of a statement, oldest first, as plain rows.

    Balances count all entries that are given, also those before the period and of other releases.

    Parameters
    ----------
    entries
        All entries of a ledger, or of some of its data sets, in order.
    dataset
        Only this data set.
    release
        Only this release, or all whose identifier begins with it and a slash.
    days
        Only these days.
    every_entry
        Also entries that move no budget: a charge that was committed or released.
    """
    entries = counted(entries)
    states = _states(entries)
    accounts: dict[str, _Account] = {}
    lines = []
    for entry in entries:
        account = accounts.setdefault(entry.dataset, _Account())
        if entry.kind == "BUDGET":
            account.cap = Grant.of(entry.payload).cap
        if entry.ticks != NOTHING:
            account.tally.add(entry.ticks, entry.of_part)
        moves = entry.kind not in (State.COMMITTED, State.RELEASED)  # a withdrawal moves nothing, and is always shown
        matches = dataset in (None, entry.dataset) and _is_of(entry, release) and (days is None or days.holds(entry))
        if matches and (moves or every_entry):
            lines.append(_line(entry, account, states))
    return lines


def _states(entries: Iterable[Entry]) -> dict[str, str]:
    charges: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.charge_id is not None:
            charges.setdefault(entry.charge_id, []).append(entry)
    return {
        charge: WITHDRAWN if any(entry.kind == WITHDRAWN for entry in history) else state_of(history)
        for charge, history in charges.items()
    }


def _is_of(entry: Entry, release: str | None) -> bool:
    if release is None:
        return True
    name = entry.release_id or ""
    return name == release or name.startswith(f"{release}/")


def _line(entry: Entry, account: _Account, states: dict[str, str]) -> Line:
    sign, size = _signed(entry.ticks)
    cap, spent = account.cap, account.tally.total.ticks
    cost = None if cap is None or size == NOTHING else _epsilon(size, cap)
    remainder = None if cap is None else cap.remaining_epsilon(spent)
    state = states.get(str(entry.charge_id), "")
    return Line(
        sequence=entry.sequence,
        time=entry.time,
        kind=entry.kind,
        dataset=entry.dataset,
        release_id=entry.release_id,
        mu=sign * size.mu if size.loss else 0.0,
        pure_epsilon=sign * size.pure_epsilon if size.pure else 0.0,
        failure=sign * size.failure_probability if size.failure else 0.0,
        cost=None if cost is None else sign * cost,
        spent=None if cap is None else _epsilon(spent, cap),
        left=remainder,
        cost_share=None if cap is None or size == NOTHING else sign * cap.used(size, spent),
        spent_share=None if cap is None else cap.used(spent),
        guess=None if cap is None else with_ticks(spent, cap.accountant),
        rows_per_unit=_rows(entry),
        budget_epsilon=None if cap is None else cap.epsilon,
        delta=None if cap is None else cap.delta,
        state=state,
        note=_note(entry) if entry.kind != State.VOID or state == State.VOID else "without effect: it stands",
    )


def _rows(entry: Entry) -> int | None:
    """Rows of a unit that a reservation's specification names; 1 where it names none."""
    spec = entry.payload.get("spec") if entry.kind == State.RESERVED else None
    privacy = spec.get("privacy") if isinstance(spec, dict) else None
    if not isinstance(privacy, dict):
        return None
    rows = privacy.get("rows_per_unit", 1)
    return rows if type(rows) is int else None


def _signed(ticks: Ticks) -> tuple[int, Ticks]:
    """Sign and size of what an entry books; all parts of a charge that is given back are negative."""
    back = min(ticks.loss, ticks.sampler, ticks.pure, ticks.failure) < 0
    return (-1, -ticks) if back else (1, ticks)


@lru_cache(maxsize=4096)
def _epsilon(ticks: Ticks, cap: Cap) -> float | None:
    epsilon = ticks.epsilon(cap.delta, cap.accountant)
    return epsilon if math.isfinite(epsilon) else None


def _note(entry: Entry) -> str:
    payload = entry.payload
    if entry.kind == "BUDGET":
        return (
            f"epsilon {payload['epsilon']:g} at delta {payload['delta']:g}, {payload['neighbours']}, {payload['unit']}"
            + (f"; granted after a loss: {payload['after_loss']}" if "after_loss" in payload else "")
            + granted_words(payload)
        )
    if entry.kind == "CLOSED":
        return "a copy, for reading" if payload.get("copy") else "it goes on at another address"
    if "since" in payload:
        return f"a copy of {payload['since']} was put back, {payload['booked']} charges were missing"
    if "key_loss" in payload:
        return f"the key of digests was lost, by {payload['key_loss']['by']}: {payload['key_loss']['why']}"
    if entry.kind == "ATTESTED":
        return f"nothing was put back, by {payload['by']}: {payload['why']}"
    if "continues" in payload:
        return "paid by an earlier night"
    part = entry.of_part if entry.kind == State.RESERVED else None
    notes = [] if part is None else [f"of {part.words}"]
    spec = payload.get("spec")
    notes += ["booked after a copy was put back"] if LOST in payload else []
    notes += ["unvetted"] if isinstance(spec, dict) and spec.get("unvetted") else []
    notes += [f"same records as {one['release']}" for one in payload.get("same_records", [])]
    return str(payload.get("reason") or payload.get("location") or ", ".join(notes))
