"""One pass by tiles finds what the whole matrix would, and larger matrices are never held."""

import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from blockveil.pipeline.report import matrix as tiles
from blockveil.pipeline.report import spectrum as spectra
from blockveil.pipeline.report.cells import CELLS, cell_starts
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.matrix import ReleasedMatrix
from blockveil.pipeline.report.scan import scan
from blockveil.pipeline.report.spectrum import leading_subspace


@dataclass
class Plain:
    """A release in memory."""

    arrays: dict[str, Any]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any] = field(default_factory=lambda: {"matrix": "m"})


def symmetric(d, seed=1):
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2.0, d)
    deviation = np.outer(spread, spread) * np.where(np.eye(d), 1.0, 0.5**0.5)
    noise = rng.standard_normal((d, d)) * deviation
    value = np.triu(noise) + np.triu(noise, 1).T
    value[: d // 2, : d // 2] += 3.0
    np.fill_diagonal(value, np.where(np.arange(d) % 4 == 1, value.diagonal(), np.abs(value.diagonal()) + 9.0))
    axes = ("feature", "feature_")
    arrays = {"m": value, "m_standard_deviation": deviation}
    return Plain(arrays, dict.fromkeys(arrays, axes))


def rectangular(m, n, seed=2):
    rng = np.random.default_rng(seed)
    deviation = np.tile(rng.uniform(0.5, 2.0, n), (m, 1))
    arrays = {"m": rng.standard_normal((m, n)) * deviation + 0.7, "m_standard_deviation": deviation}
    return Plain(arrays, dict.fromkeys(arrays, ("row", "column")))


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "CHUNK_SIDE", 7)
    monkeypatch.setattr(tiles, "_BAND", 14)  # two rows of a tile


def whole_cells(shown, signal, variance, band, mirrored):
    """Means of cells and whether they are clear, entry by entry."""
    rows, columns = (np.searchsorted(cell_starts(n), np.arange(n), side="right") - 1 for n in shown.shape)
    shape = (rows[-1] + 1, columns[-1] + 1)
    sums, raws, variances, sizes = (np.zeros(shape) for _ in range(4))
    for i, j in np.ndindex(shown.shape):
        cell = (rows[i], columns[j])
        sums[cell] += shown[i, j]
        raws[cell] += signal[i, j]
        sizes[cell] += 1
        # An entry and its mirror image in one cell are the same number.
        twice = mirrored and i != j and (rows[j], columns[i]) == cell
        variances[cell] += variance[i, j] * (2.0 if twice else 1.0)
    return sums / sizes, np.abs(raws) > band * np.sqrt(variances)


def sidak(count):
    return stats.norm.ppf((1.0 + 0.95 ** (1.0 / count)) / 2.0)


@pytest.mark.parametrize("d", [1, 5, 7, 30, 41])
def test_a_symmetric_matrix_by_tiles_gives_what_the_whole_gives(small_tiles, monkeypatch, d):
    monkeypatch.setattr("blockveil.pipeline.report.cells.CELLS", 12)
    release = symmetric(d)
    found = scan(ReleasedMatrix(release))
    value, deviation = (release.arrays[name] for name in ("m", "m_standard_deviation"))
    upper = np.triu_indices(d)
    held = upper[0].size + (0 if d <= 12 else 12 * 13 // 2)
    assert found.alone.held == held
    assert found.alone.band == pytest.approx(sidak(held))
    stands = np.abs(value) > sidak(held) * deviation
    assert found.entries == upper[0].size
    assert found.outside == np.count_nonzero(stands[upper])
    assert found.diagonal.outside == np.count_nonzero(np.diagonal(stands))
    assert found.beyond_two == np.count_nonzero((np.abs(value) > 2 * deviation)[upper])
    known = np.diagonal(stands & (value > 0))
    size = np.where(known, np.sqrt(np.abs(np.diagonal(value))), np.inf)
    shown = value / np.outer(size, size)
    weight = known / np.sqrt(np.diagonal(deviation))
    weights = np.outer(weight, weight)
    expected, clear = whole_cells(shown, value * weights, (deviation * weights) ** 2, sidak(held), mirrored=True)
    assert np.allclose(found.cells.values, expected, atol=1e-12)
    assert np.array_equal(found.cells.clear, clear & (np.abs(expected) <= 1.0 + 1e-9))
    pairs = np.argwhere(np.triu(stands, 1))
    ranked = [(i, j) for i, j in pairs if known[i] and known[j] and abs(shown[i, j]) <= 1.0]
    assert found.not_estimable == len(pairs) - len(ranked)
    best = sorted((abs(shown[i, j]) for i, j in ranked), reverse=True)[:10]
    assert np.allclose([abs(entry.relative) for entry in found.strongest], best)
    assert all(entry.value == value[entry.row, entry.column] for entry in found.strongest)
    bound = np.sqrt(2.0 * d) + np.sqrt(2.0 * np.log(40.0))
    norm = np.sqrt(d * (d + 1) / 2.0) + np.sqrt(2.0 * np.log(20.0))
    assert found.noise_level == pytest.approx(min(bound, norm))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (30, 4), (5, 33), (41, 29)])
