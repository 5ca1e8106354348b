"""Leading directions of a release of any size are those of the whole matrix, beside what noise alone gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from blockveil.pipeline.analysis.leading_part import leading_part
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.report import matrix as tiles
from blockveil.pipeline.report import spectrum as spectra
from blockveil.pipeline.report.papers import CARD

SIZE = 60
NAMES = tuple(f"f{i}" for i in range(SIZE))


@dataclass
class Plain:
    """A release in memory."""

    arrays: dict[str, Any]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any] = field(default_factory=lambda: {"matrix": "m", "release_id": "a/b/2026-11-20"})


def released(strength, seed=1, spread=1.0):
    """Noise of standard deviation one on the diagonal, the root of a half beside it, and some directions."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((SIZE, SIZE)) * np.sqrt(0.5)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.standard_normal(SIZE))
    units = np.sqrt(np.linspace(1.0, spread, SIZE))
    planted = np.linalg.qr(rng.standard_normal((SIZE, 2)))[0]
    deviation = np.where(np.eye(SIZE), 1.0, np.sqrt(0.5)) * np.outer(units, units)
    value = noise * np.outer(units, units) + planted @ np.diag(np.array([2.0, 1.0]) * strength) @ planted.T
    arrays = {"m": value, "m_standard_deviation": deviation}
    return Plain(arrays, dict.fromkeys(arrays, ("feature", "feature_"))), planted


@pytest.fixture(params=["whole", "by passes"])
def way(request, monkeypatch):
    """Both ways to compute, over several tiles."""
    monkeypatch.setattr(tiles, "CHUNK_SIDE", 16)
    if request.param == "by passes":
        monkeypatch.setattr(spectra, "WHOLE", 3)


def test_values_and_directions_are_those_of_the_matrix(way):
    release, _ = released(strength=100.0)
    found = leading_part(release, NAMES, 5)
    values, vectors = np.linalg.eigh(release.arrays["m"])
    assert (np.abs(found.values - values[::-1][:5]) <= found.errors + 1e-9).all()
    for i in range(2):
        assert abs(found.vectors[:, i] @ vectors[:, -1 - i]) == pytest.approx(1.0, abs=1e-6)
        assert found.vectors[np.abs(found.vectors[:, i]).argmax(), i] > 0
    assert np.allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-9)
    assert found.above_noise == 2
    kept = found.factor[:, :2]
    assert np.allclose(kept @ kept.T, found.vectors[:, :2] * found.values[:2] @ found.vectors[:, :2].T)
    assert list(found.directions.columns) == list(NAMES)
    assert found.variances.index[0] == "component 1"


def test_all_of_it_is_saved_for_other_programs_and_drawn_beside_the_noise(tmp_path):
    found = leading_part(released(strength=100.0)[0], NAMES, 3)
    found.save(tmp_path / "l.npz")
    with np.load(tmp_path / "l.npz") as kept:
        part = kept["factor"][:, : int(kept["above_noise"])]
        values, vectors = kept["values"][:2], kept["directions"][:, :2]
        assert np.allclose(part @ part.T, vectors * values @ vectors.T)
        assert kept["noise_floor"] == found.noise_floor
        assert (kept["errors"] == found.errors).all()
        assert tuple(kept["features"]) == NAMES
        assert kept["release_id"] == "a/b/2026-11-20"
    with pytest.raises(StoreError, match="not replaced"):
        found.save(tmp_path / "l.npz")
    with pytest.raises(ConfigError, match="has no"):
        found.save(tmp_path / "l.npy")
    assert "2 of these are above that" in found.picture.text
    drawn = found.picture.draw(CARD)
    assert drawn.startswith("<svg")
    assert "products of the features" in drawn


@pytest.mark.parametrize("spread", [1.0, 9.0])
def test_of_noise_alone_no_direction_stands_in_95_of_100_releases(way, spread):
    above = sum(leading_part(released(0.0, seed, spread)[0], NAMES, 3).above_noise > 0 for seed in range(20))
    assert above <= 10  # of 5 in 100, fewer than one in 10^9 trials has more
    assert leading_part(released(60.0 * spread, 3, spread)[0], NAMES, 3).above_noise == 2


def test_what_it_prints_says_which_values_may_be_noise():
    found = leading_part(released(strength=100.0)[0], NAMES, 3)
    text = " ".join(str(found).split())
    assert "Above it 2 of 3" in text
    assert text.count("may be noise") == 2  # the third value, and the sentence
    assert "component 3" in found._repr_html_()


def test_a_release_offers_them_and_a_matrix_of_another_kind_is_refused(known):
    found = known.release.eigenpairs(2)
    assert tuple(found.directions.columns) == known.release.features
    with pytest.raises(ConfigError, match="is no number of directions of this release"):
        known.release.eigenpairs(0)
    release, _ = released(1.0)
    release.dimensions.update(dict.fromkeys(release.arrays, ("row", "column")))
    with pytest.raises(ConfigError, match="no symmetric matrix"):
        leading_part(release, NAMES, 2)
