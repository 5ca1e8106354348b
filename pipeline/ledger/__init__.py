"""The run-level privacy ledger: append-only rows in SQLite or PostgreSQL that decide whether a release may spend."""

from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.entries import Charge, Entry, Night, State, Verification
from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.ledger import Ledger

__all__ = ["BudgetStatus", "Charge", "Entry", "Head", "Ledger", "Night", "State", "Verification"]
