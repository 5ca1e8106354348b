"""Wishart noise and Gaussian sketches under audit, each by the one number that tells neighbours apart.

Given the rest of a release, all that depends on one record is a chi-square variable: moved by ``kappa`` for Wishart
noise (:mod:`.wishart`), multiplied by ``1 + tau`` for a sketch
(:mod:`.projections`). Outputs are that number, so that the exact likelihood ratio is known.
The pure claims of Wishart noise are among the cases; they are refuted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from scipy import stats

from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import Subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP
from blockveil.engine.study import projections, wishart

_FEATURES = 3
_EXCESS = 20
_SKETCH_ROWS = 20
_ADD = Neighbours.ADD_REMOVE


@dataclass(frozen=True, eq=False)
class ChiSquare:
    """A chi-square variable on D', moved and multiplied on D, as an audit subject; outputs have one column.

    Attributes
    ----------
    name, claim
        See :class:`.subjects.Subject`.
    degrees
        Of freedom.
    shift, factor
        What a variable on D is moved and multiplied by.
    """

    name: str
    claim: Claim
    degrees: int
    shift: float
    factor: float
    answers: None = None
    chunks: None = None

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Independent outputs, shape (trials, 1)."""
        draws = rng.chisquare(self.degrees, (trials, 1))
        return draws if which else self.shift + self.factor * draws

    def log_ratio(self, outputs: Array) -> Array:
        """Exact, shape (trials,); infinite where an output is impossible on one side."""
        law = stats.chi2(self.degrees)
        first = law.logpdf((outputs[:, 0] - self.shift) / self.factor) - np.log(self.factor)
        return np.asarray(first - law.logpdf(outputs[:, 0]))

    def delta(self, epsilon: float) -> float:
        """Exact but for a rounding upwards, in the worse order of the two data sets."""
        if self.factor == 1.0:
            both = (order(self.degrees, self.shift, epsilon) for order in (wishart.delta_less, wishart.delta_more))
        else:
            ratio = self.factor - 1.0
            both = (order(self.degrees, ratio, epsilon) for order in (projections.delta_less, projections.delta_more))
        return max(both)

    def with_noise(self, factor: float) -> ChiSquare:
        """A shift smaller by a factor, or a regularisation larger by it."""
        return replace(self, shift=self.shift / factor, factor=1.0 + (self.factor - 1.0) / factor**2)


def wishart_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Published claims of Wishart noise, and the exact calibration with its mutant of half the scale.

    Raises
    ------
    CalibrationError
        The mutant has no meaning here.
    """
    _check(mutant)
    exact = wishart.calibrate_wishart(_FEATURES, _EXCESS, 1.0, guarantee, _ADD)
    if mutant is not None:
        return [ChiSquare("wishart, exact, half the scale", guarantee, exact.excess, 2.0 * exact.shift, 1.0)]
    pure = PureDP(guarantee.epsilon)
    published: list[tuple[str, Claim, wishart.WishartNoise]] = [
        ("Jiang and others, pure", pure, wishart.jiang_wishart(_FEATURES, 1.0, guarantee.epsilon)),
        ("Imtiaz and Sarwate, pure", pure, wishart.imtiaz_wishart(_FEATURES, 1.0, guarantee.epsilon)),
        ("Sheffet", guarantee, wishart.sheffet_wishart(_FEATURES, 1.0, guarantee)),
        ("exact", guarantee, exact),
    ]
    return [ChiSquare(f"wishart, {name}", claim, n.excess, n.shift, 1.0) for name, claim, n in published]


def sketch_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Published regularisations of a sketch, and the exact one with its mutant of half the size.

    Raises
    ------
    CalibrationError
        The mutant has no meaning here.
    """
    _check(mutant)
    exact = projections.exact_floor(_SKETCH_ROWS, 1.0, guarantee, _ADD)
    if mutant is not None:
        ratio = 1.0 + (2.0 / exact) ** 2
        return [ChiSquare("sketch, exact, half the regularisation", guarantee, _SKETCH_ROWS, 0.0, ratio)]
    floors = {
        "Blocki and others": projections.blocki_floor(_SKETCH_ROWS, guarantee),
        "Sheffet": projections.sheffet_floor(_SKETCH_ROWS, 1.0, guarantee),
        "exact": exact,
    }
    return [
        ChiSquare(f"sketch, {name}", guarantee, _SKETCH_ROWS, 0.0, 1.0 + floor**-2.0) for name, floor in floors.items()
    ]


def _check(mutant: str | None) -> None:
    if mutant not in (None, "half-scale"):
        raise CalibrationError(f"mutant {mutant!r} means nothing for this law; take half-scale")
