"""What a reader of a report is shown: numbers in units of the declared ranges, and the limits of the promise."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.report import own_units, page, pictures, reader_sections
from blockveil.pipeline.report.burndown import UNKNOWN
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.own_units import measured
from blockveil.pipeline.report.papers import LIGHT
from blockveil.pipeline.report.report_sections import every
from tests.house import support
from tests.pipeline.report.test_report import other_kind, released

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Many records, so that all but one pair of the three features are found."""
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 90, 9000)
    values = np.column_stack([age, 400_000 + 4_000 * age + rng.normal(0, 60_000, 9000), rng.normal(0, 60_000, 9000)])
    return released(tmp_path_factory.mktemp("people"), values=values)[1], values


@pytest.fixture
def found(people):
    return Facts(read_release(people[0].path))


@pytest.mark.parametrize(
    ("value", "noise", "shown"),
    [
        (167484.32, 843.0, "167,480 ± 840"),
        (0.98765, 0.0123, "0.988 ± 0.012"),
        (-0.001, 0.5, "0.00 ± 0.50"),
        (3.0, 0.0, "3"),
        (1e30, 1e28, "1e+30 ± 1e+28"),
        (1.0, 1e-300, "1 ± 1e-300"),
        (math.nan, 1.0, "undefined ± 1"),
        (5.0, math.inf, "5 ± ∞"),
        (12.0, 9.96, "12.0 ± 10.0"),
    ],
)
def test_a_number_is_written_to_the_second_digit_of_its_noise(value, noise, shown):
    assert measured(value, noise) == shown


def test_means_and_standard_deviations_are_in_the_unit_of_the_declared_range(people, found):
    _, values = people
    rows = own_units.by_feature(found)
    assert [row["declared range"] for row in rows] == ["0 to 120", "0 to 1,000,000", "-500,000 to 500,000"]
    for row, column in zip(rows, values.T, strict=True):
        for name, truth in (("mean", column.mean()), ("standard deviation", column.std())):
            value, noise = (float(part.replace(",", "")) for part in row[name].split(" ± "))
            assert abs(value - truth) < 5 * noise


def test_the_noise_of_a_correlation_is_at_most_what_is_stated(people, found):
    """Draws of all released numbers, whatever they share; the bound is of first order and not idle."""
    (row,) = own_units.strongest(found)
    assert row["pair"] == "age and income"
    value, noise = (float(part) for part in row["correlation"].split(" ± "))
    assert abs(value - np.corrcoef(people[1].T)[0, 1]) < 5 * noise
    deviation = found.matrix.deviation((0, 3), (0, 3))
    released_values = found.matrix.value((0, 3), (0, 3))
    rng = np.random.default_rng(1)
    for shared in (0.0, 1.0, -1.0):
        own = rng.standard_normal((3, 20_000))
        own[1] = shared * own[0] + math.sqrt(1 - shared**2) * own[1]
        own[2] = own[0] if shared else own[2]
        c, v, w = (
            released_values[at] + deviation[at] * drawn for at, drawn in zip([(0, 1), (0, 0), (1, 1)], own, strict=True)
        )
        assert np.std(c / np.sqrt(v * w)) < 1.1 * noise


def test_what_noise_hides_is_not_shown_as_an_estimate(tmp_path):
    _, outcome = released(tmp_path, values=support.records(40), epsilon=0.05)
    found = Facts(read_release(outcome.path))
    assert found.scan.diagonal.outside == 0
    for row in own_units.by_feature(found):
        assert re.fullmatch(r"hidden, at most [\d,.]+|not known", row["standard deviation"])


def test_other_kinds_have_their_noise_beside_each_number():
    found = Facts(other_kind(np.arange(6.0).reshape(2, 3), ("row", "column")))
    assert [row["mean entry"] for row in own_units.by_feature(found)] == ["1.50 ± 0.35", "2.50 ± 0.35", "3.50 ± 0.35"]
    assert own_units.ranges(found) is None


@pytest.mark.parametrize("features", [[], [{"name": "a"}], [{"lower": 0, "upper": 1, "count": 2}], "text", None])
def test_ranges_that_a_release_does_not_state_for_each_feature_are_left_out(found, features):
    found.attributes["query"] = {"geometry": {"features": features}}
    assert own_units.ranges(found) is None
    assert "declared range" not in own_units.by_feature(found)[0]


def test_a_small_matrix_carries_its_numbers_and_brackets_what_may_be_noise(found):
    written = pictures._numbers(found)
    assert written[0][1] == f"{found.scan.cells.values[0, 1]:.2f}"
    assert re.fullmatch(r"\(-?0\.\d\d\)", written[0][2])
    own = [float(text.replace(",", "")) for text in (written[i][i] for i in range(3))]
    assert np.allclose(own, np.sqrt(found.matrix.diagonal("kind")), rtol=1e-3)


@pytest.mark.parametrize(("d", "numbered"), [(1, True), (6, True), (7, False)])
def test_numbers_are_written_into_cells_of_up_to_six_by_six(d, numbered):
    found = Facts(other_kind(np.ones((d, d)), ("row", "column")))
    assert (pictures._numbers(found) is not None) == numbered


def test_the_diagonal_of_a_symmetric_matrix_has_no_colour(found):
    colours = pictures.heat_map(found).figure(LIGHT).axes[0].images[0].get_array()
    assert np.isnan(np.ma.filled(colours, np.nan).diagonal()).all()
    assert colours[0, 1] == found.scan.cells.values[0, 1]


def test_the_readers_half_comes_first_and_the_specialists_is_folded(found):
    text = support.page_of(found, [("Budget", "epsilon 3")], "folder")
    heads = re.findall(r"<h2>([^<]+)</h2>", text)
    assert heads == [
        "What is promised?", "What stands out from the noise?", "What does it say of each feature?",
        "What is left of the budget?", "What does the promise not cover?", "For the specialist",
    ]  # fmt: skip
    reader, specialist = text.split("<h2>For the specialist</h2>")
    assert "tossing a coin" in reader
    assert "Loss charged" not in reader
    assert re.findall(r"<summary>([^<]+)</summary>", specialist)[:2] == ["Guarantee", "Noise and signal"]
    assert specialist.count("<details>") == specialist.count("</details>")
    assert not re.search(r"<table>", re.sub(r"<details>.*?</details>", "", specialist, flags=re.DOTALL))


def test_a_page_without_a_ledger_says_that_the_promise_of_all_nights_is_not_on_it(found):
    assert UNKNOWN.together is None
    assert "written without" in support.page_of(found, [], "folder")


def test_the_ten_limits_of_a_reader_are_on_the_page_of_known_limits(found):
    listed = re.findall(r"(?m)^- \*\*([^*]+)\.\*\*", " ".join((ROOT / "docs/known-limits.md").read_text().split(" ")))
    assert len(reader_sections.LIMITS) == 10
    assert set(reader_sections.LIMITS) <= {" ".join(title.split()) for title in listed}
    (told,) = [each.sentences for each in every(page.page_sections(found, [], "folder")) if len(each.sentences) == 10]
    assert len(set(told)) == 10
    assert all(each.endswith(".") and len(each) > 60 for each in told)
