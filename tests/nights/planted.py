"""What goes wrong inside the process of a run, and the key that every run has."""

import json
import os
import signal
from pathlib import Path

import pytest

from blockveil.flows.cluster import clusters, workers
from blockveil.flows.runs import turns
from blockveil.pipeline.base import durable
from blockveil.pipeline.ledger import Ledger, sqlite, writer_queue
from tests.end_to_end import test_worker_faults

PLACE = "NIGHTS_FAULT"
"""Environment variable: file that says which fault meets how many processes."""

LOCK_SECONDS = 2
"""How long a run waits for a ledger, and for its turn."""


def plant():
    """Called in the process of each run, before it begins."""
    patch = pytest.MonkeyPatch()
    test_worker_faults.in_small_blocks(patch)
    for module in (sqlite, writer_queue):
        patch.setattr(module, "WAIT_SECONDS", LOCK_SECONDS)
    place = Path(os.environ[PLACE])
    order = json.loads(place.read_text())
    if order["fault"] in FAULTS and order["left"]:
        place.write_text(json.dumps({**order, "left": order["left"] - 1}))
        FAULTS[order["fault"]](patch, place.with_name("hit"))


def hit(place):
    with place.open("a") as file:
        file.write("hit\n")


def dies_after(patch, place, of, name):
    """Kill this process once a function has returned."""
    called = getattr(of, name)

    def call_and_die(*args, **options):
        called(*args, **options)
        hit(place)
        os.kill(os.getpid(), signal.SIGKILL)

    patch.setattr(of, name, call_and_die)


def kill_workers(client, place):
    for process in client.run(os.getpid).values():
        os.kill(process, signal.SIGKILL)
    hit(place)


def before_the_first_task(patch, place):
    made = clusters.DistributedCompute

    def killed(client, *args):
        compute = made(client, *args)
        kill_workers(client, place)
        return compute

    patch.setattr(clusters, "DistributedCompute", killed)


def while_plugins_are_registered(patch, place):
    register, seen = workers.register, []

    def killed(client, plugin):
        seen.append(plugin)
        if len(seen) == 2:
            kill_workers(client, place)
        register(client, plugin)

    patch.setattr(workers, "register", killed)


def in_sums(patch, place):
    made = clusters.DistributedCompute

    def failing(client, *args):
        folder = place.with_name(f"sums-{os.getpid()}")
        folder.mkdir(exist_ok=True)
        faults = test_worker_faults.faults(client, folder, signal.SIGKILL, "sum")
        faults.__enter__()
        failing.kept = faults  # it ends with the process
        hit(place)
        return made(client, *args)

    patch.setattr(clusters, "DistributedCompute", failing)


def scheduler_lost(patch, place):
    made = clusters.DistributedCompute

    def lost(client, *args):
        compute, scheduler = made(client, *args), client.cluster.scheduler
        client.cluster.sync(scheduler.close)
        hit(place)
        return compute

    patch.setattr(clusters, "DistributedCompute", lost)


def turn_not_come(patch, place):
    patch.setattr(turns, "WAIT_SECONDS", LOCK_SECONDS)
    hit(place)


FAULTS = {
    "killed after RESERVED": lambda patch, place: dies_after(patch, place, Ledger, "reserve"),
    "killed after COMMITTED": lambda patch, place: dies_after(patch, place, Ledger, "commit"),
    "killed while publishing": lambda patch, place: dies_after(patch, place, durable, "replace_file"),
    "killed before the seal": lambda patch, place: dies_after(patch, place, Ledger, "released"),
    "workers killed before the first task": before_the_first_task,
    "workers killed while plugins are registered": while_plugins_are_registered,
    "workers killed in the middle of sums": in_sums,
    "scheduler lost": scheduler_lost,
    "turn not come": turn_not_come,
}
