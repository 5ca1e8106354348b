"""Every kind of release, from its config to its files, uses no block of its key stream twice, and each its own key."""

from contextlib import contextmanager
from datetime import date
from unittest import mock

import pytest

import blockveil.engine.estimates.simulated  # noqa: F401 - makes its public key, which is not to be recorded
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.testing.recording import RecordingKey, check_asked_once
from tests.house import shipped, support
from tests.pipeline.kinds.counts import test_workloads as workloads
from tests.pipeline.kinds.histograms import test_column_histograms as column_histograms
from tests.pipeline.kinds.marginals import test_marginals as marginals
from tests.pipeline.kinds.quantiles import test_quantiles as quantiles
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases import test_continual as growing
from tests.pipeline.releases import test_directions_release as directions

NIGHT = date(2026, 11, 20)


@contextmanager
def recorded():
    """Keys that are derived meanwhile, by their context."""
    found, derive, of_stage = {}, NoiseKey.derive, NoiseKey.of_stage

    def recording(secret, context):
        plain = derive(secret, context)
        assert isinstance(plain, NoiseKey)
        return found.setdefault((secret, context), RecordingKey(plain._secret))

    def recording_stage(key, context):
        return found.setdefault((key._secret, context), RecordingKey(of_stage(key, context)._secret))

    with mock.patch.object(NoiseKey, "derive", recording), mock.patch.object(NoiseKey, "of_stage", recording_stage):
        yield found


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


TRAINED = "train-model"
"""Draws rows of one tile step by step: each step reads the tile's stretch, and keeps its own rows alone."""

STAGES = {"quickstart": 4, "quantiles": 2}
"""Draws of nights that learn, each under a key of its own that is derived from the committed one."""


@pytest.mark.parametrize("name", [name for name in shipped.names() if name != TRAINED])
def test_every_shipped_config_asks_for_each_block_once(name, monkeypatch):
    with recorded() as keys:
        monkeypatch.setattr(shipped, "pinned_key", lambda: mock.patch.object(shipped, "NIGHT", NIGHT))
        shipped.digests(name)
    used = [key for key in keys.values() if key.asked]
    assert len(used) == STAGES.get(name, 1)
    for key in used:
        check_asked_once(key.asked)


def test_the_steps_of_a_training_draw_each_entry_once_and_under_one_key(monkeypatch):
    drawn, release_ = [], NoiseDesign.release

    def release(self, key, exact, block=None):
        drawn.append(block)
        return release_(self, key, exact, block)

    monkeypatch.setattr(NoiseDesign, "release", release)
    with recorded() as keys:
        monkeypatch.setattr(shipped, "pinned_key", lambda: mock.patch.object(shipped, "NIGHT", NIGHT))
        shipped.digests(TRAINED)
    assert len(keys) == 1
    assert all(columns == (0, 24) for _, columns in drawn)
    assert sorted(row for rows, _ in drawn for row in range(*rows)) == list(range(60))


def dawa(folder):
    folder.mkdir()
    query = workloads.LINE.format(workload='"ranges"', columns=32)
    support.write_records(folder, support.records()[:, :1] / 120.0)
    loaded = queries.config(folder, query, neighbours="add-remove", mechanism='kind = "dawa"\npartition_share = 0.25')
    support.set_budget(loaded, 40.0)
    return loaded


def hierarchy(folder):
    folder.mkdir()
    support.write_records(folder, support.records()[:, :1] / 120.0)
    query = workloads.LINE.format(workload='"ranges"', columns=300)
    loaded = queries.config(folder, query, mechanism=workloads.MECHANISMS["laplace hierarchy"])
    support.set_budget(loaded, 40.0)
    return loaded


def drawn(folder):
    folder.mkdir()
    support.write_records(folder, directions.VALUES)
    loaded = directions.config(folder, 'kind = "exponential"')
    support.set_budget(loaded, 5.0)
    return loaded


def moments(kind):
    def prepare(folder):
        folder.mkdir()
        return support.prepare(folder, kind=kind)

    return prepare


def with_a_diagonal(folder):
    """Noise of which all entries of the diagonal share some."""
    folder.mkdir()
    support.write_records(folder, support.records(100))
    path = support.write_config(folder, kind="second-moment")
    text = path.read_text()
    start, end = text.index("[mechanism]"), text.index("[compute]")
    path.write_text(text[:start] + '[mechanism]\nkind = "box-diagonal"\n\n' + text[end:])
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def asked(query):
    def prepare(folder):
        folder.mkdir()
        return queries.prepare(folder, query, queries.records(query))

    return prepare


def few_entries(query):
    def prepare(folder):
        folder.mkdir()
        return queries.prepare(folder, query, queries.records(query), mechanism='kind = "k-norm"')

    return prepare


def histograms(folder):
    folder.mkdir()
    return column_histograms.asked(folder)


def tables(folder):
    folder.mkdir()
    return marginals.asked(folder)


KINDS = {
    "covariance, count and mean": moments("covariance"),
    "second moment": moments("second-moment"),
    "second moment with a diagonal of its own": with_a_diagonal,
    "rows": asked(queries.ROWS),
    "rows by their largest entry": few_entries(queries.ROWS),
    "outer products": asked(queries.OUTER),
    "counts": asked(queries.COUNTS),
    "totals": asked(queries.ROWS.replace('"rows"', '"totals"')),
    "histograms": histograms,
    "quantiles": asked(quantiles.FOUR),
    "tables by residuals": tables,
    "dawa": dawa,
    "workload by a hierarchy": hierarchy,
    "directions": drawn,
}


@pytest.mark.parametrize("prepare", KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_release_asks_for_each_block_once(tmp_path, prepare):
    loaded = prepare(tmp_path / "one")
    with recorded() as keys:
        run(loaded)
    (key,) = keys.values()
    check_asked_once(key.asked)


def test_two_nights_that_are_charged_alone_have_two_keys(tmp_path):
    loaded = support.prepare(tmp_path, epsilon=0.5)
    with recorded() as keys:
        run(loaded)
        run(loaded, date(2026, 11, 21))
    assert len(keys) == 2
    assert len({key._secret for key in keys.values()}) == 2
    assert len({context for _, context in keys}) == 2


def test_nights_that_share_a_charge_have_a_key_each_and_ask_for_each_block_once(tmp_path):
    loaded = growing.prepare(tmp_path)
    with recorded() as keys:
        for number in (1, 2, 4):
            growing.grow(tmp_path, 100 * number)
            growing.run(loaded, number)
            growing.run(loaded, number)
    assert len({key._secret for key in keys.values()}) == len({context for _, context in keys}) == 3
    for key in keys.values():
        check_asked_once(key.asked)
