"""A release states all stages of its night in one file, of which a reader takes so many bytes."""

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import outputs
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.kinds.quantiles.test_quantile_stages import staged
from tests.pipeline.releases.test_learning_stages import attributes, learning
from tests.pipeline.releases.test_release import NIGHT, no_trace, quiet, run, spent


def test_shapes_in_a_file_that_no_reader_would_open_are_refused_before_anything_is_committed(tmp_path, monkeypatch):
    for folder in ("measured", "refused"):
        (tmp_path / folder).mkdir()
    size = (run(learning(tmp_path / "measured")).path / "zarr.json").stat().st_size
    loaded = learning(tmp_path / "refused")
    monkeypatch.setattr(outputs, "_MORE", 0)
    monkeypatch.setattr(outputs, "MOST_METADATA", size)
    with pytest.raises(ConfigError, match=r"learn with 3 features.*\n?.*Declare fewer features"):
        run(loaded)
    assert spent(loaded) == 0.0
    no_trace(loaded)
    monkeypatch.setattr(outputs, "MOST_METADATA", 2 * size)
    assert attributes(run(loaded))["learned"]["domain"] == "ellipsoid"


def test_stages_of_quantiles_that_no_reader_would_open_are_refused_by_what_their_config_can_change(
    tmp_path, monkeypatch
):
    loaded = staged(tmp_path)
    monkeypatch.setattr(outputs, "MOST_METADATA", 1000)
    with pytest.raises(ConfigError, match=r"stages of 3 features.*\n?.*Declare fewer features") as refused:
        run(loaded)
    assert "learn out" not in str(refused.value)
    assert spent(loaded) == 0.0


def test_a_night_that_declares_its_shape_is_not_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "MOST_METADATA", 1)
    assert run_release(make_plan(support.prepare(tmp_path), NIGHT), ThreadCompute(1), "test", quiet).path.exists()
