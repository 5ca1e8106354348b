"""The tables of the page of mechanisms are what the benchmark prints today."""

import re
from pathlib import Path

import pytest

from benchmarks.mechanisms import ball_ratios, balls, table
from blockveil.engine.mechanisms.auto import Metric

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "mechanisms.md").read_text()
TOTAL = {
    "shaped": ("shaped-gaussian", None),
    "gaussian, imgm": ("gaussian", None),
    "mvg-exact": ("mvg-exact", None),
    "classic": ("classic-gaussian", None),
    "laplace": ("laplace", None),
    "mgm": ("mgm", None),
    "mvg (square root)": ("mvg", "square-root"),
    "mvg (as printed)": ("mvg", "published"),
}
WORKLOAD = {
    "matrix mechanism": ("matrix-mechanism", None),
    "hierarchical, Laplace": ("hierarchical", "laplace"),
    "hierarchical, Gaussian": ("hierarchical", "gaussian"),
    "discrete Laplace on cells": ("discrete-laplace", None),
    "Gaussian on cells": ("gaussian", None),
}


def rows_below(heading, header):
    """Cells of the table below a heading, by the names of its columns."""
    part = PAGE.split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {header} |"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def is_shown(cell, value):
    """Whether a number is what a cell rounds it to; words stand for what does not apply."""
    if not re.match(r"[\d.,]+(e\d+)?$", cell):
        return value is None
    digits = (
        len(re.sub(r"e\d+$|[.,]|^0\.0*", "", cell).rstrip("0")) if "," in cell else len(re.sub(r"e\d+$|\.", "", cell))
    )
    return value is not None and float(cell.replace(",", "")) == pytest.approx(value, rel=0.6 * 10.0 ** (1 - digits))


def smallest(comparison, mechanism, choice):
    """Error over the best of the rows of a mechanism, with one of its parameters; None where it does not apply."""
    found = [
        row.error
        for row in comparison.table
        if row.error is not None and row.mechanism == mechanism and (not choice or choice in row.parameters.values())
    ]
    return min(found) / comparison.table[0].error if found else None


@pytest.mark.parametrize(
    ("heading", "header", "metric", "columns"),
    [
        ("## Expected error at the same guarantee", "shape", "total", TOTAL),
        ("### Workloads of counts", "workload", "workload", WORKLOAD),
    ],
)
def test_the_tables_of_expected_error_are_what_the_benchmark_prints(heading, header, metric, columns):
    shown, computed = rows_below(heading, header), table(Metric(metric))
    assert len(shown) == len(computed)
    for row, (name, comparison) in zip(shown, computed.items(), strict=True):
        for column, (mechanism, choice) in columns.items():
            assert is_shown(row[column], smallest(comparison, mechanism, choice)), (name, column, row[column])


def test_the_table_of_boxes_within_balls_is_what_the_benchmark_prints():
    shown, computed = rows_below("## Boxes within balls", "shape"), balls()
    assert len(shown) == len(computed)
    for row, (name, problems) in zip(shown, computed.items(), strict=True):
        assert row["shape"].rpartition(" ")[2] == name.rpartition(" ")[2]
        for column, value in zip(("box alone", "ball alone"), ball_ratios(problems), strict=True):
            assert is_shown(row[column], value), (name, column)
