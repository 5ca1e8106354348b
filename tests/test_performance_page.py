"""The page on performance shows what the cost model says, and benchmarks say what they ran on."""

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks import fleets, machine
from blockveil.pipeline.sections.geometry_section import MOST_FEATURES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()
CLOCKS = {"perf_counter", "process_time", "monotonic", "seconds"}


def test_the_table_of_fleets_is_what_its_command_prints():
    assert "\n".join(fleets.table()) in PAGE


def test_what_the_page_says_of_the_table_is_in_it():
    said = " ".join(PAGE.split())
    measured, largest = fleets.cut(fleets.FLEETS[0]), fleets.cut(fleets.FLEETS[-1])
    assert f"48 s where it says {measured.exact_seconds:.0f}," in said
    assert f"26 s where it says {measured.noise_seconds + measured.writing_seconds:.0f}." in said
    assert largest.work.entries * 8 == pytest.approx(40e9, rel=0.02)
    assert largest.ranges * len(largest.work.tiles) == pytest.approx(500_000, rel=0.05)
    assert f"at most {MOST_FEATURES:,} features" in said
    wide = fleets.cut(fleets.Fleet(50_000, 4_000, 2, 4))
    assert f"the model says {wide.peak_bytes / 2**30:.1f} GiB a worker" in said
    assert (fleets.FLEETS[-1].features / fleets.FLEETS[0].features) ** 2 == 25


def test_the_plan_that_the_page_shows_is_that_of_the_cost_model():
    asked = fleets.Fleet(20_000, 200_000, 4, 4)
    found = fleets.cut(asked)
    assert f"Computed by     {found.explain()}\n" in PAGE
    # A plan reads whole records in its 32 MiB.
    memory = found.peak_bytes - 3 * (fleets.CHUNK_BYTES % (8 * asked.features))
    assert f"at most {memory / 2**20:,.0f} of {asked.memory * 1024:,} MiB a worker" in PAGE


def names(tree):
    """Names and attributes that a program uses."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def timed():
    """Benchmarks that are commands and have a clock."""
    for file in sorted((ROOT / "benchmarks").glob("*.py")):
        text = file.read_text()
        if "__main__" in text and names(ast.parse(text)) & CLOCKS:
            yield file


@pytest.mark.parametrize("file", list(timed()), ids=lambda file: file.stem)
def test_a_benchmark_with_a_clock_sets_its_threads_and_says_what_it_ran_on(file):
    text = file.read_text()
    begins = re.search(r'__name__ == "__main__":\n    machine\.begin\(1?\)\n', text)
    # Its workers and this process have threads of their own, and it says what multiplies in them.
    by_itself = file.stem == "covariance" and "instructions()" in text and "threadpool_limits(" in text
    assert begins or by_itself


@pytest.mark.parametrize(("threads", "told"), [(1, "threads of BLAS: 1"), (None, "as many threads of BLAS as cores")])
def test_threads_are_those_of_the_benchmark_whatever_the_environment_says(monkeypatch, capsys, threads, told):
    for name in machine.THREADS:
        monkeypatch.setenv(name, "3")
    monkeypatch.setattr(machine.Path, "read_text", lambda _: "flags: fpu avx2 sse")
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(None):  # puts back what there was
        machine.begin(threads)
        found = {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
    assert found == {threads or os.cpu_count()}
    assert {os.environ.get(name) for name in machine.THREADS} == {threads and str(threads)}
    said = capsys.readouterr().out
    assert said.startswith("avx2; ")
    assert said.rstrip().endswith(told)
