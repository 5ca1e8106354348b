"""Whether whole steps make noise larger than the guarantee needs, since integers have no room for finer ones.

Exact answers are integers of 64 bits. Noise is added in whole steps, and where many records are declared, steps are a
few units or one: an ideal step of 1.2 units then becomes 2. The promise holds all the same; the noise is too large.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.pipeline.plan.planning import Plan

MOST_EXCESS = 1.02
"""Steps that exceed their ideal by no more than this factor are not worth a word."""


@dataclass(frozen=True)
class CoarseSteps:
    """How much larger noise is than the guarantee needs.

    Attributes
    ----------
    factor
        Of the standard deviation of the entry that it concerns most.
    rows
        The declared bound on records.
    """

    factor: float
    rows: int

    @property
    def sentence(self) -> str:
        """The warning in words."""
        return (
            f"The noise of some numbers is up to {self.factor:.3g} times what the guarantee needs: beside "
            f"{self.rows:,} records, integers of 64 bits have no room for finer steps. Lower query.rows_at_most if "
            "fewer records come, or ask for fewer cells, bits or ordered axes."
        )


def coarse_steps(plan: Plan) -> CoarseSteps | None:
    """Whether any step exceeds its ideal by more than 2 %; None where none does, or nothing is added in steps."""
    design = plan.design.additive
    if design is None or (factor := design.step_excess) <= MOST_EXCESS:
        return None
    return CoarseSteps(factor, plan.config.query.rows_at_most)
