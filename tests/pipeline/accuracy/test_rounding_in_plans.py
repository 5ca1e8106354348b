"""A plan states the error that a release of such records states: noise and the rounding of records, by one function."""

from types import SimpleNamespace

import numpy as np
import pytest

from blockveil.engine.estimates import matrices
from blockveil.engine.kinds.totals.estimate import totals_and_means
from blockveil.pipeline.accuracy.number_error import INTERVAL
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.moments.feature_errors import errors_by_feature, moments_of
from blockveil.pipeline.kinds.outer.accuracy import errors as errors_of_outer_products
from blockveil.pipeline.kinds.outer.accuracy import typical as typical_outer_product
from blockveil.pipeline.kinds.totals.accuracy import errors as errors_of_totals
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.rounded import enough, facts, rounded
from tests.pipeline.questions.test_queries import NIGHT

FEATURES = (
    "lower = -1.3, upper = 6.7",
    "lower = -2.5, upper = 7.1",
    "lower = 0, upper = 6, step = 1",
    "lower = -90, upper = 910",
)
ROWS = 10**8


def planned(folder, kind, bits, shapes=("geometry",), features=FEATURES):
    listed = [f'{{ name = "{{key}}{i}", {each} }}' for i, each in enumerate(features)]
    written = "".join(
        f'[query.{key}]\nkind = "box"\norigin = "midpoint"\nfeatures = [{", ".join(listed).replace("{key}", key)}]\n'
        for key in shapes
    )
    path = folder / f"{kind}-{bits}.toml"
    path.write_text(
        f"""[release]
dataset = "made-up"
name = "agreement"
[data]
store = "records.zarr"
[query]
kind = "{kind}"
rows_at_most = {ROWS}
missing = "refuse"
quantisation_bits = {bits}
{written}[privacy]
epsilon = 8.0
delta = 1e-12
neighbours = "add-remove"
unit = "one"
[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "private/ledger.db"
keys = "private/keys"
"""
    )
    return make_plan(load_config(path), NIGHT)


def exact(design, answer):
    """Released integers of an answer in coordinates."""
    grid = design.steps((0, answer.shape[0]), (0, answer.shape[1])) / design.shifted_unit
    return np.rint(answer / grid).astype(np.int64)


def supposed_moments(plan, people):
    """The second moment in coordinates of records such as are supposed, the constant in front."""
    c = plan.question.query.quantiser.coordinates
    mean, size = (people.mean - c.origin) / c.scale, people.size / c.scale
    distance = np.abs(np.subtract.outer(np.arange(size.size), np.arange(size.size)))
    inner = np.outer(size, size) * people.correlation**distance + np.outer(mean, mean)
    return people.rows * np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], inner]])


@pytest.mark.parametrize(("bits", "share"), [(12, 1.5), (18, 1.0)])
def test_means_and_covariances_have_the_errors_in_a_plan_that_their_release_states(tmp_path, bits, share):
    plan = planned(tmp_path, "covariance", bits)
    people, question, design = Population.of(plan, Supposed()), plan.question, plan.answer.design
    released = exact(design, supposed_moments(plan, people))
    found = matrices.covariance(released, design, question.coordinates, None, rounding=question.rounding)
    names = list(question.features)
    moments = moments_of(plan.answer, people, names)
    means = [moments.mean_deviation(i) for i in range(len(names))]
    np.testing.assert_allclose(means, found.mean.standard_deviation, rtol=1e-6)
    for i in range(len(names)):
        stated = found.covariance.standard_deviation[i, i]
        assert moments.product_deviation(i, i, 1.0) == pytest.approx(stated, rel=1e-6)
    listed = {each.what: each.size for each in errors_by_feature(plan.answer, people)}
    assert listed[f"mean of {names[0]}"] == pytest.approx(INTERVAL * found.mean.standard_deviation[0], rel=1e-6)
    alone = matrices.covariance(released, design, question.coordinates, None)
    worse = found.mean.standard_deviation / alone.mean.standard_deviation
    assert worse[2] == 1.0, "declared codes are rounded by nothing"
    assert np.all(worse[[0, 1, 3]] > share), "rounding is not small here"


