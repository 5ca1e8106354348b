"""A row is accepted only where it may follow: charges go through their states, and a closed ledger stays closed.

Also the kinds CLOSED and OPENED, for a ledger that moves to another place.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_KINDS = "kind IN ('BUDGET', 'RESERVED', 'COMMITTED', 'RELEASED', 'VOID', 'CLOSED', 'OPENED')"

_NOTHING = "NEW.loss_ticks = 0 AND NEW.sampler_ticks = 0 AND NEW.pure_ticks = 0 AND coalesce(NEW.failure_ticks, 0) = 0"

# {entry} is the table. A charge that was committed stands, also where an entry from before this version gives it back.
_RESERVED = """EXISTS (SELECT 1 FROM {entry} r WHERE r.charge_id = NEW.charge_id AND r.kind = 'RESERVED'
    AND r.dataset = NEW.dataset AND r.release_id = NEW.release_id)"""
_MAY_FOLLOW = f"""CASE
  WHEN (SELECT kind FROM {{entry}} ORDER BY sequence DESC LIMIT 1) = 'CLOSED' AND NEW.kind <> 'OPENED' THEN 0
  WHEN NEW.kind = 'OPENED'
   AND coalesce((SELECT kind FROM {{entry}} ORDER BY sequence DESC LIMIT 1), '') <> 'CLOSED' THEN 0
  WHEN NEW.kind IN ('BUDGET', 'CLOSED', 'OPENED') THEN
    CASE WHEN NEW.charge_id IS NULL AND NEW.release_id IS NULL AND {_NOTHING} THEN 1 ELSE 0 END
  WHEN NEW.charge_id IS NULL OR NEW.release_id IS NULL THEN 0
  WHEN NEW.kind = 'RESERVED' THEN
    CASE WHEN NEW.loss_ticks >= 0 AND NEW.sampler_ticks >= 0 AND NEW.pure_ticks >= 0
      AND coalesce(NEW.failure_ticks, 0) >= 0
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
        AND r.pure_ticks = -NEW.pure_ticks AND coalesce(r.failure_ticks, 0) = -coalesce(NEW.failure_ticks, 0))
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind <> 'RESERVED')
    THEN 1 ELSE 0 END
  ELSE 0 END"""  # noqa: S608 - constants

_WHOLE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_COLUMNS = ("sequence", "kind", "dataset", "release_id", "charge_id", "loss_ticks", "sampler_ticks", "pure_ticks",
            "payload", "time", "nonce", "previous_hash", "hash", "failure_ticks")  # fmt: skip


def upgrade() -> None:
    """Add the kinds and the guard."""
    if op.get_context().dialect.name == "sqlite":
        _rebuild()
        op.execute(
            f"CREATE TRIGGER may_follow BEFORE INSERT ON entry WHEN ({_MAY_FOLLOW.format(entry='entry')}) = 0 "
            "BEGIN SELECT RAISE(ABORT, 'an entry may not follow: ledger rows are never changed'); END"
        )
        _index()
        return
    op.drop_constraint("known_kind", "entry", type_="check")
    op.create_check_constraint("known_kind", "entry", _KINDS)
    op.drop_index("by_dataset", "entry")
    _index()
    # The table is named by the trigger, not by the session's search path.
    followed = _MAY_FOLLOW.replace("NEW.", "($1).")
    op.execute(f"""
        CREATE FUNCTION ledger_rows_may_follow() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE allowed integer;
        BEGIN
            EXECUTE replace($query$SELECT {followed.format(entry="@entry@")}$query$,
                            '@entry@', format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME)) INTO allowed USING NEW;
            IF allowed IS DISTINCT FROM 1 THEN
                RAISE EXCEPTION 'a ledger row of this kind may not follow here' USING ERRCODE = 'BV003';
            END IF;
            RETURN NEW;
        END $$
    """)  # noqa: S608 - constants
    op.execute("""
        CREATE TRIGGER may_follow BEFORE INSERT ON entry
        FOR EACH ROW EXECUTE FUNCTION ledger_rows_may_follow()
    """)
    op.execute("ALTER TABLE entry ENABLE ALWAYS TRIGGER may_follow")


def _index() -> None:
    columns = ["dataset", "kind", "loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks"]
    op.create_index("by_dataset", "entry", columns)


def _rebuild() -> None:
    """The table again, with more kinds: SQLite changes no constraint of a table that exists."""
    connection = op.get_bind()
    kept = connection.execute(
        sa.text(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'entry' AND type IN ('index', 'trigger') "
            "AND sql IS NOT NULL AND name <> 'by_dataset' ORDER BY type, name"
        )
    ).scalars()
    again = list(kept)
    op.rename_table("entry", "entry_before")
    op.create_table(
        "entry",
        sa.Column("sequence", _WHOLE, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("dataset", sa.String(64), nullable=False),
        sa.Column("release_id", sa.String(256)),
        sa.Column("charge_id", sa.String(64)),
        sa.Column("loss_ticks", sa.BigInteger, nullable=False),
        sa.Column("sampler_ticks", sa.BigInteger, nullable=False),
        sa.Column("pure_ticks", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("nonce", sa.String(32), nullable=False),
        sa.Column("previous_hash", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("failure_ticks", sa.BigInteger),
        sa.CheckConstraint(_KINDS, name="known_kind"),
    )
    names = ", ".join(_COLUMNS)
    op.execute(f"INSERT INTO entry ({names}) SELECT {names} FROM entry_before ORDER BY sequence")  # noqa: S608 - constants
    op.drop_table("entry_before")
    for statement in again:
        op.execute(statement)
