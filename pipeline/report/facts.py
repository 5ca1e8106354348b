"""Numbers of a release that every form of its report shows. All from published values; nothing here is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.publishing import Release

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Facts:
    """A release prepared for showing.

    Attributes
    ----------
    features
        Names in column order.
    matrix, deviation
        Released matrix and the standard deviation of its noise, shape (d, d), raw units.
    relative
        Positive semi-definite version, scaled to unit diagonal (a correlation for a covariance), shape (d, d).
    clear
        Entries at least two standard deviations from zero, shape (d, d).
    spectrum
        Eigenvalues of the released matrix in units of each feature's noise, descending, shape (d,).
    noise_level
        Eigenvalue size that noise alone reaches, in the same units.
    attributes
        Attributes of the release.
    kind
        Name of the matrix.
    """

    features: list[str]
    matrix: Array
    deviation: Array
    relative: Array
    clear: NDArray[np.bool_]
    spectrum: Array
    noise_level: float
    attributes: dict[str, Any]
    kind: str
    arrays: dict[str, NDArray[Any]]


def gather(release: Release) -> Facts:
    """Facts of a release."""
    arrays = release.arrays
    kind = "covariance" if "covariance" in arrays else "second_moment"
    matrix, deviation = arrays[kind], arrays[f"{kind}_standard_deviation"]
    scale = np.sqrt(np.diagonal(deviation))
    in_noise, noise = matrix / np.outer(scale, scale), deviation / np.outer(scale, scale)
    return Facts(
        features=[str(name) for name in arrays["feature"]],
        matrix=matrix,
        deviation=deviation,
        relative=_unit_diagonal(arrays[f"{kind}_psd"]),
        clear=np.abs(matrix) >= 2.0 * deviation,
        spectrum=np.linalg.eigvalsh(in_noise)[::-1].astype(np.float64),
        # A symmetric matrix of independent entries has spectral norm of about twice its largest row norm at most.
        noise_level=2.0 * float(np.sqrt(np.max(np.sum(noise**2, axis=1)))),
        attributes=release.attributes,
        kind=kind,
        arrays=arrays,
    )


def _unit_diagonal(psd: Array) -> Array:
    variance = np.diagonal(psd)
    scale = np.where(variance > 0, 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
    return np.clip(psd * np.outer(scale, scale), -1.0, 1.0)


def number(value: float) -> str:
    """A number for a person: four significant digits, thousands marked, infinity as a sign."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "undefined")
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def error_table(facts: Facts) -> list[dict[str, str]]:
    """One row a feature: estimate and noise, as text."""
    rows = []
    for i, name in enumerate(facts.features):
        row = {"feature": name}
        if "mean" in facts.arrays:
            row["mean"] = number(float(facts.arrays["mean"][i]))
            row["noise of the mean"] = number(float(facts.arrays["mean_standard_deviation"][i]))
        label = "variance" if facts.kind == "covariance" else "second moment"
        row[label] = number(float(facts.matrix[i, i]))
        row[f"noise of the {label}"] = number(float(facts.deviation[i, i]))
        rows.append(row)
    return rows


def signal_share(facts: Facts) -> float:
    """Share of distinct entries that stand out from their noise by two standard deviations."""
    upper = np.triu_indices(len(facts.features))
    return float(np.mean(facts.clear[upper]))


def error_lines(facts: Facts) -> list[tuple[str, str]]:
    """Noise against signal in a few lines."""
    lines = []
    if "count" in facts.arrays:
        count, deviation = (float(facts.arrays[name]) for name in ("count", "count_standard_deviation"))
        noise = f" with noise of standard deviation {number(deviation)}" if deviation else ", public by the relation"
        lines.append(("Records", f"{number(count)}{noise}"))
    upper = np.triu_indices(len(facts.features))
    label = facts.kind.replace("_", " ")
    lines.append(
        (
            "Noise and signal",
            f"{100 * signal_share(facts):.0f} % of the {upper[0].size} {label} entries stand two standard deviations "
            "out of the noise",
        )
    )
    if not facts.attributes.get("reliable", True):
        lines.append(("Warning", "the noisy count is close to zero: mean and covariance are meaningless here"))
    return lines
