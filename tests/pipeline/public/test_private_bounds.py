"""From a config without bounds to a charged release of histograms, to bounds, and to a release that takes them."""

import json
from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import private_bounds
from blockveil.pipeline.public.bounds_draft import bounds_draft, clipped_draft
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from blockveil.pipeline.report.markdown import text_of
from blockveil.pipeline.verification.verified import verify
from tests.house import support

NIGHT, NEXT = date(2026, 11, 20), date(2026, 11, 21)
NAMES = '{ name = "age" }, { name = "income" }, { name = "debt" }'


def invoke(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def config(folder, epsilon=20.0, extra=""):
    """A config whose features have no bounds: it cannot be loaded before it is told where they are."""
    text = support.CONFIG.format(
        kind="covariance", epsilon=epsilon, neighbours="add-remove", cluster='kind = "threads"'
    )
    start, end = text.index("features = ["), text.index("[privacy]")
    path = folder / "people.toml"
    path.write_text(text[:start] + f"{extra}features = [ {NAMES} ]\n\n" + text[end:])
    return path


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(1), "test", lambda *_: None)


def histograms(folder, epsilon=20.0, share=0.5, rows=400):
    """A published release of histograms of the columns of :func:`config`."""
    support.write_records(folder, support.records(rows))
    drafted = folder / "histograms.toml"
    drafted.write_text(bounds_draft(config(folder, epsilon), share, (-4, 30)))
    loaded = load_config(drafted)
    support.set_budget(loaded, 60.0)
    return run(loaded)


def test_bounds_are_drafted_released_read_and_taken_and_both_releases_are_charged(tmp_path):
    support.write_records(tmp_path, support.records(400))
    path = config(tmp_path)
    done = invoke(
        "public", "bounds", "draft", path, "--output", tmp_path / "histograms.toml", "--share", 0.5, "--powers", -4, 30
    )
    assert done.exit_code == 0, done.exception
    drafted = load_config(tmp_path / "histograms.toml")
    ledger = support.set_budget(drafted, 60.0)
    first = run(drafted)
    assert ledger.budget("people").spent_mu == pytest.approx(make_plan(drafted, NIGHT).charge.mu)
    read = invoke("public", "bounds", "read", first.path, "--output", tmp_path / "bounds.toml")
    assert read.exit_code == 0, read.exception
    assert 'bounds = "bounds.toml"' in read.stdout
    loaded = load_config(config(tmp_path, extra='bounds = "bounds.toml"\n'))
    found = {each.name: (each.lower, each.upper) for each in loaded.config.query.geometry.features}
    assert found["age"][0] in (0.0, 16.0)
    assert found["age"][1] == 128.0
    assert found["income"][0] >= 0.0
    assert found["debt"][0] < -1000.0
    outcome = run(loaded, NEXT)
    assert ledger.budget("people").charges == 2
    report = make_report(make_plan(loaded, NEXT), Ledger(loaded.ledger_url), outcome)
    sentence = "learnt from the records by the release people/covariance-bounds/2026-11-20, which was charged"
    assert sentence in report.path.read_text()
    assert any(sentence in text_of(section) for section in report.sections)
    assert json.loads(report.data.read_text())["query"]["geometry"]["bounds_release"] == first.release_id


def test_shares_of_both_releases_keep_the_guarantee_together(tmp_path):
    drafted = tmp_path / "histograms.toml"
    drafted.write_text(bounds_draft(config(tmp_path, 1.0), 0.02, (-4, 30)))
    assert "with share = 0.98 there" in drafted.read_text()
    whole = make_plan(load_config(support.write_config(tmp_path)), NIGHT).charge.mu
    assert make_plan(load_config(drafted), NIGHT).charge.mu ** 2 == pytest.approx(0.02 * whole**2, rel=1e-6)


