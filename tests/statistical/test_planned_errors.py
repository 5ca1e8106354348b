"""The errors that a plan states are those of its releases.

Each scale test draws 40,000 noises under a fixed key, compares the estimates' squared errors with what is planned, and
rejects a right scale with probability 1e-9; it must reject one that is wrong by 5 %. The coverage tests draw 1,000
whole releases, of whose 95 % intervals 93 to 97 % hold the truth.
"""

from datetime import date

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.matrices import covariance_of
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.number_error import INTERVAL, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.counts.accuracy import errors as errors_of_cells
from blockveil.pipeline.kinds.moments.feature_errors import moments_of
from blockveil.pipeline.kinds.totals.accuracy import errors as errors_of_totals
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

NIGHT = date(2026, 11, 20)
ALPHA = 1e-9
DRAWS = 40_000
RELEASES = 1_000
ROWS = 10_000
CORRELATION = 0.5
QUANTITIES = ("mean", "standard deviation", "correlation")


def planned(folder, case):
    """A plan of three features, and the supposed records."""
    path = support.write_config(folder, neighbours="replace-one" if case == "public count" else "add-remove")
    text = path.read_text()
    if case == "off the origin":
        text = text.replace('origin = "midpoint"', 'origin = "zero"')
    if case == "matrix":
        shape = np.array([[1.0, 0.4, 0.1], [0.4, 2.0, -0.3], [0.1, -0.3, 0.5]])
        np.save(folder / "shape.npy", shape)
        start, end = text.index('kind = "box"'), text.index("[privacy]")
        features = ", ".join(f'{{ name = "{name}", origin = {i}.0 }}' for i, name in enumerate("abc"))
        text = f'{text[:start]}kind = "ellipsoid"\nshape = "shape.npy"\nfeatures = [{features}]\n\n{text[end:]}'
    path.write_text(text)
    plan = make_plan(load_config(path), NIGHT)
    return plan, Population.of(plan, Supposed(rows=ROWS, correlation=CORRELATION))


def truth(plan, population):
    """Augmented second moment of the supposed records in coordinates, and their covariance in raw units."""
    d, coordinates = population.size.size, plan.question.coordinates
    covariance = np.outer(population.size, population.size) * np.where(np.eye(d), 1.0, CORRELATION)
    back = coordinates.to_raw()
    there = np.linalg.inv(np.diag(back) if back.ndim == 1 else back)
    shift = there @ (population.mean - coordinates.origin)
    moment = there @ covariance @ there.T + np.outer(shift, shift)
    return ROWS * np.block([[np.ones((1, 1)), shift[None]], [shift[:, None], moment]]), covariance


def estimates(plan, augmented, public):
    """Means about the origin, standard deviations and one correlation, from many noisy second moments."""
    back = plan.question.coordinates.to_raw()
    back = np.diag(back) if back.ndim == 1 else back
    deviation = 0.0 if public else float(plan.design.standard_deviations((0, 1), (0, 1))[0, 0])
    covariance = back @ covariance_of(augmented, ROWS if public else None, deviation) @ back.T
    count = ROWS if public else augmented[:, :1, 0]
    sizes = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    correlation = covariance[:, 0, 1] / (sizes[:, 0] * sizes[:, 1])
    return augmented[:, 0, 1:] / count @ back.T, sizes, correlation


def noise(design, draws):
    m = design.shape[0]
    drawn = design.grid.draw(NoiseKey.derive(bytes(32), b"planned errors"), (0, draws * m), (0, m), False)
    drawn = drawn.reshape(draws, m, m)
    drawn = np.triu(drawn) + np.swapaxes(np.triu(drawn, 1), 1, 2)
    return drawn * (design.steps((0, m), (0, m)) / design.shifted_unit)


def is_rejected(errors, deviation):
    """Whether errors are not those of noise of this standard deviation."""
    total = float(np.sum((errors / deviation) ** 2))
    return min(stats.chi2.sf(total, errors.size), stats.chi2.cdf(total, errors.size)) < ALPHA / 2.0


@pytest.mark.parametrize("case", ["midpoint", "off the origin", "public count", "matrix"])
def test_planned_standard_deviations_are_right_and_5_per_cent_wrong_ones_are_rejected(tmp_path, case):
    plan, population = planned(tmp_path, case)
    exact, covariance = truth(plan, population)
    moments = moments_of(plan.answer, population, population.names)
    mean, size, correlation = estimates(plan, exact + noise(plan.design, DRAWS), case == "public count")
    cases = [(mean[:, i] - moments.mean[i], moments.mean_deviation(i)) for i in range(3)]
    cases += [(size[:, i] - covariance[i, i] ** 0.5, moments.size_deviation(i)) for i in range(3)]
    cases.append((correlation - CORRELATION, moments.correlation_deviation(0, 1, CORRELATION)))
    for errors, deviation in cases:
        assert not is_rejected(errors, deviation)
        assert is_rejected(errors, 1.05 * deviation)
        assert is_rejected(errors, 0.95 * deviation)


