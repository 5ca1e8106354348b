"""The page on accounting shows what the programs compute."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import composition
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.domination import Dominating, fixed_epsilon
from blockveil.engine.guarantees.guarantee import Loss
from blockveil.flows.cli import app, budget_commands
from blockveil.pipeline.budget.filter import LOSS_TICK, NOTHING, Cap, Ticks
from blockveil.pipeline.budget.parts import Part, Tally

PAGE = (Path(__file__).parents[1] / "docs" / "accounting.md").read_text()
ROWS = [
    (kind, int(nights.replace(",", "")), [float(value.replace(",", "")) for value in values.split("|")])
    for kind, nights, values in re.findall(r"^\| ([^|]+?) \| ([\d,]+) \| ([\d.,| ]+?) \|$", PAGE, re.MULTILINE)
]


def test_the_table_has_every_kind_and_length():
    assert {(kind, nights) for kind, nights, _ in ROWS} == {
        (kind, nights) for kind in composition.KINDS for nights in composition.NIGHTS
    }


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] == 30 or row[0] == "Gaussian, mu 0.05"], ids=str)
def test_the_table_is_what_the_benchmark_prints_and_never_understates(row):
    kind, nights, (ledger, series, peer, naive) = row
    assert composition.ledger(kind, nights) == pytest.approx(ledger, rel=1e-3)
    assert fixed_epsilon(composition.series(kind, nights), composition.DELTA) == pytest.approx(series, rel=1e-3)
    assert composition.peer(kind, nights) == pytest.approx(peer, rel=1e-3)
    assert composition.naive(kind, nights) == pytest.approx(naive, rel=1e-3)
    # The peer rounds to its grid; what is certified is not below it by more than the grid's interval.
    assert series >= peer - 1e-3
    assert ledger >= series


def test_the_example_of_a_budget_is_true():
    cap, mu = Cap(3.0, 1e-5), gaussian_mu(1.0, 1e-6)
    assert f"{float(cap.most_loss * LOSS_TICK):.4f}" == "0.5171"
    assert (f"{mu:.4f}", f"{mu * mu:.5f}") == ("0.2367", "0.05603")
    assert cap.nights(NOTHING, Ticks.of(Loss(mu, 0.0, 1e-24))) == 9
    for shown in ("0.5171", "0.2367", "0.05603", "nine fit"):
        assert shown in PAGE


def test_the_example_of_parts_is_true():
    cap, mu, tally = Cap(3.0, 1e-5), gaussian_mu(1.0, 1e-6), Tally()
    ticks, days = Ticks.of(Loss(mu, 0.0, 1e-24)), [Part("people", "day", day, "whole") for day in "123"]
    for day in days:
        assert tally.nights(cap, ticks, day) == 9
        for _ in range(9):
            tally.add(ticks, day)
    assert tally.total.ticks == ticks.times(9)
    assert tally.nights(cap, ticks, None) == 0
    assert "nine of each day" in PAGE


def test_the_example_of_a_series_is_what_the_command_prints(tmp_path):
    text = re.search(r"```toml\n(neighbours.*?)```", PAGE, re.DOTALL).group(1)
    path = tmp_path / "events.toml"
    path.write_text(text)
    printed = CliRunner().invoke(app, ["ledger", "price", str(path), "--delta", "1e-5"]).output
    shown = re.search(r"```\n(Events .*?)```", PAGE, re.DOTALL).group(1)
    assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_figures_that_two_processors_computed_are_shown_as_one(tmp_path, monkeypatch):
    """One with AVX-512 found the latter bound of the series above, one without it the former."""
    path, shown = tmp_path / "events.toml", set()
    path.write_text(re.search(r"```toml\n(neighbours.*?)```", PAGE, re.DOTALL).group(1))
    for mu in (0.504692, 0.504695):
        monkeypatch.setattr(budget_commands, "dominating", lambda _series, mu=mu: Dominating(mu, 9.03e-10))
        shown.add(CliRunner().invoke(app, ["ledger", "price", str(path), "--delta", "1e-5"]).output)
    (text,) = shown
    assert "mu 0.5047 and" in text
    assert "mu 0.5047 and" in PAGE


@pytest.mark.parametrize(("delta", "held"), [(1e-6, False), (1.01e-6, True)])
def test_a_slightly_larger_delta_holds_all_shares_of_one_guarantee(delta, held):
    assert "such as 1.01e-6, because a thousandth of a" in " ".join(PAGE.split())
    mu = gaussian_mu(1.0, 1e-6)
    shares = [Ticks.of(Loss(mu * share**0.5, 0.0, 1e-24)) for share in (0.6, 0.4)]
    assert Cap(1.0, delta).holds(shares[0] + shares[1], 2) == held
