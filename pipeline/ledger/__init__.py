"""The run-level privacy ledger: append-only rows in SQLite or PostgreSQL that decide whether a release may spend."""

from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.ledger import Ledger
from blockveil.pipeline.ledger.records import BudgetStatus, Charge, Entry, Night, State, Verification

__all__ = ["BudgetStatus", "Charge", "Entry", "Head", "Ledger", "Night", "State", "Verification"]