def test_totals_have_the_errors_in_a_plan_that_their_release_states(tmp_path):
    plan = planned(tmp_path, "totals", 12)
    people, question, design = Population.of(plan, Supposed()), plan.question, plan.answer.design
    released = exact(design, supposed_moments(plan, people)[:1])
    found = totals_and_means(released, design, question.coordinates, None, question.rounding)
    listed = {each.what: each.size for each in errors_of_totals(plan.answer, people)}
    for i, name in enumerate(question.features):
        assert listed[f"total of {name}"] == pytest.approx(INTERVAL * found.totals.standard_deviation[i], rel=1e-9)
        assert listed[f"mean of {name}"] == pytest.approx(INTERVAL * found.mean.standard_deviation[i], rel=1e-6)
        assert f"the total of {name} {found.totals.standard_deviation[i]:.3g}" in plan.answer.error_sentence()


def test_outer_products_have_the_errors_in_a_plan_that_their_release_states(tmp_path):
    plan = planned(tmp_path, "outer-products", 12, ("left", "right"))
    people, question, design = Population.of(plan, Supposed()), plan.question, plan.answer.design
    left, right = question.query.left.coordinates, question.query.right.coordinates
    released = np.zeros(design.shape, np.int64)
    found = matrices.outer_products(released, design, left, right, question.rounding).standard_deviation / ROWS
    shares = found / np.outer(left.scale, right.scale)
    said = plan.answer.error_sentence()
    assert f"{shares.min():.3g} to {shares.max():.3g}" in said
    assert np.argmin(shares) == 10, "both factors are declared codes"
    sizes = [each.size for each in errors_of_outer_products(plan.answer, people)]
    assert all(np.any(np.isclose(size, INTERVAL * found, rtol=1e-9)) for size in sizes)
    assert shares.min() < typical_outer_product(plan.answer, people) < shares.max()


ELLIPSOID = """[query.geometry]
kind = "ellipsoid"
shape = "diagonal"
features = [{ name = "x", origin = 2.0, semi_axis = 3.0 }, { name = "y", origin = 0.0, semi_axis = 7.0 }]
"""
BALLS = "".join(
    f'[query.{side}]\nkind = "ball"\nradius = 1.0\nfeatures = [{{ name = "{side}", origin = 0, count = 3 }}]\n'
    for side in ("left", "right")
)


@pytest.mark.parametrize(("kind", "shapes"), [("covariance", ELLIPSOID), ("outer-products", BALLS)])
def test_what_is_rounded_to_nearest_has_more_bits_before_a_plan_warns_of_it(tmp_path, kind, shapes):
    path = planned(tmp_path, kind, 16, ("left", "right") if kind == "outer-products" else ("geometry",)).loaded.path
    before, after = path.read_text().partition("[query.")[0], path.read_text().partition("[privacy]")[2]

    def of(rows, bits):
        text = before.replace(f"rows_at_most = {ROWS}", f"rows_at_most = {rows}").replace(
            "quantisation_bits = 16", bits
        )
        path.write_text(f"{text}{shapes}[privacy]{after}")
        return rounded(make_plan(load_config(path), NIGHT).answer)

    few, many, kept = of(1_000, ""), of(10**6, ""), of(10**6, "quantisation_bits = 16")
    assert (few.bits, many.bits, kept.bits) == (16, 20, 16)
    assert many.worst.largest < 0.2 * kept.worst.largest
    assert few.warning is None
    assert (kept.warning is None) == (kept.worst.largest < 1.0)
    assert "duplicates_at_most" not in str(of(10**7, "quantisation_bits = 16").warning), "which would end nothing"
    assert of(10**7, "quantisation_bits = 16").warning is not None


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_few_coordinates_have_the_least_and_the_largest_error_of_many(tmp_path, kind):
    many = [f"lower = {-i}, upper = {2 * i + 1}{', step = 1' * (i % 3 == 0)}" for i in range(1, 30)]
    plan = planned(tmp_path, kind, 12, features=many)
    question, design = plan.question, plan.answer.design
    if kind == "covariance":
        whole = matrices.worst_covariance_deviation(design, ROWS, None, question.rounding)
    else:
        whole = matrices.second_moment_deviation(design, None, question.rounding) / ROWS
    said = plan.answer.error_sentence()
    assert f"{whole.min():.3g} to {whole.max():.3g}" in said


def test_an_answer_that_sums_no_rounded_records_is_not_asked_for_the_noise_of_all_its_entries():
    noise = SimpleNamespace(entry_standard_deviation=lambda: pytest.fail("a large grid has gigabytes of them"))
    answer = SimpleNamespace(question=SimpleNamespace(), design=SimpleNamespace(additive=noise))
    assert rounded(answer) is None
    assert facts(answer) == {}
    assert not enough(answer)
