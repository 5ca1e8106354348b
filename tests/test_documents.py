"""Documents lead somewhere and name what exists."""

import ast
import importlib
import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from blockveil.flows.runs.steps import FAILURES
from blockveil.flows.runs.verify_flow import DAMAGED
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.plan.planning import make_plan

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "configs", "engine", "pipeline", "flows", ".github")
PAGES = [*sorted(ROOT.glob("*.md")), *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")))]
LAYERS = ("engine", "pipeline", "flows")
ROOMS = sorted(path.parent for layer in LAYERS for path in (ROOT / layer).glob("*/__init__.py"))
TESTED = sorted({path.parent for layer in LAYERS for path in (ROOT / "tests" / layer).rglob("test_*.py")})
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def links(page):
    return re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())


def test_relative_links_lead_somewhere():
    assert [(page, target) for page in PAGES for target in links(page) if not (page.parent / target).exists()] == []


@cache
def of_the_site(name):
    """A constant of the script that builds the site, which needs more packages than these tests."""
    statements = ast.parse((ROOT / "docs" / "site" / "build.py").read_text()).body
    values = {node.targets[0].id: node.value for node in statements if isinstance(node, ast.Assign)}
    return ast.literal_eval(values[name])


def test_links_of_pages_that_the_site_has_lead_to_what_it_has():
    for page in (page for page in PAGES if ".github" not in page.parts):
        for target in links(page):
            where = (page.parent / target).resolve().relative_to(ROOT)
            of_a_folder = where.parts[0] in of_the_site("FOLDERS")
            assert of_a_folder or any(where.match(pattern) for pattern in of_the_site("FILES")), (page, target)


def test_readme_names_the_commands_that_ci_runs():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ("make demo", "make test"):
        assert command in readme
        assert command in ci


def named(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("room", ROOMS, ids=named)
def test_every_room_is_in_the_architecture_page_and_says_what_goes_in_and_out_and_its_rule(room):
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert f"[{named(room)}](../{named(room)}/README.md)" in page
    for word in ("**In:**", "**Out:**", "**The rule here:**"):
        assert word in (room / "README.md").read_text()


@pytest.mark.parametrize("room", ROOMS, ids=named)
def test_a_room_lists_its_modules_in_its_docstring_or_its_page(room):
    written = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    listed = set(re.findall(r"(?m)^\* :mod:`\.(\w+)`:", written))
    listed |= set(re.findall(r"\]\((\w+)(?:\.py|/__init__\.py)\)", (room / "README.md").read_text()))
    there = {path.stem for path in room.glob("*.py")} | {path.parent.name for path in room.glob("*/__init__.py")}
    assert listed - {"__init__"} == there - {"__init__"}


def test_the_architecture_page_is_one_page():
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= 70


def test_decisions_are_numbered_dated_and_listed():
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    for page in DECISIONS:
        text = page.read_text()
        title, day = re.match(r"# (.+)\n\nRecorded (\d{4}-\d{2}-\d{2})\. ", text).groups()
        assert f"| [{title}]({page.name}) | {date.fromisoformat(day)} |" in listed
        for word in ("**Context.**", "**Decision.**", "**Consequences.**"):
            assert word in text, page.name


MAKEFILE = (ROOT / "Makefile").read_text()


def commands(target):
    """What a target of the Makefile runs, as words."""
    recipe = re.search(rf"(?m)^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", MAKEFILE)[1]
    return [line.strip().replace("$(B)/", ".venv/bin/").split() for line in recipe.splitlines()]


def test_a_commit_is_checked_by_the_tools_of_make_check_and_fetches_nothing():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    run = [hook["entry"].replace("--force-exclude", "").split() for hook in repository["hooks"]]
    assert run == [[word for word in words if word != "."] for words in commands("check")]


def test_the_workflow_runs_what_ci_runs_on_every_supported_python_and_the_ranges_at_their_ends():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    job, ranges = jobs["tests"], jobs["ranges"]
    assert job["steps"][-1]["run"].endswith(".ci/run")
    supported = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    pythons = [f"3.{minor}" for minor in range(30) if f"3.{minor}" in supported]
    assert job["strategy"]["matrix"]["python"] == pythons[:-1], "on the last one the core of the tests runs each week"
    assert [(each["make"], each["python"]) for each in ranges["strategy"]["matrix"]["include"]] == [
        ("test-lowest", pythons[0]),
        ("test-newest", pythons[-2]),
        ("test-newest", pythons[-1]),
    ]
    assert all(re.search(rf"(?m)^{each['make']}:", MAKEFILE) for each in ranges["strategy"]["matrix"]["include"])
    assert ranges["steps"][-1]["run"].startswith("make ${{ matrix.make }} ")


@pytest.mark.parametrize("recipe", ["mechanism", "query", "ledger", "key-store"])
def test_every_file_that_a_recipe_names_is_there(recipe):
    text = (ROOT / "docs" / "contributing" / f"{recipe}.md").read_text()
    for line in re.sub(r"(?s)```.*?```", "", text).splitlines():
        named = re.findall(r"`((?:[\w-]+/)*[\w-]+(?:\.(?:py|md|toml|json)|/))`", line)
        folders = {(ROOT / name).parent for name in named if "/" in name}
        for name in named:
            places = [ROOT] if "/" in name else [*folders, *ROOMS, ROOT, ROOT / "tests" / "end_to_end", *TESTED]
            assert any((place / name).exists() for place in places), f"{recipe}: {name}"
    for module, names in re.findall(r"(?m)^from blockveil\.([\w.]+) import \(?([^()]+?)\)?$", text):
        there = vars(importlib.import_module(f"blockveil.{module}"))
        assert {name.strip() for name in names.split(",") if name.strip()} <= set(there), module


def test_the_runbook_says_what_to_do_in_every_state_that_a_failed_run_has():
    table = (ROOT / "docs" / "operations.md").read_text().partition("## What went wrong")[2].partition("\n## ")[0]
    named = {name for line in table.splitlines() if line.startswith("| ") for name in re.findall(r"`(\w+)`", line)}
    assert {*FAILURES, DAMAGED} - named == set()


OTHERS = ("ingest-", "deployments.")
RELEASES = [path for path in sorted((ROOT / "configs").glob("*.toml")) if not path.name.startswith(OTHERS)]
INGESTS = sorted((ROOT / "configs").glob("ingest-*.toml"))


@pytest.mark.parametrize("path", INGESTS, ids=lambda path: path.name)
def test_every_ingest_that_is_shipped_finds_its_source_and_is_listed(path):
    assert look(load_ingest(path)).files
    assert path.name in (ROOT / "configs" / "README.md").read_text()


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name)
def test_every_config_that_is_shipped_can_be_planned_and_is_listed(path, monkeypatch):
    monkeypatch.setenv("BLOCKVEIL_TLS_KEY_FILE", "/dev/null")
    plan = make_plan(load_config(path), date(2026, 11, 20))
    assert plan.charge.delta(plan.guarantee.epsilon) <= plan.guarantee.delta
    assert path.name in (ROOT / "configs" / "README.md").read_text()


def test_the_deployments_file_that_is_shipped_can_be_deployed_and_is_listed():
    loaded = load_deployments(ROOT / "configs")
    assert [night.config for night in loaded.deployments.night] == ["quickstart"]
    assert "deployments.toml" in (ROOT / "configs" / "README.md").read_text()


def test_every_test_that_the_security_page_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 30
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"
