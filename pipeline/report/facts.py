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
    rows, columns
        Names of the rows and columns of the matrix.
    matrix, deviation
        Released matrix and the standard deviation of its noise, shape (m, n), raw units.
    relative
        What the heat map shows, between -1 and 1: for a symmetric matrix its positive semi-definite version scaled to
        unit diagonal (a correlation for a covariance), else the matrix over its largest entry.
    clear
        Entries at least two standard deviations from zero, shape (m, n).
    spectrum
        Eigenvalues (singular values where not symmetric) in units of noise, descending; empty for very large matrices.
    noise_level
        Size that noise alone reaches, in the same units.
    attributes
        Attributes of the release.
    kind
        Name of the matrix.
    symmetric
        Whether the matrix is symmetric.
    arrays
        All arrays of the release.
    """

    rows: list[str]
    columns: list[str]
    matrix: Array
    deviation: Array
    relative: Array
    clear: NDArray[np.bool_]
    spectrum: Array
    noise_level: float
    attributes: dict[str, Any]
    kind: str
    symmetric: bool
    arrays: dict[str, NDArray[Any]]

    @property
    def label(self) -> str:
        """Name of the matrix in words."""
        return self.kind.replace("_", " ")


_LARGEST_SPECTRUM = 2500
"""Side up to which a spectrum is computed for the report: a few seconds."""


def gather(release: Release) -> Facts:
    """Facts of a release."""
    arrays = release.arrays
    kind = str(release.attributes["matrix"])
    matrix, deviation = arrays[kind], arrays[f"{kind}_standard_deviation"]
    symmetric = f"{kind}_psd" in arrays
    if symmetric:
        rows = columns = np.sqrt(np.diagonal(deviation))
    else:
        rows, columns = np.ones(matrix.shape[0]), np.sqrt(np.mean(deviation**2, axis=0))
    in_noise, noise = matrix / np.outer(rows, columns), deviation / np.outer(rows, columns)
    column_names = _names(arrays, "column") or _names(arrays, "feature")
    return Facts(
        rows=column_names if symmetric else _names(arrays, "row") or [str(i + 1) for i in range(matrix.shape[0])],
        columns=column_names,
        matrix=matrix,
        deviation=deviation,
        relative=_unit_diagonal(arrays[f"{kind}_psd"]) if symmetric else _unit_size(matrix),
        clear=np.abs(matrix) >= 2.0 * deviation,
        spectrum=_spectrum(in_noise, symmetric),
        noise_level=_noise_level(noise, symmetric),
        attributes=release.attributes,
        kind=kind,
        symmetric=symmetric,
        arrays=arrays,
    )


def _names(arrays: dict[str, NDArray[Any]], axis: str) -> list[str]:
    return [str(name) for name in arrays[axis]] if axis in arrays else []


def _spectrum(in_noise: Array, symmetric: bool) -> Array:
    if min(in_noise.shape) > _LARGEST_SPECTRUM:
        return np.empty(0)
    if symmetric:
        return np.linalg.eigvalsh(in_noise)[::-1].astype(np.float64)
    narrow = in_noise if in_noise.shape[0] >= in_noise.shape[1] else in_noise.T
    squares = np.linalg.eigvalsh(narrow.T @ narrow)[::-1]
    return np.sqrt(np.maximum(squares, 0.0))


def _noise_level(noise: Array, symmetric: bool) -> float:
    """Independent entries have a spectral norm of about their largest row norm plus their largest column norm."""
    by_row, by_column = (float(np.sqrt(np.max(np.sum(noise**2, axis=axis)))) for axis in (1, 0))
    return 2.0 * by_row if symmetric else by_row + by_column


def _unit_size(matrix: Array) -> Array:
    largest = float(np.max(np.abs(matrix)))
    return matrix / largest if largest > 0 else matrix


def _unit_diagonal(psd: Array) -> Array:
    variance = np.diagonal(psd)
    scale = np.where(variance > 0, 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
    return np.clip(psd * np.outer(scale, scale), -1.0, 1.0)


def number(value: float) -> str:
    """A number for a person: four significant digits, thousands marked, infinity as a sign."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "undefined")
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


_LONGEST_TABLE = 500


def error_table(facts: Facts) -> list[dict[str, str]]:
    """Estimates and noise as text: one row a feature (symmetric), or one a column of the matrix."""
    table = _by_feature(facts) if facts.symmetric else _by_column(facts)
    return table[:_LONGEST_TABLE]


def _by_feature(facts: Facts) -> list[dict[str, str]]:
    rows = []
    for i, name in enumerate(facts.columns):
        row = {"feature": name}
        if "mean" in facts.arrays:
            row["mean"] = number(float(facts.arrays["mean"][i]))
            row["noise of the mean"] = number(float(facts.arrays["mean_standard_deviation"][i]))
        label = "variance" if facts.kind == "covariance" else "second moment"
        row[label] = number(float(facts.matrix[i, i]))
        row[f"noise of the {label}"] = number(float(facts.deviation[i, i]))
        rows.append(row)
    return rows


def _by_column(facts: Facts) -> list[dict[str, str]]:
    means, noise = facts.matrix.mean(axis=0), np.sqrt(np.mean(facts.deviation**2, axis=0))
    return [
        {
            "column": name,
            "mean entry": number(float(means[j])),
            "noise of an entry": number(float(noise[j])),
            "noise of the mean entry": number(float(noise[j]) / facts.matrix.shape[0] ** 0.5),
        }
        for j, name in enumerate(facts.columns)
    ]


def signal_share(facts: Facts) -> float:
    """Share of distinct entries that stand out from their noise by two standard deviations."""
    return float(np.mean(_distinct(facts, facts.clear)))


def _distinct(facts: Facts, values: NDArray[Any]) -> NDArray[Any]:
    return values[np.triu_indices(len(facts.columns))] if facts.symmetric else values.ravel()


def error_lines(facts: Facts) -> list[tuple[str, str]]:
    """Noise against signal in a few lines."""
    lines = []
    if "count" in facts.arrays:
        count, deviation = (float(facts.arrays[name]) for name in ("count", "count_standard_deviation"))
        noise = f" with noise of standard deviation {number(deviation)}" if deviation else ", public by the relation"
        lines.append(("Records", f"{number(count)}{noise}"))
    lines.append(
        (
            "Noise and signal",
            f"{100 * signal_share(facts):.0f} % of the {_distinct(facts, facts.clear).size:,} {facts.label} entries "
            "stand two standard deviations out of the noise",
        )
    )
    lines += _whole(facts.attributes["error"])
    if not facts.attributes.get("reliable", True):
        lines.append(("Warning", "the noisy count is close to zero: mean and covariance are meaningless here"))
    return lines


def _whole(error: dict[str, Any]) -> list[tuple[str, str]]:
    """Error of the whole matrix, which was known before any data was read."""
    of = error["of"].replace("_", " ")
    return [
        (
            f"Noise of the whole {of}, in {100 * error['confidence']:.0f} of 100 releases",
            f"all entries within {error['band_in_standard_deviations']:.3g} of their standard deviations; "
            f"spectral norm at most {number(error['spectral_norm_bound'])}; "
            f"Frobenius norm at most {number(error['frobenius_norm_bound'])}",
        )
    ]
