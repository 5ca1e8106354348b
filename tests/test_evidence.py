"""Every numbered promise has evidence that is there, and the site shows it beside the promise."""

import ast
import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.planted import MISTAKES

ROOT = Path(__file__).resolve().parents[1]
PROMISES = tomllib.loads((ROOT / "docs" / "evidence.toml").read_text())["promise"]
SECTIONS = {("README.md", "What does it promise?"), ("docs/privacy-model.md", "The proof, step by step")}
NEVER_RUN = ("skip", "xfail")


def promised(page, section):
    """First words, in bold, of the numbered promises of a section."""
    text = (ROOT / page).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\d+\. \*\*(.+?)\*\*", text)


@cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def why_not(shown):
    """Why a test is no evidence, or None."""
    path, _, name = shown.partition("::")
    if not (ROOT / path).exists() or name not in functions_of(path):
        return f"{shown} is gone"
    test = functions_of(path)[name]
    marks = {node.attr for mark in test.decorator_list for node in ast.walk(mark) if isinstance(node, ast.Attribute)}
    if marks & set(NEVER_RUN):
        return f"{shown} is never run"
    called = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    helpers = [function for known, function in functions_of(path).items() if known in called]
    parts = [inner for each in (test, *helpers) for inner in ast.walk(each)]
    refuses = any(isinstance(node, ast.Attribute) and node.attr == "raises" for node in parts)
    return None if refuses or any(isinstance(node, ast.Assert) for node in parts) else f"{shown} cannot fail"


@pytest.mark.parametrize(("page", "section"), sorted(SECTIONS))
def test_every_numbered_promise_has_evidence_and_nothing_else_has(page, section):
    entries = [each["says"] for each in PROMISES if (each["page"], each["section"]) == (page, section)]
    assert promised(page, section)
    assert entries == promised(page, section)


def test_no_evidence_is_of_another_section():
    assert {(each["page"], each["section"]) for each in PROMISES} == SECTIONS


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each["says"])
def test_what_shows_a_promise_is_there_is_run_and_can_fail(promise):
    assert promise["shown_by"]
    assert [why for why in map(why_not, promise["shown_by"]) if why] == []
    assert set(promise.get("finds", ())) <= set(MISTAKES)


def test_a_test_that_is_gone_or_never_run_or_cannot_fail_is_no_evidence(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "test_of_evidence.py").write_text(
        "def test_good():\n    assert f()\n\n"
        "@pytest.mark.skip\ndef test_skipped():\n    assert f()\n\n"
        "def test_idle():\n    f()\n"
    )
    names = ("good", "gone", "skipped", "idle")
    found = [why_not(f"test_of_evidence.py::test_{name}") for name in names]
    reasons = [why and why.partition(" ")[2] for why in found]
    assert reasons == [None, "is gone", "is never run", "cannot fail"]


def site():
    made = importlib.util.spec_from_file_location("site_of_evidence", ROOT / "docs" / "site" / "evidence.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted({page for page, _ in SECTIONS}))
def test_the_site_shows_the_tests_beside_each_promise(page):
    text = site().with_evidence((ROOT / page).read_text(), [each for each in PROMISES if each["page"] == page])
    for promise in (each for each in PROMISES if each["page"] == page):
        after = text.partition(f"**{promise['says']}**")[2].partition("\n\n")[0]
        before_the_next = re.split(r"\n\d+\. ", after)[0]
        assert all(f"`{shown}`" in before_the_next for shown in promise["shown_by"])
