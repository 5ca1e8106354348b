"""How far the noise of second moments in a box is from the least that any Gaussian noise has, under add-remove.

The set of changes, ``v v'`` over a cube, is the same after any change of signs and order of the features, and so is the
total variance. Averaged over these symmetries, the inverse of a covariance hides each change as well as before, and the
trace of the covariance is no larger (convexity). So some least covariance has their symmetry: one variance a off the
diagonal (in orthonormal coordinates), one of the diagonal's common part, b, and one of its single parts, c. For k
features at their ends the squared distance is ``k (1/c - 1/a) + k^2 (1/a + 1/(d b) - 1/(d c))``; it is convex in each
squared feature, so that corners decide.

Run ``python -m benchmarks.box_moments``. Squared error of what ``auto`` takes, and of isotropic noise, over that least,
at equal guarantee; and of isotropic noise over what ``auto`` takes under replace-one. A second table has the root mean
squared error of positive semi-definite versions over that with isotropic noise, of second moments whose eigenvalues
fall off like 1/i. There is no clock.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.shrunk_spectrum import noise_of_moment, shrunk, suits
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.box_diagonal import BoxDiagonal
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import SecondMoment

GUARANTEE = ApproxDP(0.9, 1e-6)
FEATURES = (4, 6, 10, 23, 50, 100)
_LARGEST = 2**15 - 1


def error(d: int, common: float, single: float) -> float:
    """Total variance times the largest squared distance, for a variance of one off the diagonal."""
    k = np.arange(1.0, d + 1.0)
    distances = k * (1.0 / single - 1.0) + k**2 * (1.0 + 1.0 / (d * common) - 1.0 / (d * single))
    return float((d * (d - 1) / 2 + common + single * (d - 1)) * np.max(distances))


def least(d: int) -> float:
    """The same of the best two variances on the diagonal."""

    def at(logs: np.ndarray) -> float:
        return error(d, *np.exp(logs))

    starts = [(0.0, 0.0), (1.0, -2.0), (0.5, -4.0)]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    return min(float(minimize(at, start, method="Nelder-Mead", options=options).fun) for start in starts)


def over_the_least(d: int) -> float:
    """Squared error of what auto takes for a cube over the least, under add-remove."""
    # Both at the mu of the design: what rounding and the sampler cost is in neither.
    taken, mu = _errors(d, Neighbours.ADD_REMOVE)["auto"]
    return taken * mu**2 / least(d)


def isotropic_over_auto(d: int, neighbours: Neighbours) -> float:
    """Squared error of isotropic noise over that of what auto takes."""
    errors = _errors(d, neighbours)
    return errors["gaussian"][0] / errors["auto"][0]


def _errors(d: int, neighbours: Neighbours) -> dict[str, tuple[float, float]]:
    """Squared error by mechanism, and that of auto; each with the mu of the design that auto takes."""
    problem = SecondMoment(Body.CUBE, np.ones(d), neighbours, _LARGEST, 1000, False)
    found = compare(problem, GUARANTEE, Metric("total"))
    mu = found.design.loss.mu
    named = {row.mechanism: (row.error, mu) for row in found.table if row.error is not None}
    return {**named, "auto": (float(found.table[0].error or 0.0), mu)}


POSITIVE = (4, 6, 10, 23)
ROWS = (100, 1000, 30_000)
_DRAWS = 100


def positive_over_isotropic(d: int, neighbours: Neighbours, rows: int) -> float:
    """Error of positive semi-definite versions with a diagonal of its own over that with isotropic noise."""
    problem = SecondMoment(Body.CUBE, np.ones(d), neighbours, 2**11 - 1, rows, False)
    axes = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
    spectrum = 1.0 / np.arange(1.0, d + 1.0)
    # A tenth of the largest mean square of a feature in all.
    truth = rows * 0.1 * d * (axes * (spectrum / spectrum.sum())) @ axes.T
    own, isotropic = (_positive_error(each.design(problem, GUARANTEE), truth) for each in (BoxDiagonal(), Gaussian()))
    return float(np.sqrt(own / isotropic))


def _positive_error(design: NoiseDesign, truth: np.ndarray) -> float:
    """Mean squared error over releases under public keys."""
    whole = (0, len(truth)), (0, len(truth))
    steps, found = design.steps(*whole) / design.shifted_unit, 0.0
    for number in range(_DRAWS):
        noisy = truth + design.noise(NoiseKey.derive(bytes(32), b"box moments" + number.to_bytes(4)), *whole) * steps
        kept = shrunk(noisy, noise_of_moment(design)) if suits(design, 0) else nearest_psd(noisy)[0]
        found += float(np.sum((kept - truth) ** 2)) / _DRAWS
    return found


def main() -> None:
    """Print the tables."""
    print("| features | auto over the least | isotropic over the least | isotropic over auto, replace-one |")
    print("|---|---|---|---|")
    for d in FEATURES:
        taken = over_the_least(d)
        isotropic = taken * isotropic_over_auto(d, Neighbours.ADD_REMOVE)
        replaced = isotropic_over_auto(d, Neighbours.REPLACE_ONE)
        print(f"| {d} | {taken:.3f} | {isotropic:.3f} | {replaced:.3f} |")
    print(f"\n| features of the version | relation | {' | '.join(f'{rows:,} records' for rows in ROWS)} |")
    print("|---|---|" + "---|" * len(ROWS))
    for d in POSITIVE:
        for neighbours in Neighbours:
            ratios = (positive_over_isotropic(d, neighbours, rows) for rows in ROWS)
            print(f"| {d} | {neighbours.value} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


if __name__ == "__main__":
    main()
