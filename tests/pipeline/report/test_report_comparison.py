"""Two nights: what differs by more than noise is found, what does not is not, and unlike releases are refused."""

import json
import math
from datetime import date, timedelta

import numpy as np
import pytest
import zarr
from scipy.stats import binom

from blockveil.engine.estimates.bands import LaplaceSums
from blockveil.engine.mechanisms.k_norm.joint_entries import CubeEntry
from blockveil.engine.noise.level_strategy import least_noise
from blockveil.pipeline import report
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import comparison_page, markup
from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.comparison import CannotCompare, compare
from tests.house import support
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases import test_continual as growing
from tests.pipeline.releases.test_release import NIGHT


def night(folder, number, values=None, **options):
    """Release of one night; the data of the night are as given."""
    loaded = support.prepare(folder, budget=100.0, values=values, **options)
    return run_release(make_plan(loaded, NIGHT + timedelta(days=number)), ThreadCompute(2), "test", lambda *a: None)


def opened(*outcomes):
    return [open_release(outcome.path) for outcome in outcomes]


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_unchanged_data_differ_by_noise_alone(tmp_path, kind):
    first, second = night(tmp_path, 0, kind=kind), night(tmp_path, 1, kind=kind)
    found = compare(*opened(second, first))
    assert found.beyond == 0
    assert found.entries == 6
    assert 0.1 < found.mean_square < 4.0
    assert not found.warnings
    assert "No " in comparison_page.sentence(found)
    group, before = (zarr.open_group(outcome.path, mode="r") for outcome in (second, first))
    name = found.release.kind
    change = found.largest[0]
    places = np.argwhere(group[name][...] == change.value)
    i, j = places[0]
    assert change.earlier == before[name][i, j]
    errors = [g[f"{name}_standard_deviation"][i, j] for g in (group, before)]
    assert change.error == pytest.approx(math.hypot(*errors))


def test_noise_that_two_nights_of_one_charge_share_is_not_said_to_be_in_their_difference(tmp_path):
    """Of a year's nights the mean squared difference of one day is some 0.2: "1, give or take 0.01" was not true."""
    levels = least_noise(365)
    alone = levels.deviation(200) ** 2 + levels.deviation(199) ** 2
    assert levels.deviation_of_change(200, 1) ** 2 / alone < 0.25
    loaded = growing.prepare(tmp_path, kind="second-moment")
    outcomes = [growing.run(loaded, number) for number in (1, 2)]
    found = compare(*opened(*outcomes[::-1]))
    assert found.one_charge
    assert found.mean_square_error is None
    (said,) = [value for what, value in comparison_page.lines(found) if what == "Mean squared difference"]
    assert said.endswith("1 at most, since nights of one charge share noise, if nothing has changed")
    # Nights of two series have noise of their own.
    (tmp_path / "other").mkdir()
    section = growing.SECTION.replace("= 4", "= 5")
    other = growing.run(growing.prepare(tmp_path / "other", section=section, kind="second-moment"), 1)
    apart = compare(*opened(outcomes[0], other))
    assert not apart.one_charge
    assert "give or take" in dict(comparison_page.lines(apart))["Mean squared difference"]


def test_records_with_k_norm_noise_differ_by_noise_alone_and_the_size_of_all_is_not_judged(tmp_path):
    loaded = queries.prepare(tmp_path, queries.ROWS, mechanism='kind = "k-norm"')
    outcomes = [
        run_release(make_plan(loaded, NIGHT + timedelta(days=day)), ThreadCompute(2), "test", lambda *a: None)
        for day in (0, 1)
    ]
    found = compare(*opened(*outcomes[::-1]))
    assert found.beyond == 0
    assert found.mean_square_error is None, "entries of a record share their noise"
    rows = found.release
    assert NoiseAlone(rows.matrix, rows.matrix.shape).tails == CubeEntry(4)
    assert NoiseAlone(rows.matrix, rows.matrix.shape).dependent
    rows.matrix.attributes["mechanism"]["mechanism"] = "of-another-package"
    undeclared = NoiseAlone(rows.matrix, rows.matrix.shape)
    assert isinstance(undeclared.tails, LaplaceSums)
    assert undeclared.dependent, "its noise is the same"


def test_changed_data_are_found_with_their_size(tmp_path):
    values = support.records(8000)
    first = night(tmp_path, 0, values=values)
    moved = values.copy()
    moved[:, 0] = 20.0
    second = night(tmp_path, 1, values=moved)
    found = compare(*opened(second, first))
    assert found.beyond > 0
    assert "has changed" in comparison_page.sentence(found)
    age = found.numbers["mean"][0]
    assert age.what == "age"
    assert age.beyond
    assert abs(age.score) > found.band
    assert age.value - age.earlier == pytest.approx(20.0 - values[:, 0].mean(), abs=4 * age.error)
    count = found.numbers["count"][0]
    assert not count.beyond


def test_the_page_and_its_json_say_the_same(tmp_path):
    first, second = night(tmp_path, 0), night(tmp_path, 1)
    found, page, data = report.write_comparison(second.pointer, first.path)
    assert page.parent == second.path.parent
    assert first.path.stem in page.name
    text, content = page.read_text(), json.loads(data.read_text())
    assert content["sentence"] in text
    assert content["matrix"]["beyond_band"] == found.beyond == 0
    assert content["output_digests"] == [second.output_digest, first.output_digest]
    assert text.count("<img") == 1
    assert "<script" not in text


