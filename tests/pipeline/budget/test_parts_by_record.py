"""Any charges of parts: no record's own charges, composed by another library, exceed what a budget says is spent."""

import itertools
import math
import random
from functools import lru_cache

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.budget.filter import Accountant, Cap
from blockveil.pipeline.budget.parts import Part, Tally

DELTA = 1e-6
GRID = 1e-4
"""Privacy losses are rounded up to this grid by the other library, once for each charge."""
VALUES = {("people", "day"): "abc", ("people", "ward"): "xy", ("cars", "day"): "ab"}
RECORDS = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]
"""Every unit that there can be, by the values of its records."""
PARTS = [None, *(Part(*group, value, "text") for group, values in VALUES.items() for value in values)]
LOSSES = [Loss(0.1, 0.0, 0.0), Loss(0.3, 0.0, 0.0), Loss(0.0, 0.05, 0.0), Loss(0.0, 0.2, 0.0), Loss(0.1, 0.05, 0.0)]


@lru_cache
def gaussian(mu):
    return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=GRID)


@lru_cache
def pure(epsilon):
    return pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=GRID)


def composed(losses):
    """Epsilon of Gaussians and worst pure losses together."""
    mu = math.sqrt(sum(loss.mu**2 for loss in losses))
    found = [gaussian(round(mu, 9))] if mu else []
    found += [pure(loss.epsilon) for loss in losses if loss.epsilon]
    total = found[0]
    for one in found[1:]:
        total = total.compose(one)
    return total.get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize("seed", range(6))
def test_no_record_loses_more_than_is_said_to_be_spent(seed):
    draw = random.Random(seed)
    accountant = Accountant.ZCDP if seed == 5 else Accountant.GAUSSIAN
    cap = Cap(draw.choice([1.0, 2.0]), DELTA, draw.choice([0.0, 0.3]), accountant=accountant)
    tally, charges, refused = Tally(), [], 0
    for _ in range(40):
        if charges and draw.random() < 0.15:
            given_back = charges.pop(draw.randrange(len(charges)))
            tally.add(-given_back[2], given_back[1], -1)
            continue
        loss, part = draw.choice(LOSSES), draw.choice(PARTS)
        ticks = tally.book(cap, loss, part)
        if tally.holds(cap, ticks, part):
            tally.add(ticks, part)
            charges.append((loss, part, ticks))
        else:
            refused += 1
    assert refused
    spent = tally.total.ticks.epsilon(DELTA, accountant)
    assert spent <= cap.epsilon
    truth = []
    for record in RECORDS:
        own = [loss for loss, part, _ in charges if part is None or record[part.dataset, part.column] == part.value]
        truth.append(composed(own) - GRID * len(own) if own else 0.0)
    assert max(truth) <= spent
    assert max(truth) > 0.8 * spent  # what is said is near what is lost, so that the comparison finds what is left out
