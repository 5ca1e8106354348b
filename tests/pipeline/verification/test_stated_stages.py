"""Stages of a night that learned its shape: whatever of them is not as stated is found by the release alone."""

import copy

import numpy as np
import pytest
import zarr

from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_stages import Stages
from blockveil.pipeline.verification.verified import verify
from tests.house.forged import forged
from tests.pipeline.releases.test_learning_stages import learning
from tests.pipeline.releases.test_release import run


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Attributes and arrays of a night that learned an ellipsoid."""
    outcome = run(learning(tmp_path_factory.mktemp("learned")))
    group = zarr.open_group(outcome.path, mode="r")
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    return group.attrs.asdict(), {name: array[...] for name, array in group.arrays()}


def failure(stated, arrays):
    try:
        return Stages(stated, arrays).failure()
    except (OtherArray, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return str(problem)


def scaled(table, key, factor):
    table[key] *= factor


def stage(stated, name):
    return stated["learned"]["stages"][name]["mechanism"]


def less_lost(arrays, factor):
    """Less is said to be taken of a variance, and its standard error is less to match."""
    taken = arrays["clipped_variance"].copy()
    scaled(arrays, "clipped_variance", np.array([1.0, factor, 1.0]))
    if "covariance" in arrays:
        deviation = arrays["covariance_standard_deviation"].copy()
        changed = np.diagonal(deviation) ** 2 - taken**2 + arrays["clipped_variance"] ** 2
        np.fill_diagonal(deviation, np.sqrt(changed))
        arrays["covariance_standard_deviation"] = deviation


FORGED = {
    "less noise in the pilot": lambda stated, _: scaled(stage(stated, "pilot"), "scale", 0.9),
    "less noise in the rings": lambda stated, _: scaled(stage(stated, "rings"), "scale", 0.9),
    "a smaller sensitivity": lambda stated, _: scaled(stage(stated, "rings"), "sensitivity", 0.9),
    "a smaller loss of a stage": lambda stated, _: scaled(stage(stated, "pilot")["loss"], "mu", 0.9),
    "a promise without the pilots": lambda stated, _: scaled(stated["guarantee"]["loss"], "mu", 0.93**0.5),
    "less noise in the nearer pilot": lambda stated, _: scaled(stage(stated, "nearer_pilot"), "scale", 0.9),
    "bounds of the nearer pilot that another one gave": lambda stated, _: scaled(
        stated["learned"]["stages"]["nearer_pilot"]["query"]["geometry"]["features"][1], "upper", 1.001
    ),
    "no nearer pilot": lambda stated, _: stated["learned"]["stages"].pop("nearer_pilot"),
    "an earlier night": lambda stated, _: stated["learned"].update(earlier={"features": []}),
    "a promise without the rings": lambda stated, _: scaled(stated["guarantee"]["loss"], "mu", 0.98**0.5),
    "a sampler that is nearer": lambda stated, _: scaled(stated["guarantee"]["loss"], "total_variation", 0.5),
    "another radius": lambda stated, _: scaled(stated["learned"], "radius", 1.01),
    "another centre": lambda stated, _: scaled(stated["query"]["geometry"]["features"][0], "origin", 1.001),
    "another axis": lambda stated, _: scaled(stated["query"]["geometry"]["features"][1], "semi_axis", 1.001),
    "narrower bounds": lambda stated, _: scaled(stated["learned"]["declared_geometry"]["features"][1], "upper", 0.5),
    "a box": lambda stated, _: stated["learned"].update(domain="box"),
    "another aim": lambda stated, _: stated["learned"].update({"for": "covariance"}),
    "no rings": lambda stated, _: stated["learned"]["stages"].pop("rings"),
    "exact means": lambda _, arrays: arrays.update(pilot_mean=arrays["pilot_mean"] * (1 + 1e-6)),
    "exact counts": lambda _, arrays: arrays.update(rings_counts=arrays["rings_counts"] + 0.3),
    "less that was lost": lambda _, arrays: less_lost(arrays, 0.5),
    "one array less": lambda _, arrays: arrays.pop("pilot_totals"),
    "one array more": lambda _, arrays: arrays.update(rings_secret=np.zeros(3)),
}


def test_what_was_released_holds(released):
    assert failure(*released) is None


@pytest.mark.parametrize("forged", FORGED)
def test_what_is_not_as_stated_is_found(released, forged):
    stated, arrays = copy.deepcopy(released)
    FORGED[forged](stated, arrays)
    assert failure(stated, arrays) is not None


@pytest.mark.parametrize("name", ["bounds_secret", "ranks_secret"])
def test_an_array_that_is_called_after_a_stage_of_other_nights_is_refuted(released, name):
    stated, arrays = released
    ArrayCheck(stated, Stages(stated, arrays).last).run()
    with pytest.raises(OtherArray, match=name):
        ArrayCheck(stated, Stages(stated, {**arrays, name: np.zeros(3)}).last).run()


def test_a_release_that_does_not_state_its_stages_is_refuted(tmp_path):
    found = verify(forged(run(learning(tmp_path)).path, lambda stated: stated["learned"].pop("stages")))
    assert {each.what: each.holds for each in found.findings}["Stages"] is False


OF_MEANS = {
    "less noise in the pilot": FORGED["less noise in the pilot"],
    "a promise without the rings": FORGED["a promise without the rings"],
    "another radius": FORGED["another radius"],
    "another centre": FORGED["another centre"],
    "another axis": FORGED["another axis"],
    "another aim": FORGED["another aim"],
    "less that was lost": FORGED["less that was lost"],
}


@pytest.fixture(scope="module")
def totals(tmp_path_factory):
    """Attributes and arrays of totals in a learned ellipsoid."""
    outcome = run(learning(tmp_path_factory.mktemp("totals"), "mean"))
    assert {each.what: each.holds for each in verify(outcome.path).findings}["Arrays"]
    group = zarr.open_group(outcome.path, mode="r")
    return group.attrs.asdict(), {name: array[...] for name, array in group.arrays()}


@pytest.mark.parametrize("forged", OF_MEANS)
def test_what_is_not_as_stated_of_totals_is_found(totals, forged):
    assert failure(*totals) is None
    stated, arrays = copy.deepcopy(totals)
    OF_MEANS[forged](stated, arrays)
    assert failure(stated, arrays) is not None
