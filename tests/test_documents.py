"""Documents lead somewhere and name what exists."""

import re
from datetime import date
from pathlib import Path

import pytest

from blockveil.flows.runs.steps import FAILURES
from blockveil.flows.runs.verify_flow import DAMAGED
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.plan.planning import make_plan

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "configs").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_readme_names_the_commands_that_ci_runs():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ("make demo", "make test"):
        assert command in readme
        assert command in ci


def test_the_map_of_files_in_the_architecture_page_is_true():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`((?:engine|pipeline|flows)/[\w/.]+)`", page)
    assert len(named) > 15
    for name in named:
        assert (ROOT / name).exists(), name


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
