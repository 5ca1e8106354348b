"""What a guess reaches: against the accountant of another project, and against attackers who play it out."""

import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from scipy.special import ndtr

from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.pipeline.budget.filter import LOSS_TICK, NOTHING, Accountant, Cap, Ticks
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.ledger import BudgetStatus, guessing
from blockveil.pipeline.ledger.grants import Grant
from blockveil.pipeline.ledger.guessing import Together, percent


def status(cap, *losses):
    """A budget that holds charges."""
    tally = Tally()
    for loss in losses:
        tally.add(tally.book(cap, loss, None))
    return BudgetStatus("people", Grant(cap, Neighbours.ADD_REMOVE, "one person"), tally)


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.2367, 0.0), (1.3, 0.0), (0.0, 1.0), (0.7, 0.5), (0.05, 3.0), (2.0, 0.01), (4.0, 2.0)]
)
def test_a_bound_is_that_of_the_privacy_loss_distributions_of_another_project(mu, epsilon):
    """A guess at even odds is right half of one plus the delta at an epsilon of zero."""
    parts = []
    if mu:
        parts.append(privacy_loss_distribution.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-4))
    if epsilon:
        parts.append(
            privacy_loss_distribution.from_randomized_response(
                1.0 - math.tanh(epsilon / 2.0), 2, value_discretization_interval=1e-4
            )
        )
    whole = parts[0] if len(parts) == 1 else parts[0].compose(parts[1])
    oracle = 0.5 * (1.0 + whole.get_delta_for_epsilon(0.0))
    assert guessing.with_loss(Loss(mu, epsilon, 0.0)) == pytest.approx(oracle, abs=3e-4)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.2367, 0.0), (0.7, 0.5), (0.05, 3.0), (3.0, 1.0), (1e-3, 1e-3)])
def test_a_bound_is_the_integral_of_the_likelier_density_to_twenty_digits(mu, epsilon):
    """Direct integration of max(P, Q) over a normal variable and a randomised answer, which shares nothing with it."""
    with mpmath.workdps(30):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        pdf = lambda x, at: mpmath.exp(-((x - at) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi)  # noqa: E731

        def best(x, chance):
            return max(chance * pdf(x, mu), (1 - chance) * pdf(x, 0))

        # Points where the two densities cross, and a grid that holds all of their mass.
        edges = sorted({-14, 14 + mu, 0, mu, *(mu / 2 + s * epsilon / mu for s in (-1, 1) if abs(epsilon / mu) < 13)})
        total = sum(mpmath.quad(lambda x, c=c: best(x, c), edges) for c in (p, 1 - p)) / 2
        found = guessing.with_loss(Loss(mu, epsilon, 0.0))
    assert float(total) <= found <= float(total) + 1e-12


def test_the_sum_of_releases_is_what_an_accountant_of_another_project_makes_of_them():
    """Nine releases of the documentation's example, composed there one by one."""
    cap, loss = Cap(3.0, 1e-5), Loss(0.2367044, 0.0, 1e-25)
    full = status(cap, *[loss] * 9)
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0 / loss.mu), 9))
    oracle = 0.5 * (1.0 + accountant.get_delta(0.0))
    found = Together.of(full)
    assert found.so_far == pytest.approx(oracle, abs=3e-4)
    assert found.so_far <= found.allowed <= found.cap
    # What README and the accounting page say.
    assert [percent(guessing.with_loss(loss)), percent(found.allowed), percent(found.cap)] == [
        "54.8 %",
        "64.1 %",
        "95.3 %",
    ]


