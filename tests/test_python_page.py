"""The page for programs and notebooks runs as it is written, one block after the other."""

import re
from pathlib import Path

import numpy as np
import pytest
import zarr

from blockveil.pipeline.report import papers

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE)


def write_people(folder):
    rng = np.random.default_rng(6)
    height = rng.normal(172, 9, 15_000)
    weight = 0.9 * (height - 172) + rng.normal(74, 9, height.size)
    values = np.column_stack([height, weight, rng.uniform(20, 85, height.size)])
    group = zarr.open_group(folder / "people.zarr", mode="w")
    group.create_array("records", shape=values.shape, chunks=(5000, 3), dtype="f8")[...] = values

    came = (rng.uniform(size=height.size) < 1.0 / (1.0 + np.exp(0.1 * (height - 172)))).astype(np.float64)
    group = zarr.open_group(folder / "visits.zarr", mode="w")
    stored = group.create_array("records", shape=(height.size, 4), chunks=(5000, 4), dtype="f8")
    stored[...] = np.column_stack([values, came])


def run(blocks, shown):
    known = {"print": lambda *said: shown.append(" ".join(map(str, said)))}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"block {number}", "exec"), known)
    return known


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "svg_text", lambda figure, theme, layout: "<svg/>")  # of the report, not of the page
    write_people(tmp_path)
    shown = []
    known = run(BLOCKS, shown)
    assert len(BLOCKS) == 9
    assert "Nights left" in shown[1]
    assert "escape the ledger" in shown[-1]
    assert (tmp_path / "heatmap.png").stat().st_size > 0
    low, high = known["low"].loc["height", "weight"], known["high"].loc["height", "weight"]
    assert low <= known["release"].correlation.loc["height", "weight"] <= high
    assert high - low < 0.2
    assert known["fit"].coefficients["height"] < 0
    assert known["fit"].p_values["height"] < 1e-3


def test_the_lines_of_the_readme_run(tmp_path, monkeypatch):
    (block,) = re.findall(r"(?ms)^```python\n(.*?)^```", README)
    assert len(block.strip().splitlines()) <= 6
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "svg_text", lambda figure, theme, layout: "<svg/>")
    write_people(tmp_path)
    known = run(BLOCKS[:1], [])
    lines = []
    for name, value in known["config"].items():
        lines += [f"[{name}]", *(f"{key} = {toml(part)}" for key, part in value.items())]
    (tmp_path / "people.toml").write_text("\n".join(lines))
    shown = []
    run([block], shown)
    assert all(shown[0].count(name) >= 4 for name in ("height", "weight", "age")), "names on both axes of both"
    assert all(name in shown[1] for name in ("height", "age"))


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


@pytest.mark.parametrize(
    "name", ["init", "ingest", "plan", "budget", "run", "open", "sklearn", "BlockveilError", "PromiseWarning"]
)
def test_the_page_names_everything_that_the_package_offers(name):
    assert f"bv.{name}" in PAGE
