"""From a validation error to one sentence a user can act on: which key, what is wrong with it, what to do."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.model import ReleaseConfig

Models = list[type[BaseModel]]


@dataclass(frozen=True)
class _Place:
    """Where in the config an error is.

    Attributes
    ----------
    key
        Dotted key as a user writes it.
    owners
        Models that may hold the last part of the key.
    description
        What the key means, or an empty text.
    root
        Model of the whole file.
    """

    key: str
    owners: Models
    description: str
    root: type[BaseModel]


def explain(
    error: ValidationError, tree: Mapping[str, Any], source: str, root: type[BaseModel] = ReleaseConfig
) -> ConfigError:
    """Turn a validation error into a ConfigError about its most telling problem.

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
    """
    problems = error.errors(include_url=False)
    # A misspelt key is also a missing one: naming the misspelling explains both.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    sentence = _sentence(problem, _place(problem["loc"], tree, root), source)
    # A key or a name may hold line breaks; a message has none.
    value, rule, remedy = (" ".join(part.split()) for part in sentence)
    more = len(problems) - 1
    return ConfigError(value, rule, f"{remedy} ({more} more to correct)" if more else remedy)


def _sentence(problem: ErrorDetails, place: _Place, source: str) -> tuple[str, str, str]:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "refusal":
            key = ".".join(part for part in (place.key, context["key"]) if part)
            return f"{key}: {context['value']}", context["rule"], f"{context['remedy']} ({source})"
        case "extra_forbidden":
            return f"{place.key} is not a known key", "Every key must be known", _did_you_mean(place)
        case "missing":
            rule = f"It has no default{_about(place)}"
            return f"{place.key} is not given", rule, f"Add it to {_table(place.key)} in {source}"
        case "union_tag_not_found":
            return f"{place.key}.kind is not given", f"It has no default{_about(place)}", f"Add it in {source}"
        case "union_tag_invalid":
            shown = f"{place.key}.kind = {_show(context['tag'])}"
            return shown, f"It must be one of {context['expected_tags']}", f"Correct it in {source}"
        case "model_type" | "model_attributes_type":
            return f"{place.key} = {_show(problem['input'])}", "It must be a table", f"Correct it in {source}"
    rule = re.sub(r"^\w+ should ", "It must ", problem["msg"]) + _about(place)
    if problem["type"] == "string_pattern_mismatch" and place.description:
        rule = f"It must be {place.description}"
    return f"{place.key} = {_show(problem['input'])}", rule, f"Correct it in {source}"


def _place(location: tuple[int | str, ...], tree: Mapping[str, Any], root: type[BaseModel]) -> _Place:
    """Follow a location through the models, leaving out the tags of unions."""
    models: Models = [root]
    parts: list[str] = []
    owners, description = models, ""
    here: Any = tree
    for part in location:
        if isinstance(part, int):
            parts[-1] += f"[{part}]"
        elif part.startswith("<") or (len(models) > 1 and _tagged(models, part)):
            models = _tagged(models, part)
            continue
        else:
            parts.append(part)
            owners = models
            field = next((m.model_fields[part] for m in models if part in m.model_fields), None)
            description = (field.description or "").strip() if field else ""
            models = list(_models(field.annotation)) if field else []
        here = here[part] if _has_key(here, part) else None
    return _Place(".".join(parts), owners, description, root)


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


def _did_you_mean(place: _Place) -> str:
    known = sorted({name for model in place.owners for name in model.model_fields})
    before, _, key = place.key.rpartition(".")
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return f"Did you mean {before + '.' if before else ''}{near[0]}?"
    for section, field in place.root.model_fields.items():
        for model in _models(field.annotation):
            if key in model.model_fields and section != before:
                return f"Move it to [{section}]"
            if key in model.model_fields:
                return f'It belongs to kind = "{get_args(model.model_fields["kind"].annotation)[0]}"'
    return f"Known keys here: {', '.join(known)}" if known else "Remove it"


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
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
