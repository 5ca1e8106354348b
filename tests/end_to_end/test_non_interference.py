"""With noise alone in place of answer and noise, entirely different records give the same bytes everywhere.

A hunt for planted values proves the absence of those; this proves it of every influence of the records at once: on each
published file and its size, the report, its JSON, the pointer, the ledger, what is logged and every line that is shown.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from blockveil.pipeline.base.kinds import FOLDERS
from tests.end_to_end.served import with_tables
from tests.house import support
from tests.pipeline.kinds.gradients import test_training as training
from tests.pipeline.kinds.quantiles import test_quantiles as quantiles
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases import test_directions_release as directions
from tests.pipeline.releases import test_sparse_release as sparse

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("noise_alone.py")

MOMENT = support.CONFIG[support.CONFIG.index("[query]") + len("[query]\n") : support.CONFIG.index("[privacy]")]
MOMENT = MOMENT.replace("{{", "{").replace("}}", "}")
WORKLOAD = queries.COUNTS.replace('outside = "drop"', 'outside = "drop"\nworkload = "prefixes"')
LINE = """kind = "counts"
rows_at_most = 500
missing = "refuse"
outside = "drop"
workload = "ranges"
axes = [{ name = "x", lower = -0.5, upper = 0.5, cells = 64 }]
"""
HISTOGRAMS = """kind = "column-histograms"
rows_at_most = 500
missing = "drop"
powers = [-4, 10]
features = [ { name = "x", count = 3 }, { name = "y", edges = [-0.2, 0.0, 0.2] } ]
"""
TABLES = """kind = "marginals"
rows_at_most = 500
missing = "refuse"
outside = "clip"
ways = 2
axes = [ { name = "x", edges = [-1, 0, 1] }, { name = "y", edges = [-1, 0, 1] }, { name = "z", edges = [-1, 0, 1] } ]
"""
STEPS = """[query.training]
steps = 5
batches = "full"
examples = 300
optimiser = "adam"
learning_rate = 0.5
"""
FIXED = STEPS.replace('"full"', '"fixed"\nbatch_count = 3\nbatch_seed = "any text"')
SAMPLES = STEPS.replace('"full"', '"poisson"\nsampling_probability = 0.3')
GAUSSIAN, SHAPED = 'kind = "gaussian"', 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
ADD, REPLACE = "add-remove", "replace-one"


LATER = ("2026-11-21", "2026-11-22")
SERIES = """
[continual]
nights = 5
first = 2026-11-20
windows = [2]
"""
"""Added to the config of cases whose nights share a charge; their records arrive in three parts, of other sizes."""


def query_of(text):
    return text[text.index("[query]") + len("[query]\n") :]


FOLLOWING = 'kind = "shaped-diagonal"\noptimise_for = "absolute-error"'
CASES = {
    "covariance": (MOMENT.replace("{kind}", "covariance"), ADD, SHAPED, 3, ""),
    "covariance-replace-one": (MOMENT.replace("{kind}", "covariance"), REPLACE, SHAPED, 3, ""),
    "second-moment": (MOMENT.replace("{kind}", "second-moment"), ADD, 'kind = "auto"\nminimise = "total"', 3, ""),
    "second-moment-diagonal": (MOMENT.replace("{kind}", "second-moment"), ADD, 'kind = "box-diagonal"', 3, ""),
    "covariance-diagonal": (MOMENT.replace("{kind}", "covariance"), ADD, FOLLOWING, 3, ""),
    "covariance-joint": (MOMENT.replace("{kind}", "covariance"), ADD, FOLLOWING.replace("shaped", "joint"), 3, ""),
    "outer-products": (queries.OUTER, ADD, GAUSSIAN, 4, ""),
    "gradients": (training.QUERY + training.LOGISTIC, ADD, GAUSSIAN, 4, ""),
    "gradients-hidden": (training.QUERY + training.LOGISTIC.replace("logistic", "softmax"), ADD, GAUSSIAN, 4, ""),
    "gradients-training": (training.QUERY + training.LOGISTIC + STEPS, ADD, GAUSSIAN, 4, ""),
    "gradients-fixed": (training.QUERY + training.LOGISTIC + FIXED, ADD, GAUSSIAN, 4, ""),
    "gradients-samples": (training.QUERY + training.LOGISTIC + SAMPLES, ADD, GAUSSIAN, 4, ""),
    "directions": (query_of(directions.QUERY), ADD, GAUSSIAN, 5, ""),
    "directions-drawn": (query_of(directions.QUERY), ADD, 'kind = "exponential"', 5, ""),
    "counts": (queries.COUNTS, ADD, 'kind = "discrete-laplace"', 2, ""),
    "counts-gaussian": (queries.COUNTS, ADD, GAUSSIAN, 2, ""),
    "counts-workload": (WORKLOAD, ADD, 'kind = "matrix-mechanism"', 2, ""),
    "counts-ranges": (LINE, ADD, 'kind = "hierarchical"\nnoise = "laplace"', 1, ""),
    "counts-buckets": (LINE, ADD, 'kind = "dawa"', 1, ""),
    "column-histograms": (HISTOGRAMS, ADD, GAUSSIAN, 4, ""),
    "marginals": (TABLES, ADD, 'kind = "residuals"', 3, ""),
    "quantiles": (quantiles.FOUR, ADD, GAUSSIAN, 4, ""),
    "rows": (queries.ROWS, REPLACE, SHAPED, 4, ""),
    "rows-laplace": (queries.ROWS, REPLACE, 'kind = "laplace"\noptimise_for = "absolute-error"', 4, ""),
    "rows-k-norm": (queries.ROWS, REPLACE, 'kind = "k-norm"', 4, ""),
    "gradients-k-norm": (training.QUERY + training.LOGISTIC, ADD, 'kind = "k-norm"', 4, ""),
    "totals": (queries.ROWS.replace('"rows"', '"totals"'), ADD, SHAPED, 4, ""),
    "totals-replace-one": (queries.ROWS.replace('"rows"', '"totals"'), REPLACE, GAUSSIAN, 4, ""),
    "series": (MOMENT.replace("{kind}", "covariance"), ADD, SHAPED, 3, ""),
    "series-replace-one": (MOMENT.replace("{kind}", "second-moment"), REPLACE, GAUSSIAN, 3, ""),
    "series-marginals": (TABLES, ADD, 'kind = "residuals"', 3, ""),
    "series-counts": (WORKLOAD, ADD, 'kind = "matrix-mechanism"', 2, ""),
    "series-gradients": (training.QUERY + training.LOGISTIC, ADD, GAUSSIAN, 4, ""),
    "series-outer-products": (queries.OUTER, ADD, GAUSSIAN, 4, ""),
    "series-totals": (queries.ROWS.replace('"rows"', '"totals"'), ADD, SHAPED, 4, ""),
    "sparse": (sparse.QUERY.format(kind="covariance", origin="zero"), ADD, SHAPED, 60, "density_at_most = 0.05"),
}
"""Query, neighbouring relation, mechanism, columns of the records, and a line of ``[compute]``."""

LEAKS = {
    "the number of rows is logged": "logged",
    "the number of rows is the size of a file": "padding",
    "a sum moves a number": "zarr/covariance/c/0/0",
    "the fingerprint is published": "zarr/zarr.json",
}
"""Leaks to plant, and the file of each; a folder of such a name has it."""

MEANT = {"fingerprint", "history", "spec_digest", "attempt"}
"""What a ledger's payload is meant to say of the records, and of the process: nobody but its owner reads it."""


