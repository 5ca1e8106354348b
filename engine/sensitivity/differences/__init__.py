"""Sets of answer differences, and the exact loss of independent Gaussian noise on each.

A set D holds every vectorised difference ``f(x) - f(x')`` of neighbours, or a set with the same closed symmetric convex
hull, which is all that a norm can see. Noise with variances K_i (no covariance) is as two unit Gaussians whose means
differ by ``mu = sup over D of |K^-1/2 d|``. As ``sum d_i^2 / K_i`` is linear in the squares ``y_i = d_i^2``, the
supremum is over the squares alone:

============== ============================================= =================================================
set            squares                                       mu^2
============== ============================================= =================================================
FrobeniusBall  simplex of size r^2                           ``r^2 max 1/K_i``
Box, HalfBox   one largest point c^2                         ``sum c_i^2 / K_i``
Ellipsoid      E diagonal: simplex with corners E_i          ``max E_i / K_i``; matrix: largest eigenvalue
BoxWithBall    ``y_i <= c_i^2, sum y <= C^2``                fractional knapsack, largest 1/K_i first
SparseBox      c^2 on at most s entries                      sum of the s largest ``c_i^2 / K_i``
OuterProducts  products of the squares of both factors       bilinear, so at a corner of each factor
CrossPolytope  one or two entries of size 1                  largest 1/K_i; replace-one: sum of the two largest
RotatedBox     those of ``A s``, s in a cube                 corners tried, or a certified bound; says which
============== ============================================= =================================================

An infinite variance means that the entry is not released. Bounds are rounded up, by less than 3e-14 for diagonal sets.

**Source**: Balle and Wang, 2018, Theorem 8, through the whitened answer; suprema derived here.
"""

from blockveil.engine.sensitivity.differences.bodies import (
    BoxDifferences,
    BoxWithBall,
    Differences,
    EllipsoidDifferences,
    FrobeniusBall,
    HalfBox,
    SparseBox,
    water_level,
)
from blockveil.engine.sensitivity.differences.composite import CrossPolytope, FiniteSet, OuterProductDifferences, Union
from blockveil.engine.sensitivity.differences.rotated import RotatedBox
from blockveil.engine.sensitivity.differences.sensitivities import (
    PublishedAndTight,
    centred_ball_covariance_sensitivity,
    centred_box_covariance_sensitivity,
    clipped_mean_sensitivity,
    clipped_sum_sensitivity,
    histogram_sensitivity,
    identity_differences,
    identity_sensitivity,
    movement_sensitivity,
    second_moment_mean_sensitivity,
    swarm_sensitivity,
)

__all__ = [
    "BoxDifferences",
    "BoxWithBall",
    "CrossPolytope",
    "Differences",
    "EllipsoidDifferences",
    "FiniteSet",
    "FrobeniusBall",
    "HalfBox",
    "OuterProductDifferences",
    "PublishedAndTight",
    "RotatedBox",
    "SparseBox",
    "Union",
    "centred_ball_covariance_sensitivity",
    "centred_box_covariance_sensitivity",
    "clipped_mean_sensitivity",
    "clipped_sum_sensitivity",
    "histogram_sensitivity",
    "identity_differences",
    "identity_sensitivity",
    "movement_sensitivity",
    "second_moment_mean_sensitivity",
    "swarm_sensitivity",
    "water_level",
]
