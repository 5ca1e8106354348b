"""What a plan asks of the machine that runs it: rows at once, threads, memory and time.

It decides no bit of a release and stands in no digest. A release that another machine finishes is the same release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.cost import Cut, Machine, TooLarge, choose
from blockveil.engine.answers.layout import Layout
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.answers.work import GrowthKind
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LocalCluster, ReleaseConfig, Threads
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.questions.stepwise import steps_of

CHUNK_BYTES = 32 * 2**20
"""Bytes of float64 records that a task reads at once, unless the config says how many rows."""

_LARGEST_CHUNK = 2
"""Times as large as that a stored chunk may be and is read whole."""

SMALL_SECONDS = 10.0
"""Seconds that one core is predicted to need for work for which no workers are started.

Two workers take some four seconds to start, import and end, and several of a processor. Threads of one process gain
less: BLAS holds the interpreter's lock while it adds to a kept sum, half of the work of a product of few features.
"""

IN_CLEAR = (
    "not encrypted (insecure = true): whoever reaches a part of it can read un-noised sums and the key of the noise, "
    "and run code on it"
)
"""What a plan and a run's log say of a cluster whose parts may talk in clear."""

_MOST_HERE = 8
"""Threads that do such work."""


@dataclass(frozen=True, eq=False)
class Effort:
    """How a planned answer is computed.

    Attributes
    ----------
    config
        Config of the release: its machine, its memory bound and the most records that there may be.
    answer
        What is asked, with its design.
    weighs
        Whether its records count by their age.
    beside
        Answers of other stages, each of which reads the records too.
    keeps
        Whether a process that computes all stages keeps the records from one to the next, where there is room.
    """

    config: ReleaseConfig
    answer: Answer
    weighs: bool
    beside: tuple[Answer, ...] = ()
    keeps: bool = False

    @property
    def memory(self) -> int:
        """Bytes that a worker may take."""
        return int(self.config.compute.memory_gib * 2**30)

    def chunk_rows(self, stored_rows: int) -> int:
        """Rows a task reads at once: as configured, else whole stored chunks up to 32 MiB, or one up to 64 MiB.

        A larger chunk, which is decoded as a whole for any part of it, is read in equal parts.
        """
        target_rows = self.config.compute.block_rows or max(1, CHUNK_BYTES // (8 * len(self.config.query.columns)))
        if stored_rows <= target_rows:
            return target_rows // stored_rows * stored_rows
        if self.config.compute.block_rows:
            return target_rows
        return -(-stored_rows // (1 if stored_rows <= _LARGEST_CHUNK * target_rows else -(-stored_rows // target_rows)))

    @cached_property
    def here(self) -> int | None:
        """Threads of the process that runs it, where these do the work: as configured, or as it is small; else None.

        Work is small where starting workers would take longer. Its bits are the same.
        """
        cluster = self.config.cluster
        if isinstance(cluster, Threads):
            return cluster.threads_per_worker
        if not isinstance(cluster, LocalCluster) or cluster.always_start_workers:
            return None
        slots = min(cluster.workers * cluster.threads_per_worker, _MOST_HERE)
        try:
            cut = self._cut(Machine(1, slots, self.memory), self.config.query.rows_at_most)
        except TooLarge:
            return None
        return slots if self._seconds(cut) * slots <= SMALL_SECONDS else None

    def machine(self, workers: int | None = None, threads: int | None = None, rates: Rates = NOMINAL) -> Machine:
        """Return what runs the release: as configured, or as found."""
        cluster = self.config.cluster
        if self.here is not None:
            return Machine(workers or 1, threads or self.here, self.memory, rates)
        declared = [int(getattr(cluster, name, 1)) for name in ("workers", "threads_per_worker")]
        return Machine(workers or declared[0], threads or declared[1], self.memory, rates)

    def cut(self, machine: Machine, rows: int | None = None) -> Cut:
        """How the answer is computed, for this many records or for the most there may be.

        Raises
        ------
        ConfigError
            It does not fit the memory bound.
        """
        most, failure = self.config.query.rows_at_most, ""
        # The number of records may be private, so the message is about the most there may be.
        for count in (rows or most, most):
            try:
                return self._cut(machine, count)
            except TooLarge as error:
                failure = str(error)
        raise ConfigError("The release does not fit in memory", failure, "Change [compute] or [cluster] accordingly")

    def room(self, peak: int) -> int:
        """Bytes of records that may be kept in this process, beside a stage of that largest memory."""
        if not self.keeps or self.here is None:
            return 0
        return max(0, min(self.memory - peak, 8 * self.config.query.rows_at_most * len(self.config.query.columns)))

    def cut_for(self, rows: int, chunk_rows: int, workers: int, threads: int) -> tuple[Cut, Layout]:
        """How the answer is computed for the records that are there, and its tiles with the tasks that fill them.

        Parameters
        ----------
        rows
            Number of records.
        chunk_rows
            Rows that a task reads at once.
        workers, threads
            What was found to run the release.
        """
        cut = self.cut(self.machine(workers, threads), rows)
        return cut, cut.layout(rows, chunk_rows)

    def _cut(self, machine: Machine, rows: int) -> Cut:
        # A stored chunk may be twice as large as what is read at once otherwise; a plan does not know it.
        most = self.chunk_rows(1) * (1 if self.config.compute.block_rows else _LARGEST_CHUNK)
        chunk = min(rows, most) * 8 * len(self.config.query.columns)
        work = self.answer.work(rows)
        if self.weighs:
            work = replace(work, weighted_sums=additive(self.answer.design).weight_digits[1])
        return choose(work, machine, chunk)

    def _seconds(self, cut: Cut) -> float:
        """Seconds of the answer, cut like this, with all its steps and its other stages, for the most records."""
        rows = self.config.query.rows_at_most
        stages = (Effort(self.config, each, weighs=False)._cut(cut.machine, rows) for each in self.beside)
        return cut.seconds * steps_of(self.answer.question) + sum(each.seconds for each in stages)

    def lines(self, rates: Rates | None = None) -> list[tuple[str, str]]:
        """Lines (what, value) of how it is computed, and of what that takes; at nominal rates where none are given."""
        machine = self.machine(rates=rates or NOMINAL)
        cut = self.cut(machine)
        peak = cut.peak_bytes + self.room(cut.peak_bytes)
        memory = f"at most {peak / 2**20:,.0f} of {machine.memory / 2**20:,.0f} MiB a worker"
        source = "nominal rates" if rates is None else "rates measured on this machine"
        products = cut.work.kind is GrowthKind.PRODUCTS and cut.work.largest <= eight_bit.LARGEST_OF_HALVES
        if rates is not None and products:
            from blockveil.pipeline.plan.machine_speed import products as measured  # needed for the rates already

            source += f"; products in {measured().reason}"
        small = self.here is not None and not isinstance(self.config.cluster, Threads)
        return [
            *([("Cluster", IN_CLEAR)] if self.config.in_clear else []),
            ("Computed by", f"{cut.explain()}{'; too little to start workers for' if small else ''}"),
            ("Cost", f"{memory}; {_time(self._seconds(cut))} ({source})"),
        ]


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(seconds, 1):,.0f} s"
    return f"about {seconds / 60:,.0f} min" if seconds < 5400 else f"about {seconds / 3600:,.1f} h"
