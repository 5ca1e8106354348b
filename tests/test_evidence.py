"""Every sentence that promises something has evidence that is there, and the site shows it beside the sentence."""

import ast
import importlib.util
import re
import sys
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
KINDS = tomllib.loads((ROOT / "docs" / "sentences.toml").read_text())
PAGES = ("README.md", "SECURITY.md", "docs/privacy-model.md", "docs/known-limits.md")
SECTIONS = {("README.md", "What does it promise?"), ("docs/privacy-model.md", "The proof, step by step")}
NEVER_RUN = ("skip", "xfail")


def promised(page, section):
    """First words, in bold, of the numbered promises of a section."""
    text = (ROOT / page).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\d+\. \*\*(.+?)\*\*", text)


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


def of_page(entries, page):
    return [each for each in entries if each["page"] == page]


def sentences_of(page):
    return list(site().sentences((ROOT / page).read_text()))


def named_in(sentence):
    """Tests that a row of a table names itself."""
    return re.findall(r"`((?:tests|src)/[\w/]+\.py(?:::\w+)*)`", sentence.words) if sentence.row else []


@pytest.mark.parametrize("page", PAGES)
def test_somebody_has_said_of_every_sentence_whether_it_promises_something(page):
    known, there = KINDS[page], {each.digest for each in sentences_of(page)}
    assert [line for line in site().unclassified() if line.startswith(f"{page}: ")] == []
    assert [f"{digest} is gone" for digest in known if digest not in there] == []
    kinds = {"promise", "definition", "limit", "advice", "pointer", "head", "fact"}
    assert set(known.values()) <= kinds
    assert {known[each.digest] for each in sentences_of(page) if each.numbered in promises_of(page)} <= {"promise"}


def promises_of(page):
    return {each["says"] for each in of_page(PROMISES, page)}


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_that_promises_something_has_evidence_and_no_other_has(page):
    claims = of_page(CLAIMS, page)
    for sentence in sentences_of(page):
        own = [claim for claim in claims if sentence.words.startswith(claim["says"])]
        shown = [each for claim in own for each in (*claim.get("shown_by", ()), *claim.get("measured_by", ()))]
        promises = KINDS[page][sentence.digest] == "promise"
        if promises and sentence.numbered not in promises_of(page) and not named_in(sentence):
            assert len(own) == 1, sentence.words
            assert shown, sentence.words
        else:
            assert promises or own == [], sentence.words


def test_what_a_sentence_names_as_evidence_is_there_is_run_and_can_fail():
    shown = {each for claim in CLAIMS for each in claim.get("shown_by", ())}
    shown |= {each for page in PAGES for sentence in sentences_of(page) for each in named_in(sentence)}
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


def test_sentences_are_told_apart_and_known_by_what_they_say():
    page = (
        "# A page\n\nOne. Two goes\non: three.\n\n```\nNo code.\n```\n\n1. **Bold.** First.\n   Second.\n"
        "- An item (e.g. `a. B`). Another\n\n| a | b |\n|---|---|\n| c. D | e |\n"
    )
    found = list(site().sentences(page))
    words = ["One.", "Two goes on: three.", "**Bold.** First.", "Second.", "An item (e.g. `a. B`).", "Another"]
    assert [each.words for each in found] == [*words, "| a | b |", "| c. D | e |"]
    assert [each.numbered for each in found] == ["", "", "Bold.", "Bold.", "", "", "", ""]
    assert all(page[: each.end].rstrip().endswith(each.words.split()[-1]) for each in found)
    assert len({each.digest for each in found}) == len(found)


@pytest.mark.parametrize("page", PAGES)
def test_the_site_shows_the_evidence_beside_each_claim(page):
    text = site().with_evidence((ROOT / page).read_text(), of_page(PROMISES, page), of_page(CLAIMS, page))
    shown = {each.words for each in site().sentences(text)}
    for claim in of_page(CLAIMS, page):
        (row,) = [words for words in shown if words.startswith(claim["says"])]
        after = " ".join(text.split()).partition(row)[2] if not row.startswith("|") else row
        wanted = [*claim.get("shown_by", ()), *claim.get("measured_by", ())]
        assert all(f"`{each}`" in row + after[: 200 * len(wanted)] for each in wanted), claim["says"]


def test_a_claim_that_is_not_on_its_page_or_twice_is_an_error():
    for says in ("Nowhere", "One"):
        with pytest.raises(ValueError, match=r"begins [02] sentences"):
            site().with_evidence("One. One more.\n", [], [{"says": says, "shown_by": []}])


@cache
def site():
    made = importlib.util.spec_from_file_location("site_of_evidence", ROOT / "docs" / "site" / "evidence.py")
    module = sys.modules.setdefault(made.name, importlib.util.module_from_spec(made))
    made.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted({page for page, _ in SECTIONS}))
def test_the_site_shows_the_tests_beside_each_promise(page):
    text = site().with_evidence((ROOT / page).read_text(), [each for each in PROMISES if each["page"] == page])
    for promise in (each for each in PROMISES if each["page"] == page):
        after = text.partition(f"**{promise['says']}**")[2].partition("\n\n")[0]
        before_the_next = re.split(r"\n\d+\. ", after)[0]
        assert all(f"`{shown}`" in before_the_next for shown in promise["shown_by"])
