"""A kind of query has one place: what is outside the folders of kinds names none of them, or fewer and fewer do."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from blockveil.engine.audit.small_problems import small_cases
from blockveil.pipeline.base.kinds import FOLDERS, Kind, kind_of, kinds

ROOT = Path(__file__).resolve().parents[1]
PLACES = {ROOT / layer / "kinds" for layer in ("engine", "pipeline")}
REGISTRY = ROOT / "pipeline" / "base" / "kinds.py"

AT_MOST = {"files that import a kind": 0, "files that say a kind": 4}
"""What is left outside the folders; each number may only fall. Whoever imports no kind tells none apart."""


@cache
def outside():
    """Syntax of every file of the product outside the folders of kinds, by its path."""
    files = [path for layer in ("engine", "pipeline", "flows") for path in sorted((ROOT / layer).rglob("*.py"))]
    return {path: ast.parse(path.read_text()) for path in files if not PLACES & set(path.parents) and path != REGISTRY}


def imported(syntax):
    """Names that a file has from the folder of a kind."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("blockveil.pipeline.kinds"):
            yield from (each.asname or each.name for each in node.names)


def says_a_kind(syntax):
    """Whether a file has the name of a query of its own as text; a matrix of a release may be called like it."""
    named = {query for query in FOLDERS if "-" in query or query in ("totals", "marginals")}
    return any(isinstance(node, ast.Constant) and node.value in named for node in ast.walk(syntax))


def test_what_is_outside_the_folders_of_kinds_knows_fewer_and_fewer_of_them():
    found = Counter()
    for syntax in outside().values():
        found["files that import a kind"] += any(imported(syntax))
        found["files that say a kind"] += says_a_kind(syntax)
    print(dict(found))
    assert dict(found) == AT_MOST


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.package.rpartition(".")[2])
def test_every_kind_has_its_queries_their_titles_and_the_parts_without_which_none_is_released(kind):
    assert [query for query, folder in FOLDERS.items() if kind.package.endswith(f".{folder}")] == list(kind.titles)
    assert all(kind.titles.values())
    assert set(kind.learns) <= set(kind.titles)
    for part in ("section", "question", "accuracy"):
        assert kind.part(part, None) is not None
    assert set(kind.titles) <= {case.query for case in small_cases()}


def test_a_kind_that_does_not_say_has_what_a_room_takes_for_granted():
    assert kind_of("unheard-of") == Kind(titles={"unheard-of": "unheard-of"})
    assert kind_of("unheard-of").part("accuracy", "nothing") == "nothing"
    assert kind_of("totals").part("no_such_part", "nothing") == "nothing"


def test_a_part_of_another_package_may_be_given_in_place_of_a_file():
    assert Kind(titles={}, package="blockveil.pipeline.kinds.totals", parts={"section": 1}).part("section", 2) == 1
