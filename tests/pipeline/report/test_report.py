"""The report: complete, self-contained, the same for the same release, and safe for any name, kind and shape."""

import base64
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray
import zarr

from blockveil.pipeline import report
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release, read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import machine_readable, markdown, own_units, page, words
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.papers import CARD, DARK, LIGHT, svg_text
from blockveil.pipeline.report.pictures import heat_map, spectrum
from blockveil.pipeline.report.report_sections import every
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT


def released(folder, night=NIGHT, **options):
    loaded = support.prepare(folder, **options)
    plan = make_plan(loaded, night)
    return plan, run_release(plan, ThreadCompute(2), "test", lambda *a: None)


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_a_page_is_written_beside_the_release_and_fetches_nothing(tmp_path, kind):
    plan, outcome = released(tmp_path, kind=kind)
    made = report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    text = made.path.read_text()
    assert made.path == outcome.path.with_suffix(".html")
    for said in ("multiplies the probability", "by tossing a coin", "Noise and signal", "known-limits", "income"):
        assert said in text
    assert outcome.output_digest in text
    assert text.count("<img") == text.count("<source") == 2
    assert text.count('alt="Heat map') == 1
    assert not re.search(r"(src|srcset|href)=\"(?!data:)", text)
    assert "<script" not in text
    HTMLParser().feed(text)
    again = report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    assert again.path.read_text() == text, "the same release and ledger give the same page"


@pytest.mark.usefixtures("pictures_in_words")
@pytest.mark.parametrize("bits", [8, 16])
def test_a_release_of_few_bits_says_how_far_rounding_can_put_it_off(tmp_path, bits):
    loaded = support.prepare(tmp_path)
    text = loaded.path.read_text().replace('missing = "refuse"', f'missing = "refuse"\nquantisation_bits = {bits}')
    loaded.path.write_text(text)
    plan = make_plan(load_config(loaded.path), NIGHT)
    outcome = run_release(plan, ThreadCompute(2), "test", lambda *a: None)
    said = dict(describe(plan, None)).get("Rounding")
    assert (said is None) == (bits == 16)
    assert read_release(outcome.path).attributes["error"].get("rounding") == said
    text = report.write_report(outcome.path).path.read_text()
    assert ("if no more than 8 records are alike" in text) == (bits == 8)
    assert ("Rounding of equal records" in text) == (bits == 8)
    assert said is None or said in text


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_from_outside(tmp_path):
    import hashlib

    _, outcome = released(tmp_path)
    text = support.page_of(Facts(read_release(outcome.path)), [], "folder")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    style = re.search(r"<style>(.*)</style>", text, flags=re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]+ style=", text)


