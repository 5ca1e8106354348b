"""The bits of every shipped config: made-up records, a pinned noise key, and digests of the plan and of each array.

``python -m tests.house.shipped`` prints them, to be compared between two states of the project on one machine. A plan
holds floats of a calibration, whose last digits may depend on the processor, and the noise key is derived from its
digest. The key is pinned here, so that the digests of arrays say whether exact sums, steps and noise are the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import zarr

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

CONFIGS = Path(__file__).parents[2] / "configs"
NIGHT = date(2026, 11, 20)
ROWS = 120
_PLACES = {"store": "records.zarr", "root": "releases", "ledger": "ledger.db", "keys": "keys"}


def names() -> list[str]:
    """Names of the configs that release something."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml") if "[release]" in path.read_text())


def digests(name: str) -> dict[str, Any]:
    """Digest of a shipped config's plan, and of each array that it releases from made-up records."""
    with tempfile.TemporaryDirectory() as folder, pinned_key():
        loaded = _moved(name, Path(folder))
        plan = make_plan(loaded, NIGHT)
        support.write_records(Path(folder), _records(loaded))
        support.set_budget(loaded, epsilon=10.0, delta=1e-5)
        outcome = run_release(plan, ThreadCompute(1), "shipped", lambda _stage, _share: None)
        released = zarr.open_group(outcome.path, mode="r")
        return {"plan": plan.digest, **{key: _digest(array) for key, array in sorted(released.arrays())}}


def _moved(name: str, folder: Path) -> LoadedConfig:
    """The config with its places in a folder, computed by threads of this process."""
    text = (CONFIGS / f"{name}.toml").read_text()
    for key, place in _PLACES.items():
        text = re.sub(rf'(?m)^{key} = "[^"]*"', f'{key} = "{folder / place}"', text)
    text = re.sub(r"(?ms)^\[cluster\].*?(?=^\[)", '[cluster]\nkind = "threads"\n\n', text)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return load_config(path)


def _records(loaded: LoadedConfig) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Whole numbers, so that no processor's arithmetic has a say; shape (ROWS, columns)."""
    columns = len(loaded.config.query.columns)
    return np.random.default_rng(20).integers(0, 2, size=(ROWS, columns)).astype(np.float64)


@contextmanager
def pinned_key() -> Iterator[None]:
    """Every release of this process under one and the same key."""
    derive = NoiseKey.derive
    pinned = lambda _secret, _context: derive(bytes(range(32)), b"shipped configs")  # noqa: E731 - one expression
    with mock.patch.object(NoiseKey, "derive", pinned):
        yield


def _digest(array: Any) -> str:
    values = np.ascontiguousarray(array[...])
    return hashlib.sha256(f"{values.shape} {values.dtype}".encode() + values.tobytes()).hexdigest()


if __name__ == "__main__":
    json.dump({name: digests(name) for name in sys.argv[1:] or names()}, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
