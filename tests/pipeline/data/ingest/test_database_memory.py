"""A table that is larger than the memory is read within it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_ingest import GROWTH

ROWS, COLUMNS = 2_000_000, 40
NUMBERS = {
    "duckdb": f"FROM range({ROWS}) AS numbers (i)",
    "sqlite": f"FROM (WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {ROWS}) SELECT i FROM n)",
    "postgresql": f"FROM generate_series(0, {ROWS - 1}) AS numbers (i)",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs a kernel that tells the peak of a process")
def test_a_table_that_is_larger_than_the_memory_is_read_within_it(tmp_path, database):
    real = "REAL" if database.kind == "sqlite" else "DOUBLE PRECISION"
    parts = ", ".join(f"CAST(i AS {real}) / {column + 7} AS x{column}" for column in range(1, COLUMNS + 1))
    database.execute(f"CREATE TABLE visits AS SELECT {parts} {NUMBERS[database.kind]}")
    columns = [{"name": "x", "kind": "number", "missing": "refuse", "count": COLUMNS}]
    loaded = people.configure(tmp_path, columns, database.source("SELECT * FROM visits WHERE x1 >= 0"), memory_gib=0.6)
    code = [sys.executable, "-c", GROWTH, str(loaded.path)]
    shown = subprocess.run(code, capture_output=True, text=True, check=True, timeout=600, cwd=Path(__file__).parents[4])
    assert 8 * ROWS * COLUMNS / 2**30 > 0.59
    assert float(shown.stdout) < 0.6
    assert people.stored(tmp_path)[:, 0].shape == (ROWS,)