def records(case, columns, side):
    """Entirely different records: ordinary ones, or fewer and extreme ones where the number is not public."""
    rng = np.random.default_rng(side)
    if side == 0:
        values = rng.uniform(-0.4, 0.4, (400, columns))
    else:
        rows = 400 if CASES[case][1] == REPLACE else 227
        values = np.where(rng.random((rows, columns)) < 0.5, 1e7, -3e8) * rng.random((rows, columns))
    if case == "sparse":
        values[rng.random(values.shape) < (0.98 if side == 0 else 0.999)] = 0.0
    if "gradients" in case:
        values[:, -1] = rng.integers(0, 2, len(values)) if side == 0 else 1.0
    return values


def write(folder, case, side, cluster, later):
    query, neighbours, mechanism, columns, compute = CASES[case]
    folder.mkdir(parents=True)
    text = support.CONFIG.format(kind="rows", epsilon=4.0, neighbours=neighbours, cluster=support.CLUSTERS[cluster])
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + query + "\n" + text[end:]
    start, end = text.index("[mechanism]"), text.index("[compute]")
    text = text[:start] + f"[mechanism]\n{mechanism}\n\n" + text[end:]
    text = text.replace("block_rows = 50", f"block_rows = 50\n{compute}")
    series = case.startswith("series")
    (folder / "people.toml").write_text(text + SERIES * series)
    public = neighbours == REPLACE  # the number of records
    ends = ((200, 330) if public or side == 0 else (60, 200)) if series else ()
    first, *arriving = np.split(records(case, columns, side), ends[:later])
    support.write_records(folder, first)
    for date, part in zip(LATER, arriving, strict=False):
        np.save(folder / f"arrive-{date}.npy", part)


def is_short(case, conductor):
    """Whether two nights on threads do, where what workers say of a series is compared with another one."""
    return conductor == "prefect" and case.startswith("series-")


