"""One schedule: a seed becomes nights, runners and faults, and all of it is watched until the last night is settled."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import obstore
from prefect.client.schemas.objects import StateType

from blockveil.flows.service import recovery
from blockveil.pipeline.base import interrupts, staging
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.deployments_file import Deployments, LoadedDeployments, NightSection
from blockveil.pipeline.data import content, known_content, object_writes, released
from blockveil.pipeline.ledger import Ledger, chain, database, entries, lookups, marks, reading, restoring, writer_queue
from blockveil.pipeline.ledger import ledger as ledger_module
from blockveil.pipeline.plan import begun_plans
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases import (
    charged_steps,
    destination,
    growing,
    keys,
    measurement,
    outputs,
    publishing,
    retention,
)
from blockveil.pipeline.releases.night import Attempt, walk
from blockveil.pipeline.releases.order import plainly
from tests.simulation import stand_ins
from tests.simulation.bucket import Bucket, requests
from tests.simulation.database import Connection, Engine, database_for, engine_for, sessions_for
from tests.simulation.replaced import Remembered, Replacements, error_facts_of, loads, plan_made, resolve
from tests.simulation.service import CRON, PrefectServer, Run, schedule_of
from tests.simulation.settings import BUDGETS, ROOT, Kind, ledger_of
from tests.simulation.watcher import Watcher
from tests.simulation.world import SECOND, Faults, Violation, World

ZONES = {
    "Europe/Berlin": ("2026-03-27", "2026-10-23"),
    "America/New_York": ("2026-03-06", "2026-10-30"),
}
"""Two zones, and days shortly before their clocks change."""

KINDS: tuple[Callable[[date], tuple[bool, date | None]], ...] = (
    *[lambda _: (False, None)] * 6,
    lambda _: (True, None),
    lambda first: (False, first),
)
"""Most nights pay for themselves, some take a share of a guarantee, and some share a charge from a first date on."""

_present: list[Schedule] = []


@cache
def engine() -> Engine:
    """The database of this process."""
    return Engine()


@cache
def databases(server: bool, library: bool) -> Any:
    """The product's own class over the simulated connections; it serves one schedule after the other."""
    made = (engine_for if library else sessions_for)(lambda: _present[0].connect(), server=server)
    return database_for(ROOT / "ledger.db", made, server=server)


