"""A night that learns its shape under audit: a unit moves all stages together as far as is charged, and no further."""

from dataclasses import replace

import pytest

from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.study.replay import replay
from tests.pipeline.releases.test_learning_stages import learning
from tests.pipeline.releases.test_release import NIGHT, quiet


@pytest.mark.parametrize("aim", ["correlation", "covariance", "mean"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_neighbours_differ_in_all_stages_by_what_is_charged_for_them(tmp_path, aim, neighbours):
    plan = make_plan(learning(tmp_path, aim, neighbours=neighbours), NIGHT)
    found = replay(plan, ThreadCompute(1), quiet, draws=False)
    assert not found.refutations
    assert found.share > 0.97


@pytest.mark.parametrize("stage", ["pilot", "rings"])
def test_a_charge_that_forgets_a_stage_is_refuted(tmp_path, stage):
    plan = make_plan(learning(tmp_path), NIGHT)
    stages = plan.designed.learning
    forgotten = {"pilot": stages.pilot, "rings": stages.rings.design}[stage].loss.mu
    less = replace(plan.charge, mu=(plan.charge.mu**2 - forgotten**2) ** 0.5)
    found = replay(replace(plan, charge=less), ThreadCompute(1), quiet, draws=False)
    assert any("as far as its charge allows" in claim for claim in found.refutations)
