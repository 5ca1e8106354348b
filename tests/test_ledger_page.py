"""The ledger's page shows what its commands print."""

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import composition
from blockveil.engine.guarantees.calibration import gaussian_epsilon
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.guessing import percent
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.planning import make_plan

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ledger.md").read_text()


@pytest.fixture
def config(tmp_path):
    """The quickstart after three nights; a ledger needs the plans' charges, not the records."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    path = tmp_path / "configs" / "quickstart.toml"
    loaded = load_config(path)
    moments = ["19T09:00", "20T02:00", "20T02:01", "20T02:02", "21T02:00", "21T02:01", "22T02:00", "22T02:01"]
    clock = iter(moments)
    ledger = Ledger(loaded.ledger_url, now=lambda: f"2026-11-{next(clock)}:00+00:00")
    ledger.set_budget("credit-default", 3.0, 1e-5, Neighbours.ADD_REMOVE, loaded.config.privacy.unit)
    for day, end in ((20, "released"), (21, "void"), (22, "commit")):
        plan = make_plan(loaded, date(2026, 11, day))
        charge = ledger.reserve(ChargeRequest(
            release_id=plan.release_id, dataset="credit-default", spec={}, spec_digest="0" * 64, charge=plan.charge,
            neighbours=plan.neighbours, unit=loaded.config.privacy.unit, attempt="one",
        )).charge_id  # fmt: skip
        if end == "void":
            ledger.void_if_reserved(charge, "DataError")
        else:
            ledger.commit(charge, "check")
        if end == "released":
            ledger.released(charge, "digest", "place")
    return path


def test_the_statement_on_the_page_is_the_one_that_is_printed(config):
    ((command, shown),) = re.findall(r"```\n\$ blockveil (ledger show [^\n]*)\n(.*?)```", PAGE, re.DOTALL)
    words = [str(config) if word.startswith("configs/") else word for word in command.split()]
    printed = CliRunner().invoke(app, words)
    assert printed.output == shown


def test_the_numbers_that_the_page_explains_are_those_of_the_statement(config):
    lines = json.loads(CliRunner().invoke(app, ["ledger", "show", str(config), "--json"]).output)
    example = dict(re.findall(r"^\| (No|Cost|Spent|Epsilon|Guess|State) \| ([^|]+) \|", PAGE, re.MULTILINE))
    first, last = lines[1], lines[-1]
    assert example["No"] == str(first["sequence"])
    assert example["Cost"] == f"{100 * first['cost_share']:.3g} %"
    assert example["Spent"] == f"{100 * last['spent_share']:.3g} %"
    assert last["spent_share"] == pytest.approx(2 * first["cost_share"])
    assert (example["Epsilon"], example["Guess"]) == (f"{last['spent']:.4g}", percent(last["guess"]))
    assert f"One release is {first['cost']:.4g} there" in PAGE
    assert example["State"] == first["state"]
    assert f"not {2 * first['cost']:.4g}:" in PAGE
    assert first["delta"] == 1e-5


def test_the_nights_on_the_page_are_those_of_the_page_on_accounting():
    """Whose table another test holds against the benchmark."""
    accounting = (ROOT / "docs" / "accounting.md").read_text()
    wanted = re.findall(
        r"^\| Gaussian, mu 0.05 \| (\S+) \| (\S+) \| \S+ \| (\S+) \| (\S+) \|$", accounting, re.MULTILINE
    )
    shown = re.findall(r"^\| ([\d,]+) \| (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert shown == wanted
    assert [int(row[0].replace(",", "")) for row in shown] == [*composition.NIGHTS]
    assert f"alone, epsilon {gaussian_epsilon(0.05, composition.DELTA):.3g}" in PAGE
