"""Builds the site of the documentation without a network: `make docs`, or `python docs/site/build.py FOLDER`.

The site's tree is that of the checkout, so that a link works in both. Pages of commands, of keys and of Python are made
from the code.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from evidence import with_evidence
from pydantic import BaseModel
from sphinx.cmd.build import main as sphinx
from typer.main import get_command

from blockveil.flows.cli import app
from blockveil.flows.cli.commands import COMMANDS, load
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.config.deployments_file import Deployments
from blockveil.pipeline.config.disclosure_file import Disclosure
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.scaffold.answers import Answers

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "engine", "pipeline", "flows", "configs")
FILES = ("*.md", "LICENSE", "NOTICE")

EVIDENCE = tomllib.loads((ROOT / "docs" / "evidence.toml").read_text())
"""What shows that promises are kept."""

MODELS = (
    ("Release", "The config of a release.", ReleaseConfig),
    ("Ingest", "The config of an ingest.", IngestConfig),
    ("Deployments", "`deployments.toml`: what runs when.", Deployments),
    ("Disclosure", "`disclosure.toml`: what only a curator can say.", Disclosure),
    ("Answers", "The file of answers of `blockveil init`.", Answers),
)

NIGHTLY = tuple(
    (title, key)
    for title, named in {
        "Release": (
            "release.dataset release.name data.store query.kind query.rows_at_most query.missing query.geometry.kind "
            "query.geometry.origin query.geometry.features.name query.geometry.features.lower "
            "query.geometry.features.upper privacy.epsilon privacy.delta privacy.neighbours privacy.unit "
            "mechanism.kind mechanism.optimise_for output.root output.ledger output.keys"
        ),
        "Deployments": "night.config night.cron night.timezone night.mode night.missed_nights",
    }.items()
    for key in named.split()
)
"""Keys that a nightly covariance needs, each with the config it is in."""

PYTHON = (
    ("autofunction", "blockveil.flows.python.beginning.init"),
    ("autofunction", "blockveil.flows.python.ingesting.ingest"),
    ("autofunction", "blockveil.flows.python.planned.plan"),
    ("autofunction", "blockveil.flows.python.granting.budget"),
    ("autofunction", "blockveil.flows.python.running.run"),
    ("autofunction", "blockveil.pipeline.analysis.opening.open_"),
    ("autoclass", "blockveil.pipeline.analysis.release.Release"),
    ("autoclass", "blockveil.sklearn.Ridge"),
    ("autoclass", "blockveil.sklearn.PCA"),
)

MENU = {
    "Begin": {"What it is": "README", "Tutorial": "docs/tutorial", "From my file to a release": "docs/how-to/begin"},
    "How do I": {
        "choose epsilon": "docs/how-to/epsilon",
        "choose bounds": "docs/how-to/bounds",
        "protect persons with many rows": "docs/how-to/many-rows",
        "know whether it is good enough": "docs/how-to/good-enough",
        "publish to an object store": "docs/how-to/object-store",
        "run on a fleet": "docs/how-to/fleets",
        "read a report": "docs/report",
        "verify a release": "docs/how-to/verify",
        "disclose a deployment": "docs/how-to/disclose",
        "withdraw a release": "docs/how-to/withdraw",
        "run it every night and for a team": "docs/operations",
        "ingest files": "docs/ingest",
        "read from a database": "docs/how-to/databases",
        "make up records from tables": "docs/how-to/synthetic",
        "release growing records": "docs/continual",
        "train a model": "docs/training",
        "work in Python": "docs/python",
    },
    "Reference": {
        "Commands": "reference/commands",
        "Keys of configs": "reference/keys",
        "Python": "reference/python",
        "Example configs": "configs/README",
        "Mechanisms": "docs/mechanisms",
        "Ledger": "docs/ledger",
        "Glossary": "docs/glossary",
        "Stability": "docs/stability",
    },
    "Why it holds": {
        "Privacy model": "docs/privacy-model",
        "Accounting": "docs/accounting",
        "Threat model": "SECURITY",
        "Known limits": "docs/known-limits",
        "Performance": "docs/performance",
        "Benchmarks": "docs/benchmarks",
        "Papers": "docs/papers",
    },
    "Contribute": {
        "How to": "CONTRIBUTING",
        "Architecture": "docs/architecture",
        "Recipes": "docs/contributing/README",
        "Decisions": "docs/decisions/README",
        "Changes": "CHANGELOG",
    },
}


def build(target: Path) -> int:
    """Build the site into a folder; the exit code of Sphinx, which fails at any warning."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        lay_out(source)
        words = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs" / "site")]
        return int(sphinx([*words, "-d", str(Path(scratch) / "doctrees"), str(source), str(target)]))


def lay_out(source: Path) -> None:
    """Write the tree that the site is made from: copies of the pages, and those that are made from the code."""
    source.mkdir()
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.npz", "*.npy", "site")
        )
    for file in (file for pattern in FILES for file in ROOT.glob(pattern)):
        shutil.copy(file, source)
    for page in sorted({claim["page"] for claim in EVIDENCE["claim"]}):
        entries = [each for kind in ("promise", "claim") for each in EVIDENCE[kind] if each["page"] == page]
        (source / page).write_text(with_evidence((source / page).read_text(), entries))
    (source / "index.md").write_text("\n".join(index()))
    (source / "reference").mkdir()
    for name, lines in (("commands", commands()), ("keys", keys()), ("python", python())):
        (source / "reference" / f"{name}.md").write_text("\n".join(lines))


