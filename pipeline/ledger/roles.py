"""The least that a PostgreSQL role needs: to read the ledger and to add entries to it."""

from __future__ import annotations

import re

from blockveil.pipeline.base.errors import LedgerError

_CHARGES = "kind IN ('RESERVED', 'COMMITTED', 'RELEASED', 'VOID', 'RENEWED', 'RESTORED', 'ATTESTED')"
_GRANTS = """\
-- Run by the owner of the ledger's tables, for instance: blockveil ledger admin role {role} | psql "$OWNER_ADDRESS"
-- The role gets no password here; give it one with \\password {role}, or let it in by certificate.
BEGIN;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
        CREATE ROLE "{role}" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
    END IF;
END $$;
-- Before version 15 everybody may make functions there, which the owner's own statements could then call.
DO $$ BEGIN EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, "{role}"', current_schema()); END $$;
REVOKE ALL ON entry, ledger_schema FROM PUBLIC, "{role}";
GRANT SELECT, INSERT ON entry TO "{role}";
GRANT SELECT ON ledger_schema TO "{role}";
ALTER TABLE entry ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS "{role}_reads" ON entry;
DROP POLICY IF EXISTS "{role}_books" ON entry;
CREATE POLICY "{role}_reads" ON entry FOR SELECT TO "{role}" USING (true);
CREATE POLICY "{role}_books" ON entry FOR INSERT TO "{role}" WITH CHECK ({check});
COMMIT;"""


def role_sql(role: str, *, budgets: bool) -> str:
    """Return SQL that gives a role SELECT and INSERT on the ledger, and takes everything else from it.

    Parameters
    ----------
    role
        Name of the role; it is made where it is missing, without a password.
    budgets
        Whether it may grant budgets; a role that runs releases should not.

    Raises
    ------
    LedgerError
        The name needs characters other than lower-case letters, digits and underscores.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,55}", role):
        raise LedgerError(
            f"{role[:60]!r} is not a name for a role here",
            "It has lower-case letters, digits and underscores, and at most 56 of them",
            "Choose another name",
        )
    return _GRANTS.format(role=role, check="true" if budgets else _CHARGES)
