"""A release of sparse records is the same bits whether its zeros are multiplied or not, and never tells their share."""

import logging
import re
from datetime import date

import numpy as np
import pytest

from blockveil.engine.answers.cost import Machine
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHT = date(2026, 11, 20)
QUERY = """kind = "{kind}"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "box"
origin = "{origin}"
features = [ {{ name = "word", lower = 0, upper = 3, count = 60 }} ]
"""
RNG = np.random.default_rng(8)
VALUES = np.where(RNG.random((400, 60)) < 0.0234, RNG.integers(1, 6, (400, 60)), 0).astype(np.float64)


def config(folder, density=None, *, kind="covariance", origin="midpoint"):
    text = support.CONFIG.format(kind="rows", epsilon=4.0, neighbours="add-remove", cluster='kind = "threads"')
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + QUERY.format(kind=kind, origin=origin) + "\n" + text[end:]
    if density is not None:
        text = text.replace("block_rows = 50", f"block_rows = 50\ndensity_at_most = {density}")
    path = folder / "people.toml"
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("origin", ["midpoint", "zero"])
def test_the_release_and_the_plan_are_the_same_with_and_without_a_declared_density(tmp_path, kind, origin):
    support.write_records(tmp_path, VALUES)
    released, specs = set(), set()
    for density in (None, 0.05, 1.0):
        plan = make_plan(config(tmp_path, density, kind=kind, origin=origin), NIGHT)
        assert plan.question.query.by_entries == (density == 0.05)
        compute, name = ThreadCompute(2), f"sparse-{density}"
        layout = plan.effort.cut(Machine(1, 2, 2**32), 400).layout(400, 50)
        graph = exact_graph(open_records(plan.loaded).source, plan.question.query, layout, 50, name)
        held = compute.hold(graph, lambda _: None)
        compute.install("sparse", NoiseKey(bytes(32)))
        released.add(support.whole(compute, held, layout, plan, "sparse", name).tobytes())
        compute.forget("sparse")
        specs.add(plan.digest)
    assert len(released) == len(specs) == 1


def test_the_plan_tells_what_is_declared_and_a_run_never_the_true_share(tmp_path, caplog):
    support.write_records(tmp_path, VALUES)
    caplog.set_level(logging.DEBUG)
    told = []
    loaded = config(tmp_path, 0.05)
    support.set_budget(loaded, 40.0)
    plan = make_plan(loaded, NIGHT)
    computed = dict(describe(plan, None))["Computed by"]
    assert "with 5 % of the values other than zero only these are multiplied" in computed
    run_release(plan, ThreadCompute(2), "test", lambda *said: told.append(str(said)))
    entries = int(np.count_nonzero(VALUES))
    shown = caplog.text + " ".join(told) + computed
    for secret in (
        str(entries),
        f"{entries:,}",
        f"{entries / VALUES.size:.4f}",
        f"{100 * entries / VALUES.size:.3g} %",
    ):
        # As a number of its own: digits in a row are also found in random hashes.
        assert not re.search(rf"(?<![\w.]){re.escape(secret)}(?!\w)", shown)
    assert "values other than zero" not in dict(describe(make_plan(config(tmp_path), NIGHT), None))["Computed by"]


@pytest.mark.parametrize("density", ["0", "-0.1", "1.5", "nan", '"few"'])
def test_a_density_that_is_none_is_refused(tmp_path, density):
    with pytest.raises(ConfigError, match="density_at_most"):
        config(tmp_path, density)
