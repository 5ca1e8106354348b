"""From a validation error to one sentence a user can act on: which key, what is wrong with it, what to do."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.model import ReleaseConfig
from blockveil.pipeline.config.toml_lines import LineNumbers, Path, lines_of

Models = list[type[BaseModel]]
Model = TypeVar("Model", bound=BaseModel)

_LONGEST_DESCRIPTION = 200
"""Letters of what a message says of a key; configs/README.md has all of it."""


@dataclass(frozen=True)
class _Place:
    """Where in the config an error is.

    Attributes
    ----------
    path
        Keys and positions in lists.
    owners
        Models that may hold the last part of the key.
    description
        What the key means, or an empty text.
    root
        Model of the whole file.
    """

    path: Path
    owners: Models
    description: str
    root: type[BaseModel]

    @property
    def key(self) -> str:
        """Dotted key as a user writes it."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


def explain(
    error: ValidationError,
    tree: Mapping[str, Any],
    source: str,
    root: type[BaseModel] = ReleaseConfig,
    lines: LineNumbers | None = None,
) -> ConfigError:
    """Turn a validation error into a ConfigError about its first problem, which knows of the others.

    Parameters
    ----------
    error
        What the models refused.
    tree
        The parsed config.
    source
        Name of the config file, for the remedy.
    root
        Model of the whole config.
    lines
        Lines of the file's keys, where it has any.
    """
    by_place = _by_place(error.errors(include_url=False), tree, root)
    line_of = {path: lines and lines.line_of(path) for path in by_place}
    errors = [
        _refused(*by_place[path], f"{source}, line {line_of[path]}" if line_of[path] else source)
        for path in sorted(by_place, key=lambda path: line_of[path] or 0)
    ]
    return ConfigError(errors[0].value, errors[0].rule, errors[0].remedy, errors[1:])


