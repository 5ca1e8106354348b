"""A release may be withdrawn: an entry after RELEASED that charges nothing and gives nothing back."""

import sqlalchemy as sa
from alembic import op

from blockveil.pipeline.ledger.migrations.versions.v0004_transitions import _MAY_FOLLOW, _NOTHING, _RESERVED, _WHOLE

revision = "0006"
down_revision = "0005"

_KINDS = "kind IN ('BUDGET', 'RESERVED', 'COMMITTED', 'RELEASED', 'VOID', 'CLOSED', 'OPENED', 'WITHDRAWN')"
_OTHERWISE = "ELSE 0 END"
_FOLLOWS = f"""{_MAY_FOLLOW.removesuffix(_OTHERWISE)}WHEN NEW.kind = 'WITHDRAWN' THEN
    CASE WHEN {_NOTHING} AND {_RESERVED}
      AND EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'RELEASED')
      AND NOT EXISTS (SELECT 1 FROM {{entry}} c WHERE c.charge_id = NEW.charge_id AND c.kind = 'WITHDRAWN')
    THEN 1 ELSE 0 END
  {_OTHERWISE}"""  # noqa: S608 - constants
_COLUMNS = ("sequence", "kind", "dataset", "release_id", "charge_id", "loss_ticks", "sampler_ticks", "pure_ticks",
            "payload", "time", "nonce", "previous_hash", "hash", "failure_ticks", "part")  # fmt: skip


def upgrade() -> None:
    """Add the kind, and say after what it may follow."""
    if op.get_context().dialect.name == "sqlite":
        _rebuild()
        op.execute(
            f"CREATE TRIGGER may_follow BEFORE INSERT ON entry WHEN ({_FOLLOWS.format(entry='entry')}) = 0 "
            "BEGIN SELECT RAISE(ABORT, 'an entry may not follow: ledger rows are never changed'); END"
        )
        return
    op.drop_constraint("known_kind", "entry", type_="check")
    op.create_check_constraint("known_kind", "entry", _KINDS)
    # The table is named by the trigger, not by the session's search path.
    followed = _FOLLOWS.replace("NEW.", "($1).")
    op.execute(f"""
        CREATE OR REPLACE FUNCTION ledger_rows_may_follow() RETURNS trigger LANGUAGE plpgsql AS $$
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


def _rebuild() -> None:
    """The table again, with one more kind: SQLite changes no constraint of a table that exists."""
    connection = op.get_bind()
    kept = list(
        connection.execute(
            sa.text(
                "SELECT sql FROM sqlite_master WHERE tbl_name = 'entry' AND type IN ('index', 'trigger') "
                "AND sql IS NOT NULL AND name <> 'may_follow' ORDER BY type, name"
            )
        ).scalars()
    )
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
        sa.Column("part", sa.Text),
        sa.CheckConstraint(_KINDS, name="known_kind"),
    )
    names = ", ".join(_COLUMNS)
    op.execute(f"INSERT INTO entry ({names}) SELECT {names} FROM entry_before ORDER BY sequence")  # noqa: S608 - constants
    op.drop_table("entry_before")
    for statement in kept:
        op.execute(statement)
