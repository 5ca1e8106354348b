"""Any order of calls: the ledger does what a few lines of dictionaries and root finding say it must."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from scipy.optimize import brentq
from scipy.stats import norm

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import BudgetExhausted, LedgerError, ReleaseConflict
from blockveil.pipeline.ledger import Ledger
from blockveil.testing.ledger_support import UNIT, reserve

DELTA = 1e-6
SLACK = 1e-3
DATASETS = st.sampled_from(["people", "cars"])
NIGHTS = st.sampled_from("123")
SPECS = st.sampled_from([{"version": 1}, {"version": 2}])
MUS = st.sampled_from([0.05, 0.11, 0.23])
VALUES = {"day": ("1", "2"), "ward": ("a", "b")}
TYPES = {"day": ("whole",), "ward": ("text", "0" * 64)}
PARTS = st.sampled_from(
    [None, None, *((column, value, *TYPES[column]) for column, each in VALUES.items() for value in each)]
)
UNITS = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]
"""Every record that there can be, by its values."""


@lru_cache
def largest_square(epsilon, delta):
    """Mu squared of the Gaussian that is exactly (epsilon, delta): Balle and Wang, 2018, Theorem 8."""

    def excess(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 1e-3, 10.0, xtol=1e-13) ** 2


@dataclass
class Kept:
    """A charge as the oracle keeps it."""

    dataset: str
    release: str
    spec: dict
    mu: float
    part: tuple | None
    state: str = "RESERVED"
    check: str | None = None
    output: str | None = None


EVERY = ("part", "BUDGET", "RESERVED", "COMMITTED", "RELEASED", "VOID", "exhausted", "conflict", "underpaid")
seen = Counter()
"""How often each happened, so that a search that tries nothing fails."""


class Machine(RuleBasedStateMachine):
    """The ledger beside its oracle."""

    new_url = None

    @initialize()
    def open(self):
        self.ledger = Ledger(type(self).new_url())  # each call reads anew what is stored, through a new connection
        self.caps, self.charges, self.kinds = {}, {}, []
        self.grant("people", 0.9)
        self.reserve("people", "1", {"version": 1}, 0.11, None)

    def active(self, dataset):
        return [kept for kept in self.charges.values() if kept.dataset == dataset and kept.state != "VOID"]

    def squares(self, dataset, more=()):
        """For each record that there can be, mu squared of each charge that it is in."""
        charges = [(kept.mu, kept.part) for kept in self.active(dataset)] + list(more)
        return [[mu**2 for mu, part in charges if part is None or unit[part[0]] == part[1]] for unit in UNITS]

    def holds(self, dataset, epsilon, more=()):
        """Whether a budget holds what each record is in; a single charge may use what is kept back from several."""
        squares = self.squares(dataset, more)
        largest, most = max(map(sum, squares)), max(map(len, squares))
        alone = most == 1 and largest <= largest_square(epsilon, DELTA) * (1 - 1e-7)
        return alone or largest <= largest_square(epsilon, DELTA * (1 - SLACK))

    @rule(dataset=DATASETS, epsilon=st.sampled_from([0.3, 0.9, 2.0]))
    def grant(self, dataset, epsilon):
        allowed = self.holds(dataset, epsilon)
        try:
            self.ledger.set_budget(dataset, epsilon, DELTA, Neighbours.ADD_REMOVE, UNIT)
        except LedgerError:
            assert not allowed
            assert self.kinds
        else:
            assert allowed
            self.caps[dataset] = epsilon
            self.kinds.append("BUDGET")

    @rule(dataset=DATASETS, night=NIGHTS, spec=SPECS, mu=MUS, part=PARTS)
    def reserve_more(self, dataset, night, spec, mu, part):
        """Again, so that most runs reserve."""
        self.reserve(dataset, night, spec, mu, part)

    @rule(dataset=DATASETS, night=NIGHTS, spec=SPECS, mu=MUS, part=PARTS)
    def reserve(self, dataset, night, spec, mu, part):
        release = f"{dataset}/covariance/{night}"
        known = [(name, kept) for name, kept in self.charges.items() if kept.release == release]
        known = [(name, kept) for name, kept in known if kept.state != "VOID"]
        try:
            charge = reserve(self.ledger, night, dataset=dataset, spec=spec, mu=mu, part=part)
        except BudgetExhausted:
            seen["exhausted"] += 1
            assert not known
            assert not self.holds(dataset, self.caps[dataset], [(mu, part)])
        except ReleaseConflict:
            seen["conflict"] += 1
            assert known
            assert known[0][1].spec != spec
        except LedgerError:
            # The same release at a higher cost, or of more records: somebody else wrote its reservation.
            assert dataset not in self.caps or (known and (known[0][1].mu < mu or known[0][1].part not in (None, part)))
            seen["underpaid"] += bool(known)
        else:
            if known:
                assert known[0][1].mu >= mu
                assert known[0][1].part in (None, part)
                assert (charge.charge_id, charge.is_new) == (known[0][0], False)
                assert known[0][1].spec == spec
            else:
                assert charge.is_new
                assert self.holds(dataset, self.caps[dataset], [(mu, part)])
                self.charges[charge.charge_id] = Kept(dataset, release, spec, mu, part)
                self.kinds.append("RESERVED")
                seen["part"] += part is not None

    def chosen(self, data):
        return data.draw(st.sampled_from(list(self.charges)))

    @rule(data=st.data(), check=st.sampled_from(["one", "two"]))
    def commit(self, data, check):
        name = self.chosen(data)
        kept = self.charges[name]
        try:
            charge = self.ledger.commit(name, check)
        except LedgerError:
            assert kept.state == "VOID"
            return
        assert kept.state != "VOID"
        if kept.state == "RESERVED":
            kept.state, kept.check = "COMMITTED", check
            self.kinds.append("COMMITTED")
        assert (charge.state, charge.key_check) == (kept.state, kept.check)

    @rule(data=st.data())
    def void(self, data):
        name = self.chosen(data)
        kept = self.charges[name]
        assert self.ledger.void_if_reserved(name, "reason") is (kept.state in ("RESERVED", "VOID"))
        if kept.state == "RESERVED":
            kept.state = "VOID"
            self.kinds.append("VOID")

    @rule(data=st.data(), output=st.sampled_from(["x", "y"]))
    def released(self, data, output):
        name = self.chosen(data)
        kept = self.charges[name]
        allowed = kept.state == "COMMITTED" or (kept.state == "RELEASED" and kept.output == output)
        try:
            assert self.ledger.released(name, output, "place").state == "RELEASED"
        except LedgerError:
            assert not allowed
            return
        assert allowed
        if kept.state == "COMMITTED":
            kept.state, kept.output = "RELEASED", output
            self.kinds.append("RELEASED")

    @invariant()
    def the_books_agree(self):
        assert [entry.kind for entry in self.ledger.history()] == self.kinds
        for dataset in self.caps:
            status = self.ledger.budget(dataset)
            active = self.active(dataset)
            assert (status.epsilon, status.charges) == (self.caps[dataset], len(active))
            assert status.spent_mu == pytest.approx(math.sqrt(max(map(sum, self.squares(dataset)))))
            assert status.spent.epsilon(DELTA) <= status.epsilon

    def teardown(self):
        assert self.ledger.verify().problems == []
        seen.update(self.kinds)


def explore(new_url, examples, steps):
    machine = type("ThisMachine", (Machine,), {"new_url": staticmethod(new_url)})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),  # making a failure smaller would take longer than the search
        suppress_health_check=list(HealthCheck),
    )
    seen.clear()
    run_state_machine_as_test(machine, settings=chosen)
    assert min(seen[kind] for kind in EVERY) > 0, seen


def test_any_order_of_calls_on_sqlite(tmp_path):
    names = iter(range(10**6))
    explore(lambda: f"sqlite:///{tmp_path / f'{next(names)}.db'}", 8, 25)


@pytest.mark.slow
def test_any_order_of_calls_on_postgres(postgres):
    explore(lambda: postgres.url(postgres.new_database()), 6, 20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_any_order_of_calls_at_length_on_sqlite(tmp_path):
    names = iter(range(10**6))
    explore(lambda: f"sqlite:///{tmp_path / f'{next(names)}.db'}", 75, 50)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_any_order_of_calls_at_length_on_postgres(postgres):
    explore(lambda: postgres.url(postgres.new_database()), 15, 50)
