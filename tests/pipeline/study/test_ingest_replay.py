"""An audit of an ingest refutes rules by which one person decides about others, and none of those that are there."""

from __future__ import annotations

import hashlib
from itertools import count

import numpy as np
import pytest

from blockveil.flows.cli import audit_command
from blockveil.pipeline.data.ingest import known_sources, units
from blockveil.pipeline.study.ingest_replay import replay_ingest
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_mapped_columns import network

UNITS = {
    "row": people.ROW,
    "one": people.CHOOSE.format(most=1),
    "three": people.CHOOSE.format(most=3),
    "sum": people.TOGETHER.format(by="sum"),
    "mean": people.TOGETHER.format(by="mean"),
}
MORE = [
    {"name": "age", "kind": "bins", "edges": [0, 18, 65, 120], "outside": "clip", "missing": "drop", "encode": "code"},
    {"name": "day", "kind": "date", "extract": "weekday", "encode": "code", "missing": "drop"},
    {"name": "stay", "kind": "bins", "edges": [0, 5, 40], "outside": "clip", "missing": "drop", "encode": "code"},
]


def replayed(folder, unit, append=False, columns=people.COLUMNS, **keys):
    growing = {"append": True, "late": "next"} if append else {}
    loaded = people.configure(folder, columns, unit=UNITS.get(unit, unit), **growing, **keys)
    return replay_ingest(loaded, lambda stage, share: None)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_no_claim_of_an_ingest_is_refuted(tmp_path, unit, append):
    if append and unit in ("sum", "mean"):
        pytest.skip("one record of all rows of a unit cannot grow")
    found = replayed(tmp_path, unit, append)
    assert found.refutations == ()
    assert found.rows[0] == found.rows[1]
    assert found.lines[-1][0] == "Verdict"
    assert (found.not_tested == ()) == append


def test_columns_of_every_kind_are_made_up(tmp_path):
    only = {"column": "part", "type": "date", "equals": "2026-11-20"}
    columns = [*people.COLUMNS, MORE[0], MORE[1]]
    assert replayed(tmp_path, "three", columns=columns, partition=only).refutations == ()


@pytest.fixture
def by_order(monkeypatch):
    """The mistake of choosing by the order in which rows come."""
    places = count()

    def numbered(rows):
        return np.array([hashlib.sha256(str(next(places)).encode()).digest()[:16] for _ in rows], units.DIGEST)

    monkeypatch.setattr(units, "contents", numbered)


@pytest.mark.parametrize("unit", ["one", "three"])
def test_a_choice_by_the_order_of_rows_is_refuted(tmp_path, by_order, unit):
    assert any("order of the rows" in claim for claim in replayed(tmp_path, unit).refutations)


def test_numbers_across_units_are_refuted(tmp_path, monkeypatch):
    monkeypatch.setattr(units._Choose, "_numbers", lambda self, keys: np.arange(keys.size))
    assert any("records of others change" in claim for claim in replayed(tmp_path, "one").refutations)


def test_a_row_too_many_is_refuted(tmp_path, monkeypatch):
    most = units._Choose.most.fget
    monkeypatch.setattr(units._Choose, "most", property(lambda self: most(self) + 1))
    assert any("a unit has 4 records" in claim for claim in replayed(tmp_path, "three").refutations)


def test_a_bound_that_each_append_has_anew_is_refuted(tmp_path, monkeypatch):
    def most(self):
        return np.full(self._units.digests.size, self._at_most)

    monkeypatch.setattr(units._Choose, "most", property(most))
    found = replayed(tmp_path, "three", append=True).refutations
    assert any("over several appends" in claim for claim in found)


def test_the_command_takes_the_config_of_an_ingest_and_ends_with_its_own_code(tmp_path, capsys, monkeypatch):
    people.configure(tmp_path, people.COLUMNS, unit=UNITS["one"])
    audit_command.audit(str(tmp_path / "ingest.toml"))
    assert "no claim is refuted" in capsys.readouterr().out
    monkeypatch.setattr(units._Choose, "_numbers", lambda self, keys: np.arange(keys.size))
    with pytest.raises(SystemExit) as ended:
        audit_command.audit(str(tmp_path / "ingest.toml"))
    assert ended.value.code == audit_command.REFUTED


