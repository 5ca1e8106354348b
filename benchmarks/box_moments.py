"""How far the noise of second moments in a box is from the least that any Gaussian noise has, under add-remove.

The set of changes, ``v v'`` over a cube, is the same after any change of signs and order of the features, and so is the
total variance. Averaged over these symmetries, the inverse of a covariance hides each change as well as before, and the
trace of the covariance is no larger (convexity). So some least covariance has their symmetry: one variance a off the
diagonal (in orthonormal coordinates), one of the diagonal's common part, b, and one of its single parts, c. For k
features at their ends the squared distance is ``k (1/c - 1/a) + k^2 (1/a + 1/(d b) - 1/(d c))``; it is convex in each
squared feature, so that corners decide.

Covariances, and boxes of bounds ``i^-1/2``, have less symmetry; what is best for them is not known. A table has the
squared error of ``shaped-gaussian`` over that of what ``auto`` takes, and that over a bound
(``engine/mechanisms/gaussian_bound.py``, ``engine/sensitivity/covariance_bound.py``).

Run ``python -m benchmarks.box_moments``. Squared error of what ``auto`` takes, and of isotropic noise, over that least,
at equal guarantee; and of isotropic noise over what ``auto`` takes under replace-one. A second table has the root mean
squared error of positive semi-definite versions over that with isotropic noise, of second moments whose eigenvalues
fall off like 1/i, and a third one the largest over spectra. There is no clock.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import minimize

from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.shrunk_spectrum import noise_of_moment, shrunk, suits
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.box_diagonal import BoxDiagonal
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body

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


def replaced_over_a_bound(d: int) -> float:
    """Squared error of what auto takes under replace-one over a bound below which no Gaussian noise gets.

    Any weights on pairs of records prove a bound: the squared trace of the root of the mean of ``D D'`` over changes D
    (``engine/shapes/duality.py``). The pairs have ends or zeros in each feature, with all signs and orders equally
    likely, so that this mean has the three variances of the module.
    """
    # Features that are ends of both and the same, ends of both and different, ends of one alone, and of the other.
    kinds = product(range(d + 1), repeat=4) if d <= 6 else _few_kinds(d)
    same, other, first, second = np.array([kind for kind in kinds if 0 < sum(kind) <= d], dtype=np.float64).T
    diagonal, trace = first + second, first - second
    norms = (same + other + first) ** 2 + (same + other + second) ** 2 - 2.0 * (same - other) ** 2
    # Squared lengths of a change off the diagonal, on it without its common part, and in that.
    squares = np.array([norms - diagonal, diagonal - trace**2 / d, trace**2 / d])
    dimensions = np.array([d * (d - 1) / 2.0, d - 1.0, 1.0])
    weights, bound = np.full(norms.size, 1.0 / norms.size), 0.0
    for _ in range(3000):
        roots = np.sqrt(squares @ weights / dimensions)
        bound = max(bound, float(roots @ dimensions) ** 2)
        weights = weights * (squares.T @ (1.0 / np.maximum(roots, 1e-6)))
        weights /= weights.sum()
    taken, mu = _errors(d, Neighbours.REPLACE_ONE)["auto"]
    return taken * mu**2 / bound


def _few_kinds(d: int) -> list[tuple[int, ...]]:
    """Half of the features different, with ends of one alone in some of the others: where the bound is found."""
    half, singles = d // 2, range(0, d + 1, max(1, d // 12))
    return [(d - half, half, 0, 0)] + [(0, 0, j, k) for j in singles for k in singles if j + k <= d]


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


SHAPED = {"covariance": (True, False), "covariance, uneven": (True, True), "second moment, uneven": (False, True)}
SHAPED_FEATURES = (4, 6, 10, 23, 100)


def shaped_over_auto(query: str, d: int, neighbours: Neighbours) -> tuple[float, float]:
    """Squared error of shaped noise with an isometric diagonal over that of auto, and that over its bound."""
    augmented, uneven = SHAPED[query]
    scale = np.arange(1.0, d + 1.0) ** -0.5 if uneven else np.ones(d)
    problem = SecondMoment(Body.CUBE, scale, neighbours, _LARGEST, 1000, augmented)
    found, metric = compare(problem, GUARANTEE, Metric("total")), Metric("total")
    errors = [row.error for row in found.table if row.mechanism == "shaped-gaussian" and row.error is not None]
    taken = float(found.table[0].error or 0.0)
    return min(errors) / taken, taken / float(metric.least(problem, GUARANTEE, found.design) or 0.0)


POSITIVE = (4, 6, 10, 23)
ROWS = (100, 1000, 30_000)
DRAWS = 600
_OVER = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0, 16.0, 64.0)


def positive_over_isotropic(d: int, neighbours: Neighbours, rows: int) -> float:
    """Error of positive semi-definite versions with a diagonal of its own over that with isotropic noise."""
    # A tenth of the largest mean square of a feature in all.
    return _ratios(d, neighbours, rows * 0.1 * _spectra(d)["i^-1"], DRAWS)[0]


def worst(d: int, neighbours: Neighbours, draws: int = DRAWS) -> tuple[float, float]:
    """Largest errors over spectra and numbers of records: over isotropic noise, and over that cut at zero."""
    beside = float(designs(d, neighbours, 1000)[1].standard_deviations((0, 1), (1, 2))[0, 0])
    truths = [np.zeros((d, d)), *(beside * over * each for over in _OVER for each in _spectra(d).values())]
    found = np.array([_ratios(d, neighbours, truth, draws) for truth in truths])
    return float(found[:, 0].max()), float(found[:, 1].max())


def _spectra(d: int) -> dict[str, np.ndarray]:
    """Second moments of trace d in a direction of no meaning, and one of records that are all one corner."""
    rng = np.random.default_rng(d)
    axes, values = np.linalg.qr(rng.standard_normal((d, d)))[0], np.arange(1.0, d + 1.0)
    falling = {f"i^-{power:g}": values**-power for power in (0.0, 1.0, 2.0)} | {"half": 1.0 * (values <= d // 2)}
    corner = np.sign(rng.standard_normal(d))
    return {name: d * (axes * (part / part.sum())) @ axes.T for name, part in falling.items()} | {
        "one corner": np.outer(corner, corner)
    }


def designs(d: int, neighbours: Neighbours, rows: int) -> tuple[NoiseDesign, NoiseDesign]:
    """Noise with a diagonal of its own, and isotropic noise."""
    problem = SecondMoment(Body.CUBE, np.ones(d), neighbours, 2**11 - 1, rows, False)
    return BoxDiagonal().design(problem, GUARANTEE), Gaussian().design(problem, GUARANTEE)


def _ratios(d: int, neighbours: Neighbours, truth: np.ndarray, draws: int) -> tuple[float, float]:
    """Root mean squared error over that with isotropic noise, and over that of isotropic noise cut at zero."""
    own, isotropic = designs(d, neighbours, 1000)
    sums = np.zeros(3)
    # The same numbers for both, so that what is left of chance is in both.
    for released, places in ((own, [0]), (isotropic, [1, 2])):
        rng = np.random.default_rng(5)
        for _ in range(draws):
            noisy = truth + drawn(released, rng)
            kept = shrunk(noisy, noise_of_moment(released)) if suits(released, 0) else nearest_psd(noisy)[0]
            versions = [kept, nearest_psd(noisy)[0]][: len(places)]
            sums[places] += [float(np.sum((version - truth) ** 2)) for version in versions]
    return float(np.sqrt(sums[0] / sums[1])), float(np.sqrt(sums[0] / sums[2]))


def drawn(design: NoiseDesign, rng: np.random.Generator) -> np.ndarray:
    """Noise of a design by NumPy, which is fast and not secure."""
    beside = float(design.standard_deviations((0, 1), (1, 2))[0, 0])
    diagonal = design.spread.diagonal
    gain, shared = (1.0, 0) if diagonal is None else (diagonal.gain, diagonal.shared)
    d = design.shape[0]
    noise = np.triu(rng.standard_normal((d, d)) * beside, 1)
    alone, common = rng.standard_normal(d), rng.standard_normal() * shared**0.5
    found: np.ndarray = noise + noise.T + np.diag((alone + common) * beside * (2.0 / gain) ** 0.5)
    return found


def main() -> None:
    """Print the tables."""
    columns = ("features", "auto over the least", "isotropic over the least")
    replaced = ("isotropic over auto, replace-one", "auto over a bound, replace-one")
    print(f"| {' | '.join((*columns, *replaced))} |\n|---|---|---|---|---|")
    for d in FEATURES:
        taken = over_the_least(d)
        isotropic = taken * isotropic_over_auto(d, Neighbours.ADD_REMOVE)
        gained = isotropic_over_auto(d, Neighbours.REPLACE_ONE)
        print(f"| {d} | {taken:.3f} | {isotropic:.3f} | {gained:.3f} | {replaced_over_a_bound(d):.3f} |")
    print("\n| query | features | shaped-gaussian over auto | auto over a bound | replace-one | over a bound |")
    print("|---|---|---|---|---|---|")
    for query, d in product(SHAPED, SHAPED_FEATURES):
        shown = " | ".join(f"{ratio:.3f}" for relation in Neighbours for ratio in shaped_over_auto(query, d, relation))
        print(f"| {query} | {d} | {shown} |", flush=True)
    print(f"\n| features of the version | relation | {' | '.join(f'{rows:,} records' for rows in ROWS)} |")
    print("|---|---|" + "---|" * len(ROWS))
    for d in POSITIVE:
        for neighbours in Neighbours:
            ratios = (positive_over_isotropic(d, neighbours, rows) for rows in ROWS)
            print(f"| {d} | {neighbours.value} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |", flush=True)
    print("\n| features of any spectrum | relation | over isotropic, at most | over isotropic cut at zero, at most |")
    print("|---|---|---|---|")
    for d in POSITIVE:
        for neighbours in Neighbours:
            isotropic, cut = worst(d, neighbours)
            print(f"| {d} | {neighbours.value} | {isotropic:.2f} | {cut:.2f} |", flush=True)


if __name__ == "__main__":
    main()
