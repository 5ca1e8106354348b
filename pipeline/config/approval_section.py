"""``[approval]``: when a person must agree before a release spends, and whose signature counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from blockveil.pipeline.config.fields import Label, Number, Reference, Section, refusal, rule


class ApprovalSection(Section):
    """``[approval]``: when a person must agree before a release spends."""

    above_share: Annotated[Number, Field(gt=0, lt=1)]
    """the share of what is left of the budget, such as 0.2, that a release may take without a person's approval"""
    signed: Annotated[bool, Strict()] = False
    """whether only an approval counts that one of the officers has signed with `blockveil ledger approve`"""
    officers: dict[Label, Reference] = Field(default_factory=dict)
    """names of those who may approve, each with "env:NAME" or "file:PATH" of an Ed25519 public key in PEM; signed
    approvals are looked for in the folder approvals beside the config"""

    @rule
    def _signatures_are_of_officers(self) -> None:
        if self.signed != bool(self.officers):
            raise refusal(
                "signed" if self.signed else "officers",
                "nobody is named who may sign" if self.signed else "their signatures are not asked for",
                "A signed approval is one of an officer who is named here",
                'Write signed = true, and officers = { "A. Name" = "file:name.pub" }',
            )
