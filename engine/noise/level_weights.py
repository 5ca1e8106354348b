"""Weights by age for tabled numbers of nights: those of least noise, found once and rounded to 8 bits.

They minimise ``|v|^2`` times the mean squared noise of what is read of a night over all weights that are constant
between the ages 0, 1, 2, 4, 8, ... (L-BFGS over their logarithms, then whole numbers by coordinate descent);
``python -m benchmarks.find_weights`` finds them again. Any whole numbers keep the guarantee, whose sensitivity is
computed from the weights that are used; these only decide how large the noise is. They are tabled, since a search in
floats could end elsewhere on another processor, and weights are part of what a release is pinned by.
"""

from __future__ import annotations

WEIGHTS: dict[int, tuple[int, ...]] = {
    1: (255,),
    2: (255, 78),
    3: (254, 99, 43),
    4: (255, 110, 46),
    5: (254, 114, 58, 21),
    6: (255, 118, 65, 25),
    7: (255, 120, 70, 28),
    8: (255, 122, 74, 29),
    10: (255, 123, 78, 39, 12),
    12: (255, 125, 80, 44, 16),
    14: (255, 126, 82, 48, 18),
    16: (252, 125, 83, 50, 19),
    20: (255, 127, 85, 54, 26, 7),
    24: (255, 127, 86, 55, 31, 10),
    28: (255, 128, 87, 57, 33, 12),
    32: (254, 127, 87, 58, 35, 13),
    40: (255, 128, 88, 59, 38, 18, 5),
    48: (255, 128, 88, 60, 39, 21, 7),
    56: (254, 128, 88, 60, 40, 23, 8),
    64: (255, 128, 89, 61, 41, 25, 9),
    80: (253, 127, 88, 61, 41, 26, 13, 3),
    96: (253, 127, 88, 61, 42, 27, 15, 5),
    112: (253, 127, 88, 61, 42, 28, 16, 6),
    128: (255, 128, 89, 62, 43, 29, 17, 6),
    160: (255, 128, 89, 62, 43, 29, 19, 9, 2),
    192: (255, 128, 89, 62, 43, 30, 19, 11, 3),
    224: (255, 128, 89, 62, 43, 30, 20, 12, 4),
    256: (253, 127, 88, 61, 43, 30, 20, 12, 5),
    320: (253, 127, 88, 61, 43, 30, 21, 13, 6, 2),
    384: (253, 127, 88, 61, 43, 30, 21, 14, 7, 2),
    448: (253, 127, 88, 61, 43, 30, 21, 14, 8, 3),
    512: (253, 126, 88, 61, 43, 30, 21, 14, 9, 3),
    640: (255, 128, 88, 62, 43, 30, 21, 15, 9, 5, 1),
    768: (254, 127, 88, 61, 43, 30, 21, 15, 10, 5, 2),
    896: (254, 127, 88, 61, 43, 30, 21, 15, 10, 6, 2),
    1024: (250, 125, 86, 60, 42, 30, 21, 15, 10, 6, 2),
    1280: (254, 127, 88, 61, 43, 30, 21, 15, 10, 7, 3, 1),
    1536: (254, 127, 88, 61, 43, 30, 21, 15, 10, 7, 4, 1),
    1792: (255, 127, 88, 61, 43, 30, 22, 15, 11, 7, 4, 1),
    2048: (255, 127, 88, 61, 43, 30, 22, 15, 11, 7, 4, 2),
    2560: (254, 127, 88, 61, 43, 30, 21, 15, 11, 7, 5, 2, 1),
    3072: (255, 129, 89, 62, 43, 31, 22, 15, 11, 7, 5, 3, 1),
    3584: (253, 126, 87, 61, 43, 30, 21, 15, 11, 7, 5, 3, 1),
    3660: (253, 126, 87, 61, 43, 30, 21, 15, 11, 7, 5, 3, 1),
}
"""Weights, by the largest number of nights that they are for."""
