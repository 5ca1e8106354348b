"""What a ledger of many nights costs to ask, against reading the same rows alone and against dp-accounting.

``python -m benchmarks.ledger [ADDRESS]``, with the address of an empty PostgreSQL database to measure that as well.

* 10,000 Gaussian charges in seven sizes, one in a hundred given back: what they cost together and whether the budget
  holds one more (what ``ledger budget`` and a reservation ask of an open transaction), and the same with opening the
  ledger; against fetching the 10,000 rows' sizes, and against composing them with dp-accounting, equal ones grouped by
  hand. Medians of interleaved runs.
* 3,650 nights of mixed kinds (Gaussian, every third Laplace, every seventh a sampled step of training): what each
  question costs a person, once.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dp_accounting
import sqlalchemy as sa
from dp_accounting.pld import pld_privacy_accountant

from benchmarks import machine
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.budget.filter import NOTHING, Chargeable, Ticks
from blockveil.pipeline.ledger import Ledger, chain, lookups
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.statement import statement

CHARGES, NIGHTS, REPEATS = 10_000, 3_650, 25
UNIT, DELTA, DISTANCE = "one person", 1e-6, 2.0**-82
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def sizes() -> Iterator[Chargeable]:
    """Gaussian charges of seven sizes."""
    yield from (Loss(1e-3 * (1 + k % 7), 0.0, DISTANCE) for k in range(CHARGES))


def mixed() -> Iterator[Chargeable]:
    """One charge a night, of three kinds."""
    for night in range(NIGHTS):
        if night % 7 == 6:
            yield (Step(PoissonGaussian(0.001, 2.0), 10),)
        else:
            yield Loss(0.0, 1e-3, 0.0) if night % 3 == 2 else Loss(0.02, 0.0, DISTANCE)


def fill(ledger: Ledger, charges: Iterator[Chargeable]) -> None:
    """Book charges in one transaction, as reservations, commits and releases do one by one; give some back."""
    ledger.set_budget("people", 20.0, DELTA, Neighbours.ADD_REMOVE, UNIT, reserve=1.0, slack=0.1)

    def work(connection: sa.Connection) -> None:
        spent, cap = NOTHING, lookups.require_budget(connection, "people", FIRST.isoformat()).cap
        for number, charge in enumerate(charges):
            ticks, moment = cap.book(charge, spent), (FIRST + timedelta(days=number)).isoformat()
            of = (f"people/covariance/{number}", chain.identifier())
            said = {"event": {}, "spec": {}, "spec_digest": "0" * 64, "attempt": "benchmark"}
            chain.append(connection, "RESERVED", "people", said, moment, *of, ticks)
            if number % 100 == 99:
                chain.append(connection, "VOID", "people", {"reason": "benchmark"}, moment, *of, -ticks)
                continue
            spent = spent + ticks
            chain.append(connection, "COMMITTED", "people", {"key_check": "0"}, moment, *of)
            done = {"output_digest": "0", "location": "0"}
            chain.append(connection, "RELEASED", "people", done, moment, *of)

    ledger._database.write(work)


def ask(connection: sa.Connection) -> None:
    """What the charges cost together, and whether the budget holds one more."""
    status = lookups.require_budget(connection, "people", FIRST.isoformat())
    assert status.cap.holds(status.spent + Ticks.of(Loss(1e-3, 0.0, DISTANCE)), status.charges + 1)


def fetch(connection: sa.Connection) -> None:
    """Sizes of the rows of the charges, without adding them up."""
    columns = (entry.c.loss_ticks, entry.c.sampler_ticks, entry.c.pure_ticks, entry.c.failure_ticks)
    wanted = sa.select(*columns).where(entry.c.dataset == "people", entry.c.kind == "RESERVED")
    assert len(connection.execute(wanted).all()) == CHARGES


def peer() -> None:
    """The same charges in dp-accounting."""
    accountant = pld_privacy_accountant.PLDAccountant()
    for k in range(7):
        accountant.compose(dp_accounting.GaussianDpEvent(1e3 / (1 + k)), CHARGES // 7 + 1)
    accountant.get_epsilon(DELTA)


def seconds(work: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def many(ledger: Ledger, name: str) -> None:
    """Print what 10,000 charges cost to ask."""
    times: list[list[float]] = [[], [], [], []]
    with ledger._database.reading() as connection:
        ask(connection)
        for _ in range(REPEATS):
            steps: tuple[Callable[[], object], ...] = (
                lambda: ask(connection),
                lambda: fetch(connection),
                lambda: ledger.budget("people"),
                peer,
            )
            for kept, step in zip(times, steps, strict=True):
                kept.append(1e3 * seconds(step))
    asked, fetched, opened, theirs = (statistics.median(kept) for kept in times)
    print(f"{name}, {CHARGES:,} Gaussian charges: median {asked:.1f} ms, least {min(times[0]):.1f} ms")
    print(f"  with opening the ledger   {opened:.1f} ms, least {min(times[2]):.1f} ms")
    print(f"  fetching the rows alone   {fetched / asked:.1f} times as long")
    print(f"  dp-accounting             {theirs / asked:.0f} times as long")


def years(ledger: Ledger) -> None:
    """Print what 3,650 mixed nights cost to ask."""
    print(f"SQLite, {NIGHTS:,} mixed nights")
    print(f"  book and write them all   {seconds(lambda: fill(ledger, mixed())):.2f} s")
    print(f"  ledger budget's question  {1e3 * seconds(lambda: ledger.budget('people')):.1f} ms")
    print(f"  one more night reserved   {1e3 * seconds(lambda: reserve(ledger)):.0f} ms")
    print(f"  every line of a statement {seconds(lambda: statement(ledger.history())):.2f} s")
    print(f"  verify                    {seconds(ledger.verify):.2f} s")


def reserve(ledger: Ledger) -> None:
    """One more night, a sampled one of another kind than those before."""
    ledger.reserve(ChargeRequest(
        release_id="people/training/next", dataset="people", spec={}, spec_digest="0" * 64,
        charge=(Step(PoissonGaussian(0.001, 1.9), 10),), neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="one",
    ))  # fmt: skip


def main() -> None:
    """Measure on SQLite, and on PostgreSQL where an address is given."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"sqlite:///{Path(folder) / 'many.db'}")
        fill(ledger, sizes())
        many(ledger, "SQLite")
        for address in sys.argv[1:]:
            copy = Ledger(address)
            with ledger._database.reading() as connection:
                copy.load(list(lookups.rows(connection)), as_copy=True)
            # What the server does by itself once a minute.
            with copy._database._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE entry")
            many(copy, "PostgreSQL")
        years(Ledger(f"sqlite:///{Path(folder) / 'years.db'}"))


if __name__ == "__main__":
    machine.begin(1)
    sys.exit(main())
