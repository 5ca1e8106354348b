"""Nights of one service, each with a fault: ``python -m tests.nights [sqlite|postgres] [--nights N] [--seed S]``.

Without a database both are tried, one after the other. Prints what became of the nights of each fault; 1 where a night
was not released by itself, was charged twice, has other bits than an undisturbed one, left a key, or raised an alarm
that it should not.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.nights.fleet import FAULTS, Fleet

SUMS = ("alone", "tries", "charges", "alarms", "false")
"""What a line of the table has of its nights."""


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.nights", description="nights under faults, by seed")
    parser.add_argument("database", nargs="?", choices=["sqlite", "postgres"], help="where the ledger is; both")
    parser.add_argument("--nights", type=int, default=len(FAULTS), help="how many nights; each fault once")
    parser.add_argument("--seed", type=int, default=1, help="decides the order of faults and their lengths")
    parser.add_argument("--only", help="one fault, every night")
    parser.add_argument("--team", action="store_true", help="nights of a worker beside a team's server")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    order = [] if asked.only is None else [asked.only] * asked.nights
    while len(order) < asked.nights:
        order += chance.sample(FAULTS, len(FAULTS))
    databases = [asked.database] if asked.database else ["sqlite", "postgres"]
    return max(bool(lived(database, order[: asked.nights], asked.seed, asked.team)) for database in databases)


def lived(database, order, seed, team=False):
    """Live through nights on one database and print their table; what is not right.

    Parameters
    ----------
    database
        Where the ledger is.
    order
        The fault of each night.
    seed
        Decides how each fault happens.
    team
        Whether a worker of a team's server runs them.
    """
    chance, told = random.Random(seed), []
    kept = tempfile.TemporaryDirectory(prefix="blockveil-nights-")
    with kept as folder, Fleet(Path(folder), database, team) as fleet:
        for fault in order:
            told.append(fleet.night(fault, chance))
            print(f"# {database} night {len(told)}: {told[-1]}", file=sys.stderr, flush=True)
        fleet.judge(told)
        problems = fleet.problems()
    print(f"\n{database}{' and a worker' if team else ''}, {len(order)} nights, seed {seed}\n")
    print("| fault | nights | released by themselves | tries | charges | alarms | false alarms |")
    print("|---|---|---|---|---|---|---|")
    shown = {fault: [each for each in told if each.fault == fault] for fault in FAULTS}
    for name, rows in {**shown, "all": told}.items():
        if rows:
            sums = [sum(getattr(each, of) for each in rows) for of in SUMS]
            print(f"| {name} | {len(rows)} | {' | '.join(map(str, sums))} |")
    problems += [f"{each.fault}, {each.day}: {problem}" for each in told for problem in each.problems()]
    for problem in problems:
        print(f"! {problem}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
