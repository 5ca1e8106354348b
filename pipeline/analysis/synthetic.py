"""Synthetic records with the released mean and covariance: no record of any person, and marked as synthetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.pipeline.analysis import labelled, optional
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.report.matrix import Shown

MOST_VALUES = 10**9
"""Numbers of one sample: 8 GB."""

NOTE = (
    "Synthetic: drawn from a normal law with the mean and covariance of a private release. No row is a record of "
    "anybody. Only mean and covariance are those of the release, and values may lie outside of declared bounds."
)
"""What every sample carries."""


def sample(release: Shown, features: tuple[str, ...], count: int, seed: int | None) -> Any:
    """Synthetic records, a DataFrame of shape (count, features), raw units; post-processing, costs nothing.

    Parameters
    ----------
    release
        A covariance with its mean.
    features
        Names of its features.
    count
        Number of records.
    seed
        For the same records again; None for others each time.

    Raises
    ------
    ConfigError
        The release holds no mean and positive semi-definite covariance, its count is not above its noise, or the
        number is out of range.
    """
    if not {"mean", "covariance_psd"} <= release.arrays.keys():
        raise ConfigError(
            f"This release of {str(release.attributes.get('matrix'))[:40]} has no mean and covariance",
            "Synthetic records follow a mean and a positive semi-definite covariance",
            'Open a release of kind "covariance" that was not published in blocks',
        )
    if not release.attributes.get("reliable", True):
        raise ConfigError(
            "The noisy count is close to zero", "Mean and covariance are meaningless then", "Open another release"
        )
    _check(count, seed, len(features))
    mean, covariance = (np.asarray(release.arrays[name][...], np.float64) for name in ("mean", "covariance_psd"))
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(seed).standard_normal((count, mean.size))
    records = mean + (normal * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    table = optional.library("pandas").DataFrame(records, columns=list(features))
    table.index.name = "synthetic record"
    table.attrs = {"synthetic": True, "note": NOTE, "release": labelled.plain(release.attributes.get("release_id"))}
    return table


def _check(count: int, seed: int | None, features: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 0 <= count * features <= MOST_VALUES:
        raise ConfigError(
            "The number of synthetic records is out of range",
            f"It is a whole number, and at most {MOST_VALUES:,} numbers are drawn at once",
            "Give for instance 1000",
        )
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ConfigError("seed is not a seed", "It is a whole number that is not negative", "Give for instance 7")
