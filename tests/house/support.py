"""A small release for tests: records with a planted canary, its config, and a budget."""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import zarr

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.ledger import Ledger, marks
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.releases.charged_steps import Books

CANARY = 271828.182845904
"""A raw value that must never be seen outside the records."""

UNIT = "one person (one row)"
FEATURES = ("age", "income", "debt")

CLUSTERS = {"threads": 'kind = "threads"', "local": 'kind = "local"\nalways_start_workers = true'}
"""What runs the work: threads of the process, or worker processes, however small the work is."""

CONFIG = """
[release]
dataset = "people"
name = "covariance"

[data]
store = "records.zarr"

[query]
kind = "{kind}"
rows_at_most = 10_000
missing = "refuse"

[query.geometry]
kind = "box"
origin = "midpoint"
features = [
  {{ name = "age", lower = 0, upper = 120 }},
  {{ name = "income", lower = 0, upper = 1_000_000 }},
  {{ name = "debt", lower = -500_000, upper = 500_000 }},
]

[privacy]
epsilon = {epsilon}
delta = 1e-6
neighbours = "{neighbours}"
unit = "one person (one row)"

[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"

[compute]
block_rows = 50

[cluster]
{cluster}

[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def records(rows: int = 400) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Records of three features, shape (rows, 3); one of them is the canary."""
    rng = np.random.default_rng(11)
    values = np.column_stack([rng.uniform(18, 90, rows), rng.lognormal(11, 0.5, rows), rng.normal(0, 60_000, rows)])
    values[rows // 2, 1] = CANARY
    return values


def write_records(folder: Path, values: Any, chunks: tuple[int, ...] | None = None) -> Path:
    """Write a Zarr array ``records.zarr/records``."""
    values = np.asarray(values)
    chunks = chunks or tuple(min(50, size) for size in values.shape)
    group = zarr.open_group(folder / "records.zarr", mode="w")
    group.create_array(
        "records", shape=values.shape, chunks=chunks, dtype=values.dtype, config={"write_empty_chunks": True}
    )[...] = values
    return folder / "records.zarr"


def write_private(path: Path, text: str) -> Path:
    """Write a file that its owner alone may read, as files of secrets must be."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def write_config(
    folder: Path,
    *,
    kind: str = "covariance",
    epsilon: float = 1.0,
    neighbours: str = "add-remove",
    cluster: str = "threads",
) -> Path:
    """Write ``people.toml``."""
    path = folder / "people.toml"
    path.write_text(CONFIG.format(kind=kind, epsilon=epsilon, neighbours=neighbours, cluster=CLUSTERS[cluster]))
    return path


def set_budget(loaded: LoadedConfig, epsilon: float = 3.0, delta: float = 1e-5) -> Ledger:
    """Give the data set a budget."""
    ledger = Ledger(loaded.ledger_url)
    ledger.set_budget(
        dataset=loaded.config.release.dataset,
        epsilon=epsilon,
        delta=delta,
        neighbours=Neighbours(loaded.config.privacy.neighbours),
        privacy_unit=loaded.config.privacy.unit,
    )
    return ledger


@functools.cache
def _records_once() -> Path:
    """The usual records, written once in a process."""
    return write_records(_place_of_this_process(), records())


def _place_of_this_process() -> Path:
    place = Path(tempfile.mkdtemp(prefix="blockveil-made-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def prepare(folder: Path, *, budget: float = 3.0, values: Any = None, **config: Any) -> LoadedConfig:
    """Records, config and budget in a folder."""
    if values is None:
        shutil.rmtree(folder / "records.zarr", ignore_errors=True)
        shutil.copytree(_records_once(), folder / "records.zarr", copy_function=shutil.copyfile)
    else:
        write_records(folder, values)
    loaded = load_config(write_config(folder, **config))
    set_budget(loaded, budget)
    return loaded


_made: dict[Callable[[Path], LoadedConfig], tuple[LoadedConfig, dict[str, bytes]]] = {}


def made_once(folder: Path, make: Callable[[Path], LoadedConfig]) -> LoadedConfig:
    """What a function makes in an empty folder, as it was when this process first asked for it; each has its own.

    All are copies of one ledger, so what this account has seen of it goes back too. Noise and keys depend on the
    function alone, and not on the test that comes first.

    Parameters
    ----------
    folder
        Where it is to be; it need not be there.
    make
        Gives the config that it wrote into a folder, of which nothing names the place.
    """
    if make not in _made:
        place = _place_of_this_process() / "made"
        place.mkdir()
        number = itertools.count()
        with mock.patch(
            "blockveil.pipeline.releases.keys.token_bytes",
            lambda length: hashlib.sha256(f"{make.__module__} {next(number)}".encode()).digest()[:length],
        ):
            loaded = make(place)
        seen = marks.folder().glob(f"{Ledger(loaded.ledger_url).first()}.*")
        _made[make] = loaded, {mark.name: mark.read_bytes() for mark in seen}
    loaded, seen_of_it = _made[make]
    shutil.copytree(loaded.base, folder, symlinks=True, dirs_exist_ok=True)
    for name, content in seen_of_it.items():
        (marks.folder() / name).write_bytes(content)
    return load_config(folder / loaded.path.name)


def whole(compute: Any, held: list[Any], cut: Any, plan: Any, handle: str, name: str) -> Any:
    """Released integers of a held answer as one array."""
    from blockveil.engine.answers.graph import assembled, noisy_graph, released_layout

    tiles: dict[int, Any] = {}
    compute.stream(noisy_graph(held, cut, plan.design, handle, name), tiles.__setitem__, lambda _: None)
    released = released_layout(cut, plan.design)
    symmetric = plan.design.by_tile and plan.design.symmetric
    return assembled([tiles[i] for i in range(len(tiles))], released, symmetric)


def values_of(release: Path) -> dict[str, str]:
    """Digests of the arrays of a release: the same for the same noise, whatever ledger paid for it."""
    from blockveil.pipeline.data.content import Labelled, array_digest

    return {
        name: array_digest(name, Labelled.of(array))
        for name, array in sorted(zarr.open_group(release, mode="r").arrays())
    }


def slow_but(quick, cases):
    """Cases of a test, all of them slow but a few."""
    import pytest  # programs of tests that import this module do without it

    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def opened(plan):
    """A plan as its ledger has it, and the ledger and keys that its config names."""
    books = Books(plan.loaded, Ledger(plan.loaded.ledger_url))
    return as_begun(plan, books.ledger), books


def estimates(report: Any) -> Any:
    """Rows of estimates and their noise that the JSON of a report has."""
    return json.loads(report.data.read_bytes())["estimates"]


def page_of(found: Any, budget: Any, folder: str) -> str:
    """Page of a release."""
    from blockveil.pipeline.report import markup, page

    return markup.document(page.page_sections(found, budget, folder))
