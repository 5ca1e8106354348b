"""What a report calls a finding is noise alone in at most 5 of 100 releases, with no, few and many true entries.

Each test draws releases with known keys, reads them with the report's own pass, and counts those in which anything that
is noise alone is said to stand out, be it an entry or a cell of the heat map. It rejects more of them than chance gives
with probability 1e-9, and it rejects the rule that called two standard deviations a finding.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.bands import GaussianNoise
from blockveil.engine.estimates.matrices import covariance_of
from blockveil.pipeline.report.comparison import Comparison, compare
from blockveil.pipeline.report.facts import Facts, finding
from blockveil.pipeline.report.matrix import ReleasedMatrix
from blockveil.pipeline.report.scan import scan

ALPHA = 1e-9


@dataclass
class Plain:
    """A release in memory."""

    arrays: dict[str, Any]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any] = field(
        default_factory=lambda: {"matrix": "second_moment", "query": {"kind": "second-moment"}}
    )


class Noisy:
    """Releases of a second moment of d features; the first ones have moments far beyond the noise."""

    def __init__(self, d: int, true: int, scale: float = 1.0) -> None:
        spread = np.linspace(0.5, 2.0, d)
        self.deviation = np.outer(spread, spread)
        self.deviation[~np.eye(d, dtype=bool)] *= 0.5**0.5
        self.d, self.true, self.scale = d, true, scale

    def draw(self, rng: np.random.Generator) -> Plain:
        value = rng.standard_normal((self.d, self.d), dtype=np.float64)
        value *= self.scale * self.deviation
        for i in range(1, self.d):
            value[i, :i] = value[:i, i]
        value[: self.true, : self.true] += 40.0 * self.deviation[: self.true, : self.true]
        arrays = {"second_moment": value, "second_moment_standard_deviation": self.deviation}
        return Plain(arrays, dict.fromkeys(arrays, ("feature", "feature_")))

    def findings(self, rng: np.random.Generator) -> tuple[bool, bool]:
        """Whether a release has a false finding by the report's rule, and by that of two standard deviations."""
        found = scan(ReleasedMatrix(self.draw(rng)))
        planted = self.true * (self.true + 1) // 2
        assert found.outside >= planted, "what is far beyond the noise is found"
        cells = found.cells.clear.copy()
        side = -(-self.true * cells.shape[0] // self.d)
        cells[:side, :side] = False
        return found.outside > planted or bool(cells.any()), found.beyond_two > planted


def most(trials: int) -> float:
    return float(stats.binom.isf(ALPHA, trials, 0.05))


def counted(releases: list[Noisy], trials: int) -> tuple[int, int]:
    rng = np.random.default_rng(23)
    found = [releases[trial % len(releases)].findings(rng) for trial in range(trials)]
    return sum(new for new, _ in found), sum(old for _, old in found)


@pytest.mark.parametrize(
    ("d", "trials"),
    [(23, 1200), (500, 60), pytest.param(5000, 9, marks=pytest.mark.slow)],
)
def test_noise_alone_is_a_finding_in_at_most_five_of_a_hundred_releases(d, trials):
    releases = [Noisy(d, true) for true in (0, 3, d // 2)]
    new, old = counted(releases, trials)
    assert new <= most(trials)
    assert old > most(trials), "two standard deviations are exceeded by noise alone in about every release"


@pytest.mark.slow
def test_a_scale_five_percent_too_small_is_found_out():
    trials = 2000
    assert counted([Noisy(23, 0)], trials)[0] <= most(trials)
    assert counted([Noisy(23, 0, scale=1.0 / 0.95)], trials)[0] > most(trials)


class Ratios:
    """Releases of a covariance of independent features, with the noise of its count as large as is told."""

    def __init__(self, d: int, relative: float, mean: float, scale: float = 1.0) -> None:
        self.d, self.count, self.noise, self.mean, self.scale = d, 1e4, relative * 1e4, mean, scale

    def draw(self, rng: np.random.Generator) -> Plain:
        d, along = self.d, np.append(1.0, np.linspace(-self.mean, self.mean, self.d))
        deviation = np.where(np.eye(d + 1), 1.0, 0.5**0.5) * self.noise
        drawn = np.triu(rng.standard_normal((d + 1, d + 1)) * self.scale * deviation)
        value = self.count * np.outer(along, along) + drawn + np.triu(drawn, 1).T
        count = float(value[0, 0])
        shift = value[0, 1:] / count
        sums = self.noise**2 / 2.0
        crossed = np.add.outer(shift**2, shift**2) * sums + 2.0 * np.diag(shift**2) * sums
        of_count = (2.0 * np.outer(shift, shift) - value[1:, 1:] / count) ** 2 * self.noise**2
        stated = np.sqrt(deviation[1:, 1:] ** 2 + crossed + of_count) / count
        arrays = {
            "count": np.asarray(count),
            "count_standard_deviation": np.asarray(self.noise),
            "mean": shift,
            "mean_standard_deviation": np.sqrt(sums + shift**2 * self.noise**2) / count,
            "covariance": covariance_of(value, None, self.noise),
            "covariance_standard_deviation": stated,
        }
        axes = {name: ("feature", "feature_")[: array.ndim] for name, array in arrays.items()}
        return Plain(
            arrays,
            axes,
            {"matrix": "covariance", "query": {"kind": "covariance"}, "origin": [0.0] * d, "mechanism": {}},
        )


@pytest.mark.parametrize("cells", [360, 5], ids=["an entry a cell", "several entries a cell"])
@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("relative", [1e-3, 0.03, 0.15])
def test_covariances_of_independent_features_are_no_findings_however_uncertain_the_count(
    monkeypatch, relative, mean, cells
):
    monkeypatch.setattr("blockveil.pipeline.report.cells.CELLS", cells)
    rng, releases, trials = np.random.default_rng(4), Ratios(30, relative, mean), 300
    found = [scan(ReleasedMatrix(releases.draw(rng))) for _ in range(trials)]
    assert sum(bool(one.outside or one.cells.clear.any()) for one in found) <= most(trials)
    assert sum(one.beyond_two > 0 for one in found) > most(trials)
    # The spectrum of noise alone is below the level that is drawn beside it.
    above = sum(Facts(releases.draw(rng)).above_noise > 0 for _ in range(60))
    assert above <= most(60)


def nights(rng: np.random.Generator, releases: tuple[Ratios, Ratios]) -> Comparison:
    """Two nights on which the same covariance was measured, compared as a person would."""
    drawn = [release.draw(rng) for release in releases]
    for number, release in enumerate(drawn):
        release.attributes |= {
            "output_digest": str(number),
            "release_id": f"a/b/{number}",
            "query": {"kind": "covariance"},
            "guarantee": {"neighbours": "add-remove"},
        }
    return compare(drawn[0], drawn[1])  # type: ignore[arg-type]


def changed(found: Comparison) -> bool:
    """Whether anything is called a change: an entry, a cell of the heat map, the count or a mean."""
    numbers = (number.beyond for numbers in found.numbers.values() for number in numbers)
    return bool(found.beyond or found.cells.clear.any() or any(numbers))


@pytest.mark.parametrize("cells", [360, 5], ids=["an entry a cell", "several entries a cell"])
@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize(("relative", "later"), [(1e-3, 1e-3), (1e-3, 0.03), (0.03, 0.03), (0.15, 0.03)])
def test_covariances_of_two_nights_without_a_change_are_no_changes_however_uncertain_the_counts(
    monkeypatch, relative, later, mean, cells
):
    monkeypatch.setattr("blockveil.pipeline.report.cells.CELLS", cells)
    rng, trials = np.random.default_rng(31), 60
    found = [nights(rng, (Ratios(30, relative, mean), Ratios(30, later, mean))) for _ in range(trials)]
    assert sum(changed(one) for one in found) <= most(trials)
    assert sum(abs(one.largest[0].score) > 2.0 for one in found) > most(trials)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_scale_of_differences_five_percent_too_small_is_found_out():
    """The simultaneous band of all entries, where counts are certain and the differences next to Gaussian."""
    rng, trials, d = np.random.default_rng(37), 2000, 30
    band = GaussianNoise().band(d * (d + 1) // 2)
    beyond = {
        scale: sum(
            abs(nights(rng, (Ratios(d, 1e-3, 0.0, scale), Ratios(d, 1e-3, 0.0, scale))).largest[0].score) > band
            for _ in range(trials)
        )
        for scale in (1.0, 1.0 / 0.95)
    }
    assert beyond[1.0] <= most(trials)
    assert beyond[1.0 / 0.95] > most(trials)


@pytest.mark.parametrize("shape", [(40, 40), (60, 7), (7, 60)])
@pytest.mark.parametrize("law", ["Gaussian", "Laplace"])
def test_the_level_of_the_spectrum_is_exceeded_by_noise_alone_in_at_most_five_of_a_hundred_releases(shape, law):
    rng, trials, above = np.random.default_rng(6), 200, 0
    draw = rng.standard_normal if law == "Gaussian" else lambda size: rng.laplace(size=size) / 2**0.5
    grid = "2 levels" if law == "Gaussian" else "discrete Laplace of rate 1/1048576"
    spread = np.outer(np.linspace(1.0, 3.0, shape[0]), np.linspace(0.5, 2.0, shape[1]))
    for _ in range(trials):
        arrays = {"m": draw(shape) * spread, "m_standard_deviation": spread}
        release = Plain(arrays, dict.fromkeys(arrays, ("row", "column")), {"matrix": "m", "mechanism": {"grid": grid}})
        above += Facts(release).above_noise > 0
    assert above <= most(trials)


def test_a_level_is_reached_by_a_signal_of_twice_its_size():
    rng, d = np.random.default_rng(8), 200
    release = Noisy(d, 0).draw(rng)
    unit = np.sqrt(np.diagonal(release.arrays["second_moment_standard_deviation"]))
    release.arrays["second_moment"] += 2.0 * Facts(release).scan.noise_level * np.outer(unit, unit) / d
    found = Facts(release)
    assert found.above_noise == 1
    assert "Nothing stands out" in finding(found), "each entry alone is within the noise"
