"""Who approved a charge, as its entry says: a name that was typed, or an officer whose signature anybody can check.

An officer signs the release, its plan, the records that it reads, the budget that pays and the ledger that has it, with
name and reason. The entry of the charge has the signature for ever, inside the chain, and the release states it.

**Source**: Ed25519 as in RFC 8032.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from blockveil.pipeline.base import ed25519
from blockveil.pipeline.base.canonical import canonical_json, digest

_BY = ", approved by "
_OF_DATA = ("fingerprint", "history", "equals")
"""What a specification has beyond its plan: which state of the records it is of."""


@dataclass(frozen=True)
class Approved:
    """A signed approval of one release.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    plan
        Digest of its plan: what is asked, what is promised, and the noise.
    records
        Digest of what the store is and of the contract that holds of its records; an append does not change it.
    budget
        Name of the budget that pays.
    ledger
        Hash of the first entry of the ledger that is charged.
    name, why, day
        Who approves, why, and on which day by their clock; a release may state no time of day.
    key, signature
        Their public key and the signature, in hexadecimal digits.
    """

    release_id: str
    plan: str
    records: str
    budget: str
    ledger: str
    name: str
    why: str
    day: str
    key: str = ""
    signature: str = ""

    def signed(self, key: Ed25519PrivateKey) -> Approved:
        """The same with the signature of a key."""
        approval = {**asdict(self), "key": ed25519.raw(key.public_key()).hex()}
        return Approved(**{**approval, "signature": key.sign(_message(approval)).hex()})

    @property
    def holds(self) -> bool:
        """Whether the signature is of the key that it names."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            key.verify(bytes.fromhex(self.signature), _message(asdict(self)))
        except (InvalidSignature, ValueError):
            return False
        return True

    @property
    def words(self) -> str:
        """Who approved and why."""
        return f"by {self.name}, signed with the key {ed25519.fingerprint_of(bytes.fromhex(self.key))}: {self.why}"

    @property
    def plain(self) -> dict[str, str]:
        """The same as plain JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, found: object) -> Approved | None:
        """Read what :attr:`plain` gave; None where it is something else."""
        if not isinstance(found, Mapping) or found.keys() != cls.__dataclass_fields__.keys():
            return None
        return cls(**found) if all(isinstance(value, str) for value in found.values()) else None


def _message(approval: Mapping[str, str]) -> bytes:
    unsigned = {name: value for name, value in approval.items() if name != "signature"}
    return canonical_json({"what": "blockveil approval", "stated": unsigned})


def with_approver(attempt: str, approver: str | None) -> str:
    """Name of an attempt, with the name of who approved it."""
    return attempt if approver is None else f"{attempt}{_BY}{approver}"


def plan_of(spec: Mapping[str, Any]) -> str:
    """Digest of the plan that a specification in the ledger is of."""
    data = {name: value for name, value in spec["data"].items() if name not in _OF_DATA}
    return digest({**spec, "data": data})


def approval_words(payload: Mapping[str, Any]) -> str:
    """Who approved a charge, by what its RESERVED entry says; the signature is checked by :func:`problem`."""
    signed = Approved.of(payload.get("approval"))
    if signed is not None:
        return signed.words
    name = str(payload.get("attempt", "")).partition(_BY)[2]
    return f"by {name}; the name was typed, and nothing shows whose it is" if name else "none is recorded"


def signed_in(row: Mapping[str, Any], ledger: str) -> list[Approved]:
    """The signed approval that a row of a ledger has, if it is good as :func:`problem` says."""
    signed = Approved.of(_stated(row))
    return [signed] if signed is not None and problem(row, ledger) is None else []


def problem(row: Mapping[str, Any], ledger: str) -> str | None:
    """What is wrong with the approval that a row has; None where it has none, or a good one.

    Parameters
    ----------
    row
        The row.
    ledger
        Hash of the first entry of its ledger.
    """
    fields = _stated(row)
    if fields is None:
        return None
    signed = Approved.of(fields)
    if signed is None or not signed.holds:
        return "its approval does not carry the signature that it names"
    try:
        payload = json.loads(row["payload"])
        plan, records = plan_of(payload["spec"]), digest(payload["records"])
        of = (row["kind"], row["release_id"], row["dataset"], ledger, plan, records)
    except (AttributeError, KeyError, TypeError, ValueError):
        of = None
    terms = ("RESERVED", signed.release_id, signed.budget, signed.ledger, signed.plan, signed.records)
    return None if of == terms else "its approval is of another release, plan, store, budget or ledger"


def _stated(row: Mapping[str, Any]) -> object:
    """What a row says of an approval; what is no entry at all, other checks find."""
    try:
        return json.loads(row["payload"]).get("approval")
    except (AttributeError, RecursionError, TypeError, ValueError):
        return None


def signed_by_others(approvals: Iterable[Approved], keys: Collection[str]) -> list[str]:
    """Approvals that none of some keys has signed, one line each.

    Parameters
    ----------
    approvals
        Signed approvals.
    keys
        Public keys, in hexadecimal digits.
    """
    return [
        f"{each.release_id} is approved {each.words}, which is none of the officers given"
        for each in approvals
        if each.key not in keys
    ]