def index() -> Iterator[str]:
    """The first page: what the README says, and the menu."""
    yield "# Blockveil\n\n```{include} README.md\n:start-line: 1\n```\n"
    for caption, pages in MENU.items():
        entries = "\n".join(f"{title} <{page}>" for title, page in pages.items())
        yield f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def commands() -> Iterator[str]:
    """Every command with its parameters, under the headings of the help page."""
    yield "# Commands\n\n**What does each command take?** `blockveil COMMAND --help` shows the same at a terminal.\n"
    yield plain(get_command(app).help or "")
    headings = dict.fromkeys(listed.heading for listed in COMMANDS.values())
    for heading in headings:
        yield f"\n## {heading}"
        for name, listed in COMMANDS.items():
            if listed.heading == heading:
                yield from _command(f"blockveil {name}", load(name))


def _command(called: str, command: Any) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(f"{called} {name}", inner)
    if hasattr(command, "commands"):
        return
    yield f"\n### {called}\n\n{plain(command.help or '')}\n\n| parameter | meaning |\n|---|---|"
    for parameter in command.params:
        written = ", ".join(parameter.opts) if parameter.param_type_name == "option" else str(parameter.name).upper()
        if parameter.name != "help":
            yield f"| `{written}` | {plain(getattr(parameter, 'help', None) or '')} |"


def keys() -> Iterator[str]:
    """Every key of every config, once in its table, with its meaning and what it is where it is not given."""
    yield "# Keys of configs\n\n**What may stand in a config, and what does it mean?**"
    yield f"The {len(NIGHTLY)} keys that a nightly covariance needs come first, then those of each file."
    yield "Nothing that decides privacy has a default.\n"
    tables = {title: _tables(model) for title, _, model in MODELS}
    yield "\n## A nightly covariance\n\n| key | meaning |\n|---|---|"
    for title, key in NIGHTLY:
        table, _, name = key.rpartition(".")
        (first, *_) = (each for each in tables[title][table] if name in each.model_fields)
        yield f"| `{key}` | {plain(first.model_fields[name].description or '')} |"
    for title, what, _ in MODELS:
        yield f"\n## {title}\n\n{what}"
        shown: dict[tuple[type[BaseModel], ...], str] = {}
        for table, kinds in tables[title].items():
            same = shown.setdefault(tuple(kinds), table)
            if same == table:
                yield from _table(table, kinds)
            elif table.rpartition(".")[0] in shown.values():
                yield f"\n### {table}\n\nThe keys are those of `{same}`."


def _tables(model: type[BaseModel]) -> dict[str, list[type[BaseModel]]]:
    """Each table of a config by its path, with the models of all that may stand there."""
    found: dict[str, list[type[BaseModel]]] = {"": [model]}
    _below("", model, found)
    return found


def _below(path: str, model: type[BaseModel], found: dict[str, list[type[BaseModel]]]) -> None:
    for name, field in model.model_fields.items():
        where = f"{path}.{name}".removeprefix(".")
        for each in _models(field.annotation):
            if each not in found.setdefault(where, []):
                found[where].append(each)
                _below(where, each, found)


def _table(table: str, kinds: list[type[BaseModel]]) -> Iterator[str]:
    """A table's keys, each in one line, which says for which kinds it is where that is not all of them."""
    if table:
        yield f"\n### {table}\n"
        yield from (f"{'- ' * (len(kinds) > 1)}{_called([each])}{plain(each.__doc__ or '')}" for each in kinds)
    yield "\n| key | meaning | if it is not given |\n|---|---|---|"
    for name in dict.fromkeys(name for each in kinds for name in each.model_fields):
        meanings: dict[str, list[type[BaseModel]]] = {}
        defaults: dict[str, list[type[BaseModel]]] = {}
        those = [each for each in kinds if name in each.model_fields]
        for each in those:
            field = each.model_fields[name]
            simple = not field.is_required() and field.default is not None and not isinstance(field.default, BaseModel)
            default = "it has no default" if field.is_required() else f"`{field.default!r}`" if simple else ""
            meanings.setdefault(plain(field.description or ""), []).append(each)
            defaults.setdefault(default, []).append(each)
        yield f"| `{name}` | {_joined(meanings, kinds)} | {_joined(defaults, those)} |"


def _joined(said: dict[str, list[type[BaseModel]]], of: list[type[BaseModel]]) -> str:
    return "; ".join(("" if each == of else _called(each)) + words for words, each in said.items() if words)


def _called(models: list[type[BaseModel]]) -> str:
    """The kinds that models are for, before a colon; nothing where they have none."""
    of = (each.model_fields["kind"].annotation for each in models if "kind" in each.model_fields)
    kinds = [f"`{kind}`" for annotation in of for kind in get_args(annotation)]
    return f"{', '.join(kinds)}: " if kinds else ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def python() -> Iterator[str]:
    """What a program calls."""
    yield "# Python\n\n**What does each call take and return?** [Python](../docs/python.md) shows the calls in use.\n"
    for directive, name in PYTHON:
        members = "\n   :members:\n   :inherited-members:" if directive == "autoclass" else ""
        yield f"```{{eval-rst}}\n.. {directive}:: {name}{members}\n```\n"


def plain(text: str) -> str:
    """Text of a docstring for a paragraph or a cell of a table."""
    text = re.sub(r":\w+:`[~.!]?([^`]*)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
