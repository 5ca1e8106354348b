"""A config under replay: neighbouring data sets go through its own path under one key, and their releases are compared.

Additive noise of one key is the same in both releases and cancels: their difference is the exact shift of one unit, in
grid steps, at any width and without statistics. Its length over the scale of the noise is a loss that the release
certainly has. Where it exceeds what the ledger books for a unit, the claim is refuted; where it stays far below, noise
is wasted, or the worst unit was not among those that were tried. Where a release is drawn otherwise, the exact answers
are compared with each output frozen (:mod:`.frozen_outputs`).

Two more claims are checked on the way: noise of two keys has the spread of its law, and a release under ``add-remove``
is the same whatever the number of records was.

The key is made here, pays for nothing and reaches no config, parameter or environment; nothing is staged or published.

**Source**: replay of neighbouring inputs under fixed randomness, as of dp-recorder (arXiv 2602.17454); that a shift
bounds the loss of additive noise from below: Dwork and Roth, 2014, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.domination import dominating
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.mechanisms.abilities import composed
from blockveil.engine.noise.design import Design, NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.sampled_noise import Sampling
from blockveil.pipeline.accuracy.extreme_rows import Row
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.stages import StageAfter, StagesBefore
from blockveil.pipeline.releases.compute import Compute
from blockveil.pipeline.study.contributions import rows_of_a_unit
from blockveil.pipeline.study.frozen_outputs import ExactAnswer, exact_answer
from blockveil.pipeline.study.replay_path import ReplayPath, throwaway_key
from blockveil.pipeline.study.replayed import Replayed
from blockveil.pipeline.study.replayed_stages import loss_after, stage_losses

Tell = Callable[[str, float | None], None]
Released = NDArray[np.int64]
PairLoss = Callable[[Released, Released], float]

_MOST_KEPT = 2**26
"""Numbers of all releases that are compared at once: half a GiB."""

_MOST_NIGHTS = 400
"""Nights of one charge that are replayed; of more, the first ones."""

_MOST_COMPARED = 2**24
"""Entries of a release whose arrays are made twice, to see that the number of records is not in them."""

_ENTRIES, _MOST_KEYS = 40_000, 4_000
"""Entries of noise that are looked at, where that many keys give as many."""

_MOST_SLOW_KEYS = 400
"""Keys for noise by the length of an answer, of which a draw takes up to some hundredths of a second."""

_RANKED_STEPS, _FOLLOWED = 8, 5
"""Steps of a longer training that all units go through, and units that go through all of them."""

_Z = 6.2
"""Standard deviations beyond which an estimate lies with probability below 1e-9, on both sides together."""


@dataclass(frozen=True)
class Neighbouring:
    """Two contributions of a unit that make neighbours.

    Attributes
    ----------
    loss
        What their releases differ by.
    one, other
        The contributions; None where the unit is absent.
    """

    loss: float
    one: Row | None
    other: Row | None

    @property
    def where(self) -> str:
        """Both contributions, in words."""
        return " in place of ".join(unit.where for unit in (self.one, self.other) if unit is not None)


def replay(plan: Plan, compute: Compute, tell: Tell, draws: bool = True) -> Replayed:
    """Send neighbouring data sets through the path of a config, and compare their releases.

    Parameters
    ----------
    plan
        What the config releases. Its records are not read.
    compute
        Runs the graphs, as a release would.
    tell
        Receives progress.
    draws
        Whether noise of many keys is compared with its law too, which takes longer than the pairs of a small release.
    """
    design, frozen, rows = plan.design.additive, exact_answer(plan.design), rows_of_a_unit(plan)
    not_tested = _reasons(plan, rows)
    if not_tested:
        return Replayed(0, None, "", None, 0, 0.0, False, None, tuple(not_tested))
    if frozen is not None:
        return _frozen(ReplayPath(plan, frozen, compute, _fitting(rows, frozen)), tell)
    if design is None:
        raise RuntimeError("what is neither added to nor frozen is not replayed")
    path = ReplayPath(plan, design, compute, _fitting(rows, design))
    share, pair = _largest_share(path, tell)
    if path.levels is not None:
        share = _over_nights(path, pair, tell)
    counted, more = _counted(path, lambda key, unit: next(path.releases([unit], key)))
    comparison = Replayed(path.pairs, share, pair.where, None, 0, 0.0, False, counted, tuple(more))
    if not draws:
        return comparison
    tell("comparing the noise of several keys", None)
    spread, number, sees, repeats = _noise(path)
    return replace(comparison, spread=spread, draws=number, sees=sees, repeats=repeats)


def _frozen(path: ReplayPath[ExactAnswer], tell: Tell) -> Replayed:
    """What is found of a mechanism that draws its release, with the outputs of each of its steps frozen."""
    design, name = path.design.of, path.plan.mechanism.name
    pair = _by_loss(path, path.units, design.frozen_loss, tell)[0]

    def released(key: NoiseKey, unit: Row | None) -> Released:
        return design.release(key, next(path.releases([unit], key)))

    counted, more = _counted(path, released)
    more.append(f"what {name} draws: `blockveil audit {name}` compares its outputs by statistics")
    share = pair.loss / path.plan.charge.epsilon
    return Replayed(path.pairs, share, pair.where, None, 0, 0.0, False, counted, tuple(more))


def _reasons(plan: Plan, rows: list[Row]) -> list[str]:
    """Why the whole replay says nothing of a config; empty where it does."""
    name = plan.mechanism.name
    reasons = []
    if plan.design.additive is None and exact_answer(plan.design) is None:
        reasons.append(
            f"{name} draws its release otherwise than by adding noise; `blockveil audit {name}` bounds its loss by "
            "statistics"
        )
    if not rows:
        reasons.append("the query is of another package, and nothing is known of its records")
    return reasons


def _fitting(rows: list[Row], design: Design) -> list[Row]:
    """Rows of a unit, as many as there is room for their releases, and at least two."""
    return rows[: max(2, min(len(rows), _MOST_KEPT // (design.shape[0] * design.shape[1])))]


def _by_loss(
    path: ReplayPath[Any], units: list[Row | None], loss: PairLoss, tell: Tell, steps: int | None = None
) -> list[Neighbouring]:
    """Pairs of neighbours among some units, from that of the largest loss to that of the least.

    Parameters
    ----------
    path
        What is replayed.
    units
        Contributions of one unit; under ``add-remove`` the first one is that of an absent unit.
    loss
        Of two releases.
    tell
        Receives progress.
    steps
        First steps of a training that are made; None for all of them.
    """
    released = list[Released]()
    for number, one in enumerate(path.releases(units, throwaway_key(), steps)):
        tell("replaying neighbours", number / len(units))
        released.append(one)
    places = combinations(range(len(units)), 2) if path.replaces else ((0, place) for place in range(1, len(units)))
    pairs = [Neighbouring(loss(released[one], released[other]), units[one], units[other]) for one, other in places]
    return sorted(pairs, key=lambda pair: -pair.loss)


def _by_loss_in_training(path: ReplayPath[NoiseDesign], loss: PairLoss, tell: Tell) -> list[Neighbouring]:
    """Pairs by loss, from two weights at the start; of a long training few of them go through all steps.

    A step is made as any other, at weights that are public, so its first steps show which units move it most.
    """
    longer, neighbours = path.plan.steps > _RANKED_STEPS, list[Neighbouring]()
    for path.away in (False, True):
        pairs = _by_loss(path, path.units, loss, tell, _RANKED_STEPS if longer else None)
        if longer:
            largest = list(dict.fromkeys(unit for pair in pairs for unit in (pair.one, pair.other)))[:_FOLLOWED]
            pairs = _by_loss(path, largest, loss, tell)
        stage = path.plan.designed.stage_after
        neighbours += pairs if stage is None else _with_stage(path, stage, pairs)
    path.away = False
    return sorted(neighbours, key=lambda pair: -pair.loss)


def _with_stage(path: ReplayPath[NoiseDesign], stage: StageAfter, pairs: list[Neighbouring]) -> list[Neighbouring]:
    """Pairs with the loss of all steps and of the stage after them: losses of Gaussian noise add up in squares."""
    own = loss_after(path, stage, throwaway_key(), _loss)
    return [replace(pair, loss=hypot(pair.loss, own(pair.one, pair.other))) for pair in pairs]


def _largest_share(path: ReplayPath[NoiseDesign], tell: Tell) -> tuple[float, Neighbouring]:
    """Largest loss of a pair over the charge, and the pair."""
    course, learning = path.course, path.plan.designed.learning
    if learning is not None:
        pair = _by_all_stages(path, learning)
        return pair.loss / _charged(path), pair
    if course is None:
        pair = _by_loss(path, path.units, lambda one, other: _loss(path.design, one - other), tell)[0]
        return pair.loss / _charged(path), pair
    if not course.secret:
        pair = _by_loss_in_training(path, lambda one, other: _loss(path.design, one - other), tell)[0]
        return pair.loss / _charged(path), pair
    sampling = _sampling(path.plan)
    pair = _by_loss_in_training(path, lambda one, other: _loss_of_a_step(path.design, one - other, sampling), tell)[0]
    if pair.loss == 0.0:
        return 0.0, pair
    # Steps over samples are dominated by the mixture of both ends, this far apart (engine/answers/step_records.py).
    step = Step(PoissonGaussian(sampling.probability, 1.0 / pair.loss), sampling.steps)
    return dominating((step,)).mu / _charged(path), pair


def _by_all_stages(path: ReplayPath[NoiseDesign], learning: StagesBefore) -> Neighbouring:
    """The pair of the largest loss in all stages of a night that learns its shape."""
    loss, units = stage_losses(path, learning, throwaway_key(), _loss), path.units
    places = combinations(range(len(units)), 2) if path.replaces else ((0, place) for place in range(1, len(units)))
    pairs = (Neighbouring(loss(one, other), units[one], units[other]) for one, other in places)
    return max(pairs, key=lambda pair: pair.loss)


def _sampling(plan: Plan) -> Sampling:
    problem = plan.question.problem
    sampling = problem.sampling if composed(problem) else None
    if sampling is None:
        raise RuntimeError("steps over secret samples have a probability")
    return sampling


def _loss_of_a_step(design: NoiseDesign, shift: Released, sampling: Sampling) -> float:
    """Loss of the step that a shift changes most, as if it were over all records."""
    steps = shift.astype(np.float64).reshape(sampling.steps, -1)
    return sqrt(float(np.max(np.sum(steps * steps, axis=1)))) / design.grid.privacy_scale


def _loss(design: NoiseDesign, shift: Released) -> float:
    """Loss of a shift of the released integers: mu of Gaussian noise, epsilon of other noise."""
    joint = getattr(design.grid, "length", None)  # where entries get their noise together
    if joint is not None:
        return float(joint(shift)) / design.grid.privacy_scale
    sizes = np.abs(_distinct(design.apart(shift), design)).astype(np.float64)
    # The law's scale counts in grid steps: two laws of its kind this far apart have this loss, or more.
    length = sqrt(float(np.sum(sizes * sizes))) if design.gaussian else float(np.sum(sizes))
    return length / design.grid.privacy_scale


def _charged(path: ReplayPath[NoiseDesign]) -> float:
    """What the ledger books for a unit, of the kind of its noise."""
    return path.plan.charge.mu if path.design.gaussian else path.plan.charge.epsilon


def _distinct(released: NDArray[Any], design: NoiseDesign) -> NDArray[Any]:
    """Entries that are drawn: of a symmetric release those on and above the diagonal."""
    return released[np.triu_indices(released.shape[0])] if design.symmetric and design.by_tile else released.ravel()


def _over_nights(path: ReplayPath[NoiseDesign], pair: Neighbouring, tell: Tell) -> float:
    """Loss of a unit of the first night in all nights of a charge, over the charge."""
    levels = path.levels
    if levels is None:
        raise RuntimeError("the nights of this config are not weighed by age")
    nights, squares = min(levels.nights, _MOST_NIGHTS), 0.0
    for number in range(1, nights + 1):
        tell("replaying nights", number / nights)
        key = throwaway_key()
        here, there = (path.night(unit, number, key) for unit in (pair.one, pair.other))
        squares += _loss(path.design, here - there) ** 2
    # Losses of Gaussian noise add up in squares, and so do the charges of the first nights alone.
    return sqrt(squares / levels.squared_norm_of(nights) * levels.squared_norm) / _charged(path)


def _noise(path: ReplayPath[NoiseDesign]) -> tuple[float, int, float, bool]:
    """Spread of the noise over that of its law, draws, the least error that they show, and whether rows repeat."""
    entries = _distinct(np.empty(path.design.shape, np.int64), path.design).size
    # Entries that get their noise together count as one, and such noise of a whole answer is slow to draw.
    together = getattr(path.design.grid, "entries", 1) if path.design.joint else 1
    most = _MOST_SLOW_KEYS if getattr(path.design.grid, "slow", False) else _MOST_KEYS
    pairs = max(2, min(-(-_ENTRIES // entries), most // 2))
    unit = path.units[-1]
    one = [next(path.releases([unit], throwaway_key())) for _ in range(2)]
    total, repeats = 0.0, False
    for number in range(pairs):
        # What was summed is the same under both keys and cancels; both noises are left.
        noise = one[0] - one[1] if number == 0 else _drawn_twice(path.design)
        both = _distinct(path.design.apart(noise), path.design).astype(np.float64)
        repeats |= _repeat(noise)
        total += float(np.sum(both * both)) / 2.0
    draws = pairs * entries
    # Var (X - Y)^2 / (2 s^2)^2 is 2 for Gaussian noise, and at most 3.5 for other noise; half of it for the root.
    sees = _Z * sqrt((2.0 if path.design.gaussian else 3.5) * together / draws) / 2.0
    law = sqrt(getattr(path.design.grid, "variance", path.design.grid.standard_deviation**2))
    return sqrt(total / draws) / law, draws, sees, repeats


def _drawn_twice(design: NoiseDesign) -> Released:
    """Noise of one key less that of another, by the design's own draw."""
    ends = (0, design.shape[0]), (0, design.shape[1])
    first, second = (design.noise(throwaway_key(), *ends) for _ in range(2))
    return first - second


def _repeat(noise: NDArray[Any]) -> bool:
    """Whether two rows of noise are the same, in a matrix so wide that chance does not make them so."""
    if noise.shape[0] < 2 or noise.shape[1] < 8:
        return False
    return len(np.unique(noise, axis=0)) < len(noise)


def _counted(path: ReplayPath[Any], drawn: Callable[[NoiseKey, Row | None], Released]) -> tuple[bool | None, list[str]]:
    """Whether published arrays show the number of records beside the released integers, and what was not compared."""
    if path.replaces:
        return None, []
    if path.design.shape[0] * path.design.shape[1] > _MOST_COMPARED:
        return None, ["so wide a release is published by tiles, and its arrays were not made twice"]
    unit = path.units[-1]
    released, rows = drawn(throwaway_key(), unit), len(path.records(unit))
    one, other = (path.plan.answer.arrays(released, rows + more) for more in (0, 1))
    differ = one.keys() != other.keys() or any(not _same(one[name][0], other[name][0]) for name in one)
    return differ, []


def _same(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()
