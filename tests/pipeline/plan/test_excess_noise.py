"""A plan says first where noise exceeds anything that records can give, and its advice is enough and not too much."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.sensitivity.reach import largest_entries
from blockveil.flows.cli import app
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.approval import question
from blockveil.pipeline.plan.excess_noise import advised, excess_noise, with_epsilon, with_norm, with_rows
from blockveil.pipeline.plan.planning import make_plan, plan_near
from blockveil.pipeline.plan.rounded import rounded
from blockveil.pipeline.plan.summary import describe, warnings
from tests.house import support

NIGHT = date(2026, 11, 20)
CHANGES = {
    "query.rows_at_most": (with_rows, 0.97),
    "privacy.epsilon": (with_epsilon, 0.97),
    "query.geometry.norm_at_most": (with_norm, 1.03),
}
"""How a config is changed, and what is a little less than enough."""


def config(folder, *, kind="covariance", features=150, rows=200, origin="midpoint", lower=-1, more=""):
    text = support.write_config(folder, kind=kind).read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    feature = f'features = [{{ name = "f", lower = {lower}, upper = 1, count = {features} }}'
    text = text[:start] + feature + text[end:]
    text = text.replace("rows_at_most = 10_000", f"rows_at_most = {rows}").replace('"midpoint"', f'"{origin}"')
    path = folder / "noisy.toml"
    path.write_text(text + more)
    return load_config(path)


@pytest.mark.parametrize(
    ("kind", "origin", "keys"),
    [
        ("covariance", "midpoint", set(CHANGES)),
        ("second-moment", "midpoint", set(CHANGES)),
        ("covariance", "zero", {"query.rows_at_most", "privacy.epsilon"}),
        ("rows", "midpoint", {"privacy.epsilon"}),
        ("totals", "midpoint", set(CHANGES)),
    ],
)
def test_each_advice_ends_the_warning_and_a_little_less_does_not(tmp_path, kind, origin, keys):
    features, lower = 1 if kind == "rows" else 150, 0 if origin == "zero" else -1
    rows = 30 if kind == "totals" else 200
    loaded = config(tmp_path, kind=kind, origin=origin, lower=lower, features=features, rows=rows)
    if kind == "rows":
        shaped = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
        text = loaded.path.read_text().replace(shaped, 'kind = "gaussian"').replace("add-remove", "replace-one")
        loaded.path.write_text(text)
        loaded = load_config(loaded.path)
    found = advised(make_plan(loaded, NIGHT))
    assert found is not None
    assert found.largest > 1.0
    assert keys <= {advice.key for advice in found.advice}
    for advice in found.advice:
        change, little = CHANGES[advice.key]
        assert excess_noise(make_plan(change(loaded, advice.value), NIGHT)) is None, advice.key
        assert excess_noise(make_plan(change(loaded, advice.value * little), NIGHT)) is not None, advice.key
        assert advice.words in found.sentence


BOX = 'kind = "box"\norigin = "midpoint"\nfeatures = [{{ name = "{}", lower = -1, upper = 1, count = 20 }}]\n'
OUTER = f'kind = "outer-products"\nmissing = "refuse"\n[query.left]\n{BOX.format("l")}[query.right]\n{BOX.format("r")}'
GRADIENTS = (
    f'kind = "gradients"\nmissing = "refuse"\nclipping_norm = 1.0\n[query.geometry]\n{BOX.format("x")}'
    '[query.model]\nloss = "logistic"\ntarget = { name = "y", classes = 2 }\n'
)
COUNTS = """kind = "counts"
missing = "drop"
outside = "clip"
axes = [{ name = "a", lower = 0, upper = 1, cells = 8 }]
"""
GAUSSIAN = 'kind = "gaussian"'
LAPLACE = 'kind = "laplace"\noptimise_for = "absolute-error"'


def asked(folder, query, rows, mechanism, epsilon):
    """A config of another kind of query."""
    text = support.write_config(folder, epsilon=epsilon).read_text()
    start, end = text.index("kind ="), text.index("[privacy]")
    shaped = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
    path = folder / "noisy.toml"
    text = f"{text[:start]}rows_at_most = {rows}\n{query}\n{text[end:]}"
    path.write_text(text.replace(shaped, mechanism))
    return load_config(path)


@pytest.mark.parametrize(
    ("query", "rows", "mechanism", "epsilon"),
    [
        (OUTER, 200, GAUSSIAN, 0.01),
        (OUTER, 200, LAPLACE, 1.0),
        (OUTER, 200, LAPLACE, 0.01),  # the grid of so much noise is coarse, and the first guess is too much
        (GRADIENTS, 200, GAUSSIAN, 0.01),
        (COUNTS, 200, GAUSSIAN, 0.01),
        (COUNTS, 100, 'kind = "discrete-laplace"', 0.01),
        (COUNTS.replace("axes", 'workload = "ranges"\naxes'), 100, 'kind = "auto"\nminimise = "workload"', 0.01),
    ],
    ids=["outer", "outer Laplace", "outer far", "gradients", "counts", "counts Laplace", "workload"],
)
def test_advice_for_products_gradients_and_counts_is_rows_or_epsilon(tmp_path, query, rows, mechanism, epsilon):
    loaded = asked(tmp_path, query, rows, mechanism, epsilon)
    found = advised(make_plan(loaded, NIGHT))
    assert [advice.key for advice in found.advice] == ["query.rows_at_most", "privacy.epsilon"]
    for advice in found.advice:
        change, little = CHANGES[advice.key]
        assert excess_noise(make_plan(change(loaded, advice.value), NIGHT)) is None, advice.key
        assert excess_noise(make_plan(change(loaded, advice.value * little), NIGHT)) is not None, advice.key


def test_advised_rows_are_whole_in_words_and_as_json_and_can_be_written_down(tmp_path):
    found = advised(make_plan(asked(tmp_path, GRADIENTS, 4, GAUSSIAN, 1.0), NIGHT))
    rows = found.plain["options"]["query.rows_at_most"]
    assert json.dumps(rows) == "5"
    assert "query.rows_at_most = 5 (with as many records)" in found.sentence
    assert excess_noise(make_plan(asked(tmp_path, GRADIENTS, rows, GAUSSIAN, 1.0), NIGHT)) is None


def test_where_equal_noise_meets_very_unequal_bounds_there_may_be_no_advice(tmp_path):
    wide = OUTER.replace("20 }]", '20 }, { name = "w", lower = -1000, upper = 1000 }]', 1)
    found = advised(make_plan(asked(tmp_path, wide, 100, GAUSSIAN, 0.01), NIGHT))
    assert found.advice == ()
    assert "No change of rows, epsilon or norm alone ends this" in found.sentence
    shaped = advised(make_plan(asked(tmp_path, wide, 100, 'kind = "auto"\nminimise = "relative"', 0.01), NIGHT))
    assert shaped.largest < found.largest / 100


def test_rows_are_no_advice_where_delta_would_allow_to_publish_one(tmp_path):
    loaded = config(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("delta = 1e-6", "delta = 4e-3"))
    found = advised(make_plan(load_config(loaded.path), NIGHT))
    assert "query.rows_at_most" not in {advice.key for advice in found.advice}
    assert found.advice


def test_the_ratio_is_of_noise_to_the_largest_entry_that_records_reach(tmp_path):
    """Half of the records at each of two opposite corners have the largest covariance there is."""
    for origin, lower in (("midpoint", -1), ("zero", 0), ("zero", -0.5)):
        loaded = config(tmp_path, origin=origin, lower=lower, features=4)
        plan = make_plan(loaded, NIGHT)
        largest = np.cov(np.array([[lower] * 4, [1.0] * 4]), rowvar=False, bias=True)
        box = Box([lower] * 4, [1.0] * 4, [0.5 * (lower + 1.0) if origin == "midpoint" else 0.0] * 4)
        units = np.outer(box.half_widths, box.half_widths)
        noise = plan.design.entry_standard_deviation()[1:, 1:] * units / 200
        least, most = plan.answer.noise_over_largest()
        assert (least, most) == pytest.approx((np.min(noise / largest), np.max(noise / largest)))


@pytest.mark.parametrize("norm", [None, 0.8, 1.2, 3.0])
def test_no_admissible_record_has_a_larger_product_than_the_bound(norm):
    rng = np.random.default_rng(4)
    body = Box([-1.0] * 3, [1.0] * 3, [0.0] * 3, norm).coordinates()
    own, product = largest_entries(body.body)
    records = rng.uniform(-1.0, 1.0, (200_000, 3))
    records[:4] = [[1, 1, 0], [1, -1, 0], [0.7, 0.7, 0], [1, 0, 0]]
    size = np.linalg.norm(records, axis=1)
    records *= np.minimum(1.0, (norm or np.inf) / size)[:, None]
    scaled = np.abs(records / body.scale)
    assert (scaled[:, 0] * scaled[:, 1]).max() == pytest.approx(product, rel=1e-3)
    assert (scaled[:, 0] ** 2).max() == pytest.approx(own, rel=1e-3)
    assert largest_entries(Body.BALL) == (1.0, 0.5)


def test_the_plan_says_it_first_in_words_and_as_json(tmp_path):
    loaded = config(tmp_path, more="\n[approval]\nthreshold_share = 0.01\n")
    plan = make_plan(loaded, NIGHT)
    found = advised(plan)
    sentence = found.sentence
    assert describe(plan, None, advice=found.advice)[0] == ("Warning", sentence)
    told = CliRunner().invoke(app, ["plan", str(loaded.path), "--date", NIGHT.isoformat(), "--json"])
    content = json.loads(told.output)
    assert content["warning"]["sentence"] == sentence
    assert content["plan_digest"] == plan.digest
    assert content["warning"]["options"].keys() == CHANGES.keys()
    support.set_budget(loaded)
    asked = question(plan, Ledger(loaded.ledger_url).budget("people"), charged=False)
    assert excess_noise(plan).sentence in asked.text


def test_a_run_warns_without_another_plan_and_says_where_advice_is(tmp_path, monkeypatch):
    plan = make_plan(config(tmp_path), NIGHT)
    monkeypatch.setattr(
        "blockveil.pipeline.plan.excess_noise.make_plan", lambda *_: pytest.fail("another plan is made")
    )
    what, sentence = describe(plan, None)[0]
    assert what == "Warning"
    assert "exceeds anything that" in sentence
    assert sentence.endswith("What would be enough to end this is found by `blockveil plan`.")


@pytest.mark.parametrize("name", ["quickstart", "nightly", "training", "visits", "pickups", "durations", "growing"])
def test_shipped_configs_have_less_noise_than_their_records_can_give(name):
    plan = plan_near(load_config(Path("configs") / f"{name}.toml"), NIGHT)
    assert excess_noise(plan) is None
    rounding = rounded(plan.answer)
    assert warnings(plan) in ([], [None if rounding is None else rounding.warning])
