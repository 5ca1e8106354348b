"""Numbers at the ends of float64: a plan is refused, or its release, its report and every export end.

Each example asks for one kind of query by one mechanism, with bounds, rows and a guarantee that may be absurd. Nothing
may be charged and then not published. ``HYPOTHESIS_PROFILE=search`` looks for new examples.
"""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

import blockveil as bv
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import outputs
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from blockveil.pipeline.scaffold.column_answers import parse_column
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.pipeline.questions.test_queries import NIGHT

pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("pictures_in_words")]

SIZES = (1e-300, 1e-154, 1e-100, 1e-77, 1e-40, 1e-30, 1e-29, 1e-8, 1e8, 1e29, 1e30, 1e40, 1e77, 1e100, 1e154, 1e300)
ROWS = (1, 10**6, 10**9, 10**12, 10**15, 2**62)
LONG = "n" * 120
CONFIG = """
[release]
dataset = "people"
name = "extremes"
[data]
store = "records.zarr"
[query]
{query}
[privacy]
epsilon = {epsilon!r}
delta = {delta!r}
neighbours = "{neighbours}"
unit = "one person (one row)"
[mechanism]
{mechanism}
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""
AIM = 'optimise_for = "absolute-error"'
ALLOCATION = 'allocation = { kind = "uniform" }'
ADDITIVE = ('kind = "gaussian"', f'kind = "shaped-gaussian"\n{AIM}', 'kind = "auto"\nminimise = "total"')
MOMENTS = (
    *ADDITIVE,
    'kind = "shaped-gaussian"\noptimise_for = "relative-error"',
    'kind = "auto"\nminimise = "relative"',
    'kind = "box-diagonal"',
    f'kind = "shaped-diagonal"\n{AIM}',
    f'kind = "joint-diagonal"\n{AIM}',
    f'kind = "laplace"\n{AIM}',
    'kind = "k-norm"',
    f'kind = "mvg-exact"\n{ALLOCATION}',
)
CELLS = (
    *ADDITIVE[:1],
    ADDITIVE[2],
    'kind = "discrete-laplace"',
    'kind = "matrix-mechanism"',
    'kind = "hierarchical"\nnoise = "laplace"',
    'kind = "auto"\nminimise = "workload"',
)
TABLES = ('kind = "residuals"', 'kind = "gaussian"', 'kind = "auto"\nminimise = "total"')

sizes = st.sampled_from((1.0, 7.0) * 8 + SIZES)
numbers = st.builds(lambda size, sign: size * sign, sizes, st.sampled_from((-1.0, 0.0, 1.0)))


@st.composite
def intervals(draw):
    """Bounds of one column: about zero, from zero, or from anywhere."""
    size = draw(sizes)
    match draw(st.sampled_from(("about", "from", "anywhere"))):
        case "about":
            return -size, size * draw(st.sampled_from((1.0, 3.0)))
        case "from":
            return 0.0, size
    lower = draw(numbers)
    return lower, lower + size


@st.composite
def shapes(draw, table, name):
    """Shape of a record of two columns: its text, and a box that holds most records."""
    kind = draw(st.sampled_from(("midpoint", "zero", "norm", "ball", "ellipsoid")))
    title = f"[query.{table}]\n"
    if kind in ("ball", "ellipsoid"):
        axes = [draw(sizes) for _ in range(2)]
        axes = axes if kind == "ellipsoid" else axes[:1] * 2
        origins = [draw(numbers) for _ in range(2)]
        own = [f", semi_axis = {axis!r}" if kind == "ellipsoid" else "" for axis in axes]
        lines = [f'{{ name = "{name}{i}", origin = {origins[i]!r}{own[i]} }}' for i in range(2)]
        whole = f"radius = {axes[0]!r}\n" if kind == "ball" else 'shape = "diagonal"\n'
        box = [(origin - axis, origin + axis) for origin, axis in zip(origins, axes, strict=True)]
        return f'{title}kind = "{kind}"\n{whole}features = [ {", ".join(lines)} ]', box
    box = [draw(intervals()) for _ in range(2)]
    lines = [f'{{ name = "{name}{i}", lower = {box[i][0]!r}, upper = {box[i][1]!r} }}' for i in range(2)]
    origin = "zero" if kind == "zero" else "midpoint"
    norm = f"norm_at_most = {draw(sizes)!r}\n" if kind == "norm" else ""
    return f'{title}kind = "box"\norigin = "{origin}"\n{norm}features = [ {", ".join(lines)} ]', box


def head(kind, rows, more=""):
    return f'kind = "{kind}"\nrows_at_most = {rows}\nmissing = "refuse"\n{more}'


@st.composite
def moments(draw, kind, rows, name):
    shape, box = draw(shapes("geometry", name))
    more = "directions = 1\n" if kind == "principal-directions" else ""
    mechanisms = ('kind = "exponential"',) if more else MOMENTS
    return head(kind, rows, more) + shape, box, draw(st.sampled_from(mechanisms))


@st.composite
def products(draw, kind, rows, name):
    left, first = draw(shapes("left", f"l{name}"))
    right, second = draw(shapes("right", f"r{name}"))
    return head(kind, rows) + f"{left}\n{right}", [*first, *second], draw(st.sampled_from(MOMENTS))


@st.composite
def cells(draw, kind, rows, name):
    axes, box = [], []
    for i in range(2):
        lower, upper = draw(intervals())
        middle = lower + (upper - lower) / 3
        form = draw(st.sampled_from(("edges", "cells", "codes")))
        if form == "codes":
            lower, upper, own = 0.0, 2.0, "cells = 3"
        else:
            own = f"lower = {lower!r}, upper = {upper!r}, cells = 3"
            own = own if form == "cells" else f"edges = [{lower!r}, {middle!r}, {upper!r}]"
        axes.append(f'{{ name = "{name}{i}", {own} }}')
        box.append((lower, upper))
    more = 'outside = "clip"\n' + ("ways = 2\n" if kind == "marginals" else "")
    if kind == "counts":
        more += draw(st.sampled_from(("", 'workload = "ranges"\n', 'workload = "prefixes"\n')))
    mechanisms = CELLS if kind == "counts" else TABLES
    return head(kind, rows, more) + f"axes = [ {', '.join(axes)} ]", box, draw(st.sampled_from(mechanisms))


@st.composite
def histograms(draw, kind, rows, name):
    lower, upper = draw(intervals())
    powers = sorted(draw(st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000))))
    columns = f'{{ name = "{name}0", edges = [{lower!r}, {upper!r}] }}, {{ name = "{name}1" }}'
    mechanism = draw(st.sampled_from((*ADDITIVE[:1], 'kind = "discrete-laplace"', 'kind = "histogram-residuals"')))
    query = head(kind, rows, f"powers = [{powers[0]}, {powers[1]}]\nfeatures = [ {columns} ]")
    return query, [(lower, upper), (2.0 ** min(powers[0], 900), 2.0 ** min(powers[1], 900))], mechanism


@st.composite
def gradients(draw, kind, rows, name):
    shape, box = draw(shapes("geometry", name))
    lower, upper = draw(intervals())
    squared = f'name = "t", lower = {lower!r}, upper = {upper!r}'
    predicts, target = draw(st.sampled_from((("logistic", 'name = "t", classes = 2'), ("squared", squared))))
    more = f"clipping_norm = {draw(sizes)!r}\n{shape}\n[query.model]\n"
    more += f'loss = "{predicts}"\ntarget = {{ {target} }}\n'
    if draw(st.booleans()):
        more += f'[query.training]\nsteps = 3\nbatches = "full"\nexamples = {draw(st.sampled_from((1, 50, 10**9)))}\n'
        more += f'optimiser = "{draw(st.sampled_from(("sgd", "momentum", "adam")))}"\nlearning_rate = {draw(sizes)!r}\n'
    return head(kind, rows, more), [*box, (0.0, 1.0)], ADDITIVE[0]


KINDS = {
    "covariance": moments,
    "second-moment": moments,
    "totals": moments,
    "rows": moments,
    "principal-directions": moments,
    "outer-products": products,
    "counts": cells,
    "marginals": cells,
    "column-histograms": histograms,
    "gradients": gradients,
}


@st.composite
def asked(draw, kind):
    """Text of a config, and a box that holds most records."""
    rows = draw(st.sampled_from((60, 1000) * 6 + ROWS))
    name = draw(st.sampled_from(("x", LONG[:119])))
    query, box, mechanism = draw(KINDS[kind](kind, rows, name))
    epsilon = draw(st.sampled_from((1.0, 8.0) * 6 + (1e-6, 1e-30, 1e-300)))
    delta = draw(st.sampled_from((1e-6, 1e-7) * 6 + (1e-30, 1e-300))) / rows
    neighbours = draw(st.sampled_from(("add-remove", "replace-one"))) if kind != "rows" else "replace-one"
    return CONFIG.format(query=query, epsilon=epsilon, delta=delta, neighbours=neighbours, mechanism=mechanism), box


def values_in(box, codes):
    """Records in a box and at its ends, fewer than any bound on rows but one."""
    low, high = (np.array([side[end] for side in box]) for end in (0, 1))
    shares = np.random.default_rng(5).uniform(0.0, 1.0, (50, len(box)))
    shares[0], shares[1] = 0.0, 1.0
    found = low * (1.0 - shares) + high * shares
    if codes:
        found = np.floor(np.clip(found, 0, 2))
    return np.clip(np.nan_to_num(found), -1e308, 1e308)


def refused(work):
    """Result of some work; None where it is refused in words."""
    try:
        return work()
    except BlockveilError:
        return None


def booked_in(ledger):
    return {entry.kind for entry in ledger.history()}


def planned_and_published(folder, text, values):
    """Plan and publish what a config asks; whether it was published."""
    (folder / "extremes.toml").write_text(text)
    loaded = refused(lambda: load_config(folder / "extremes.toml"))
    plan = None if loaded is None else refused(lambda: make_plan(loaded, NIGHT))
    if plan is None:
        return False
    summary.describe(plan, None)
    support.write_records(folder, values[: plan.config.query.rows_at_most])
    ledger = support.set_budget(loaded, 1000.0, 0.4)
    outcome = refused(lambda: run_release(plan, ThreadCompute(1), "test", lambda *_: None))
    if outcome is None:
        assert "COMMITTED" not in booked_in(ledger), "paid for, and not published"
        return False
    report = write_report(outcome.path, output=folder / "page.html")
    json.loads(report.data.read_text(), parse_constant=pytest.fail)
    for form in ("parquet", "csv", "netcdf"):
        bv.open(outcome.path).export(folder / form, form)
    assert str(bv.open(outcome.path))
    verify(outcome.path)
    assert "RELEASED" in booked_in(ledger)
    return True


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples * 3 // 5)
@given(data=st.data())
def test_a_plan_is_refused_or_its_release_its_report_and_every_export_end(tmp_path_factory, kind, data):
    text, box = data.draw(asked(kind))
    planned_and_published(tmp_path_factory.mktemp("extremes"), text, values_in(box, kind in ("counts", "marginals")))


def covariance_of(bounds, unit="one person (one row)"):
    features = ", ".join(
        f'{{ name = "x{i}", lower = {low!r}, upper = {high!r} }}' for i, (low, high) in enumerate(bounds)
    )
    box = f'[query.geometry]\nkind = "box"\norigin = "midpoint"\nfeatures = [ {features} ]'
    text = CONFIG.format(
        query=head("covariance", 60) + box, epsilon=8.0, delta=1e-6, neighbours="add-remove", mechanism=MOMENTS[3]
    )
    return text.replace("one person (one row)", unit)


@pytest.mark.parametrize(
    "bounds",
    [
        [(0.0, 1e80)],
        [(0.0, 1e77), (0.0, 1.0)],
        [(-1e99, 1e99)],
        [(1.0, 2.0), (0.0, 1e-60)],
        [(0.0, 1e-99), (0.0, 1e99)],
    ],
)
def test_bounds_beyond_what_errors_hold_are_refused_when_they_are_read(tmp_path, bounds):
    (tmp_path / "extremes.toml").write_text(covariance_of(bounds))
    with pytest.raises(ConfigError, match=r"features\[[01]\]"):
        load_config(tmp_path / "extremes.toml")


@pytest.mark.parametrize("words", ["0 to 1e31", "-1e31 to 0", "0 to 1e-31"])
def test_first_questions_refuse_the_same_bounds(words):
    with pytest.raises(PydanticCustomError):
        parse_column(words)


@pytest.mark.parametrize("words", ["0 to 1e30", "-1e30 to 0", "0 to 1e-30"])
def test_first_questions_take_bounds_that_a_config_takes(tmp_path, words):
    bounds = parse_column(words)
    (tmp_path / "extremes.toml").write_text(covariance_of([(bounds.lowest, bounds.highest)]))
    assert load_config(tmp_path / "extremes.toml").config.query.columns == ("x0",)


@pytest.mark.parametrize("size", [1e-29, 1e29])
def test_bounds_within_it_are_released(tmp_path, size):
    assert planned_and_published(
        tmp_path, covariance_of([(0.0, size), (0.0, 1.0)]), values_in([(0.0, size), (0, 1)], 0)
    )


def begun(folder, text):
    (folder / "extremes.toml").write_text(text)
    loaded = load_config(folder / "extremes.toml")
    support.write_records(folder, np.zeros((50, 1)))
    ledger = support.set_budget(loaded, 1000.0, 0.4)
    with pytest.raises(ConfigError) as refusal:
        run_release(make_plan(loaded, NIGHT), ThreadCompute(1), "test", lambda *_: None)
    return refusal.value, booked_in(ledger)


def test_a_time_of_day_in_what_a_release_states_is_refused_before_it_is_paid_for(tmp_path):
    refusal, booked = begun(tmp_path, covariance_of([(0.0, 1.0)], "one visit of 2026-11-20 10:30"))
    assert "2026-11-20 10:30" in str(refusal)
    assert not booked & {"COMMITTED", "RELEASED"}


def test_what_cannot_be_stated_is_found_before_it_is_paid_for(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "error_facts", lambda plan: {"spectral_norm_bound": math.inf})
    refusal, booked = begun(tmp_path, covariance_of([(0.0, 1.0)]))
    assert "cannot be written" in str(refusal)
    assert not booked & {"COMMITTED", "RELEASED"}
