"""Where the files of a question belong: names that the first one has alone, or beside earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blockveil.pipeline.scaffold.answers import Answers


@dataclass(frozen=True)
class Place:
    """Where the files of a question belong, and what it shares with earlier ones.

    Attributes
    ----------
    name
        Name of the release; None for that of its purpose.
    prefix
        What the names of files begin with; empty for the first question of a folder.
    store
        Path of the store of records.
    output
        Section ``[output]``.
    budget
        Name of the budget where it is not that of the data set.
    gaussian
        Whether the noise has to be Gaussian: in a budget that pays Gaussian noise, a pure loss costs far more.
    """

    name: str | None = None
    prefix: str = ""
    store: str = "private/records.zarr"
    output: Mapping[str, Any] = field(
        default_factory=lambda: {"root": "releases", "ledger": "private/ledger.db", "keys": "private/keys"}
    )
    budget: str | None = None
    gaussian: bool = False

    @property
    def release(self) -> str:
        """File of the release."""
        return f"{self.name}.toml" if self.prefix else "release.toml"

    @property
    def ingest(self) -> str:
        """File of the ingest."""
        return f"{self.prefix}ingest.toml"

    @property
    def find_bounds(self) -> str:
        """File of the release that finds bounds."""
        return f"{self.prefix}find-bounds.toml"

    @property
    def bounds(self) -> str:
        """File that takes up the bounds that a release has found."""
        return f"{self.prefix}bounds.toml"

    @property
    def answers(self) -> str:
        """File of what was answered."""
        return f"{self.prefix}answers.toml"

    def named(self, answers: Answers) -> str:
        """Name of the release."""
        return self.name or str(answers.purpose)


FIRST = Place()
"""That of the first question of a folder."""
