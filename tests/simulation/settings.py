"""What the schedules of a process share: configs, plans, and a ledger for each budget."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import reading
from blockveil.pipeline.plan.planning import Plan, make_plan
from tests.house import support
from tests.simulation.calls import MOUNT
from tests.simulation.watcher import nights_within

ROOT = Path(MOUNT)
DELTA = 1e-5
BUDGETS = (1.2, 1.9, 3.0)
TOGETHER = 4
"""Nights that one charge is for, where nights share one: more than a schedule has, so that none is the last."""

_folders: list[Any] = []


@dataclass(frozen=True)
class Kind:
    """What a schedule releases.

    Attributes
    ----------
    sends
        Whether releases are sent to an object store.
    share
        Whether each night takes half of a guarantee.
    first
        First of the nights that share a charge; None where each pays for itself.
    """

    sends: bool
    share: bool = False
    first: date | None = None

    @property
    def config(self) -> Any:
        """Its config."""
        return _config(self)

    def plan(self, day: date) -> Plan:
        """Plan of a night."""
        return _plan(self, day)

    def most_within(self, epsilon: float) -> int:
        """Charges that a budget holds."""
        return _most_within(self, epsilon)


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory()
    _folders.append(folder)
    return Path(folder.name)


@cache
def _config(kind: Kind) -> Any:
    path = support.write_config(_folder())
    text = path.read_text()
    if kind.share:
        text = text.replace("[mechanism]", "share = 0.5\n\n[mechanism]")
    if kind.sends:
        text += 'upload = "s3://bucket/releases"\n'
    if kind.first is not None:
        text += f"\n[continual]\nnights = {TOGETHER}\nfirst = {kind.first}\n"
    path.write_text(text)
    return replace(load_config(path), path=ROOT / "people.toml")


@cache
def _plan(kind: Kind, day: date) -> Plan:
    return make_plan(kind.config, day)


@cache
def _most_within(kind: Kind, epsilon: float) -> int:
    return nights_within(epsilon, DELTA, kind.plan(kind.first or date(2026, 3, 1)).charge.mu)


@cache
def ledger_of(epsilon: float) -> Path:
    """A ledger with a budget and nothing else, the same in every process: releases name hashes of its entries."""
    loaded = load_config(support.write_config(_folder()))
    then = mock.patch.object(reading, "_now", return_value="2026-01-01T00:00:00+00:00")
    with mock.patch("os.urandom", bytes), then:
        support.set_budget(loaded, epsilon, DELTA)
    made = _folder() / f"{epsilon}.db"
    (_folder() / "ledger.db").rename(made)
    return made