def test_another_matrix_by_tiles_gives_what_the_whole_gives(small_tiles, monkeypatch, m, n):
    monkeypatch.setattr("blockveil.pipeline.report.cells.CELLS", 9)
    release = rectangular(m, n)
    found = scan(ReleasedMatrix(release))
    value, deviation = release.arrays["m"], release.arrays["m_standard_deviation"]
    held = m * n + (0 if max(m, n) <= 9 else min(m, 9) * min(n, 9))
    scaled = value / deviation[:1], deviation / deviation[:1]
    expected, clear = whole_cells(value, scaled[0], scaled[1] ** 2, sidak(held), mirrored=False)
    assert np.allclose(found.cells.values, expected)
    assert np.array_equal(found.cells.clear, clear)
    assert found.outside == np.count_nonzero(np.abs(value) > sidak(held) * deviation)
    assert np.allclose(found.column_means, value.mean(axis=0))
    assert np.allclose(found.column_deviations, deviation[0])
    spectral = np.sqrt(n) + np.sqrt(m) + np.sqrt(2.0 * np.log(40.0))
    assert found.noise_level == pytest.approx(min(spectral, np.sqrt(m * n) + np.sqrt(2.0 * np.log(20.0))))


def test_of_entries_that_are_equal_the_first_are_listed_whatever_the_tiles(small_tiles):
    release = rectangular(20, 20)
    release.arrays |= {"m": np.full((20, 20), 50.0), "m_standard_deviation": np.ones((20, 20))}
    release.arrays["m"][17, 3] = 60.0
    listed = [(entry.row, entry.column) for entry in scan(ReleasedMatrix(release)).strongest]
    assert listed == [(17, 3), *((0, column) for column in range(9))]


@given(length=st.integers(1, 5 * CELLS))
def test_cells_cover_an_axis_without_gaps_and_nearly_evenly(length):
    starts = cell_starts(length)
    sizes = np.diff(np.append(starts, length))
    assert starts[0] == 0
    assert sizes.min() >= 1
    assert starts.size == min(length, CELLS)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("release", [symmetric(40), rectangular(50, 30), rectangular(30, 50)], ids=["d", "m", "n"])
def test_leading_values_of_a_matrix_that_counts_as_large_are_those_of_the_whole(small_tiles, monkeypatch, release):
    matrix = ReleasedMatrix(release)
    found = scan(matrix)
    whole = spectra.spectrum(matrix, found.row_units, found.column_units, 0.0)
    directions = leading_subspace(matrix, found.row_units, found.column_units, 4)
    monkeypatch.setattr(spectra, "WHOLE", 3)
    monkeypatch.setattr(spectra, "LEADING", 6)
    large = spectra.spectrum(matrix, found.row_units, found.column_units, 0.0)
    assert whole.complete
    assert not large.complete
    assert (np.abs(large.values - whole.values[:6]) <= large.errors + 1e-9).all()
    assert large.errors.max() < 1e-2 * whole.values[0]
    by_passes = leading_subspace(matrix, found.row_units, found.column_units, 4)
    assert np.allclose(by_passes.values, directions.values, rtol=1e-3)
    assert abs(by_passes.vectors[:, 0] @ directions.vectors[:, 0]) == pytest.approx(1.0, abs=1e-4)


def test_a_matrix_larger_than_the_memory_it_may_use_is_shown(tmp_path, monkeypatch):
    d, rank = 3000, 3
    rng = np.random.default_rng(5)
    factors = rng.standard_normal((d, rank))
    group = zarr.open_group(tmp_path / "big.zarr", mode="w")
    options = {"shape": (d, d), "chunks": (256, 256), "dtype": "f8"}
    value, deviation = (group.create_array(name, **options) for name in ("m", "m_standard_deviation"))
    for top in range(0, d, 256):
        rows = slice(top, min(top + 256, d))
        value[rows] = factors[rows] @ factors.T
        deviation[rows] = np.where(np.eye(d)[rows], 1.0, 0.5**0.5)
    monkeypatch.setattr(tiles, "CHUNK_SIDE", 256)
    release = Plain({"m": value, "m_standard_deviation": deviation}, {"m": ("feature", "feature_")})
    tracemalloc.start()
    facts = Facts(release)
    assert facts.above_noise == rank
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * d * d / 3, "a third of one matrix"
    assert np.allclose(facts.spectrum.values[:rank], np.linalg.eigvalsh(factors.T @ factors)[::-1], rtol=1e-6)
    assert facts.scan.cells.values.shape == (CELLS, CELLS)
