"""The folder of a first release: composed as text, planned as it will be read, and written whole or not at all."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.base.durable import store_error, sync_tree
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig
from blockveil.pipeline.config.explain import explain
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.config.toml import parse_toml
from blockveil.pipeline.data.ingest.table_files import METADATA
from blockveil.pipeline.data.objects import is_remote
from blockveil.pipeline.plan.planning import Plan, make_plan
from blockveil.pipeline.scaffold import texts
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_answers import Numbers
from blockveil.pipeline.scaffold.column_names import SourceColumns, catalog_table, read_columns
from blockveil.pipeline.scaffold.interview import answered
from blockveil.pipeline.scaffold.whole_answers import all_answered

RELEASE = "release.toml"
INGEST = "ingest.toml"
FIND_BOUNDS = "find-bounds.toml"

SHARE_OF_BOUNDS = 0.1
"""Share of mu squared of the promise that a release of bounds takes: the others' noise grows by a twentieth."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class BegunFolder:
    """A release that is to be begun.

    Attributes
    ----------
    given
        Answers so far.
    source
        Columns of the source.
    folder
        Where the files will be; nothing is there yet.
    """

    given: Answers
    source: SourceColumns
    folder: Path


def begin(
    location: str, tree: Mapping[str, Any], base: Path, output: Path | None, first: date, *, whole: bool = False
) -> BegunFolder:
    """Read the names of a source's columns, and check the answers so far.

    Parameters
    ----------
    location
        Path of the source from ``base``, or its address.
    tree
        Answers by key.
    base
        Folder that relative paths start from.
    output
        Folder to write, or None for one that is named after the source.
    first
        First night where the answers name none.
    whole
        Whether these are all answers, so that a question that they leave open is refused.

    Raises
    ------
    BlockveilError
        The source cannot be read, an answer cannot be, or the folder exists.
    """
    source = read_columns(location, base)
    name = _name(location if output is None else output.name)
    folder = base / (output or name)
    require_new(folder)
    values = {"dataset": name, "first": first, **tree, "source": location}
    given = all_answered(source, values) if whole else answered(Answers(), source, values)
    return BegunFolder(given, source, folder)


def _name(location: str) -> str:
    """Name of a data set after its source: of ``Flights 2026.csv.gz`` it is ``flights-2026``."""
    place = Path(location.rstrip("/"))
    if catalog_table(location) is not None:
        stem = place.name.rpartition(".")[2].lower()
    else:
        named = place.parent.parent if place.name.endswith(METADATA) else place
        stem = named.name.partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63].strip("-") or "data"


@dataclass(frozen=True)
class FirstRelease:
    """The files of a first release, and its plan.

    Attributes
    ----------
    folder
        Where they belong.
    files
        Text of each by its name.
    plan
        Plan of what is released first: of the release of bounds where columns lack them, else of the first night.
    commands
        What to run, in this order, and why.
    rhythm
        How often it is released.
    charge
        What all releases together cost.
    mechanism
        Name of the mechanism of a night.
    understood
        Lines (column, what it was understood to hold).
    """

    folder: Path
    files: Mapping[str, str]
    plan: Plan
    commands: tuple[tuple[str, str], ...]
    rhythm: Rhythm
    charge: Ticks
    mechanism: str
    understood: tuple[tuple[str, str], ...]


