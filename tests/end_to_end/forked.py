"""Runs of a service as forks of one process that has imported what they need: a start takes no seconds of a core.

A service is told of another Python, a short program: it asks that process for a fork with its environment, folder and
files, hands on its signals and ends as it ends. Whatever else a service starts is started as always. A fork whose short
program dies is killed: to the service, and to whoever kills it with all that it has started, both are one process.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = ["-P", "-m", "blockveil.flows.service.start_child"]
"""What starts a run, behind the name of Python."""

_SHORT = f"""#!{sys.executable} -IS
import json, os, signal, socket, sys
if sys.argv[1:] != {RUN}:
    os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[0] + ".socket")
asked = json.dumps([os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(asking, [b"%08d" % len(asked)], [0, 1, 2])
asking.sendall(asked)
answers = asking.makefile()
fork = int(answers.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(fork, number))
status = int(answers.readline())
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.cache
def command(planted="", before=""):
    """The command line, in a process whose runs are forked.

    Parameters
    ----------
    planted
        Module whose ``plant`` is called in each fork, before its run.
    before
        Statements that the command line's own process runs first.
    """
    folder = Path(tempfile.mkdtemp(prefix="blockveil-forked-"))
    short = folder / "python"
    short.write_text(_SHORT)
    short.chmod(0o700)
    words = [sys.executable, "-m", "tests.end_to_end.forked", f"{short}.socket", planted]
    origin = subprocess.Popen(words, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(origin.communicate)
    assert origin.stdout.readline() == b"ready\n"
    program = f"{before}\nimport sys; sys.executable = {str(short)!r}; from blockveil.flows.cli import main; main()"
    return [sys.executable, "-c", program]


class _Origin:
    """Listens, forks, and tells how each fork ended."""

    def __init__(self, place):
        self._asked, self._asking, self._forks = selectors.DefaultSelector(), socket.socket(socket.AF_UNIX), {}
        self._asking.bind(place)
        self._asking.listen(100)
        self._ended, ended = os.pipe()
        for each in (self._ended, ended):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(ended)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for each in (self._asking, self._ended, sys.stdin):
            self._asked.register(each, selectors.EVENT_READ)

    def until_forked(self):
        """Folder and environment, in the fork alone."""
        while True:
            for key, _ in self._asked.select():
                if key.fileobj is sys.stdin:  # nobody needs it any more
                    os._exit(0)
                elif key.fileobj is self._asking:
                    asked = self._fork(self._asking.accept()[0])
                    if asked is not None:
                        return asked
                elif key.fileobj == self._ended:
                    os.read(self._ended, 4096)
                    self._collect()
                else:  # the short program has died
                    os.kill(key.data, signal.SIGKILL)
                    self._asked.unregister(key.fileobj)

    def _fork(self, peer):
        length, files, *_ = socket.recv_fds(peer, 8, 3)
        asked = json.loads(peer.recv(int(length), socket.MSG_WAITALL))
        number = os.fork()
        if number:
            for file in files:
                os.close(file)
            self._forks[number] = peer
            self._asked.register(peer, selectors.EVENT_READ, number)
            peer.sendall(b"%d\n" % number)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._asked, self._asking, peer, *self._forks.values()):
            each.close()
        for file, own in enumerate(files):
            os.dup2(own, file)
            os.close(own)
        return asked

    def _collect(self):
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                number, status = found
                peer = self._forks.pop(number)
                with contextlib.suppress(KeyError):
                    self._asked.unregister(peer)
                with peer, contextlib.suppress(OSError):
                    peer.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    from prefect.context import refresh_global_settings_context

    from blockveil.flows.service import child
    from blockveil.pipeline.report.papers import LIGHT
    from blockveil.pipeline.report.pictures import burn_down

    burn_down([("2026-11-20", 0.5)], "").draw(LIGHT)  # fonts and glyphs are looked for once
    planted = importlib.import_module(sys.argv[2]) if sys.argv[2] else None
    origin = _Origin(sys.argv[1])
    print("ready", flush=True)
    folder, environment = origin.until_forked()
    del origin
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    refresh_global_settings_context()
    sys.argv = [child.__file__]
    if planted is not None:
        planted.plant()
    child.main()