def later(case, conductor):
    """How many nights follow the first of a case."""
    return (1 if is_short(case, conductor) else len(LATER)) if case.startswith("series") else 0


def released(folder, cases, side, *, cluster="threads", conductor="plain"):
    """Release cases in one place, since paths are shown, and move what they left aside.

    One process releases all of them, because most of its time goes into imports.
    """
    work, kept = folder / "work", folder / f"side-{side}"
    for case in cases:
        own = "threads" if is_short(case, conductor) else cluster
        write(work / case, "covariance" if case in LEAKS else case, side, own, later(case, conductor))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), conductor, *(str(work / case) for case in cases)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(with_tables(folder / f"home-{side}")),
            "DASK_LOGGING__DISTRIBUTED": "info",
            "PREFECT_LOGGING_LEVEL": "DEBUG",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for case in cases:
        (work / case / "process").write_text(done.stdout + done.stderr)
    if conductor == "prefect":  # its threads may log what belongs to one case while the next is made
        logged = "".join((work / case / "logged").read_text() for case in cases)
        for case in cases:
            (work / case / "logged").write_text(logged)
    shutil.move(work, kept)
    return kept


def left(folder):
    """Bytes of all files of a side but its records, its config and its ledger; and what the ledger's rows say."""
    found = {"ledger": rows(folder / "ledger.db")}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith(("records.zarr/", "arrive-", "people.toml", "ledger.db")):
            found[name] = path.read_bytes()
    return found


def rows(ledger):
    with sqlite3.connect(ledger) as connection:
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute("SELECT * FROM entry ORDER BY sequence")]
    connection.close()
    return [{**row, "payload": without(json.loads(row["payload"]))} for row in found]


def without(value):
    """A payload without what it is meant to say of the records."""
    if isinstance(value, dict):
        return {name: without(part) for name, part in value.items() if name not in MEANT}
    return [without(part) for part in value] if isinstance(value, list) else value


REPLACED = (
    (r"0x[0-9a-f]{6,}|(?<=memory://)[0-9]+", "ADDRESS IN MEMORY"),
    (r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "TIME"),
    (r"\b\d+(?:\.\d+)?(?:e-\d+)? ?(?:s|ms|min|seconds)\b", "DURATION"),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
    (r"\b(process|pid) \d+", r"\1 PID"),
    (r"(stimulus_id=.[a-z-]+)[0-9.]+", r"\1TIME"),
    (r"\bid=\d+", "id=OBJECT"),
    (r'(_run_time\\*": )\d+\.\d+', r"\1DURATION"),
    (r"\bhome-[01]\b", "HOME"),
    (r"\b(plan|reserve budget|measure and add noise|publish|seal|report)-[0-9a-f]{3}\b", r"\1-RUN"),
    (r'"[a-z]+-[a-z]+(?=\\", \\"prefect.run-count\\": \\"0)', '"NAME OF A NEW RUN'),
)
"""What is random, of the clock or of the process in what is logged; nothing else is replaced."""

LOADED = (
    r"Event loop was unresponsive|Worker process (still alive|PID was killed by signal 9)|full garbage collections"
    r"|prefect\.client Received response with retryable status code 503\b"
)
"""Lines in which Dask complains of a busy machine, and Prefect's client of a server that is."""

HUNG_UP = (
    r"INFO distributed\.comm\.tcp Connection from \S+ closed before handshake completed\n"
    r"|INFO distributed\.batched Batched Comm Closed .*\n(?:Traceback .*\n(?:.*\n)*?\S*CommClosedError(?:: .*)?\n)?"
)
"""What Dask says of a connection that ends before anything was said, or before a last message had come through."""

PLUMBING = ("httpcore", "httpx", "websockets", "asyncio", "prefect.events.clients", "prefect._internal")
"""Loggers of what carries Prefect's messages: how often they speak depends on the clock."""


def settled(text):
    for pattern, name in REPLACED:
        text = re.sub(pattern, name, text)
    return text


def lines(content):
    """Lines whose order says nothing, for threads and processes write beside each other."""
    found = re.sub(HUNG_UP, "", settled(content.decode())).splitlines()
    found = [line for line in found if not line.split(" ", 1)[-1].startswith(PLUMBING)]
    return [line for line in found if not re.search(LOADED, line)]


def differences(one, other):
    """Names of what is not the same on both sides."""
    differing = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    for name in {"logged", "process"}.intersection(differing):
        first, second = Counter(lines(one[name])), Counter(lines(other[name]))
        if first == second:
            differing.remove(name)
        else:
            print(name, [*(first - second), "against", *(second - first)])
    return sorted(differing)


