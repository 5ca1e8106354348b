"""One machine, several processes, and what goes wrong: everything is decided by one seed.

Processes are greenlets. Each call on the disk, the database, the object store and the clock is a step, and between two
steps another process may go on, one may be killed, or the power may be lost. A process that is killed is thrown out of
its step, and none of what it still does on its way out has any effect.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulation.calls import Calls
from tests.simulation.disk import Disk

SECOND = 10**9
_TICK = SECOND // 500


class Killed(BaseException):
    """Thrown into a process that is no more. No code of the product catches it."""


class Violation(BaseException):
    """An invariant does not hold. As the end of a process is none of its errors, no code of the product catches it."""


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong, as probabilities at one step.

    Attributes
    ----------
    switch
        Another process goes on.
    full, unsynced
        The disk is full, or fails to bring something to its platter.
    lost, serialisation
        The database loses the connection, or asks for another try.
    bucket
        The object store refuses, loses a reply, or carries a request out twice.
    ambush
        Shortly after a name has come up or a transaction was committed, a process is killed or the power is lost.
    """

    switch: float = 0.0
    full: float = 0.0
    unsynced: float = 0.0
    lost: float = 0.0
    serialisation: float = 0.0
    bucket: float = 0.0
    ambush: float = 0.0


@dataclass(eq=False)
class Process:
    """One process: a runner of a night, or the machine itself.

    Attributes
    ----------
    name
        For the trace.
    dead
        Whether it was killed or has ended.
    waits
        What must hold before it goes on.
    stalled
        Step before which others go on, if they can.
    wakes
        Time at which it goes on, where it sleeps.
    connections
        Connections to the database that it has open.
    memory
        What it remembers between calls, such as digests.
    """

    name: str
    dead: bool = False
    waits: Callable[[], bool] | None = None
    stalled: int = 0
    wakes: int | None = None
    greenlet: Any = None
    connections: list[Any] = field(default_factory=list)
    memory: dict[Any, Any] = field(default_factory=dict)


