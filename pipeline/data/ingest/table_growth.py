"""How a store grows by a Delta or Iceberg table: by the files that its commits added since the last append.

**Claim.** Let a store hold each row that the table had at one version, once. Let every later commit up to another
version be of one of three kinds: an append, which adds files of new rows and removes none; a compaction, which puts
files of the same rows in place of others; or a correction, which removes, and may replace, files that such appends and
corrections have added since, and no compaction has replaced. Then the rows of the files that appends and corrections
have added and corrections have not removed, and the rows that are stored, are together the rows of the table at the
other version, each once.

**Proof.** By induction over the commits. An append adds its rows to those of the table and to those of the files. A
compaction changes the rows of neither: its files are not counted, and those that they replace still are. A correction
removes files that are in the table and are counted: their rows leave both, and those of its own files join both. QED.

So rows are read from the files in which they were first written, whatever a compaction made of them since, and which
append stores a row is decided by the commits that wrote it, as by its file elsewhere. A commit of any other kind, such
as one that deletes or updates rows that are stored, is refused: records that are stored never change. Of which kind a
commit is says the table's own log, whose writer is trusted with that as with the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest.files import SourceFile
from blockveil.pipeline.data.ingest.growth_state import TablePoint

T = TypeVar("T")


@dataclass(frozen=True)
class Commit(Generic[T]):
    """What one commit changed, compactions aside.

    Attributes
    ----------
    added
        What is known of each file of new rows, by its path, in the order in which they are read.
    removed
        Paths of files whose rows the table has no more, or has in files that were added.
    erased
        Whether rows that are stored may have been deleted by it: what it put in their place is not new.
    """

    added: Mapping[str, T]
    removed: frozenset[str]
    erased: bool


def new_in(commits: Iterable[Commit[T]], shown: str) -> list[T]:
    """What is known of the files that are new after some commits; see the claim above.

    Raises DataError where a commit changed rows that are stored, or removed what a compaction has written.
    """
    files: dict[str, T] = {}
    for commit in commits:
        if commit.removed <= files.keys():
            files = {path: file for path, file in files.items() if path not in commit.removed}
            files.update(commit.added)
        elif not commit.erased:
            raise changed(shown, "deletes, updates or overwrites rows")
    return list(files.values())


class GrowingTable(Protocol):
    """A table at one version.

    Attributes
    ----------
    name
        What the table calls itself, and no other table does; with the numbers of the columns, where they have some.
    version
        The version.
    """

    name: str
    version: str

    def files(self) -> list[SourceFile]:
        """Files that hold all its rows."""

    def since(self, point: TablePoint) -> list[SourceFile]:
        """Files that were added since a store held the table, in the order of their commits.

        Raises
        ------
        DataError
            Something else happened since than appends and compactions, or the table's history is not kept so far back.
        StoreError
            A file is not there any more, or its store does not answer.
        """


def check_same(table: GrowingTable, point: TablePoint, shown: str) -> None:
    """Refuse another table than the one that a store holds; DataError."""
    if table.name != point.name:
        raise DataError(
            f"{shown} is another table than the one that the store holds, or was made anew, or has other columns now",
            "All records of a store come from the same columns of one table",
            "Name that table, or ingest this one into another store",
        )


def changed(shown: str, what: str) -> DataError:
    """Refusal of a commit that may have changed rows that are stored."""
    return DataError(
        f"{shown} was changed since its rows were stored, by a commit that {what}",
        "A store grows by a table to which rows are appended, and which may be compacted; what is stored never changes",
        "Ingest the table into another store. To erase units, take in what was appended, delete them in the table, "
        "and run blockveil service erase before anything else",
    )


def forgotten(shown: str) -> DataError:
    """Refusal of a table whose history does not lead back to what a store holds."""
    return DataError(
        f"The history of {shown} does not lead from the version that the store holds to the one that is read",
        "What was appended is known by the commits in between",
        "Name a later version; let the table keep its history for longer than the time between two runs. Where it is "
        "gone, ingest the table into another store",
    )