SLOW = {
    "covariance-replace-one",
    "gradients-hidden",
    "gradients-fixed",
    "gradients-samples",
    "counts-gaussian",
    "counts-ranges",
    "rows-laplace",
    "rows-k-norm",
    "gradients-k-norm",
    "second-moment-diagonal",
    "totals-replace-one",
    "series",
    "series-replace-one",
    "series-marginals",
    "series-counts",
    "series-gradients",
    "series-outer-products",
    "series-totals",
}
"""Further mechanisms and relations of queries that the others ask too."""

PLAIN = {"counts-buckets", "counts-workload", "directions-drawn", "series-outer-products", "series-totals"}
"""What is asked without Prefect alone: other mechanisms, and sums whose nights are charged as those of others are."""

BESIDE_LEAKS = ("covariance", "series")
"""What is asked beside the planted leaks; another test asks the others."""


def same(sides, case):
    one, other = (left(side / case) for side in sides)
    assert set(json.loads(one["codes"])) == {0}, one["shown"].decode()
    assert len([name for name in one if name.endswith((".html", ".json"))]) >= 5
    return differences(one, other)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return [released(folder, [*BESIDE_LEAKS, *LEAKS], side) for side in (0, 1)]


@pytest.mark.parametrize("end", ["", ": in <TCP (closed)>: Stream is closed"])
def test_only_what_dask_says_of_a_closed_connection_is_left_out(end):
    said = (
        "INFO distributed.batched Batched Comm Closed <TCP (closed)>\n"
        f"Traceback (most recent call last):\n  a line\ndistributed.comm.core.CommClosedError{end}\n"
    )
    assert re.sub(HUNG_UP, "", f"before\n{said}after\n{said}last\n") == "before\nafter\nlast\n"


def test_every_kind_of_query_is_among_the_cases():
    asked = {kind for query, *_ in CASES.values() for kind in re.findall(r'(?m)^kind = "([\w-]+)"', query)}
    assert set(FOLDERS) <= asked


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", BESIDE_LEAKS)
def test_a_release_without_prefect_depends_on_nothing_but_the_noise(sides, case):
    assert same(sides, case) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(sides, leak):
    found = same(sides, leak)
    assert any(name.endswith(LEAKS[leak]) for name in found), found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_so_do_all_other_queries_and_mechanisms(tmp_path):
    others = sorted(CASES.keys() - set(BESIDE_LEAKS))
    sides = [released(tmp_path, others, side) for side in (0, 1)]
    assert {case: same(sides, case) for case in others} == {case: [] for case in others}


OWN = {"block_schema", "block_type", "block_schema_reference", "configuration"}
"""Tables of what Prefect's server brings with it, in an order of its own."""

TIMED = "SELECT id FROM events WHERE event IN ('prefect.artifact.updated', 'prefect.flow-run.heartbeat')"
"""Signs of life, and progress on the way, whose steps depend on the number of rows: that is a stated limit."""


def database(home):
    """What Prefect's server holds of the runs: all rows of its tables, without ids and times."""
    found = {}
    with sqlite3.connect(home / "prefect.db") as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in tables - OWN:
            kept = {"events": f"WHERE id NOT IN ({TIMED})", "event_resources": f"WHERE event_id NOT IN ({TIMED})"}
            rows = connection.execute(f'SELECT * FROM "{table}" {kept.get(table, "")}').fetchall()
            found[table] = sorted(settled(json.dumps(row, default=repr)) for row in rows)
    connection.close()
    return found


def by_prefect(folder, cases, cluster):
    """Each case's differences, and the tables of Prefect's database that differ."""
    sides = [released(folder, cases, side, cluster=cluster, conductor="prefect") for side in (0, 1)]
    one, other = (database(folder / f"home-{side}") for side in (0, 1))
    assert len(one["flow_run"]) == sum(1 + later(case, "prefect") for case in cases)
    assert len(one["log"]) > 20
    assert len(one["artifact"]) > 7
    tables = sorted(name for name in one if one[name] != other[name])
    for name in tables:
        first, second = Counter(one[name]), Counter(other[name])
        print(name, [*(first - second), "against", *(second - first)])
    return {case: same(sides, case) for case in cases}, tables


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_release_by_prefect_and_dask_depends_on_nothing_but_the_noise(tmp_path):
    assert by_prefect(tmp_path, ["covariance"], "local") == ({"covariance": []}, [])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_so_does_every_query_by_prefect(tmp_path):
    cases = sorted(CASES.keys() - SLOW - PLAIN)
    assert by_prefect(tmp_path, cases, "local") == ({case: [] for case in cases}, [])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_so_do_nights_that_share_a_charge_by_prefect(tmp_path):
    cases = sorted(case for case in CASES.keys() - PLAIN if case.startswith("series"))
    assert by_prefect(tmp_path, cases, "local") == ({case: [] for case in cases}, [])
