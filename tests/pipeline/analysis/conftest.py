"""A release with little noise, made once for all tests of the room."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHT = date(2026, 11, 20)
FEATURES = ("height", "weight", "shoe size", "age")
BOUNDS = ((140.0, 210.0), (40.0, 130.0), (30.0, 50.0), (18.0, 90.0))


@dataclass
class Known:
    """A release and the records that it was made from."""

    release: Release
    records: Any
    folder: Path


def features(names=FEATURES, bounds=BOUNDS):
    listed = ", ".join(
        f'{{ name = "{name}", lower = {low}, upper = {high} }}' for name, (low, high) in zip(names, bounds, strict=True)
    )
    return f"features = [{listed}]"


def config(text):
    """The usual config with another query."""
    whole = support.CONFIG.format(kind="covariance", epsilon=5.0, neighbours="add-remove", cluster='kind = "threads"')
    before, _, rest = whole.partition("[query]")
    return before + text + rest[rest.index("[privacy]") :]


MOMENT = """[query]
kind = "{kind}"
rows_at_most = 10_000
missing = "refuse"

[query.geometry]
kind = "box"
origin = "midpoint"
{features}

"""


def made(folder, text, values):
    """A release of records under a config's text."""
    path = folder / "people.toml"
    path.write_text(text)
    support.write_records(folder, values, chunks=(2000, values.shape[1]))
    loaded = load_config(path)
    support.set_budget(loaded, epsilon=20.0)
    outcome = run_release(make_plan(loaded, NIGHT), ThreadCompute(1), "test", lambda _stage, _share: None)
    return Known(open_(outcome.path), values, folder)


def people(rows=9000):
    rng = np.random.default_rng(8)
    height = rng.normal(172, 9, rows)
    weight = 0.9 * (height - 172) + rng.normal(74, 9, rows)
    shoe = 0.22 * (height - 172) + rng.normal(41, 1.4, rows)
    age = rng.uniform(20, 85, rows)
    low, high = np.array(BOUNDS).T
    return np.clip(np.column_stack([height, weight, shoe, age]), low, high)


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """A covariance of four features with little noise."""
    text = config(MOMENT.format(kind="covariance", features=features()))
    return made(tmp_path_factory.mktemp("known"), text, people())


@pytest.fixture(scope="session")
def second_moment(tmp_path_factory):
    """A second moment of the same records, which has no mean."""
    text = config(MOMENT.format(kind="second-moment", features=features()))
    return made(tmp_path_factory.mktemp("moment"), text, people())


COUNTS = """[query]
kind = "counts"
rows_at_most = 10_000
outside = "drop"
missing = "refuse"
axes = [
  { name = "sex", cells = 2 },
  { name = "age", cells = 3, lower = 0, upper = 90 },
]

"""


@pytest.fixture(scope="session")
def counts(tmp_path_factory):
    """Counts on a grid of two axes."""
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.integers(0, 2, 500), rng.uniform(0, 90, 500)]).astype(np.float64)
    text = config(COUNTS).replace('"shaped-gaussian"\noptimise_for = "relative-error"', '"gaussian"')
    return made(tmp_path_factory.mktemp("counts"), text, values)


@pytest.fixture(scope="session")
def single(tmp_path_factory):
    """A covariance of one feature."""
    text = config(MOMENT.format(kind="covariance", features=features(FEATURES[:1], BOUNDS[:1])))
    return made(tmp_path_factory.mktemp("single"), text, people(500)[:, :1])
