"""Second moments of features of one sign: how far from the least any Gaussian noise is, directly and about a midpoint.

The second moment about zero is linear in what a covariance about the midpoint releases. With half widths of one, Y the
products about the midpoint, s the sums and n the count, it is ``Y + s 1' + 1 s' + n 11'``. So its error follows from
the noise of these, of which count and diagonal may have some in common; under replace-one the count is public.

Run ``python -m benchmarks.one_sign``. Squared error of all entries over the bound of :mod:`.gaussian_bound`, of what
``auto`` takes for ``second-moment`` with ``origin = "zero"``, and of a ``covariance`` with ``origin = "midpoint"``, for
which ``auto`` minimises the error of the covariance. There is no clock.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body

GUARANTEE = ApproxDP(0.9, 1e-6)
FEATURES = (4, 6, 10, 23, 50, 100)
_LARGEST, _ROWS = 2**15 - 1, 1000


def over_the_bound(d: int, neighbours: Neighbours) -> tuple[float, float]:
    """Error over the bound of a second moment about zero, and of the same from a covariance about the midpoint.

    Parameters
    ----------
    d
        Features in [0, 2].
    neighbours
        Neighbouring relation.
    """
    direct = SecondMoment(Body.HALF_CUBE, np.full(d, 2.0), neighbours, _LARGEST, _ROWS, False)
    least = float(Metric("total").least(direct, GUARANTEE) or 0.0)
    taken = float(compare(direct, GUARANTEE, Metric("total")).table[0].error or 0.0)
    design = about_the_midpoint(d, neighbours)
    return taken / least, about_zero(design, counted=neighbours is Neighbours.ADD_REMOVE) / least


def about_the_midpoint(d: int, neighbours: Neighbours) -> NoiseDesign:
    """Noise that auto takes for a covariance of features in [0, 2] about one."""
    centred = SecondMoment(Body.CUBE, np.ones(d), neighbours, _LARGEST, _ROWS, True)
    design = compare(centred, GUARANTEE, Metric("total")).design.additive
    assert design is not None, "all that is compared for a covariance adds noise"
    return design


def about_zero(design: NoiseDesign, *, counted: bool) -> float:
    """Expected squared error of all entries about zero; ``counted`` says whether the count has noise too."""
    variances, diagonal = design.entry_standard_deviation() ** 2, design.spread.diagonal
    sums, products = variances[0, 1:], variances[1:, 1:]
    found = products + sums[:, None] + sums + np.diag(2.0 * sums)  # on the diagonal twice the same sum
    if not counted:
        return float(np.sum(found))
    found += variances[0, 0]
    if diagonal is not None and diagonal.times:
        grown = diagonal.grown(design.width)
        alone = np.sqrt(np.diagonal(variances)) / grown
        # Entry i of the diagonal takes each shared number once, and the count that many times.
        found += np.diag(2.0 * diagonal.shared * diagonal.times * alone[0] * alone[1:])
    return float(np.sum(found))


def main() -> None:
    """Print the table."""
    print("| features | about zero | from a covariance | about zero, replace-one | from a covariance, replace-one |")
    print("|---|---|---|---|---|")
    for d in FEATURES:
        ratios = (ratio for relation in Neighbours for ratio in over_the_bound(d, relation))
        print(f"| {d} | {' | '.join(f'{ratio:.3f}' for ratio in ratios)} |", flush=True)


if __name__ == "__main__":
    main()
