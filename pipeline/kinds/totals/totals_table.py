"""Totals and means of a release with their intervals, and whether the means say anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.matrix import Array, ReleasedMatrix

Row = dict[str, str | float]


def by_column(matrix: ReleasedMatrix, alone: NoiseAlone, most: int) -> list[Row]:
    """A row for each column of the records: total and mean, their noise, and limits that hold in 95 of 100 releases.

    Parameters
    ----------
    matrix, alone
        Released totals, and what noise alone gives.
    most
        Rows of the table at most.
    """
    entries = (0, matrix.shape[0]), (0, 1)
    total, noise = matrix.value(*entries)[:, 0], matrix.deviation(*entries)[:, 0]
    low, high = intervals_of_means(matrix, alone)
    mean, mean_noise = matrix.vectors()["mean"]
    size = alone.tails.band(1)
    return [
        {
            "column": name,
            "total": float(total[i]),
            "noise of the total": float(noise[i]),
            "total at least": float(total[i] - size * noise[i]),
            "total at most": float(total[i] + size * noise[i]),
            "mean": float(mean[i]),
            "noise of the mean": float(mean_noise[i]),
            "mean at least": float(low[i]),
            "mean at most": float(high[i]),
        }
        for i, name in enumerate(matrix.names(0, most))
    ]


def intervals_of_means(matrix: ReleasedMatrix, alone: NoiseAlone) -> tuple[Array, Array]:
    """Least and largest mean of each column, raw units, shape (d,) each, each of them right in 95 of 100 releases.

    They are infinite where the count may be zero.
    """
    means, origin = alone.means, np.asarray(matrix.attributes["origin"])
    if means is None:
        return np.full(origin.shape, -np.inf), np.full(origin.shape, np.inf)
    low, high = means.interval_of_mean(alone.tails.band(1))
    return origin + low, origin + high


def far_means(alone: NoiseAlone) -> int:
    """How many means are known to differ from the public origin of their column, all of them tested at once."""
    means = alone.means
    return 0 if means is None else int(np.count_nonzero(np.abs(means.shift + alone.moved_origin) > means.of_mean))


def means_sentence(alone: NoiseAlone) -> str:
    """What is known of the means, in words."""
    means = alone.means
    if means is None or not means.known:
        return "nothing is known of any mean: the noisy count is too close to zero"
    far, all_ = far_means(alone), means.shift.size
    rest = "; of the others it is not known on which side of it they lie" if far < all_ else ""
    return f"{far:,} of the {all_:,} means are further from the origin of their column than noise alone goes{rest}"


def placed_means(matrix: ReleasedMatrix, alone: NoiseAlone) -> tuple[Array, Array, Array]:
    """Mean of each column and its limits, as shares of the way from the lower declared end to the upper, shape (d,)."""
    parts = (matrix.vectors()["mean"][0], *intervals_of_means(matrix, alone))
    lower, upper = _declared_ends(matrix.attributes, *parts[1:])
    mean, low, high = (np.clip((part - lower) / (upper - lower), 0.0, 1.0) for part in parts)
    return mean, low, high


def _declared_ends(attributes: dict[str, Any], low: Array, high: Array) -> tuple[Array, Array]:
    """Ends of each column; of a shape that declares none, the furthest limit on both sides of the origin."""
    geometry, origin = attributes["query"]["geometry"], np.asarray(attributes["origin"])
    features = geometry["features"]
    if geometry["kind"] == "box":
        lower, upper = (np.array([feature[end] for feature in features]) for end in ("lower", "upper"))
        return lower, upper
    reach = np.array([feature.get("semi_axis", geometry.get("radius", 0.0)) for feature in features])
    far = np.maximum(np.abs(low - origin), np.abs(high - origin))
    reach = np.where(reach > 0.0, reach, np.where(np.isfinite(far) & (far > 0.0), far, 1.0))
    return origin - reach, origin + reach
