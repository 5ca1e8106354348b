"""The choice between steps and a covariance: by public numbers, and as it was measured."""

import pytest

from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.gradients.routes import ALIKE, route
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.public import weights
from tests.pipeline.kinds.gradients.test_training import HIDDEN, NIGHT
from tests.pipeline.releases.test_training_steps import training

MU_OF_ONE = 0.268
"""Loss of epsilon 1 at delta 1e-5."""

# Records, features, classes, mu, and shares of right predictions by a covariance and by steps, as docs/training.md has.
MEASURED = [
    (500, 105, 2, MU_OF_ONE, 0.763, 0.777),
    (1000, 105, 2, MU_OF_ONE, 0.764, 0.811),
    (4000, 105, 2, MU_OF_ONE, 0.807, 0.836),
    (16000, 105, 2, MU_OF_ONE, 0.834, 0.839),
    (16000, 105, 2, 0.925, 0.843, 0.839),
    (1437, 64, 10, MU_OF_ONE, 0.546, 0.912),
    (1437, 64, 10, 0.925, 0.832, 0.943),
    (1437, 128, 10, MU_OF_ONE, 0.802, 0.893),
]


@pytest.mark.parametrize(("records", "features", "classes", "mu", "covariance", "steps"), MEASURED)
def test_the_way_that_is_chosen_was_no_more_than_half_a_point_worse(records, features, classes, mu, covariance, steps):
    found = route(records, features, classes, mu, 80)
    taken, other = (covariance, steps) if found.covariance else (steps, covariance)
    assert taken >= other - 0.005
    assert found.learnt == pytest.approx(records * mu / features)
    assert found.sentence.startswith("a covariance" if found.covariance else "steps")


def test_a_choice_says_how_many_steps_paid_where_others_are_declared_and_where_little_is_learnt():
    assert "steps paid there" not in route(1000, 100, 2, 1.0, 100).sentence
    assert "about 100 steps paid there" in route(1000, 100, 2, 1.0, 10).sentence
    assert "about 5 steps paid there" in route(20, 100, 2, 1.0, 100).sentence
    assert "little was learnt at 1.3 already" in route(20, 100, 2, 1.0, 5).sentence
    assert route(100 * ALIKE, 100, 2, 1.0, 200).covariance
    assert not route(100 * ALIKE, 100, 3, 1.0, 200).covariance


def test_a_plan_names_the_way_of_a_linear_classifier_alone(tmp_path):
    def said(folder, **asked):
        folder.mkdir()
        return dict(describe(make_plan(load_config(training(folder, **asked)), NIGHT), None)).get("Route")

    plan = make_plan(load_config(training(tmp_path)), NIGHT)
    assert f"1,500 records times mu {plan.design.loss.mu:.3g} over 3 features" in said(tmp_path / "linear")
    number = 'loss = "squared"\ntarget = { name = "y", lower = 0, upper = 1 }\n'
    assert said(tmp_path / "number", model=number) is None
    start = weights.random(weights.shapes(4, (4,), 3), seed=1)
    pin = str(tmp_path / "start.npz"), weights.save(start, tmp_path / "start.npz")
    assert said(tmp_path / "hidden", model=HIDDEN, pin=pin) is None
