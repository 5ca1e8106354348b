"""A ledger with a budget, and reservations in one line."""

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import Ledger, Night
from blockveil.pipeline.ledger.reserving import ChargeRequest

UNIT = "one person"
MU = 0.2


def grant(url, epsilon=1.0, **options):
    ledger = Ledger(url, **options)
    ledger.set_budget("people", epsilon, 1e-6, Neighbours.ADD_REMOVE, UNIT)
    return ledger


def make(folder, epsilon=1.0):
    return grant(f"sqlite:///{folder / 'ledger.db'}", epsilon)


def reserve(
    ledger,
    night,
    *,
    mu=MU,
    spec=None,
    neighbours=Neighbours.ADD_REMOVE,
    unit=UNIT,
    dataset="people",
    place=None,
    part=None,
):
    part = part if part is None else Part(dataset, *part)
    records = "f" * 64 if part is None else digest([part.text])
    spec = spec or {"privacy": {"epsilon": 1.0}, "data": {"fingerprint": records}}
    return ledger.reserve(
        ChargeRequest(
            release_id=f"{dataset}/covariance/{night}",
            dataset=dataset,
            spec=spec,
            spec_digest=digest(spec),
            charge=Loss(mu, 0.0, 300 * 2.0**-90),
            neighbours=neighbours,
            unit=unit,
            attempt="test",
            night=place,
            part=part,
        )
    )


def night_spec(number, series="one"):
    """What a plan of a night that shares a charge says of it."""
    return {
        "continual": {"nights": 9, "first": "2026-11-01"},
        "calibration": {"continual": {"series": series, "night": number}},
    }


def reserve_night(ledger, day, number, newest, series="one"):
    return reserve(ledger, str(day), spec=night_spec(number, series), place=Night(newest))
