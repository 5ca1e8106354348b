"""``[approval]``: when a person must agree before a release spends, and whose signature counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from blockveil.pipeline.sections.fields import Label, Number, Reference, Section, refusal, rule


class ApprovalSection(Section):
    """``[approval]``: when a person must agree before a release spends."""

    threshold_share: Annotated[Number, Field(gt=0, lt=1)]
    """the share of the remaining budget, such as 0.2, that a release may spend without a person's approval"""
    require_signature: Annotated[bool, Strict()] = False
    """whether an approval must be signed by an officer with `blockveil ledger approve`"""
    officers: dict[Label, Reference] = Field(default_factory=dict)
    """names of those who may approve, each with "env:NAME" or "file:PATH" of an Ed25519 public key in PEM; signed
    approvals are looked for in the folder approvals beside the config"""

    @rule
    def _signatures_are_of_officers(self) -> None:
        if self.require_signature != bool(self.officers):
            raise refusal(
                "require_signature" if self.require_signature else "officers",
                "nobody is named who may sign" if self.require_signature else "their signatures are not asked for",
                "A signed approval is one of an officer who is named here",
                'Write require_signature = true, and officers = { "A. Name" = "file:name.pub" }',
            )