def test_no_attacker_who_chooses_releases_by_outcomes_is_right_more_often():
    """Steps of either kind, chosen in view of the loss so far; the best choice is found by going back from the end.

    The value of a state is what the likeliest data set wins from there, on a fine grid of losses.
    """
    mu_step, e_step, gaussians, pures = 0.35, 0.4, 3, 3
    losses = np.linspace(-16, 16, 6401)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def pure(value, epsilon):
        """Mean over a randomised answer under the data set in hand."""
        likely = 1.0 / (1.0 + math.exp(-epsilon))
        right, wrong = (np.interp(losses + step, losses, value) for step in (epsilon, -epsilon))
        return likely * right + (1.0 - likely) * wrong

    def gaussian(value):
        """The same over a normal variable."""
        shifts = mu_step * mu_step / 2.0 + mu_step * nodes
        return sum(w * np.interp(losses + s, losses, value) for w, s in zip(weights, shifts, strict=True))

    @np.vectorize
    def distance(loss):
        return max(0.0, 1.0 - math.exp(-loss))

    best = {(0, 0): distance(losses)}
    for left in range(1, gaussians + pures + 1):
        for g in range(max(0, left - pures), min(gaussians, left) + 1):
            p = left - g
            choices = [distance(losses)]  # to stop here
            choices += [gaussian(best[g - 1, p])] if g else []
            choices += [pure(best[g, p - used], used * e_step) for used in range(1, p + 1)]
            best[g, p] = np.max(choices, axis=0)
    reached = 0.5 * (1.0 + float(np.interp(0.0, losses, best[gaussians, pures])))
    bound = guessing.with_loss(Loss(mu_step * math.sqrt(gaussians), e_step * pures, 0.0))
    assert abs(bound - reached) < 5e-5, (
        "the grid errs by less; to spend each kind at once is best, and reaches the bound"
    )
    loose = 1.0 - (1.0 - (2 * guessing.with_loss(Loss(mu_step * math.sqrt(3), 0, 0)) - 1)) * (1.0 - math.tanh(0.6))
    assert bound < 0.5 * (1.0 + loose)


def test_whoever_stops_because_of_an_outcome_is_bounded_by_the_cap_and_not_by_what_is_spent_then():
    """The accounting page says so: after one release of two, where the loss exceeds a half, else after both."""
    mu, further = 0.5, 1.2
    at = [(sign * 0.5 + mu * mu / 2.0) / mu for sign in (1.0, -1.0)]
    right = 0.5 * (ndtr(mu - at[0]) + ndtr(at[1]))
    stopped = right + 0.5 * (ndtr(-at[0]) + ndtr(at[1] - mu))
    assert right / stopped > guessing.with_loss(Loss(mu, 0.0, 0.0)) + 0.08
    # Over all outcomes: the likelier data set is right by the mean of its probability, for those who go on as well.
    drawn = np.linspace(at[1], at[0], 20001)
    both = [np.exp(-0.5 * (drawn - centre) ** 2) / math.sqrt(2.0 * math.pi) for centre in (mu, 0.0)]
    loss = mu * drawn - mu * mu / 2.0
    lead = (loss / further, -loss / further)
    later = 0.5 * sum(p * ndtr(further / 2.0 + ahead) for p, ahead in zip(both, lead, strict=True))
    step = drawn[1] - drawn[0]
    over_all = right + float(np.sum(later) - 0.5 * (later[0] + later[-1])) * step
    assert over_all <= guessing.with_loss(Loss(math.hypot(mu, further), 0.0, 0.0))
    page = (Path(__file__).parents[3] / "docs" / "accounting.md").read_text()
    assert "Whoever stops because of what they saw is right more often than the bound for what is spent by then" in page


@pytest.mark.parametrize("accountant", list(Accountant))
@pytest.mark.parametrize("reserve", [0.0, 0.5])
@pytest.mark.parametrize("first", [Loss(0.2, 0.0, 1e-25), Loss(0.0, 0.3, 1e-25), Loss(0.1, 0.2, 1e-25)])
def test_whatever_a_budget_still_takes_stays_below_what_it_is_said_to_allow(accountant, reserve, first):
    cap = Cap(2.0, 1e-5, reserve=reserve, accountant=accountant)
    steps = (Loss(0.3, 0.0, 1e-25), Loss(0.0, 0.1, 1e-25), Loss(0.02, 0.01, 1e-25))
    empty = Together.of(status(cap))
    assert empty.so_far == 0.5
    assert empty.allowed == empty.cap
    opened = status(cap, first)
    if not cap.holds(opened.spent, 1):
        pytest.skip("this budget does not hold it")
    promised = Together.of(opened).allowed
    for path in ([step] * 400 for step in steps):
        tally = Tally()
        tally.add(opened.spent)
        for step in path:
            booked = tally.book(cap, step, None)
            if not cap.holds(tally.total.ticks + booked):
                break
            tally.add(booked)
        assert guessing.with_ticks(tally.total.ticks, accountant) <= promised + 1e-12 <= empty.cap + 2e-12