NAMES = 'names = ["person", "cost", "stay", "other"]'
SOURCES = {
    "csv": 'kind = "csv"\nfiles = ["s3://clinic/in"]\ndelimiter = ";"\nmissing_values = ["", "NA"]',
    "npy": f'kind = "npy"\nfiles = ["nowhere"]\n{NAMES}',
    "npz": f'kind = "npz"\nfiles = ["nowhere"]\narrays = ["a", "b"]\n{NAMES}',
    "scipy": f'kind = "scipy"\nfiles = ["nowhere"]\n{NAMES}',
    "zarr": f'kind = "zarr"\nfiles = ["nowhere"]\narrays = ["a", "b"]\n{NAMES}',
    "delta": 'kind = "delta"\ntable = "nowhere"\nversion = 3',
    "iceberg": 'kind = "iceberg"\ncatalog = "clinic"\ntable = "clinic.visits"',
    "duckdb": 'kind = "duckdb"\nfile = "nowhere"\nquery = "SELECT * FROM visits WHERE cost > 1"',
    "sqlite": 'kind = "sqlite"\nfile = "nowhere"\nquery = "SELECT * FROM visits"',
    "postgresql": 'kind = "postgresql"\naddress = "env:NOWHERE"\nquery = "SELECT * FROM visits"',
}
ARRIVAL = '\narrival = { column = "day", first = 2026-03-01 }'


def from_kind(folder, kind, append=False, most="three"):
    of_arrays = kind in ("npy", "npz", "scipy", "zarr")
    columns = people.COLUMNS[:2] if of_arrays else [*people.COLUMNS, MORE[1]]
    arrives = ARRIVAL if append and kind in ("duckdb", "sqlite", "postgresql") else ""
    source = SOURCES[kind] if not append else SOURCES[kind].replace("\nversion = 3", "")
    return replayed(folder, most, append, columns, source=source + arrives)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("kind", SOURCES)
def test_sources_of_the_config_s_own_kind_are_made_up(tmp_path, kind, append):
    found = from_kind(tmp_path, kind, append)
    assert found.refutations == ()
    assert found.rows[0] == found.rows[1]
    assert (f"({kind})" in found.compared[0]) == (kind != "postgresql")
    of_others = {"csv", "iceberg", "duckdb", "sqlite", "postgresql"}
    assert len(found.not_tested) == (kind in of_others) + (not append)


@pytest.mark.parametrize("kind", ["csv", "sqlite", "delta", "zarr"])
def test_a_choice_by_the_order_of_a_source_of_another_kind_is_refuted(tmp_path, by_order, kind):
    assert any("order of the rows" in claim for claim in from_kind(tmp_path, kind).refutations)


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_a_bound_that_each_append_of_another_kind_has_anew_is_refuted(tmp_path, monkeypatch, kind):
    def most(self):
        return np.full(self._units.digests.size, self._at_most)

    monkeypatch.setattr(units._Choose, "most", property(most))
    assert any("over several appends" in claim for claim in from_kind(tmp_path, kind, append=True).refutations)


def test_a_bound_that_is_too_large_to_replay_is_replayed_as_a_smaller_one(tmp_path, monkeypatch):
    found = replayed(tmp_path, people.CHOOSE.format(most=1_000_000))
    assert found.refutations == ()
    assert found.rows == (1000, 1000)
    assert any("more than 1,000 rows" in reason for reason in found.not_tested)
    most = units._Choose.most.fget
    monkeypatch.setattr(units._Choose, "most", property(lambda self: most(self) + 1))
    assert replayed(tmp_path, people.CHOOSE.format(most=1_000_000)).refutations


def test_records_of_values_other_than_zero_are_replayed(tmp_path):
    found = replayed(tmp_path, "three", layout="entries")
    assert found.refutations == ()


def test_an_audit_is_not_remembered_as_an_ingest_of_its_source(tmp_path, monkeypatch):
    monkeypatch.setattr(known_sources, "remember", lambda loaded: pytest.fail("it was remembered"))
    assert replayed(tmp_path, "one").refutations == ()


def test_what_a_public_network_makes_of_a_row_is_replayed(tmp_path):
    pytest.importorskip("onnxruntime")
    assert replayed(tmp_path, "three", columns=[network(tmp_path)]).refutations == ()
