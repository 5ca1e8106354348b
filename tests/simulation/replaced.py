"""What is put in place of parts of the product for the time of a schedule, and what is worked out only once.

A plan, a path and what a row says are the same each time that the product asks for them: it works them out itself, and
only the first time.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.plan.planning import Begun, Plan, make_plan
from blockveil.pipeline.releases.outputs import error_facts

if TYPE_CHECKING:
    from tests.simulation.world import World

_plans = dict[Any, Plan]()


def plan_made(config: Any, day: date, begun: Begun | None = None) -> Plan:
    """The plan of a night as the ledger has it: the same for the same config and what the ledger says."""
    key = (id(config), day, repr(begun))  # the configs of a setting are there to the end
    if key not in _plans:
        _plans[key] = make_plan(config, day, begun)
    return _plans[key]


_places = dict[Any, Path]()


def resolve(config: Any, name: str, key: str = "The path") -> Path:
    """An absolute path below the simulated folder, in which there are no links to follow."""
    if (id(config), name) not in _places:
        _places[id(config), name] = absolute(config.base / name, key)
    return _places[id(config), name]


@lru_cache(maxsize=256)
def _packed(text: str) -> bytes:
    return marshal.dumps(json.loads(text))


def loads(text: str) -> Any:
    """What a row of the ledger says, as a new object each time: a row is read many times, and parsed once."""
    return marshal.loads(_packed(text))  # our own rows


_errors = dict[int, Any]()


def error_facts_of(plan: Plan) -> Any:
    """Error of a plan's answer."""
    if id(plan) not in _errors:  # the plans of a process are there to its end
        _errors[id(plan)] = error_facts(plan)
    return dict(_errors[id(plan)])


class Replacements:
    """Functions of modules that are replaced for a while; ``mock.patch`` takes longer than a step of a schedule."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, target: Any, **new: Any) -> None:
        """Replace what a module or a class has by these names."""
        for name, value in new.items():
            self._before.append((target, name, vars(target)[name]))
            setattr(target, name, value)

    def put_back(self) -> None:
        """Undo all of it."""
        for target, name, value in reversed(self._before):
            setattr(target, name, value)
        self._before.clear()


class Remembered(dict[Any, Any]):
    """What each process remembers for itself, where the product has one dictionary for its process."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def get(self, key: Any, default: Any = None) -> Any:
        return self._world.current.memory.get(key, default)

    def __len__(self) -> int:
        return len(self._world.current.memory)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._world.current.memory)

    def pop(self, key: Any, *default: Any) -> Any:
        return self._world.current.memory.pop(key, *default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._world.current.memory[key] = value
