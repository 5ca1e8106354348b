"""Principal directions from a config to a published release: both ways, the same bits, charged once."""

from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import LOSS_TICK, SAMPLER_TICK
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.charged_steps import measure, reserve
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from tests.house import support

pytestmark = pytest.mark.usefixtures("pictures_in_words")
NIGHT = date(2026, 11, 20)
QUERY = """[query]
kind = "principal-directions"
directions = 2
rows_at_most = 4000
missing = "refuse"
[query.geometry]
kind = "ball"
radius = 2.0
features = [ { name = "x", origin = 0.5, count = 5 } ]

"""
MOMENT = QUERY.replace('"principal-directions"\ndirections = 2', '"second-moment"')
RNG = np.random.default_rng(3)
AXES = np.linalg.qr(RNG.standard_normal((5, 5)))[0]
VALUES = 0.5 + (RNG.standard_normal((3000, 5)) * np.array([1.1, 0.7, 0.15, 0.1, 0.1])) @ AXES.T


def config(folder, mechanism, *, query=QUERY, epsilon=4.0, block_rows=50):
    text = support.CONFIG.format(kind="rows", epsilon=epsilon, neighbours="add-remove", cluster='kind = "threads"')
    text = text[: text.index("[query]")] + query + text[text.index("[privacy]") :]
    text = text[: text.index("[mechanism]")] + f"[mechanism]\n{mechanism}\n" + text[text.index("[compute]") :]
    path = folder / "config.toml"
    path.write_text(text.replace("block_rows = 50", f"block_rows = {block_rows}"))
    return load_config(path)


def release(folder, mechanism, **options):
    folder.mkdir(exist_ok=True)
    support.write_records(folder, VALUES)
    loaded = config(folder, mechanism, **options)
    support.set_budget(loaded, 5.0)
    plan = make_plan(loaded, NIGHT)
    return plan, run_release(plan, ThreadCompute(2), "test", lambda *_: None)


def arrays(outcome):
    group = zarr.open_group(str(outcome.path), mode="r")
    return {name: group[name][...] for name in group.array_keys()}, dict(group.attrs)


@pytest.mark.parametrize("mechanism", ["exponential", "gaussian", "analyze-gauss", "laplace"])
def test_directions_are_released_near_the_truth_and_charged_once(tmp_path, mechanism):
    extra = '\noptimise_for = "relative-error"' if mechanism == "laplace" else ""
    epsilon = 0.9 if mechanism == "analyze-gauss" else 4.0
    plan, outcome = release(tmp_path / "a", f'kind = "{mechanism}"{extra}', epsilon=epsilon)
    found, attributes = arrays(outcome)
    frame = found["directions"]
    assert frame.shape == (5, 2)
    assert np.allclose(frame.T @ frame, np.eye(2), atol=1e-10)
    assert np.all(frame[np.argmax(np.abs(frame), axis=0), [0, 1]] > 0)
    sines = 2 - np.sum((frame.T @ AXES[:, :2]) ** 2)
    assert sines < 0.05
    assert ("second_moment" in found) == (mechanism != "exponential")
    assert attributes["matrix"] == ("directions" if mechanism == "exponential" else "second_moment")
    budget = Ledger(plan.loaded.ledger_url).budget("people")
    assert budget.charges == 1
    if mechanism == "exponential":  # all of it, and the distance of two draws
        assert budget.spent.pure * LOSS_TICK == pytest.approx(epsilon)
        assert budget.spent.sampler * SAMPLER_TICK >= 2 * 2.0**-100
    again = run_release(plan, ThreadCompute(2), "again", lambda *_: None)
    assert again.output_digest == outcome.output_digest
    assert Ledger(plan.loaded.ledger_url).budget("people").charges == 1


@pytest.mark.parametrize(("mechanism", "words"), [("exponential", "density exp(2 v"), ("gaussian", "Sensitivity")])
def test_a_report_says_how_directions_were_made(tmp_path, mechanism, words):
    plan, outcome = release(tmp_path, f'kind = "{mechanism}"')
    page = make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()
    assert words in page
    assert "principal directions" in page.lower()


def test_drawn_directions_reveal_nothing_else(tmp_path):
    _, outcome = release(tmp_path, 'kind = "exponential"')
    found, attributes = arrays(outcome)
    assert set(found) == {"feature", "direction", "directions", "directions_standard_deviation"}
    assert np.all(found["directions_standard_deviation"] == 5**-0.5)
    assert attributes["error"] == {}
    assert attributes["guarantee"]["loss"]["mu"] == 0.0
    assert attributes["guarantee"]["loss"]["total_variation"] == 2 * 2.0**-100


