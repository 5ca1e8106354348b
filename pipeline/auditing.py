"""An audit of one mechanism: every case attacked, one confidence for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.audit import Verdict, audit
from engine.audit.cases import cases
from engine.audit.subjects import BlackBox
from engine.calibration import CalibrationError
from engine.guarantees import ApproxDP
from pipeline.errors import ConfigError

CONFIDENCE = 1.0 - 1e-6
"""A mechanism whose claim is true is flagged with probability below one in a million, all cases together."""

_SLOW_SHARE = 100
"""The whole path from records to release runs record by record, so it gets so many times fewer trials."""


@dataclass(frozen=True)
class Audit:
    """What was found.

    Attributes
    ----------
    mechanism, mutant
        What was audited.
    verdicts
        One a case.
    """

    mechanism: str
    mutant: str | None
    verdicts: tuple[Verdict, ...]

    @property
    def flagged(self) -> bool:
        """Whether a claim is refuted."""
        return any(verdict.flagged for verdict in self.verdicts)

    def rows(self) -> list[dict[str, str]]:
        """One row a case, as text."""
        return [
            {
                "case": verdict.subject,
                "claimed epsilon": f"{verdict.claimed_epsilon:.4g}",
                "at delta": f"{verdict.claimed_delta:.3g}",
                "measured epsilon": f"at least {verdict.epsilon:.4g}",
                "measured delta": f"at least {verdict.delta:.3g}",
                "exact delta": "" if verdict.exact_delta is None else f"{verdict.exact_delta:.3g}",
                "verdict": "REFUTED" if verdict.flagged else "not refuted",
            }
            for verdict in self.verdicts
        ]

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        what = self.mechanism + (f" ({self.mutant} mutant)" if self.mutant else "")
        if self.flagged:
            return f"{what}: a claim is refuted, at confidence {CONFIDENCE:.6f}; it must not be used as private."
        return f"{what}: no claim is refuted. An audit cannot prove privacy; the proof is named in the catalogue."


def run_audit(
    mechanism: str,
    guarantee: ApproxDP,
    trials: int,
    seed: int,
    tell: Callable[[str, float | None], None],
    mutant: str | None = None,
) -> Audit:
    """Attack every case of a mechanism.

    Parameters
    ----------
    mechanism
        Name as in the catalogue.
    guarantee
        What the mechanism is calibrated to.
    trials
        Outputs drawn from each of two neighbours, in each case.
    seed
        Of the simulation; a repeated audit gives the same result.
    tell
        Receives progress.
    mutant
        A deliberate mistake to audit instead, or None.

    Raises
    ------
    ConfigError
        The name, the mutant or the number of trials cannot be used.
    """
    try:
        subjects = cases(mechanism, guarantee, mutant)
        each = 1.0 - (1.0 - CONFIDENCE) / len(subjects)  # a union bound over the cases
        rng = np.random.default_rng(seed)
        verdicts = []
        for number, subject in enumerate(subjects):
            tell("attacking", number / len(subjects))
            share = max(400, trials // _SLOW_SHARE) if isinstance(subject, BlackBox) else trials
            verdicts.append(audit(subject, share, rng, each))
    except CalibrationError as error:
        failure = ConfigError("This audit cannot be made", str(error), "Correct the parameter")
    else:
        return Audit(mechanism, mutant, tuple(verdicts))
    raise failure
