"""The run-level privacy ledger: append-only rows in SQLite that decide whether a release may spend."""

from pipeline.ledger.ledger import Ledger
from pipeline.ledger.records import BudgetStatus, Charge, Entry, State, Verification

__all__ = ["BudgetStatus", "Charge", "Entry", "Ledger", "State", "Verification"]