@pytest.mark.usefixtures("pictures_in_words")
def test_the_json_says_what_the_page_says_and_is_plain(tmp_path):
    plan, outcome = released(tmp_path)
    made = report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    assert made.data.name == outcome.path.stem + ".report.json"
    content = json.loads(made.data.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert content["blockveil_report"] == machine_readable.VERSION
    assert content["release_id"] == outcome.release_id
    assert content["guarantee"]["sentence"] in made.path.read_text().replace("&#39;", "'")
    assert content["matrix"]["entries"] == 6
    assert [row["feature"] for row in content["estimates"]] == list(support.FEATURES)
    group = zarr.open_group(outcome.path, mode="r")
    assert content["estimates"][1]["mean"] == group["mean"][1]
    assert content["estimates"][1]["variance"] == group["covariance"][1, 1]
    assert content["numbers"]["count"]["standard_deviation"] == float(group["count_standard_deviation"][()])
    assert content["spectrum"] is None, "of three features it says nothing"
    assert content["origin"]["output_digest"] == outcome.output_digest


def test_infinite_and_undefined_numbers_become_text_in_json():
    assert machine_readable.plain({"a": (math.inf, np.array([1.0, -np.inf]), math.nan)}) == {
        "a": ["inf", [1.0, "-inf"], "nan"]
    }


def test_the_loading_examples_run(tmp_path):
    _, outcome = released(tmp_path)
    expected = zarr.open_group(outcome.path, mode="r")["covariance"][...]
    ran = []
    shown = every(page.page_sections(Facts(read_release(outcome.path)), [], str(outcome.path)))
    for name, code in ((each.sentences[0], each.code) for each in shown if each.code):
        if name.startswith("R,"):  # no R here
            continue
        space = {}
        exec(code, space)
        [loaded] = [space[known] for known in ("matrix", "table", "blocks") if known in space]
        assert np.array_equal(np.asarray(loaded), expected)
        ran.append(type(loaded).__name__)
    assert ran == ["ndarray", "DataArray", "DataFrame", "Array"]


def test_xarray_opens_a_release_with_names_and_attributes(tmp_path):
    _, outcome = released(tmp_path)
    opened = xarray.open_zarr(outcome.path, consolidated=False)
    assert opened["covariance"].dims == ("feature", "feature_")
    assert list(opened["feature"].values) == list(support.FEATURES)
    assert opened.attrs["guarantee"]["neighbours"] == "add-remove"


def test_names_cannot_break_out_of_the_page(tmp_path):
    _, outcome = released(tmp_path)
    release = read_release(outcome.path)
    release.arrays["feature"] = np.array(["<script>alert(1)</script>", "a|b", 'c & "d" ![x](y)'], dtype=object)
    release.attributes["title"] = "<b>bold</b>"
    found = Facts(release)
    text = support.page_of(found, [("Budget", "<i>x</i>")], 'fol"der')
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "<i>x" not in text
    told = markdown.summary(found, [("a|b", "c")], "p`q", "r") + markdown.grid(own_units.by_feature(found))
    assert "a\\|b" in told
    assert "`p'q`" in told
    shown = markdown.image(heat_map(found))
    assert "![x](y)" not in shown
    assert "<script" not in shown.replace("\\<", "")


@pytest.mark.parametrize("d", [1, 2, 60, 900])
def test_pictures_are_drawn_for_any_number_of_features(tmp_path, d):
    _, outcome = released(tmp_path, kind="second-moment")
    release = read_release(outcome.path)
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((d, d))
    matrix = matrix + matrix.T
    matrix[0, 0] = -1.0  # noise may make a variance negative
    release.arrays.update(
        feature=np.array([f"f{i}" for i in range(d)], dtype=object),
        second_moment=matrix,
        second_moment_standard_deviation=np.full((d, d), 0.5),
        second_moment_psd=np.zeros((d, d)),
    )
    found = Facts(release)
    for picture in (heat_map(found), spectrum(found)):
        assert picture.draw(CARD).startswith("<svg")
        assert len(markdown.image(picture)) < 200_000


def test_what_drawings_for_different_papers_share_changes_no_byte(tmp_path):
    _, outcome = released(tmp_path)
    found = Facts(read_release(outcome.path))
    for picture in (heat_map(found), spectrum(found)):
        for theme in (DARK, LIGHT):
            assert picture.draw(theme) == svg_text(picture.figure(theme), theme, {})
        alone = svg_text(picture.figure(CARD), CARD, {})
        [edge] = set(picture.draw(CARD).splitlines()) ^ set(alone.splitlines())
        assert edge.startswith("L 0 "), "an edge of the paper, which is closed anyway"


def other_kind(values, axes, names=()):
    """A release of a kind that no code here knows."""
    attributes = {
        "title": "Something new",
        "matrix": "novel",
        "logical_date": "2026-11-20",
        "release_id": "a/b/2026-11-20",
        "output_digest": "0" * 64,
        "plan_digest": "1" * 64,
        "query": {"kind": "novel"},
        "ledger": {"sequence": 1, "row_hash": "2" * 64},
        "software": {},
        "guarantee": {
            "epsilon": 1.0,
            "delta": 1e-6,
            "neighbours": "replace-one",
            "privacy_unit": "one row",
            "sentence": "Promised.",
            "loss": {"mu": 0.0, "epsilon": 1.0, "total_variation": 0.0},
        },
        "mechanism": {
            "mechanism": "m",
            "sensitivity": 1.0,
            "sensitivity_exact": False,
            "scale": 1.0,
            "grid": "discrete Laplace of rate 1/2",
        },
    }

    class Plain:
        pass

    release = Plain()
    release.attributes = attributes
    release.arrays = {"novel": values, "novel_standard_deviation": np.full(values.shape, 0.5), **dict(names)}
    release.dimensions = {"novel": axes}
    return release


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), ()),
        ((1,), ("cell",)),
        ((7,), ("cell",)),
        ((3, 5), ("row", "column")),
        ((1200, 3), ("record", "feature")),
        ((3, 1500), ("row", "column")),
        ((4, 3, 2), ("a", "b", "c")),
    ],
)
def test_a_kind_of_release_that_is_not_known_has_a_report_too(shape, axes):
    values = np.random.default_rng(3).standard_normal(shape) * 10
    names = [(axes[0], np.array([f"r{i}" for i in range(shape[0])], dtype=object))] if shape else []
    found = Facts(other_kind(values, axes, names))
    text = support.page_of(found, [], "folder")
    assert text.count("<img") == 1  # its spectrum is shown from 20 rows and columns on
    assert "Promised." in text
    assert "which of two given values one row had" in text
    json.dumps(machine_readable.content(found, [], "folder", page.page_sections(found, [], "folder")), allow_nan=False)
    assert found.scan.entries == values.size
    assert found.scan.outside == np.count_nonzero(np.abs(values) > found.scan.alone.band * 0.5)
    assert found.scan.strongest[0].value == values.ravel()[np.argmax(np.abs(values))]
    if shape:
        assert found.matrix.name(0, 0) == "r0"
        flat = values.reshape(shape[0], -1)
        expected = np.linalg.svd(flat / 0.5, compute_uv=False)
        assert np.allclose(found.spectrum.values[: expected.size], expected)


