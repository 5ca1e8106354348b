"""Approvals that officers sign with keys of their own, where a config wants that: written, found, and asked for.

Whoever runs releases cannot make one, and one holds for the very plan of one release of one store alone. The file may
come by any way, for nothing rests on where it lies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from blockveil.pipeline.base import durable, ed25519
from blockveil.pipeline.base.canonical import TIME_OF_DAY, canonical_json, digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.data.datasets import stated_records
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.approved import Approved
from blockveil.pipeline.plan.approval import ApprovalRequest, NotApproved, question
from blockveil.pipeline.plan.planning import Plan

_LONGEST = 65536


def sign(plan: Plan, ledger: Ledger, name: str, why: str, key: Ed25519PrivateKey) -> Approved:
    """Approval of a plan by an officer.

    Parameters
    ----------
    plan
        The release.
    ledger
        The ledger that may be charged.
    name, why
        Who approves it, as the config names them, and why.
    key
        The officer's own.

    Raises
    ------
    ConfigError
        The config names no such officer, or another key for them.
    DataError, StoreError
        The store that the release would read is not there, or does not fit its declaration.
    """
    section = plan.config.approval
    if section is None or section.officers is None:
        raise ConfigError(
            "The config asks for no signed approval",
            "approval.officers says whose signature counts",
            "Correct the config, or approve with `blockveil run --approve NAME`",
        )
    if TIME_OF_DAY.search(why.encode()):
        raise ConfigError(
            "The reason states a time of day", "The release states the reason, and no time", "Leave it out"
        )
    day = datetime.now(UTC).date().isoformat()
    records, account = digest(stated_records(plan.loaded)), plan.config.release.account
    approval = Approved(plan.release_id, plan.digest, records, account, ledger.first(), name, why, day)
    signature = approval.signed(key)
    if _keys(plan).get(name) != signature.key:
        raise ConfigError(
            f"--by {name!r} with this key is none of the config's officers",
            f"approval.officers names {', '.join(sorted(section.officers))}, each with a public key",
            "Give the name and the private key of one of them",
        )
    return signature


def inbox(plan: Plan) -> Path:
    """File in which the approval of a release is looked for."""
    release = plan.config.release
    return plan.loaded.base / "approvals" / f"{release.dataset}.{release.name}.{plan.logical_date.isoformat()}.json"


def text_of(approval: Approved) -> str:
    """The approval as a file has it."""
    return canonical_json(approval.plain).decode() + "\n"


def required(plan: Plan, ledger: Ledger, records: Mapping[str, Any]) -> Approved | None:
    """The signed approval that a release must have before it is charged; None where it needs none.

    Parameters
    ----------
    plan
        The release.
    ledger
        The ledger that will be charged.
    records
        The store that it reads, as it was opened.

    Raises
    ------
    NotApproved
        It needs one, and there is none by an officer for this very plan and store.
    """
    section = plan.config.approval
    if section is None or section.officers is None or ledger.find(plan.release_id) is not None:
        return None
    if plan.series is not None and ledger.nights(plan.release_id, plan.public):
        return None
    reason = question(plan, ledger.budget(plan.config.release.account), charged=False)
    return None if reason is None else found(plan, ledger, reason, records)


def found(plan: Plan, ledger: Ledger, asked: ApprovalRequest, records: Mapping[str, Any] | None = None) -> Approved:
    """The approval of a release in the inbox.

    Parameters
    ----------
    plan
        The release.
    ledger
        The ledger that will be charged.
    asked
        Why it needs one.
    records
        The store that it reads; None looks it up.

    Raises
    ------
    NotApproved
        There is none, or it is not by an officer for this very plan, store and ledger.
    """
    approval = _read(inbox(plan))
    if approval is None:
        raise _refusal(asked.text, plan)
    of = (approval.release_id, approval.plan, approval.budget, approval.ledger)
    if of != (plan.release_id, plan.digest, plan.config.release.account, ledger.first()):
        raise _refusal("The approval that was found is of another release, plan, budget or ledger", plan)
    if approval.records != digest(stated_records(plan.loaded) if records is None else records):
        raise _refusal("The approval that was found is of another store, or of other contents of it", plan)
    if not approval.holds or _keys(plan).get(approval.name) != approval.key:
        raise _refusal("The approval that was found is not signed by an officer of the config", plan)
    if TIME_OF_DAY.search(text_of(approval).encode()):
        raise _refusal("The approval that was found states a time of day, which no release may", plan)
    return approval


def approver(plan: Plan, ledger: Ledger, typed: str | None, asked: ApprovalRequest) -> str | None:
    """Name of who has approved a release, or None where nobody has; where officers sign, a typed name is refused.

    Parameters
    ----------
    plan
        The release.
    ledger
        The ledger that will be charged.
    typed
        Name that was given with the run.
    asked
        Why somebody must approve.

    Raises
    ------
    NotApproved
        Officers sign, and no signature is there.
    """
    section = plan.config.approval
    return found(plan, ledger, asked).name if section is not None and section.officers is not None else typed


def remedy(plan: Plan) -> str:
    """What to do where a signature is missing."""
    writes = "Let an officer run `blockveil ledger approve`, and put what it writes into"
    return f"{writes} {inbox(plan)}; a typed name does not count"


def _refusal(what: str, plan: Plan) -> NotApproved:
    return NotApproved.because(what, remedy(plan))


def _read(path: Path) -> Approved | None:
    try:
        with path.open("rb") as file:
            return Approved.of(json.loads(file.read(_LONGEST)))
    except (OSError, ValueError, RecursionError) as error:
        if not isinstance(error, OSError) or not durable.kind_of(error).passes:
            return None
        failure = durable.store_error(error, f'"{path.name}" cannot be read', "approvals")
    raise failure


def _keys(plan: Plan) -> dict[str, str]:
    """Public keys of the officers by their names, in hexadecimal digits."""
    section = plan.config.approval
    keys = {}
    for name, reference in ((section and section.officers) or {}).items():
        key = ed25519.public_key(read_secret("approval.officers", reference, plan.loaded.base))
        if key is None:
            raise ConfigError(
                f"approval.officers: what it refers to for {name!r} is not usable (it is not shown)",
                "It must be an Ed25519 public key in PEM",
                "Correct what is referred to",
            )
        keys[name] = ed25519.raw(key).hex()
    return keys
