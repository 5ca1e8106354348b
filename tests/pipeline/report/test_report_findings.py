"""A report whose matrix is noise alone says so first, everywhere; what is cut is no correlation."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.kinds import FOLDERS
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import facts, machine_readable, markdown, own_units
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.papers import CARD
from blockveil.pipeline.report.pictures import heat_map, spectrum
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT
from tests.pipeline.report.test_report import other_kind

pytestmark = pytest.mark.usefixtures("pictures_in_words")

D = 400


def covariance(planted=(), *, variances=0.0, psd=False, count=4000.0):
    """A covariance of which all is noise but for planted covariances and variances, in deviations of the noise."""
    rng = np.random.default_rng(16)
    release = other_kind(np.zeros((D, D)), ("feature", "feature_"))
    deviation = np.where(np.eye(D), 1.0, 0.5**0.5)
    noise = np.triu(rng.standard_normal((D, D)) * deviation)
    value = noise + np.triu(noise, 1).T + variances * np.eye(D)
    for i, j, size in planted:
        value[i, j] = value[j, i] = size
    release.attributes = {
        **release.attributes,
        "matrix": "covariance",
        "query": {"kind": "covariance"},
        "origin": [0.0] * D,
        "mechanism": {**release.attributes["mechanism"], "grid": "2 levels of width 2048"},
    }
    release.arrays = {
        "feature": np.array([f"f{i}" for i in range(D)], dtype=object),
        "count": np.asarray(count),
        "count_standard_deviation": np.asarray(1.0),
        "mean": np.zeros(D),
        "mean_standard_deviation": np.full(D, 1e-4),
        "covariance": value,
        "covariance_standard_deviation": deviation,
    }
    if psd:
        values, vectors = np.linalg.eigh(value)
        release.arrays["covariance_psd"] = (vectors * values.clip(0)) @ vectors.T
    axes = {"feature": ("feature",), "mean": ("feature",), "covariance": ("feature", "feature_")}
    release.dimensions = {**axes, "covariance_psd": axes["covariance"]}
    return Facts(release)


@pytest.mark.parametrize("psd", [False, True])
def test_a_matrix_of_noise_alone_is_said_to_be_one_before_anything_else(psd):
    found = covariance(psd=psd)
    says_nothing(found, "none of the 79,800 covariances of two features")


def says_nothing(found, none):
    """Every form of a report says before anything else that nothing stands out, and shows nothing that does."""
    sentence = facts.finding(found)
    assert sentence.startswith(f"Nothing stands out from the noise: {none}")
    assert own_units.strongest(found) == []
    assert not found.scan.cells.clear.any()
    text = support.page_of(found, [], "folder")
    assert text.index(sentence) < text.index(found.attributes["guarantee"]["sentence"])
    told = markdown.summary(found, facts.error_lines(found), "path", "report")
    assert told.index("Nothing stands out") < told.index(found.attributes["guarantee"]["sentence"])
    content = machine_readable.content(found, [], "folder", [])
    assert list(content)[2:4] == ["finding", "nothing_stands_out"]
    assert content["nothing_stands_out"]
    assert content["finding"] == sentence == facts.error_lines(found)[0][1]
    assert "Nothing stands out" in heat_map(found).text
    assert found.above_noise == 0
    json.dumps(content, allow_nan=False)


AXES = [
    f'{{ name = "{name}", lower = -1, upper = 1, cells = {cells} }}'
    for name, cells in zip("abc", (9, 7, 3), strict=True)
]
COUNTS = 'kind = "counts"\noutside = "drop"\n{}axes = [{}]\n'
BOX = 'kind = "box"\norigin = "zero"\nfeatures = [{{ name = "{name}", lower = -1, upper = 1, count = {count} }}]\n'
OUTER = (
    f'kind = "outer-products"\n[query.left]\n{BOX.format(name="l", count=2)}'
    f"[query.right]\n{BOX.format(name='r', count=1)}"
)
GRADIENTS = (
    f'kind = "gradients"\nclipping_norm = 1.0\n[query.geometry]\n{BOX.format(name="x", count=2)}'
    '[query.model]\nloss = "logistic"\ntarget = { name = "y", classes = 2 }\n'
)
TOTALS = (
    'kind = "totals"\n[query.geometry]\nkind = "box"\norigin = "{}"\n'
    'features = [{{ name = "x", lower = 0, upper = 2, count = 3 }}]\n'
)
LAPLACE = 'kind = "laplace"\noptimise_for = "absolute-error"'
LEAST = 'kind = "auto"\nminimise = "{}"'.format
OTHERS = {
    "counts of a line": (COUNTS.format("", AXES[0]), 1, 'kind = "gaussian"', "9 count entries"),
    "counts of a grid": (COUNTS.format("", ",".join(AXES[:2])), 2, 'kind = "gaussian"', "63 count entries"),
    "counts of three axes": (COUNTS.format("", ",".join(AXES)), 3, LEAST("total"), "189 count entries"),
    "counts, Laplace": (COUNTS.format("", AXES[0]), 1, 'kind = "discrete-laplace"', "9 count entries"),
    "ranges": (
        COUNTS.format('workload = "ranges"\n', AXES[0]),
        1,
        LEAST("workload"),
        "9 count entries",
    ),
    "outer products": (OUTER, 3, 'kind = "gaussian"', "2 outer product entries"),
    "outer products, Laplace": (
        OUTER,
        3,
        'kind = "laplace"\noptimise_for = "absolute-error"',
        "2 outer product entries",
    ),
    "gradients": (GRADIENTS, 3, 'kind = "gaussian"', "3 gradient entries"),
    "gradients, K-norm": (GRADIENTS, 3, 'kind = "k-norm"', "3 gradient entries"),
    "totals": (TOTALS.format("zero"), 3, 'kind = "gaussian"', "3 totals"),
    "totals about the middle": (TOTALS.format("midpoint"), 3, 'kind = "gaussian"', "3 totals"),
    "totals, Laplace": (TOTALS.format("midpoint"), 3, LAPLACE, "3 totals"),
}


def released(folder, monkeypatch, kind, values):
    """A release of another kind with noise of a fixed key; three columns at most are read."""
    query, columns, mechanism, _ = OTHERS[kind]
    monkeypatch.setattr(
        "blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *a: NoiseKey(bytes(range(32)))
    )
    text = support.CONFIG.format(kind="rows", epsilon=0.05, neighbours="add-remove", cluster='kind = "threads"')
    start, end = text.index("kind ="), text.index("[privacy]")
    text = f'{text[:start]}rows_at_most = 9000\nmissing = "refuse"\n{query}\n{text[end:]}'
    shaped = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
    (folder / "people.toml").write_text(text.replace(shaped, mechanism))
    support.write_records(folder, values[:, :columns])
    loaded = load_config(folder / "people.toml")
    support.set_budget(loaded)
    outcome = run_release(make_plan(loaded, NIGHT), ThreadCompute(1), "test", lambda *a: None)
    return Facts(open_release(outcome.path))


@pytest.mark.parametrize("kind", OTHERS)
def test_counts_products_and_gradients_of_noise_alone_are_said_to_be_such(tmp_path, monkeypatch, kind):
    """Twelve records, where noise of one entry has the size of dozens."""
    values = np.random.default_rng(5).uniform(0.0, 1.0, (12, 3)).round(2)
    says_nothing(released(tmp_path, monkeypatch, kind, values), f"none of the {OTHERS[kind][-1]}")


@pytest.mark.parametrize("kind", OTHERS)
def test_counts_products_and_gradients_that_stand_out_are_named(tmp_path, monkeypatch, kind):
    found = released(tmp_path, monkeypatch, kind, np.ones((8000, 3)))
    assert "stand out from the noise" in facts.finding(found)
    assert not found.nothing
    assert own_units.strongest(found)
    assert found.scan.cells.clear.any()
    assert not machine_readable.content(found, [], "folder", [])["nothing_stands_out"]


def test_a_share_beyond_two_deviations_stands_only_beside_what_noise_alone_gives():
    found = covariance()
    share = 100.0 * found.scan.beyond_two / found.scan.entries
    said = dict(facts.error_lines(found))["Beyond two deviations"]
    assert said == f"{share:.3g} % of the 80,200 covariance entries; Gaussian noise alone: 4.55 %"
    assert 4.0 < share < 5.0
    assert "two standard deviations" not in support.page_of(found, [], "folder")


def test_planted_correlations_are_found_and_named():
    found = covariance([(3, 7, 40.0), (5, 9, -30.0)], variances=60.0)
    rows = own_units.strongest(found)
    assert [row["pair"] for row in rows] == ["f3 and f7", "f5 and f9"]
    assert [float(row["correlation"].partition(" ")[0]) for row in rows] == pytest.approx([40 / 60, -0.5], abs=0.05)
    assert facts.finding(found).startswith("2 of the 79,800 covariances of two features and 400 of the 400 variances")
    assert heat_map(found).draw(CARD).startswith("<svg")
    assert not found.nothing


def test_what_is_cut_or_has_no_variance_is_no_correlation():
    found = covariance([(3, 7, 400.0), (5, 9, -30.0)], variances=60.0)
    assert [row["pair"] for row in own_units.strongest(found)] == ["f5 and f9"]
    assert facts.not_estimable(found).startswith("1 more stands out, but no correlation can be estimated")
    hidden = covariance([(3, 7, 40.0)])
    assert hidden.scan.others.outside == 1
    assert own_units.strongest(hidden) == []
    assert facts.not_estimable(hidden).startswith("1 more stands out")
    assert "1.00" not in support.page_of(hidden, [], "folder").partition("<img")[0]


def test_variances_alone_are_no_pair_of_features():
    found = covariance(variances=60.0)
    assert facts.finding(found).startswith("No pair of features stands out from the noise")
    assert "Of the 400 variances, 400 do." in facts.finding(found)
    assert facts.finding(found) in support.page_of(found, [], "folder").partition("Promised.")[0]


def test_nothing_stands_out_of_a_ratio_to_a_count_that_may_be_zero():
    found = covariance([(3, 7, 1e6)], variances=1e7, count=4.0)
    assert found.scan.outside == 0
    assert facts.finding(found).startswith("Nothing can be found")
    assert spectrum(found).draw(CARD).startswith("<svg")
    assert found.above_noise == 0


def test_records_at_their_origin_are_noise_alone():
    release = other_kind(60.0 + np.random.default_rng(3).standard_normal((50, 2)), ("record", "feature"))
    release.arrays = {"rows": release.arrays["novel"], "rows_standard_deviation": np.ones((50, 2))}
    release.dimensions = {"rows": ("record", "feature")}
    release.attributes |= {"matrix": "rows", "origin": [60.0, 60.0], "query": {"kind": "rows"}}
    release.attributes["mechanism"] |= {"grid": "2 levels"}
    found = Facts(release)
    assert found.nothing
    assert found.above_noise == 0
    moved = SimpleNamespace(**vars(release))
    moved.attributes = {**release.attributes, "origin": [0.0, 60.0]}
    assert Facts(moved).scan.outside == 50


def test_directions_of_eigenvalues_that_noise_alone_reaches_are_said_to_be_such():
    found = covariance()
    found.attributes["error"] = {"spectral_norm_bound": 30.0, "array": "covariance", "confidence": 0.95}
    assert facts.directions_line(found) == []
    found.matrix._arrays |= {
        "eigenvalues": np.array([80.0, 31.0, 29.0, *np.ones(D - 3)]),
        "directions": np.zeros((D, 3)),
    }
    [(_, said)] = facts.directions_line(found)
    assert said.startswith("2 of 3 belong to eigenvalues above 30")


def test_a_finished_release_says_how_far_each_compared_mechanism_is_from_the_bound_of_its_plan(tmp_path, monkeypatch):
    found = released(tmp_path, monkeypatch, "counts of three axes", np.zeros((12, 3)))
    least = found.attributes["mechanism"]["least_error"]
    assert least == pytest.approx(make_plan(load_config(tmp_path / "people.toml"), NIGHT).least, rel=2e-5)
    rows, stated = facts.comparison_rows(found), found.attributes["mechanism"]["compared"]
    over = [f"{row['error'] / least:.4g}" if row["error"] is not None else "" for row in stated]
    assert [row["over the bound"] for row in rows] == over
    del found.attributes["mechanism"]["least_error"]  # as a release of another program may be
    assert all("over the bound" not in row for row in facts.comparison_rows(found))


def test_fewer_eigenvalues_than_other_tests_find_are_said_to_be_of_another_test():
    """A pair that is found beside no eigenvalue above the noise: both are true, and the line says why."""
    pair, everything = covariance([(3, 7, 12.0)]), covariance(variances=120.0)
    assert facts.finding(pair).startswith("1 of the 79,800 covariances")
    assert (pair.above_noise, everything.above_noise) == (0, D)
    assert "may find more" in facts.spectrum_lines(pair)[0][1]
    assert "may find more" not in facts.spectrum_lines(everything)[0][1]


@pytest.mark.parametrize("query", list(FOLDERS))
def test_a_file_that_names_one_kind_and_the_matrix_of_another_is_shown_as_any_matrix(query):
    release = other_kind(np.random.default_rng(3).standard_normal((50, 2)), ("record", "feature"))
    plain = Facts(release)
    release.attributes = {**release.attributes, "query": {**release.attributes.get("query", {}), "kind": query}}
    found = Facts(release)
    assert found.matrix.kind == "novel"
    assert (found.entries, found.nothing, found.has_spectrum) == (plain.entries, plain.nothing, plain.has_spectrum)
    assert facts.estimates(found) == facts.estimates(plain)
    assert heat_map(found) is not None
