"""``blockveil.init``: the configs of a first release from the names of a source's columns and public answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date as day
from pathlib import Path
from typing import Any

from blockveil.flows.python.sources import day_of
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.showing import as_page_part, as_text
from blockveil.pipeline.config.toml import as_toml, read_toml
from blockveil.pipeline.plan import summary
from blockveil.pipeline.scaffold.folder import FirstRelease, begin, compose
from blockveil.pipeline.scaffold.written_folder import write


@dataclass(frozen=True, eq=False)
class ReleaseFolder:
    """The folder of a first release; it prints its plan and what to do next.

    Attributes
    ----------
    folder
        Where the configs are.
    commands
        What to run, in this order, and why.
    """

    folder: Path
    commands: tuple[tuple[str, str], ...]
    first_release: FirstRelease = field(repr=False)

    @property
    def config(self) -> Path:
        """The config of the release, as :func:`blockveil.plan` and :func:`blockveil.run` take it."""
        return self.folder / "release.toml"

    @property
    def _rows(self) -> list[tuple[str, str]]:
        steps = [("Next", f"{command}   # {why}") for command, why in self.commands]
        return [
            *self.first_release.budget,
            *self.first_release.understood,
            *summary.describe(self.first_release.plan, None),
            *steps,
        ]

    def __str__(self) -> str:
        """Plan of the first night, and what to do next."""
        return as_text(f"Configs in {self.folder}", self._rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_page_part(f"Configs in {self.folder}", self._rows)


def init(
    source: str | os.PathLike[str] | None = None,
    /,
    *,
    answers: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    date: day | str | None = None,
    new_budget: str | None = None,
    **given: Any,
) -> ReleaseFolder:
    """Write the configs of a first release. Reads the names of the columns and nothing else.

    Parameters
    ----------
    source
        File, folder or pattern of the records: CSV, Parquet, NPY or Zarr; or a table, such as ``clinic.duckdb/visits``.
    answers
        File of answers, or the same as nested tables. Every answer is public and none may be taken from the records.
    output
        Folder to write; named after the source where it is not given.
    date
        The first night, a date or ``YYYY-MM-DD``; today where not given.
    new_budget
        Why there is to be a second budget for people whose source another folder reads already; kept by the new
        ledger. Without it the question joins that folder's ledger and budget.
    **given
        Answers by name, laid over the others, such as ``unit_column="patient"`` or ``columns={"age": "0 to 120"}``.

    Returns
    -------
    ReleaseFolder
        Prints the plan of the first night and the commands that come next.

    Raises
    ------
    ConfigError
        An answer is missing or cannot be, each with the reason; the folder exists, or another one has the budget.
    DataError, StoreError
        The source cannot be read or has no names.
    """
    if answers is None or isinstance(answers, Mapping):
        tree = as_toml(answers or {})
    else:
        tree = read_toml(Path(answers), "A file of answers is a TOML file")
    tree |= as_toml(given)
    location = tree.get("source") if source is None else os.fspath(source)
    if not isinstance(location, str):
        raise ConfigError("No source is given", "The configs are for the columns of a source", "Name a file of records")
    draft = begin(
        location,
        tree,
        Path.cwd(),
        None if output is None else Path(output),
        day_of(date),
        whole=True,
        new_budget=new_budget,
    )
    release = compose(draft, draft.given)
    write(release)
    return ReleaseFolder(release.folder, release.commands, release)
