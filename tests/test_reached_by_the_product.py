"""What only tests reach is no part of the product: an independent formula belongs to ``tests/oracles``."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("engine", "pipeline", "flows")
NAMELESS = {"property", "staticmethod", "classmethod", "cache", "lru_cache", "contextmanager", "overload", "dataclass"}
"""Decorators that do not hand a function to a framework, which then calls it."""

ALLOWED = {
    "pipeline/releases/night.py:run_release": "a whole release with compute that is open already",
    "engine/audit/laws.py:discrete_laplace": "a law on which the audits' own tests try them",
    "engine/audit/mutants.py:unrounded": "a mistake that the audits' own tests must find",
    "engine/mechanisms/published/subspace.py:matrix_gaussian": "IMGM in the comparison of noise for directions",
    "flows/service/connections.py:Server.startup": "uvicorn calls it",
    "flows/service/mail.py:Mail": "an entry point, which every Prefect server looks for",
    "pipeline/ledger/budget_status.py:BudgetStatus.spent_mu": "in the unit of a loss, for callers of the ledger",
}
"""Place and reason of what the product does not mention, although somebody else reaches it."""


def words(node):
    """Every name that a part of a program mentions, as a name, an attribute or a part of a string."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and len(inner.value) < 200:
            yield from re.findall(r"\w+", inner.value)


def without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not bare_text(each)] or [ast.Pass()]
    return tree


def bare_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def programs():
    files = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): without_docstrings(ast.parse(path.read_text())) for path in files}


def called_from_outside():
    """What the package itself offers, and what its page for programs and notebooks calls."""
    facade = [(ROOT / "src" / "blockveil" / name).read_text() for name in ("__init__.py", "sklearn.py")]
    page = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text())
    return [without_docstrings(ast.parse(text)) for text in (*facade, *page)]


@cache
def mentioned():
    return Counter(word for tree in (*programs().values(), *called_from_outside()) for word in words(tree))


@cache
def our_classes():
    return {node.name for tree in programs().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def public(body):
    for node in body:
        defined = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if defined and not node.name.startswith("_") and not handed_over(node):
            yield node


def handed_over(node):
    """Whether a decorator hands the function to a framework."""
    named = {next(iter(words(decorator))) for decorator in node.decorator_list}
    return not named <= NAMELESS and not any(name.startswith("functools") for name in named)


def foreign(node):
    """Whether a class has bases that are not ours, so that others call its methods."""
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    return not bases <= our_classes() | {"Protocol", "Generic", "Enum", "StrEnum", "NamedTuple"}


def definitions(tree):
    """Name and node of each public function, class and method."""
    for node in public(tree.body):
        yield node.name, node
        if isinstance(node, ast.ClassDef) and not foreign(node):
            for method in public(node.body):
                yield f"{node.name}.{method.name}", method


def unreached():
    for path, tree in programs().items():
        for name, node in definitions(tree):
            own = node.name
            if mentioned()[own] <= sum(word == own for word in words(node)):
                yield f"{path}:{name}"


def test_everything_public_is_reached_by_the_product_itself():
    assert sorted(unreached()) == sorted(ALLOWED)
