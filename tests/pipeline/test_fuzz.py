"""Files that were cut, doubled, bent or written by somebody hostile: a refusal in words, and nothing spent.

Every example begins with a file that works and changes a little of it. What comes back is a result or a
``BlockveilError`` of at most 400 characters, without a control character, without a planted value, and the ledger is as
it was. ``HYPOTHESIS_PROFILE=search`` looks for new examples.
"""

import datetime
import io
import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.base.printable import is_hidden
from blockveil.pipeline.budget.event_files import read_events
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.transfer import read_rows
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.releases.test_release import NIGHT, run

pytestmark = pytest.mark.timeout(1800)  # a search makes a thousand releases in one test

CONFIGS = Path(__file__).parents[2] / "configs"
RELEASES = (
    "quickstart",
    "nightly",
    "pickups",
    "visits",
    "training",
    "train-model",
    "growing",
    "gradients",
    "directions",
)
LONGEST = 400

EVENTS = """neighbours = "add-remove"
unit = "one person"
[[event]]
kind = "gaussian"
mu = 0.5
count = 3
[[event]]
kind = "poisson-gaussian"
probability = 0.01
noise_multiplier = 1.0
count = 10
[[event]]
kind = "pure"
epsilon = 0.5
"""

HOSTILE = [
    "", " ", "x" * 5000, "\x1b[31mred", "\x9b1m", "a\u202eb", "a\nb", "\x00", "../../x", "/dev/null", "/" * 5000,
    "env:HOME", "env:", "file:", "file:/etc/hostname", "s3://a/b", "s3://u:p@a/b", "postgresql://u:p@h/d", "loop",
    "<img src=x onerror=a>", "](javascript:a)", "{}", "%s", "{key}", "𝟘", "é" * 200, "-1", "NaN", "2026-02-30",
    0, 1, -1, 2, 255, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**400,
    0.0, -0.0, 0.5, 1e-320, 1e-100, 1e100, 1e308, math.nan, math.inf, -math.inf,
    True, False, [], [[]], [1], [0, 0], ["a", "a"], [{}], {}, {"kind": "x"}, {"kind": []}, {"a": {"b": {}}}, {"": 1},
    datetime.date(2026, 11, 20), datetime.datetime(2026, 11, 20, 1, tzinfo=datetime.UTC), datetime.time(1),
]  # fmt: skip

RAW = [
    b"\x00", b"\xff\xfe", b"\x1b[31m", b"\xe2\x80\xae", b"=", b"\n", b'"', b"'''", b"[", b"[" * 3000, b"{" * 3000,
    b"9" * 5000, b"0x" + b"f" * 9000, b"1e999", b"-", b"\\u0000", b"\\ud800", b".", b"# ", b"\r", b"\xf0\x9f\x92\xa9",
]  # fmt: skip


