"""A file of settings of pictures that somebody has put into the present folder is not obeyed."""

import re
from datetime import date
from pathlib import Path

import matplotlib
import pytest

from blockveil.pipeline import report
from blockveil.pipeline.accuracy import rehearsal_picture
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.report.papers import LIGHT
from tests.house import support
from tests.pipeline.accuracy.test_rehearsal import KEY
from tests.pipeline.report.test_report import released

PIPELINE = Path(__file__).parents[3] / "pipeline"
TODAY = date(2026, 11, 20)


def page(folder):
    plan, outcome = released(folder)
    return lambda: report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()


def rehearsed(folder):
    made = rehearse(make_plan(support.prepare(folder), TODAY), Supposed(), KEY)
    return lambda: rehearsal_picture.picture(made).draw(LIGHT)


@pytest.mark.parametrize("prepared", [page, pytest.param(rehearsed, marks=pytest.mark.slow)])
def test_pictures_are_drawn_by_our_own_settings_whatever_lies_in_the_folder(tmp_path, prepared):
    foreign = tmp_path / "matplotlibrc"
    # By usetex LaTeX would run, with a text of whoever wrote the file.
    foreign.write_text("text.usetex: True\nfont.family: monospace\naxes.facecolor: red\nlines.linewidth: 30\n")
    draw = prepared(tmp_path)
    ours = draw()
    with matplotlib.rc_context(fname=foreign):  # what is done to the file of the present folder, on the first import
        assert matplotlib.rcParams["text.usetex"]
        assert draw() == ours


def test_no_picture_of_a_page_is_drawn_by_settings_of_the_folder():
    drawing = {path for path in PIPELINE.rglob("*.py") if re.search(r"\b(rc_context|Figure\()", path.read_text())}
    obeying = {path.name for path in drawing if "drawn_by(" not in path.read_text()}
    assert obeying == {"figures.py"}, "figures for the notebook of whoever has set them, and no page"
