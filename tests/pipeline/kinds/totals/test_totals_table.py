"""A report of totals calls a finding what the records say, gives limits that are right, and compares two nights."""

import json
from datetime import date

import numpy as np
import pytest

from blockveil.engine.estimates.ratios import RatioErrors
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.kinds.totals import totals_table
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import comparison_page, facts, machine_readable, markup
from blockveil.pipeline.report.comparison import CannotCompare, compare
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.papers import DARK, LIGHT
from blockveil.pipeline.report.pictures import heat_map, heat_map_caption
from tests.house import support
from tests.pipeline.kinds.totals import test_totals as totals
from tests.pipeline.questions import test_queries as queries

ROWS = 400
ELSEWHERE = queries.ROWS.replace('"rows"', '"totals"').replace("lower = -1, upper = 1", "lower = 100, upper = 200")
ZERO = totals.TOTALS.replace('"midpoint"', '"zero"')


def released(folder, monkeypatch, query, values, *, day=20, secret=1, **settings):
    """A release with noise of a fixed key."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "shape.npy", totals.MATRIX)
    monkeypatch.setattr(
        "blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(bytes([secret] * 32))
    )
    support.write_records(folder, values)
    loaded = queries.config(folder, query, **settings)
    support.set_budget(loaded, 40.0)
    outcome = run_release(make_plan(loaded, date(2026, 11, day)), ThreadCompute(1), "test", lambda *_: None)
    return open_release(outcome.path)


def values(middle, width):
    return np.random.default_rng(2).uniform(middle - width, middle + width, (ROWS, 4))


def test_what_is_public_is_no_finding_where_noise_hides_the_records(tmp_path, monkeypatch):
    """Totals of 400 values near 150 are near 60,000, which the public origin and count say without the records."""
    settings = {"neighbours": "replace-one", "epsilon": 0.01}
    found = Facts(released(tmp_path, monkeypatch, ELSEWHERE, values(150.0, 5.0), **settings))
    assert facts.finding(found).startswith(
        "Nothing stands out from the noise: none of the 4 totals and none of the 4 means"
    )
    assert np.all(np.abs(found.matrix.signal((0, 4), (0, 1))) < found.matrix.value((0, 4), (0, 1)))
    assert found.matrix.centre[0, 0] == 150.0 * ROWS
    drawn = heat_map(found)
    assert drawn.text.startswith("Nothing stands out from the noise")
    assert drawn.draw(LIGHT) != drawn.draw(DARK)


def test_a_mean_away_from_its_origin_stands_though_its_total_is_about_zero(tmp_path, monkeypatch):
    query = totals.TOTALS.replace("lower = -1, upper = 1", "lower = -1, upper = 3")
    found = Facts(released(tmp_path, monkeypatch, query, values(0.0, 0.02), neighbours="add-remove", epsilon=8.0))
    assert not found.nothing
    assert facts.finding(found) == "0 of the 4 totals and 4 of the 4 means stand out from the noise."
    assert dict(facts.error_lines(found))["Means"].startswith("4 of the 4 means are further from the origin")


@pytest.mark.usefixtures("pictures_in_words")
@pytest.mark.parametrize("name", totals.QUERIES)
def test_the_table_has_a_row_for_each_column_with_limits_about_it(tmp_path, monkeypatch, name):
    release = released(tmp_path, monkeypatch, totals.QUERIES[name], totals.records(name), neighbours="add-remove")
    found = Facts(release)
    rows, inside = facts.estimates(found), totals.clipped(name)
    assert [row["column"] for row in rows] == ["x1", "x2", "x3", "x4"]
    for i, row in enumerate(rows):
        assert row["total at least"] < row["total"] < row["total at most"]
        assert row["mean at least"] < row["mean"] < row["mean at most"]
        assert row["total at most"] - row["total"] == pytest.approx(1.95996 * row["noise of the total"], rel=1e-4)
        assert abs(row["total"] - inside[:, i].sum()) < 7 * row["noise of the total"]
    text = support.page_of(found, [], "folder")
    assert "mean in 95 of 100 releases" in text
    assert "How many directions" not in text
    assert heat_map_caption(found).startswith("A bar")
    assert "x4" in support.page_of(found, [], "folder").partition("For the specialist")[0]
    content = machine_readable.content(found, [], "folder", [])
    json.dumps(content, allow_nan=False)
    assert content["numbers"]["mean"]["value"] == pytest.approx(list(found.matrix.vectors()["mean"][0]))


@pytest.mark.usefixtures("pictures_in_words")
def test_a_count_that_may_be_zero_leaves_means_unknown_and_says_so(tmp_path, monkeypatch):
    found = Facts(released(tmp_path, monkeypatch, ZERO, values(0.5, 0.1)[:3], neighbours="add-remove", epsilon=0.05))
    low, high = totals_table.intervals_of_means(found.matrix, found.scan.alone)
    assert np.all(np.isinf(low))
    assert np.all(np.isinf(high))
    assert "nothing is known of any mean" in dict(facts.error_lines(found))["Means"]
    assert "-∞ to ∞" in support.page_of(found, [], "folder")
    json.dumps(machine_readable.content(found, [], "folder", []), allow_nan=False)


def test_noise_alone_is_a_finding_in_at_most_5_of_100_releases(tmp_path, monkeypatch):
    """Records that cancel, about zero: no total and no mean is other than what is public."""
    nothing = np.vstack([values(0.0, 0.9)[:200], -values(0.0, 0.9)[:200]])
    found = Facts(released(tmp_path, monkeypatch, ZERO, nothing, neighbours="add-remove", epsilon=1.0))
    band, plan = found.scan.alone.band, totals.planned(tmp_path, ZERO, neighbours="add-remove", epsilon=1.0)
    assert found.scan.alone.held == 4 + 4 + 1
    drawn, _ = totals.simulated(plan, nothing, 4000)
    false, wrong = 0, 0
    for row in drawn:
        arrays = {name: value for name, (value, _) in plan.answer.arrays(row[None, :], ROWS).items()}
        count = float(arrays["count"]), float(arrays["count_standard_deviation"])
        means = RatioErrors.of(arrays["mean"], arrays["mean_standard_deviation"], count, band)
        of_totals = np.abs(arrays["totals"]) / arrays["totals_standard_deviation"]
        false += bool((of_totals > band).any() or (np.abs(arrays["mean"]) > means.of_mean).any())
        wrong += bool((of_totals > 0.6 * band).any())
    assert false <= 4000 * 0.05 + 6.0 * np.sqrt(4000 * 0.05 * 0.95)  # alpha 1e-9, one-sided
    assert wrong > 4000 * 0.05 + 6.0 * np.sqrt(4000 * 0.05 * 0.95)  # a band that is too narrow is noticed


@pytest.mark.usefixtures("pictures_in_words")
@pytest.mark.parametrize("mechanism", [None, totals.LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_two_nights_differ_where_the_records_do_and_nowhere_else(tmp_path, monkeypatch, relation, mechanism):
    before, after = values(150.0, 20.0), values(150.0, 20.0)
    after[:, 2] += 25.0
    settings = {"neighbours": relation, "epsilon": 8.0, "mechanism": mechanism}
    first = released(tmp_path / "one", monkeypatch, ELSEWHERE, before, **settings)
    same = released(tmp_path / "two", monkeypatch, ELSEWHERE, before, day=21, secret=2, **settings)
    other = released(tmp_path / "three", monkeypatch, ELSEWHERE, after, day=21, secret=3, **settings)
    found = compare(same, first)
    assert found.beyond == 0
    assert comparison_page.sentence(found).startswith("No total differs by more than the noise of the two releases")
    assert "Leading subspace" not in dict(comparison_page.lines(found))
    assert not any(change.beyond for changes in found.numbers.values() for change in changes)
    changed = compare(other, first)
    assert [change.what for change in changed.largest if change.beyond] == ["x3"]
    assert [change.what for change in changed.numbers["mean"] if change.beyond] == ["x3"]
    assert "x3" in markup.document(comparison_page.page_sections(changed))


def test_totals_about_two_origins_are_compared_and_other_questions_are_not(tmp_path, monkeypatch):
    settings = {"neighbours": "add-remove", "epsilon": 8.0}
    middle = released(tmp_path / "one", monkeypatch, totals.TOTALS, values(0.1, 0.4), **settings)
    query = totals.TOTALS.replace("lower = -1, upper = 1", "lower = -1, upper = 2")
    wider = released(tmp_path / "two", monkeypatch, query, values(0.1, 0.4), day=21, secret=2, **settings)
    found = compare(wider, middle)
    assert found.beyond == 0  # totals are about zero whatever the origin is
    assert any("two queries differ" in said for said in found.warnings)
    moment = totals.TOTALS.replace('"totals"', '"second-moment"')
    other = released(tmp_path / "three", monkeypatch, moment, values(0.1, 0.4), day=22, secret=3, **settings)
    with pytest.raises(CannotCompare, match="matrix"):
        compare(other, middle)
