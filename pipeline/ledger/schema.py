"""The ledger's table: append-only, hash-chained, guarded by triggers.

A row is never changed; a change of state is a new row. Its hash covers all its columns, the previous hash and a random
nonce, so a published hash identifies the row without revealing anything that it says. :mod:`.tables` makes the table
and its triggers. A second table stamps the ledger with the version of its schema: any other is refused.
"""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.base.canonical import canonical_json

GENESIS = "0" * 64
"""Hash before the first row."""

SCHEMA = 1
"""Version of the tables and of what their entries say; the only one that this version of the package reads."""

metadata = sa.MetaData()

stamp = sa.Table("ledger_schema", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))

entry = sa.Table(
    "entry",
    metadata,
    sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("dataset", sa.String(64), nullable=False),
    sa.Column("release_id", sa.String(256)),
    sa.Column("charge_id", sa.String(64)),
    sa.Column("loss_ticks", sa.BigInteger, nullable=False),
    sa.Column("sampler_ticks", sa.BigInteger, nullable=False),
    sa.Column("pure_ticks", sa.BigInteger, nullable=False),
    sa.Column("failure_ticks", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("time", sa.String(40), nullable=False),
    sa.Column("nonce", sa.String(32), nullable=False),
    sa.Column("previous_hash", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("part", sa.Text),
    sa.CheckConstraint(
        "kind IN ('BUDGET', 'RESERVED', 'COMMITTED', 'RELEASED', 'VOID', 'CLOSED', 'OPENED', 'WITHDRAWN', "
        "'RENEWED', 'RESTORED', 'ATTESTED')",
        name="known_kind",
    ),
    sa.Index("one_entry_a_state", "charge_id", "kind", unique=True),
    sa.Index("by_release", "release_id"),
    sa.Index("by_dataset", "dataset", "kind", "part", "loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks"),
)


def row_hash(row: dict[str, Any]) -> str:
    """SHA-256 over the canonical JSON of all columns but the hash."""
    hashed = {column.name: row[column.name] for column in entry.columns if column.name != "hash"}
    return hashlib.sha256(canonical_json(hashed)).hexdigest()
