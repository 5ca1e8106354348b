"""Mechanisms ask problems for abilities, never for their class or their name, and a problem without any is safe."""

import ast
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

import blockveil.engine
from blockveil.engine.audit.small_problems import served
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import Importance, NotApplicable
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.engine.mechanisms.registry import declarations
from blockveil.pipeline.base.kinds import FOLDERS

ENGINE = Path(blockveil.engine.__file__).parent
ROOM = ENGINE / "mechanisms"
PROMISE = ApproxDP(0.5, 1e-6)


@cache
def trees(room):
    return {path: ast.parse(path.read_text()) for path in sorted(room.rglob("*.py"))}


@cache
def classes_of_problems():
    """Names of all classes of the engine that say which query they are, and of those built on them."""
    found = [node for tree in trees(ENGINE).values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    named = {node.name for node in found if any(is_query(line) for line in node.body)} - {"Problem"}
    while True:
        built = {node.name for node in found if named & {each.id for each in node.bases if isinstance(each, ast.Name)}}
        if built <= named:
            return named
        named |= built


def is_query(line):
    return isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == "query"


def asks_for_a_class(tree):
    """Names of classes of problems that a module mentions at all, imported or not."""
    names = classes_of_problems()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            yield from (name for _ in range(name in names))


def asks_for_a_name(tree):
    """Places at which a module reads which query a problem is."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and node.attr == "query") or (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and "'query'" in ast.unparse(node)
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize("asks", [asks_for_a_class, asks_for_a_name])
def test_no_mechanism_asks_for_the_class_or_the_name_of_a_problem(asks):
    found = {str(path.relative_to(ROOM)): list(asks(tree)) for path, tree in trees(ROOM).items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_asks_for_a_class_or_a_name_is_found():
    assert classes_of_problems() >= {"Totals", "SecondMoment", "RotatedRows", "PrincipalDirections", "GradientProblem"}
    tree = ast.parse("from a import Totals\nisinstance(p, b.Rows)\nif p.query == 'rows' or getattr(p, 'query'): pass")
    assert list(asks_for_a_class(tree)) == ["Totals", "Rows"]
    assert len(list(asks_for_a_name(tree))) == 2


SERVED = {each.name: set(served(each)) for each in declarations()}


def test_the_catalogue_lists_the_queries_for_whose_problems_a_mechanism_finds_what_it_needs():
    everywhere = set(FOLDERS)
    assert {name for name, queries in SERVED.items() if queries == everywhere} == {
        "gaussian",
        "shaped-gaussian",
        "laplace",
        "classic-gaussian",
        "mgm",
        "imgm",
    }
    assert {name: queries for name, queries in SERVED.items() if queries and queries != everywhere} == {
        "mvg": everywhere - {"covariance", "totals"},
        "mvg-exact": {"principal-directions", "rows", "second-moment"},
        "analyze-gauss": {"principal-directions", "second-moment"},
        "mod-sulq": {"principal-directions", "second-moment"},
        "exponential": {"principal-directions"},
        "shaped-diagonal": {"covariance", "second-moment"},
        "box-diagonal": {"second-moment"},
        "joint-diagonal": {"covariance"},
        "k-norm": {"rows", "gradients"},
        "discrete-laplace": {"counts", "column-histograms", "marginals"},
        "matrix-mechanism": {"counts"},
        "hierarchical": {"counts"},
        "dawa": {"counts"},
        "residuals": {"marginals"},
        "histogram-residuals": {"column-histograms"},
    }


def test_nothing_is_served_by_what_is_only_studied():
    assert all(bool(SERVED[each.name]) == (each.mechanism is not None) for each in declarations())


@dataclass(frozen=True, eq=False)
class ForeignProblem:
    """Counts of another package: the protocol and nothing else."""

    query = "foreign"
    inner: Counts

    def __getattr__(self, name):
        if name in {"neighbours", "shape", "symmetric", "units", "scaling", "spread", "l2", "l1", "largest_norm"}:
            return getattr(self.inner, name)
        raise AttributeError(name)


FOREIGN = ForeignProblem(Counts((4, 5), Neighbours.REPLACE_ONE, 100))
EVERYWHERE = (Gaussian(), ShapedGaussian(Importance("relative-error")), Laplace(Importance("relative-error")))


@pytest.mark.parametrize("mechanism", EVERYWHERE, ids=lambda each: each.name)
def test_a_problem_without_abilities_is_answered_by_its_own_sensitivity(mechanism):
    found, own = (mechanism.design(each, PROMISE) for each in (FOREIGN, FOREIGN.inner))
    assert (found.scale, found.loss) == (own.scale, own.loss)


NEEDING = [each for each in declarations() if each.mechanism and "gradients" not in SERVED[each.name]]


@pytest.mark.parametrize("declaration", NEEDING, ids=lambda each: each.name)
def test_a_mechanism_that_needs_more_than_the_protocol_refuses_a_problem_without_abilities(declaration):
    given = {each.key: each.default for each in declaration.parameters}
    mechanisms = declaration.audited or declaration.tried(Importance("relative-error")) or [declaration.built(**given)]
    for mechanism in mechanisms:
        with pytest.raises(NotApplicable):
            mechanism.design(FOREIGN, PROMISE)


def test_auto_compares_what_needs_no_ability_and_states_no_bound():
    metric = Metric("total")
    names = {row.mechanism for row in compare(FOREIGN, PROMISE, metric).table}
    assert not names & {"k-norm", "box-diagonal", "shaped-diagonal", "joint-diagonal", "residuals"}
    assert metric.least(FOREIGN, PROMISE) is None
    with pytest.raises(NotApplicable, match="no workload"):
        Metric("workload").value(Gaussian().design(FOREIGN, PROMISE), FOREIGN)


def test_a_count_of_which_nothing_is_known_is_refused():
    led = replace(FOREIGN)
    object.__setattr__(led, "constants", (0, 1))
    with pytest.raises(NotApplicable, match="noise of the count that leads this answer is not known"):
        Gaussian().design(led, PROMISE)
