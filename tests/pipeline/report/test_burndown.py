"""The picture of the budget shows what the ledger holds, charges that were given back included."""

import re
from datetime import date, timedelta

import pytest

from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.charged_steps import abandon, reserve
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import burndown
from blockveil.pipeline.report.papers import CARD, DARK, LIGHT
from blockveil.pipeline.report.pictures import burn_down
from tests.house import support

FIRST = date(2026, 11, 20)


def test_every_charge_is_a_point_and_the_last_is_what_is_spent(tmp_path):
    loaded = support.prepare(tmp_path, budget=9.0)
    plans = [make_plan(loaded, FIRST + timedelta(days=i)) for i in range(3)]
    for plan in plans[:2]:
        run_release(plan, ThreadCompute(2), "t", lambda *a: None)
    plan, books = support.opened(plans[2])
    assert abandon(books, reserve(plan, books, "t"), "a reason")
    ledger = Ledger(loaded.ledger_url)
    status = ledger.budget("people")
    points = burndown.points(ledger.history("people"), status.cap)
    assert [night for night, _ in points] == ["2026-11-20", "2026-11-21", "2026-11-22", "2026-11-22"]
    spent = [share for _, share in points]
    assert spent[0] < spent[1] < spent[2]
    assert spent[3] == pytest.approx(spent[1]), "what was given back is not spent"
    assert spent[3] == pytest.approx(status.cap.used(status.spent))
    assert spent[1] == pytest.approx(2 * spent[0]), "shares add up"
    picture = burndown.picture(ledger.history("people"), status)
    assert f"{100 * spent[3]:.3g} % of it spent by 2 releases" in picture.text
    for theme in (CARD, DARK):
        assert picture.draw(theme).startswith("<svg")


def test_a_budget_that_nothing_was_charged_to_has_a_picture(tmp_path):
    loaded = support.prepare(tmp_path)
    ledger = Ledger(loaded.ledger_url)
    assert burndown.points(ledger.history("people"), ledger.budget("people").cap) == []
    assert burndown.picture(ledger.history("people"), ledger.budget("people")).draw(CARD).startswith("<svg")


def test_a_picture_that_was_drawn_for_light_paper_is_recoloured_to_what_is_drawn_for_dark_paper():
    def drawn(*themes):
        picture = burn_down([("monday", 0.25), ("tuesday", 0.5)], "words")
        return [re.findall(r' d="[^"]*"|: #[0-9a-f]{6}', picture.draw(theme)) for theme in themes][-1]

    assert drawn(LIGHT, DARK) == drawn(DARK), "the same lines in the colours of dark paper"
    assert drawn(LIGHT, DARK) != drawn(LIGHT)