def test_the_draft_has_the_records_the_privacy_and_the_places_of_the_config_and_its_columns_alone(tmp_path):
    path = config(tmp_path)
    path.write_text(
        path.read_text()
        .replace("delta = 1e-6", "delta = 1e-6\nrows_per_unit = 3\nshare = 0.5")
        .replace(NAMES, '{ name = "x", lower = 1, count = 2 }, { name = "a \\"b\\"" }')
    )
    (tmp_path / "histograms.toml").write_text(bounds_draft(path, 0.1, (-1, 2)))
    found = load_config(tmp_path / "histograms.toml").config
    assert found.query.columns == ("x1", "x2", 'a "b"')
    assert found.query.missing == "refuse"
    assert (found.privacy.rows_per_unit, found.privacy.share) == (3, 0.05)
    assert "with share = 0.45 there" in (tmp_path / "histograms.toml").read_text()
    assert found.release.name == "covariance-bounds"
    assert (found.output.root, found.compute.block_rows, found.cluster.kind) == ("releases", 50, "threads")


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        (
            '{ name = "age", lower = 0, upper = 120 }, { name = "income" }, { name = "debt", lower = 0 }',
            ("income", "debt"),
        ),
        ('{ name = "age", lower = 0, upper = 120 }, { name = "income", lower = 0, upper = 9 }', ("age", "income")),
    ],
)
def test_columns_whose_bounds_are_known_are_not_asked_for_unless_all_are(tmp_path, features, columns):
    path = config(tmp_path)
    path.write_text(path.read_text().replace(NAMES, features))
    (tmp_path / "histograms.toml").write_text(bounds_draft(path, 0.1, (-1, 2)))
    query = load_config(tmp_path / "histograms.toml").config.query
    assert tuple(feature.name for feature in query.counted) == columns
    assert len(query.columns) == features.count("name")


