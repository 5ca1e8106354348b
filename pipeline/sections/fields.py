"""Types of single values in a config, and the error that a rule across values raises.

Numbers are strict: a text, a boolean, NaN or an infinity is never taken for a number.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import FunctionType
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from blockveil.pipeline.base.printable import is_hidden

LARGEST = 1e30
"""Largest magnitude of a bound: variances of products multiply four bounds, and stay far inside float64."""

SMALLEST = 1e-30
"""Smallest length: dividing by it stays far inside float64."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
"""Data set and release names: they become folder names, identifiers and run names."""

Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Bound = Annotated[Number, Field(ge=-LARGEST, le=LARGEST)]
Length = Annotated[Number, Field(ge=SMALLEST, le=LARGEST)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[^\s\p{C}](?:[^\p{C}]*[^\s\p{C}])?$")]


def _title(section: type[Any]) -> str:
    return section.__name__.removesuffix("Section")  # what a form calls it


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Text below each annotated name of each class of a module; Pydantic would read the file anew for each class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # without a source there are no texts
        return {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_described(node.body)) for node in classes}


def _described(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, text in itertools.pairwise(body):
        match statement, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                yield name, inspect.cleandoc(docstring)


Rule = TypeVar("Rule", bound=Callable[[Any], None])


def rule(check: Rule) -> Rule:
    """Mark a method that raises a :func:`refusal` where values of its table do not go together."""
    _RULES.add(check)
    return check


_RULES: set[Callable[[Any], None]] = set()


class Section(BaseModel):
    """A table of the config: read-only, every key in it must be known, and all its rules are checked at once."""

    # A table is built with the one that holds it. Each by itself, too, would make every start longer.
    model_config = ConfigDict(frozen=True, extra="forbid", model_title_generator=_title, defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Describe each key by the docstring below it, before the table is built."""
        for key, text in _docstrings(cls.__module__).get(cls.__name__, {}).items():
            if key in cls.model_fields:
                cls.model_fields[key].description = text

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        errors = []
        for check in _rules(type(self)):
            try:
                check(self)
            except PydanticCustomError as error:
                errors.append(error)
        if not errors:
            return self
        if len(errors) == 1:
            raise errors[0]
        raise PydanticCustomError("refusals", "several rules", {"refusals": [error.context for error in errors]})


@cache
def _rules(section: type[Section]) -> tuple[Callable[[Any], None], ...]:
    """Rules of a table, those of its bases first."""
    methods = {name: each for base in reversed(section.__mro__) for name, each in vars(base).items()}
    return tuple(each for each in methods.values() if isinstance(each, FunctionType) and each in _RULES)


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """The name."""


AnyNamed = TypeVar("AnyNamed", bound=Named)


def refusal(key: str, value: str, rule: str, remedy: str) -> PydanticCustomError:
    """Error of a rule across several values; ``key`` is relative to the model that checks."""
    return PydanticCustomError("refusal", "{rule}", {"key": key, "value": value, "rule": rule, "remedy": remedy})


_REMOTE = re.compile(r"(s3|s3a|gs|az|azure|abfs|abfss)://[A-Za-z0-9][A-Za-z0-9._-]*(/.*)?")


def _located(text: str) -> str:
    if "://" not in text:
        return _local(text)
    if not _REMOTE.fullmatch(text) or any(mark in text for mark in "@?#"):
        # What was written may hold a password or a signature: it is not repeated.
        raise refusal(
            "",
            "this is not the address of an object store",
            "It is a local path, or an address such as s3://bucket/folder, gs://... or az://..., without credentials",
            "Correct it; credentials are taken from the environment",
        )
    return text


def _remote(text: str) -> str:
    if "://" in text:
        return _located(text)
    raise refusal(
        "", f'"{text[:60]}"', "It is the address of an object store", "Write s3://bucket/folder, gs:// or az://"
    )


def _local(path: str) -> str:
    if "://" in path or any(map(is_hidden, path)):
        raise refusal("", f'"{path[:60]}"', "It must be a local path, not an address", 'Give a path, such as "out"')
    return path


def _reference(text: str) -> str:
    if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+", text):
        # What was written may be the secret itself: it is not repeated.
        remedy = 'Write "file:PATH" or "env:NAME"'
        raise refusal("", "this is not a reference", "Secrets are given by reference", remedy)
    return text


def _path_or_reference(text: str) -> str:
    if re.match(r"[a-z0-9+]+://", text):
        # An address may hold a password: it is not repeated.
        rule = "It must be a local path, or a reference to a database's address"
        raise refusal("", "an address is written here in clear", rule, 'Write "env:NAME" or "file:PATH"')
    return _reference(text) if text.startswith(REFERENCES) else _local(text)


REFERENCES = ("env:", "file:")
"""How a text begins that names where a value is kept."""

LocalPath = Annotated[str, StringConstraints(min_length=1), AfterValidator(_local)]
Location = Annotated[str, StringConstraints(min_length=1, max_length=2000), AfterValidator(_located)]
RemoteLocation = Annotated[str, StringConstraints(min_length=1, max_length=2000), AfterValidator(_remote)]
Reference = Annotated[str, AfterValidator(_reference)]
PathOrReference = Annotated[str, StringConstraints(min_length=1), AfterValidator(_path_or_reference)]


def unique_names(features: tuple[AnyNamed, ...]) -> tuple[AnyNamed, ...]:
    """Refuse two features of one name."""
    repeat = _first_repeat([feature.name for feature in features])
    if repeat is not None:
        raise refusal("", f'two features are named "{repeat}"', "Feature names must differ", "Rename one of them")
    return features


def _first_repeat(names: Sequence[str]) -> str | None:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            return name
        earlier.add(name)
    return None
