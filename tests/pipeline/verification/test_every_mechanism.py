"""Of every mechanism that a config can name, noise, sensitivity and unit are checked from what the release states."""

from datetime import date

import pytest

from blockveil.engine.mechanisms.registry import declarations
from blockveil.pipeline.plan.planning import make_plan
from tests.pipeline.kinds.counts import test_workloads as workloads
from tests.pipeline.kinds.histograms import test_column_histograms as histograms
from tests.pipeline.kinds.marginals import test_marginals as tables
from tests.pipeline.questions import test_ordered_axes as ranges
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.study.test_frozen_outputs import planned
from tests.pipeline.verification.test_verified import (
    altered,
    failing,
    impossible,
    made,
    promised_by,
    releases,
    together,
)

__all__ = ["made", "releases"]  # fixtures

DAY = date(2026, 11, 20)
SECOND_MOMENT, COVARIANCE = (queries.ROWS.replace('"rows"', f'"{kind}"') for kind in ("second-moment", "covariance"))
ALLOCATION = 'allocation = { kind = "uniform" }'


def asked(query, more="", **settings):
    def plan(folder, name):
        mechanism = f'kind = "{name}"\n{more}'
        return make_plan(queries.config(folder, query, mechanism=mechanism, **{"epsilon": 0.5, **settings}), DAY)

    return plan


def counted(more="", **settings):
    def plan(folder, name):
        query = workloads.LINE.replace("{workload}", '"ranges"')
        return make_plan(workloads.config(folder, query, f'kind = "{name}"\n{more}', columns=16, **settings), DAY)

    return plan


AIM = 'optimise_for = "absolute-error"'
ADD = {"neighbours": "add-remove"}
PLANS = {
    "gaussian": asked(SECOND_MOMENT),
    "shaped-gaussian": asked(SECOND_MOMENT, AIM),
    "box-diagonal": asked(SECOND_MOMENT),
    "shaped-diagonal": asked(SECOND_MOMENT, AIM),
    "joint-diagonal": asked(COVARIANCE, AIM, **ADD),
    "laplace": asked(SECOND_MOMENT, AIM),
    "k-norm": asked(queries.ROWS),
    "discrete-laplace": counted(),
    "matrix-mechanism": counted(),
    "hierarchical": counted('noise = "laplace"\nbranching = 3'),
    "residuals": lambda folder, name: make_plan(tables.asked(folder, ranges.QUERY, **ADD), DAY),
    "histogram-residuals": asked(histograms.QUERY, **ADD),
    "exponential": planned,
    "dawa": planned,
    "classic-gaussian": asked(SECOND_MOMENT),
    "mgm": asked(SECOND_MOMENT),
    "imgm": asked(SECOND_MOMENT),
    "mvg": asked(SECOND_MOMENT, f'theorem = 3\nzeta = "published"\n{ALLOCATION}'),
    "mvg-exact": asked(SECOND_MOMENT, ALLOCATION),
    "analyze-gauss": asked(SECOND_MOMENT, **ADD),
    "mod-sulq": asked(SECOND_MOMENT, **ADD),
}
"""A small release by each mechanism, planned and not made."""

PART_OF_THE_NOISE, BY_ARRAYS = {"exponential", "dawa"}, {"matrix-mechanism", "residuals"}
LOWER = {"box-diagonal": 0.95, "shaped-diagonal": 0.95, "laplace": 0.8}
"""Mechanisms of whose sensitivity a lower bound alone is told, and a share of it that is refuted."""


def less(share):
    """Less sensitivity, and as much less noise, so that the loss is what it was."""

    def change(stated):
        for key in ("sensitivity", "scale"):
            stated["mechanism"][key] *= share

    return change


def test_no_mechanism_is_left_out():
    assert set(PLANS) == {each.name for each in declarations() if each.entry.use == "release"}


@pytest.mark.parametrize("name", PLANS)
def test_its_noise_and_unit_are_recomputed_and_another_row_is_found(name, releases, tmp_path):
    plan = PLANS[name](tmp_path, name)
    assert plan.public["calibration"]["mechanism"] == name
    found = altered(releases, promised_by(plan))
    told = None if name in BY_ARRAYS or name in LOWER else True
    assert [each.holds for each in found.findings[2:6]] == [True, True, told, True], found
    assert (found.findings[4].words.partition(":")[0] == "lower bound only") == (name in LOWER)
    if name not in PART_OF_THE_NOISE | BY_ARRAYS:
        assert failing(altered(releases, less(LOWER.get(name, 0.95)))) == ["Sensitivity"]
    more = together(promised_by(plan), impossible("guarantee", "contribution", "charged_rows", 2))
    assert {"Noise", "Unit"} & set(failing(altered(releases, more)))