def test_the_same_key_draws_the_same_bits_whatever_the_blocks(tmp_path):
    """A run that stops after the commit is finished by another with other blocks: same key, same bits."""
    support.write_records(tmp_path, VALUES)
    digests = []
    for block_rows in (50, 700):
        loaded = config(tmp_path, 'kind = "exponential"', block_rows=block_rows)
        support.set_budget(loaded, 5.0)
        plan, books = support.opened(make_plan(loaded, NIGHT))
        reservation = reserve(plan, books, f"attempt {block_rows}")
        digests.append(measure(plan, books, reservation, ThreadCompute(2), lambda *_: None).output_digest)
    assert digests[0] == digests[1]


def test_auto_takes_drawn_directions_where_delta_is_small_and_the_gap_too(tmp_path):
    query = QUERY.replace("directions = 2", "directions = 1")
    spectrum = "x1 = 0.03, x2 = 0.01, x3 = 0.01, x4 = 0.01, x5 = 0.01"
    auto = f'kind = "auto"\nminimise = {{ kind = "subspace", dimension = 1, variance = {{ {spectrum} }} }}'
    chosen = []
    for delta in ("1e-6", "1e-12"):
        config(tmp_path, auto, query=query, epsilon=1.0)
        text = (tmp_path / "config.toml").read_text().replace("delta = 1e-6", f"delta = {delta}")
        (tmp_path / "config.toml").write_text(text)
        plan = make_plan(load_config(tmp_path / "config.toml"), NIGHT)
        errors = [row.error for row in plan.compared if row.error is not None]
        assert errors == sorted(errors)
        chosen.append(plan.mechanism.name)
    # A gap of 4000 * 0.02 / 4 = 20 lies between the two variances of Gaussian noise, about 18 and 48.
    assert chosen == ["shaped-gaussian", "exponential"]
    support.write_records(tmp_path, VALUES)
    support.set_budget(plan.loaded, 5.0)
    assert set(arrays(run_release(plan, ThreadCompute(2), "test", lambda *_: None))[0]) >= {"directions"}


def test_a_plan_says_the_law_and_the_error_without_data(tmp_path):
    plan = make_plan(config(tmp_path, 'kind = "exponential"'), NIGHT)
    lines = dict(summary.describe(plan, None))
    assert "exp(2 v'Av)" in lines["Law"]
    assert lines["Charge"].startswith("pure epsilon 4 ")
    assert "squared sine distance of the 2 directions" in lines["Expected error"]
    assert plan.public["calibration"]["directions"] == 2
    noisy = dict(summary.describe(make_plan(config(tmp_path, 'kind = "gaussian"'), NIGHT), None))
    assert "at most" in noisy["Expected error"]


@pytest.mark.parametrize(
    ("mechanism", "query", "words"),
    [
        (
            'kind = "exponential"',
            QUERY.replace('"principal-directions"\ndirections = 2', '"second-moment"'),
            "directions",
        ),
        ('kind = "exponential"', QUERY.replace("directions = 2", "directions = 5"), "fewer than all"),
        ('kind = "gaussian"', QUERY.replace("directions = 2", "directions = 5"), "fewer than all"),
        ('kind = "exponential"', QUERY.replace("4000", "9_000_000_000"), "delta"),
        ('kind = "exponential"', QUERY.replace("count = 5", "count = 400"), "at most 256"),
        ('kind = "discrete-laplace"', QUERY, "counts"),
        ('kind = "exponential"', QUERY.replace("directions = 2\n", ""), "directions is not given"),
    ],
)
def test_what_cannot_be_released_is_refused_before_data_is_read(tmp_path, mechanism, query, words):
    with pytest.raises(ConfigError, match=words):
        make_plan(config(tmp_path, mechanism, query=query), NIGHT)


def test_directions_in_a_matrix_shape_are_never_drawn_as_if_they_were_those_of_features(tmp_path):
    # One scale for all features, as in a ball, but directions would be those of whitened records.
    np.save(tmp_path / "shape.npy", np.eye(5) + 0.5)
    shape = 'kind = "ellipsoid"\nshape = "shape.npy"'
    query = QUERY.replace('kind = "ball"\nradius = 2.0', shape)
    with pytest.raises(ConfigError, match="declare a ball"):
        make_plan(config(tmp_path, 'kind = "exponential"', query=query), NIGHT)
    assert make_plan(config(tmp_path, 'kind = "gaussian"', query=query), NIGHT).answer.matrix == "second_moment"


def test_analyze_gauss_is_refused_by_a_plan_where_its_claim_is_false(tmp_path):
    loaded = config(tmp_path, 'kind = "analyze-gauss"', epsilon=10.0)
    with pytest.raises(ConfigError, match="published noise has mu"):
        make_plan(loaded, NIGHT)
