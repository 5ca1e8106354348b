"""``[approval]``: when a person must agree before a release spends, and whose signature counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blockveil.pipeline.sections.fields import Label, Number, Reference, Section


class ApprovalSection(Section):
    """``[approval]``: when a person must agree before a release spends."""

    threshold_share: Annotated[Number, Field(gt=0, lt=1)]
    """the share of the remaining budget, such as 0.2, that a release may spend without a person's approval"""
    officers: Annotated[dict[Label, Reference], Field(min_length=1)] | None = None
    """names of officers, each with "env:NAME" or "file:PATH" of an Ed25519 public key in PEM: any one of them approves,
    with `blockveil ledger approve`; signed approvals are looked for in the folder approvals beside the config. Without
    officers a name that is typed approves"""