@pytest.mark.parametrize("case", ["midpoint", "off the origin", "matrix"])
def test_95_per_cent_intervals_of_a_plan_hold_the_truth_in_93_to_97_of_100_releases(tmp_path, case):
    plan, population = planned(tmp_path, case)
    exact, covariance = truth(plan, population)
    whole = np.rint(exact * plan.design.unit).astype(np.int64)
    moments = moments_of(plan.answer, population, population.names)
    reach = INTERVAL * np.array(
        [
            moments.mean_deviation(0),
            moments.size_deviation(1),
            moments.correlation_deviation(0, 1, CORRELATION),
        ]
    )
    true = np.array([population.mean[0], covariance[1, 1] ** 0.5, CORRELATION])
    inside = np.zeros(3)
    for number in range(RELEASES):
        key = NoiseKey.derive(bytes(32), f"coverage {number}".encode())
        arrays = plan.answer.arrays(plan.design.release(key, whole), ROWS)
        found = arrays["covariance"][0]
        sizes = np.sqrt(np.diagonal(found))
        inside += np.abs([arrays["mean"][0][0], sizes[1], found[0, 1] / (sizes[0] * sizes[1])] - true) <= reach
    assert ((inside >= 0.93 * RELEASES) & (inside <= 0.97 * RELEASES)).all(), dict(zip(QUANTITIES, inside, strict=True))


COUNTS = """kind = "counts"
missing = "drop"
outside = "clip"
rows_at_most = 10_000
axes = [{ name = "a", lower = 0, upper = 1, cells = 25 }, { name = "b", lower = 0, upper = 1, cells = 40 }]

"""


@pytest.mark.parametrize("mechanism", ['kind = "gaussian"', 'kind = "discrete-laplace"'])
def test_planned_errors_of_cells_and_their_total_are_right(tmp_path, mechanism):
    text = support.write_config(tmp_path).read_text()
    start, end = text.index("kind ="), text.index("[privacy]")
    shaped = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
    (tmp_path / "counts.toml").write_text((text[:start] + COUNTS + text[end:]).replace(shaped, mechanism))
    plan = make_plan(load_config(tmp_path / "counts.toml"), NIGHT)
    cell, total = errors_of_cells(plan.answer, Population.of(plan, Supposed()))
    key = NoiseKey.derive(bytes(32), b"planned counts")
    drawn = plan.design.grid.draw(key, (0, 40 * 25), (0, 40), False) * plan.design.steps((0, 1), (0, 1))[0, 0]
    drawn = drawn / plan.design.shifted_unit
    deviation = cell.size / interval_of_an_entry(plan.design)
    # Laplace noise is heavier than Gaussian: its squares vary by 5 rather than by 2.
    share = float(np.mean(drawn**2)) / deviation**2 - 1.0
    furthest = stats.norm.isf(ALPHA / 2.0) * (5.0 / drawn.size) ** 0.5
    assert abs(share) < furthest < 1.05**2 - 1.0
    assert 0.93 < np.mean(np.abs(drawn) <= cell.size) < 0.975
    assert total.size == pytest.approx(INTERVAL * deviation * 1000**0.5)


@pytest.mark.parametrize("origin", ["midpoint", "zero"])
def test_planned_errors_of_cells_totals_and_means_of_columns_are_right(tmp_path, origin):
    path = support.write_config(tmp_path)
    path.write_text(
        path.read_text().replace('"covariance"\nrows', '"totals"\nrows').replace('"midpoint"', f'"{origin}"')
    )
    plan = make_plan(load_config(path), NIGHT)
    population = Population.of(plan, Supposed(rows=ROWS))
    planned = {error.what: error.size / INTERVAL for error in errors_of_totals(plan.answer, population)}
    box = plan.question.coordinates
    sums = ROWS * np.append(1.0, (population.mean - box.origin) / box.scale)
    key = NoiseKey.derive(bytes(32), b"planned totals")
    drawn = plan.design.grid.draw(key, (0, DRAWS), (0, 4), False)
    noisy = sums + drawn * (plan.design.steps((0, 1), (0, 4)) / plan.design.shifted_unit)
    count, shift = noisy[:, 0], noisy[:, 1:] * box.scale
    cases = [(count - ROWS, planned["count"])]
    for i, name in enumerate(population.names):
        cases.append((shift[:, i] + count * box.origin[i] - ROWS * population.mean[i], planned[f"total of {name}"]))
        cases.append((box.origin[i] + shift[:, i] / count - population.mean[i], planned[f"mean of {name}"]))
    for errors, deviation in cases:
        assert not is_rejected(errors, deviation)
        assert is_rejected(errors, 1.05 * deviation)
        assert is_rejected(errors, 0.95 * deviation)
