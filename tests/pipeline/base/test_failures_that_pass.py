"""Failures of a file system say whether they may pass, wherever they are met on the way of a night."""

import errno
from pathlib import Path
from typing import ClassVar

import pytest

from blockveil.pipeline.base import durable, places
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config import bounds_file, load_config, loaded
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.disclosure_file import load_disclosure
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.data import stores
from blockveil.pipeline.data.ingest import files
from blockveil.pipeline.ledger import marks
from blockveil.pipeline.ledger.sqlite import SqliteDatabase
from blockveil.pipeline.plan import signed_approval
from blockveil.pipeline.releases import keys

PLACES = {
    "release": lambda error: durable.store_error(error, "the release cannot be written"),
    "key": keys._failure,
    "mark": marks._failure,
    "records": lambda error: stores.unreadable("data.store", error),
    "source": lambda error: files.unreadable("a.parquet", error),
}
PASSES = ("EIO", "ENOSPC", "EDQUOT", "ESTALE", "ETIMEDOUT", "EHOSTDOWN", "EMFILE", "ENOMEM")
STAYS = ("EACCES", "EPERM", "EROFS", "ELOOP", "ENAMETOOLONG")


@pytest.mark.parametrize("place", PLACES)
def test_a_failing_disk_passes_and_a_missing_permission_does_not(place):
    for names, passes in ((PASSES, True), (STAYS, False)):
        assert {name: PLACES[place](OSError(getattr(errno, name), "x")).passes for name in names} == dict.fromkeys(
            names, passes
        )


def test_a_ledger_whose_disk_fails_may_be_there_again(monkeypatch, tmp_path):
    def stat(*_, **__):
        raise OSError(errno.EIO, "x")

    monkeypatch.setattr(Path, "exists", stat)
    with pytest.raises(durable.StoreUnreachable, match=r'"ledger.db" cannot be read'):
        SqliteDatabase(tmp_path / "ledger.db").exists()


class TestFilesThatAPersonNames:
    """Configs, secrets and what they name: a disk that fails is no fault of theirs."""

    READERS: ClassVar = {
        "a config": lambda path: load_config(path),
        "the schedule": lambda path: load_deployments(path),
        "a secret": lambda path: read_secret("data.credentials", f"file:{path}", path.parent),
        "a matrix": lambda path: loaded._read(path, path.name, loaded.SHAPE),
        "bounds": lambda path: bounds_file._read(path.parent, "query.bounds", path.name),
        "a disclosure": lambda path: load_disclosure(path),
        "an approval": lambda path: signed_approval._read(path),
    }

    @pytest.mark.parametrize("what", READERS)
    @pytest.mark.parametrize("name", [*PASSES, *STAYS])
    def test_a_disk_that_fails_passes_and_a_file_that_may_not_be_read_does_not(self, tmp_path, monkeypatch, what, name):
        path = tmp_path / "people.toml"
        path.touch(mode=0o600)

        def fails(*_, **__):
            raise OSError(getattr(errno, name), "x")

        monkeypatch.setattr(Path, "open", fails)
        monkeypatch.setattr(Path, "read_bytes", fails)
        if what == "an approval" and name in STAYS:
            assert self.READERS[what](path) is None
            return
        with pytest.raises(BlockveilError) as told:
            self.READERS[what](path)
        assert told.value.passes is (name in PASSES)

    def test_a_folder_that_fails_passes(self, tmp_path, monkeypatch):
        def fails(*_, **__):
            raise OSError(errno.EIO, "x")

        monkeypatch.setattr(Path, "iterdir", fails)
        with pytest.raises(durable.StoreUnreachable):
            places.looked_into(tmp_path, "All of it is read")
