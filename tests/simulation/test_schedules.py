"""Nights under faults: schedules of many seeds break no invariant, and a seed always gives the same schedule."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.simulation.__main__ import main
from tests.simulation.disk import Disk
from tests.simulation.schedule import Schedule, first_violation, run_seed
from tests.simulation.statements import Compiled
from tests.simulation.world import Process

ROOT = Path(__file__).resolve().parents[2]


def test_no_invariant_is_broken_by_some_schedules():
    assert first_violation(range(50)) is None


def test_no_invariant_is_broken_where_older_copies_of_the_ledger_are_put_back():
    assert first_violation(range(50), copied=True) is None


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_invariant_is_broken_by_five_hundred_schedules_with_copies():
    assert first_violation(range(500), copied=True) is None


def test_a_range_keeps_its_place_in_a_file_of_a_new_folder(tmp_path, monkeypatch, capsys):
    place = tmp_path / "build" / "seeds"
    monkeypatch.setattr(sys, "argv", ["simulation", "--seeds", "0-0", "--progress", str(place)])
    assert main() == 0
    assert "0: 1 schedules" in capsys.readouterr().out
    assert place.read_text() == "0\n"
    assert main() == 0
    assert "schedules, " not in capsys.readouterr().out, "it went on behind the last seed"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, 2_000, 500))
def test_no_invariant_is_broken_by_two_thousand_schedules(first):
    assert first_violation(range(first, first + 500)) is None


def test_schedules_reach_what_they_are_to_try():
    seen = set()
    for seed in range(30):
        schedule = Schedule(seed)
        schedule.run()
        seen |= schedule.watcher.moments
    together = "released at the charge of another night"
    assert seen >= {"committed", "drew", "drew again", "released", "sent", "pruned", together}
    for seed in range(20):
        schedule = Schedule(seed, copied=True)
        schedule.run()
        seen |= schedule.watcher.moments
    assert seen >= {"put back", "booked again"}


def test_without_faults_every_night_is_released_at_its_first_try():
    for seed in range(10):
        schedule = Schedule(seed, faulty=False)
        schedule.world.log = []
        schedule.run()
        nights = min(len(schedule.times), schedule.kind.most_within(schedule.epsilon))
        assert len(schedule.watcher.released) == nights
        assert not any("drew again" in line or "is killed" in line for line in schedule.world.log)


def test_a_seed_gives_the_same_schedule_in_every_process():
    script = "from tests.simulation.schedule import run_seed; print([run_seed(s) for s in (3, 8)])"
    here = str([run_seed(seed) for seed in (3, 8)])
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here


def test_sqlalchemy_itself_gives_the_same_schedules():
    for seed in range(12):
        schedules = [Schedule(seed, library=library) for library in (False, True)]
        assert len({schedule.run() for schedule in schedules}) == 1


def test_a_statement_whose_results_sqlalchemy_would_convert_is_refused():
    with pytest.raises(NotImplementedError, match="would convert"):
        Compiled.of(sa.select(sa.column("day", sa.Date)), ())


def disk(numbers):
    return Disk(iter(numbers).__next__)


def file_with(disk, content, synced):
    node = disk.create(("a",), 0o600)
    node.content[:] = synced
    node.sync()
    disk.root.sync()
    node.content[:] = content
    return node


def test_a_power_loss_leaves_old_new_or_torn_bytes_of_what_was_not_synced():
    found = set()
    for outcome, cut in ((0.0, 0.0), (0.4, 0.0), (0.9, 0.5)):
        made = disk([0.0, outcome, cut])
        node = file_with(made, b"new!", b"old?")
        made.lose_power()
        found.add(bytes(node.content))
    assert found == {b"old?", b"new!", b"ned?"}


def test_a_power_loss_takes_nothing_that_was_synced():
    made = disk([0.0, 0.0])
    node = file_with(made, b"kept", b"")
    node.sync()
    made.lose_power()
    assert bytes(made.find(("a",)).content) == b"kept"


def test_renames_that_were_not_synced_overtake_one_another():
    made = disk([0.3, 0.9, 0.1])  # half of the changes: not the first, but the second
    first, second = made.create(("a",), 0o600), made.create(("b",), 0o600)
    for node in (first, second, made.root):
        node.sync()
    made.rename(("a",), ("c",))
    made.rename(("b",), ("d",))
    made.lose_power()
    assert set(made.root.folder) == {"a", "d"}


def test_a_dead_process_changes_nothing_on_its_way_out():
    schedule = Schedule(0)
    process = Process("gone", dead=True)
    with schedule.world.calls.installed():
        node = schedule.world.disk.create(("a",), 0o600)
        descriptor = schedule.world.calls._descriptor(node, reads=True, writes=True)
        schedule.world.calls.opened[descriptor].owner = process
        with open(descriptor, "wb") as file:
            file.write(b"too late")
    assert bytes(node.content) == b""
