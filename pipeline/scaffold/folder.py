"""The folder of a release: composed as text, planned as it will be read, and written whole or not at all.

A further question about a source that a folder reads already joins that folder (:mod:`.earlier`).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.config.toml import parse_toml
from blockveil.pipeline.data.ingest.table_files import METADATA
from blockveil.pipeline.data.objects import is_remote
from blockveil.pipeline.plan.planning import Plan, make_plan
from blockveil.pipeline.scaffold import texts
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_answers import Numbers, meaning
from blockveil.pipeline.scaffold.column_names import SourceColumns, catalog_table, read_columns
from blockveil.pipeline.scaffold.earlier import Earlier, find_earlier
from blockveil.pipeline.scaffold.interview import answered
from blockveil.pipeline.scaffold.next_steps import NextSteps, readme
from blockveil.pipeline.scaffold.place import FIRST, Place
from blockveil.pipeline.scaffold.whole_answers import all_answered

DEPLOYMENTS = "deployments.toml"

_MOST_QUESTIONS = 1000

_SHOWN = 12
"""Columns that are named where they are left out."""

SHARE_OF_BOUNDS = 0.1
"""Share of mu squared of the promise that a release of bounds takes: the others' noise grows by a twentieth."""


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
        Where the files will be; nothing is there yet, but for an earlier question.
    base
        Folder that a relative path of the source starts from.
    earlier
        The release of the same source whose budget pays; None for a budget of its own.
    new_budget
        Why there is another budget for the same people; None where there is none.
    """

    given: Answers
    source: SourceColumns
    folder: Path
    base: Path
    earlier: Earlier | None = None
    new_budget: str | None = None

    def place(self, answers: Answers) -> Place:
        """Where the files of the answers belong."""
        if self.earlier is None:
            output = {**FIRST.output, **({} if self.new_budget is None else {"new_budget": self.new_budget})}
            return replace(FIRST, output=output)
        config, folder = self.earlier.release.config, self.earlier.folder
        purpose = str(answers.purpose)
        names = (purpose, *(f"{purpose}-{number}" for number in range(2, _MOST_QUESTIONS)))
        name = next(name for name in names if not _is_taken(folder, config, name))
        store = Path(config.data.store).with_name(f"{name}.zarr")
        output = config.output.model_dump(mode="json", exclude_defaults=True)
        return Place(name, f"{name}-", str(store), output, config.release.budget)


def _is_taken(folder: Path, config: ReleaseConfig, name: str) -> bool:
    """Whether a release of this name, or a file of it, is in a folder."""
    return config.release.name == name or any(folder.glob(f"{name}.toml")) or any(folder.glob(f"{name}-*.toml"))


def begin(
    location: str,
    tree: Mapping[str, Any],
    base: Path,
    output: Path | None,
    first: date,
    *,
    whole: bool = False,
    new_budget: str | None = None,
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
    new_budget
        Why there is to be another budget over the same people; None joins the one that there is.

    Raises
    ------
    BlockveilError
        The source cannot be read, an answer cannot be, the folder exists, or another one has the source's budget.
    """
    source = read_columns(location, base)
    name = _name(location if output is None else output.name)
    folder = base / (output or name)
    earlier = None if new_budget is not None else find_earlier(location, base, folder)
    terms: Mapping[str, Any] = {}
    if earlier is None:
        require_new(folder)
    else:
        if output is not None and folder.resolve() != earlier.folder.resolve():
            raise _has_a_budget(earlier)
        earlier.require_same(tree)
        terms, folder = earlier.inherited(), earlier.folder
    values = {"dataset": name, "first": first, **terms, **tree, "source": location}
    answers = all_answered(source, values) if whole else answered(Answers(), source, values)
    return BegunFolder(answers, source, folder, base, earlier, new_budget)


def _has_a_budget(earlier: Earlier) -> ConfigError:
    return ConfigError(
        f'"{earlier.folder}" reads the same source, and its ledger has the budget of these people: epsilon '
        f"{earlier.cap.epsilon:g}",
        "A second budget would promise the same people twice as much without a word",
        "Leave --output out, so that the question joins that folder; or give --new-budget with the reason, which the "
        "new ledger keeps",
    )


