"""Failures of a file system say whether they may pass, wherever they are met on the way of a night."""

import errno
from pathlib import Path

import pytest

from blockveil.pipeline.base import durable
from blockveil.pipeline.data import stores
from blockveil.pipeline.data.ingest import files
from blockveil.pipeline.ledger import marks
from blockveil.pipeline.ledger.sqlite import SqliteDatabase
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
