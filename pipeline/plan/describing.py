"""The third step of a plan: what the ledger stores, as plain JSON, nothing private in it.

A pure function of what was designed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.config import release_world
from blockveil.pipeline.plan.designing import Designed
from blockveil.pipeline.plan.nights import Series
from blockveil.pipeline.questions import Answer

ALGORITHMS = {
    "quantise": "nearest integer, norm checked in int64, single precision where precise enough, version 3",
    "answer": "exact int64, version 1",
    "noise": "AES-256-CTR, 127-bit table, 128 x 128 tiles, version 1",
    "laplace": "AES-256-CTR, digits to the base 1024 by 128-bit tables, version 1",
    "constant weight": "1 / (1 + sqrt(d)), version 1",
}
"""Anything that changes a bit of a release, or its law, changes a version here and so makes a new release."""


@dataclass(frozen=True)
class Described:
    """A plan written down.

    Attributes
    ----------
    public
        Canonical description of the release, plain JSON values, nothing private.
    series
        The nights that share its charge; None where it is charged alone.
    """

    public: dict[str, Any]
    series: Series | None


def describe(designed: Designed, charge: Loss, release_id: str) -> Described:
    """Write a plan down.

    Parameters
    ----------
    designed, charge
        The design, and what is booked for it.
    release_id
        ``dataset/name/logical date``.
    """
    public, night = _public(designed, designed.answer, charge, release_id), designed.resolved.night
    if night is None or designed.together is None:
        return Described(public, None)
    series = night.series(_public(designed, designed.together, charge, ""))
    public["calibration"]["continual"] = night.facts(series)
    return Described(public, series)


def _public(designed: Designed, answer: Answer, charge: Loss, release_id: str) -> dict[str, Any]:
    numbers = {
        "mechanism": designed.mechanism.name,
        "parameters": designed.mechanism.parameters(),
        **answer.facts(),
        **answer.design.facts(),
        "loss": charge.plain,
    }
    stages = designed.learning or designed.stage_after
    if stages is not None:
        numbers |= stages.facts()
    if designed.compared:
        numbers["compared"] = [asdict(candidate) for candidate in designed.compared]
    world = release_world(designed.resolved.config)
    return {"release_id": release_id, **world, "calibration": numbers, "algorithms": dict(ALGORITHMS)}
