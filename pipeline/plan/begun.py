"""How the ledger has a release that was begun.

It is read before the release is planned, which is then planned once: which of the nights of a series a night is follows
from those that were released before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blockveil.pipeline.plan.nights import InLedger


@dataclass(frozen=True)
class Begun:
    """What the ledger has of a release, or of the nights that share its charge.

    Attributes
    ----------
    night
        Which of the nights that share a charge it is; None where it is charged alone.
    charged
        Whether the release itself has a charge that is not void; decides no number of its plan.
    """

    night: InLedger | None = None
    charged: bool = field(default=False, compare=False)
