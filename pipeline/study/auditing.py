"""An audit of one mechanism: every case attacked, one confidence for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blockveil.engine.audit import Verdict, audit
from blockveil.engine.audit.cases import cases, cases_of
from blockveil.engine.audit.power import Power, power
from blockveil.engine.audit.subjects import BlackBox, Subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.unvetted import load

CONFIDENCE = 1.0 - 1e-6
"""A mechanism whose claim is true is flagged with probability below one in a million, all cases together."""

_SLOW_SHARE = 100
"""The whole path from records to release runs record by record, so its trials are fewer by this factor."""


@dataclass(frozen=True)
class Audit:
    """What was found.

    Attributes
    ----------
    mechanism, mutant
        What was audited.
    verdicts
        One for each case.
    powers
        What each case would have flagged; None where it is flagged already, where that was not asked, and in an audit
        of a mutant.
    """

    mechanism: str
    mutant: str | None
    verdicts: tuple[Verdict, ...]
    powers: tuple[Power | None, ...]

    @property
    def flagged(self) -> bool:
        """Whether a claim is refuted."""
        return any(verdict.flagged for verdict in self.verdicts)

    def rows(self) -> list[dict[str, str]]:
        """One row for each case, as text; a case that could not fail is named as no evidence."""
        return [
            {
                "case": verdict.subject,
                "claimed epsilon": f"{verdict.claimed_epsilon:.4g}",
                "at delta": f"{verdict.claimed_delta:.3g}",
                "measured epsilon": f"at least {verdict.epsilon:.4g}",
                "measured delta": f"at least {verdict.delta:.3g}",
                "exact delta": "" if verdict.exact_delta is None else f"{verdict.exact_delta:.3g}",
                "would have shown": "" if power is None else power.words,
                "verdict": _word(verdict, power),
            }
            for verdict, power in zip(self.verdicts, self.powers, strict=True)
        ]

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        what = self.mechanism + (f" ({self.mutant} mutant)" if self.mutant else "")
        if self.flagged:
            return f"{what}: a claim is refuted, at confidence {CONFIDENCE:.6f}; it must not be used as private."
        powers = [power for power in self.powers if power is not None]
        silent = sum(not power.evidence for power in powers)
        if powers and silent == len(powers):
            return f"{what}: no case could have failed, so this audit is no evidence; draw more trials."
        less = f", and {silent} of {len(powers)} cases are no evidence" if silent else ""
        return f"{what}: no claim is refuted{less}. An audit cannot prove privacy; the proof is named in the catalogue."


def _word(verdict: Verdict, power: Power | None) -> str:
    if verdict.flagged:
        return "REFUTED"
    return "not refuted" if power is None or power.evidence else "NO EVIDENCE"


def run_audit(
    mechanism: str,
    guarantee: ApproxDP,
    trials: int,
    seed: int,
    tell: Callable[[str, float | None], None],
    mutant: str | None = None,
    ask_power: bool = True,
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
    ask_power
        Whether to find what each case would have flagged, which takes longer than the attacks; verdicts are the same.

    Raises
    ------
    ConfigError
        The name, the mutant or the number of trials cannot be used.
    """
    try:
        subjects = _subjects(mechanism, guarantee, mutant)
        each = 1.0 - (1.0 - CONFIDENCE) / len(subjects)  # a union bound over the cases
        rng = np.random.default_rng(seed)
        # Numbers of its own, so that what is drawn for the verdicts is the same without it.
        other = np.random.default_rng([seed, 1])
        verdicts, powers = [], []
        for number, subject in enumerate(subjects):
            tell("attacking", number / len(subjects))
            share = max(400, trials // _SLOW_SHARE) if isinstance(subject, BlackBox) else trials
            verdicts.append(audit(subject, share, rng, each))
            skip = verdicts[-1].flagged or mutant is not None or not ask_power
            powers.append(None if skip else power(subject, share, other, each))
    except CalibrationError as error:
        failure = ConfigError("This audit cannot be made", str(error), "Correct the parameter")
    else:
        return Audit(mechanism, mutant, tuple(verdicts), tuple(powers))
    raise failure


def _subjects(mechanism: str, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Cases of one of our mechanisms, or of one that another package offers."""
    other = load("mechanism", mechanism)
    if other is None or not isinstance(other.declaration, MechanismDeclaration):
        return cases(mechanism, guarantee, mutant)
    return cases_of(other.declaration, guarantee, mutant)
