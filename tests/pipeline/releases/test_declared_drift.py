"""Nights that warn when the learned shape shortened more records than declared: what is told, and what stays as is."""

import json
import logging

import pytest

from blockveil.flows.runs import artifacts
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.report import error_lines, learned_shape, write_report
from blockveil.pipeline.verification.verified import verify
from tests.house.stopping import Stopped
from tests.pipeline.releases.test_learning_stages import attributes, learning
from tests.pipeline.releases.test_nights_that_learn import learned_from, planned
from tests.pipeline.releases.test_release import NIGHT, bits, charges, run, spent


@pytest.fixture(autouse=True)
def same_noise(monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))


def declaring(loaded, share):
    """The same config with another share, or none."""
    lines = [line for line in loaded.path.read_text().splitlines() if not line.startswith("clipped_share_at_most")]
    if share is not None:
        lines.insert(lines.index('learn = "correlation"') + 1, f"clipped_share_at_most = {share}")
    loaded.path.write_text("\n".join(lines) + "\n")
    return load_config(loaded.path)


def test_a_share_without_a_shape_that_is_learned_is_refused(tmp_path):
    loaded = declaring(learning(tmp_path), 0.05)
    loaded.path.write_text(loaded.path.read_text().replace('learn = "correlation"\n', ""))
    with pytest.raises(ConfigError, match=r"clipped_share_at_most: 0\.05 without learn\. Only[^\n]*\nAdd learn"):
        load_config(loaded.path)


@pytest.mark.parametrize("share", [0, 1, -0.1, 5, '"few"'])
def test_what_is_no_share_is_refused(tmp_path, share):
    with pytest.raises(ConfigError, match="clipped_share_at_most"):
        declaring(learning(tmp_path), share)


def test_it_decides_neither_a_bit_nor_a_charge(tmp_path):
    found, plans = [], []
    for share in (None, 0.001, 0.9):
        folder = tmp_path / str(share)
        folder.mkdir()
        loaded = declaring(learning(folder), share)
        plans.append(make_plan(loaded, NIGHT))
        outcome = run(loaded)
        stated = attributes(outcome)["learned"]
        assert stated.get("clipped_share_at_most") == share
        assert "clipped_share_at_most" not in stated["declared_geometry"]
        found.append((bits(outcome), spent(loaded)))
    assert found[0] == found[1] == found[2]
    assert len({plan.digest for plan in plans}) == 1
    assert "clipped_share_at_most" not in json.dumps(plans[1].public)


def test_a_night_is_begun_and_finished_and_the_next_learns_from_it_with_other_shares(tmp_path):
    loaded = declaring(learning(tmp_path), 0.5)

    class Stopping(ThreadCompute):
        def stream(self, values, consume, progress):
            raise Stopped

    with pytest.raises(Stopped):
        run(loaded, compute=Stopping(2))
    loaded = declaring(loaded, 0.25)
    assert attributes(run(loaded))["learned"]["clipped_share_at_most"] == 0.25
    assert len(charges(loaded)) == 1
    loaded = declaring(loaded, None)
    assert learned_from(loaded) == "people/covariance/2026-11-20"
    assert planned(loaded).digest == planned(declaring(loaded, 0.125)).digest


def test_more_than_the_declared_share_is_told_in_page_lines_and_json_and_fails_nothing(tmp_path):
    outcome = run(declaring(learning(tmp_path, epsilon=3.0), 0.001))
    made = write_report(outcome.path)
    assert made.drift.startswith("The learned ellipsoid shortened ")
    assert "declares 0.1 % at most" in made.drift
    assert f'<p class="warning">{made.drift}</p>' in made.path.read_text()
    assert json.loads(made.data.read_text())["drift"] == made.drift
    assert ("Warning", made.drift) in error_lines(outcome.path)  # which `blockveil run` prints
    assert f"**Warning**: {made.drift}".replace("_", "\\_") in made.summary
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)


@pytest.mark.parametrize("share", [None, 0.5])
def test_nothing_is_told_of_a_share_that_is_not_declared_or_not_exceeded(tmp_path, share):
    outcome = run(declaring(learning(tmp_path), share))
    made = write_report(outcome.path)
    assert made.drift is None
    assert "clipped_share_at_most" not in made.path.read_text()
    assert not any(what == "Warning" for what, _ in error_lines(outcome.path))


@pytest.mark.parametrize(("shortened", "told"), [(0.05, False), (0.0699, False), (0.0701, True), (0.5, True)])
def test_a_share_is_exceeded_by_more_than_two_standard_deviations_of_its_noise(shortened, told):
    stated = {"clipped_share_at_most": 0.05, "clipped_share": shortened, "clipped_share_standard_deviation": 0.01}
    assert (learned_shape.drift({"learned": stated}) is not None) == told


def test_the_log_of_a_run_warns_of_it(tmp_path, monkeypatch, caplog):
    made = write_report(run(declaring(learning(tmp_path, epsilon=3.0), 0.001)).path)
    monkeypatch.setattr(artifacts, "get_run_logger", lambda: logging.getLogger("test"))
    for shown in ("_summary", "_markdown", "_rows"):
        monkeypatch.setattr(artifacts, shown, lambda *_: None)
    with caplog.at_level(logging.WARNING, "test"):
        artifacts.show_report("people/covariance/2026-11-20", made)
    assert caplog.messages == [f"people/covariance/2026-11-20: {made.drift}"]
