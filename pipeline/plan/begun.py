"""How the ledger has a release that was begun, so that it is planned as it was begun and finished under its digest.

The ledger pins a release by the digest of its plan. What a later version writes down besides, or words otherwise, must
not make the same plan another one; so the plan of a release, or of a night of a series, that has an entry already is
written as that entry is. It is read before the release is planned, which is then planned once.

* Plans of version 0.1.0 say nothing of the whole numbers of a map (``map``). Another linear algebra library could give
  a release that was begun then another map, as it could then; what is begun now is refused in that case.
* Whether a sensitivity is attained (``sensitivity_exact``) decides no number of a release. What the entry says stands.
* Which of the nights of a series a night is follows from those that were released before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blockveil.pipeline.plan.nights import InLedger


@dataclass(frozen=True)
class Begun:
    """What the ledger has of a release, or of the nights that share its charge.

    Attributes
    ----------
    mapped
        Whether the entry names the whole numbers of a map.
    exact
        What the entry says of whether the sensitivity is attained; None where it says nothing.
    night
        Which of the nights that share a charge it is; None where it is charged alone.
    calibration
        Numbers of the plan that stands; None where nothing stands yet.
    charged
        Whether the release itself has a charge that is not void; decides no number of its plan.
    """

    mapped: bool = True
    exact: bool | None = None
    night: InLedger | None = None
    calibration: Mapping[str, Any] | None = None
    charged: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, calibration: Mapping[str, Any], night: InLedger | None = None, *, charged: bool = True) -> Begun:
        """Read it from the calibration of a specification in the ledger."""
        return cls("map" in calibration, calibration.get("sensitivity_exact"), night, calibration, charged)
