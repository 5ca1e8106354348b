"""A number that two commands print is one number, or the second says why it is another."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.report.own_units import measured
from tests.house import support

FEATURES = [f'{{ name = "x{i}", lower = {-i}, upper = {3 * i + 2} }}' for i in range(24)]
MADE_UP = f"""[release]
dataset = "made-up"
name = "covariance"
[data]
store = "records.zarr"
[query]
kind = "covariance"
rows_at_most = 40000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{", ".join(FEATURES)}]
[privacy]
epsilon = 0.5
delta = 1e-6
neighbours = "replace-one"
unit = "one household"
[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"
[cluster]
kind = "threads"
[output]
root = "releases"
ledger = "private/ledger.db"
keys = "private/keys"
"""


def say(*words):
    """What a command prints."""
    done = CliRunner().invoke(app, [str(word) for word in words], terminal_width=10_000)
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.stdout


def line(text, name):
    """The line of a page that begins with a name."""
    (found,) = re.findall(rf"(?m)^{name}  +(.+)$", text)
    return found


def demo(folder):
    """The demo's config, released."""
    return folder / "blockveil-demo" / "configs" / "quickstart.toml", say("demo")


def made_up(folder):
    """A config of uneven boxes with one direction that all features share, released."""
    rng = np.random.default_rng(5)
    shared = rng.uniform(0, 1, (30_000, 1))
    width = 4.0 * np.arange(24) + 2
    support.write_records(folder, -np.arange(24.0) + width * (0.8 * shared + 0.2 * rng.uniform(0, 1, (30_000, 24))))
    config = folder / "made-up.toml"
    config.write_text(MADE_UP)
    say("ledger", "grant", config, "--epsilon", "2", "--delta", "1e-5")
    return config, say("run", config, "--date", "2026-11-20", "--no-prefect")


@pytest.fixture(scope="module", params=[demo, made_up], ids=["demo", "made-up"])
def told(request, tmp_path_factory):
    """What each command says of one release."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("told")
        patched.chdir(folder)
        config, run = request.param(folder)
        pointer = next(folder.rglob("releases/*/covariance/20??-??-??.json"))
        report = json.loads(next(pointer.parent.glob("*.report.json")).read_text())
        yield {"config": config, "run": run, "pointer": pointer, "report": report, "opened": bv.open(str(pointer))}


def test_what_is_left_of_the_budget_is_one_number(told):
    shown = json.loads(say("ledger", "budget", told["config"], "--json"))
    forecast = json.loads(say("ledger", "forecast", told["config"], "--json"))
    plan = say("plan", told["config"])
    for name, key in (("Budget", "budget"), ("Spent", "spent"), ("Left", "left")):
        assert line(plan, name) == line(told["run"], name) == told["report"]["budget"][name] == shown[key]
    assert line(told["run"], "Guesses") == told["report"]["budget"]["Guesses"] == shown["guesses"]
    nights = f"{forecast['nights_left']} more releases like this one"
    assert line(plan, "Nights left") == line(told["run"], "Nights left") == told["report"]["budget"]["Nights left"]
    assert line(plan, "Nights left") == nights
    assert shown["nights_left"] == forecast["nights_left"]


def test_what_a_night_costs_is_one_number(told):
    (cost,) = json.loads(say("ledger", "forecast", told["config"], "--json"))["costs"]
    share, epsilon = f"{100 * cost['share']:.3g} % of the budget", f"alone epsilon {cost['epsilon']:.4g} at"
    charge = line(say("plan", told["config"]), "Charge")
    assert share in charge
    assert epsilon in charge
    assert f"mu {told['report']['guarantee']['loss']['mu']:.6g}," in charge


def test_the_noise_that_a_plan_states_is_that_of_the_release(told):
    plan = json.loads(say("plan", told["config"], "--json"))["calibration"]
    plan = plan.get("learning", {"ellipsoid": plan})["ellipsoid"]  # the demo's last stage is in the one that it learns
    stated = told["report"]["mechanism"]
    assert {name: stated[name] for name in ("scale", "sensitivity", "grid", "grid_standard_deviation")} == {
        name: plan[name] for name in ("scale", "sensitivity", "grid", "grid_standard_deviation")
    }


def test_the_estimates_of_a_report_are_those_of_the_calls(told):
    opened, numbers = told["opened"], told["report"]["numbers"]
    assert numbers["count"]["value"] == float(opened.count)
    assert numbers["count"]["standard_deviation"] == float(opened.standard_error.count)
    np.testing.assert_allclose(opened.mean, numbers["mean"]["value"], rtol=1e-12)
    np.testing.assert_allclose(opened.standard_error.mean, numbers["mean"]["standard_deviation"], rtol=1e-12)
    for each in told["report"]["estimates"]:
        name = each["feature"]
        assert float(opened.covariance.loc[name, name]) == pytest.approx(each["variance"], rel=1e-12)
        error = float(opened.standard_error.covariance.loc[name, name])
        assert error == pytest.approx(each["noise of the variance"], rel=1e-12)


def test_the_correlations_of_a_report_are_those_of_the_calls(told):
    sections = [each for each in told["report"]["sections"] if each.get("key") == "what-stands-out"]
    (strongest,) = [each["table"] for each in sections[0]["within"] if "table" in each]
    assert strongest
    for each in strongest:
        first, _, second = each["pair"].partition(" and ")
        value, _, error = each["correlation"].partition(" ± ")
        called = float(told["opened"].correlation.loc[first, second])
        noise = float(told["opened"].standard_error.correlation.loc[first, second])
        assert measured(called, noise) == f"{value} ± {error}"


def test_directions_are_counted_alike_or_it_is_said_why_not(told):
    leading = say("public", "eigenpairs", told["pointer"])
    found = told["report"]["spectrum"]["above_noise"]
    (page,) = told["pointer"].parent.glob("*.html")
    assert f"{found or 'none'} of {len(told['report']['spectrum']['values'])} eigenvalues" in page.read_text()
    above = int(line(leading, "Above it").split(" of ")[0])
    if found != above:
        assert "tested direction by direction, and in units of the noise, and may find more" in leading
        assert "tests of single numbers, and of directions in units of standard deviations" in page.read_text()


def test_components_are_those_of_the_leading_part(told):
    components = told["opened"].pca(5)
    for number, variance in enumerate(components.explained_variance, start=1):
        shown = line(say("public", "eigenpairs", told["pointer"], "--count", 5), f"component {number}")
        assert float(shown.split()[0].replace(",", "")) == pytest.approx(float(variance), rel=1e-3)


def test_what_verify_says_of_the_noise_is_what_the_report_says(told):
    checked = json.loads(say("verify", told["pointer"], "--json"))["releases"][0]["checked"]
    words = " ".join(each["words"] for each in checked)
    guarantee = told["report"]["guarantee"]
    assert f"epsilon {guarantee['epsilon']:g}" in words
    assert f"{guarantee['delta']:g}" in words
