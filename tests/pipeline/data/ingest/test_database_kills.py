"""An ingest of a table that is killed goes on if the table is as it was, and begins again if it is not."""

import pytest

from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest import source_rows as module
from blockveil.pipeline.data.ingest import store_writer as writing
from tests.pipeline.data.ingest import ingest_support as people

ROW, CHOSEN = people.ROW, people.CHOOSE.format(most=2)


class Ended(BaseException):
    """Not an error: nothing handles it."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many batches, blocks and runs."""
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 5 * 40)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    monkeypatch.setattr(module, "run_bytes", lambda config: 4000)


def ended_after(loaded, saves):
    """Run until progress is recorded so many times; whether it was ended before it was done."""
    save, count = scratch.Staging.save, [0]

    def counted(self, **changes):
        save(self, **changes)
        count[0] += 1
        if count[0] == saves:
            raise Ended

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch.Staging, "save", counted)
        try:
            people.run(loaded)
        except Ended:
            return True
    return False


@pytest.mark.parametrize("unit", [ROW, CHOSEN], ids=["rows", "chosen"])
def test_an_ingest_of_a_table_that_is_killed_again_and_again_gives_the_same_bits(tmp_path, database, unit):
    database.put(people.visits(rows=300))
    source = database.source("SELECT * FROM visits WHERE stay < 35")
    loaded = people.configure(tmp_path, people.COLUMNS, source, unit, chunk_rows=30)
    people.run(loaded)
    wanted = people.bits(tmp_path)
    (tmp_path / "out.zarr").rename(tmp_path / "first.zarr")
    ends = 0
    while ended_after(loaded, 3):
        ends += 1
    assert ends > 2
    # A server where another transaction has written has another snapshot, and so the store another digest.
    assert {name: bits for name, bits in people.bits(tmp_path).items() if "/c/" in name} == {
        name: bits for name, bits in wanted.items() if "/c/" in name
    }
    assert people.left(tmp_path) == []


def test_a_table_that_has_changed_since_is_read_from_the_beginning(tmp_path, database):
    database.put(people.visits(rows=300))
    loaded = people.configure(tmp_path, people.COLUMNS, database.source(), chunk_rows=30)
    assert ended_after(loaded, 4)
    database.execute("DELETE FROM visits WHERE stay < 20")
    assert people.run(loaded).message == "read the whole source"
    table = people.visits(rows=300)
    left = [stay for stay in table["stay"].to_pylist() if stay >= 20]
    assert people.stored(tmp_path)[:, 1].tolist() == left