def validated(model: type[Model], tree: Mapping[str, Any], source: str, file: File | None = None) -> Model:
    """The content of a file as a model.

    Parameters
    ----------
    model
        Model of the whole file.
    tree
        The parsed file.
    source
        As for :func:`explain`.
    file
        Where it is, for the lines of messages: it is read again where something is wrong.

    Raises
    ------
    ConfigError
        A key is unknown, missing or has a value that is not allowed.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        failure = explain(error, tree, source, model, None if file is None else lines_of(file))
    # Raised outside the handler: a chained pydantic error would print the whole input again.
    raise failure


def _by_place(
    problems: Sequence[ErrorDetails], tree: Mapping[str, Any], root: type[BaseModel]
) -> dict[Path, tuple[_Place, list[ErrorDetails]]]:
    """Problems by where a person finds them; alternatives of one value are one problem."""
    by_place: dict[Path, tuple[_Place, list[ErrorDetails]]] = {}
    for problem in _single(problems):
        place = _place(problem["loc"], tree, root)
        by_place.setdefault(_written(place, problem), (place, []))[1].append(problem)
    kinds = {path: several[0]["type"] for path, (_, several) in by_place.items()}
    misspelt = (by_place[path][0] for path, kind in kinds.items() if kind == "extra_forbidden")
    near_paths = {(*place.path[:-1], _near(place)) for place in misspelt}
    # A misspelt key is also a missing one, a list whose entries are refused is also too short, and a table whose keys
    # are refused is also none of the words that could stand in its place.
    implications = {
        path
        for path, kind in kinds.items()
        if (kind == "missing" and path in near_paths)
        or (kind in ("too_short", "literal_error") and any(path == other[: len(path)] != other for other in kinds))
    }
    return {path: each for path, each in by_place.items() if path not in implications}


def _single(problems: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """Problems, and several rules that one table does not keep as one problem each."""
    for problem in problems:
        if problem["type"] == "refusals":
            for context in problem["ctx"]["refusals"]:
                yield {**problem, "type": "refusal", "ctx": context}
        else:
            yield problem


def _written(place: _Place, problem: ErrorDetails) -> Path:
    """Where a person finds what a problem is about."""
    key = problem.get("ctx", {}).get("key", "") if problem["type"] == "refusal" else ""
    parts = re.findall(r"([^.\[\]]+)|\[(\d+)\]", key)
    return (*place.path, *(int(position) if position else name for name, position in parts))


def _refused(place: _Place, problems: Sequence[ErrorDetails], source: str) -> ConfigError:
    # A refusal may leave out what was written, as it could be a secret: then no other alternative shows it.
    refusal = next((problem for problem in problems if problem["type"] == "refusal"), None)
    if len(problems) > 1 and place.description and refusal is None:
        sentence = (
            f"{place.key} = {_show(problems[0]['input'])}",
            f"It is {place.description}",
            f"Correct it in {source}",
        )
    else:
        sentence = _sentence(refusal or problems[0], place, source)
    # A key or a name may hold line breaks; a message has none.
    value, rule, remedy = (" ".join(part.split()) for part in sentence)
    return ConfigError(value, rule, remedy)


def _sentence(problem: ErrorDetails, place: _Place, source: str) -> tuple[str, str, str]:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "refusal":
            key = ".".join(part for part in (place.key, context["key"]) if part)
            return f"{key}: {context['value']}", context["rule"], f"{context['remedy']} ({source})"
        case "extra_forbidden":
            return f"{place.key} is not a known key", "Every key must be known", f"{_did_you_mean(place)} ({source})"
        case "missing":
            rule = f"It has no default{_about(place)}"
            return f"{place.key} is not given", rule, f"Add it to {_table(place.key)} in {source}"
        case "union_tag_not_found":
            return f"{place.key}.kind is not given", f"It has no default{_about(place)}", f"Add it in {source}"
        case "union_tag_invalid":
            assignment = f"{place.key}.kind = {_show(context['tag'])}"
            return assignment, f"It must be one of {context['expected_tags']}", f"Correct it in {source}"
        case "model_type" | "model_attributes_type":
            return f"{place.key} = {_show(problem['input'])}", "It must be a table", f"Correct it in {source}"
    limit = next((context[key] for key in ("ge", "gt", "le", "lt") if key in context), None)
    message = problem["msg"] if limit is None else re.sub(r"[\d.]{12,}$", f"{limit:g}", problem["msg"])
    rule = re.sub(r"^\w+ should ", "It must ", message) + _about(place)
    if problem["type"] == "string_pattern_mismatch" and place.description:
        rule = f"It must be {place.description}"
    return f"{place.key} = {_show(problem['input'])}", rule, f"Correct it in {source}"


def _place(location: tuple[int | str, ...], tree: Mapping[str, Any], root: type[BaseModel]) -> _Place:
    """Follow a location through the models, leaving out the tags of unions."""
    models: Models = [root]
    path: Path = ()
    owners, description = models, ""
    node: Any = tree
    for part in location:
        if isinstance(part, int):
            path = (*path, part)
        elif _alternative(part, models) and not _has_key(node, part):
            continue
        elif part.startswith("<") or (len(models) > 1 and _tagged(models, part)):
            models = _tagged(models, part)
            continue
        else:
            field = next((m.model_fields[part] for m in models if part in m.model_fields), None)
            if field is None and not models and not isinstance(node, Mapping):
                continue  # the name of an alternative for one value
            path, owners = (*path, part), models
            full_text = (field.description or "") if field else ""
            description = textwrap.shorten(full_text, _LONGEST_DESCRIPTION, placeholder=" ...")
            models = list(_models(field.annotation)) if field else []
        node = node[part] if _has_key(node, part) else None
    return _Place(path, owners, description, root)


def _alternative(part: str, models: Models) -> bool:
    """Whether a part of a location names one of several types of a value, and no key."""
    return part.startswith(("literal[", "function-after[")) or (len(models) == 1 and part == models[0].__name__)


def _has_key(here: Any, part: int | str) -> bool:
    if isinstance(here, list):
        return isinstance(part, int) and part < len(here)
    return isinstance(here, Mapping) and part in here


def _tagged(models: Models, tag: str) -> Models:
    return [m for m in models if "kind" in m.model_fields and tag in get_args(m.model_fields["kind"].annotation)]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _known(place: _Place) -> list[str]:
    return sorted({name for model in place.owners for name in model.model_fields})


def _near(place: _Place) -> str | None:
    """The known key that a key is most like."""
    return next(iter(difflib.get_close_matches(str(place.path[-1]), _known(place), n=1)), None)


def _did_you_mean(place: _Place) -> str:
    keys, near = _known(place), _near(place)
    before, _, key = place.key.rpartition(".")
    if near is not None:
        return f"Did you mean {before + '.' if before else ''}{near}?"
    for section, field in place.root.model_fields.items():
        for model in _models(field.annotation):
            if key in model.model_fields and section != before:
                return f"Move it to [{section}]"
            if key in model.model_fields:
                return f'It belongs to kind = "{get_args(model.model_fields["kind"].annotation)[0]}"'
    return f"Known keys here: {', '.join(keys)}" if keys else "Remove it"


def _about(place: _Place) -> str:
    return f" ({place.description})" if place.description else ""


def _table(key: str) -> str:
    before = key.rpartition(".")[0]
    return f"[{before}]" if before else "the top level"


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 2**64:
        return "a whole number of more than 64 bits"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
