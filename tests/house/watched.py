"""A command as a person starts it for the first time, with every process of it watched: look-ups, and settings."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
PATIENCE = 400.0

# Runs at the start of each Python process. What would leave the machine is written down, and stopped.
SITE = """
import json, os, socket, sys

def note(**what):
    with open(os.environ["BLOCKVEIL_WATCHED"], "a") as file:
        file.write(json.dumps({"process": sys.orig_argv, **what}) + "\\n")

HERE = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "", None, socket.gethostname()}

def watch(event, words):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = words[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg") and isinstance(words[1], tuple):
        host = words[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in HERE and not str(host).startswith("127."):
        note(host=host)
        raise OSError("nothing leaves this machine")

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name in ("prefect", "distributed"):
            note(imported=name, settings={key: os.environ.get(key) for key in KEYS})

KEYS = %s
sys.addaudithook(watch)
sys.meta_path.insert(0, Importing())
"""


class Watched:
    """What the processes of a command did."""

    def __init__(self, file):
        self._file = file

    def lines(self, key):
        """What was written of one kind."""
        text = self._file.read_text() if self._file.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if key in line]


def clean(folder, settings):
    """Environment of somebody's first day: an empty home, nothing of Prefect or Dask; and what watches."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE % repr(sorted(settings)))
    home = folder / "home"
    home.mkdir(exist_ok=True)
    found = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **found,
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "TERM": "xterm",
        "PYTHONPATH": str(site),
        "BLOCKVEIL_WATCHED": str(folder / "watched.jsonl"),
    }


@contextlib.contextmanager
def on_a_terminal(words, environment, folder):
    """Start a command with a terminal of its own; gives the process and what it has shown so far."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words, env=environment, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = bytearray()

    def read(seconds):
        with contextlib.suppress(OSError):  # the terminal of an ended process
            while select.select([ours], [], [], seconds)[0]:
                part = os.read(ours, 65536)
                if not part:
                    return bytes(shown)
                shown.extend(part)
        return bytes(shown)

    try:
        yield process, read
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        os.close(ours)


def until(done, process, read, what):
    """Read what a command shows until something is true."""
    end = time.monotonic() + PATIENCE
    while not done(read(0.3)):
        if time.monotonic() > end or process.poll() is not None:
            shown = read(1.0).decode(errors="replace")
            assert done(shown.encode()), f"{what}; exit code {process.poll()}\n{shown[-4000:]}"
            return


def to_its_end(words, environment, folder):
    """Run a command on a terminal to its end; what it has shown."""
    with on_a_terminal(words, environment, folder) as (process, read):
        until(lambda _: process.poll() is not None, process, read, "it does not end")
        shown = read(1.0).decode(errors="replace")
        assert process.returncode == 0, shown[-4000:]
        return shown
