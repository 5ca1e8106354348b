"""Print every table, and draw the pictures if asked to."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import benchmarks.papers
from benchmarks.papers import mvg, pictures, r1smg, trainings
from benchmarks.papers.claims import claims, counts_by_buckets, counts_of_a_city
from benchmarks.papers.data import city
from benchmarks.papers.outcomes import Outcome
from benchmarks.papers.releases import Releases


def main() -> None:
    """Claims, then each experiment."""
    parser = argparse.ArgumentParser(description=benchmarks.papers.__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100, help="of each experiment; of a training fewer")
    parser.add_argument("--data", type=Path, help="folder with the files of other publishers")
    parser.add_argument("--pictures", type=Path, help="folder to draw both pictures into")
    asked = parser.parse_args()
    found = claims()
    print("| setting | claimed epsilon | claimed delta | true delta | noise over exact |")
    print("|---|---|---|---|---|")
    for claim in found:
        said = f"{claim.claimed.epsilon:g} | {claim.claimed.delta:.3g}"
        true_delta = f"{claim.true_delta:.3g}" if claim.true_delta > 1e-300 else "below 1e-300"
        print(f"| {claim.name} | {said} | {true_delta} | {claim.excess:.3g} |")
    kept = int((city() > 0).sum())
    print(f"\nR1SMG I: squared error on the {kept} cells that are not empty; {city().sum():,} pickups\n")
    print("| way | private for | squared error |\n|---|---|---|")
    for way, (private, error) in counts_of_a_city().items():
        print(f"| {way} | {private} | {error:.3g} |")
    mean, off = counts_by_buckets(min(asked.trials, 10))
    print(f"| dawa | epsilon 0.5 | {mean:.2g} ({off:.1g}) |", flush=True)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for outcome in _outcomes(asked.trials, asked.data, Releases(Path(folder))):
            print(f"\n{outcome.table()}", flush=True)
            outcomes.append(outcome)
    if asked.pictures:
        pictures.write(asked.pictures, found, outcomes)


def _outcomes(trials: int, folder: Path | None, releases: Releases) -> Iterator[Outcome]:
    """Every experiment, as it is finished."""
    yield mvg.regression(trials)
    yield mvg.first_component(trials, folder)
    yield mvg.all_components(trials, folder)
    yield from r1smg.components(trials, folder)
    yield from trainings.trained(trials, folder, releases)


if __name__ == "__main__":
    sys.exit(main())
