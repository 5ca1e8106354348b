"""Large matrices from private records, released every night under differential privacy.

Each of these is imported when it is first asked for::

    import blockveil as bv

    bv.init("my.csv", answers=...)   # configs of a first release; reads the names of the columns
    bv.ingest("ingest.toml")         # the store that releases read; spends nothing
    bv.plan("quickstart.toml")       # what a release would cost; reads no data
    bv.budget("quickstart.toml")     # what is left, .grant(epsilon=..., delta=...), .forecast()
    bv.ledger("quickstart.toml")     # after a disaster: .reconcile(), .attest(by=..., why=...), .replace_key(...)
    bv.run("quickstart.toml")        # release, or finish what was begun
    bv.open("releases/people/...")   # a published release: labelled results with errors
    bv.combine([...], drift=0.01)    # several nights as one estimate of the last
    bv.sklearn.Ridge, bv.sklearn.PCA # estimators that fit a release, and MomentClassifier

``blockveil.flows`` orchestrates what ``blockveil.pipeline`` does in one night with the theorems of
``blockveil.engine``; ``blockveil.testing`` is for tests of mechanisms and ledgers in other packages.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blockveil import sklearn as sklearn
    from blockveil.flows.python.beginning import init as init
    from blockveil.flows.python.granting import budget as budget
    from blockveil.flows.python.ingesting import erase as erase
    from blockveil.flows.python.ingesting import ingest as ingest
    from blockveil.flows.python.planned import plan as plan
    from blockveil.flows.python.running import PromiseWarning as PromiseWarning
    from blockveil.flows.python.running import run as run
    from blockveil.flows.python.stating import ledger as ledger
    from blockveil.pipeline.analysis.combined_nights import combine as combine
    from blockveil.pipeline.analysis.opening import open_
    from blockveil.pipeline.analysis.release import Release as Release
    from blockveil.pipeline.base.errors import BlockveilError as BlockveilError

    open = open_  # noqa: A001 - as standard modules have it

__version__ = "1.0.0"

if importlib.util.find_spec("fcntl") is None:
    raise ImportError("Blockveil needs locks and modes of files, which this system lacks: run it on Linux")

_PLACES = {
    "BlockveilError": ("blockveil.pipeline.base.errors", "BlockveilError"),
    "PromiseWarning": ("blockveil.flows.python.running", "PromiseWarning"),
    "Release": ("blockveil.pipeline.analysis.release", "Release"),
    "budget": ("blockveil.flows.python.granting", "budget"),
    "combine": ("blockveil.pipeline.analysis.combined_nights", "combine"),
    "init": ("blockveil.flows.python.beginning", "init"),
    "erase": ("blockveil.flows.python.ingesting", "erase"),
    "ingest": ("blockveil.flows.python.ingesting", "ingest"),
    "ledger": ("blockveil.flows.python.stating", "ledger"),
    "open": ("blockveil.pipeline.analysis.opening", "open_"),
    "plan": ("blockveil.flows.python.planned", "plan"),
    "run": ("blockveil.flows.python.running", "run"),
    "sklearn": ("blockveil.sklearn", ""),
}
"""Name -> module, and the name there; none for a module itself."""

__all__ = list(_PLACES)


if not TYPE_CHECKING:  # a type checker would take every name for one of the package

    def __getattr__(name: str) -> Any:
        """What is imported when it is first asked for."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        place, inner = _PLACES[name]
        module = importlib.import_module(place)
        found = globals()[name] = getattr(module, inner) if inner else module
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
