"""Exact answers, records and keys are looked for in all that a cluster shows while and after it computes a release."""

import gzip
import re
import urllib.error
import urllib.parse
import urllib.request

import cloudpickle
import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import blockveil.engine.answers.layout
import blockveil.engine.answers.work
import blockveil.pipeline.data.zarr_arrays
from blockveil.engine.answers.layout import Tile
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.distributed_compute import DistributedCompute
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.night import run_release
from tests.end_to_end import test_leaks as leaks
from tests.house import support
from tests.pipeline.kinds.quantiles import test_quantiles as quantiles
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases.test_release import NIGHT

SECRET = bytes(range(100, 132))
MOMENT = support.CONFIG[support.CONFIG.index("[query]") + len("[query]\n") : support.CONFIG.index("[privacy]")]
QUERIES = {
    "second-moment": MOMENT.format(kind="second-moment").replace("{{", "{").replace("}}", "}"),
    "rows": queries.ROWS,
    "outer-products": queries.OUTER,
    "counts": queries.COUNTS,
    "totals": queries.ROWS.replace('"rows"', '"totals"'),
    "quantiles": quantiles.FOUR,
}


@pytest.fixture(scope="module")
def compute(tmp_path_factory):
    """A cluster that serves pages, as one that is reached by its address may; a local one serves none."""
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("cluster"))}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, security=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield DistributedCompute(client)


def answers(address):
    """All pages of a server that can be reached by links from those that Dask documents."""
    home = f"http://{address}/"
    first = ("info/main/workers.html", "info/call-stacks", "json/index.html", "sitemap.json", "status", "metrics")
    waiting, seen = [home + path for path in first], {}
    while waiting:
        place = waiting.pop()
        if place in seen or not place.startswith(home) or "/statics/" in place or "/proxy/" in place:
            continue
        try:
            with urllib.request.urlopen(place, timeout=10) as answer:
                seen[place] = answer.read()
        except urllib.error.HTTPError as refused:
            seen[place] = refused.read()
        links = re.findall(rb"(?:href|src)=\"([^\"#]+)\"", seen[place])
        waiting += [urllib.parse.urljoin(place, link.decode()) for link in links]
    return seen


def shown(client, folder):
    """What whoever can ask the cluster gets to see: state, task graphs, events, logs and pages."""
    place = folder / "state"
    client.dump_cluster_state(str(place), format="msgpack")
    state = gzip.decompress((folder / "state.msgpack.gz").read_bytes())

    def tasks(dask_scheduler):
        found = dask_scheduler.tasks.values()
        return cloudpickle.dumps([(str(t.key), t.run_spec, t.exception_text, t.annotations) for t in found])

    info = client.scheduler_info(n_workers=-1)
    servers = [f"127.0.0.1:{info['services']['dashboard']}"]
    servers += [f"127.0.0.1:{worker['services']['dashboard']}" for worker in info["workers"].values()]
    pages = {place: page for server in servers for place, page in answers(server).items()}
    assert any("/info/worker/" in place for place in pages)
    logs = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs()) + repr(client.get_events())
    return {"state": state, "tasks": client.run_on_scheduler(tasks), "logs": logs.encode(), **pages}


def traces(values, plan, query):
    """Byte strings that must be found nowhere."""
    shape = (len(values), 4) if query == "rows" else plan.design.shape
    (exact,) = plan.question.query.partial(values, 0, len(values), 50, [Tile((0, shape[0]), (0, shape[1]))])
    found = leaks.exact_rows(values, plan.question.query, shape) | leaks.keys({"key": SECRET})
    for number in exact[np.abs(exact) > 2**40].tolist()[:200]:  # tiles hold parts of rows
        found[f"sum {number} as int64"] = np.int64(number).tobytes()
        found[f"sum {number} as float64"] = np.float64(number).tobytes()
        found[f"sum {number} as text"] = str(number).encode()
    return found | {f"record {i}": row.tobytes() for i, row in enumerate(values)}


@pytest.mark.parametrize("query", QUERIES)
def test_nothing_private_shows_on_a_cluster_that_writes_in_blocks(tmp_path, monkeypatch, compute, query):
    client, during = compute._client, {}
    values = support.records() if query == "second-moment" else queries.records(QUERIES[query])
    held_whole = query in ("counts", "totals", "quantiles")
    if not held_whole:
        monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 2)
        monkeypatch.setattr(blockveil.pipeline.data.zarr_arrays, "CHUNK_SIDE", 2)
        monkeypatch.setattr(blockveil.engine.answers.layout.grid, "__defaults__", (0, 2))
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(SECRET))
    loaded = queries.prepare(tmp_path, QUERIES[query], values)
    plan = make_plan(loaded, NIGHT)
    assert plan.answer.work(len(values)).blocked == (not held_whole)

    def look(stage, share):
        if share == 1.0:  # of the sums, and of the noise, which the scheduler knows then
            during.update({f"{stage}: {name}": found for name, found in shown(client, tmp_path).items()})

    outcome = run_release(plan, compute, "test", look)
    wanted = traces(values, plan, query)
    stored = {str(file): file.read_bytes() for file in leaks.files_below(outcome.path.parent)}
    stored |= {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("ledger")}
    after = shown(client, tmp_path)
    looked_at = during | after | stored
    found = [
        (name, place) for place, content in looked_at.items() for name, trace in wanted.items() if trace in content
    ]
    assert found == []
    for stage, place in (("reading", "state"), ("reading", "tasks"), ("drawing", "state"), ("drawing", "/info/task/")):
        assert any(name.startswith(stage) and place in name and b"blockveil-" in seen for name, seen in during.items())


def test_a_value_in_a_task_or_on_a_page_would_be_found(tmp_path, compute):
    number = int.from_bytes(SECRET[:7], "big")
    client, key = compute._client, f"a-task-named-after-{number}"
    held = client.submit(lambda value: value, SECRET, key=key)
    held.result()
    found = shown(client, tmp_path)
    assert SECRET in found["tasks"]
    assert str(number).encode() in found["state"]
    assert any(str(number).encode() in page for path, page in found.items() if "info/" in path)
