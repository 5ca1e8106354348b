"""Principal directions at the same guarantee: measured squared sine distance of each mechanism, and time of a draw.

Run ``python -m benchmarks.directions``. Made-up second moments of records in the unit ball have k leading eigenvalues
that exceed all others by the same gap, counted in records. Directions are drawn by the released samplers. Seconds are
those of one direction, over those of the smallest dimension in the same run, median of three.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.additive import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body

K = 2**15 - 1
GUARANTEE = ApproxDP(1.0, 1e-6)
SETTINGS = ((3, 1, 10), (3, 1, 100), (10, 2, 100), (10, 2, 1000), (50, 1, 1000), (50, 1, 10_000))
"""Features, directions and gap."""
DIMENSIONS = (16, 64, 256)


def moment(d: int, k: int, gap: int) -> NDArray[np.int64]:
    """Diagonal second moment with k leading eigenvalues of twice the gap, and others of the gap."""
    values = np.full(d, gap, dtype=np.int64)
    values[:k] += gap
    return np.diag(values * K**2)


def problem(d: int, k: int) -> PrincipalDirections:
    """Directions of records in the unit ball."""
    return PrincipalDirections(Body.BALL, np.ones(d), Neighbours.ADD_REMOVE, K, 1_000_000, False, k)


def keys(count: int) -> list[NoiseKey]:
    """Fixed keys."""
    return [NoiseKey.derive(bytes(32), number.to_bytes(4)) for number in range(count)]


def drawn(d: int, k: int, gap: int, count: int) -> float:
    """Mean squared sine distance of the exponential mechanism."""
    design, exact = Exponential().design(problem(d, k), GUARANTEE), moment(d, k, gap)
    frames = (np.ldexp(design.release(key, exact).astype(np.float64), -40) for key in keys(count))
    return float(np.mean([k - np.sum(frame[:k] ** 2) for frame in frames]))


def noisy(d: int, k: int, gap: int, count: int) -> float:
    """Mean squared sine distance of eigenvectors after Gaussian noise."""
    design, exact, all_ = Gaussian().design(problem(d, k), GUARANTEE), moment(d, k, gap), (0, d)
    steps, found = design.steps(all_, all_), []
    for key in keys(count):
        noise = design.grid.draw(key, all_, all_, True)
        released = add_noise(exact, steps, noise, design.shift) * steps.astype(np.float64)
        found.append(k - np.sum(np.linalg.eigh(released)[1][:k, -k:] ** 2))
    return float(np.mean(found))


def seconds(d: int) -> float:
    """Time of one direction, median of three."""
    design, exact = Exponential().design(problem(d, 1), GUARANTEE), moment(d, 1, 1000)
    times = []
    for key in keys(3):
        start = time.perf_counter()
        design.release(key, exact)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main(say: Callable[[str], object] = sys.stdout.write) -> None:
    """Print both tables."""
    say(f"{'features':>8} {'k':>2} {'gap':>6}  {'exponential':>11}  {'gaussian':>9}  ratio\n")
    for d, k, gap in SETTINGS:
        count = 4000 // d
        one, other = drawn(d, k, gap, count), noisy(d, k, gap, count)
        say(f"{d:>8} {k:>2} {gap:>6}  {one:>11.3g}  {other:>9.3g}  {one / other:.2g}\n")
    times = [seconds(d) for d in DIMENSIONS]
    for d, taken in zip(DIMENSIONS, times, strict=True):
        say(f"one direction of {d} features: {taken / times[0]:.3g} times that of {DIMENSIONS[0]}\n")


if __name__ == "__main__":
    machine.begin(1)
    main()
