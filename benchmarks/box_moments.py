"""How far the noise of second moments in a box is from the least that any Gaussian noise has, under add-remove.

The set of changes, ``v v'`` over a cube, is the same after any change of signs and order of the features, and so is the
total variance. Averaged over these symmetries, the inverse of a covariance hides each change as well as before, and the
trace of the covariance is no larger (convexity). So some least covariance has their symmetry: one variance a off the
diagonal (in orthonormal coordinates), one of the diagonal's common part, b, and one of its single parts, c. For k
features at their ends the squared distance is ``k (1/c - 1/a) + k^2 (1/a + 1/(d b) - 1/(d c))``; it is convex in each
squared feature, so that corners decide.

Run ``python -m benchmarks.box_moments``. Squared error of what ``auto`` takes, and of isotropic noise, over that least,
at equal guarantee; and of isotropic noise over what ``auto`` takes under replace-one. There is no clock.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.auto import Metric, compare
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


def main() -> None:
    """Print the table."""
    print("| features | auto over the least | isotropic over the least | isotropic over auto, replace-one |")
    print("|---|---|---|---|")
    for d in FEATURES:
        taken = over_the_least(d)
        isotropic = taken * isotropic_over_auto(d, Neighbours.ADD_REMOVE)
        replaced = isotropic_over_auto(d, Neighbours.REPLACE_ONE)
        print(f"| {d} | {taken:.3f} | {isotropic:.3f} | {replaced:.3f} |")


if __name__ == "__main__":
    main()
