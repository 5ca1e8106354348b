"""The report: complete, self-contained, the same for the same release, and safe for any name and shape."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray
import zarr

from pipeline import report
from pipeline.compute import ThreadCompute
from pipeline.planning import make_plan
from pipeline.publishing import read_release
from pipeline.release import Workspace, run_release
from pipeline.report import facts, page
from tests import support
from tests.pipeline.test_release import NIGHT


def released(folder, **options):
    loaded = support.prepare(folder, **options)
    plan = make_plan(loaded, NIGHT)
    return Workspace.open(plan), run_release(plan, ThreadCompute(2), "test", lambda *a: None)


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_a_page_is_written_beside_the_release_and_fetches_nothing(tmp_path, kind):
    workspace, outcome = released(tmp_path, kind=kind)
    made = report.make_report(workspace, outcome)
    text = made.path.read_text()
    assert made.path == outcome.path.with_suffix(".html")
    for words in ("multiplies the probability", "Noise and signal", "known-limits", outcome.output_digest, "income"):
        assert words in text
    assert text.count("<svg") == 2
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert "<script" not in text
    HTMLParser().feed(text)
    assert re.sub(
        r"Spent.*?</td>", "", report.make_report(workspace, outcome).path.read_text(), flags=re.DOTALL
    ) == re.sub(r"Spent.*?</td>", "", text, flags=re.DOTALL), "the same release gives the same page"


def test_the_loading_examples_run(tmp_path):
    _, outcome = released(tmp_path)
    found = facts.gather(read_release(outcome.path))
    expected = zarr.open_group(outcome.path, mode="r")["covariance"][...]
    for name, code in page.loading(found, str(outcome.path)):
        space = {}
        exec(code, space)
        loaded = space["table"] if name == "pandas" else space["matrix"]
        assert np.array_equal(np.asarray(loaded), expected)


def test_xarray_opens_a_release_with_names_and_attributes(tmp_path):
    _, outcome = released(tmp_path)
    opened = xarray.open_zarr(outcome.path, consolidated=False)
    assert opened["covariance"].dims == ("feature", "feature_")
    assert list(opened["feature"].values) == list(support.FEATURES)
    assert opened.attrs["guarantee"]["neighbours"] == "add-remove"


def test_names_cannot_break_out_of_the_page(tmp_path):
    _, outcome = released(tmp_path)
    release = read_release(outcome.path)
    release.arrays["feature"] = np.array(["<script>alert(1)</script>", "a|b", "c & d"], dtype=object)
    release.attributes["title"] = "<b>bold</b>"
    found = facts.gather(release)
    text = page.html(found, [("Budget", "<i>x</i>")], "folder")
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "<i>x" not in text
    assert "\\|" in page.markdown(found, [("a|b", "c")], "p", "r")


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
    text = page.markdown(facts.gather(release), [], "p", "r")
    assert text.count("data:image/svg+xml") == 2
    assert len(text) < 400_000


def test_a_release_with_hardly_any_records_carries_a_warning(tmp_path):
    workspace, outcome = released(tmp_path, values=support.records()[:1])
    assert not read_release(outcome.path).attributes["reliable"]
    assert "meaningless" in report.make_report(workspace, outcome).path.read_text()


def test_numbers_are_written_for_people():
    assert facts.number(1234567.8) == "1,234,568"
    assert facts.number(0.000123456) == "0.0001235"
    assert facts.number(np.inf) == "∞"
    assert facts.number(np.nan) == "undefined"
