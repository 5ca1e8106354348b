"""Who may read and change the files that commands write, whatever the account lets new files be."""

import os
import stat
import subprocess
import sys

import pytest

from tests.house import support

PRIVATE = {"ledger.db", "ledger.db-lock", "keys", "export.jsonl", "blockveil-errors"}
"""What is for its owner alone under any umask."""

COMMANDS = [
    "run people.toml --no-prefect --date 2026-11-20",
    "report people/covariance/2026-11-20 --config people.toml --output page.html",
    "export certificate people/covariance/2026-11-20 --config people.toml --output certificate.html",
    "ledger prove people.toml people/covariance/2026-11-20 --output proof.json",
    "ledger export people.toml --output export.jsonl",
    "export data people/covariance/2026-11-20 --config people.toml --format parquet --output exported",
    "export site . --output site",
]

SCRIPT = """
import os, sys
os.umask(int(sys.argv[1], 8))
from blockveil.flows.cli import main
for words in sys.argv[2:]:
    sys.argv = ["blockveil", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["000", "002", "022", "077"])
def test_nothing_is_for_all_the_world_to_change_and_what_is_private_is_for_nobody(tmp_path, mask):
    before = os.umask(int(mask, 8))
    try:
        support.prepare(tmp_path)
    finally:
        os.umask(before)
    mine = set(tmp_path.rglob("*"))
    tmp_path.chmod(0o755)  # or the ledger would be refused
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mask, *COMMANDS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = {path: stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.rglob("*") if not path.is_symlink()}
    made = {path: mode for path, mode in made.items() if path not in mine or path.name in PRIVATE}
    assert len(made) > 40
    assert [path for path, mode in made.items() if mode & stat.S_IWOTH] == []
    assert {path.name for path, mode in made.items() if not mode & 0o077} >= PRIVATE - {"blockveil-errors"}
    if mask == "077":
        assert [path for path, mode in made.items() if path.is_file() and mode & 0o077] == []
