"""What only a curator can disclose of a deployment: ``disclosure.toml``, as a frozen model.

Nothing in it can change a bit of a release or a budget; it is read where a deployment is described to others.
"""

from __future__ import annotations

import hashlib
import os
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import StringConstraints

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.sections.fields import Section

_RULE = "What a curator discloses is written in a file, of which docs/how-to/disclose.md shows an example"

Prose = Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]


class Disclosure(Section):
    """``disclosure.toml``: what only its curator can say of a deployment. A key that is left out is a blank."""

    curators: tuple[Label, ...] = ()
    """who publishes the releases"""
    authors: tuple[Label, ...] = ()
    """who filled in this file"""
    contact: Label | None = None
    """where questions and complaints go"""
    title: Label | None = None
    """the name of the data product; dataset/name by default"""
    description: Prose | None = None
    """what the releases are of, in a few sentences"""
    intended_use: Prose | None = None
    """what the releases are for"""
    region: Label | None = None
    """the region that the records describe, or whose laws apply"""
    sector: Sector | None = None
    """the industry that the records describe"""
    population: Prose | None = None
    """whose records could be in the data set: the persons or units eligible for protection"""
    first_published: date | None = None
    """the day of the first publication, where the ledger does not hold it"""
    actors: Prose | None = None
    """who has access to the records, to keys and to releases, whom each has to trust, and why"""
    records_change: bool | None = None
    """whether records are added or changed over time"""
    future_use: Prose | None = None
    """further uses or publications of the same records that are planned"""
    security: Prose | None = None
    """how records, key store and ledger are protected: access controls, encryption, retention"""
    exploration: Prose | None = None
    """what was done with the records before: cleaning, exploration, tuning, and whether it was charged"""
    justification: Prose | None = None
    """why this epsilon, these bounds and this unit were chosen, and by whom"""
    sources: Prose | None = None
    """links to papers, posts and to the releases themselves"""


def load_disclosure(path: str | os.PathLike[str]) -> tuple[Disclosure, str]:
    """Read a disclosure and its SHA-256.

    Raises
    ------
    ConfigError
        It is not usable.
    """
    file = absolute(path, "The disclosure")
    tree = read_toml(file, _RULE)
    return validated(Disclosure, tree, file.name, file), _digest(file)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        problem = f'"{file.name}" cannot be read ({os.strerror(error.errno or 0)})'
        failure = durable.unreadable(error, ConfigError(problem, _RULE, "Correct the path"))
    raise failure