def test_deviations_that_are_stored_once_for_many_entries_are_understood():
    values = np.arange(12.0).reshape(3, 4)
    release = other_kind(values, ("row", "column"))
    for stored in (np.float64(0.5), np.full((1, 4), 0.5), np.full((3, 1), 0.5), np.full(4, 0.5)):
        release.arrays["novel_standard_deviation"] = np.asarray(stored)
        assert np.array_equal(Facts(release).matrix.deviation((1, 3), (0, 2)), np.full((2, 2), 0.5))


def test_a_release_that_does_not_say_its_noise_is_refused():
    release = other_kind(np.ones((2, 2)), ("row", "column"))
    del release.arrays["novel_standard_deviation"]
    with pytest.raises(StoreError, match="standard deviation of its noise"):
        Facts(release)


@pytest.mark.usefixtures("pictures_in_words")
def test_a_release_with_hardly_any_records_carries_a_warning(tmp_path):
    plan, outcome = released(tmp_path, values=support.records()[:1])
    assert not read_release(outcome.path).attributes["reliable"]
    assert "meaningless" in report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()


def test_a_damaged_release_has_no_report(tmp_path):
    _, outcome = released(tmp_path)
    next((outcome.path / "mean" / "c").rglob("*")).unlink()
    with pytest.raises(StoreError, match="files of an array are missing"):
        report.write_report(outcome.path)
    with pytest.raises(StoreError, match="is not there"):
        report.write_report(tmp_path / "nothing.zarr")
    (tmp_path / "nothing.zarr").mkdir()
    with pytest.raises(StoreError, match="is not a release"):
        report.write_report(tmp_path / "nothing.zarr")


def test_a_report_that_cannot_be_written_says_so(tmp_path):
    _, outcome = released(tmp_path)
    with pytest.raises(StoreError, match="report cannot be written"):
        report.write_report(outcome.path, output=tmp_path / "nowhere" / "page.html")


def test_a_release_is_opened_without_reading_it_into_memory(tmp_path):
    _, outcome = released(tmp_path)
    opened = open_release(outcome.pointer)
    assert opened.path == outcome.path
    assert all(isinstance(array, zarr.Array) for array in opened.arrays.values())
    assert support.page_of(Facts(opened), [], "f") == support.page_of(Facts(read_release(outcome.path)), [], "f")


class TestPlainWords:
    """The bound in the sentence holds for the loss and is not idle."""

    def guarantee(self, promised, delta, **loss):
        return {
            "epsilon": promised,
            "delta": delta,
            "neighbours": "add-remove",
            "privacy_unit": "one person",
            "loss": {"mu": 0.0, "epsilon": 0.0, "total_variation": 0.0} | loss,
        }

    def test_a_pure_loss_gives_the_odds_of_randomised_response(self):
        found = words.guess_at_most(self.guarantee(1.0, 1e-9, epsilon=1.0))
        assert found == pytest.approx(math.e / (1.0 + math.e), rel=1e-12)

    def test_a_gaussian_loss_gives_the_normal_distribution_at_half_of_mu(self):
        from statistics import NormalDist

        found = words.guess_at_most(self.guarantee(5.0, 1e-6, mu=1.3))
        assert found == pytest.approx(NormalDist().cdf(0.65), rel=1e-12)

    def test_the_promise_bounds_it_where_the_loss_is_not_stated_or_larger(self):
        stated = self.guarantee(0.1, 1e-3, mu=3.0)
        expected = (math.exp(0.1) + 1e-3) / (1.0 + math.exp(0.1))
        assert words.guess_at_most(stated) == pytest.approx(expected)
        del stated["loss"]
        assert words.guess_at_most(stated) == pytest.approx(expected)

    def test_mixed_losses_and_samplers_are_never_better_than_their_parts(self):
        mixed = words.guess_at_most(self.guarantee(9.0, 1e-6, mu=1.0, epsilon=0.5, total_variation=1e-3))
        assert mixed > max(
            words.guess_at_most(self.guarantee(9.0, 1e-6, mu=1.0)),
            words.guess_at_most(self.guarantee(9.0, 1e-6, epsilon=0.5)),
        )
        assert words.guess_at_most(self.guarantee(700.0, 1e-6, epsilon=700.0)) <= 1.0

    def test_the_percentage_is_rounded_up(self):
        assert "at most 73.2 %" in words.plain_words(self.guarantee(1.0, 1e-9, epsilon=1.0))


@pytest.mark.usefixtures("pictures_in_words")
def test_a_report_does_not_depend_on_the_order_in_which_a_folder_lists_its_files(tmp_path, monkeypatch):
    _, outcome = released(tmp_path)
    written = [report.write_report(outcome.path).data.read_bytes()]
    arrays = zarr.Group.arrays
    for order in (sorted, lambda found: sorted(found, reverse=True)):
        monkeypatch.setattr(zarr.Group, "arrays", lambda group, order=order: order(arrays(group)))
        written.append(report.write_report(outcome.path).data.read_bytes())
    assert len(set(written)) == 1
