"""A disk that is full, or may only be read, where a command shall write: a sentence, and nothing lost or half there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_full_disk import unshared
from tests.flows.cli.test_named_places import ENDINGS, NIGHT, WRITERS, prepare

ROOT = Path(__file__).parents[2]

__all__ = ["unshared"]

TRIED = """
import json, os, subprocess, sys
from pathlib import Path
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests.flows.cli.test_cli import blockveil

folder, writers, night = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
small = folder / "small"
os.chdir(folder)

def shell(*words):
    subprocess.run(words, check=True)

def fill():
    try:
        with open(small / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass

def seen():
    # Names and content of all that is there, those of unfinished work too.
    found = {}
    for path in small.rglob("*"):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.name != "filler":
            found[str(path)] = path.read_bytes() if path.is_file() else ""
    return found

def refused(words, reason):
    before = seen()
    found = blockveil(*words)
    assert found.returncode not in (0, 130), (words, found.stdout)
    lines = found.stderr.strip().splitlines()
    assert len(lines) == 2, (words, found.stderr)
    assert reason in lines[0], (words, found.stderr)
    assert "Traceback" not in found.stderr
    assert "unexpected" not in found.stderr, (words, found.stderr)
    assert seen() == before, (words, set(seen()) ^ set(before))

shell("mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "none", str(small))
shell("cp", "-r", "releases", "small/releases")
for name in ("people.toml", "signed.toml"):
    path = folder / name
    path.write_text(path.read_text().replace('"releases"', '"small/releases"'))
assert blockveil("export", "site", ".", "--output", "small/site").returncode == 0
for name, (words, ending) in writers.items():
    (small / f"{name}{ending}").write_bytes(b"old")
loaded = load_config(folder / "people.toml")
withdrawal = ["ledger", "withdraw", "people.toml", night, "--why", "wrong"]
closing = ["ledger", "export", "people.toml", "--output", "small/closed.jsonl", "--close-for", "sqlite:///elsewhere.db"]

def all_refused(reason):
    for name, (words, ending) in writers.items():
        for place in (f"{name}{ending}", f"new{ending}"):
            refused([*words.split(), f"small/{place}"], reason)
    refused(["export", "site", ".", "--output", "small/another"], reason)
    refused(["export", "data", night, "--config", "people.toml", "--format", "csv", "--output", "small/tables"], reason)

fill()
all_refused("the disk or quota is full")
shell("mount", "-o", "remount,ro", str(small))
all_refused("the file system is read-only")
refused(withdrawal, "the file system is read-only")
shell("mount", "-o", "remount,rw", str(small))
refused(withdrawal, "the disk or quota is full")
refused(["export", "site", ".", "--output", "small/site"], "the disk or quota is full")
refused(closing, "the disk or quota is full")

# Nothing is lost: once there is space, asking again ends what was begun, and is booked once.
(small / "filler").unlink()
assert blockveil(*withdrawal).returncode == 0
assert blockveil("export", "site", ".", "--output", "small/site").returncode == 0
found = blockveil(*closing)
assert found.returncode == 0, found.stderr
kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
assert kinds.count("WITHDRAWN") == 1, kinds
assert kinds.count("COMMITTED") == 1, kinds
assert len((small / "closed.jsonl").read_text().splitlines()) >= len(kinds)
assert "withdrawn" in json.loads((small / "releases" / f"{night}.json").read_text())
for name, (words, ending) in writers.items():
    assert (small / f"{name}{ending}").read_bytes() == b"old"
print("all")
"""


@pytest.mark.slow
def test_what_cannot_be_written_is_said_in_a_sentence_and_nothing_is_lost_or_half_there(tmp_path, unshared):
    prepare(tmp_path)
    (tmp_path / "small").mkdir()
    writers = {name.replace(" ", "-"): (words, ENDINGS.get(name, ".html")) for name, words in WRITERS.items()}
    done = subprocess.run(
        [*unshared, sys.executable, "-c", TRIED, str(tmp_path), json.dumps(writers), NIGHT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all"