def test_a_draft_for_some_of_the_columns_is_released_from_the_records_of_all(tmp_path):
    support.write_records(tmp_path, support.records(9_000))
    path = config(tmp_path, 1.0)
    path.write_text(path.read_text().replace(NAMES, '{ name = "age", lower = 0, upper = 120 }, { name = "income" }, '
                                             '{ name = "debt" }'))  # fmt: skip
    (tmp_path / "histograms.toml").write_text(bounds_draft(path, 0.5, (-4, 30)))
    drafted = load_config(tmp_path / "histograms.toml")
    support.set_budget(drafted, 60.0)
    assert make_plan(drafted, NIGHT).question.names == ("income", "income, digits", "debt", "debt, digits")
    outcome = run(drafted)
    assert [name for name, _ in private_bounds.private_bounds(outcome.path).found] == ["income", "debt"]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ('kind = "counts"\nrows_at_most = 9\naxes = [ { name = "a" }, { name = "b", cells = 3 } ]', ("a", "b")),
        (
            'rows_at_most = 9\nleft = { features = [ { name = "a" } ] }\nright = { features = [ { name = "b" } ] }',
            ("a", "b"),
        ),
        (
            'rows_at_most = 9\nmodel = { target = { name = "y" } }\n[query.geometry]\nfeatures = [ { name = "a" } ]',
            ("a", "y"),
        ),
    ],
)
def test_columns_are_those_of_every_kind_of_query(tmp_path, query, columns):
    text = config(tmp_path).read_text()
    start, end = text.index("[query]"), text.index("[privacy]")
    (tmp_path / "people.toml").write_text(f"{text[:start]}[query]\n{query}\n{text[end:]}")
    (tmp_path / "histograms.toml").write_text(bounds_draft(tmp_path / "people.toml", 0.1, (-1, 2)))
    assert load_config(tmp_path / "histograms.toml").config.query.columns == columns


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f"features = [ {NAMES} ]", "", "names no columns"),
        (f"features = [ {NAMES} ]", "features = 3", "names no columns"),
        (NAMES, '{ name = "a" }, { name = "a" }', "two features"),
        ("rows_at_most = 10_000", "", "rows_at_most"),
        ("epsilon = 20.0", "", "epsilon"),
        ("delta = 1e-6", 'delta = 1e-6\nshare = "half"', "share"),
        ('dataset = "people"', "", "dataset"),
    ],
)
def test_a_config_that_says_too_little_is_refused_in_words(tmp_path, old, new, message):
    path = config(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        bounds_draft(path, 0.1, (-4, 30))
    assert len(str(caught.value)) < 500


CLIPPING = """kind = "box"
origin = "midpoint"
features = [
    { name = "age", lower = 0, upper = 40 },
    { name = "income", lower = 0, upper = 1e7 },
    { name = "debt", lower = 0, upper = 3e4 },
]

"""


def clipping(folder, shape=CLIPPING):
    """A config whose bounds clip many values of two of its columns."""
    path = support.write_config(folder, epsilon=20.0)
    text = path.read_text()
    path.write_text(text[: text.index('kind = "box"')] + shape + text[text.index("[privacy]") :])
    return path


def test_the_share_of_clipped_values_is_released_with_its_interval_and_no_exact_denominator(tmp_path):
    values = support.records(4000)
    support.write_records(tmp_path, values)
    path = clipping(tmp_path)
    done = invoke(
        "public", "bounds", "draft", path, "--output", tmp_path / "clipped.toml", "--count-clipped", "--share", 0.1
    )
    assert done.exit_code == 0, done.exception
    loaded = load_config(tmp_path / "clipped.toml")
    assert loaded.config.release.name == "covariance-clipped"
    support.set_budget(loaded, 60.0)
    plan, outcome = make_plan(loaded, NIGHT), run(loaded)
    assert plan.charge.mu**2 == pytest.approx(0.1 * make_plan(load_config(path), NIGHT).charge.mu ** 2, rel=1e-6)
    table = json.loads(make_report(plan, Ledger(plan.loaded.ledger_url), outcome).data.read_text())["estimates"]
    for row, column, (low, high) in zip(table, values.T, [(0, 40), (0, 1e7), (0, 3e4)], strict=True):
        clipped = np.mean((column < low) | (column > high))
        assert (row["lower bound"], row["upper bound"]) == (low, high)
        assert row["share outside, least"] <= clipped <= row["share outside, most"]
        assert row["share outside"] == pytest.approx(clipped, abs=0.02)  # more than seven deviations of its noise


def test_the_clipped_share_is_of_columns_with_bounds_alone(tmp_path):
    ball = "kind = 'ball'\nradius = 5\nfeatures = [ { name = 'a', origin = 1, count = 2 } ]\n\n"
    (tmp_path / "clipped.toml").write_text(clipped_draft(clipping(tmp_path, ball), 0.1))
    features = load_config(tmp_path / "clipped.toml").config.query.features
    assert [(each.name, each.edges) for each in features] == [("a1", (-4.0, 6.0)), ("a2", (-4.0, 6.0))]
    text = clipping(tmp_path).read_text()
    counts = (
        'kind = "counts"\nrows_at_most = 9\nmissing = "drop"\noutside = "clip"\naxes = [{ name = "a", cells = 2 }]\n'
    )
    start, end = text.index("[query]"), text.index("[privacy]")
    text = f"{text[:start]}[query]\n{counts}\n{text[end:]}".replace('kind = "shaped-gaussian"', 'kind = "gaussian"')
    (tmp_path / "people.toml").write_text(text.replace('optimise_for = "relative-error"\n', ""))
    with pytest.raises(ConfigError, match="bounds of their own"):
        clipped_draft(tmp_path / "people.toml", 0.1)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_out_of_range_is_refused(tmp_path, share):
    with pytest.raises(ConfigError, match="above 0 and below 1"):
        bounds_draft(config(tmp_path), share, (-4, 30))
    with pytest.raises(ConfigError, match="above 0 and below 1"):
        clipped_draft(config(tmp_path), share)


def test_commands_refuse_other_folders_and_names_and_overwrite_nothing(tmp_path):
    path = config(tmp_path)
    elsewhere = invoke("public", "bounds", "draft", path, "--output", tmp_path.parent / "histograms.toml")
    assert isinstance(elsewhere.exception, ConfigError)
    named = invoke("public", "bounds", "draft", path, "--output", tmp_path / "histograms.json")
    assert isinstance(named.exception, ConfigError)
    there = invoke("public", "bounds", "draft", path, "--output", path)
    assert isinstance(there.exception, StoreError)
    assert "features" in path.read_text()


def test_an_accepted_share_gives_narrower_bounds(tmp_path):
    outcome = histograms(tmp_path)
    strict, loose = (private_bounds.private_bounds(outcome.path, share) for share in (0.0, 0.4))
    widths = [[each.upper - each.lower for each in found.file.features] for found in (strict, loose)]
    assert np.all(np.array(widths[1]) <= widths[0])
    assert sum(widths[1]) < sum(widths[0])
    with pytest.raises(ConfigError, match=r"0 to 0\.5"):
        private_bounds.private_bounds(outcome.path, 0.7)


def test_columns_of_which_nothing_stands_out_are_named_and_left_out(tmp_path):
    """Of 400 records in many bins, at an epsilon at which the widest bins alone are found."""
    outcome = histograms(tmp_path, epsilon=3.0, share=0.35)
    found = private_bounds.private_bounds(outcome.path)
    rows = dict(found.rows("bounds.toml"))
    assert {each.name for each in found.file.features} | set(found.lost) == set(support.FEATURES)
    assert ("Not found" in rows) == bool(found.lost)


def test_a_column_of_zeros_whose_bounds_lie_near_zero_is_warned_of_with_a_remedy(tmp_path):
    rows = support.records(4000)
    rows[:, 1] = np.where(np.arange(4000) % 500 == 0, 1000.0, 0.0)
    support.write_records(tmp_path, rows)
    drafted = tmp_path / "histograms.toml"
    drafted.write_text(bounds_draft(config(tmp_path), 0.05, (-4, 30)))
    loaded = load_config(drafted)
    support.set_budget(loaded, 60.0)
    done = invoke("public", "bounds", "read", run(loaded).path, "--output", tmp_path / "bounds.toml", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)["warning"]
    assert told.startswith('"income": most values are zero')
    assert "Declare lower and upper that you know" in told


def test_a_release_that_tells_nothing_is_refused_with_a_remedy(tmp_path):
    outcome = histograms(tmp_path, epsilon=0.2, share=0.02)
    with pytest.raises(ConfigError, match="No column") as caught:
        private_bounds.private_bounds(outcome.path)
    assert len(str(caught.value)) < 400


def test_another_release_gives_no_bounds(tmp_path):
    outcome = run(support.prepare(tmp_path, epsilon=2.0))
    with pytest.raises(ConfigError, match="gives no bounds"):
        private_bounds.private_bounds(outcome.path)
    with pytest.raises(StoreError):
        private_bounds.private_bounds(tmp_path / "nothing.zarr")


def test_bounds_of_another_release_of_the_same_name_are_refused_before_anything_is_spent(tmp_path):
    outcome = histograms(tmp_path)
    found = private_bounds.private_bounds(outcome.path)
    (tmp_path / "bounds.toml").write_text(found.file.model_copy(update={"content_sha256": "0" * 64}).text())
    loaded = load_config(config(tmp_path, extra='bounds = "bounds.toml"\n'))
    charges = Ledger(loaded.ledger_url).budget("people").charges
    with pytest.raises(BlockveilError, match="another release people/covariance-bounds/2026-11-20"):
        run(loaded, NEXT)
    assert Ledger(loaded.ledger_url).budget("people").charges == charges


def test_bounds_whose_release_the_ledger_does_not_know_are_refused_before_anything_is_spent(tmp_path):
    outcome = histograms(tmp_path)
    private_bounds.save_bounds(private_bounds.private_bounds(outcome.path), tmp_path / "bounds.toml")
    loaded = load_config(config(tmp_path, extra='bounds = "bounds.toml"\n'))
    for ledger in tmp_path.glob("ledger.db*"):
        ledger.unlink()
    support.set_budget(loaded, 60.0)
    with pytest.raises(BlockveilError, match=r"the ledger has no release people/covariance-bounds/2026-11-20"):
        run(loaded, NEXT)
    assert Ledger(loaded.ledger_url).budget("people").charges == 0


def test_bounds_of_a_release_that_was_withdrawn_are_refused_before_anything_is_spent(tmp_path):
    outcome = histograms(tmp_path)
    private_bounds.save_bounds(private_bounds.private_bounds(outcome.path), tmp_path / "bounds.toml")
    loaded = load_config(config(tmp_path, extra='bounds = "bounds.toml"\n'))
    ledger = Ledger(loaded.ledger_url)
    ledger.withdraw("people/covariance-bounds/2026-11-20", "wrong")
    charges = ledger.budget("people").charges
    with pytest.raises(ConfigError, match=r"the release people/covariance-bounds/2026-11-20 was withdrawn"):
        run(loaded, NEXT)
    assert ledger.budget("people").charges == charges


def test_bounds_of_values_far_from_zero_are_narrow_in_one_charge_and_verify(tmp_path):
    """Three columns at 5 % of epsilon 2: between powers of two alone the first had 2,048 and 8,192."""
    rng = np.random.default_rng(9)
    rows = 30_000
    values = np.column_stack([rng.normal(4100, 3, rows), rng.normal(-4100, 0.5, rows), rng.normal(37, 0.5, rows)])
    support.write_records(tmp_path, values)
    path = config(tmp_path, 2.0)
    path.write_text(path.read_text().replace("rows_at_most = 10_000", "rows_at_most = 50_000"))
    drafted = tmp_path / "histograms.toml"
    drafted.write_text(bounds_draft(path, 0.05, (-10, 40)))
    loaded = load_config(drafted)
    ledger = support.set_budget(loaded, 60.0)
    outcome = run(loaded)
    assert ledger.budget("people").charges == 1
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    for (_, found), column in zip(private_bounds.private_bounds(outcome.path).found, values.T, strict=True):
        needed = float(np.diff(np.quantile(column, [0.001, 0.999]))[0])
        outside = float(np.mean((column < found.lower) | (column > found.upper)))
        assert found.upper - found.lower < 6.0 * needed
        assert outside < 0.01
        assert found.outside.least_share <= outside <= found.outside.most_share
    assert make_report(make_plan(loaded, NIGHT), Ledger(loaded.ledger_url), outcome)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("powers = [-1, 2]\n", "", "powers"),
        ("digits = 10", "digits = 21", "digits"),
        ('"age"', '"age, digits"', "digits"),
        ('{ name = "age" }', '{ name = "x", count = 60_000 }', "bins"),
    ],
)
def test_digits_that_cannot_be_counted_are_refused(tmp_path, old, new, message):
    drafted = tmp_path / "histograms.toml"
    drafted.write_text(bounds_draft(config(tmp_path), 0.1, (-1, 2)))
    assert old in drafted.read_text()
    drafted.write_text(drafted.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load_config(drafted)


def test_both_histograms_of_a_column_are_paid_for(tmp_path):
    drafted = tmp_path / "histograms.toml"
    drafted.write_text(bounds_draft(config(tmp_path, 1.0), 0.1, (-4, 30)))
    both = make_plan(load_config(drafted), NIGHT)
    drafted.write_text(drafted.read_text().replace("digits = 10\n", ""))
    alone = make_plan(load_config(drafted), NIGHT)
    assert both.charge.mu == pytest.approx(alone.charge.mu, rel=1e-6)
    ratio = both.design.entry_standard_deviation()[0, 0] / alone.design.entry_standard_deviation()[0, 0]
    assert ratio == pytest.approx(2.0**0.5, rel=1e-3)
