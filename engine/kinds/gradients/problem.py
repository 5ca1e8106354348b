"""How far one record moves sums of clipped gradients, of one step or of all steps of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from blockveil.engine.answers.step_records import Batches, FixedBatches, PoissonBatches
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.noise.banded import Band
from blockveil.engine.noise.sampled_noise import Sampling
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread


@dataclass(frozen=True, eq=False)
class GradientProblem(OuterProducts):
    """A sum of matrices of Frobenius norm at most one: bounded as outer products of two unit balls are.

    With ``steps``, as many such sums one below the other, each at weights that follow from the noisy sums before it.

    **Claim.** Noise that is private for the sums at weights fixed beforehand is as private for weights that follow from
    what was released, for the noise of a step is independent of that of the others.

    **Proof.** Given the sums that were released, the weights of the next step are the same for both neighbours, and its
    sums differ by at most ``Delta`` in the spread's norm whatever these weights are. So, given the past, each step is
    dominated by the same pair of laws: normal ones ``Delta / scale + rounding`` apart for Gaussian noise, or a pure
    loss of as much for Laplace noise. Dominating pairs compose under adaptive choice (Zhu, Dong and Wang, 2022, theorem
    10; Dong, Roth and Su, 2022, theorem 4 and corollary 2): normal ones ``mu`` apart in each of T steps to one pair
    ``sqrt(T) mu`` apart, pure losses to their sum. Both are the loss of one answer whose sensitivity is ``sqrt(T)
    Delta`` in L2, or ``T Delta`` in L1, and whose entries change in all steps. The samplers' distances add up over all
    entries drawn. QED.

    Where steps are over fixed batches, :mod:`.step_records` proves in how many of them one record takes part, and
    :mod:`.banded` what noise costs that cancels over the steps in between. Where
    they are over secret samples, the pair of a step is another one, and :mod:`.sampled_noise` composes it.

    Attributes
    ----------
    steps
        T, the number of sums.
    batches
        How a step takes part of the records; None where each is over all of them.
    """

    query: ClassVar[str] = "gradients"
    composed: ClassVar[bool] = True
    changes_in_balls: ClassVar[bool] = True
    steps: int = field(default=1, kw_only=True)
    batches: Batches | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse samples under a relation for which no pair is proven."""
        if isinstance(self.batches, PoissonBatches) and self.neighbours is not Neighbours.ADD_REMOVE:
            raise CannotCalibrate('samples have a known loss under "add-remove" alone; choose it, or other batches')
        if isinstance(self.batches, FixedBatches) and not 1 <= self.batches.band <= min(self.batches.count, self.steps):
            # Columns of the band that one record is in would share rows.
            raise CannotCalibrate("noise cancels over as many steps as there are batches at most; lower band")

    @property
    def one_ball(self) -> bool:
        """Whether all that a record changes is one matrix within the ball: of one step over all records."""
        return self.steps == 1 and self.batches is None

    @property
    def sampling(self) -> Sampling | None:
        """Steps over secret samples; None where there are none."""
        return Sampling(self.batches.probability, self.steps) if isinstance(self.batches, PoissonBatches) else None

    @property
    def band(self) -> Band | None:
        """By which noise cancels from step to step; None where noise of steps is independent."""
        width = self.batches.band if isinstance(self.batches, FixedBatches) else 1
        return Band(width, self.steps) if width > 1 else None

    @property
    def patterns(self) -> float:
        """How many times what a record changes in one step it changes in all, in L2, where noise cancels."""
        # A record that enters another batch is in two patterns of steps, whose changes may have one direction.
        return math.sqrt(self._most) * (2.0 if self.neighbours is Neighbours.REPLACE_ONE else 1.0)

    def l2_of_the_band(self, spread: Spread, band: Band) -> Sensitivity:
        """Sensitivity of what the band makes of all sums."""
        added = [(replace(one, neighbours=Neighbours.ADD_REMOVE), part) for one, part in self._each(spread)]
        # A record replaced by another moves a step no further than both together, which patterns count.
        of_a_step = max(one.l2(part).bound for one, part in added)
        return Sensitivity(of_a_step * self.patterns * math.sqrt(band.squared_norm) * (1.0 + 1e-14), 0.0)

    def l2(self, spread: Spread) -> Sensitivity:
        """Sensitivity of outer products in each step; whether gradients of a model attain it depends on its weights."""
        self._check_independent()
        if self.steps == 1:
            return Sensitivity(super().l2(spread).bound, 0.0)
        # sum over its steps of Delta_t^2 <= most max Delta_t^2; the last factor covers rounding of root and product.
        return Sensitivity(self._largest(spread, 2) * math.sqrt(self._most) * (1.0 + 1e-15), 0.0)

    def l1(self, spread: Spread) -> Sensitivity:
        """The sensitivity is that of outer products, in each step."""
        self._check_independent()
        if self.steps == 1:
            return Sensitivity(super().l1(spread).bound, 0.0)
        # sum over its steps of Delta_t <= most max Delta_t.
        return Sensitivity(self._largest(spread, 1) * self._most * (1.0 + 1e-15), 0.0)

    def l2_of_a_step(self, spread: Spread) -> Sensitivity:
        """The largest over the steps, each over all records."""
        return Sensitivity(max(one.l2(part).bound for one, part in self._each(spread)), 0.0)

    def _check_independent(self) -> None:
        if self.sampling is not None or self.band is not None:
            what = "samples need" if self.band is None else "a band needs"
            raise CannotCalibrate(f'{what} Gaussian noise; choose "gaussian" or "shaped-gaussian"')

    @property
    def _most(self) -> int:
        """Steps that one record takes part in."""
        return self.batches.most(self.steps) if isinstance(self.batches, FixedBatches) else self.steps

    def _largest(self, spread: Spread, norm: int) -> float:
        """The largest change of a step, such that ``most`` of them cover what one record changes in all steps."""

        def change(neighbours: Neighbours) -> float:
            pairs = [(replace(one, neighbours=neighbours), part) for one, part in self._each(spread)]
            return max((one.l2(part) if norm == 2 else one.l1(part)).bound for one, part in pairs)

        largest = change(self.neighbours)
        if self.neighbours is Neighbours.REPLACE_ONE and isinstance(self.batches, FixedBatches):
            # A record that enters another batch moves 2 most sums by one record each: sqrt(2) times that, or twice.
            largest = max(
                largest, (math.sqrt(2.0) if norm == 2 else 2.0) * change(Neighbours.ADD_REMOVE) * (1.0 + 1e-15)
            )
        return largest

    def _each(self, spread: Spread) -> list[tuple[GradientProblem, Spread]]:
        """One sum with the spread of a step, for each spread that a step has."""
        parts = np.unique(spread.rows.reshape(self.steps, -1), axis=0)
        one = replace(self, left_scale=self.left_scale[: parts.shape[1]], steps=1, batches=None)
        return [(one, one.spread(part, spread.columns)) for part in parts]
