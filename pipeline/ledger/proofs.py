"""A release's place in the ledger, on paper: for readers who may not read the ledger.

A proof holds a head of the ledger, whose root is over all rows, and the way to that root from the entry that paid for
the release. The head also names the entries of releases that were withdrawn by then. It is worth as much as the key
that signed the head, or as a head that the reader kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.entries import WITHDRAWN, State, Verification
from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.inclusion import inclusion_path, is_included, tree_hash

Row = Mapping[str, Any]


def head_of(rows: Sequence[Row], found: Verification) -> Head:
    """Head of a ledger whose chain was verified.

    Parameters
    ----------
    rows
        All its rows, in order.
    found
        What their verification found.

    Raises
    ------
    LedgerError
        The chain is broken: its head would vouch for what it says now.
    """
    if found.problems:
        raise refusals.broken(found)
    hashes = {row["charge_id"]: str(row["hash"]) for row in rows if row["kind"] == State.COMMITTED}
    withdrawn = tuple(hashes[row["charge_id"]] for row in rows if row["kind"] == WITHDRAWN)
    root = tree_hash([str(row["hash"]) for row in rows])
    return Head(found.entries, found.head, found.time, root, withdrawn)


@dataclass(frozen=True)
class Proof:
    """That an entry stands in a ledger.

    Attributes
    ----------
    sequence, row_hash
        The entry that paid for a release, as the release names it.
    path
        Way from it to the root of the head.
    head
        Head of the ledger, with a root.
    """

    sequence: int
    row_hash: str
    path: tuple[str, ...]
    head: Head

    @property
    def holds(self) -> bool:
        """Whether the entry stands in the ledger that the head is of."""
        return is_included(self.row_hash, self.sequence - 1, self.head.entries, self.path, self.head.root)

    def to_json(self) -> str:
        """One line of JSON, to be given to readers."""
        entry = {"sequence": self.sequence, "row_hash": self.row_hash, "path": list(self.path)}
        return canonical_json({**entry, "head": json.loads(self.head.to_json())}).decode()

    @classmethod
    def from_json(cls, text: str) -> Proof:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        LedgerError
            It is something else.
        """
        try:
            tree = json.loads(text)
            path = tuple(tree["path"])
            kinds = [type(tree["sequence"]) is int, isinstance(tree["row_hash"], str)]
            head = Head.from_json(json.dumps(tree["head"]))
            if all(kinds) and all(isinstance(each, str) for each in path):
                return cls(tree["sequence"], tree["row_hash"], path, head)
        except (KeyError, RecursionError, TypeError, ValueError):
            pass
        raise LedgerError(
            "The proof is not readable", "It is the JSON that `blockveil ledger prove` prints", "Ask for it again"
        )


def proof_of(rows: Sequence[Row], head: Head, release_id: str) -> Proof:
    """Proof that a release was paid for.

    Parameters
    ----------
    rows
        All rows of a ledger, in order.
    head
        Their head.
    release_id
        ``dataset/name/date``.

    Raises
    ------
    LedgerError
        No charge of it was committed.
    """
    commitments = [row for row in rows if row["release_id"] == release_id and row["kind"] == State.COMMITTED]
    if not commitments:
        raise LedgerError(
            f"No charge of '{release_id}' was committed in this ledger",
            "A proof shows the entry that a release was paid with",
            "Run `blockveil ledger show` to see where it stands",
        )
    sequence = int(commitments[-1]["sequence"])
    leaves = [str(row["hash"]) for row in rows]
    return Proof(sequence, str(commitments[-1]["hash"]), inclusion_path(leaves, sequence - 1), head)
