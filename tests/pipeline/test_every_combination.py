"""Each query in each shape under each mechanism is released, or refused by its plan: nothing is paid for in between.

Queries, shapes and mechanisms are those that configs can name; a new one is tried as soon as a config can name it.
"""

import json
from itertools import product
from typing import get_args

import numpy as np
import pytest

import blockveil as bv
from blockveil.engine.audit import small_problems
from blockveil.engine.mechanisms.declaration import (
    ErrorAim,
    IntegerBetween,
    OneOf,
    PerFeature,
    PrecisionShares,
    RealBetween,
)
from blockveil.engine.mechanisms.registry import declarations
from blockveil.pipeline.analysis.export import FORMS
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.kinds import FOLDERS
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from blockveil.pipeline.sections.geometry_section import BoxGeometry, EllipsoidGeometry, Geometry
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.pipeline.test_extreme_numbers import CONFIG, NIGHT, booked_in, refused

BOTH = ("add-remove", "replace-one")

pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("pictures_in_words")]

NAMES = ("x1", "x2", "x3")
MATRIX = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
BOX = '{{ name = "{}", lower = -2, upper = 2 }}'
POINT = '{{ name = "{}", origin = 0.25 }}'
SHAPES = {
    "midpoint": ('kind = "box"\norigin = "midpoint"', BOX.replace("-2", "-1")),
    "zero": ('kind = "box"\norigin = "zero"', BOX),
    "norm": ('kind = "box"\norigin = "midpoint"\nnorm_at_most = 2.5', BOX),
    "learned": ('kind = "box"\norigin = "midpoint"\nlearn = "covariance"', BOX),
    "learned for means": ('kind = "box"\norigin = "midpoint"\nlearn = "mean"', BOX),
    "ball": ('kind = "ball"\nradius = 2', POINT),
    "axes": ('kind = "ellipsoid"\nshape = "diagonal"', POINT.replace(" }}", ", semi_axis = 2 }}")),
    "matrix": ('kind = "ellipsoid"\nshape = "shape.npy"', POINT),
}


def shape(table, which, names):
    head, feature = SHAPES[which]
    return f"[query.{table}]\n{head}\nfeatures = [ {', '.join(map(feature.format, names))} ]\n"


ALONE = "no shape"
"""Counts need no bounds beyond their grid."""

MODEL = '[query.model]\nloss = "{}"\ntarget = {{ name = "t", {} }}\n'
LOSSES = {
    "gradients": MODEL.format("logistic", "classes = 2"),
    "gradients, squared": MODEL.format("squared", "lower = -1, upper = 1"),
    "gradients, classes": MODEL.format("softmax", "classes = 3"),
}
TRAINING = '[query.training]\nsteps = 2\nbatches = "full"\nexamples = 50\noptimiser = "sgd"\nlearning_rate = 0.1\n'
TRAINED = ("gradients, trained", "gradients, with errors")
GRID = (
    'outside = "clip"\naxes = [ {{ name = "a", cells = 3 }}, {{ name = "b", lower = -1, upper = 2, cells = 4 }}{} ]\n'
)
QUERIES = {
    **{
        kind: lambda which: shape("geometry", which, NAMES)
        for kind in ("covariance", "second-moment", "totals", "rows")
    },
    "principal-directions": lambda which: "directions = 1\n" + shape("geometry", which, NAMES),
    "outer-products": lambda which: shape("left", which, NAMES[:1]) + shape("right", which, NAMES[1:]),
    **{
        name: lambda which, loss=loss: "clipping_norm = 1\n" + shape("geometry", which, NAMES[:2]) + loss
        for name, loss in LOSSES.items()
    },
    "gradients, with errors": lambda which: (
        "clipping_norm = 1\n"
        + shape("geometry", which, NAMES[:2])
        + LOSSES["gradients"]
        + TRAINING
        + "errors_share = 0.5\n"
    ),
    "gradients, trained": lambda which: (
        "clipping_norm = 1\n" + shape("geometry", which, NAMES[:2]) + LOSSES["gradients"] + TRAINING
    ),
    "counts": lambda _: GRID.format(""),
    "counts, one axis": lambda _: 'outside = "drop"\naxes = [ { name = "a", edges = [-2, 0, 1, 3] } ]\n',
    "counts, three axes": lambda _: GRID.format(', { name = "c", cells = 2 }'),
    **{
        f"counts, {workload}": lambda _, workload=workload: f'workload = "{workload}"\n' + GRID.format("")
        for workload in ("cells", "prefixes", "ranges", "marginals", "cells-and-total")
    },
    "column-histograms": lambda _: (
        'powers = [-2, 2]\nfeatures = [ { name = "x1", edges = [-1, 0, 1] }, { name = "x2" } ]\n'
    ),
    "quantiles": lambda _: (
        "probabilities = [0.1, 0.5]\n"
        'axes = [ { name = "a", cells = 3 }, { name = "b", lower = -1, upper = 2, cells = 4 } ]\n'
    ),
    "marginals": lambda _: "ways = 1\n" + GRID.format(""),
    "marginals, ordered": lambda _: 'ways = 2\nordered = ["b"]\n' + GRID.format(""),
}
SHAPELESS = ("counts", "column-histograms", "marginals", "quantiles")


