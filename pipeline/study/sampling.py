"""A study of steps that see a random part of the records: what is published about their total, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.study import sampled_steps
from blockveil.pipeline.base.errors import ConfigError


@dataclass(frozen=True)
class SamplingFindings:
    """What two publications make of sampling, and what holds for the steps that they prescribe.

    Attributes
    ----------
    claim
        Total that is claimed.
    rate, steps
        Sampling rate, and number of steps.
    step
        The step of R1SMG's equation (16).
    amplified
        Its loss after valid amplification.
    proven
        Epsilon that strong composition proves for all steps; None where it promises nothing.
    divided
        Epsilon of one step at (epsilon / rate, delta / rate) after valid amplification, of which IMGM's section 5
        claims epsilon; None where delta / rate is no delta.
    """

    claim: ApproxDP
    rate: float
    steps: float
    step: ApproxDP
    amplified: ApproxDP
    proven: float | None
    divided: float | None

    def rows(self) -> list[tuple[str, str]]:
        """Lines for a reader."""
        step, epsilon = self.step, self.claim.epsilon
        proven = "proves nothing" if self.proven is None else f"proves epsilon {self.proven:.4g}"
        multiplied = f"rate times epsilon, {self.rate * step.epsilon:.4g}"
        rows = [
            ("Claimed", f"epsilon {epsilon:g}, delta {self.claim.delta:g} for {self.steps:,.6g} steps (R1SMG, (16))"),
            ("A step", f"epsilon {step.epsilon:.4g}, delta {step.delta:.4g} on the records that it sees"),
            ("Amplification", f"epsilon {self.amplified.epsilon:.4g} holds; equation (16) takes {multiplied}"),
            ("Composition", f"the same theorem with valid amplification {proven}"),
        ]
        if self.divided is not None:
            claimed = f"a step at epsilon {epsilon / self.rate:.4g} is claimed to have {epsilon:g}"
            rows.append(("IMGM, section 5", f"{claimed}; it has {self.divided:.4g}"))
        return rows


def sampling_findings(claim: ApproxDP, rate: float, epochs: float, slack: float) -> SamplingFindings:
    """What holds for the steps of a training with sampled records.

    Parameters
    ----------
    claim
        Total loss that is claimed.
    rate
        Sampling rate, in (0, 1].
    epochs
        Number of steps times the rate.
    slack
        Part of delta that strong composition takes.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """
    try:
        step = sampled_steps.published_step(claim, rate, epochs, slack)
        amplified = sampled_steps.subsampled(step, rate)
    except ValueError as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    else:
        delta = claim.delta / rate
        imgm = sampled_steps.subsampled(ApproxDP(claim.epsilon / rate, delta), rate) if delta < 1.0 else None
        return SamplingFindings(
            claim=claim,
            rate=rate,
            steps=epochs / rate,
            step=step,
            amplified=amplified,
            proven=_composed(amplified, epochs / rate, slack),
            divided=None if imgm is None else imgm.epsilon,
        )
    raise failure


def _composed(step: ApproxDP, steps: float, slack: float) -> float | None:
    try:
        return sampled_steps.strong_composition(step, steps, slack).epsilon
    except ValueError:
        return None