class Schedule:
    """Everything of one seed.

    Parameters
    ----------
    seed
        Decides what happens.
    faulty
        Whether anything goes wrong at all.
    library
        Whether statements are run by SQLAlchemy itself.
    copied
        Whether an older copy of the ledger is certainly put back, where the schedule lasts until then.
    """

    def __init__(self, seed: int, *, faulty: bool = True, library: bool = False, copied: bool = False) -> None:
        world = self.world = World(seed, 0)
        self.seed, self._faulty, self._library = seed, faulty, library
        self.zone = world.one_of(tuple(ZONES))
        first = datetime.fromisoformat(world.one_of(ZONES[self.zone])).replace(hour=18, tzinfo=ZoneInfo(self.zone))
        world.now = world.disk.now = int(first.timestamp()) * SECOND
        self._nights = world.one_of((1, 1, 1, 2, 2, 3))
        sends, self.server = world.chance() < 0.3, world.chance() < 0.5
        # Decided apart, so that all others are the schedules that they would be if no nights shared a charge.
        kinds = random.Random(seed + 2**40)
        self.kind = Kind(sends, *kinds.choice(KINDS)(first.date() + timedelta(days=1)))
        if self.kind.first is not None:
            self._nights = kinds.choice((2, 2, 3))
        self._prunes = self._nights > 1 and kinds.random() < 0.5
        # Decided apart too.
        copies = random.Random(seed + 2**41)
        chosen = copies.random() < 0.3 or copied
        self._copies = [copies.randint(1, 250), copies.randint(150, 250 * self._nights)] if chosen else []
        if copied:
            self._nights = max(2, self._nights)
        if self._copies:
            self._prunes, self.kind = False, replace(self.kind, sends=False)
        self._copy: Any = None
        self.version, self.engine, self.bucket = 0, engine(), Bucket(world)
        self.epsilon = world.one_of(BUDGETS)
        self._ledger = ledger_of(self.epsilon)
        self.watcher = Watcher(self, self.kind.most_within(self.epsilon))
        self.prefect = PrefectServer(first)
        self._last = first + timedelta(days=self._nights, hours=-6)
        self.times = schedule_of(CRON, self.zone, first, self._last)
        section = NightSection(cron=CRON, timezone=self.zone, config="people", mode="release", missed_nights="all")
        self.deployed = LoadedDeployments(Deployments(night=(section,)), ROOT, {"people": self.kind.config})
        self._planned = 0
        world.on_rename.append(self.watcher.named)
        world.on_remove.append(self.watcher.removed)
        world.on_crash += [partial(self.engine.lose_power, world.chance), self._after_crash]
        self.bucket.on_put.append(self.watcher.put)
        self.bucket.on_delete.append(self.watcher.deleted)

    def _after_crash(self) -> None:
        self.watcher.everything()

    # ---- what the product is given -----------------------------------------------------------------------------

    def connect(self) -> Connection:
        """A connection to the database."""
        self.world.step("connect")
        return Connection(self.world, self.engine, "server" if self.server else "file", self.watcher.booked)

    def _now(self, zone: Any = None) -> datetime:
        return datetime.fromtimestamp(self.world.now / SECOND, zone or UTC)

    def _clock(self) -> Any:
        schedule = self

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return schedule._now(tz)

        return Clock

    def _replace(self) -> Replacements:
        """Put what is simulated in place of what the product calls, until all is put back."""
        world, clock = self.world, self._clock()
        inline = SimpleNamespace(Thread=stand_ins.InlineThread, Event=writer_queue.threading.Event)
        times = SimpleNamespace(sleep=world.sleep, time=lambda: world.now / SECOND, time_ns=lambda: world.now)
        randomness = SimpleNamespace(token_hex=lambda count: world.bytes(count).hex())
        made = Replacements()
        made.put(charged_steps, datetime=clock)
        for module in (database, keys, known_content):
            made.put(module, time=times)
        for module in (writer_queue, interrupts):
            made.put(module, threading=inline)
        made.put(marks, folder=lambda: ROOT / "marks")
        made.put(keys, token_bytes=world.bytes)
        made.put(keys.os, urandom=world.bytes)
        made.put(chain, identifier=lambda: world.bytes(16).hex())
        made.put(reading, open_database=lambda _: databases(self.server, self._library), _now=self._utc)
        made.put(ledger_module, identifier=lambda: world.bytes(16).hex())
        made.put(staging, secrets=randomness, _let_go=self._let_go(staging._let_go))
        made.put(known_content, _known=Remembered(world))
        made.put(LoadedConfig, resolve=resolve)
        made.put(outputs, error_facts=error_facts_of)
        made.put(begun_plans, make_plan=plan_made)
        for module in (entries, lookups):
            made.put(module, json=SimpleNamespace(loads=loads))
        self._put_stand_ins(made)
        made.put(
            recovery,
            get_client=self.prefect.client,
            pages=self.prefect.pages,
            shown_deployments=self.prefect.shown_deployments,
            plan_near=lambda _, day: self.plan(day),
            times=schedule_of,
        )
        return made

    def _put_stand_ins(self, made: Replacements) -> None:
        arrays = SimpleNamespace(
            create_group=stand_ins.create_group,
            write_array=lambda group, *rest: group.add(*rest),
            create_array=stand_ins.create_array,
        )
        made.put(publishing, zarr_arrays=arrays)
        made.put(content, _ahead=iter)  # without a thread that reads ahead
        zarr = SimpleNamespace(open_group=stand_ins.open_group, Array=stand_ins.Array)
        made.put(released, opened_release=stand_ins.opened_release, zarr=zarr)
        made.put(growing, history_of=stand_ins.history_of)
        made.put(
            measurement,
            exact_graph=lambda *_: None,
            noisy_graph=lambda held, layout, design, handle, name: (handle, held),
            released_layout=lambda *_: stand_ins.LAYOUT,
            secrets=SimpleNamespace(token_hex=lambda count: self.world.bytes(count).hex()),
        )
        made.put(charged_steps, open_records=lambda _: stand_ins.Records(self, self.version))
        made.put(measurement.PlainMeasurement, close=stand_ins.write_tiles)
        cut = SimpleNamespace(work=SimpleNamespace(narrow=False))
        made.put(Effort, cut_for=lambda *_: (cut, None))
        made.put(destination, ThreadPoolExecutor=stand_ins.InlinePool)
        made.put(object_writes, client=lambda *_: self.bucket)
        made.put(obstore, **requests())

    def _utc(self) -> str:
        return self._now().isoformat(timespec="seconds")

    def _let_go(self, real: Callable[[Path, int], None]) -> Callable[[Path, int], None]:
        def let_go(lock: Path, descriptor: int) -> None:
            opened = self.world.calls.opened.get(descriptor)
            if opened is not None and not opened.owner.dead:  # a dead process lets go of nothing by itself
                real(lock, descriptor)

        return let_go

    # ---- what happens ------------------------------------------------------------------------------------------

    def plan(self, day: date) -> Plan:
        """Plan of a night."""
        return self.kind.plan(day)

    def run(self) -> str:
        """Let all of it happen; the digest of what did.

        Raises
        ------
        Violation
            An invariant does not hold.
        """
        _present[:] = [self]
        collecting = gc.isenabled()
        gc.disable()
        try:
            with ExitStack() as stack:
                stack.enter_context(self.world.calls.installed())
                stack.callback(self._replace().put_back)
                stack.callback(self._end)  # while files are simulated: processes close theirs
                self._prepare()
                self._chaos()
                self._recover()
        finally:
            if collecting:
                gc.enable()
        return self.world.digest

    def _end(self) -> None:
        for process in self.world.processes:
            process.dead = True
        while self.world.processes:
            self.world.turn()

    def _prepare(self) -> None:
        self.engine.begin(self._ledger)
        disk = self.world.disk
        for name in ("keys", "releases"):
            if self.world.chance() < 0.5:
                disk.create((name,), 0o700 if name == "keys" else 0o755, folder=True)
        disk.create(("ledger.db",), 0o600)
        disk.root.sync()
        (first,) = self.engine.watcher.execute("SELECT hash FROM entry WHERE sequence = 1").fetchone()
        marks.Mark(first).begin(marks.Seen(0, restoring.GENESIS))
        self.watcher.booked()

    def _chaos(self) -> None:
        world = self.world
        if self._faulty:
            rate = world.one_of((0.0, 0.0, 0.002, 0.01))
            world.faults = Faults(
                switch=world.one_of((0.02, 0.1, 0.3)),
                full=world.one_of((0.0, rate)),
                unsynced=world.one_of((0.0, rate)),
                lost=world.one_of((0.0, rate, 4 * rate)),
                serialisation=world.one_of((0.0, 4 * rate)),
                bucket=world.one_of((0.0, 4 * rate)),
                ambush=world.one_of((0.0, 0.0, 0.1, 0.5)),
            )
            for _ in range(world.one_of((0, 1, 1, 2, 3))):
                span = world.one_of((80, 250, 250, 600))
                world.disasters[world.between(1, span * self._nights)] = world.one_of(self._disasters())
            if self._copies:
                backup, back = sorted(self._copies)
                world.disasters |= {backup: self._back_up, back + 1: self._put_back_copy}
        while self._planned < len(self.times) or self.prefect.waiting or world.processes:
            self._tend()
            if not world.turn() and not self.prefect.waiting:
                self._next_night()

    def _disasters(self) -> tuple[Callable[[], None], ...]:
        world = self.world
        return (
            lambda: world.kill(world.current),
            lambda: world.kill(world.current),
            lambda: world.stall(world.current),
            lambda: world.stall(world.current),
            world.lose_power,
            world.lose_power,
            world.lose_power,
            lambda: world.kill(world.one_of(world.processes)),
            lambda: world.jump(world.one_of((-7200, -3, 5, 3600, 90000, 200000))),
            self._change_records,
            self.bucket.arrive,
        )

    def _change_records(self) -> None:
        # They never change back: files that are put back have other times, which a run notices.
        self.version = 1
        self.world.note(f"the records are in state {self.version}")

    def _back_up(self) -> None:
        """Copy what a backup holds: ledger and releases, never keys or marks."""
        releases = self.world.disk.root.folder.get("releases")
        self._copy = self.watcher.copy(), deepcopy(releases)
        self.world.note("a copy is made")

    def _put_back_copy(self) -> None:
        """Put the copy back, of all after all was stopped, or of the ledger alone while all goes on."""
        if self._copy is None:
            return
        world, (copy, releases) = self.world, self._copy
        world.note("the copy is put back")
        for process in list(world.processes):
            for connection in list(process.connections):
                connection.cut()
        if world.chance() < 0.7:
            for process in world.processes:
                world.end(process)
            world.disk.put_back("releases", deepcopy(releases))
        self.engine.watcher.execute("DELETE FROM entry WHERE sequence > ?", (copy[0],))
        self.watcher.put_back(copy)
        if world.chance() < 0.5:
            self._restore()

    def _restore(self) -> None:
        """What an operator does who has put a copy back."""

        def restore() -> None:
            try:
                said = restoring.Statement(restoring.RESTORED, {"since": "2026-01-01T00:00+00:00"})
                done = Ledger(self.kind.config.ledger_url).state(said)
                for _, charge_id in done.given_back:
                    keys.KeyStore(ROOT / "keys").destroy(charge_id)
            except BlockveilError as error:
                self.world.note(f"restoring fails: {type(error).__name__} {error}")

        self.world.start("operator", restore)

    def _next_night(self) -> None:
        """Wait for the next time of the schedule, whose run a server that is up makes."""
        if self._planned >= len(self.times):
            return
        world, at = self.world, self.times[self._planned]
        self._planned += 1
        world.now = world.disk.now = max(world.now, int(at.timestamp()) * SECOND)
        late = world.one_of((0, 0, 0, 30, 90000)) if self._faulty else 0
        world.jump(late)
        if late < 60:
            self.prefect.plan(at, {})
        if world.chance() < 0.3:
            self._catch_up(None)
        if self._faulty and world.chance() < 0.3:
            self.prefect.plan(at, {"logical_date": at.date().isoformat()})  # a person starts the same night
        if self._prunes and self._planned > 1:
            self._prune(at.date())

    def _tend(self) -> None:
        """Start what waits, and note how what has ended came out."""
        for run in self.prefect.waiting:
            run.set(StateType.RUNNING)
            process = self.world.start(run.name, partial(self._night, run))
            run.process = process  # type: ignore[attr-defined]
        self.prefect.waiting.clear()
        for run in self.prefect.runs:
            if run.state.type is StateType.RUNNING and run.process.dead:  # type: ignore[attr-defined]
                run.set(StateType.CRASHED)

    def _night(self, run: Run) -> None:
        """What a runner does: one night, by the product's own order."""
        day = recovery.night_of(run, self.deployed.deployments.night[0])  # type: ignore[arg-type]
        assert day is not None
        try:
            plan = self.plan(day)
            ledger = Ledger(plan.loaded.ledger_url)
            compute = partial(stand_ins.Compute, self)
            walk(Attempt(as_begun(plan, ledger), ledger, run.name, compute, lambda *_: None), plainly)
        except BlockveilError as error:
            self.world.note(f"{run.name} fails: {type(error).__name__} {error}")
            run.set(StateType.FAILED)
        else:
            run.set(StateType.COMPLETED)

    def _prune(self, before: date) -> None:
        """What somebody does who keeps newer nights alone."""

        def prune() -> None:
            try:
                self.watcher.prunes(before)
                retention.prune(retention.old_releases(self.kind.config, before))
            except BlockveilError as error:
                self.world.note(f"pruning fails: {type(error).__name__} {error}")

        self.world.start(f"prune-{self._planned}", prune)

    def _catch_up(self, since: date | None) -> int:
        """What a service does when it starts, by the product's own recovery; how many runs it made."""
        try:
            made = recovery.catch_up_nights(self.deployed, since, min(self._now(), self._last), apply=True)
        except BlockveilError as error:
            self.world.note(f"catching up fails: {type(error).__name__}")
            return 0
        self.world.note(f"caught up with {len(made)}")
        return len(self.prefect.waiting)

    def _recover(self) -> None:
        """When all is well again, every night is made up for, as the handbook says."""
        world = self.world
        world.faults, world.disasters = Faults(), {}
        self.bucket.arrive()
        if self.watcher.restored:
            self._restore()
            self._one_by_one()
        world.jump(3 * 86400)
        days = [at.date().isoformat() for at in self.times]
        for _ in range(2 + len(self.times)):
            if self.watcher.settled(days) or not self._catch_up(self.times[0].date()):
                break
            self._one_by_one()
        if self._prunes:
            self._prune(self.times[-1].date() + timedelta(days=1))
            self._one_by_one()
        if self.watcher.unfinished():  # a lost power may bring it back; the next run of any night removes it
            self.prefect.plan(self.times[-1], {})
            self._one_by_one()
        self.watcher.end(days)
        if self._prunes:
            self._nothing_old()

    def _nothing_old(self) -> None:
        left = retention.old_releases(self.kind.config, self.times[-1].date() + timedelta(days=1))
        if left:
            raise Violation("an old release is left after it was pruned")

    def _one_by_one(self) -> None:
        while self.prefect.waiting or self.world.processes:
            if not self.world.processes:
                self._put_back()
                waiting, self.prefect.waiting = self.prefect.waiting[1:], self.prefect.waiting[:1]
                self._tend()
                self.prefect.waiting = waiting
            self.world.turn()
        self._tend()

    def _put_back(self) -> None:
        """Records that a charge is for are put back before its night is run again."""
        run = self.prefect.waiting[0]
        day = recovery.night_of(run, self.deployed.deployments.night[0])  # type: ignore[arg-type]
        assert day is not None
        self.version = self.watcher.state_of(self.plan(day).release_id)


@dataclass(frozen=True)
class Found:
    """A seed whose schedule breaks an invariant."""

    seed: int
    what: str


def run_seed(seed: int) -> str:
    """Run one schedule; the digest of what happened.

    Raises
    ------
    Violation
        An invariant does not hold.
    """
    return Schedule(seed).run()


def first_violation(seeds: Any, *, copied: bool = False) -> Found | None:
    """First seed of some whose schedule breaks an invariant, or None; with ``copied`` as of :class:`Schedule`."""
    for seed in seeds:
        try:
            Schedule(seed, copied=copied).run()
        except Violation as violation:
            return Found(seed, str(violation))
    return None