def test_another_config_is_named_and_the_dates_and_derived_numbers_are_not(tmp_path):
    first, second = night(tmp_path, 0), night(tmp_path, 1, epsilon=2.0)
    found = compare(*opened(second, first))
    assert "guarantee.epsilon: 1.0 -> 2.0" in found.configs
    assert not [line for line in found.configs if "date" in line or "digest" in line or "ledger" in line]
    again = compare(*opened(night(tmp_path, 2), first))
    assert again.configs == ()


def test_an_unreliable_night_is_said_to_be_one(tmp_path):
    first, second = night(tmp_path, 0), night(tmp_path, 1, values=support.records()[:1])
    found = compare(*opened(second, first))
    assert "close to zero" in found.warnings[0]
    assert "close to zero" in markup.document(comparison_page.page_sections(found))


def test_what_cannot_be_compared_is_refused(tmp_path):
    first = night(tmp_path, 0)
    with pytest.raises(CannotCompare, match="same release"):
        compare(*opened(first, first))
    other = tmp_path / "other"
    other.mkdir()
    moment = night(other, 0, kind="second-moment")
    with pytest.raises(CannotCompare, match="matrix is covariance in one release and second moment"):
        compare(*opened(first, moment))
    replaced = tmp_path / "replaced"
    replaced.mkdir()
    with pytest.raises(CannotCompare, match="neighbouring relation"):
        compare(*opened(first, night(replaced, 0, neighbours="replace-one")))


def test_other_features_shapes_and_origins_are_refused(tmp_path):
    def with_config(name, change, kind="second-moment", values=None):
        folder = tmp_path / name
        folder.mkdir()
        support.write_records(folder, support.records() if values is None else values)
        path = support.write_config(folder, kind=kind)
        path.write_text(change(path.read_text()))
        loaded = load_config(path)
        support.set_budget(loaded)
        return open_release(run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "t", lambda *a: None).path)

    plain = with_config("plain", lambda text: text)
    renamed = with_config("renamed", lambda text: text.replace('"age"', '"years"'))
    moved = with_config("moved", lambda text: text.replace('"midpoint"', '"zero"'))
    line = '  { name = "debt", lower = -500_000, upper = 500_000 },\n'
    narrow = with_config("narrow", lambda text: text.replace(line, ""), values=support.records()[:, :2])
    for other, words in ((renamed, "different names"), (moved, "origins"), (narrow, "shape is 3 x 3")):
        with pytest.raises(CannotCompare, match=words):
            compare(plain, other)
    wide = with_config("wide", lambda text: text.replace("upper = 120", "upper = 130"), kind="covariance")
    usual = with_config("usual", lambda text: text, kind="covariance")
    found = compare(wide, usual)
    assert any("queries differ" in line for line in found.warnings)
    assert any("features" in line and "130" in line for line in found.configs)


class Planted:
    """A release with leading directions that are known."""

    def __init__(self, vectors, values, noise, seed):
        d = vectors.shape[0]
        draws = np.random.default_rng(seed).standard_normal((d, d))
        error = np.triu(draws, 1) / math.sqrt(2.0) + np.diag(np.diagonal(draws))
        error = noise * (np.triu(error) + np.triu(error, 1).T)
        deviation = noise * np.where(np.eye(d), 1.0, math.sqrt(0.5))
        self.arrays = {"m": (vectors * values) @ vectors.T + error, "m_standard_deviation": deviation}
        self.dimensions = dict.fromkeys(self.arrays, ("feature", "feature_"))
        self.attributes = {
            "matrix": "m",
            "output_digest": str(seed),
            "guarantee": {"neighbours": "add-remove"},
            "mechanism": {"grid": "2 levels"},
            "query": {},
            "release_id": f"a/b/{date(2026, 11, 20)}",
        }


def directions(d, angle):
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((d, 3)))
    turned = basis[:, 0] * math.cos(angle) + basis[:, 2] * math.sin(angle)
    return np.column_stack([turned, basis[:, 1]])


@pytest.mark.parametrize("angle", [0.0, 0.2, 1.0])
def test_a_turned_subspace_is_found_with_its_angle(angle):
    d, values = 60, np.array([9000.0, 5000.0])
    one = Planted(directions(d, 0.0), values, 0.01, seed=1)
    other = Planted(directions(d, angle), values, 0.01, seed=2)
    found = compare(one, other).turn
    assert found.dimension == 2
    assert found.angle == pytest.approx(math.degrees(angle), abs=0.01)


@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_the_angle_that_noise_causes_is_predicted(ratio):
    d, values = 60, np.array([900.0, 500.0])
    squares, predicted = [], []
    for trial in range(40):
        one = Planted(directions(d, 0.0), values, 4.0, seed=2 * trial + 1)
        other = Planted(directions(d, 0.0), values, 4.0 * ratio, seed=2 * trial + 2)
        turn = compare(one, other).turn
        squares.append(math.sin(math.radians(turn.angle)) ** 2)
        predicted.append(math.sin(math.radians(turn.noise_angle)) ** 2)
    assert 0.5 * np.mean(predicted) < np.mean(squares) < 1.1 * np.mean(predicted)


def test_unchanged_nights_differ_beyond_noise_in_at_most_five_of_a_hundred_pairs():
    d, trials, values = 40, 120, np.array([9000.0, 5000.0])
    changed = drawn = 0
    for trial in range(trials):
        one, other = (Planted(directions(d, 0.0), values, 1.0, seed=2 * trial + night) for night in (1, 2))
        found = compare(one, other)
        changed += bool(found.beyond or found.cells.clear.any())
        drawn += any(abs(change.score) > 2.0 for change in found.largest)
    most = binom.isf(1e-9, trials, 0.05)
    assert changed <= most
    assert drawn > most, "two standard errors are exceeded somewhere in about every pair"
