"""A study of sampled steps says what is claimed for them and what is proven."""

import pytest
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.sampling import sampling_findings


def test_the_findings_at_the_papers_own_training():
    found = sampling_findings(ApproxDP(16.983, 1e-5), 256 / 60000, 30, 1e-10)
    assert found.step.epsilon == pytest.approx(5.425, rel=1e-3)
    assert found.amplified.epsilon == pytest.approx(0.6752, rel=1e-3)
    assert found.proven == pytest.approx(4963, rel=1e-3)
    assert sampling_findings(ApproxDP(1.0, 1e-5), 256 / 50000, 30, 1e-10).divided == pytest.approx(190.0, rel=1e-3)


def test_what_proves_nothing_is_said_so():
    found = sampling_findings(ApproxDP(1e300, 0.4), 0.3, 0.3, 0.2)
    assert found.proven is None
    assert found.divided is None
    assert ("Composition", "the same theorem with valid amplification proves nothing") in found.rows()


def test_the_command_prints_both_claims_and_refuses_a_rate_that_is_none():
    command = [
        "study",
        "sampling",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--epochs",
        "30",
        "--slack",
        "1e-10",
        "--sampling-probability",
    ]
    shown = CliRunner().invoke(app, [*command, "0.00512"])
    assert shown.exit_code == 0
    for part in ("R1SMG, (16)", "section 5", "it has 190"):
        assert part in shown.stdout
    found = CliRunner().invoke(app, [*command, "2"])
    assert isinstance(found.exception, ConfigError)
    assert "rate is 2" in str(found.exception)
