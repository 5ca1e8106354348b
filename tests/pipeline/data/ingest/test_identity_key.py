"""What is kept beside a store is encrypted with its private key: no guess of a unit, a row or a file can be tested."""

from __future__ import annotations

import hashlib
import shutil
import stat

import numpy as np
import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.ingest import erasing, growth_state
from blockveil.pipeline.data.ingest.identity_key import EncryptedFile, IdentityKey, open_private
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.data.ingest.late_rows import digests_of
from blockveil.pipeline.data.ingest.units import Digester
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_append_kills import Killed, kill_at

GONE = [3, 17, 31]


def erased_store(folder):
    """A store of two nights of which units were erased, with their rows given back to the source."""
    folder.mkdir(exist_ok=True)
    for night in range(2):
        grown.put(folder, night)
        people.run(grown.configure(folder))
    erasing.erase(look(grown.configure(folder)), GONE, lambda *_: None, ReleaseLedgers())
    return folder


def guesses(folder):
    """Every digest that somebody with the config, the code and all source files can compute."""
    table = pa.concat_tables([grown.day(night) for night in range(2)])
    units = Digester("a").digests(table["person"].combine_chunks())
    rows = digests_of(pa.record_batch({name: table[name].combine_chunks() for name in table.column_names}))
    contents = [file.read_bytes() for file in (folder / "in").iterdir()]
    contents += [str(number).encode() for number in range(40)] + [array.tobytes() for array in (units, rows)]
    contents += [np.sort(array)[: count + 1].tobytes() for array in (units, rows) for count in range(len(array))]
    hashed = [kind(one).digest() for one in contents for kind in (hashlib.sha256, hashlib.blake2b, hashlib.md5)]
    return {*units.tolist(), *rows.tolist(), *(one[:16] for one in hashed)}


def test_no_digest_that_can_be_recomputed_is_left_beside_the_store_nor_in_its_metadata(tmp_path):
    found = grown.files(erased_store(tmp_path))
    private = [content for name, content in found.items() if ".grown" in name or name.endswith("zarr.json")]
    tried = guesses(tmp_path)
    assert len(tried) > 500
    for content in private:
        assert not any(guess in content or guess.hex().encode() in content for guess in tried)


def test_what_is_beside_two_stores_of_one_source_and_config_has_nothing_in_common(tmp_path):
    one, other = (
        {
            file.read_bytes()[place : place + 8]
            for file in (erased_store(tmp_path / name) / ".grown-out.zarr").iterdir()
            for place in range(file.stat().st_size - 7)
        }
        for name in ("one", "other")
    )
    assert len(one) > 1000
    assert one.isdisjoint(other)
    names = [{file.name for file in (tmp_path / name / ".grown-out.zarr").iterdir()} for name in ("one", "other")]
    common = names[0] & names[1]
    assert {name for name in common if not name.startswith(("units-", "taken-"))} == {"identity"}


def test_the_rows_of_an_erased_unit_that_come_again_are_not_stored_under_any_name(tmp_path):
    erased_store(tmp_path)
    before = grown.records(tmp_path)
    again = pa.concat_tables([grown.day(night) for night in range(2)])
    grown.put(tmp_path, 2, again.filter(np.isin(again["person"], GONE)))
    people.run(grown.configure(tmp_path))
    assert grown.records(tmp_path).tobytes() == before.tobytes()


def test_the_key_is_private_drawn_once_and_refused_where_it_is_lost(tmp_path):
    folder = erased_store(tmp_path) / ".grown-out.zarr"
    key = (folder / "identity").read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE((folder / "identity").stat().st_mode) == 0o600
    grown.put(tmp_path, 2)
    people.run(grown.configure(tmp_path))
    assert (folder / "identity").read_bytes() == key
    assert all(key not in content for name, content in grown.files(tmp_path).items() if not name.endswith("identity"))
    for content in (None, bytes(32), key[:-1]):
        (folder / "identity").unlink(missing_ok=True)
        if content is not None:
            (folder / "identity").write_bytes(content)
        grown.put(tmp_path, 3)
        with pytest.raises(StoreError, match="missing, damaged, or not of this store"):
            people.run(grown.configure(tmp_path))
    (folder / "identity").unlink()
    (folder / "identity").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        people.run(grown.configure(tmp_path))


def test_a_kill_while_the_key_is_made_is_harmless(tmp_path, monkeypatch):
    grown.put(tmp_path, 0)
    ended, boundary = False, 0
    while not ended and boundary < 8:
        boundary += 1
        shutil.rmtree(tmp_path / ".grown-out.zarr", ignore_errors=True)
        with monkeypatch.context() as patch:
            kill_at(patch, boundary)
            try:
                growth_state.key_of(tmp_path / "out.zarr")
                ended = True
            except Killed:
                pass
        growth_state.key_of(tmp_path / "out.zarr")
    assert boundary > 3
    people.run(grown.configure(tmp_path))
    assert len(grown.records(tmp_path))


def test_a_kill_of_version_1_0_while_it_made_the_key_is_harmless(tmp_path):
    folder = tmp_path / ".grown-out.zarr"
    folder.mkdir(mode=0o700)
    (folder / "identity.new").write_bytes(bytes(7))
    grown.put(tmp_path, 0)
    people.run(grown.configure(tmp_path))
    assert len(grown.records(tmp_path))
    assert len((folder / "identity").read_bytes()) == 32
    assert not (folder / "identity.new").exists()


def test_stretches_of_an_encrypted_file_are_read_as_they_were_written(tmp_path):
    key = IdentityKey.load_or_create(tmp_path)
    content = np.random.default_rng(5).bytes(1000)
    with open_private(tmp_path / "file") as stream:
        for piece in key.encrypted(iter([content[:7], content[7:7], content[7:]])):
            stream.write(piece)
    with EncryptedFile(tmp_path / "file") as read:
        assert read.size == 1000
        for start in range(0, 1000, 13):
            for count in (0, 1, 15, 16, 17, 2000):
                assert read.read(start, count) == content[start : start + count]
    sealed = key.sealed(content)
    assert key.unsealed(sealed) == content
    assert key.sealed(content) != sealed
    for damage in (sealed[:-1], sealed[:5], b"", bytes([sealed[0] ^ 1]) + sealed[1:]):
        with pytest.raises(ValueError, match=r"sealed|Nonce"):
            key.unsealed(damage)


def test_a_store_has_a_random_name_that_appends_and_erasures_keep(tmp_path):
    def name_of(folder):
        return grown.opened(folder).attrs["blockveil ingest"]["store_id"]

    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    grown.put(one, 0)
    people.run(grown.configure(one))
    first = name_of(one)
    erased_store(one)
    assert name_of(one) == first
    assert name_of(erased_store(other)) != first
    whole = [tmp_path / name for name in ("whole", "again")]
    for folder in whole:
        folder.mkdir()
        grown.put(folder, 0)
        people.run(people.configure(folder, grown.COLUMNS))
    assert name_of(whole[0]) != name_of(whole[1])
