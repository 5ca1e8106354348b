"""The statement: every amount against an independent formula, and filters that leave balances alone."""

import json
import math
from datetime import date

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger.statement import Days, statement
from blockveil.testing.ledger_support import UNIT, grant, reserve

DELTA = 1e-6


def epsilon_of(mu):
    """Balle and Wang, 2018, Theorem 8, solved by a root finder."""

    def delta(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    return brentq(lambda epsilon: delta(epsilon) - DELTA, 0.0, 50.0, xtol=1e-12) if mu else 0.0


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(url):
    """Four nights, one of them given back; one night of another data set between them."""
    days = iter(f"2026-11-{day:02d}T02:00:00+00:00" for day in range(1, 20))
    ledger = grant(url, 3.0, now=lambda: next(days))  # 1
    ledger.set_budget("cars", 1.0, DELTA, Neighbours.REPLACE_ONE, "one car")  # 2
    for night in ("a", "b"):  # 3 to 8
        charge = reserve(ledger, night).charge_id
        ledger.commit(charge, "check")
        ledger.released(charge, "digest", f"place-{night}")
    reserve(ledger, "a", dataset="cars", neighbours=Neighbours.REPLACE_ONE, unit="one car")  # 9
    ledger.void_if_reserved(reserve(ledger, "c", mu=0.3).charge_id, "DataError")  # 10, 11
    ledger.commit(reserve(ledger, "d").charge_id, "check")  # 12, 13
    return ledger


def test_a_statement_says_what_each_release_cost_and_what_was_spent_and_left_then(ledger):
    lines = statement(ledger.history(), dataset="people")
    assert [(line.sequence, line.kind, line.state) for line in lines] == [
        (1, "BUDGET", ""),
        (3, "RESERVED", "RELEASED"),
        (6, "RESERVED", "RELEASED"),
        (10, "RESERVED", "VOID"),
        (11, "VOID", "VOID"),
        (12, "RESERVED", "COMMITTED"),
    ]
    costs = [epsilon_of(0.2), epsilon_of(0.2), epsilon_of(0.3), -epsilon_of(0.3), epsilon_of(0.2)]
    squares = [0.0, 0.04, 0.08, 0.17, 0.08, 0.12]
    assert lines[0].cost is None
    assert [line.cost for line in lines[1:]] == pytest.approx(costs, rel=1e-6)
    assert [line.spent for line in lines] == pytest.approx([epsilon_of(s**0.5) for s in squares], rel=1e-6)
    assert [line.mu for line in lines] == pytest.approx([0, 0.2, 0.2, 0.3, -0.3, 0.2])
    assert lines[-1].left == pytest.approx(ledger.budget("people").remaining_epsilon)
    assert lines[-1].spent == pytest.approx(ledger.budget("people").spent_epsilon)
    assert lines[4].note == "DataError"
    assert lines[0].note == "epsilon 3 at delta 1e-06, add-remove, one person"


def test_a_balance_counts_what_a_filter_leaves_out(ledger):
    everything = {line.sequence: line for line in statement(ledger.history(), every_entry=True)}
    assert sorted(everything) == list(range(1, 14))
    for filters, wanted in (
        ({"release": "people/covariance/b"}, [6]),
        ({"release": "people/covariance"}, [3, 6, 10, 11, 12]),
        ({"release": "people/cov"}, []),
        ({"dataset": "cars"}, [2, 9]),
        ({"dataset": "boats"}, []),
        ({"days": Days(date(2026, 11, 9))}, [9, 10, 11, 12]),
        ({"days": Days(until=date(2026, 11, 3))}, [1, 2, 3]),
        ({"days": Days(date(2026, 11, 6), date(2026, 11, 10)), "dataset": "people"}, [6, 10]),
    ):
        lines = statement(ledger.history(), **filters)
        assert [line.sequence for line in lines] == wanted
        assert lines == [everything[line.sequence] for line in lines]


def test_the_budget_that_stood_then_is_the_one_that_counts(url):
    ledger = grant(url, 3.0)
    reserve(ledger, "1")
    ledger.set_budget("people", 1.5, DELTA, Neighbours.ADD_REMOVE, UNIT)
    lines = statement(ledger.history())
    assert [line.budget_epsilon for line in lines] == [3.0, 3.0, 1.5]
    assert lines[1].left > lines[2].left > 0
    assert lines[1].spent == lines[2].spent


def test_a_statement_of_nothing_is_empty():
    assert statement([]) == []


def test_the_command_prints_the_same_lines(ledger, tmp_path):
    database = str(tmp_path / "ledger.db")

    def run(*words):
        return CliRunner().invoke(app, ["ledger", "show", "--ledger", database, *words])

    printed = json.loads(run("--json", "--dataset", "people", "--since", "2026-11-06").output)
    lines = statement(ledger.history(), dataset="people", days=Days(date(2026, 11, 6)))
    assert [row["sequence"] for row in printed] == [line.sequence for line in lines] == [6, 10, 11, 12]
    assert [row["spent"] for row in printed] == [line.spent for line in lines]
    text = run("--release", "people/covariance/c", "--all").output
    assert [words.split()[0] for words in text.splitlines()[1:-1]] == ["10", "11"]
    assert "given back (DataError)" in text
    assert "RELEASED as place-a" in run("--all").output
    assert isinstance(run("--since", "yesterday").exception, ConfigError)
    backwards = run("--since", "2026-11-06", "--until", "2026-11-05").exception
    assert isinstance(backwards, ConfigError)
    assert "begins before it ends" in str(backwards)