def compose(answers: Answers, source: SourceColumns, folder: Path, base: Path) -> FirstRelease:
    """Files of a folder that does not exist yet. Reads no record and writes nothing.

    Parameters
    ----------
    answers
        Complete answers.
    source
        Columns of the source.
    folder
        Where the files will be.
    base
        Folder that a relative path of the source starts from.

    Raises
    ------
    ConfigError
        The answers do not make a release: no noise keeps the promise, or an answer is not fit for its place.
    """
    location = source.location
    elsewhere = is_remote(location) or catalog_table(location) is not None or source.kind == "postgresql"
    if not (elsewhere or os.path.isabs(location)):
        location = os.path.relpath(base / location, folder)
    ingest_text = texts.ingest_text(answers, source, location)
    ingest = _model(ingest_text, INGEST, IngestConfig)
    paid = _finding_bounds(answers, folder) if answers.unknown else None
    spent = NOTHING if paid is None else Ticks.of(paid[0].charge)
    plan, release_text = _planned(answers, folder, spent)
    if ingest.outputs != plan.columns:
        raise AssertionError("the ingest makes other columns than the release reads")
    files = {
        INGEST: ingest_text,
        **({} if paid is None else {FIND_BOUNDS: paid[1]}),
        RELEASE: release_text,
        "deployments.toml": texts.deployments_text(answers),
        "answers.toml": texts.answers_text(answers),
        "README.md": _readme(answers, _commands(answers, Path(folder.name))),
        ".gitignore": "/private/\n/releases/\n",
    }
    commands = _commands(answers, Path(os.path.relpath(folder, base)))
    return FirstRelease(
        folder,
        files,
        plan if paid is None else paid[0],
        commands,
        Rhythm("once" if paid is not None else answers.every or "once"),
        spent + Ticks.of(plan.charge).times(answers.nights or 1),
        plan.mechanism.name,
        tuple(answers.understood(source.names or answers.names or ())),
    )


def _finding_bounds(answers: Answers, folder: Path) -> tuple[Plan, str]:
    """Plan and text of the release that finds bounds."""
    text = texts.find_bounds_text(answers, SHARE_OF_BOUNDS)
    return _plan_of(text, folder / FIND_BOUNDS, answers), text


def _planned(answers: Answers, folder: Path, spent: Ticks) -> tuple[Plan, str]:
    """Plan and text of the first night, with the largest share that lets the budget hold all nights."""
    nights = answers.nights or 1
    if nights == 1 and spent == NOTHING:
        return _plan(answers, folder, None)
    cap = Cap(answers.epsilon or 0.0, answers.delta or 0.0)
    share = (1.0 if spent == NOTHING else 1.0 - SHARE_OF_BOUNDS) / nights
    for _ in range(8):
        share = _rounded_down(share)
        plan, text = _plan(answers, folder, share)
        charge = Ticks.of(plan.charge)
        # The same sum as the ledger's: all releases together stay within the budget that is granted.
        if cap.nights(spent, charge) >= nights:
            return plan, text
        share *= min(0.999, (cap.most_loss - spent.loss) / (nights * max(charge.loss, 1)))
    raise ConfigError(
        f"{nights} nights",
        "No share of the promise lets all of them fit",
        "Ask for fewer nights, or a larger epsilon",
    )


def _rounded_down(share: float) -> float:
    """The share in six digits, which a reader can take in."""
    digits = 6 - math.ceil(math.log10(share))
    return math.floor(share * 10.0**digits) / 10.0**digits


def _plan(answers: Answers, folder: Path, share: float | None) -> tuple[Plan, str]:
    """Plan and text of a night. What it costs depends on no bounds, so that any stand for those to be found."""
    stand_in = {name: Numbers(-1.0, 1.0) for name in answers.unknown}
    supposed = answers.model_copy(update={"columns": {**(answers.columns or {}), **stand_in}})
    plan = _plan_of(texts.release_text(supposed, share), folder / RELEASE, answers)
    return plan, texts.release_text(answers, share)


def _plan_of(text: str, path: Path, answers: Answers) -> Plan:
    if answers.first is None:
        raise AssertionError("the answers are complete")
    return make_plan(LoadedConfig(_model(text, path.name, ReleaseConfig), path), answers.first)


def _model(text: str, name: str, model: type[Model]) -> Model:
    tree: dict[str, Any] = parse_toml(text.encode(), name)
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        failure = explain(error, tree, name, model)
    # Raised outside the handler: a chained pydantic error would print the whole input again.
    raise failure


