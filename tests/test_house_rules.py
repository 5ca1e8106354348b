"""Rules of the house: layers, sizes, docstrings, and an engine that knows nothing of its surroundings."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("engine", "pipeline", "flows")
LONGEST_FILE = 400
SURROUNDINGS = {"environ", "getenv", "getcwd", "expanduser", "home", "gethostname"}


@cache
def sources(*layers):
    return [path for layer in layers for path in sorted((ROOT / layer).rglob("*.py"))]


@cache
def tree(path):
    return ast.parse(path.read_text())


def named(path):
    return str(path.relative_to(ROOT))


def lint_imports(folder):
    script = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_import_contracts_hold():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


@pytest.fixture
def empty_house(tmp_path):
    """The rooms without what is in them, under the contracts of the project."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    package = tmp_path / "blockveil"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for path in [each for layer in LAYERS for each in (ROOT / layer).rglob("*.py")]:
        place = package / path.relative_to(ROOT)
        if place.name == "__init__.py":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("")
    (package / "flows" / "runs" / "release_flow.py").write_text("")
    (package / "flows" / "cli" / "night_commands.py").write_text("")
    return package


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("engine/noise/upward.py", "import blockveil.pipeline"),
        ("pipeline/plan/upward.py", "import blockveil.flows"),
        ("engine/noise/upward.py", "from blockveil.flows import lazily"),
        ("engine/noise/upward.py", "import blockveil.engine.mechanisms"),
        ("engine/mechanisms/beside.py", "import blockveil.engine.kinds.totals"),
        ("engine/kinds/totals/beside.py", "import blockveil.engine.kinds.moments"),
        ("pipeline/ledger/upward.py", "from blockveil.pipeline import releases"),
        ("flows/cluster/upward.py", "import blockveil.flows.service"),
        ("pipeline/releases/study.py", "def lazily():\n    import blockveil.engine.study"),
        ("engine/noise/foreign.py", "def lazily():\n    import prefect"),
        ("engine/noise/foreign.py", "from sqlalchemy import select"),
        ("engine/noise/foreign.py", "from datetime import date"),
        ("engine/noise/foreign.py", "from distributed import Client"),
        ("pipeline/plan/foreign.py", "from prefect import flow"),
        ("pipeline/plan/foreign.py", "import distributed"),
    ],
)
def test_the_import_contracts_refuse_a_forbidden_import(empty_house, module, line):
    (empty_house / module).write_text(line + "\n")
    done = lint_imports(empty_house.parent)
    assert done.returncode == 1
    assert " 1 broken" in done.stdout


def test_the_import_contracts_allow_an_empty_house(empty_house):
    done = lint_imports(empty_house.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_source_file_is_too_long_to_review():
    lines = {named(path): len(path.read_text().splitlines()) for path in sources(*LAYERS)}
    assert {path: many for path, many in lines.items() if many > LONGEST_FILE} == {}


def test_everything_public_says_what_it_is():
    silent = {
        named(path): [name for name, node in public(tree(path)) if not ast.get_docstring(node)]
        for path in sources(*LAYERS)
    }
    assert {path: names for path, names in silent.items() if names} == {}


def public(module):
    """Name and node of the module and of each public class, function and method in it."""
    yield "module", module
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield f"{node.name}.{inner.name}", inner


def test_the_engine_asks_nothing_of_its_surroundings():
    asked = {}
    for path in sources("engine"):
        names = {getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(tree(path))}
        asked[named(path)] = names & SURROUNDINGS
    assert {path: names for path, names in asked.items() if names} == {}


def test_commands_print_through_one_function_that_writes_control_characters_out():
    printed = {}
    for path in sources("flows/cli"):
        calls = [ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        printed[path.name] = [call for call in calls if call in ("print", "typer.echo")]
    assert set(printed.pop("__init__.py")) == {"print"}  # errors, which write them out themselves
    assert {path: calls for path, calls in printed.items() if calls} == {"common.py": ["typer.echo"]}


def classes(path):
    """Public classes that a file defines."""
    body = tree(path).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_two_public_classes_share_a_name():
    found = Counter(name for path in sources(*LAYERS) for name in classes(path))
    assert [name for name, times in found.items() if times > 1] == []


PARTS = {
    "rotated",
    "problem",
    "worst_neighbours",
    "section",
    "question",
    "accuracy",
    "unit_rows",
    "release_checks",
    "interview",
    "post_processing",
    "learning",
    "preview",
    "presenter",
}
FAMILIES = {"cells", "directions", "second_moment", "blocks"} | PARTS
"""Kinds of answer, each of which has a file in several rooms, and the parts that each kind of query has."""


def test_no_two_modules_share_a_name_unless_they_are_one_idea_in_two_rooms():
    found = Counter(path.stem for path in sources(*LAYERS) if path.name != "__init__.py")
    assert {name for name, times in found.items() if times > 1} == FAMILIES


@pytest.mark.parametrize("layer", LAYERS)
def test_every_module_stands_in_a_room(layer):
    assert {path.name for path in (ROOT / layer).glob("*.py")} == {"__init__.py"}


def kinds_asked_for(path):
    """Names of classes that a file tells apart, by ``isinstance`` or by the patterns of a ``match``."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield from (each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name))
        elif isinstance(node, ast.MatchClass):
            yield from (each.id for each in ast.walk(node.cls) if isinstance(each, ast.Name))


def test_no_kind_of_design_is_told_apart_by_asking_for_its_class():
    asked = {
        named(path): [name for name in kinds_asked_for(path) if name.endswith("Design")] for path in sources(*LAYERS)
    }
    assert {path: names for path, names in asked.items() if names} == {}


def test_kinds_are_found_in_both_ways_of_asking(tmp_path):
    file = tmp_path / "asks.py"
    file.write_text("isinstance(a, ADesign)\nmatch b:\n    case BDesign() | CDesign(d=1):\n        pass\n")
    assert list(kinds_asked_for(file)) == ["ADesign", "BDesign", "CDesign"]


def test_every_limit_of_style_and_every_exemption_from_one_has_its_reason_beside_it():
    sections = re.split(r"(?m)^\[", (ROOT / "pyproject.toml").read_text())
    own = {each.partition("]")[0]: each.partition("]\n")[2] for each in sections}
    kept = [own[f"tool.ruff.lint.{name}"] for name in ("mccabe", "pylint", "per-file-ignores")]
    lines = [line for text in kept for line in text.splitlines() if " = " in line and not line.startswith("#")]
    assert len(lines) > 10
    assert [line for line in lines if not re.search(r"[\]\d] +# \w{1,}.* \w+", line)] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_the_tests_of_a_room_stand_in_its_mirror(layer):
    mirrors = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / layer).rglob("test_*.py")}
    assert len(mirrors) > 3
    assert sorted(mirror for mirror in mirrors if not (ROOT / mirror / "__init__.py").exists()) == []


@pytest.mark.parametrize(
    "line",
    ["from prefect._internal.x import y", "import prefect.runner._z", "def f():\n    from prefect.server import a"],
)
def test_no_other_file_imports_private_modules_of_prefect(tmp_path, line):
    words = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--config", str(ROOT / "pyproject.toml"), "-"]
    done = subprocess.run(words, input=line, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    assert "prefect_internals.py" in done.stdout
