"""Sections that no shipped config has, and releases whose attributes somebody has changed: refused in words.

The rules and the ways of changing a file are those of :mod:`.test_fuzz`.
"""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockveil.pipeline import report
from blockveil.pipeline.base.printable import is_hidden
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.public import weights
from blockveil.pipeline.report.release_site import make_site
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.forged import forged
from tests.pipeline.releases.test_release import NIGHT, run
from tests.pipeline.test_fuzz import (
    CONFIGS,
    HOSTILE,
    attempt,
    changed,
    mutated,
    places,
    planned_or_refused,
)

pytestmark = pytest.mark.timeout(1800)

SHIPPED = {
    name: (CONFIGS / f"{name}.toml").read_text()
    for name in ("growing", "marginals", "train-model", "totals", "bounds", "durations", "deployments")
}

ELSEWHERE = """upload = "s3://releases/people"
upload_credentials = "env:NOBODY"
lineage = "env:NOBODY"
lineage_key = "env:NOBODY"
[approval]
threshold_share = 0.2
officers = { "A. Officer" = "file:officer.pub" }
[cluster]
kind = "address"
address = "tls://scheduler.example.org:8786"
tls_ca_file = "file:ca.pem"
tls_client_cert = "file:cert.pem"
tls_client_key = "env:KEY"
"""

CLASS = """[cluster]
kind = "class"
cluster_class = "dask_jobqueue.SLURMCluster"
workers = 8
wait_minutes = 120
[cluster.arguments]
queue = "batch"
security = true
"""

CONTINUAL = SHIPPED["growing"].replace("nights = 365", "nights = 30\nwindows = [7, 28]")
LAYERS = SHIPPED["train-model"].replace(
    "[query.training]",
    'hidden_units = [8, 4]\nactivation = "relu"\nweights = "w.npz"\nweights_sha256 = "DIGEST"\n[query.training]',
)
TABLES = re.sub(r"(?m)^ *\{ name = \"(education|occupation)\".*\n", "", SHIPPED["marginals"])
TABLES = TABLES.replace("ways = 2", 'tables = [["age", "income"], ["sex"]]')
SECTIONS = {
    "nights": CONTINUAL.replace("[privacy]", "[privacy]\nrows_per_unit = 2") + ELSEWHERE,
    "tables": TABLES + CLASS,
    "layers": LAYERS,
    "totals": SHIPPED["totals"],
    "bounds": SHIPPED["bounds"],
    "part": SHIPPED["durations"].replace("[data]", '[data]\npartition_by = "ward"').replace("65_536", "64"),
}
"""A release config for each of the newest sections."""

DEPLOYED = SHIPPED["deployments"].replace('mode = "release"', 'mode = "release"\ningest = "ingest-example"')
DEPLOYED += """
[[ingest]]
config = "ingest-example"
cron = "0 4 * * *"
timezone = "UTC"
[site]
upload = "s3://public/pages"
upload_credentials = "file:site.env"
"""

QUERY = (
    "SELECT v.person AS person, v.cost AS cost, CASE WHEN v.stay > 3 THEN 1 ELSE 0 END AS stay, d.rate FROM visits v "
    "LEFT JOIN days d ON v.day = d.day WHERE v.ward = 'a'"
)
DATABASE = """[ingest]
store = "out.zarr"
append = true
late = "refuse"
[source]
{where}
query = "{query}"
public = [{{ table = "days", key = "day" }}]
arrival = {{ column = "written", first = 2026-11-01 }}
[unit]
kind = "choose"
name = "one person"
column = "person"
type = "whole"
missing = "drop"
seed = "a"
rows_at_most = 5
[[columns]]
kind = "number"
name = "cost"
missing = "refuse"
[[columns]]
kind = "whole"
name = "stay"
missing = "refuse"
"""
WHERE = {
    "duckdb": 'kind = "duckdb"\nfile = "a.duckdb"',
    "sqlite": 'kind = "sqlite"\nfile = "a.db"',
    "postgresql": 'kind = "postgresql"\naddress = "env:NOBODY"',
}
SOURCES = {kind: DATABASE.format(where=where, query=QUERY) for kind, where in WHERE.items()}
SOURCES["delta"] = re.sub(
    r"(?s)append = .*?\[unit\]",
    'partition = { column = "day", type = "date", equals = "2026-11-20" }\n'
    '[source]\nkind = "delta"\ntable = "visits"\nversion = 3\n[unit]',
    SOURCES["sqlite"],
)
SOURCES["iceberg"] = SOURCES["delta"].replace(
    'kind = "delta"\ntable = "visits"\nversion = 3',
    'kind = "iceberg"\ntable = "clinic.visits"\ncatalog = "clinic"\nsnapshot = 3',
)


