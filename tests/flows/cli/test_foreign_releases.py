"""Readers of a stranger's release end in bounded time and memory, with an answer or a refusal in words."""

from datetime import date

import pytest

from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support, warm
from tests.house.foreign_releases import CASES, strange

SECONDS, MEBIBYTES = 60, 1536
"""Of the processor, and of memory beyond what the libraries take, for all six readers together."""

READ = f"""
import os, resource, sys
from pathlib import Path
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import BlockveilError

root, release, output = map(Path, sys.argv[1:])
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + {MEBIBYTES} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
os.environ["OPENBLAS_NUM_THREADS"] = "1"
pointer = release.with_name(release.name[:10] + ".json")
readers = [
    ("verify", str(root)), ("verify", str(release)),
    ("report", str(release), "--output", str(output / "report.html")),
    ("export", "data", str(release), "--format", "csv", "--output", str(output / "csv")),
    ("export", "certificate", str(pointer), "--output", str(output / "certificate.html")),
    ("export", "site", str(root), "--output", str(output / "site")),
]
for words in readers:
    found = CliRunner().invoke(app, words)
    error = found.exception
    if isinstance(error, (BlockveilError, SystemExit)) or error is None:
        print(words[0], "done" if error is None else f"refused: {{error}}".splitlines()[0][:300])
    else:
        print(words[0], "FAILED", repr(error)[:300])
for place in (pointer, release):
    try:
        bv.open(place)
        print("open", "done")
    except BlockveilError as error:
        print("open", f"refused: {{error}}".splitlines()[0][:300])
    except BaseException as error:
        print("open", "FAILED", repr(error)[:300])
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    run_release(make_plan(support.prepare(folder), date(2026, 11, 20)), ThreadCompute(2), "test", lambda *_: None)
    return folder / "releases" / "people" / "covariance"


def read(base, folder, name):
    root, release = strange(base, folder / "releases", name)
    (folder / "pages").mkdir()
    done = warm.run(READ, str(root), str(release), str(folder / "pages"))
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-500:])
    return done.stdout.splitlines()


QUICK = {"sparse_matrix", "pipe_as_chunk", "link_to_a_device", "bomb", "several_promises_of_10_to_15"}


@pytest.mark.parametrize("name", support.slow_but(QUICK, sorted(CASES)))
def test_each_reader_ends_with_an_answer_or_a_refusal_in_words(name, base, tmp_path):
    said = read(base, tmp_path, name)
    assert len(said) == 8, said
    assert not [line for line in said if "FAILED" in line], said
    assert not any(sign in "".join(said) for sign in "\x1b\u202e")
    assert "refused" in said[0], said
    # A refusal names the release itself, whose path may be below /dev/shm and is cut in the middle.
    said = [line.replace(str(tmp_path)[:40], "") for line in said]
    assert not [line for line in said if "/etc" in line or "/dev" in line], said


def test_a_release_that_nobody_changed_is_read_within_the_same_bounds(base, tmp_path, monkeypatch):
    monkeypatch.setitem(CASES, "nothing", lambda group: None)
    said = read(base, tmp_path, "nothing")
    assert [line.split()[1] for line in said] == ["done"] * 8, said
