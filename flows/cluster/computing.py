"""Where one run computes: threads of this process, or the cluster of its config."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blockveil.flows.base import compiled, products
from blockveil.flows.cluster import scratch
from blockveil.pipeline.config import LoadedConfig, Threads
from blockveil.pipeline.releases.compute import Compute, ThreadCompute


@contextmanager
def open_compute(loaded: LoadedConfig, here: int | None = None) -> Iterator[Compute]:
    """What computes a release, for the time of one run.

    Threads ``here`` of this process do the work in place of the cluster.

    Raises
    ------
    ComputeError
        The cluster cannot be started or reached.
    StoreError
        There is no private place for what workers spill.
    """
    section, query = loaded.config.cluster, loaded.config.query
    large = _worth_compiling(loaded)
    wide = query.rows_at_most * len(query.columns) ** 2 >= products.WORTH_PRODUCTS
    if large:  # here first, so that workers of this machine find it on its disk
        compiled.prepare()
    if isinstance(section, Threads) or here is not None:
        if wide:
            products.prepare()
        scratch.sweep()  # an earlier run of the same release may have had workers, and been killed
        yield ThreadCompute(section.threads_per_worker if isinstance(section, Threads) else here or 1)
        return
    from blockveil.flows.cluster.clusters import open_cluster  # takes long to import, and threads have no use for it

    with open_cluster(loaded, section, large, wide) as cluster:
        yield cluster


def _worth_compiling(loaded: LoadedConfig) -> bool:
    """Whether there are enough values of records, or entries that get noise, for compiled code to save time."""
    query = loaded.config.query
    values = query.rows_at_most * len(query.columns)
    entries = values if query.kind == "rows" else len(query.columns) ** 2
    return values >= compiled.WORTH_VALUES or entries >= compiled.WORTH_ENTRIES