def _name(location: str) -> str:
    """Name of a data set after its source: of ``Flights 2026.csv.gz`` it is ``flights-2026``."""
    place = Path(location.rstrip("/"))
    if catalog_table(location) is not None:
        stem = place.name.rpartition(".")[2].lower()
    else:
        table = place.parent.parent if place.name.endswith(METADATA) else place
        stem = table.name.partition(".")[0].lower()
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
    budget
        Lines (what, value) on the budget that this question joins; none where it has its own.
    joins
        Whether the folder is there, with an earlier question.
    """

    folder: Path
    files: Mapping[str, str]
    plan: Plan
    commands: tuple[tuple[str, str], ...]
    rhythm: Rhythm
    charge: Ticks
    mechanism: str
    understood: tuple[tuple[str, str], ...]
    budget: tuple[tuple[str, str], ...] = ()
    joins: bool = False


def compose(begun: BegunFolder, answers: Answers) -> FirstRelease:
    """Files of a release that do not exist yet. Reads no record and writes nothing.

    Raises
    ------
    ConfigError
        The answers do not make a release: no noise keeps the promise, or an answer is not fit for its place.
    """
    source, folder, base = begun.source, begun.folder, begun.base
    place, location = begun.place(answers), source.location
    elsewhere = is_remote(location) or catalog_table(location) is not None or source.kind == "postgresql"
    if not (elsewhere or os.path.isabs(location)):
        location = os.path.relpath(base / location, folder)
    ingest_text = texts.ingest_text(answers, source, location, place)
    ingest = validated(IngestConfig, parse_toml(ingest_text.encode(), place.ingest), place.ingest)
    if (store := _stored_already(begun.earlier, ingest)) is not None:
        place = replace(place, store=store)
    bounds_release = _finding_bounds(answers, folder, place) if texts.finds_bounds(answers) else None
    cost = NOTHING if bounds_release is None else Ticks.of(bounds_release[0].charge)
    plan, release_text = _planned(answers, folder, cost, place)
    if begun.earlier is not None and isinstance(plan.charge, Loss) and plan.charge.epsilon:
        place = replace(place, gaussian=True)
        plan, release_text = _planned(answers, folder, cost, place)
    if ingest.outputs != plan.columns:
        raise AssertionError("the ingest makes other columns than the release reads")
    charges = [(plan.charge, answers.nights or 1), *([] if bounds_release is None else [(bounds_release[0].charge, 1)])]
    epsilon = answers.epsilon or 0.0 if begun.earlier is None else begun.earlier.together(charges)
    steps = NextSteps(answers, place, epsilon, begun.earlier, store is not None)
    files = {
        **({} if store is not None else {place.ingest: ingest_text}),
        **({} if bounds_release is None else {place.find_bounds: bounds_release[1]}),
        place.release: release_text,
        place.answers: texts.answers_text(answers),
        **_of_folder(begun, answers, place, steps),
    }
    commands = steps.commands(Path(os.path.relpath(folder, base)))
    return FirstRelease(
        folder,
        files,
        plan if bounds_release is None else bounds_release[0],
        commands,
        Rhythm("once" if bounds_release is not None else answers.every or "once"),
        cost + Ticks.of(plan.charge).times(answers.nights or 1),
        plan.mechanism.name,
        tuple(_understood(answers, source)),
        tuple(_of_budget(begun.earlier, answers, epsilon)),
        begun.earlier is not None,
    )


def _understood(answers: Answers, source: SourceColumns) -> Iterator[tuple[str, str]]:
    """What each column was understood to hold, and which ones are left out."""
    columns = answers.columns or {}
    yield from ((name, meaning(answer)) for name, answer in columns.items())
    names = source.names or answers.names or ()
    left_out = [name for name in names if name not in columns and name != answers.unit_column]
    if left_out:
        more = f" and {len(left_out) - _SHOWN:,} more" if len(left_out) > _SHOWN else ""
        yield "Left out", f"{', '.join(left_out[:_SHOWN])}{more}"


def _of_budget(earlier: Earlier | None, answers: Answers, together: float) -> Iterator[tuple[str, str]]:
    """What the question does to the budget that it joins."""
    if earlier is None:
        return
    cap = earlier.cap
    yield "Joins", f'the ledger and the budget of "{earlier.release.path}", which reads the same source'
    yield "Budget", f"epsilon {cap.epsilon:g} at delta {cap.delta:g}, for all releases of these people together"
    yield "This question", f"epsilon {answers.epsilon:g} at delta {answers.delta:g} by itself"
    yield "Together", f"epsilon {together:g} at delta {cap.delta:g}: what everyone among the records would be promised"


def _stored_already(earlier: Earlier | None, ingest: IngestConfig) -> str | None:
    """The store of an earlier question where it holds the very records that this one reads."""
    if earlier is None:
        return None
    theirs = earlier.ingest.config
    same = theirs.columns == ingest.columns and theirs.source == ingest.source
    same &= theirs.unit.model_copy(update={"seed": ""}) == ingest.unit.model_copy(update={"seed": ""})
    return earlier.release.config.data.store if same else None


def _of_folder(begun: BegunFolder, answers: Answers, place: Place, steps: NextSteps) -> dict[str, str]:
    """Files that all questions of a folder have in common."""
    if begun.earlier is None:
        return {
            DEPLOYMENTS: texts.deployments_text(answers),
            "README.md": readme(answers, steps.commands(Path(begun.folder.name))),
            ".gitignore": "/private/\n/releases/\n",
        }
    night = texts.night_text(answers, place)
    if not night:
        return {}
    path = begun.folder / DEPLOYMENTS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return {DEPLOYMENTS: f"{text.rstrip()}\n\n{night}\n".lstrip()}


def _finding_bounds(answers: Answers, folder: Path, place: Place) -> tuple[Plan, str]:
    """Plan and text of the release that finds bounds."""
    text = texts.find_bounds_text(answers, SHARE_OF_BOUNDS, place)
    return _plan_of(text, folder / place.find_bounds, answers), text


def _planned(answers: Answers, folder: Path, spent: Ticks, place: Place) -> tuple[Plan, str]:
    """Plan and text of the first night, with the largest share that lets the budget hold all nights."""
    nights = answers.nights or 1
    if nights == 1 and spent == NOTHING:
        return _plan(answers, folder, None, place)
    cap = Cap(answers.epsilon or 0.0, answers.delta or 0.0)
    share = (1.0 if spent == NOTHING else 1.0 - SHARE_OF_BOUNDS) / nights
    for _ in range(8):
        share = _rounded_down(share)
        plan, text = _plan(answers, folder, share, place)
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


def _plan(answers: Answers, folder: Path, share: float | None, place: Place) -> tuple[Plan, str]:
    """Plan and text of a night. What it costs depends on no bounds, so that any stand for those to be found."""
    stand_in = {name: Numbers(-1.0, 1.0) for name in answers.unknown if texts.finds_bounds(answers)}
    draft = answers.model_copy(update={"columns": {**(answers.columns or {}), **stand_in}})
    plan = _plan_of(texts.release_text(draft, share, place), folder / place.release, answers)
    return plan, texts.release_text(answers, share, place)


def _plan_of(text: str, path: Path, answers: Answers) -> Plan:
    if answers.first is None:
        raise AssertionError("the answers are complete")
    config = validated(ReleaseConfig, parse_toml(text.encode(), path.name), path.name)
    return make_plan(LoadedConfig(config, path), answers.first)


def require_new(folder: Path) -> None:
    """Refuse a folder that is there.

    Raises
    ------
    ConfigError
        Something of this name exists.
    """
    if folder.exists() or folder.is_symlink():
        raise ConfigError(
            f'"{folder.name}" exists already, and nothing in it reads this source',
            "The configs of a first release are written into a folder of their own",
            "Give another name with --output",
        )