def _commands(answers: Answers, folder: Path) -> tuple[tuple[str, str], ...]:
    release, ingest = shlex.quote(str(folder / RELEASE)), shlex.quote(str(folder / INGEST))
    once = answers.every == "once"
    night = f"blockveil plan {release}", f"shows what {'it' if once else 'a night'} costs and how exact it is; "
    look = (night[0], f"{night[1]}reads no data")
    grant = (
        f"blockveil budget set {release} --epsilon {answers.epsilon:g} --delta {answers.delta:g}",
        "grants the promise" if once else "grants the promise once, for all nights",
    )
    found = [
        (f"blockveil ingest {ingest}", "reads the records and checks every value"),
        *([look, grant] if not answers.unknown else [*_to_bounds(answers, folder, grant), look]),
        (
            f"blockveil run {release} --date {answers.first} --no-prefect",
            f"makes the {'' if once else 'first '}release",
        ),
        (f"blockveil verify {shlex.quote(str(folder / 'releases'))}", "checks what was released, by itself"),
    ]
    if not once:
        serves = "runs the nights, and shows them in a browser; needs blockveil[server]"
        found.append((f"blockveil serve {shlex.quote(str(folder))}", serves))
    return tuple(found)


def _to_bounds(answers: Answers, folder: Path, grant: tuple[str, str]) -> list[tuple[str, str]]:
    """From no bounds to those of a charged release."""
    finding = shlex.quote(str(folder / FIND_BOUNDS))
    grant = (grant[0].replace(shlex.quote(str(folder / RELEASE)), finding), grant[1])
    released = folder / "releases" / str(answers.dataset) / f"{answers.purpose}-bounds" / f"{answers.first}.json"
    written = shlex.quote(str(folder / texts.BOUNDS))
    return [
        (f"blockveil plan {finding}", "shows how many values must lie together to be found; reads no data"),
        grant,
        (f"blockveil run {finding} --date {answers.first} --no-prefect", "finds the bounds, and is charged for them"),
        (f"blockveil bounds read {shlex.quote(str(released))} --output {written}", "writes them for release.toml"),
    ]


def _readme(answers: Answers, commands: tuple[tuple[str, str], ...]) -> str:
    lines = "\n".join(f"{command}   # {why}" for command, why in commands)
    return (
        f"# {answers.dataset}: {answers.purpose}\n\n"
        f"A release of the {answers.purpose} of `{answers.dataset}` under differential privacy. It protects "
        f"{answers.called}.\n"
        "In this order, from the folder above:\n\n"
        f"```\n{lines}\n```\n\n"
        "`ingest.toml` says what is read, `release.toml` what is released and promised, `deployments.toml` what runs "
        f"when.\n{_of_bounds(answers)}"
        "`private/` will hold the records, the ledger and the keys of the noise: nobody else may read it. "
        "`releases/` is what\nothers may read.\n"
    )


def _of_bounds(answers: Answers) -> str:
    if not answers.unknown:
        return ""
    return f"`{FIND_BOUNDS}` finds the bounds of columns that have none, and `{texts.BOUNDS}` will hold them.\n"


def write(composed: FirstRelease) -> None:
    """Write the folder at once: it is there whole, or it is not there.

    Raises
    ------
    ConfigError
        It exists already.
    StoreError
        It cannot be written.
    """
    folder = composed.folder
    require_new(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".init-", dir=folder.parent))
        try:
            for name, text in composed.files.items():
                (staged / name).write_text(text, encoding="utf-8")
            (staged / "private").mkdir(mode=0o700)
            staged.chmod(0o755)
            sync_tree(staged)
            staged.rename(folder)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except OSError as error:
        failure = store_error(error, "writing the configs", "--output")
    else:
        return
    raise failure


def require_new(folder: Path) -> None:
    """Refuse a folder that is there.

    Raises
    ------
    ConfigError
        Something of this name exists.
    """
    if folder.exists() or folder.is_symlink():
        raise ConfigError(
            f'"{folder.name}" exists already',
            "The configs of a release are written into a folder of their own",
            "Give another one with --output, or remove it",
        )
