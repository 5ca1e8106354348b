"""A public list of records becomes the ellipsoid of least noise: it holds the list, and a config may declare it."""

import itertools
from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.engine.records.geometry import Ellipsoid
from blockveil.engine.records.quantiser import Quantiser
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import listed
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

RNG = np.random.default_rng(12)
NIGHT = date(2026, 11, 20)


def shape(folder, values, origin="midpoint"):
    np.save(folder / "list.npy", values)
    return listed.shape_of_list(folder / "list.npy", origin)


def test_corners_of_a_box_get_the_ellipsoid_of_least_trace_around_it(tmp_path):
    c = np.array([3.0, 1.0, 0.2])
    found = shape(tmp_path, np.array(list(itertools.product([-1, 1], repeat=3))) * c, "zero")
    # Relative to the spread all three are alike: E_i = 3 c_i^2.
    assert found.matrix == pytest.approx(np.diag(3.0 * c**2) * 1.001, rel=2e-3, abs=1e-6)
    assert found.of_box_sum == pytest.approx(1.001, rel=1e-3)
    assert found.gap < 0.003


def test_points_of_a_turned_ellipsoid_get_about_its_own_shape(tmp_path):
    root = RNG.standard_normal((3, 3))
    points = RNG.standard_normal((4000, 3))
    values = points / np.linalg.norm(points, axis=1)[:, None] @ root.T + 5.0
    found = shape(tmp_path, values)
    assert found.matrix == pytest.approx(root @ root.T, rel=0.05, abs=0.05)
    assert found.of_box_sum < 1.0


@pytest.mark.parametrize("origin", ["midpoint", "mean", "zero"])
def test_no_record_of_the_list_is_clipped(tmp_path, origin):
    values = RNG.gamma(2.0, 1.0, (300, 5)) * [1.0, 10.0, 0.01, 3.0, 1e6]
    values[:, 1] += 8.0 * values[:, 0]
    found = shape(tmp_path, values, origin)
    coordinates = Ellipsoid(found.origin, found.matrix).coordinates()
    clip = Quantiser(coordinates, 2**15 - 1, False, None)
    back = found.origin + clip.quantise(values) / clip.largest @ coordinates.to_raw().T
    steps = np.sqrt(np.diagonal(found.matrix)) / clip.largest
    assert np.max(np.abs(back - values) / steps) < 20.0
    far = found.origin + 3.0 * (values - found.origin)
    assert np.max(np.linalg.norm(clip.quantise(far), axis=1)) <= clip.largest
    assert found.gap < 0.003
    assert 0 < found.of_box_moment < found.of_box_sum < 1


def test_a_price_list_is_declared_and_its_noise_is_smaller_than_in_a_box(tmp_path):
    basic = RNG.uniform(0.0, 10.0, 60)
    prices = np.column_stack([basic, 2.0 * basic + RNG.uniform(-1, 1, 60), 30.0 - basic + RNG.uniform(-1, 1, 60)])
    (tmp_path / "prices.csv").write_text(
        "age,income,debt\n" + "\n".join(",".join(map(str, line)) for line in prices) + "\n"
    )
    arguments = ["public", "shape-of-list", str(tmp_path / "prices.csv"), "--output", str(tmp_path / "e.npy")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.exception
    assert 'shape = "e.npy"' in shown.stdout
    assert "60 different records of 3 features" in shown.stdout
    assert isinstance(CliRunner().invoke(app, arguments).exception, StoreError)  # it exists
    found = listed.shape_of_list(tmp_path / "prices.csv", "midpoint")
    assert np.array_equal(np.load(tmp_path / "e.npy"), found.matrix)

    loaded = support.prepare(tmp_path, epsilon=2.0, budget=60.0, values=prices[RNG.integers(0, 60, 4000)])
    text = (tmp_path / "people.toml").read_text().replace('kind = "covariance"', 'kind = "second-moment"')
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    low, high = prices.min(axis=0), prices.max(axis=0)
    features = [
        f"{{ name = '{n}', origin = {o!r} }}" for n, o in zip(found.features, map(float, found.origin), strict=True)
    ]
    box = [
        f"{{ name = '{n}', lower = {float(a)!r}, upper = {float(b)!r} }}"
        for n, a, b in zip(found.features, low, high, strict=True)
    ]
    shapes = {
        "box": f"kind = 'box'\norigin = 'midpoint'\nfeatures = [{', '.join(box)}]",
        "list": f"kind = 'ellipsoid'\nshape = 'e.npy'\nfeatures = [{', '.join(features)}]",
    }
    errors = {}
    for name, declared in shapes.items():
        (tmp_path / "people.toml").write_text(text[:start] + f"[query.geometry]\n{declared}\n\n" + text[end:])
        plan = make_plan(load_config(tmp_path / "people.toml"), NIGHT)
        errors[name] = plan.answer.error().total_variance
    assert errors["list"] < 0.6 * errors["box"]
    outcome = run_release(plan, ThreadCompute(2), "test", lambda *_: None)
    assert outcome.path.exists()
    assert Ledger(loaded.ledger_url).budget("people").charges == 1


FLAT = np.column_stack([np.arange(5.0), 2.0 * np.arange(5.0)])


@pytest.mark.parametrize(
    ("values", "origin", "words"),
    [
        (FLAT, "zero", "gives no ellipsoid"),
        (np.eye(4), "mean", "gives no ellipsoid"),
        (np.column_stack([np.arange(5.0), np.ones(5)]), "midpoint", "the same in every record"),
        (np.array([[1.0, np.nan]]), "zero", "finite"),
        (np.array([[1e200, 1.0], [0.0, 2.0]]), "zero", "finite"),
        (np.ones(3), "zero", "finite"),
        (np.zeros((0, 3)), "zero", "finite"),
        (np.array([["a", "b"]]), "zero", "finite"),
        (np.arange(2.0 * 23_000).reshape(2, 23_000), "zero", "may be"),
    ],
)
def test_what_gives_no_ellipsoid_is_refused_in_words(tmp_path, values, origin, words):
    with pytest.raises(ConfigError, match=words):
        shape(tmp_path, values, origin)


@pytest.mark.parametrize("text", ["", "a,b\n", "a,b\n1\n", "a,b\n1,x\n", "a\n1,2\n2,3\n", "a,b\n1,nan\n2,3\n"])
def test_a_table_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ConfigError, match="finite numbers"):
        listed.shape_of_list(tmp_path / "list.csv", "midpoint")
    with pytest.raises(StoreError):
        listed.shape_of_list(tmp_path / "none.csv", "midpoint")


def test_a_centre_of_one_hot_records_that_leaves_a_shape_is_taken(tmp_path):
    found = shape(tmp_path, np.eye(6))
    assert np.linalg.eigvalsh(found.matrix)[0] > 0
    assert found.records == 6
