"""What a ledger says of a release: each charge once, and of nights that share one who has paid."""

from datetime import date

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.balance import share_text
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report.budgets_found import paid_nights
from tests.house import support

NIGHT, NEXT = date(2026, 11, 1), date(2026, 11, 2)


def released(loaded, *nights):
    for night in nights:
        run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *a: None)
    ledger = Ledger(loaded.ledger_url)
    found = paid_nights(ledger.history("people"), ledger.budget("people"), [make_plan(loaded, NIGHT)])
    return {release: paid for (release, _), paid in found.items()}


def test_of_nights_that_share_a_charge_the_first_has_paid_and_no_number_of_nights_is_left(tmp_path):
    support.write_records(tmp_path, support.records(100))
    path = support.write_config(tmp_path)
    path.write_text(path.read_text() + "\n[continual]\nnights = 4\nfirst = 2026-11-01\n")
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    found = released(loaded, NIGHT, NEXT)
    first, second = (found[f"people/covariance/{night}"] for night in (NIGHT, NEXT))
    assert "of the budget; alone it is epsilon" in dict(first)["Charged"]
    assert dict(second)["Charged"] == "nothing: an earlier night that shares its charge has paid for it"
    assert dict(second)["Nights left"] == "one charge pays for all nights of this series"


def test_a_charge_that_was_given_back_is_not_that_of_the_release(tmp_path):
    loaded = support.prepare(tmp_path, budget=9.0)
    plan = make_plan(loaded, NIGHT)
    ledger = Ledger(loaded.ledger_url)
    charge = ledger.reserve(
        ChargeRequest(
            release_id=plan.release_id,
            dataset=plan.config.release.account,
            spec=plan.spec("records"),
            spec_digest="0" * 64,
            charge=plan.charge,
            neighbours=plan.neighbours,
            unit=plan.config.privacy.unit,
            attempt="test",
        )
    )
    assert ledger.void_if_reserved(charge.charge_id, "a test")
    (paid,) = released(loaded, NIGHT).values()
    share = ledger.budget("people").cap.used(ledger.budget("people").spent)
    assert dict(paid)["Charged"].startswith(share_text(share))
    assert [what for what, _ in paid][:4] == ["Charged", "Budget", "Spent", "Left"]