def kind_of(query):
    return query.partition(",")[0]


def arguments(parameter, names):
    """Some lines for one key of ``[mechanism]``."""
    equal = "{ " + ", ".join(f"{name} = 1.5" for name in names) + " }"
    match parameter.values:
        case OneOf(options):
            found = [f"{parameter.key} = {json.dumps(option)}" for option in options]
        case IntegerBetween(least=least):
            found = [f"{parameter.key} = {max(2, least)}"]
        case RealBetween(least=least, most=most):
            found = [f"{parameter.key} = {(least + most) / 2}"]
        case PerFeature():
            found = [f"{parameter.key} = {equal}"]
        case ErrorAim():
            found = [f"{parameter.key} = {aim}" for aim in ('"absolute-error"', '"relative-error"', equal)]
        case PrecisionShares():
            found = [
                'allocation = { kind = "uniform" }',
                f'allocation = {{ kind = "binary", important = ["{names[0]}"], share = 0.7 }}',
                f'allocation = {{ kind = "shares", shares = {equal} }}',
                f'allocation = {{ kind = "max-pnr", signal = {equal} }}',
                'allocation = { kind = "uniform" }\ndirections = "turn.npy"\ndirections_source = "public"',
            ]
    return found if parameter.required else ["", *found]


def mechanisms(names):
    """Texts of ``[mechanism]`` by the kind that they name."""
    found = {
        each.name: [
            "\n".join((f'kind = "{each.name}"', *lines))
            for lines in product(*(arguments(parameter, names) for parameter in each.parameters))
        ]
        for each in declarations()
        if each.mechanism is not None
    }
    equal = "{ " + ", ".join(f"{name} = 1.5" for name in names) + " }"
    least = [f'"{aim}"' for aim in ("total", "relative", "psd", "spectral", "workload")]
    least += [equal, f'{{ kind = "subspace", dimension = 1, variance = {equal} }}']
    return found | {"auto": [f'kind = "auto"\nminimise = {aim}' for aim in least]}


def config(folder, query, which, neighbours, mechanism, more=""):
    body = f'kind = "{kind_of(query)}"\nrows_at_most = 60\nmissing = "refuse"\n' + QUERIES[query](which)
    epsilon = 0.9 if "classic" in mechanism else 4.0  # its theorem is for less than one
    text = CONFIG.format(query=body, epsilon=epsilon, delta=1e-6, neighbours=neighbours, mechanism=mechanism)
    (folder / "extremes.toml").write_text(text + more)
    return load_config(folder / "extremes.toml")


def records(columns, codes):
    found = np.random.default_rng(3).normal(size=(50, columns))
    found[:, -1] = np.arange(50) % 2
    return np.tile(found[:, -1:], columns) if codes else found


def published(plan, folder):
    """Run a plan; its report, its JSON and all exports end, and verify finds nothing."""
    support.write_records(folder, records(len(plan.columns), plan.config.query.kind in ("counts", "marginals")))
    ledger = support.set_budget(plan.loaded, 100.0, 0.1)
    outcome = run_release(plan, ThreadCompute(1), "test", lambda *_: None)
    assert "RELEASED" in booked_in(ledger)
    report = write_report(outcome.path, output=folder / "page.html")
    json.loads(report.data.read_text(), parse_constant=pytest.fail)
    for form in FORMS:
        try:
            bv.open(outcome.path).export(folder / f"export.{form}", form)
        except ConfigError:
            assert form in ("onnx", "npz"), form
            assert not plan.trains
    assert [each.words for each in verify(outcome.path).findings if each.holds is False] == []


def combinations():
    """Each query with the shapes that a record of it can have."""
    for query in QUERIES:
        for which in [ALONE] if kind_of(query) in SHAPELESS else SHAPES:
            yield query, which


def planned(folder, query, which, neighbours, mechanism):
    """Plan of a combination; None where it is refused in words."""
    plan = refused(lambda: make_plan(config(folder, query, which, neighbours, mechanism), NIGHT))
    if plan is None:
        return None
    summary.describe(plan, None)
    return plan


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "shape.npy", MATRIX)
    np.save(tmp_path / "turn.npy", np.linalg.qr(MATRIX)[0])
    return tmp_path


