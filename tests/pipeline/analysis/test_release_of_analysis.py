"""A release in the hands of an analyst: labels, errors, and what follows from it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.analysis import optional
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from tests.pipeline.analysis.conftest import FEATURES, MOMENT, config, features, made, people


def within(found, truth, error, reach=6.5):
    """Whether every difference is within so many standard errors, each of which is stated."""
    assert np.isfinite(np.asarray(error)).all()
    return bool((np.abs(np.asarray(found) - np.asarray(truth)) <= reach * np.asarray(error) + 1e-12).all())


class TestLabels:
    def test_a_covariance_has_names_on_both_axes(self, known):
        found = known.release.covariance
        assert isinstance(found, pd.DataFrame)
        assert tuple(found.index) == tuple(found.columns) == FEATURES
        assert within(found, np.cov(known.records.T, bias=True), known.release.standard_error.covariance)

    def test_a_mean_is_a_series_by_feature_and_a_count_is_a_number(self, known):
        assert tuple(known.release.mean.index) == FEATURES
        assert within(known.release.mean, known.records.mean(axis=0), known.release.standard_error.mean)
        assert isinstance(known.release.count, float)
        assert within(known.release.count, len(known.records), known.release.standard_error.count)

    def test_every_array_is_found_by_name_and_an_unknown_name_is_refused_with_what_there_is(self, known):
        for name in known.release.names:
            assert np.array_equal(np.asarray(known.release[name]), known.release.array(name))
        with pytest.raises(ConfigError, match="second_moment"):
            known.release["secret"]

    def test_xarray_has_names_on_both_axes_and_the_guarantee(self, known):
        found = known.release.to_xarray()
        assert isinstance(found, xr.Dataset)
        assert list(found["covariance"].coords["feature"].values) == list(FEATURES)
        assert list(found["covariance"].coords["feature_"].values) == list(FEATURES)
        one = float(found["covariance"].sel(feature="height", feature_="weight"))
        assert one == known.release.covariance.loc["height", "weight"]
        assert found.attrs["guarantee"]["epsilon"] == 5.0

    def test_counts_have_the_names_of_their_cells(self, counts):
        found = counts.release.counts
        assert list(found.index) == ["0", "1"]
        assert list(found.columns) == ["0 to 30", "30 to 60", "60 to 90"]
        assert (found.index.name, found.columns.name) == ("sex", "age")
        assert float(np.asarray(counts.release.standard_error.counts).max()) < 20.0
        assert counts.release.to_xarray()["counts"].sel(sex="1").shape == (3,)

    def test_changing_what_was_given_out_changes_nothing(self, known):
        found = known.release.covariance
        found.iloc[0, 0] = -1.0
        known.release.attributes["guarantee"]["epsilon"] = 0.0
        known.release.to_xarray().attrs["guarantee"]["epsilon"] = 0.0
        assert known.release.covariance.iloc[0, 0] > 0
        assert known.release.guarantee.epsilon == 5.0

    def test_a_missing_library_is_named_with_what_installs_it(self, known, monkeypatch):
        monkeypatch.setattr(optional.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
        with pytest.raises(ConfigError, match=r"pandas cannot be imported[^\0]*blockveil\[analysis\]"):
            _ = known.release.covariance
        with pytest.raises(ConfigError, match="xarray cannot be imported"):
            known.release.to_xarray()
        assert known.release.array("covariance").shape == (4, 4)


class TestErrors:
    def test_what_post_processing_made_has_no_standard_error(self, known):
        with pytest.raises(ConfigError, match="No standard error of 'covariance_psd'"):
            _ = known.release.standard_error["covariance_psd"]

    def test_intervals_are_labelled_and_wider_at_more_confidence(self, known):
        usual, wide = known.release.interval("covariance"), known.release.interval("covariance", confidence=0.999)
        assert tuple(usual.low.columns) == FEATURES
        error = known.release.standard_error.covariance
        assert np.asarray(usual.high - usual.low) == pytest.approx(2 * 1.959964 * np.asarray(error), rel=1e-6)
        assert ((wide.high - wide.low) > (usual.high - usual.low)).all(axis=None)

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 95, float("nan"), "0.95", True])
    def test_a_confidence_that_is_no_probability_is_refused(self, known, confidence):
        with pytest.raises(ConfigError, match="confidence is not a probability"):
            known.release.interval("mean", confidence=confidence)

    def test_correlations_and_their_intervals_stay_within_one(self, known):
        found, error = known.release.correlation, known.release.standard_error.correlation
        assert within(found, np.corrcoef(known.records.T), error)
        low, high = known.release.interval("correlation")
        assert float(np.asarray(low).min()) >= -1.0
        assert float(np.asarray(high).max()) <= 1.0
        assert (low <= found).all(axis=None)

    def test_partial_correlations_are_those_of_the_records_within_their_errors(self, known):
        inverse = np.linalg.inv(np.cov(known.records.T))
        truth = -inverse / np.sqrt(np.outer(np.diagonal(inverse), np.diagonal(inverse)))
        np.fill_diagonal(truth, 1.0)
        error = known.release.standard_error.partial_correlation()
        assert within(known.release.partial_correlation(), truth, error)

    def test_a_partial_correlation_given_chosen_features_is_that_of_what_they_leave(self, known):
        found = known.release.partial_correlation(["height", "weight"], given=["shoe size", "age"])
        assert list(found.index) == list(found.columns) == ["height", "weight"]
        wide = np.column_stack([np.ones(len(known.records)), known.records[:, 2:]])
        left = known.records[:, :2] - wide @ np.linalg.lstsq(wide, known.records[:, :2], rcond=None)[0]
        error = known.release.standard_error.partial_correlation(["height", "weight"], given=["shoe size", "age"])
        assert within(found, np.corrcoef(left.T), error)
        # Of two features given all others, it is what no choice gives.
        whole = known.release.partial_correlation().loc["height", "weight"]
        assert found.loc["height", "weight"] == pytest.approx(whole)
        all_others = known.release.standard_error.partial_correlation().loc["height", "weight"]
        assert error.loc["height", "weight"] == pytest.approx(all_others)
        low, high = known.release.interval("partial_correlation", features=["height", "weight"], given="age")
        middle = known.release.partial_correlation(["height", "weight"], given="age").loc["height", "weight"]
        assert low.loc["height", "weight"] < middle < high.loc["height", "weight"]

    def test_a_choice_of_features_is_partialled_on_each_other_alone(self, known):
        chosen = ["age", "height", "weight"]
        inverse = np.linalg.inv(np.cov(known.records[:, [3, 0, 1]].T))
        truth = -inverse / np.sqrt(np.outer(np.diagonal(inverse), np.diagonal(inverse)))
        np.fill_diagonal(truth, 1.0)
        found = known.release.partial_correlation(chosen)
        assert list(found.index) == chosen
        assert within(found, truth, known.release.standard_error.partial_correlation(chosen))
        rest = known.release.partial_correlation(given="shoe size")
        assert list(rest.columns) == ["height", "weight", "age"]

    @pytest.mark.parametrize(
        ("chosen", "problem"),
        [
            ({"features": ["wage", "age"]}, "not a feature"),
            ({"features": []}, "No feature is named"),
            ({"given": []}, "No feature is named"),
            ({"given": FEATURES}, "No feature is named"),
            ({"features": 3}, "list of names"),
            ({"features": ["age", "height"], "given": "age"}, "named twice"),
        ],
    )
    def test_a_choice_that_is_none_is_refused(self, known, chosen, problem):
        for ask in (known.release.partial_correlation, known.release.standard_error.partial_correlation):
            with pytest.raises(ConfigError, match=problem):
                ask(**chosen)
        with pytest.raises(ConfigError, match="take no choice"):
            known.release.interval("mean", **chosen)

    def test_a_count_near_zero_leaves_no_interval(self, known):
        opened = known.release.opened
        few = {name: np.asarray(array[...]) for name, array in opened.arrays.items()}
        few["count_standard_deviation"] = few["count"] / 2.0
        found = Release(type(opened)(opened.path, few, opened.dimensions, {**opened.attributes, "reliable": False}))
        assert np.isinf(np.asarray(found.interval("covariance").low)).all()
        assert np.isinf(np.asarray(found.interval("mean").high)).all()
        with pytest.raises(ConfigError, match="noisy count is close to zero"):
            found.sample(3)


class TestRegression:
    def test_coefficients_are_those_of_the_records_within_their_errors(self, known):
        found = known.release.regress("weight", ["height", "age"])
        wide = np.column_stack([np.ones(len(known.records)), known.records[:, [0, 3]]])
        truth = np.linalg.lstsq(wide, known.records[:, 1], rcond=None)[0]
        assert list(found.coefficients.index) == ["height", "age"]
        assert within(found.coefficients, truth[1:], found.standard_error)
        assert within(found.intercept, truth[0], found.intercept_standard_error)
        residual = known.records[:, 1] - wide @ truth
        assert within(found.r_squared, 1 - residual.var() / known.records[:, 1].var(), found.r_squared_standard_error)
        interval = found.interval()
        assert list(interval.index) == ["(intercept)", "height", "age"]
        assert list(interval.columns) == ["low", "high"]
        assert (interval["low"] < interval["high"]).all()

    def test_ridge_is_that_of_the_centred_sums_of_squares(self, known):
        centred = known.records - known.records.mean(axis=0)
        alpha = 0.5 * float(np.sum(centred[:, 0] ** 2))
        truth = np.sum(centred[:, 0] * centred[:, 1]) / (np.sum(centred[:, 0] ** 2) + alpha)
        found = known.release.regress("weight", ["height"], ridge=alpha)
        assert within(found.coefficients, truth, found.standard_error)
        assert float(found.coefficients.iloc[0]) < float(
            known.release.regress("weight", ["height"]).coefficients.iloc[0]
        )

    def test_one_feature_may_be_named_alone(self, known):
        one, listed = known.release.regress("weight", "age"), known.release.regress("weight", ["age"])
        assert one.features == listed.features == ("age",)

    def test_rows_of_a_frame_are_taken_by_name_in_any_order(self, known):
        found = known.release.regress("weight", ["height", "age"])
        rows = pd.DataFrame({"age": [30.0, 40.0], "more": ["a", "b"], "height": [170.0, 180.0]})
        expected = found.intercept + rows[["height", "age"]].to_numpy() @ found.coefficients.to_numpy()
        assert found.predict(rows) == pytest.approx(expected)
        assert found.predict([[170.0, 30.0], [180.0, 40.0]]) == pytest.approx(expected)

    @pytest.mark.parametrize(
        "rows", [[1.0, 2.0], [[1.0]], "text", [["x", "y"]], None, pd.DataFrame({"age": [271828.0]})]
    )
    def test_other_rows_are_refused_without_being_quoted(self, known, rows):
        with pytest.raises(ConfigError) as refused:
            known.release.regress("weight", ["height", "age"]).predict(rows)
        assert "271828" not in str(refused.value)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"target": "wage"}, "not a feature"),
            ({"target": 3}, "list of names"),
            ({"target": "weight", "features": ["weight"]}, "target and feature"),
            ({"target": "weight", "features": []}, "No feature is named"),
            ({"target": "weight", "features": ["age", "age"]}, "twice"),
            ({"target": "weight", "ridge": -1.0}, "ridge"),
            ({"target": "weight", "ridge": float("nan")}, "ridge"),
            ({"target": "weight", "ridge": "1"}, "ridge"),
        ],
    )
    def test_what_cannot_be_regressed_on_is_refused(self, known, arguments, problem):
        with pytest.raises(ConfigError, match=problem):
            known.release.regress(**arguments)

    @pytest.mark.parametrize(
        ("share", "error", "said"),
        [
            (0.25, 0.01, "0.25   standard error 0.01"),
            (1.06, 0.01, "not known"),
            (-0.2, 0.1, "not known"),
            (0.5, np.inf, "not known"),
            (np.nan, np.nan, "not known"),
        ],
    )
    def test_an_explained_share_that_is_none_is_shown_as_not_known(self, known, share, error, said):
        found = known.release.regress("weight", ["height"])
        shown = replace(found, fit=replace(found.fit, r_squared=Estimate(np.array(share), np.array(error))))
        (line,) = [line for line in str(shown).splitlines() if "R squared" in line]
        assert said in line

    def test_a_second_moment_is_regressed_on_about_its_origin(self, second_moment):
        found = second_moment.release.regress("weight", ["height", "age"])
        middle = np.array([175.0, 85.0, 40.0, 54.0])
        centred = second_moment.records - middle
        truth = np.linalg.lstsq(centred[:, [0, 3]], centred[:, 1], rcond=None)[0]
        assert within(found.coefficients, truth, found.standard_error)
        assert found.intercept == pytest.approx(85.0 - np.array([175.0, 54.0]) @ found.coefficients.to_numpy())


class TestComponents:
    def test_they_are_those_of_the_records_within_their_errors(self, known):
        found = known.release.pca(2)
        values, vectors = np.linalg.eigh(np.cov(known.records.T, bias=True))
        assert within(found.explained_variance, values[::-1][:2], found.standard_error)
        shares = values[::-1][:2] / values.sum()
        assert within(found.explained_variance_ratio, shares, found.explained_variance_ratio_standard_error)
        truth = vectors[:, ::-1][:, :2].T
        truth = truth * np.sign(np.sum(truth * found.components.to_numpy(), axis=1))[:, None]
        assert within(found.components, truth, found.components_standard_error)
        assert (found.sine_distance < 0.01).all()
        assert list(found.components.columns) == list(FEATURES)
        assert list(found.interval().index) == ["component 1", "component 2"]

    def test_standardised_ones_are_those_of_the_correlation(self, known):
        found = known.release.pca(4, standardise=True)
        values = np.linalg.eigvalsh(np.corrcoef(known.records.T))[::-1]
        assert found.explained_variance.to_numpy() == pytest.approx(values, abs=0.05)
        assert float(found.explained_variance.sum()) == pytest.approx(4.0)

    def test_a_second_moment_has_components_but_no_correlation(self, second_moment):
        centred = second_moment.records - np.array([175.0, 85.0, 40.0, 54.0])
        found = second_moment.release.pca(1)
        truth = np.linalg.eigvalsh(centred.T @ centred)[-1:]
        assert within(found.explained_variance, truth, found.standard_error)
        with pytest.raises(ConfigError, match="no mean"):
            _ = second_moment.release.correlation
        with pytest.raises(ConfigError, match="no mean"):
            second_moment.release.pca(1, standardise=True)

    @pytest.mark.parametrize("k", [0, 5, 1.5, "2", True, None])
    def test_a_number_that_there_is_not_is_refused(self, known, k):
        with pytest.raises(ConfigError, match="number of components"):
            known.release.pca(k)


class TestSynthetic:
    def test_a_sample_is_marked_and_follows_the_released_moments(self, known):
        found = known.release.sample(40_000, seed=4)
        assert list(found.columns) == list(FEATURES)
        assert found.attrs["synthetic"] is True
        assert "No row is a record of anybody" in found.attrs["note"]
        assert found.index.name == "synthetic record"
        spread = np.sqrt(np.diagonal(known.release.covariance.to_numpy()))
        assert np.abs(found.mean() - known.release.mean).to_numpy() == pytest.approx(0.0, abs=6.5 * spread.max() / 200)
        assert found.corr().to_numpy() == pytest.approx(known.release.correlation.to_numpy(), abs=0.04)

    def test_a_seed_gives_the_same_sample_again(self, known):
        assert known.release.sample(5, seed=1).equals(known.release.sample(5, seed=1))
        assert not known.release.sample(5).equals(known.release.sample(5))
        assert len(known.release.sample(0)) == 0

    @pytest.mark.parametrize(("n", "seed"), [(-1, 1), (1.5, 1), (10**12, 1), ("3", 1), (True, 1), (3, -1), (3, 0.5)])
    def test_what_cannot_be_drawn_is_refused(self, known, n, seed):
        with pytest.raises(ConfigError):
            known.release.sample(n, seed=seed)


class TestShowing:
    def test_a_notebook_shows_text_and_tables_alone(self, known):
        shown = known.release._repr_html_() + known.release.guarantee._repr_html_()
        shown += known.release.regress("weight")._repr_html_() + known.release.pca(2)._repr_html_()
        assert "adding or removing one person" in shown
        assert not re.search(r"<(script|style|link|img|iframe|a)\b|\bon\w+=|https?:", shown)

    def test_hostile_names_are_shown_as_text(self, known):
        opened = known.release.opened
        arrays = dict(opened.arrays) | {"feature": np.array(["<script>", "b", "c", "\x1b[31md"])}
        hostile = Release(type(opened)(opened.path, arrays, opened.dimensions, opened.attributes)).regress("b")
        assert "<script>" not in hostile._repr_html_()
        assert "\x1b" not in str(hostile)

    def test_the_guarantee_is_a_sentence_and_numbers(self, known):
        found = known.release.guarantee
        assert (found.epsilon, found.delta, found.neighbours) == (5.0, 1e-6, "add-remove")
        assert "e^5" in str(found)
        assert found.loss["mu"] > 0

    def test_figures_are_drawn_without_a_window(self, known, counts):
        for figure in (
            known.release.plot.heatmap(),
            known.release.plot.intervals(),
            known.release.plot.intervals("correlation"),
            counts.release.plot.heatmap(),
            counts.release.plot.intervals("counts"),
        ):
            assert figure._repr_png_().startswith(b"\x89PNG")

    def test_a_spectrum_that_says_less_than_the_errors_of_directions_is_not_drawn(self, known):
        with pytest.raises(ConfigError, match="says nothing"):
            known.release.plot.spectrum()
        assert "direction not known" in str(known.release.pca(2)) or "squared sine" in str(known.release.pca(2))

    def test_arrays_of_any_number_of_axes_have_labels_and_intervals(self, known):
        opened = known.release.opened
        for shape in ((), (3,), (2, 2), (2, 3, 4)):
            arrays = {"cube": np.ones(shape), "cube_standard_deviation": np.full(shape, 0.1)}
            found = Release(type(opened)(opened.path, arrays, {}, opened.attributes))
            assert np.asarray(found["cube"]).size == arrays["cube"].size
            assert found.plot.intervals("cube")._repr_png_()
            assert found.to_xarray()["cube"].shape == shape

    def test_a_picture_of_too_many_intervals_is_refused(self, known):
        opened = known.release.opened
        arrays = {"matrix": np.zeros((20, 20)), "matrix_standard_deviation": np.ones((20, 20))}
        with pytest.raises(ConfigError, match="400 intervals"):
            Release(type(opened)(opened.path, arrays, {}, opened.attributes)).plot.intervals("matrix")


class TestRefusals:
    def test_counts_have_no_regression_components_or_sample(self, counts):
        for asked in (
            lambda: counts.release.regress("age"),
            lambda: counts.release.pca(1),
            lambda: counts.release.correlation,
            lambda: counts.release.sample(3),
        ):
            with pytest.raises(BlockveilError):
                asked()

    def test_noise_that_a_matrix_has_mixed_is_not_taken_for_independent(self, known):
        opened = known.release.opened
        mechanism = {**opened.attributes["mechanism"], "map": {"bits": 3}}
        mixed = Release(
            type(opened)(opened.path, opened.arrays, opened.dimensions, {**opened.attributes, "mechanism": mechanism})
        )
        with pytest.raises(ConfigError, match="related between features"):
            mixed.regress("weight")
        assert mixed.covariance.shape == (4, 4)

    def test_noise_that_is_not_all_of_the_error_has_no_interval(self, known):
        opened = known.release.opened
        mechanism = {**opened.attributes["mechanism"], "not_in_standard_deviations": "counts are spread evenly"}
        found = Release(
            type(opened)(opened.path, opened.arrays, opened.dimensions, {**opened.attributes, "mechanism": mechanism})
        )
        with pytest.raises(ConfigError, match="spread evenly"):
            found.interval("mean")


class TestOpening:
    def test_a_release_is_found_by_folder_pointer_folder_of_nights_and_id(self, known):
        folder = known.release.path.parent
        for found in (
            open_(known.release.path),
            open_(str(folder / "2026-11-20.json")),
            open_(folder),
            open_("people/covariance/2026-11-20", root=known.folder / "releases"),
        ):
            assert found.release_id == "people/covariance/2026-11-20"
            assert repr(found).startswith("Release('people/covariance/2026-11-20'")

    @pytest.mark.parametrize("where", ["nothing", "", "a\0b", "nothing.json"])
    def test_where_there_is_none_it_says_so(self, where, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises((StoreError, ConfigError)):
            open_(where)

    def test_records_are_not_opened(self):
        with pytest.raises(ConfigError, match="cannot be opened from a DataFrame"):
            open_(pd.DataFrame({"age": [1]}))
        with pytest.raises(ConfigError, match="not a release id"):
            open_("../../etc/passwd", root="releases")

    def test_a_damaged_release_is_refused(self, known, tmp_path):
        import shutil

        copy = tmp_path / known.release.path.name
        shutil.copytree(known.release.path, copy)
        chunk = next(path for path in (copy / "covariance").rglob("*") if path.is_file() and path.name != "zarr.json")
        chunk.write_bytes(chunk.read_bytes()[::-1])
        with pytest.raises(StoreError):
            open_(copy)


def test_a_release_of_one_feature_has_what_one_feature_has(single):
    found = single.release
    assert found.covariance.shape == (1, 1)
    assert float(found.correlation.iloc[0, 0]) == 1.0
    assert float(found.partial_correlation().iloc[0, 0]) == 1.0
    assert float(found.pca(1).components.iloc[0, 0]) == 1.0
    assert len(found.sample(3, seed=1)) == 3
    assert str(found)
    with pytest.raises(ConfigError, match="No feature is named"):
        found.regress("height")


def test_errors_of_statistics_know_the_noise_that_a_diagonal_shares(tmp_path):
    """The release states it, and the sum of the diagonal is as uncertain as all its entries moving together."""
    text = config(MOMENT.format(kind="second-moment", features=features()))
    before, _, rest = text.partition("[mechanism]")
    text = f'{before}[mechanism]\nkind = "box-diagonal"\n\n' + rest[rest.index("[compute]") :]
    release = made(tmp_path, text, people(500)).release
    stated = release.opened.attributes["mechanism"]["diagonal"]
    moments = release.moments("A test")
    deviation = np.diagonal(np.asarray(release.standard_error.second_moment))
    own = np.diagonal(moments.variance)
    assert stated["shared"] == 3
    assert own * (1.0 + stated["shared"]) == pytest.approx(deviation**2)
    assert own + moments.common**2 == pytest.approx(deviation**2)
    together = np.sqrt(np.sum(own) + np.sum(moments.common) ** 2)
    assert moments.deviations(np.eye(4)) == pytest.approx(together)
    assert together > 1.3 * np.sqrt(np.sum(deviation**2))


@pytest.mark.parametrize("joined", [False, True])
def test_errors_of_a_covariance_know_what_its_diagonal_shares_and_whether_its_count_takes_part(tmp_path, joined):
    text = config(MOMENT.format(kind="covariance", features=features()))
    before, _, rest = text.partition("[mechanism]")
    noise = f'kind = "{"joint" if joined else "shaped"}-diagonal"\noptimise_for = "relative-error"'
    release = made(tmp_path, f"{before}[mechanism]\n{noise}\n\n" + rest[rest.index("[compute]") :], people(500)).release
    stated, moments = release.opened.attributes["mechanism"]["diagonal"], release.moments("A test")
    assert (stated["lead"], stated["shared"] > 0) == (1, True)
    deviation = np.diagonal(np.asarray(release.array("second_moment_standard_deviation")))
    own = np.diagonal(moments.variance)[1:]
    assert own + moments.common[1:] ** 2 == pytest.approx(deviation**2)
    count = float(np.asarray(release.array("count_standard_deviation")))
    assert moments.variance[0, 0] + moments.common[0] ** 2 == pytest.approx(count**2)
    assert moments.common[0] ** 2 / moments.variance[0, 0] == pytest.approx(
        stated["shared"] * stated["times"] ** 2 if joined else 0.0
    )
    features_alone = np.diag([0.0, *np.ones(deviation.size)])
    together = np.sqrt(np.sum(own) + np.sum(moments.common[1:]) ** 2)
    assert moments.deviations(features_alone) == pytest.approx(together)
    assert together > 1.2 * np.sqrt(np.sum(deviation**2))
    # Count and diagonal together.
    everything = np.sqrt(np.sum(own) + moments.variance[0, 0] + np.sum(moments.common) ** 2)
    assert moments.deviations(np.eye(deviation.size + 1)) == pytest.approx(everything)


def test_standard_errors_say_how_they_are_read(known):
    assert "standard_error.covariance" in repr(known.release.standard_error)
