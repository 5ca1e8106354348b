"""Planted raw values, un-noised sums and keys are looked for in everything that a run leaves behind or shows."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blockveil.engine.answers import gram
from blockveil.engine.answers.layout import Tile
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.keys import KeyStore
from tests.end_to_end.served import with_tables
from tests.house import support
from tests.pipeline.kinds.quantiles import test_quantiles as quantiles
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases.test_release import NIGHT

ROOT = Path(__file__).parents[2]

RUN = """
if __name__ == "__main__":  # workers import this file too
    import os, pickle, sys, tempfile
    from pathlib import Path
    out = Path(sys.argv[2])
    tempfile.tempdir = str(out / "tmp")
    os.makedirs(tempfile.tempdir)
    import blockveil.engine.noise.discrete_gaussian
    from blockveil.flows.cluster.clusters import DistributedCompute
    from blockveil.pipeline.releases.keys import KeyStore

    destroy = KeyStore.destroy
    def keep_then_destroy(self, charge_id):
        secret = self.read(charge_id)
        if secret:
            (out / "secret").write_bytes(secret)
        destroy(self, charge_id)
    KeyStore.destroy = keep_then_destroy

    derive = blockveil.engine.noise.discrete_gaussian.NoiseKey.derive.__func__
    def keep_derived(cls, secret, context):
        key = derive(cls, secret, context)
        if any(secret):  # simulations have a public key, of zeros
            (out / "derived").write_bytes(key._secret)
        return key
    blockveil.engine.noise.discrete_gaussian.NoiseKey.derive = classmethod(keep_derived)

    def dump(dask_scheduler):
        import cloudpickle
        tasks = dask_scheduler.tasks
        parts = [repr(list(tasks)).encode(), repr([dask_scheduler.story(key) for key in tasks]).encode()]
        parts += [repr((t.exception_text, t.traceback_text)).encode() for t in tasks.values()]
        parts += [cloudpickle.dumps(t.run_spec) for t in tasks.values()]
        parts += [repr(dict(dask_scheduler.get_events())).encode()]
        return b"".join(parts)

    stream = DistributedCompute.stream
    def stream_and_look(self, *args):
        stream(self, *args)
        logs = repr(self._client.get_worker_logs()) + repr(self._client.get_scheduler_logs())
        (out / "seen").mkdir()
        (out / "seen" / "scheduler").write_bytes(self._client.run_on_scheduler(dump) + logs.encode())
        import shutil
        shutil.copytree(tempfile.tempdir, out / "seen" / "scratch", dirs_exist_ok=True, ignore_dangling_symlinks=True)
    DistributedCompute.stream = stream_and_look

    sys.argv = ["blockveil", "--debug", "run", sys.argv[1], "--date", "2026-11-20", *sys.argv[3:]]
    from blockveil.flows.cli import main
    main()