class World:
    """Disk, clock and processes of one schedule.

    Parameters
    ----------
    seed
        Decides everything.
    now
        Nanoseconds since 1970 at the start.
    """

    def __init__(self, seed: int, now: int) -> None:
        self._random = random.Random(seed)
        self.chance = self._random.random
        self.disk, self.calls = Disk(self.chance), Calls(self)
        self.machine = Process("machine")
        self.processes: list[Process] = []
        self.faults = Faults()
        self.disasters: dict[int, Callable[[], None]] = {}
        self.steps, self.now = 0, now
        self._trace: list[str] = []
        self.on_crash: list[Callable[[], None]] = []
        self.on_rename: list[Callable[[tuple[str, ...]], None]] = []
        self.on_remove: list[Callable[[tuple[str, ...]], None]] = []
        self.log: list[str] | None = None
        self._hub = getcurrent()
        self.disk.now = now

    # ---- chance and time ---------------------------------------------------------------------------------------

    def bytes(self, count: int) -> bytes:
        """Bytes in place of the operating system's randomness."""
        return self._random.randbytes(count)

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self._random.randint(low, high)

    def one_of(self, choices: Any) -> Any:
        """One of several."""
        return choices[int(self.chance() * len(choices))]

    @property
    def digest(self) -> str:
        """SHA-256 of all that has happened."""
        return hashlib.sha256("".join(f"{line}\n" for line in self._trace).encode()).hexdigest()

    def note(self, text: str) -> None:
        """Add a line to what has happened."""
        self._trace.append(text)
        if self.log is not None:
            self.log.append(f"{self.steps:5} {self.current.name:10} {text}")

    def jump(self, seconds: float) -> None:
        """Move the clock, backwards too."""
        self.now = max(SECOND, self.now + int(seconds * SECOND))
        self.disk.now = self.now
        self.note(f"the clock moves by {seconds:g} s")

    # ---- steps of processes ------------------------------------------------------------------------------------

    @property
    def current(self) -> Process:
        """The process that runs, or the machine."""
        found: Process = getattr(getcurrent(), "process", self.machine)
        return found

    def alive(self) -> None:
        """End here if this process was killed."""
        if getattr(getcurrent(), "process", self.machine).dead:
            raise Killed

    def step(self, what: str, detail: Any = "") -> None:
        """Something happens: before it, chance may have its way."""
        process: Process = getattr(getcurrent(), "process", self.machine)
        if process is self.machine:
            return
        if process.dead:
            raise Killed
        self.steps += 1
        self.now += _TICK
        self.disk.now = self.now
        self.note(f"{process.name} {what} {detail}" if detail else f"{process.name} {what}")
        if self.steps in self.disasters:
            self.disasters.pop(self.steps)()
        elif self.chance() < self.faults.switch:
            self._hub.switch()
        if process.dead:
            raise Killed

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Go on when something holds."""
        process = self.current
        if process is self.machine:
            if not holds():
                raise Violation(f"the machine itself would wait for {what}")
            return
        while not holds():
            process.waits = holds
            self._hub.switch()
            process.waits = None
            if process.dead:
                raise Killed

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        process = self.current
        if process is self.machine:
            return
        wakes = self.now + int(seconds * SECOND)
        process.wakes = wakes
        self.step("sleep", f"{seconds:g}")
        self.wait(lambda: self.now >= wakes, "time")
        process.wakes = None

    def disk_refuses(self) -> bool:
        """Whether the disk is full just now."""
        return self.current is not self.machine and self.faults.full > 0 and self.chance() < self.faults.full

    def sync_refuses(self) -> bool:
        """Whether bringing something to the platter fails just now."""
        return self.current is not self.machine and self.faults.unsynced > 0 and self.chance() < self.faults.unsynced

    def ambush(self) -> None:
        """Something that matters was done; one of the next steps may be the last."""
        process = self.current
        if process is not self.machine and self.faults.ambush and self.chance() < self.faults.ambush:
            ends = (self.lose_power, self.lose_power, lambda: self.kill(process))
            self.disasters[self.steps + self.between(1, 3)] = self.one_of(ends)

    def renamed(self, target: tuple[str, ...]) -> None:
        """Tell who watches that a name is there."""
        self.ambush()
        for watch in self.on_rename:
            watch(target)

    def removed(self, target: tuple[str, ...]) -> None:
        """Tell who watches that a release or its pointer is gone."""
        if len(target) != 4 or target[0] != "releases" or target[-1].startswith("."):
            return
        self.ambush()
        for watch in self.on_remove:
            watch(target)

    # ---- processes ---------------------------------------------------------------------------------------------

    def start(self, name: str, work: Callable[[], None]) -> Process:
        """Begin a process; it does its first step when its turn comes."""
        process = Process(name)

        def run() -> None:
            try:
                work()
            except Killed:
                pass
            finally:
                self.end(process)

        process.greenlet = greenlet(run, self._hub)
        process.greenlet.process = process
        self.processes.append(process)
        return process

    def end(self, process: Process) -> None:
        """What the operating system does for a process that is gone: close its files and connections."""
        process.dead = True
        self.calls.end(process)
        for connection in list(process.connections):
            connection.cut()
        process.connections.clear()

    def stall(self, process: Process) -> None:
        """Let a process hang for a while, as one whose disk is slow or that is swapped out."""
        process.stalled = self.steps + self.between(50, 400)
        self._hub.switch()

    def kill(self, process: Process) -> None:
        """Kill a process, as ``kill -9`` does."""
        self.note(f"{process.name} is killed")
        self.end(process)

    def lose_power(self) -> None:
        """Kill all processes, and leave of the disk what has reached it."""
        self.note("the power is lost")
        for process in self.processes:
            if not process.dead:
                self.end(process)
        self.calls.opened.clear()
        self.disk.lose_power()
        for react in self.on_crash:
            react()

    def turn(self) -> bool:
        """Let one process go on; False where none is left."""
        for process in [each for each in self.processes if each.dead]:
            self.processes.remove(process)
            if not process.greenlet.dead and process.greenlet:
                process.greenlet.throw(Killed)
        if not self.processes:
            return False
        ready = [each for each in self.processes if each.waits is None or each.waits()]
        if not ready:
            sleeping = [each.wakes for each in self.processes if each.wakes is not None]
            if not sleeping:
                raise Violation("every process waits for another one")
            self.now = max(self.now, min(sleeping))
            self.disk.now = self.now
            return True
        quick = [each for each in ready if each.stalled <= self.steps]
        self.one_of(quick or ready).greenlet.switch()
        return True
