"""The pages on choosing parameters show what the programs compute."""

import math
import re
import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from scipy.stats import norm

from blockveil.engine.estimates.chosen_bounds import BinNoise
from blockveil.engine.estimates.error_bounds import unit_deviation
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.ingest_file import ChosenRows, load_ingest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.sparse_store import open_rows
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public.bounds_draft import bounds_draft

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
EPSILON = (PAGES / "epsilon.md").read_text()
NIGHTS = (1, 7, 30, 365)


def rounded_up(probability):
    tenths = math.ceil(1000 * probability)
    return "100 %" if tenths >= 1000 else f"{tenths / 10:.1f} %"


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1, 2, 3, 5, 10])
def test_the_table_of_guesses_is_computed_and_never_understates(epsilon):
    (cells,) = re.findall(rf"^\| {epsilon:g} \| (.*) \|$", EPSILON, re.MULTILINE)
    mu = gaussian_mu(epsilon, 1e-6)
    whole = (math.exp(epsilon) + 1e-6) / (1 + math.exp(epsilon))
    together = [norm.cdf(mu * math.sqrt(nights) / 2) for nights in NIGHTS]
    assert cells.split(" | ") == [f"{mu:.3f}", rounded_up(whole), *map(rounded_up, together)]


def test_a_year_of_small_epsilons_reveals_more_than_one_release_at_epsilon_3():
    year, once = gaussian_mu(0.3, 1e-6) * math.sqrt(365), gaussian_mu(3.0, 1e-6)
    assert year > once


def test_a_smaller_delta_costs_30_per_cent_more_noise():
    assert gaussian_mu(1.0, 1e-6) / gaussian_mu(1.0, 1e-9) == pytest.approx(1.30, abs=0.005)
    assert "at epsilon 1, 30 % more" in EPSILON


BOUNDS = (PAGES / "bounds.md").read_text()
QUICKSTART = Path(__file__).parents[1] / "configs" / "quickstart.toml"


def noise(loaded):
    """Standard deviation of the covariance of the first and the fifth feature, up to a factor that stays the same."""
    answer = make_plan(loaded, date(2026, 11, 20)).answer
    spread = answer.design.spread.rows[1:] * answer.question.coordinates.to_raw()
    return unit_deviation(answer.design) * spread[0] * spread[4]


def changed(loaded, section, **update):
    new = getattr(loaded.config, section).model_copy(update=update)
    return replace(loaded, config=loaded.config.model_copy(update={section: new}))


def shaped(loaded, **update):
    geometry = loaded.config.query.geometries["geometry"].model_copy(update=update)
    return changed(loaded, "query", geometry=geometry)


def halved(feature):
    middle, quarter = (feature.lower + feature.upper) / 2, (feature.upper - feature.lower) / 4
    return feature.model_copy(update={"lower": middle - quarter, "upper": middle + quarter})


def longest(features):
    return math.hypot(*((feature.upper - feature.lower) / 2 for feature in features))


CHANGES = {
    "all bounds half as wide": lambda loaded, features: shaped(loaded, features=tuple(map(halved, features))),
    "`norm_at_most` at half of the longest record in the box": lambda loaded, features: shaped(
        loaded, norm_at_most=longest(features) / 2
    ),
    "`norm_at_most` at a quarter of it": lambda loaded, features: shaped(loaded, norm_at_most=longest(features) / 4),
    "the first 12 features alone": lambda loaded, features: shaped(loaded, features=features[:12]),
    "the first 6 features alone": lambda loaded, features: shaped(loaded, features=features[:6]),
    "epsilon 2 in place of 1": lambda loaded, _: changed(loaded, "privacy", epsilon=2.0),
    "two rows per unit in place of one": lambda loaded, _: changed(loaded, "privacy", rows_per_unit=2),
    "ten rows per unit in place of one": lambda loaded, _: changed(loaded, "privacy", rows_per_unit=10),
}


@pytest.fixture(scope="module")
def quickstart():
    """The demo's config without what it learns, its features, and its noise."""
    loaded = shaped(load_config(QUICKSTART), learn=None)
    return loaded, loaded.config.query.geometries["geometry"].features, noise(loaded)


def test_the_page_on_bounds_lists_what_is_planned_here():
    rows = re.findall(r"^\| (.+?) \| [\d.]+ \|$", BOUNDS, re.MULTILINE)
    assert rows == list(CHANGES)


@pytest.mark.parametrize("change", CHANGES)
def test_the_cost_of_each_choice_is_planned(quickstart, change):
    loaded, features, usual = quickstart
    (shown,) = re.findall(rf"^\| {re.escape(change)} \| ([\d.]+) \|$", BOUNDS, re.MULTILINE)
    assert f"{noise(CHANGES[change](loaded, features)) / usual:.2f}" == shown


def test_the_config_of_the_page_on_many_rows_is_valid_and_bounds_what_it_says():
    page = (PAGES / "many-rows.md").read_text()
    unit, privacy = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    section = ChosenRows.model_validate(unit["unit"])
    assert (section.name, section.rows_at_most) == (privacy["privacy"]["unit"], privacy["privacy"]["rows_per_unit"])


def histograms(folder, share):
    """Least bin that is found and its noise, in the plan of a release of histograms of the demo's columns."""
    (folder / "quickstart.toml").write_text(QUICKSTART.read_text())
    (folder / "histograms.toml").write_text(bounds_draft(folder / "quickstart.toml", share, (-10, 40)))
    plan = make_plan(load_config(folder / "histograms.toml"), date(2026, 11, 20))
    deviation = plan.design.entry_standard_deviation()[0, 0]
    return deviation, 2 * BinNoise(deviation, True, plan.answer.facts()["bins"]).reach


@pytest.mark.parametrize(
    "share, words", [(0.02, "{:.0f} records, and a bin of {:,.0f}"), (0.1, "gives {:.0f} and {:.0f}")]
)
def test_the_page_on_bounds_states_which_bins_are_found_of_the_demo(tmp_path, share, words):
    deviation, least = histograms(tmp_path, share)
    assert words.format(deviation, float(f"{least:.3g}")) in " ".join(BOUNDS.split())


def test_the_page_on_growing_stores_is_followed(tmp_path):
    page = (PAGES / "grow.md").read_text()
    (config,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    said = re.findall(r"^blockveil ingest visits\.toml +# .*?: (.*)$", page, re.MULTILINE)
    (tmp_path / "visits.toml").write_text(config)
    (tmp_path / "visits").mkdir()
    for day, expected in zip(("2026-11-20", "2026-11-21", None), said, strict=True):
        if day is not None:
            rows = "".join(f"{patient},{30 + patient},{15.5}\n" for patient in (1, 1, 2, 3, int(day[-2:])))
            (tmp_path / "visits" / f"{day}.csv").write_text(f"patient,age,minutes\n{rows}")
        outcome = ingest(look(load_ingest(tmp_path / "visits.toml")), lambda stage, share: None)
        assert outcome.message == expected
    ages = open_rows(tmp_path / "visits.zarr", "records", "data.store")[:, 0:1]
    assert sorted(ages.ravel()) == [31, 31, 31, 32, 32, 33, 33, 50, 51]
    # A stored file may go, if another one is there.
    (tmp_path / "visits" / "2026-11-20.csv").unlink()
    assert ingest(look(load_ingest(tmp_path / "visits.toml")), lambda stage, share: None).message == said[2]