"""


def traces(records, plan, secrets):
    """Byte strings that must be found nowhere."""
    found = {"canary as float64": struct.pack("<d", support.CANARY), "canary as text": b"271828.18"}
    exact = gram.partial_gram(records, 0, len(records), plan.question.query.quantiser, 100)
    integers = plan.question.query.quantiser.quantise(records)
    found["quantised canary record"] = integers[len(records) // 2].tobytes()
    for i in range(1, plan.question.query.quantiser.width):
        found[f"exact sum {i} as int64"] = struct.pack("<q", int(exact[0, i]))
        found[f"exact sum {i} as float64"] = struct.pack("<d", float(exact[0, i]))
        found[f"exact sum {i} as text"] = str(int(exact[0, i])).encode()
    return found | keys(secrets)


def keys(secrets):
    found = {}
    for name, secret in secrets.items():
        found[name] = secret
        found[f"{name} in hexadecimal"] = secret.hex().encode()
        found[f"{name} as text"] = repr(secret).encode()[2:-1]
    return found


def exact_rows(records, query, shape):
    """Rows of the exact answer that chance would not write: byte strings that must be found nowhere."""
    (answer,) = query.partial(records, 0, len(records), 50, [Tile((0, shape[0]), (0, shape[1]))])
    rows = [row for row in answer if np.count_nonzero(row) > 1 or np.abs(row).max() > 2**24]
    assert rows
    found = {}
    for i, row in enumerate(rows):
        found[f"row {i} of the exact answer as int64"] = row.tobytes()
        found[f"row {i} of the exact answer as float64"] = row.astype(float).tobytes()
        found[f"row {i} of the exact answer as text"] = ", ".join(map(str, row.tolist())).encode()
    return found


def search(files, wanted):
    return [
        f"{name} in {file}"
        for file in files
        for content in [file.read_bytes()]
        for name, trace in wanted.items()
        if trace in content
    ]


def files_below(*folders):
    return [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]


def blockveil(folder, loaded, out, home, *words):
    """Run a release in a process that also writes down its secrets and what the scheduler knows."""
    script = folder / "run.py"
    script.write_text(RUN)
    return subprocess.run(
        [sys.executable, str(script), str(loaded.path), str(out), *words],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(with_tables(home)),
            "PREFECT_LOGGING_LEVEL": "DEBUG",
        },
        capture_output=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("outcome", ["released", pytest.param("refused", marks=pytest.mark.slow)])
def test_nothing_private_is_left_or_shown_anywhere(tmp_path, outcome):
    people, out, home = tmp_path / "people", tmp_path / "out", tmp_path / "home"
    for folder in (people, out, home):
        folder.mkdir()
    values = support.records()
    loaded = support.prepare(people, values=values, cluster="local")
    plan = make_plan(loaded, NIGHT)
    if outcome == "refused":
        broken = values.copy()
        broken[5, 1] = np.nan
        support.write_records(people, broken)
    shown = blockveil(tmp_path, loaded, out, home)
    assert (shown.returncode == 0) == (outcome == "released"), shown.stderr.decode()[-2000:]
    (tmp_path / "shown").write_bytes(shown.stdout + shown.stderr)
    secrets = {name: (out / name).read_bytes() for name in ("secret", "derived") if (out / name).exists()}
    assert len(secrets) == (2 if outcome == "released" else 0)
    wanted = traces(values, plan, secrets)
    looked_at = [tmp_path / "shown", *files_below(home, loaded.output_root, out / "seen", out / "tmp")]
    looked_at += [file for file in people.iterdir() if file.is_file()]  # the ledger and its journal
    assert any(file.name == "prefect.db" for file in looked_at)
    assert search(looked_at, wanted) == []
    assert KeyStore(loaded.keys_root).list() == []
    # The search finds what is there: the records hold the canary, and a file with the key would be noticed.
    assert search(files_below(out), {"secret": secrets["secret"]} if secrets else {}) != [] or not secrets
    plain = tmp_path / "plain"
    plain.write_bytes(values.tobytes())
    assert search([plain], wanted) == [f"canary as float64 in {plain}"]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(queries.ROWS, id="rows", marks=pytest.mark.slow),
        pytest.param(queries.OUTER, id="outer-products", marks=pytest.mark.slow),
        pytest.param(queries.COUNTS, id="counts", marks=pytest.mark.slow),
        pytest.param(queries.ROWS.replace('"rows"', '"totals"'), id="totals", marks=pytest.mark.slow),
        pytest.param(quantiles.FOUR, id="quantiles", marks=pytest.mark.slow),
    ],
)
def test_no_query_leaves_its_exact_answer_anywhere(tmp_path, query):
    people, out, home = tmp_path / "people", tmp_path / "out", tmp_path / "home"
    for folder in (people, out, home):
        folder.mkdir()
    values = queries.records(query)
    path = queries.prepare(people, query, values).path
    path.write_text(path.read_text().replace('kind = "threads"', 'kind = "local"\nalways_start_workers = true'))
    loaded = load_config(path)
    plan = make_plan(loaded, NIGHT)
    shown = blockveil(tmp_path, loaded, out, home, "--no-prefect")
    assert shown.returncode == 0, shown.stderr.decode()[-2000:]
    (tmp_path / "shown").write_bytes(shown.stdout + shown.stderr)
    secrets = {name: (out / name).read_bytes() for name in ("secret", "derived")}
    shape = (len(values), 4) if query is queries.ROWS else plan.design.shape
    exact = exact_rows(values, plan.question.query, shape)
    records = {f"record {i}": row.tobytes() for i, row in enumerate(values)}
    looked_at = [tmp_path / "shown", *files_below(home, loaded.output_root, out / "seen", out / "tmp")]
    looked_at += [file for file in people.iterdir() if file.is_file()]
    assert out / "seen" / "scheduler" in looked_at
    assert search(looked_at, {**exact, **records, **keys(secrets)}) == []
    plain = tmp_path / "plain"
    plain.write_bytes(b"".join(exact.values()))
    assert len(search([plain], exact)) == len(exact)
