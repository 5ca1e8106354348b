"""The stage from which errors of coefficients follow: whatever of it is not as stated is found by the release alone."""

import copy

import numpy as np
import pytest
import zarr

from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.stated_fisher import FisherCheck
from blockveil.pipeline.verification.verified import verify
from tests.pipeline.releases.test_fisher_step import with_errors
from tests.pipeline.releases.test_training_steps import release


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Attributes and arrays of a training with errors."""
    outcome = release(with_errors(tmp_path_factory.mktemp("trained")))
    group = zarr.open_group(outcome.path, mode="r")
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    return group.attrs.asdict(), {name: array[...] for name, array in group.arrays()}


def failure(stated, arrays):
    try:
        return FisherCheck(stated, arrays).failure()
    except (OtherArray, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return str(problem)


def scaled(table, key, factor):
    table[key] *= factor


def stage(stated, part="mechanism"):
    return stated["mechanism"]["fisher"][part]


def geometry(stated):
    return stage(stated, "query")["geometry"]


FORGED = {
    "less noise": lambda stated, _: scaled(stage(stated), "scale", 0.9),
    "a smaller sensitivity": lambda stated, _: scaled(stage(stated), "sensitivity", 0.9),
    "a smaller loss": lambda stated, _: scaled(stage(stated)["loss"], "mu", 0.9),
    "less noise in the steps": lambda stated, _: scaled(stated["mechanism"], "scale", 0.9),
    "a promise without the stage": lambda stated, _: scaled(stated["guarantee"]["loss"], "mu", 0.6**0.5),
    "a promise without the steps": lambda stated, _: scaled(stated["guarantee"]["loss"], "mu", 0.4**0.5),
    "a sampler that is nearer": lambda stated, _: scaled(stated["guarantee"]["loss"], "total_variation", 0.5),
    "a smaller ball": lambda stated, _: scaled(geometry(stated), "radius", 0.9),
    "another centre": lambda stated, _: geometry(stated)["features"][2].update(origin=0.1),
    "another name": lambda stated, _: geometry(stated)["features"][2].update(name="score 9"),
    "another shape": lambda stated, _: geometry(stated).update(kind="box"),
    "another query": lambda stated, _: stage(stated, "query").update(kind="second-moment"),
    "fewer records": lambda stated, _: scaled(stage(stated, "query"), "rows_at_most", 0.5),
    "no declared share": lambda stated, _: stated["query"]["training"].pop("errors_share"),
    "another matrix": lambda stated, _: stated["mechanism"]["fisher"].update(matrix="count"),
    "exact scores": lambda _, arrays: arrays.update(fisher_mean=arrays["fisher_mean"] * (1 + 1e-6)),
    "an exact matrix": lambda _, arrays: arrays.update(fisher_second_moment=arrays["fisher_second_moment"] + 1e-6),
    "smaller errors": lambda _, arrays: scaled(arrays, "fisher_second_moment_standard_deviation", 0.9),
    "one array less": lambda _, arrays: arrays.pop("fisher_count"),
    "one array more": lambda _, arrays: arrays.update(fisher_secret=np.zeros(3)),
}


def test_what_was_released_holds(released):
    assert failure(*released) is None
    assert FisherCheck(*released).there
    assert not any(name.startswith("fisher") for name in FisherCheck(*released).others)


@pytest.mark.parametrize("mechanism", [None, 7, "fisher", ["fisher"]])
def test_a_mechanism_that_is_none_states_no_stage(released, mechanism):
    assert not FisherCheck({**released[0], "mechanism": mechanism}, released[1]).there


@pytest.mark.parametrize("forged", FORGED)
def test_what_is_not_as_stated_is_found(released, forged):
    stated, arrays = copy.deepcopy(released[0]), {name: np.array(array) for name, array in released[1].items()}
    FORGED[forged](stated, arrays)
    assert failure(stated, arrays) is not None
