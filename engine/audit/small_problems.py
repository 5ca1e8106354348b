"""Small problems of every kind of query, whose neighbours an audit attacks; and the queries that a mechanism serves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from blockveil.engine import kinds
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import Importance, NotApplicable
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.sensitivity.small_cases import SmallCase

_GUARANTEE = ApproxDP(0.5, 1e-6)
"""What problems are tried at; which abilities a mechanism needs does not depend on it."""


def small_cases() -> Iterator[SmallCase]:
    """Problems of all kinds, each with a worst pair of neighbours where an audit has no cases of its own."""
    for folder in iter_modules(kinds.__path__):
        yield from import_module(f"{kinds.__name__}.{folder.name}.worst_neighbours").worst_neighbours()


def served(declaration: MechanismDeclaration) -> tuple[str, ...]:
    """Queries in some problem of which a mechanism has all that it needs; none of a mechanism without a design."""
    if declaration.mechanism is None:
        return ()
    defaults = {each.key: each.default for each in declaration.parameters}
    instances = declaration.audited or declaration.tried(Importance("relative-error"))
    mechanism = instances[0] if instances else declaration.built(**defaults)
    queries = []
    for case in small_cases():
        try:
            mechanism.design(case.problem, _GUARANTEE)
        except (NotApplicable, CannotCalibrate):
            continue
        queries.append(case.query)
    return tuple(dict.fromkeys(queries))
