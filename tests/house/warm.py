"""Programs in processes of their own, forked from one that has imported what they need: a start takes no seconds."""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A child leaves the loop and runs its program as the main one, so that it ends as any process does.
_SERVER = """
import json, os, sys
import blockveil.flows.cli
import blockveil.flows.cli.night_commands
import blockveil.pipeline.data.ingest.ingest_run
import blockveil.pipeline.plan.planning
import blockveil.pipeline.releases.night

while True:
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    asked = json.loads(line)
    if "wait" in asked:
        answer = os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            break
    print(answer, flush=True)

for number, name in enumerate(asked["files"]):
    opened = os.open(name, os.O_RDWR)
    os.dup2(opened, number)
    os.close(opened)
sys.argv = ["-c", *asked["arguments"]]
program = asked["program"]
del line, answer, number, name, opened, asked
exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
"""


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def _ask(**asked: Any) -> int:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(asked) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@dataclass
class Program:
    """A program that was started."""

    pid: int
    folder: tempfile.TemporaryDirectory[str]

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Its status and what it wrote, when it has ended."""
        status = _ask(wait=self.pid)
        out, err = ((Path(self.folder.name) / name).read_text() for name in ("out", "err"))
        self.folder.cleanup()
        return subprocess.CompletedProcess(["-c"], status, out, err)


def start(program: str, *arguments: str) -> Program:
    """Start ``python -c program arguments`` in the checkout's folder."""
    folder = tempfile.TemporaryDirectory()
    files = ["/dev/null"]
    for name in ("out", "err"):
        path = Path(folder.name) / name
        path.touch()
        files.append(str(path))
    return Program(_ask(program=program, arguments=arguments, files=files), folder)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return start(program, *arguments).wait()
