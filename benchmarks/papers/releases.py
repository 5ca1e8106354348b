"""Releases by the product itself, on the configs of ``configs/papers``: planned, charged, drawn and opened again."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from blockveil.engine.noise.design import NoiseDesign
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.zarr_arrays import create_group, write_array
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

CONFIGS = Path(__file__).parents[2] / "configs" / "papers"
_FIRST = date(2026, 11, 20)


def planned_noise(name: str) -> NoiseDesign:
    """Noise that the plan of a config has, from which trials draw; no store is read."""
    design = make_plan(load_config(CONFIGS / f"{name}.toml"), _FIRST).design
    if not isinstance(design, NoiseDesign):
        raise TypeError(f"{name} does not add noise to an answer")
    return design


class Releases:
    """One folder with stores, a ledger and releases, beside a copy of the configs.

    Parameters
    ----------
    folder
        An empty folder; it holds everything that is made.
    """

    def __init__(self, folder: Path) -> None:
        self._configs = folder / "configs" / "papers"
        self._stores = folder / "build" / "papers"
        shutil.copytree(CONFIGS, self._configs)
        self._stores.mkdir(parents=True)
        self._made: dict[str, int] = {}

    def release(self, name: str, records: np.ndarray) -> Release:
        """One more release of these records by the config of that name, under a key of its own.

        Parameters
        ----------
        name
            Of the config, without its ending.
        records
            What its store holds this time, shape (n, d).
        """
        store = self._stores / f"{name}.zarr"
        shutil.rmtree(store, ignore_errors=True)
        write_array(create_group(store, {}), "records", records.astype(np.float32), ("record", "feature"))
        loaded = load_config(self._configs / f"{name}.toml")
        privacy, number = loaded.config.privacy, self._made.get(name, 0)
        if number == 0:
            # Enough for all trials: the records are public, and so is what is released of them.
            Ledger(loaded.ledger_url).set_budget(
                dataset=name, epsilon=1000.0, delta=0.5, neighbours=privacy.neighbours, privacy_unit=privacy.unit
            )
        self._made[name] = number + 1
        plan = make_plan(loaded, _FIRST + timedelta(days=number))
        return open_(run_release(plan, ThreadCompute(2), "papers", lambda *_: None).path)
