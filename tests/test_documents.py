"""Documents lead somewhere and name what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "configs").rglob("*.md"))]


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
