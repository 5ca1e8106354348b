"""The page on synthetic records runs as it is written, where the program that it fits with is installed."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.test_python_page import BLOCKS, write_people

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "synthetic.md").read_text()


def test_the_page_makes_up_records_whose_tables_are_near_the_released_ones(tmp_path, monkeypatch):
    pytest.importorskip("mbi", reason="a program of the reader's choice, not of this project")
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    known = {"print": lambda *_: None}
    for block in (*BLOCKS[:2], next(block for block in BLOCKS if "marginals" in block)):
        exec(compile(block, "docs/python.md", "exec"), known)
    (block,) = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE)
    exec(compile(block, "docs/how-to/synthetic.md", "exec"), known)
    people, release = known["people"], known["release"]
    made_up = np.histogram2d(people["height"], people["weight"], [np.arange(8) - 0.5, np.arange(4) - 0.5])[0]
    released = release.array("table_1")
    assert np.abs(made_up - released).max() < 12 * release.array("table_1_standard_deviation").max()
    assert made_up.sum() == pytest.approx(released.sum(), abs=2.0)
