"""The process of a Prefect server: it wants a login, and its log has an end."""

import asyncio
import os
import subprocess
import sys

import pytest
import sqlalchemy as sa
from prefect.server.database.configurations import AioSqliteConfiguration  # noqa: TID251 - what is changed in it
from sqlalchemy.ext.asyncio import AsyncSession

from blockveil.flows.base import prefect_internals

WRITING = """
import sys
from pathlib import Path
from blockveil.flows.service.start_server import rotate
log = Path(sys.argv[1])
for number in range(200):
    print("a line", number, "x" * 50, file=(sys.stdout, sys.stderr)[number % 2], flush=True)
    rotate(log, 1000)
"""


def test_a_log_is_set_aside_once_it_is_large_and_two_files_have_the_end_of_it(tmp_path):
    log = tmp_path / "server.log"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", WRITING, str(log)], stdout=file, stderr=file, check=True, timeout=60)
    before = log.with_name("server.log.1")
    assert sorted(tmp_path.iterdir()) == [log, before]
    assert log.stat().st_size < 1000 <= before.stat().st_size < 1100
    numbers = [int(line.split()[2]) for line in (before.read_text() + log.read_text()).splitlines()]
    assert numbers == list(range(numbers[0], 200)), "no line is lost or broken between them"


@pytest.mark.parametrize("login", [None, "  "])
def test_no_server_starts_without_a_login(tmp_path, login):
    environment = {name: value for name, value in os.environ.items() if "AUTH_STRING" not in name}
    environment |= {"PREFECT_HOME": str(tmp_path)} | (
        {} if login is None else {"PREFECT_SERVER_API_AUTH_STRING": login}
    )
    words = [sys.executable, "-P", "-m", "blockveil.flows.service.start_server", "--port", "0"]
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert "PREFECT_SERVER_API_AUTH_STRING is not set" in done.stderr


def test_a_transaction_on_sqlite_that_reads_and_then_writes_waits_for_others_and_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(AioSqliteConfiguration, "begin_sqlite_stmt", AioSqliteConfiguration.begin_sqlite_stmt)
    prefect_internals.take_the_lock_first()
    database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path}/a.db")

    async def begun(engine, *, reads=False, pause=0.0):
        async with AsyncSession(engine) as open_session, database.begin_transaction(open_session):
            if reads:
                await open_session.execute(sa.text("SELECT count(*) FROM t"))
            await asyncio.sleep(pause)
            await open_session.execute(sa.text("INSERT INTO t VALUES (1)"))

    async def both():
        engine = await database.engine()
        async with engine.begin() as connection:
            await connection.execute(sa.text("CREATE TABLE t (x)"))
        first = asyncio.ensure_future(begun(engine, reads=True, pause=0.5))
        await asyncio.sleep(0.2)
        await asyncio.gather(first, begun(engine))
        await engine.dispose()

    asyncio.run(both())
