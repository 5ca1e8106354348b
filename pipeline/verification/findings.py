"""What was checked of a release, and with which evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

if TYPE_CHECKING:
    from blockveil.pipeline.ledger.proofs import Proof

WITHDRAWN = "Withdrawn"
"""What is found of a release that its curator has withdrawn, in place of all else."""

NEVER_SHOWN = "that its noise was drawn with a secret key"


@dataclass(frozen=True)
class Evidence:
    """What a reader has beside the releases, from elsewhere.

    Attributes
    ----------
    key
        Public key that each release must be signed with; None where there is none.
    proofs
        Places of the entries that paid for releases.
    ledger_key
        Public key (PEM) that the heads of the proofs must be signed with; None where there is none.
    officers
        Public keys, one of which must have signed the approval of each release; empty where none is asked for.
    """

    key: Ed25519PublicKey | None = None
    proofs: tuple[Proof, ...] = ()
    ledger_key: str | None = None
    officers: tuple[Ed25519PublicKey, ...] = ()

    @property
    def not_checked(self) -> str:
        """What nothing of it shows."""
        if not self.proofs:
            return f"its place in the ledger, whether it was withdrawn since, and {NEVER_SHOWN}"
        return f"whether it was withdrawn after its proof was made, and {NEVER_SHOWN}"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes
    ----------
    what
        In a word or two.
    holds
        Whether it holds; None where the release does not state what would be needed.
    words
        What was found, for a person.
    """

    what: str
    holds: bool | None
    words: str


@dataclass(frozen=True)
class Verified:
    """What was checked of one release.

    Attributes
    ----------
    name
        Release id, or the place of one that cannot be read.
    findings
        What was checked.
    not_checked
        What was not.
    """

    name: str
    findings: tuple[Finding, ...]
    not_checked: str

    @property
    def holds(self) -> bool:
        """Whether nothing that was checked fails."""
        return all(finding.holds is not False for finding in self.findings)

    @property
    def remedy(self) -> str:
        """What to do with a release that does not hold; a withdrawn one is not to come back from a backup."""
        if any(finding.what == WITHDRAWN for finding in self.findings):
            return "Do not use it; use a release of another date or name"
        return "Do not use it; ask who published it, or restore it from a backup"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "release": self.name,
            "holds": self.holds,
            "checked": [{"what": one.what, "holds": one.holds, "words": one.words} for one in self.findings],
            "not_checked": self.not_checked,
        }