def toml(value):
    """A value as TOML, also where no reader should take it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True).replace("\\ud835\\udfd8", "\\U0001d7d8")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def places(tree, before=()):
    """Paths of all values of a tree."""
    found = [before] if before else []
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return found + [place for key, part in parts for place in places(part, (*before, key))]


def changed(tree, place, change, value):
    """A copy of a tree with one value replaced, removed, doubled, or given another name."""
    key, rest = place[0], place[1:]
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    if rest:
        copy[key] = changed(copy[key], rest, change, value)
    elif change == "replace":
        copy[key] = value
    elif change == "remove":
        del copy[key]
    elif isinstance(copy, list):
        copy.insert(key, copy[key])
    else:
        copy[value if isinstance(value, str) else f"{key}s"] = copy[key]
    return copy


@st.composite
def trees(draw, text):
    """TOML of a tree in which up to three values are changed."""
    tree = tomllib.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        known = places(tree)
        if known:
            place = known[draw(st.integers(0, len(known) - 1))]
            change = draw(st.sampled_from(("replace", "replace", "remove", "double")))
            tree = changed(tree, place, change, draw(st.sampled_from(HOSTILE)))
    return "\n".join(f"{json.dumps(key)} = {toml(part)}" for key, part in tree.items()).encode()


@st.composite
def bent(draw, content):
    """Bytes of a file that are cut, doubled, flipped or have something put in."""
    for _ in range(draw(st.integers(1, 4))):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        stop = min(stop, start + draw(st.sampled_from((1, 8, 64, 10**9))))
        put = draw(st.sampled_from((b"", content[start:stop] * 2, *RAW)) | st.binary(max_size=8))
        content = content[:start] + put + content[stop:]
    return content


def mutated(text):
    """A TOML file of either kind."""
    return trees(text) | bent(text.encode())


def attempt(work):
    """Do the work; a refusal is in words, short, and quotes neither a planted value nor a control character."""
    refusal = None
    try:
        return work()
    except BlockveilError as error:
        refusal = error
    message = str(refusal)
    assert type(refusal).exit_code > 1
    assert len(message) <= LONGEST, message
    assert not any(is_hidden(sign) for sign in message.replace("\n", "")), message
    assert "271828" not in message
    return None


def fuzz(test):
    """A bounded search; a fixture's folder and ledger are shared by all examples."""
    return settings(suppress_health_check=list(HealthCheck))(test)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Configs as shipped, and what they name where it is small."""
    found = tmp_path_factory.mktemp("fuzz")
    for file in CONFIGS.glob("*.toml"):
        (found / file.name).write_bytes(file.read_bytes())
    (found / "loop").symlink_to("loop")
    return found


def sized(config):
    """Whether a plan of it is a matter of milliseconds."""
    cells = math.prod(getattr(axis, "size", 1) for axis in getattr(config.query, "axes", ()))
    units = max(getattr(getattr(config.query, "model", None), "hidden", ()), default=1)
    directions = getattr(config.query, "directions", 1)
    return len(config.query.columns) <= 40 and cells <= 2000 and units <= 64 and directions <= 40


@pytest.mark.parametrize("name", RELEASES)
@fuzz
@given(data=st.data())
def test_a_config_is_planned_or_refused(folder, name, data):
    path = folder / "mutant.toml"
    path.write_bytes(data.draw(mutated((CONFIGS / f"{name}.toml").read_text())))
    planned_or_refused(path)


def planned_or_refused(path):
    """Plan of a config, or None; what it says does not steer a terminal."""
    loaded = attempt(lambda: load_config(path))
    if loaded is None or not sized(loaded.config):
        return None
    plan = attempt(lambda: make_plan(loaded, NIGHT))
    rows = [] if plan is None else summary.describe(plan, None)
    assert not any(is_hidden(sign) for _, value in rows for sign in value.replace("\n", ""))
    return plan


@fuzz
@given(key=st.sampled_from(("query.rows_at_most", "privacy", "a", "", ".", "output.root.x", "\x1b")), data=st.data())
def test_an_override_is_taken_or_refused(folder, key, data):
    text = data.draw(st.sampled_from(HOSTILE).map(toml) | st.text(max_size=40))
    attempt(lambda: load_config(folder / "quickstart.toml", {key: text}))


@fuzz
@given(content=mutated((CONFIGS / "deployments.toml").read_text()))
def test_a_deployments_file_is_read_or_refused(folder, content):
    path = folder / "deployments.toml"
    path.write_bytes(content)
    attempt(lambda: load_deployments(path))


@fuzz
@given(content=mutated(EVENTS))
def test_a_file_of_events_is_read_or_refused(folder, content):
    path = folder / "events-mutant.toml"
    path.write_bytes(content)
    attempt(lambda: read_events(path))


@fuzz
@given(content=mutated((CONFIGS / "ingest-example.toml").read_text()))
def test_a_config_of_an_ingest_is_read_or_refused(folder, content):
    path = folder / "ingest-mutant.toml"
    path.write_bytes(content)
    attempt(lambda: load_ingest(path))


def saved(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


VISITS = people.visits(60)
MATRIX = np.column_stack([VISITS["cost"], VISITS["stay"]])
MATRIX[30, 0] = support.CANARY
TABLE = VISITS.set_column(1, "cost", [MATRIX[:, 0]])
NAMED = '\nnames = ["cost", "stay"]'
SOURCES = {
    "csv": ("a.csv", saved(lambda s: arrow_csv.write_csv(TABLE, s)), 'kind = "csv"\nfiles = ["a.csv"]'),
    "parquet": ("a.parquet", saved(lambda s: arrow_parquet.write_table(TABLE, s)), 'kind = "parquet"\nfiles = ["."]'),
    "npy": ("a.npy", saved(lambda s: np.save(s, MATRIX)), f'kind = "npy"\nfiles = ["a.npy"]{NAMED}'),
    "npz": (
        "a.npz",
        saved(lambda s: np.savez(s, x=MATRIX)),
        f'kind = "npz"\nfiles = ["a.npz"]\narrays = ["x"]{NAMED}',
    ),
    "scipy": (
        "a.npz",
        saved(lambda s: scipy.sparse.save_npz(s, scipy.sparse.csr_array(MATRIX))),
        f'kind = "scipy"\nfiles = ["a.npz"]{NAMED}',
    ),
}
WANTED = [people.NUMBER, {"name": "stay", "kind": "number", "missing": "refuse"}]


@pytest.mark.parametrize("kind", SOURCES)
@fuzz
@given(data=st.data())
def test_a_file_of_records_is_ingested_or_refused(tmp_path_factory, kind, data):
    name, content, source = SOURCES[kind]
    place = tmp_path_factory.mktemp("ingest")
    (place / name).write_bytes(data.draw(bent(content)))
    loaded = people.configure(place, WANTED, source)
    if attempt(lambda: people.run(loaded)) is None:
        assert not loaded.target.exists()
    assert people.left(place) == [], "records of a refused source, or of a finished store"


@fuzz
@given(data=st.data())
def test_a_zarr_array_is_ingested_or_refused(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("zarr")
    array = zarr.create_array(place / "a.zarr", shape=MATRIX.shape, chunks=(20, 2), dtype="f8")
    array[...] = MATRIX
    file = data.draw(st.sampled_from(sorted(path for path in (place / "a.zarr").rglob("*") if path.is_file())))
    file.write_bytes(data.draw(bent(file.read_bytes())))
    loaded = people.configure(place, WANTED, f'kind = "zarr"\nfiles = ["a.zarr"]{NAMED}')
    attempt(lambda: people.run(loaded))
    assert people.left(place) == [], "records of a refused source, or of a finished store"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """A ledger with a grant, a release and a charge, and its exports."""
    place = tmp_path_factory.mktemp("ledger")
    found = Ledger(f"sqlite:///{place / 'ledger.db'}")
    found.set_budget("people", 3.0, 1e-5, Neighbours.ADD_REMOVE, "one person")
    for night in range(3):
        spec = {"release_id": f"people/a/{night}", "data": {"fingerprint": "f" * 64}}
        charge = found.reserve(
            ChargeRequest(
                release_id=f"people/a/2026-11-{20 + night}",
                dataset="people",
                spec=spec,
                spec_digest=digest(spec),
                charge=Loss(0.1, 0.0, 1e-24),
                neighbours=Neighbours.ADD_REMOVE,
                unit="one person",
                attempt="process 1",
            )
        )
        if night:
            found.commit(charge.charge_id, key_check="c" * 64)
    return found


def exported(ledger):
    stream = io.StringIO()
    ledger.export("jsonl", stream)
    return stream.getvalue()


@fuzz
@given(data=st.data())
def test_an_export_is_imported_whole_or_refused(ledger, tmp_path_factory, data):
    text, place = exported(ledger), tmp_path_factory.mktemp("import")
    (place / "export").write_bytes(data.draw(bent(text.encode())))
    copy = Ledger(f"sqlite:///{place / 'copy.db'}")

    def load():
        with (place / "export").open(encoding="utf-8", newline="") as stream:
            return copy.load(read_rows(stream), None, as_copy=True)

    if attempt(load) is not None:
        rows = exported(copy).splitlines()
        assert text.splitlines()[: len(rows) - 1] == rows[:-1]  # the last one says that it is a copy
    assert exported(ledger) == text


@settings(suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples * 2 // 5)
@given(data=st.data())
def test_damaged_records_are_refused_and_spend_nothing(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("records")
    loaded = support.prepare(place, values=support.records(60))
    before = exported(Ledger(loaded.ledger_url))
    files = sorted(path for path in (place / "records.zarr").rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    file.write_bytes(data.draw(bent(file.read_bytes())))
    if attempt(lambda: run(loaded)) is None:
        budget = Ledger(loaded.ledger_url).budget("people")
        assert budget.spent.loss == 0
        assert exported(Ledger(loaded.ledger_url)).startswith(before)


@pytest.mark.parametrize("kind", ["\x00RESERVED", "", "x" * 5000])
def test_an_export_with_a_row_of_no_known_kind_is_refused(ledger, tmp_path, kind):
    rows = [json.loads(line) for line in exported(ledger).splitlines()]
    for row in rows:
        row["kind"] = kind if row["kind"] == "RESERVED" else row["kind"]
    copy = Ledger(f"sqlite:///{tmp_path / 'copy.db'}")
    text = io.StringIO("".join(json.dumps(row) + "\n" for row in rows))
    assert attempt(lambda: copy.load(read_rows(text), None, as_copy=True)) is None
    assert not (tmp_path / "copy.db").exists() or not copy.history()
