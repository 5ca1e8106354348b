"""Tables of files whose log, metadata or manifests somebody has changed: ingested, or refused in words.

The rules and the ways of changing a file are those of :mod:`.test_fuzz`.
"""

import json
import shutil
from pathlib import Path

import deltalake
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.test_fuzz import HOSTILE, TABLE, WANTED, attempt, bent, changed, places

pytestmark = pytest.mark.timeout(1800)

PLAIN = [one for one in HOSTILE if not hasattr(one, "tzinfo") and not hasattr(one, "day")]
"""Values that JSON can hold."""


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory):
    """A table of two snapshots, whose catalog is not needed to read it."""
    place = tmp_path_factory.mktemp("iceberg")
    catalog = SqlCatalog("a", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    catalog.create_namespace("a")
    table = catalog.create_table("a.visits", schema=TABLE.schema)
    table.append(TABLE.slice(0, 30))
    table.append(TABLE.slice(30))
    catalog.engine.dispose()
    newest = Path(table.metadata_location.removeprefix("file://"))
    return newest.parents[1], f'kind = "iceberg"\ntable = "{newest}"'


@pytest.fixture(scope="module")
def delta(tmp_path_factory):
    """A table of two versions."""
    place = tmp_path_factory.mktemp("delta") / "visits"
    deltalake.write_deltalake(str(place), TABLE.slice(0, 30), partition_by=["ward"])
    deltalake.write_deltalake(str(place), TABLE.slice(30), mode="append")
    return place, f'kind = "delta"\ntable = "{place}"'


@st.composite
def lines(draw, content):
    """Lines of JSON, of which a value of one is replaced, removed, doubled or renamed."""
    trees = [json.loads(line) for line in content.splitlines() if line.strip()]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(trees) - 1))
        known = places(trees[at])
        if known:
            place = known[draw(st.integers(0, len(known) - 1))]
            change = draw(st.sampled_from(("replace", "replace", "remove", "double")))
            trees[at] = changed(trees[at], place, change, draw(st.sampled_from(PLAIN)))
    return "\n".join(map(json.dumps, trees)).encode()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@settings(suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples * 2 // 5)
@given(data=st.data())
def test_a_table_of_files_is_ingested_or_refused(request, tmp_path_factory, kind, data):
    table, source = request.getfixturevalue(kind)
    place = tmp_path_factory.mktemp("ingest")
    named = sorted(table.rglob("*.json")) if data.draw(st.booleans()) else sorted(table.rglob("*"))
    file = data.draw(st.sampled_from([path for path in named if path.is_file() and path.suffix != ".crc"]))
    whole = file.read_bytes()
    try:
        file.write_bytes(data.draw(lines(whole) | bent(whole) if file.suffix == ".json" else bent(whole)))
        loaded = people.configure(place, WANTED, source)
        if attempt(lambda: people.run(loaded)) is None:
            assert not loaded.target.exists()
    finally:
        file.write_bytes(whole)
    assert people.left(place) == [], "records of a refused source, or of a finished store"
    shutil.rmtree(place)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_that_nobody_has_changed_is_ingested(request, tmp_path, kind):
    _, source = request.getfixturevalue(kind)
    assert attempt(lambda: people.run(people.configure(tmp_path, WANTED, source))) is not None