BOXED = {"box-diagonal", "shaped-diagonal", "joint-diagonal"}
MIXED = {"gaussian", "classic-gaussian", "mgm", "imgm", "analyze-gauss", "mod-sulq"}
NOT_IN = {
    "midpoint": {"exponential"},
    "zero": {"exponential"},
    "norm": {"exponential", *BOXED},
    "ball": {"k-norm", "mvg-exact", *BOXED},
    "axes": {"k-norm", "mvg-exact", *BOXED},
    "matrix": {"exponential", "k-norm", "mvg-exact", *BOXED, *MIXED},
    ALONE: set(),
}
"""Mechanisms that a shape excludes, of those that serve a query at all."""

BY_WORKLOAD = {"hierarchical", "matrix-mechanism"}
NOT_OF = {
    "counts": BY_WORKLOAD,
    "counts, one axis": BY_WORKLOAD,
    "counts, three axes": {*BY_WORKLOAD, "dawa"},
    "gradients, trained": {"k-norm"},
    "gradients, with errors": {"auto", "k-norm", "laplace"},
}
"""Mechanisms that a form of a query excludes."""


SERVED = {each.name: small_problems.served(each) for each in declarations()}


def served(query, which):
    """Mechanisms that release a query of records in a shape."""
    if which.startswith("learned"):
        wanted = "totals" if which.endswith("means") else "covariance"
        return {"auto", "shaped-gaussian"} if query == wanted else set()
    if (which == "matrix" and query == "outer-products") or (
        kind_of(query) == "gradients" and which not in ("midpoint", "zero")
    ):
        return set()
    found = {name for name, queries in SERVED.items() if kind_of(query) in queries}
    return ({"auto"} | found) - NOT_IN[which] - NOT_OF.get(query, set())


def relation(query):
    return "replace-one" if query == "rows" else "add-remove"


def features(query):
    """Names that a mechanism weighs."""
    if query == "column-histograms":
        return NAMES[:2]
    return ("a", "b") if kind_of(query) in SHAPELESS else NAMES


def released_by(folder, query, which):
    """Plans of a query in a shape by the mechanisms that release it."""
    found = {
        name: planned(folder, query, which, relation(query), texts[0])
        for name, texts in mechanisms(features(query)).items()
    }
    return {name: plan for name, plan in found.items() if plan is not None}


def test_what_configs_can_name_is_tried():
    assert {kind_of(query) for query in QUERIES} == set(FOLDERS)
    shapes = get_args(get_args(Geometry)[0])
    assert {get_args(each.model_fields["kind"].annotation)[0] for each in shapes} == {"box", "ball", "ellipsoid"}
    assert get_args(BoxGeometry.model_fields["origin"].annotation) == ("midpoint", "zero")
    assert set(EllipsoidGeometry.model_fields) == {"kind", "shape", "shape_sha256", "features"}


@pytest.mark.parametrize(("number", "query", "which"), [(i, *each) for i, each in enumerate(combinations())])
def test_a_query_in_a_shape_is_released_by_the_mechanisms_that_serve_it(folder, number, query, which):
    """Each is planned, and one of them published; the slow test publishes all."""
    plans = released_by(folder, query, which)
    assert set(plans) == served(query, which)
    if plans:
        name = sorted(plans)[number % len(plans)]
        published(planned(folder, query, which, relation(query), mechanisms(features(query))[name][0]), folder)


@pytest.mark.slow
@pytest.mark.parametrize(("query", "which"), list(combinations()))
def test_every_mechanism_publishes_what_it_plans(folder, query, which):
    for name, texts in mechanisms(features(query)).items():
        for number, neighbours, text in [(i, *each) for i, each in enumerate(product(BOTH, texts))]:
            place = folder / f"{name}-{number}"
            place.mkdir()
            for file in folder.glob("*.npy"):
                (place / file.name).write_bytes(file.read_bytes())
            plan = planned(place, query, which, neighbours, text)
            if plan is not None and number % len(texts) in (0, len(texts) - 1):
                published(plan, place)


def test_directions_that_are_drawn_in_an_ellipsoid_verify(folder):
    published(planned(folder, "principal-directions", "axes", "add-remove", 'kind = "exponential"'), folder)


NIGHTS = "\n[continual]\nnights = 3\nfirst = 2026-11-20\nwindows = [2]\n"
SUMS = {"covariance", "second-moment", "totals", "outer-products", "gradients", "counts", "marginals"}
"""Queries whose nights share a charge."""


@pytest.mark.parametrize(
    ("query", "which"), [each for each in combinations() if each[1] in ("midpoint", "matrix", ALONE)]
)
def test_nights_that_share_a_charge_are_published_or_refused_by_their_plan(folder, query, which):
    mechanism = 'kind = "shaped-gaussian"\noptimise_for = "absolute-error"'
    try:
        loaded = config(folder, query, which, relation(query), mechanism, NIGHTS)
        plan = make_plan(loaded, NIGHT)
    except ConfigError:
        assert kind_of(query) not in SUMS or query in TRAINED or not served(query, which)
        return
    assert kind_of(query) in SUMS
    published(plan, folder)