def test_a_budget_that_a_gaussian_release_has_opened_allows_less_than_its_epsilon_says():
    cap, loss = Cap(3.0, 1e-5), Loss(0.2367044, 0.0, 1e-25)
    assert Together.of(status(cap), loss) == Together.of(status(cap, loss))
    assert Together.of(status(cap, loss)).allowed == pytest.approx(0.6404, abs=1e-4)
    pure = Together.of(status(cap, Loss(0.0, 1.0, 1e-25)))
    assert pure.so_far == pytest.approx(1.0 / (1.0 + math.exp(-1.0)), abs=1e-9)
    assert pure.allowed == pytest.approx(1.0 / (1.0 + math.exp(-3.0)), abs=1e-6), (
        "pure losses may follow up to epsilon 3"
    )


def test_a_budget_that_was_lowered_is_not_said_to_allow_less_than_what_is_spent():
    spent = status(Cap(3.0, 1e-5), *[Loss(0.2367044, 0.0, 1e-25)] * 9)
    lowered = BudgetStatus("people", Grant(Cap(0.1, 1e-5), Neighbours.ADD_REMOVE, "one person"), spent.tally)
    found = Together.of(lowered)
    assert found.cap < found.so_far
    assert found.allowed >= found.so_far


def test_failures_and_samplers_count():
    quiet, failing = Ticks(2**40, 0), Ticks(2**40, 0, 0, 2**55)
    assert guessing.with_ticks(failing) - guessing.with_ticks(quiet) == pytest.approx(0.5 * 2.0**55 / 2.0**62, rel=1e-6)
    plain, distant = Loss(1.0, 0.0, 0.0), Loss(1.0, 0.0, 0.01)
    assert guessing.with_loss(distant) - guessing.with_loss(plain) == pytest.approx(0.01)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.3, 2.0, 50.0])
def test_a_budget_in_rho_is_never_said_to_allow_less_than_gaussian_noise_of_that_rho(rho):
    mu = math.sqrt(2.0 * rho)
    ticks = Ticks(math.ceil(Fraction(mu) ** 2 / LOSS_TICK), 0)
    bound = guessing.with_ticks(ticks, Accountant.ZCDP)
    assert guessing.with_ticks(ticks) <= bound <= 1.0
    assert bound <= 0.5 + 0.5 * math.sqrt(rho / 2.0) + 1e-9


def test_an_epsilon_and_a_delta_allow_what_randomised_response_with_a_failure_reaches():
    promise = ApproxDP(3.0, 1e-2)
    failing = promise.delta + (1.0 - promise.delta) / (1.0 + math.exp(-promise.epsilon))
    assert guessing.with_promise(promise) == pytest.approx(failing, rel=1e-12)


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (0.5, "50.0 %"),
        (0.548, "54.8 %"),
        (0.54801, "54.9 %"),
        (0.9, "90.0 %"),
        (0.9526, "95.3 %"),
        (1.0 / (1.0 + math.exp(-10.0)), "99.996 %"),
        (0.99999, "99.999 %"),
        (1.0 - 1e-12, "99.9999999999 %"),
        (1.0, "100 %"),
    ],
)
def test_a_bound_is_rounded_up_and_never_to_certainty(bound, said):
    assert percent(bound) == said
    shown = Fraction(said.removesuffix(" %")) / 100
    assert Fraction(bound) <= shown + Fraction(1, 10**14)


def test_a_large_epsilon_is_answered_with_a_warning_and_a_small_one_is_not():
    assert guessing.warning(10.0, 0.9, "with this release") is None
    said = guessing.warning(10.5, guessing.with_promise(ApproxDP(10.5, 1e-9)), "with this release")
    assert "An epsilon of 10.5 promises little" in said
    assert "may be right 99.998 % of the time" in said
    assert "An epsilon of 1 keeps it to 73.2 %" in said


def test_nothing_spent_is_a_coin():
    assert guessing.with_ticks(NOTHING) == 0.5
