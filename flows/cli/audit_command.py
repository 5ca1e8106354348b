"""``blockveil audit``: attack a mechanism on its worst neighbours."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.flows.cli.common import Debug, Json, print_json, say
from blockveil.flows.cli.progress_line import ProgressLine
from blockveil.pipeline.base.errors import ConfigError

REFUTED = 10
"""Exit code of an audit that refuted a claim."""

Name = Annotated[str, typer.Argument(help="Name of a mechanism; see `blockveil mechanisms`.")]
Epsilon = Annotated[float, typer.Option(help="What the mechanism is calibrated to; not used for r1smg.")]
Delta = Annotated[float, typer.Option(help="The same.")]
Mutant = Annotated[str | None, typer.Option(help="A mistake to audit instead: half-scale, reseeded or unclipped.")]
Trials = Annotated[int, typer.Option(help="Outputs drawn from each of two neighbours, in each case.", min=400)]
Seed = Annotated[int, typer.Option(help="Of the simulation; the same seed gives the same result.", min=0)]


def audit(
    mechanism: Name,
    epsilon: Epsilon,
    delta: Delta,
    mutant: Mutant = None,
    trials: Trials = 400_000,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Bound the true loss of a mechanism from below. Reads no data; exit code 10 if a claim is refuted."""
    del debug
    from blockveil.pipeline.study.auditing import run_audit

    try:
        guarantee = ApproxDP(epsilon, delta)
    except ValueError as error:
        raise ConfigError("This audit cannot be made", str(error), "Correct the parameter") from None
    with ProgressLine() as progress:
        found = run_audit(mechanism, guarantee, trials, seed, progress, mutant)
    if as_json:
        print_json({"cases": found.rows(), "sentence": found.sentence, "refuted": found.flagged})
    for row in () if as_json else found.rows():
        claim = f"claimed {row['claimed epsilon']} at delta {row['at delta']}, measured {row['measured epsilon']}"
        claim += f", exact delta {row['exact delta']}" if row["exact delta"] else ""
        shown = f"; would have shown {row['would have shown']}" if row["would have shown"] else ""
        say(f"{row['verdict']:<12} {claim:<82} {row['case']}{shown}")
    if not as_json:
        say(found.sentence)
    if found.flagged:
        sys.exit(REFUTED)
