"""Makes the tables of a new ledger, the triggers that guard its entries, and the stamp that names its schema.

The triggers are for everybody who writes, this package included: a row is never changed, continues the last one, and
may follow what its charge has gone through. A ledger that was closed stays closed until it is opened elsewhere.
"""

from __future__ import annotations

import sqlalchemy as sa

from blockveil.pipeline.ledger.schema import SCHEMA, metadata, stamp

_NOTHING = "NEW.loss_ticks = 0 AND NEW.sampler_ticks = 0 AND NEW.pure_ticks = 0 AND NEW.failure_ticks = 0"

# {entry} is the table. A charge that was committed stands, whatever else is written of it.
_RESERVED = """EXISTS (SELECT 1 FROM {entry} r WHERE r.charge_id = NEW.charge_id AND r.kind = 'RESERVED'
    AND r.dataset = NEW.dataset AND r.release_id = NEW.release_id)"""
_MAY_FOLLOW = f"""CASE
  WHEN (SELECT kind FROM {{entry}} ORDER BY sequence DESC LIMIT 1) = 'CLOSED' AND NEW.kind <> 'OPENED' THEN 0
  WHEN NEW.kind = 'OPENED'
   AND coalesce((SELECT kind FROM {{entry}} ORDER BY sequence DESC LIMIT 1), '') <> 'CLOSED' THEN 0
  WHEN NEW.kind IN ('BUDGET', 'CLOSED', 'OPENED', 'RENEWED', 'RESTORED', 'ATTESTED') THEN
    CASE WHEN NEW.charge_id IS NULL AND NEW.release_id IS NULL AND {_NOTHING} THEN 1 ELSE 0 END
  WHEN NEW.charge_id IS NULL OR NEW.release_id IS NULL THEN 0
  WHEN NEW.kind = 'RESERVED' THEN
    CASE WHEN NEW.loss_ticks >= 0 AND NEW.sampler_ticks >= 0 AND NEW.pure_ticks >= 0
      AND NEW.failure_ticks >= 0
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id)
      AND NOT EXISTS (SELECT 1 FROM {{entry}} r WHERE r.release_id = NEW.release_id AND r.kind = 'RESERVED' AND (
        NOT EXISTS (SELECT 1 FROM {{entry}} v WHERE v.charge_id = r.charge_id AND v.kind = 'VOID')
        OR EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = r.charge_id AND c.kind IN ('COMMITTED', 'RELEASED'))))
    THEN 1 ELSE 0 END
  WHEN NEW.kind = 'COMMITTED' THEN
    CASE WHEN {_NOTHING} AND {_RESERVED}
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind <> 'RESERVED')
    THEN 1 ELSE 0 END
  WHEN NEW.kind = 'RELEASED' THEN
    CASE WHEN {_NOTHING} AND {_RESERVED}
      AND EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'COMMITTED')
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'RELEASED')
    THEN 1 ELSE 0 END
  WHEN NEW.kind = 'VOID' THEN
    CASE WHEN EXISTS (SELECT 1 FROM {{entry}} r WHERE r.charge_id = NEW.charge_id AND r.kind = 'RESERVED'
        AND r.dataset = NEW.dataset AND r.release_id = NEW.release_id
        AND r.loss_ticks = -NEW.loss_ticks AND r.sampler_ticks = -NEW.sampler_ticks
        AND r.pure_ticks = -NEW.pure_ticks AND r.failure_ticks = -NEW.failure_ticks)
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind <> 'RESERVED')
    THEN 1 ELSE 0 END
  WHEN NEW.kind = 'WITHDRAWN' THEN
    CASE WHEN {_NOTHING} AND {_RESERVED}
      AND EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'RELEASED')
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'WITHDRAWN')
    THEN 1 ELSE 0 END
  ELSE 0 END"""  # noqa: S608 - constants

_SQLITE = (
    *(
        f"CREATE TRIGGER no_{action.lower()} BEFORE {action} ON entry "
        "BEGIN SELECT RAISE(ABORT, 'ledger rows are never changed'); END"
        for action in ("UPDATE", "DELETE")
    ),
    # REPLACE removes rows without firing the guard of DELETE, also by a hash or a state that is there already.
    """
    CREATE TRIGGER continues BEFORE INSERT ON entry
    WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entry)
      OR NEW.previous_hash IS NOT coalesce((SELECT hash FROM entry ORDER BY sequence DESC LIMIT 1), printf('%064d', 0))
      OR EXISTS (SELECT 1 FROM entry WHERE hash = NEW.hash)
      OR EXISTS (SELECT 1 FROM entry WHERE charge_id = NEW.charge_id AND kind = NEW.kind)
    BEGIN SELECT RAISE(ABORT, 'ledger rows are never changed and continue the last one'); END
    """,
    f"CREATE TRIGGER may_follow BEFORE INSERT ON entry WHEN ({_MAY_FOLLOW.format(entry='entry')}) = 0 "
    "BEGIN SELECT RAISE(ABORT, 'an entry may not follow: ledger rows are never changed'); END",
)

# The table is named by the trigger, not by the session's search path.
_FOLLOWED = _MAY_FOLLOW.replace("NEW.", "($1).").format(entry="@entry@")
_POSTGRESQL = (
    """
    CREATE FUNCTION ledger_rows_are_never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'ledger rows are never changed' USING ERRCODE = 'BV001'; END $$
    """,
    """
    CREATE TRIGGER never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_rows_are_never_changed()
    """,
    """
    CREATE FUNCTION ledger_rows_continue() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE last_sequence bigint; last_hash text;
    BEGIN
        EXECUTE format('SELECT sequence, hash FROM %I.%I ORDER BY sequence DESC LIMIT 1',
                       TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO last_sequence, last_hash;
        IF NEW.sequence IS DISTINCT FROM coalesce(last_sequence, 0) + 1
           OR NEW.previous_hash IS DISTINCT FROM coalesce(last_hash, repeat('0', 64)) THEN
            RAISE EXCEPTION 'a ledger row continues the last one' USING ERRCODE = 'BV002';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER continues BEFORE INSERT ON entry
    FOR EACH ROW EXECUTE FUNCTION ledger_rows_continue()
    """,
    f"""
    CREATE FUNCTION ledger_rows_may_follow() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE allowed integer;
    BEGIN
        EXECUTE replace($query$SELECT {_FOLLOWED}$query$,
                        '@entry@', format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME)) INTO allowed USING NEW;
        IF allowed IS DISTINCT FROM 1 THEN
            RAISE EXCEPTION 'a ledger row of this kind may not follow here' USING ERRCODE = 'BV003';
        END IF;
        RETURN NEW;
    END $$
    """,  # noqa: S608 - constants
    """
    CREATE TRIGGER may_follow BEFORE INSERT ON entry
    FOR EACH ROW EXECUTE FUNCTION ledger_rows_may_follow()
    """,
    # Also in a session that says it only replays another server's changes.
    *(f"ALTER TABLE entry ENABLE ALWAYS TRIGGER {trigger}" for trigger in ("never_changed", "continues", "may_follow")),
)


def make_tables(connection: sa.Connection) -> None:
    """Make tables, triggers and stamp inside a writing transaction of a database that has none of them."""
    metadata.create_all(connection, checkfirst=False)
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(sa.text(statement))
    connection.execute(stamp.insert().values(version=SCHEMA))
