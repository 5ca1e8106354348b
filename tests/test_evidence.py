"""Every promise and claim has evidence that is there, is run and can fail, and the site shows it below the page."""

import ast
import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, unguarded
from tests.planted.none import WHY_NONE
from tests.simulation.planted import MISTAKES

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = tomllib.loads((ROOT / "docs" / "evidence.toml").read_text())
PROMISES, CLAIMS = EVIDENCE["promise"], EVIDENCE["claim"]
PAGES = ("README.md", "SECURITY.md", "docs/privacy-model.md", "docs/known-limits.md")
SECTIONS = {("README.md", "What does it promise?"), ("docs/privacy-model.md", "The proof, step by step")}
NEVER_RUN = ("skip", "xfail")


def promised(page, section):
    """First words, in bold, of the numbered promises of a section."""
    text = (ROOT / page).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\d+\. \*\*(.+?)\*\*", text)


def named_in_tables(page):
    """Tests that rows of a page's tables name themselves."""
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    return re.findall(r"`((?:tests|src)/[\w/]+\.py(?:::\w+)*)`", "\n".join(rows))


@cache
def functions_of(path):
    found = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        of = {f"{node.name}::": node.body} if isinstance(node, ast.ClassDef) else {"": [node]}
        for owner, inner in of.items():
            found |= {f"{owner}{each.name}": each for each in inner if isinstance(each, ast.FunctionDef)}
    return found


@cache
def helpers_of(path):
    """Functions that a file of tests has or imports from other files of tests, by the names that a test calls them."""
    found = {known.rpartition("::")[2]: function for known, function in functions_of(path).items()}
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests":
            parts = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            files = [f"{part.replace('.', '/')}.py" for part in parts]
            for file in (file for file in files if file != path and (ROOT / file).exists()):
                found = {known.rpartition("::")[2]: each for known, each in functions_of(file).items()} | found
    return found


def called_by(function):
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(function)}
    return names | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


def why_not(shown):
    """Why a test is no evidence, or None; a file of tests is that of all of its tests."""
    path, _, name = shown.partition("::")
    if not (ROOT / path).exists():
        return f"{shown} is gone"
    if not name:
        tests = [each for each in functions_of(path) if each.rpartition("::")[2].startswith("test_")]
        return next((why for each in tests if (why := why_not(f"{path}::{each}"))), None if tests else "no test")
    own = {known.rpartition("::")[2]: function for known, function in functions_of(path).items()} | functions_of(path)
    if name not in own:
        return f"{shown} is gone"
    test = own[name]
    marks = {node.attr for mark in test.decorator_list for node in ast.walk(mark) if isinstance(node, ast.Attribute)}
    if marks & set(NEVER_RUN):
        return f"{shown} is never run"
    known, reached = helpers_of(path), [test]
    for function in reached:  # grows by what is called
        reached += [known[each] for each in sorted(called_by(function) & set(known)) if known[each] not in reached]
    parts = [inner for each in reached for inner in ast.walk(each)]
    refuses = any(isinstance(node, ast.Attribute) and re.match("raises$|assert_", node.attr) for node in parts)
    return None if refuses or any(isinstance(node, ast.Assert) for node in parts) else f"{shown} cannot fail"


@pytest.mark.parametrize(("page", "section"), sorted(SECTIONS))
def test_every_numbered_promise_has_evidence_and_nothing_else_has(page, section):
    entries = [each for each in PROMISES if (each["page"], each["section"]) == (page, section)]
    assert len(entries) == len(promised(page, section)) > 0


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


def test_identifiers_and_pages_are_those_of_one_entry_each():
    identifiers = [each["id"] for each in (*PROMISES, *CLAIMS)]
    assert len(identifiers) == len(set(identifiers))
    assert {each["page"] for each in (*PROMISES, *CLAIMS)} == set(PAGES)
    assert all(each["says"] and (each.get("shown_by") or each.get("measured_by")) for each in (*PROMISES, *CLAIMS))


def test_what_is_named_as_evidence_is_there_is_run_and_can_fail():
    shown = {each for claim in CLAIMS for each in claim.get("shown_by", ())}
    shown |= {each for page in PAGES for each in named_in_tables(page)}
    assert len(shown) > 150
    assert [why for why in map(why_not, sorted(shown)) if why] == []
    measured = {each for claim in CLAIMS for each in claim.get("measured_by", ())}
    modules = [ROOT / f"{each.partition('-m ')[2].replace('.', '/')}.py" for each in measured]
    assert [module for module in modules if not module.exists()] == []


def test_every_claim_has_a_mistake_that_one_of_its_tests_finds_or_says_why_it_has_none():
    assert [claim for claim, why in unguarded().items() if not why] == []
    known = {mutant.test for mutant in MUTANTS}
    shown = [claim.get("shown_by", ()) for claim in CLAIMS]
    assert WHY_NONE.keys() == {test for tests in shown if known.isdisjoint(tests) for test in tests}


def test_the_site_folds_the_evidence_of_a_page_below_it():
    entries = [{"says": "One.", "shown_by": ["tests/a.py::b"], "finds": ["it is twice"]}]
    entries.append({"says": "Two | three.", "measured_by": ["python -m benchmarks.c"]})
    text = with_evidence("A page.\n", entries)
    assert text.startswith("A page.\n\n<details>")
    assert "| One. | `tests/a.py::b`; a test plants the mistake that it is twice, and finds it |" in text
    assert "| Two , three. | `python -m benchmarks.c`, which measures it |" in text
    assert with_evidence("A page.\n", []) == "A page.\n"


def with_evidence(*words):
    made = importlib.util.spec_from_file_location("site_of_evidence", ROOT / "docs" / "site" / "evidence.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module.with_evidence(*words)
