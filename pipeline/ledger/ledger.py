"""The ledger: who may spend, decided in one transaction before any record is read.

Rules: the cap of a data set is never exceeded by charges that are not VOID; a release id has at most one charge that
is not VOID; states go RESERVED -> COMMITTED -> RELEASED, or RESERVED -> VOID; the neighbouring relation and the
privacy unit of a data set never mix.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import sqlalchemy as sa

from engine.guarantees import Neighbours
from pipeline.accounting import NOTHING, Cap, GaussianCharge, Ticks
from pipeline.canonical import canonical_json
from pipeline.errors import BudgetExhausted, LedgerError, ReleaseConflict
from pipeline.ledger.database import Database
from pipeline.ledger.difference import differences
from pipeline.ledger.records import BudgetStatus, Charge, Entry, State, Verification
from pipeline.ledger.schema import GENESIS, entry, metadata, row_hash
from pipeline.ledger.verify import verify_chain


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Ledger:
    """Budget and charges of data sets.

    Parameters
    ----------
    url
        ``sqlite:///path`` of the ledger's file.
    now
        Clock, giving UTC as ISO text.
    """

    def __init__(self, url: str, now: Callable[[], str] = _now) -> None:
        self._database = Database(url)
        self._now = now

    def set_budget(
        self, dataset: str, epsilon: float, delta: float, neighbours: Neighbours, privacy_unit: str
    ) -> BudgetStatus:
        """Grant or change a budget; makes the ledger where there is none.

        Raises
        ------
        LedgerError
            The parameters are out of range, less than is spent, or would mix relations or units.
        """
        if not (0 < epsilon <= 1000 and 0 < delta < 1):
            raise LedgerError(
                f"A budget of epsilon {epsilon:g} and delta {delta:g} is not usable",
                "epsilon lies in (0, 1000] and delta in (0, 1)",
                "Give both explicitly",
            )
        self._database.create(metadata)
        with self._database.transaction() as connection:
            present = self._budget(connection, dataset)
            cap = Cap(float(epsilon), float(delta))
            if present is not None and present.charges:
                self._check_scope(present, neighbours, privacy_unit)
            if present is not None and not cap.holds(present.spent):
                raise LedgerError(
                    f"A budget of epsilon {epsilon:g} at delta {delta:g} is below what '{dataset}' has spent",
                    f"At that delta epsilon {present.spent.epsilon(delta):.4g} is spent",
                    "Give at least that",
                )
            payload = {"epsilon": cap.epsilon, "delta": cap.delta, "neighbours": neighbours.value, "unit": privacy_unit}
            self._append(connection, "BUDGET", dataset, payload)
            return self._require_budget(connection, dataset)

    def budget(self, dataset: str) -> BudgetStatus:
        """Budget of a data set and what is left.

        Raises
        ------
        LedgerError
            There is none.
        """
        with self._database.transaction() as connection:
            return self._require_budget(connection, dataset)

    def datasets(self) -> list[str]:
        """Data sets that have a budget."""
        with self._database.transaction() as connection:
            return list(connection.scalars(sa.select(entry.c.dataset).distinct().order_by(entry.c.dataset)))

    def reserve(
        self,
        *,
        release_id: str,
        dataset: str,
        spec: Mapping[str, Any],
        spec_digest: str,
        charge: GaussianCharge,
        neighbours: Neighbours,
        unit: str,
        attempt: str,
    ) -> Charge:
        """Hold budget for a release, or find the charge that it already has.

        Raises
        ------
        BudgetExhausted
            The cap does not hold it.
        ReleaseConflict
            The release has a charge for another specification.
        LedgerError
            There is no budget, or relation or unit differ from the budget's.
        """
        with self._database.transaction() as connection:
            budget = self._require_budget(connection, dataset)
            known = self._active(connection, release_id)
            if known is not None:
                if known.spec_digest != spec_digest:
                    raise _conflict(release_id, known.payload["spec"], spec)
                return self._charge(connection, known, is_new=False)
            self._check_scope(budget, neighbours, unit)
            ticks = charge.ticks()
            if not budget.cap.holds(budget.spent + ticks):
                raise _exhausted(budget, charge)
            payload = {
                "event": {"kind": "gaussian", "mu": charge.mu, "total_variation": charge.total_variation},
                "spec": dict(spec),
                "spec_digest": spec_digest,
                "attempt": attempt,
            }
            charge_id = os.urandom(16).hex()
            row = self._append(connection, State.RESERVED, dataset, payload, release_id, charge_id, ticks)
            return self._charge(connection, row, is_new=True)

    def commit(self, charge_id: str, key_check: str) -> Charge:
        """Make a charge irrevocable before noise is drawn; returns the first commit where there is one.

        Raises
        ------
        LedgerError
            The charge is unknown or void.
        """
        with self._database.transaction() as connection:
            reserved, state = self._find(connection, charge_id)
            if state is State.VOID:
                raise LedgerError(
                    f"The charge of '{reserved.release_id}' was given back by another attempt",
                    "Noise is drawn only for a charge that stands",
                    "Run again",
                )
            if state is State.RESERVED:
                self._append(
                    connection,
                    State.COMMITTED,
                    reserved.dataset,
                    {"key_check": key_check},
                    reserved.release_id,
                    charge_id,
                )
            return self._charge(connection, reserved, is_new=False)

    def void_if_reserved(self, charge_id: str, reason: str) -> bool:
        """Give a charge back if nothing can have been drawn; whether it is void afterwards."""
        with self._database.transaction() as connection:
            reserved, state = self._find(connection, charge_id)
            if state is State.RESERVED:
                given_back = Ticks(-reserved.loss_ticks, -reserved.sampler_ticks)
                self._append(
                    connection,
                    State.VOID,
                    reserved.dataset,
                    {"reason": reason},
                    reserved.release_id,
                    charge_id,
                    given_back,
                )
            return state in (State.RESERVED, State.VOID)

    def released(self, charge_id: str, output_digest: str, location: str) -> Charge:
        """Mark a committed charge as published; again with the same output changes nothing.

        Raises
        ------
        LedgerError
            The charge is not committed, or was released with other output.
        """
        with self._database.transaction() as connection:
            reserved, state = self._find(connection, charge_id)
            payload = {"output_digest": output_digest, "location": location}
            if state is State.COMMITTED:
                self._append(connection, State.RELEASED, reserved.dataset, payload, reserved.release_id, charge_id)
            elif state is not State.RELEASED or self._payload(connection, charge_id, State.RELEASED) != payload:
                raise LedgerError(
                    f"'{reserved.release_id}' cannot be marked as released",
                    "Only a committed charge is released, once, with one output",
                    "Run `blockveil ledger show` to see where it stands",
                )
            return self._charge(connection, reserved, is_new=False)

    def find(self, release_id: str) -> Charge | None:
        """Charge of a release that is not void, if there is one."""
        with self._database.transaction() as connection:
            known = self._active(connection, release_id)
            return None if known is None else self._charge(connection, known, is_new=False)

    def history(self, dataset: str | None = None, release_id: str | None = None) -> list[Entry]:
        """Entries in order, all or those of a data set or a release."""
        query = sa.select(entry).order_by(entry.c.sequence)
        if dataset is not None:
            query = query.where(entry.c.dataset == dataset)
        if release_id is not None:
            query = query.where(entry.c.release_id == release_id)
        with self._database.transaction() as connection:
            return [Entry.of(dict(row)) for row in connection.execute(query).mappings()]

    def verify(self, expected_head: str | None = None) -> Verification:
        """Recompute the whole chain."""
        with self._database.transaction() as connection:
            rows = connection.execute(sa.select(entry).order_by(entry.c.sequence)).mappings()
            return verify_chain((dict(row) for row in rows), expected_head)

    def export(self, form: Literal["jsonl", "csv"], stream: TextIO) -> int:
        """Write all entries as JSON Lines or CSV; returns how many."""
        with self._database.transaction() as connection:
            rows = [dict(row) for row in connection.execute(sa.select(entry).order_by(entry.c.sequence)).mappings()]
        if form == "jsonl":
            stream.writelines(canonical_json(row).decode() + "\n" for row in rows)
        else:
            writer = csv.DictWriter(stream, [column.name for column in entry.columns], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return len(rows)

    def _append(
        self,
        connection: sa.Connection,
        kind: str,
        dataset: str,
        payload: Mapping[str, Any],
        release_id: str | None = None,
        charge_id: str | None = None,
        ticks: Ticks = NOTHING,
    ) -> Entry:
        last = connection.execute(
            sa.select(entry.c.sequence, entry.c.hash).order_by(entry.c.sequence.desc()).limit(1)
        ).one_or_none()
        row: dict[str, Any] = {
            "sequence": 1 if last is None else last.sequence + 1,
            "kind": str(kind),
            "dataset": dataset,
            "release_id": release_id,
            "charge_id": charge_id,
            "loss_ticks": ticks.loss,
            "sampler_ticks": ticks.sampler,
            "payload": canonical_json(payload).decode(),
            "time": self._now(),
            "nonce": os.urandom(16).hex(),
            "previous_hash": GENESIS if last is None else last.hash,
        }
        row["hash"] = row_hash(row)
        connection.execute(entry.insert().values(**row))
        return Entry.of(row)

    @staticmethod
    def _budget(connection: sa.Connection, dataset: str) -> BudgetStatus | None:
        granted = connection.execute(
            sa.select(entry.c.payload)
            .where(entry.c.dataset == dataset, entry.c.kind == "BUDGET")
            .order_by(entry.c.sequence.desc())
            .limit(1)
        ).scalar_one_or_none()
        if granted is None:
            return None
        # VOID rows carry negative ticks, so the sum over all rows is what active charges cost.
        loss, sampler = connection.execute(
            sa.select(
                sa.func.coalesce(sa.func.sum(entry.c.loss_ticks), 0),
                sa.func.coalesce(sa.func.sum(entry.c.sampler_ticks), 0),
            ).where(entry.c.dataset == dataset)
        ).one()
        count = sa.select(
            sa.func.coalesce(
                sa.func.sum(sa.case((entry.c.kind == "RESERVED", 1), (entry.c.kind == "VOID", -1), else_=0)), 0
            )
        ).where(entry.c.dataset == dataset)
        found = json.loads(granted)
        return BudgetStatus(
            dataset=dataset,
            cap=Cap(found["epsilon"], found["delta"]),
            neighbours=Neighbours(found["neighbours"]),
            privacy_unit=found["unit"],
            spent=Ticks(int(loss), int(sampler)),
            charges=int(connection.execute(count).scalar_one()),
        )

    def _require_budget(self, connection: sa.Connection, dataset: str) -> BudgetStatus:
        budget = self._budget(connection, dataset)
        if budget is None:
            raise LedgerError(
                f"'{dataset}' has no budget",
                "A person grants a budget before anything is released",
                "Run `blockveil budget set CONFIG --epsilon E --delta D`",
            )
        return budget

    @staticmethod
    def _check_scope(budget: BudgetStatus, neighbours: Neighbours, unit: str) -> None:
        if (budget.neighbours, budget.privacy_unit) != (neighbours, unit):
            raise LedgerError(
                f"'{budget.dataset}' is accounted as {budget.neighbours.value}, \"{budget.privacy_unit}\"; "
                f'this is {neighbours.value}, "{unit}"',
                "Losses for different relations or privacy units do not add up",
                "Use the budget's relation and unit, or another data set name with its own budget",
            )

    @staticmethod
    def _active(connection: sa.Connection, release_id: str) -> Entry | None:
        voided = sa.select(entry.c.charge_id).where(entry.c.release_id == release_id, entry.c.kind == "VOID")
        row = (
            connection.execute(
                sa.select(entry).where(
                    entry.c.release_id == release_id, entry.c.kind == "RESERVED", entry.c.charge_id.not_in(voided)
                )
            )
            .mappings()
            .one_or_none()
        )
        return None if row is None else Entry.of(dict(row))

    @staticmethod
    def _find(connection: sa.Connection, charge_id: str) -> tuple[Entry, State]:
        rows = (
            connection.execute(sa.select(entry).where(entry.c.charge_id == charge_id).order_by(entry.c.sequence))
            .mappings()
            .all()
        )
        if not rows:
            raise LedgerError(
                "A charge is not in the ledger", "Its row is never removed", "Run `blockveil ledger verify`"
            )
        return Entry.of(dict(rows[0])), State(rows[-1]["kind"])

    @staticmethod
    def _payload(connection: sa.Connection, charge_id: str, kind: State) -> dict[str, Any]:
        text = connection.execute(
            sa.select(entry.c.payload).where(entry.c.charge_id == charge_id, entry.c.kind == kind.value)
        ).scalar_one()
        return dict(json.loads(text))

    @staticmethod
    def _charge(connection: sa.Connection, reserved: Entry, *, is_new: bool) -> Charge:
        rows = (
            connection.execute(
                sa.select(entry).where(entry.c.charge_id == reserved.charge_id).order_by(entry.c.sequence)
            )
            .mappings()
            .all()
        )
        committed = next((row for row in rows if row["kind"] == State.COMMITTED), None)
        anchor = committed or rows[0]
        return Charge(
            charge_id=str(reserved.charge_id),
            release_id=str(reserved.release_id),
            spec_digest=reserved.spec_digest,
            state=State(rows[-1]["kind"]),
            sequence=int(anchor["sequence"]),
            row_hash=str(anchor["hash"]),
            is_new=is_new,
            key_check=None if committed is None else str(json.loads(committed["payload"])["key_check"]),
        )


def _conflict(release_id: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> ReleaseConflict:
    lines = differences(old, new)
    shown = "; ".join(lines[:6]) + ("; ..." if len(lines) > 6 else "")
    return ReleaseConflict(
        f"'{release_id}' exists with another specification ({shown})",
        "The same noise must never meet other data or another config, so a release is never redone differently",
        "Restore what changed to resume it, or release under another name or date (a new charge)",
        lines,
    )


def _exhausted(budget: BudgetStatus, charge: GaussianCharge) -> BudgetExhausted:
    cap, left = budget.cap, budget.left_epsilon
    fits = f"Lower privacy.epsilon so that it costs less than {left:.3g} there, or raise" if left > 0 else "Raise"
    return BudgetExhausted(
        f"The budget of '{budget.dataset}' does not hold this release: asked epsilon {cap.epsilon_of(charge.mu):.3g}, "
        f"left epsilon {left:.3g} of {cap.epsilon:g} (each at delta {cap.delta:g})",
        "All releases of a data set together stay within its budget",
        f"{fits} the budget with `blockveil budget set`",
    )
