"""Finds the whole-number weights by age that give the nights of a series the least noise (:mod:`.level_weights`).

Run ``python -m benchmarks.find_weights [NIGHTS ...]``. Without numbers it prints the whole table. Beside each row stand
the error of the best real weights and that of the rounded ones: root mean square over all nights, where one release for
the whole charge has 1. It takes about a minute.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.signal import lfilter
from scipy.special import gammaln

from blockveil.engine.noise.level_strategy import MOST_NIGHTS, WEIGHT_BITS, Levels

_LARGEST = 2**WEIGHT_BITS - 1
_LEAST_GAIN = 1e-9

Vector = NDArray[np.float64]


def tabled() -> list[int]:
    """Numbers of nights of the table: all small ones, then four in each doubling."""
    found = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]
    while found[-1] < MOST_NIGHTS:
        found += [round(found[-1] * factor) for factor in (1.25, 1.5, 1.75, 2.0)]
    return sorted({min(number, MOST_NIGHTS) for number in found})


def error(weights: Sequence[float] | Vector, ages: Sequence[int], nights: int) -> float:
    """Squared column norm times the mean squared noise of what is read."""
    values = np.asarray(weights, dtype=np.float64)
    differences = np.zeros(ages[-1] + 1)
    differences[list(ages)] = np.diff(values, prepend=0.0)
    responses = lfilter([1.0], differences, np.eye(1, nights)[0])
    norm = float(np.sum(values**2 * np.diff([*ages, nights])))
    return norm * float(np.cumsum(responses**2).mean())


def real(nights: int) -> tuple[Vector, float]:
    """Best real weights, the first of them 1, and their error."""
    ages = Levels(nights, (1,) * (1 + (nights - 1).bit_length())).ages
    borders = np.array([*ages, nights])
    # Weights near the square root of the prefix matrix: its coefficients, averaged over each range of ages.
    root = np.exp(gammaln(np.arange(nights) + 0.5) - gammaln(np.arange(nights) + 1.0))
    start = np.array([root[low:high].mean() for low, high in zip(borders, borders[1:], strict=False)])

    def logarithm(free: Vector) -> float:
        return math.log(error(np.exp(np.concatenate([[0.0], free])), ages, nights))

    found = minimize(logarithm, np.log(start[1:] / start[0]), method="L-BFGS-B", options={"maxiter": 300})
    return np.exp(np.concatenate([[0.0], found.x])), math.exp(float(found.fun))


def whole(nights: int) -> tuple[tuple[int, ...], float, float]:
    """Best weights of 8 bits that a descent finds, and the errors of the real ones and of these."""
    if nights == 1:
        return (_LARGEST,), 1.0, 1.0
    start, least = real(nights)
    ages = Levels(nights, (1,) * start.size).ages
    weights = np.maximum(np.rint(start * _LARGEST), 1.0)
    best, better = error(weights, ages, nights), True
    while better:
        better = False
        for level in range(weights.size):
            for step in (-1.0, 1.0):
                tried = weights.copy()
                tried[level] += step
                if not 1.0 <= tried[level] <= _LARGEST:
                    continue
                if (found := error(tried, ages, nights)) < best * (1.0 - _LEAST_GAIN):
                    best, weights, better = found, tried, True
    return tuple(int(value) for value in weights), math.sqrt(least), math.sqrt(best)


def main() -> None:
    """Print a row of the table for each number of nights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("nights", type=int, nargs="*")
    for nights in parser.parse_args().nights or tabled():
        weights, least, found = whole(nights)
        print(f"    {nights}: {weights},  # {found:.4f}; real weights {least:.4f}", flush=True)


if __name__ == "__main__":
    main()
