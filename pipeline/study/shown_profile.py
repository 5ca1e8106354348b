"""The true privacy profile of a mechanism against its claim, as a picture of lines.

Of the cases that an audit attacks, each a mechanism on a small problem with its worst neighbours, those are taken whose
smallest delta is known exactly at every epsilon. The one is shown whose delta at the claimed epsilon is largest beside
the claimed one: where a claim is false, it is one that shows so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from blockveil.engine.audit.cases import LAWS, cases
from blockveil.engine.audit.subjects import Subject
from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, PureDP
from blockveil.pipeline.base.errors import ConfigError

_TIMES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Epsilons of the picture, in claimed ones."""

_LEAST = 1e-12
"""Deltas below this have an empty bar."""

_SMALLEST = 1e-300
"""Deltas below this have lost their digits."""

_READ_AS = "an epsilon, the least delta that holds there for the worst records of a small problem, and its logarithm"

_WIDTH = 36
_UP = 1.0 + 1e-9
"""Covers the rounding of a profile."""


@dataclass(frozen=True)
class ShownProfile:
    """Smallest delta of a pair of neighbours at several epsilons, and what is claimed.

    Attributes
    ----------
    case
        Problem and relation, or the published setting.
    epsilon, delta
        What is claimed.
    points
        Epsilons and the smallest delta at each; one is the claimed epsilon.
    """

    case: str
    epsilon: float
    delta: float
    points: tuple[tuple[float, float], ...]

    @property
    def true_delta(self) -> float:
        """Smallest delta at the claimed epsilon."""
        return next(delta for epsilon, delta in self.points if epsilon == self.epsilon)

    @property
    def kept(self) -> bool:
        """Whether the claim holds for this pair."""
        return self.true_delta <= self.delta * _UP

    @property
    def lines(self) -> list[tuple[str, str]]:
        """A line for each epsilon, with a bar on a logarithmic scale, for a person."""
        verdict = "kept" if self.kept else f"FALSE: {self.true_delta / self.delta:.3g} times" if self.delta else "FALSE"
        asked = f"epsilon {self.epsilon:.3g} and delta {self.delta:.3g}"
        found = [("True profile", f"{self.case}; claimed {asked}: {verdict}"), ("  read as", _READ_AS)]
        for epsilon, delta in self.points:
            mark = "  <- claimed" if epsilon == self.epsilon else ""
            shown = f"{delta:<9.2g}" if delta == 0.0 or delta >= _SMALLEST else f"<{_SMALLEST:<8.0g}"
            found.append((f"  at {epsilon:.3g}", f"{shown} {'#' * self._length(delta)}{mark}"))
        return [*found, ("  claim", f"{self.delta:<9.2g} {'=' * self._length(self.delta)}")]

    @property
    def plain(self) -> dict[str, object]:
        """The same as plain JSON values."""
        points = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in self.points]
        return {"case": self.case, "epsilon": self.epsilon, "delta": self.delta, "kept": self.kept, "points": points}

    @staticmethod
    def _length(delta: float) -> int:
        return 0 if delta < _LEAST else max(1, round(_WIDTH * (1.0 - math.log10(delta) / math.log10(_LEAST))))


def shown_profile(name: str, guarantee: ApproxDP) -> ShownProfile | None:
    """Profile of a mechanism that an audit knows exactly; None where it knows none.

    Parameters
    ----------
    name
        As in the catalogue.
    guarantee
        What the mechanism is calibrated to. Laws that are attacked at the settings of their papers keep those.

    Raises
    ------
    ConfigError
        The mechanism cannot be calibrated to the guarantee.
    """
    try:
        attacked = cases(name, guarantee)
    except (CalibrationError, CannotCalibrate) as error:
        failure = ConfigError("This profile cannot be shown", str(error), "Correct the parameter")
    else:
        found = [(subject, *_claim(name, subject, guarantee)) for subject in attacked if not _repeated(subject)]
        return _worst([_profile(*one) for one in found if one[0].delta(one[1]) is not None])
    raise failure


def _repeated(subject: Subject) -> bool:
    """Whether it is of many releases together, which an audit attacks where a single one hides too much."""
    return subject.name.endswith(" releases")


def _worst(found: Sequence[ShownProfile]) -> ShownProfile | None:
    return max(found, key=lambda one: (one.true_delta / max(one.delta, _LEAST), one.points[0][1]), default=None)


def _claim(name: str, subject: Subject, guarantee: ApproxDP) -> tuple[float, float]:
    """What is promised: by its own paper, purely, or what was asked for."""
    if isinstance(subject.claim, PureDP):
        return subject.claim.epsilon, 0.0
    claim = subject.claim if name in LAWS else guarantee
    return claim.epsilon, claim.delta


def _profile(subject: Subject, epsilon: float, delta: float) -> ShownProfile:
    points = tuple((times * epsilon, float(subject.delta(times * epsilon) or 0.0)) for times in _TIMES)
    return ShownProfile(subject.name.removesuffix(": likelihood ratio"), epsilon, delta, points)
