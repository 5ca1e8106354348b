"""``blockveil audit``: replay a config of a release or an ingest, or attack a mechanism on its worst neighbours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.flows.cli.common import Json, parse_date, parse_guarantee, print_json, print_rows, read_config, say
from blockveil.flows.cli.progress_line import ProgressLine
from blockveil.pipeline.base.errors import ConfigError

if TYPE_CHECKING:
    from blockveil.pipeline.study.ingest_replay import ReplayedIngest
    from blockveil.pipeline.study.replayed import Replayed

REFUTED = 10
"""Exit code of an audit that refuted a claim."""

Name = Annotated[str, typer.Argument(help="Config file of a release or an ingest, TOML, or name of a mechanism.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Epsilon that a mechanism is calibrated to; not for r1smg, nor for a config.")
]
Delta = Annotated[float | None, typer.Option(help="Delta that a mechanism is calibrated to, likewise.")]
Mutant = Annotated[
    str | None,
    typer.Option(
        help="Mistake to audit instead: half-scale, reseeded, unclipped, or of training by-position or one-epoch."
    ),
]
Trials = Annotated[
    int, typer.Option(help="Number of outputs drawn from each of two neighbours, for each case.", min=400)
]
Seed = Annotated[
    int, typer.Option(help="Seed of a mechanism's simulation; the same seed gives the same result.", min=0)
]


def audit(
    what: Name,
    epsilon: Epsilon = None,
    delta: Delta = None,
    mutant: Mutant = None,
    trials: Trials = 400_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Replay a config of a release or an ingest on constructed neighbours, or bound the true loss of a mechanism from
    below. Reads no data; exit code 10 if a claim is refuted.
    """
    if what.endswith(".toml") or Path(what).is_file():
        _replay(Path(what), (epsilon, delta, mutant), as_json)
    else:
        _attack(what, _guarantee(epsilon, delta), trials, seed, mutant, as_json)


def _guarantee(epsilon: float | None, delta: float | None) -> ApproxDP:
    if epsilon is None or delta is None:
        raise ConfigError(
            "--epsilon or --delta is missing",
            "A mechanism is audited at a guarantee that it is calibrated to",
            "Give both, or name a config file, which ends with .toml",
        )
    return parse_guarantee(epsilon, delta, "audit")


def _attack(mechanism: str, guarantee: ApproxDP, trials: int, seed: int, mutant: str | None, as_json: bool) -> None:
    from blockveil.pipeline.study.auditing import run_audit

    with ProgressLine() as progress:
        audit = run_audit(mechanism, guarantee, trials, seed, progress, mutant)
    if as_json:
        print_json({"cases": audit.rows(), "sentence": audit.sentence, "refuted": audit.flagged})
    for row in () if as_json else audit.rows():
        claim = f"claimed {row['claimed epsilon']} at delta {row['at delta']}, measured {row['measured epsilon']}"
        claim += f", exact delta {row['exact delta']}" if row["exact delta"] else ""
        power = f"; would have shown {row['would have shown']}" if row["would have shown"] else ""
        say(f"{row['verdict']:<12} {claim:<82} {row['case']}{power}")
    if not as_json:
        say(audit.sentence)
    if audit.flagged:
        sys.exit(REFUTED)


def _replay(config: Path, of_mechanisms: tuple[object, ...], as_json: bool) -> None:
    from blockveil.flows.cluster.computing import open_compute
    from blockveil.pipeline.config.ingest_file import load_ingest
    from blockveil.pipeline.config.toml import read_toml
    from blockveil.pipeline.plan.planning import make_plan
    from blockveil.pipeline.study.ingest_replay import replay_ingest
    from blockveil.pipeline.study.replay import replay

    if any(option is not None for option in of_mechanisms):
        raise ConfigError(
            "--epsilon, --delta or --mutant is given with a config",
            "A config is audited at the guarantee that it declares",
            "Leave them out, or name a mechanism",
        )
    if "ingest" in read_toml(config):
        with ProgressLine() as progress:
            _say(replay_ingest(load_ingest(config), progress), as_json)
        return
    loaded = read_config(config)
    nights = loaded.config.continual
    plan = make_plan(loaded, parse_date(None) if nights is None else nights.first)
    with open_compute(plan.loaded, plan.effort.here) as compute, ProgressLine() as progress:
        audit = replay(plan, compute, progress)
    _say(audit, as_json)


def _say(found: Replayed | ReplayedIngest, as_json: bool) -> None:
    if as_json:
        print_json(found.plain)
    else:
        print_rows(found.lines)
    if found.refutations:
        sys.exit(REFUTED)
