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
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.domination import dominating
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.noise.ball_noise import BallNoise
from blockveil.engine.noise.cube_noise import CubeNoise
from blockveil.engine.noise.design import Design, NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.sampled_noise import Sampling
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.gradients import Gradients
from blockveil.pipeline.releases.compute import Compute
from blockveil.pipeline.study.contributions import Row, rows_of_a_unit
from blockveil.pipeline.study.frozen_outputs import ExactAnswer, exact_answer
from blockveil.pipeline.study.replay_path import ReplayPath, throwaway_key

Tell = Callable[[str, float | None], None]
Released = NDArray[np.int64]

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

_Z = 6.2
"""Standard deviations beyond which an estimate lies with probability below 1e-9, on both sides together."""

_WASTE = 0.9
"""Shares of the charge below this are called waste."""

_ROUNDING = 1.0 + 1e-9
"""Covers the roundings of a norm; a true violation is a whole grid step or an error of calibration."""


@dataclass(frozen=True)
class Replayed:
    """What the replay of one config found.

    Attributes
    ----------
    pairs
        Pairs of neighbours that were compared.
    share
        Largest loss that a pair has, over the loss that is charged for a unit; None where it could not be found.
    where
        The contributions of the unit in that pair.
    spread
        Standard deviation of the noise over that of its law; None where it could not be found.
    draws, sees
        Entries of noise that were looked at, and the least error of the spread that they would have shown, a share.
    repeats
        Whether two rows of noise are the same.
    counted
        Whether the released arrays change with the number of records, which is private; None where it is public or
        was not looked at.
    not_tested
        What could not be compared, and why, in words.
    """

    pairs: int
    share: float | None
    where: str
    spread: float | None
    draws: int
    sees: float
    repeats: bool
    counted: bool | None
    not_tested: tuple[str, ...]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value) of what was found, for a person."""
        found = []
        if self.share is not None:
            found = [
                ("Replayed", f"{self.pairs:,} pair{'s' * (self.pairs != 1)} of neighbours, constructed"),
                ("Largest shift", f"{self.share:.4f} of what is charged for a unit: {self.where}{self._waste}"),
            ]
        if self.spread is not None:
            found.append(
                (
                    "Noise",
                    f"{self.spread:.4f} of its law's standard deviation in {self.draws:,} draws, which would have "
                    f"shown an error of {100 * self.sees:.2g} %",
                )
            )
        if self.counted is not None:
            found.append(("Number of records", f"{'changes' if self.counted else 'does not change'} what is published"))
        found += [("Not tested", reason) for reason in self.not_tested]
        found += [("Refuted", claim) for claim in self.refutations]
        return found if self.refutations else [*found, ("Verdict", self._verdict)]

    @property
    def _waste(self) -> str:
        if self.share is None or self.share >= _WASTE:
            return ""
        return ". No pair among these attains the charge: it is a bound, or the worst pair is another one"

    @property
    def _verdict(self) -> str:
        return "nothing was tested" if self.share is None else "no claim is refuted; an audit refutes and never proves"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "pairs": self.pairs,
            "largest_share_of_the_charge": self.share,
            "attained_by": self.where or None,
            "noise_over_law": self.spread,
            "draws": self.draws,
            "would_have_shown": self.sees,
            "number_of_records_changes_what_is_published": self.counted,
            "not_told": list(self.not_tested),
            "refuted": self.refutations,
        }

    @property
    def refutations(self) -> list[str]:
        """Claims that are refuted, in words; empty where none is."""
        found = []
        if self.share is not None and self.share > _ROUNDING:
            found.append(f"a unit moves the release {self.share:.4g} times as far as its charge allows ({self.where})")
        if self.spread is not None and abs(self.spread - 1.0) > self.sees:
            found.append(f"the noise has {self.spread:.4g} times the standard deviation of its law")
        if self.repeats:
            found.append("two rows of the noise are the same")
        if self.counted:
            found.append("the number of records, which is private, follows from the released arrays")
        return found


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
    share, pair, pairs = _largest_share(path, tell)
    if path.levels is not None:
        share = _over_nights(path, pair, tell)
    counted, more = _counted(path, lambda key, unit: next(path.releases([unit], key)))
    found = Replayed(pairs, share, _in_words(*pair), None, 0, 0.0, False, counted, tuple(more))
    if not draws:
        return found
    tell("comparing the noise of several keys", None)
    spread, number, sees, repeats = _noise(path)
    return replace(found, spread=spread, draws=number, sees=sees, repeats=repeats)


def _frozen(path: ReplayPath[ExactAnswer], tell: Tell) -> Replayed:
    """What is found of a mechanism that draws its release, with the outputs of each of its steps frozen."""
    design, name = path.design.of, path.plan.mechanism.name
    loss, pair, pairs = _largest(path, design.frozen_loss, tell)

    def released(key: NoiseKey, unit: Row | None) -> Released:
        return design.release(key, next(path.releases([unit], key)))

    counted, more = _counted(path, released)
    more.append(f"what {name} draws: `blockveil audit {name}` compares its outputs by statistics")
    share = loss / path.plan.charge.epsilon
    return Replayed(pairs, share, _in_words(*pair), None, 0, 0.0, False, counted, tuple(more))


def _reasons(plan: Plan, rows: list[Row]) -> list[str]:
    """Why the whole replay says nothing of a config; empty where it does."""
    name = plan.mechanism.name
    found = []
    if plan.design.additive is None and exact_answer(plan.design) is None:
        found.append(
            f"{name} draws its release otherwise than by adding noise; `blockveil audit {name}` bounds its loss by "
            "statistics"
        )
    if not rows:
        found.append("the query is of another package, and nothing is known of its records")
    return found


def _fitting(rows: list[Row], design: Design) -> list[Row]:
    """Rows of a unit, as many as there is room for their releases, and at least two."""
    return rows[: max(2, min(len(rows), _MOST_KEPT // (design.shape[0] * design.shape[1])))]


def _largest(
    path: ReplayPath[Any], loss: Callable[[Released, Released], float], tell: Tell
) -> tuple[float, tuple[Row | None, Row | None], int]:
    """Largest loss of a pair of neighbours, the pair, and how many there were."""
    units, found = path.units, list[Released]()
    for number, released in enumerate(path.releases(units, throwaway_key())):
        tell("replaying neighbours", number / len(units))
        found.append(released)
    places = list(combinations(range(len(units)), 2) if path.replaces else ((0, i) for i in range(1, len(units))))
    losses = [loss(found[here], found[there]) for here, there in places]
    best = int(np.argmax(losses))
    return losses[best], (units[places[best][0]], units[places[best][1]]), len(places)


def _largest_share(path: ReplayPath[NoiseDesign], tell: Tell) -> tuple[float, tuple[Row | None, Row | None], int]:
    """Largest loss of a pair over the charge, the pair, and how many there were; training begins at two weights."""
    course, found = path.course, []
    sampling = None if course is None or not course.secret else _sampling(path.plan)
    for away in (False, True) if course is not None else (False,):
        path.away = away
        if sampling is None:
            found.append(_largest(path, lambda here, there: _loss(path.design, here - there), tell))
        else:
            found.append(_largest(path, lambda here, there: _loss_of_a_step(path.design, here - there, sampling), tell))
    path.away = False
    loss, pair, _ = max(found, key=lambda one: one[0])
    if sampling is not None and loss > 0.0:
        # Steps over samples are dominated by the mixture of both ends, this far apart (engine/answers/step_records.py).
        step = Step(PoissonGaussian(sampling.probability, 1.0 / loss), sampling.steps)
        loss = dominating((step,)).mu
    return loss / _charged(path), pair, sum(pairs for _, _, pairs in found)


def _sampling(plan: Plan) -> Sampling:
    sampling = plan.question.problem.sampling if isinstance(plan.question, Gradients) else None
    if sampling is None:
        raise RuntimeError("steps over secret samples have a probability")
    return sampling


def _loss_of_a_step(design: NoiseDesign, shift: Released, sampling: Sampling) -> float:
    """Loss of the step that a shift changes most, as if it were over all records."""
    steps = shift.astype(np.float64).reshape(sampling.steps, -1)
    return sqrt(float(np.max(np.sum(steps * steps, axis=1)))) / design.grid.privacy_scale


def _in_words(here: Row | None, there: Row | None) -> str:
    present = [unit.where for unit in (here, there) if unit is not None]
    return " in place of ".join(present)


def _loss(design: NoiseDesign, shift: Released) -> float:
    """Loss of a shift of the released integers: mu of Gaussian noise, epsilon of other noise."""
    if isinstance(design.grid, CubeNoise):  # rows have noise of their own, so that their losses add up
        return float(np.sum(np.max(np.abs(shift), axis=1))) / design.grid.privacy_scale
    sizes = np.abs(_distinct(design.apart(shift), design)).astype(np.float64)
    # The law's scale counts in grid steps: two laws of its kind this far apart have this loss, or more.
    by_length = design.gaussian or isinstance(design.grid, BallNoise)
    length = sqrt(float(np.sum(sizes * sizes))) if by_length else float(np.sum(sizes))
    return length / design.grid.privacy_scale


def _charged(path: ReplayPath[NoiseDesign]) -> float:
    """What the ledger books for a unit, of the kind of its noise."""
    return path.plan.charge.mu if path.design.gaussian else path.plan.charge.epsilon


def _distinct(released: NDArray[Any], design: NoiseDesign) -> NDArray[Any]:
    """Entries that are drawn: of a symmetric release those on and above the diagonal."""
    return released[np.triu_indices(released.shape[0])] if design.symmetric and design.by_tile else released.ravel()


def _over_nights(path: ReplayPath[NoiseDesign], pair: tuple[Row | None, Row | None], tell: Tell) -> float:
    """Loss of a unit of the first night in all nights of a charge, over the charge."""
    levels = path.levels
    if levels is None:
        raise RuntimeError("the nights of this config are not weighed by age")
    nights, squares = min(levels.nights, _MOST_NIGHTS), 0.0
    for number in range(1, nights + 1):
        tell("replaying nights", number / nights)
        key = throwaway_key()
        here, there = (path.night(unit, number, key) for unit in pair)
        squares += _loss(path.design, here - there) ** 2
    # Losses of Gaussian noise add up in squares, and so do the charges of the first nights alone.
    return sqrt(squares / levels.squared_norm_of(nights) * levels.squared_norm) / _charged(path)


def _noise(path: ReplayPath[NoiseDesign]) -> tuple[float, int, float, bool]:
    """Spread of the noise over that of its law, draws, the least error that they show, and whether rows repeat."""
    entries = _distinct(np.empty(path.design.shape, np.int64), path.design).size
    # Entries that get their noise together count as one, and such noise of a whole answer is slow to draw.
    together = getattr(path.design.grid, "entries", 1) if path.design.joint else 1
    most = _MOST_SLOW_KEYS if isinstance(path.design.grid, BallNoise) else _MOST_KEYS
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