def fewer(test):
    """A search of fewer examples than of the configs that are shipped."""
    return settings(suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples * 2 // 5)(test)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Configs as shipped, beside which mutants lie."""
    found = tmp_path_factory.mktemp("sections")
    for file in CONFIGS.glob("*.toml"):
        (found / file.name).write_bytes(file.read_bytes())
    shape = weights.shapes(24, (8, 4), 1)
    (found / "DIGEST").write_text(weights.save(weights.random(shape, 1), found / "w.npz"))
    return found


def section(folder, name):
    """Text of a config, with the digest of the weights that it names."""
    return SECTIONS[name].replace("DIGEST", (folder / "DIGEST").read_text())


def loaded(read, path, content):
    path.write_bytes(content)
    return attempt(lambda: read(path))


@pytest.mark.parametrize("name", SECTIONS)
def test_what_is_changed_works_as_it_is(folder, name):
    path = folder / "whole.toml"
    path.write_text(section(folder, name))
    assert planned_or_refused(path) is not None


def test_so_do_deployments_and_sources(folder):
    assert loaded(load_deployments, folder / "deployments.toml", DEPLOYED.encode()) is not None
    for text in SOURCES.values():
        assert loaded(load_ingest, folder / "whole-ingest.toml", text.encode()) is not None


@pytest.mark.parametrize("name", SECTIONS)
@fewer
@given(data=st.data())
def test_a_config_of_the_newest_sections_is_planned_or_refused(folder, name, data):
    path = folder / "mutant.toml"
    path.write_bytes(data.draw(mutated(section(folder, name))))
    planned_or_refused(path)


@fewer
@given(content=mutated(DEPLOYED))
def test_deployments_with_a_site_and_ingests_are_read_or_refused(folder, content):
    loaded(load_deployments, folder / "deployments.toml", content)


@pytest.mark.parametrize("kind", SOURCES)
@fewer
@given(data=st.data())
def test_an_ingest_from_a_table_is_read_or_refused(folder, kind, data):
    loaded(load_ingest, folder / "ingest-mutant.toml", data.draw(mutated(SOURCES[kind])))


@st.composite
def queries(draw):
    """A query of which words are replaced, repeated or left out."""
    words = QUERY.split()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(SQL), max_size=2))
    return " ".join(words)


SQL = [
    *QUERY.split(), "*", "(", ")", ";", "--", "/*", "'", '"', "$$x$$", "E'\\x41'", "now()", "rowid", "ctid", "||",
    "random()", "count(*)", "OVER()", "(SELECT 1)", "UNION", "LIMIT", "ORDER BY 1", "DISTINCT", "WITH", "pg_class",
    "read_csv('a')", "::date", "CAST(cost AS INT)", "'now'", "COLLATE", "CURRENT_DATE", "visits", "LATERAL", "?", ":x",
    "INTERVAL '1' DAY", "[1]", "{'a': 1}", "x -> 1", "EXISTS", "ANY", "0x1F", "1e400", "U&'x'", "\U0001d7d8", "NULL",
]  # fmt: skip


@pytest.mark.parametrize("kind", WHERE)
@fewer
@given(data=st.data())
def test_a_query_is_taken_or_refused(folder, kind, data):
    text = DATABASE.format(where=WHERE[kind], query=data.draw(queries()).replace("\\", "\\\\").replace('"', '\\"'))
    loaded(load_ingest, folder / "ingest-mutant.toml", text.encode())


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A published release and its pointer."""
    place = tmp_path_factory.mktemp("release")
    outcome = run(support.prepare(place))
    return outcome.path, outcome.pointer


@pytest.mark.usefixtures("pictures_in_words")
@fewer
@given(data=st.data())
def test_a_release_whose_attributes_somebody_has_changed_is_shown_or_refused(release, tmp_path_factory, data):
    path, pointer = release
    before = {file: file.read_bytes() for file in (path / "zarr.json", pointer)}
    known = places(json.loads(before[path / "zarr.json"])["attributes"])
    place = known[data.draw(st.integers(0, len(known) - 1))]
    change = data.draw(st.sampled_from(("replace", "replace", "remove")))
    value = data.draw(
        st.sampled_from([one for one in HOSTILE if not hasattr(one, "tzinfo") and not hasattr(one, "day")])
    )

    def forge(stated):
        other = changed(stated, place, change, value)
        stated.clear()
        stated.update(other)

    output = tmp_path_factory.mktemp("pages")
    other = forged(path, forge)
    try:
        verify(other)
        attempt(lambda: read_release(other))
        attempt(lambda: report.write_report(other, output=output / "page.html"))
        made = attempt(lambda: make_site(path.parents[2], output / "site", NIGHT, "code"))
        assert made is not None, "one release never keeps the others from being shown"
    finally:
        other.rename(path)
        for file, content in before.items():
            file.write_bytes(content)
    for page in output.rglob("*.html"):
        text = page.read_text()
        assert not any(is_hidden(sign) and sign not in "\n\t" for sign in text), place
        assert "<img src=x" not in text
