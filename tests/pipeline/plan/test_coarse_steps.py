"""A plan says where whole steps make noise larger than its guarantee needs, and its remedy ends that."""

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.coarse_steps import MOST_EXCESS, coarse_steps
from blockveil.pipeline.plan.planning import make_plan, plan_near
from blockveil.pipeline.plan.summary import describe
from tests.pipeline.kinds.marginals import test_marginals as tables

NIGHT = date(2026, 11, 20)
CELLS = tables.QUERY.replace("ways = 2", "ways = 3").replace("cells = 4", "cells = 100").replace("= 2 }", "= 100 }")
MECHANISMS = (tables.RESIDUALS, tables.GAUSSIAN, 'kind = "laplace"\noptimise_for = "absolute-error"')


def planned(folder, rows, query=CELLS, mechanism=tables.RESIDUALS):
    path = tables.asked(folder, query, mechanism=mechanism).path
    text = path.read_text().replace("rows_at_most = 500", f"rows_at_most = {rows}")
    path.write_text(text.replace("delta = 1e-6", f"delta = {0.01 / rows}"))
    return make_plan(load_config(path), NIGHT)


@pytest.mark.parametrize("rows", [10**11, 10**12])
def test_a_plan_whose_steps_are_too_coarse_says_so_and_fewer_records_end_it(tmp_path, rows):
    plan = planned(tmp_path, rows)
    found = coarse_steps(plan)
    assert found.factor > MOST_EXCESS
    assert f"{rows:,} records" in found.sentence
    assert found.sentence in [text for what, text in describe(plan, None) if what == "Warning"]
    assert found.sentence in " ".join(CliRunner().invoke(app, ["plan", str(plan.loaded.path)]).output.split())
    assert coarse_steps(planned(tmp_path, 10**8)) is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_plan_of_records_that_there_may_be_has_coarse_steps(tmp_path, mechanism):
    assert coarse_steps(planned(tmp_path, 10**7, mechanism=mechanism)) is None


@pytest.mark.parametrize("path", sorted(Path("configs").glob("*.toml")), ids=lambda path: path.stem)
def test_no_shipped_config_has_coarse_steps(path):
    if "[query]" in path.read_text():
        assert coarse_steps(plan_near(load_config(path), NIGHT)) is None
