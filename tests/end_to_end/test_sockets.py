"""Every socket of a command's processes refuses whoever lacks its secret, and no secret stands where others read."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from distributed import LocalCluster

from blockveil.flows.service import login
from tests.end_to_end.served import Served, free_port, server_alone
from tests.house import sockets, support
from tests.house.strangers import REFUSAL, STRANGER, stranger

ROOT = Path(__file__).parents[2]
BLOCKVEIL = [str(Path(sys.executable).parent / "blockveil")]
PATIENCE = 1200.0

PUBLIC = {
    "GET /api/health": 200,  # true: that it answers, for whoever watches the machine
    "GET /api/ready": 200,
    "GET /": 200,  # the pages' own files, the same for everybody; what they show comes from the interface above
    "GET /ui-settings": 200,  # addresses and versions, for the pages
}
"""What a Prefect server says without its login."""

PAGES = ["/", "/ui-settings", "/docs", "/redoc", "/openapi.json", "/metrics", "/api/metrics", "/api/docs", "/api/redoc"]


@pytest.fixture(scope="module")
def routes():
    """All that a Prefect server can be asked, by its own description of itself, and its websockets."""
    from prefect.server.api.server import create_api_app  # noqa: TID251 - describes itself

    found = create_api_app().openapi()["paths"]
    number = "00000000-0000-4000-8000-000000000000"
    listed = [(word.upper(), re.sub(r"\{\w+\}", number, f"/api{path}")) for path in found for word in found[path]]
    assert len(listed) > 150
    streams = ("events/in", "events/out", "logs/out", "task_runs/subscriptions/scheduled")
    streams = (*streams, f"work_pools/{number}/workers/connect")
    return [*listed, *(("GET", path) for path in PAGES), *(("WEBSOCKET", f"/api/{path}") for path in streams)]


TCP = ("tcp", "tcp6")
SILENT = {"dask": [], "wants": None, "closes": None}
DEAF = {**SILENT, "closes": True}
"""Answer of the channel by which a run's process hears from who started it that it shall end: its token, a new one for
each run, is in the environment of that process alone, and whoever says anything else is not heard."""


MOST_LOOKS = 10
"""In how many looks, one after the other, a socket without a connection may be seen: one that stays is in hundreds."""


def refused(route, status):
    """Whether an answer gives nothing: no login, no token against forged requests, or no such page."""
    method, _, path = route.partition(" ")
    if method == "WEBSOCKET":
        return status is None
    return status in ((401, 403) if path.startswith("/api") else (401, 404))


def is_channel(answer, owner):
    """Whether it is the channel by which runs are told to end, of a process that starts them."""
    return answer == DEAF and re.search(r"/blockveil (serve|service worker) ", owner) is not None


def unanswered(answer, owner=""):
    """Whether a port has said nothing, or not yet to everything that was asked over HTTP or TLS."""
    pages = answer.get("pages", {})
    if pages.get("GET /api/ready") == 503:  # the server lives, and its database is busy
        return True
    # A busy machine's part of Dask, or its server, may be too late to shake hands, and then end a connection in clear.
    late = {**answer, "closes": None} == SILENT and not is_channel(answer, owner)
    return late or any(pages[route] is None for route in pages if not route.startswith("WEBSOCKET"))


class Watch:
    """Asks every socket of a command's processes once, as soon as it is there, and looks for secrets in the open."""

    def __init__(self, process, mark, routes, asking):
        self._root, self._mark, self._routes, self._asking = process, mark, routes, asking
        self.answers, self.owners, self.seen, self.silent, self.bound = {}, {}, set(), set(), {}

    def look(self):
        """One moment."""
        processes = sockets.tree(self._root.pid, self._mark)
        self._look_at_processes(processes)
        there = sockets.listeners(processes)
        self.owners |= {each: words for each in there if (words := sockets.words(each.process))}
        # A socket of no connection is bound to a port before it has a peer, and stays so where there is no way to the
        # peer, as of a name that is looked up: it may be seen for as long as a busy machine leaves its process waiting.
        bound = {each for each in there if each.kind not in (*TCP, "unix")}
        self.bound = {each: self.bound.get(each, 0) + 1 for each in bound}
        lasting = {each: self.owners.get(each) for each, looks in self.bound.items() if looks > MOST_LOOKS}
        assert not lasting, lasting
        self.silent &= there  # what has closed without a word gave nothing
        found = [each for each in there - bound if each not in self.answers]
        for listener, answer in zip(found, self._asking.ask([self._question(each) for each in found]), strict=True):
            # Its process has not come to it yet: it is asked again, and must answer in the end.
            if unanswered(answer, self.owners.get(listener, "")):
                self.silent.add(listener)
            elif answer != {"gone": True}:  # it closed before anybody could have talked to it
                self.silent.discard(listener)
                self.answers[listener] = answer

    def _question(self, listener):
        if listener.kind in TCP:
            host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)
            return ("tcp", host, listener.port, self._routes)
        return ("unix", listener.host)

    def _look_at_processes(self, processes):
        new = sorted(processes - self.seen)
        for pid, opened in zip(new, self._asking.ask([("process", pid) for pid in new]), strict=True):
            assert "open" not in opened.values(), (sockets.words(pid), opened)
            if "gone" not in opened.values():
                self.seen.add(pid)
        known = self._secrets(processes)
        for pid in processes:
            line = sockets.read(pid, "cmdline")
            assert b"PRIVATE KEY" not in line
            assert not [secret for secret in known if secret in line], line

    def _secrets(self, processes):
        """Logins and keys that the processes have, and no command line may hold."""
        found = set()
        for pid in processes:
            environment = sockets.read(pid, "environ")
            assert b"PRIVATE KEY" not in environment
            for _, value in re.findall(rb"(PREFECT_(?:SERVER_)?API_AUTH_STRING|PREFECT_API_KEY)=([^\0]+)", environment):
                found |= {value, value.partition(b":")[2]}
        return found

    def roles(self):
        """Kinds of sockets by who holds them, with their number; anything else than expected fails."""
        found = {}
        for listener, answer in self.answers.items():
            role = self._role(listener, answer)
            found[role] = found.get(role, 0) + 1
        return found

    def _role(self, listener, answer):
        owner = self.owners.get(listener, "")
        here = listener.host.startswith("127.") or listener.host == "::1"
        assert here, f"{owner} can be reached from elsewhere, at {listener.host}"
        if answer == REFUSAL:
            return "Dask worker" if "multiprocessing" in owner else "Dask scheduler or nanny"
        if is_channel(answer, owner):
            return "channel of runs"
        open_pages = {route: status for route, status in answer.get("pages", {}).items() if not refused(route, status)}
        assert {route: PUBLIC.get(route) for route in open_pages} == open_pages, (owner, open_pages)
        assert answer.keys() == {"pages"}, (owner, listener, answer)
        without = "site of releases" if re.search(r"/blockveil serve ", owner) else "metrics"
        return "Prefect server" if open_pages else without


# Workers wait before they read records, until the sockets of the command have been asked.
GATE = """
import os, sys, time

def wait(event, words):
    if event == "open" and ".zarr" in str(words[0]) and any("spawn_main" in word for word in sys.orig_argv):
        while os.path.exists(os.environ["BLOCKVEIL_GATE"]):
            time.sleep(0.1)

sys.addaudithook(wait)
"""


def watched(words, folder, routes, wanted, until=None, **environment):
    """Run a command and look at it all the while, to its end or until something is true; what it has shown.

    Its workers begin once the sockets that are wanted are all there and have answered.
    """
    mark, log, gate, place = secrets.token_hex(8), folder / "command.log", folder / "gate", folder / "site"
    gate.touch()
    place.mkdir()
    (place / "sitecustomize.py").write_text(GATE)
    own = {sockets.MARK: mark, "PREFECT_HOME": str(folder / "home")}
    own |= {"PYTHONPATH": str(place), "BLOCKVEIL_GATE": str(gate)}
    with (
        stranger() as asking,
        log.open("wb") as shown,
        subprocess.Popen(
            [*BLOCKVEIL, *words],
            cwd=folder,
            env={**os.environ, **own, **environment},
            stdout=shown,
            stderr=shown,
            start_new_session=True,
        ) as process,
    ):
        watch = Watch(process, mark, routes, asking)
        end = time.monotonic() + PATIENCE
        try:
            while process.poll() is None and not (until and until()):
                watch.look()
                if watch.roles() == wanted:
                    gate.unlink(missing_ok=True)
                assert time.monotonic() < end, (watch.roles(), watch.silent, log.read_text()[-4000:])
                time.sleep(0.2)
            assert process.poll() == (0 if until is None else None), log.read_text()[-4000:]
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(300)
    assert not watch.silent
    assert watch.roles() == wanted
    return log.read_text()


CLUSTER = {"Dask scheduler or nanny": 3, "Dask worker": 2}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "prefect"])
def test_all_sockets_of_a_run_refuse_another_account(tmp_path, routes, plain):
    loaded = support.prepare(tmp_path, cluster="local")
    words = ["run", str(loaded.path), "--date", "2026-11-20", *(["--no-prefect"] if plain else [])]
    watched(words, tmp_path, routes, CLUSTER | ({} if plain else {"Prefect server": 1}))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_sockets_of_a_demo_refuse_another_account(tmp_path, routes):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    config = tmp_path / "configs" / "quickstart.toml"
    # The work is too little to start workers for, and without any the demo is over before its sockets were asked.
    config.write_text(config.read_text().replace('kind = "local"', 'kind = "local"\nalways_start_workers = true'))
    watched(["demo"], tmp_path, routes, CLUSTER | {"Prefect server": 1})


NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "UTC"
mode = "release"
missed_nights = "skip"
"""


def site(folder):
    """A folder of reviewed configs and its home."""
    loaded = support.prepare(folder, cluster="local")
    (folder / "deployments.toml").write_text(NIGHT)
    (folder / "home").mkdir(exist_ok=True)
    return loaded


class Night:
    """Asks for a night once somebody is there to run it, and is true when it is released."""

    def __init__(self, loaded, ready, ask):
        self._loaded, self._ready, self._ask, self._asked = loaded, ready, ask, False

    def __call__(self):
        if not self._asked and self._ready():
            self._ask()
            self._asked = True
        return any(self._loaded.output_root.glob("*/*/*.html"))  # not in the folders beside, which come and go


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_sockets_of_a_service_and_of_a_run_of_it_refuse_another_account(tmp_path, routes):
    loaded, port, log = site(tmp_path), free_port(), tmp_path / "command.log"

    def ask():
        served = Served(None, f"http://127.0.0.1:{port}", log, login.kept(tmp_path / "home"))
        served.run("release/people", logical_date="2026-11-20")

    night = Night(loaded, lambda: log.exists() and "Serving." in log.read_text(), ask)
    words = ["serve", str(tmp_path), "--port", str(port), "--site-port", str(free_port())]
    wanted = CLUSTER | {"Prefect server": 1, "channel of runs": 1, "site of releases": 1}
    shown = watched(words, tmp_path, routes, wanted, night)
    assert login.kept(tmp_path / "home").partition(":")[2] not in shown


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_sockets_of_a_worker_and_of_a_run_of_it_refuse_another_account(tmp_path, routes):
    loaded = site(tmp_path)
    # A server alone: a service on it would look for runs too, and on a slow machine take the one that the worker shall.
    with server_alone(tmp_path / "home") as served:
        subprocess.run([*BLOCKVEIL, "service", "deploy", str(tmp_path)], env=served.client, check=True, timeout=600)
        night = Night(loaded, lambda: True, lambda: served.run("release/people", logical_date="2026-11-20"))
        words, own = ["service", "worker", str(tmp_path)], tmp_path / "own"
        own.mkdir()
        watched(
            words,
            own,
            routes,
            CLUSTER | {"channel of runs": 1},
            night,
            **{**served.client, "PREFECT_HOME": str(own / "home")},
        )


def test_what_is_asked_would_be_answered_by_a_cluster_in_clear_and_its_pages():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        stranger() as asking,
    ):
        [(worker, found)] = cluster.scheduler_info["workers"].items()
        for address, answer in asking.dask([cluster.scheduler_address, worker, found["nanny"]]).items():
            assert f"ran code as {os.getuid()}" in answer["dask"], address
        port, page = cluster.scheduler_info["services"]["dashboard"], ("GET", "/json/counts.json")
        [answer] = asking.ask([("tcp", "127.0.0.1", port, [page])])
        assert answer["pages"] == {"GET /json/counts.json": 200}


@pytest.mark.parametrize(
    ("ready", "expected"), [(200, False), (503, True), (None, True)], ids=["ready", "database busy", "no answer"]
)
def test_a_server_is_asked_again_until_it_is_ready(ready, expected):
    assert unanswered({"pages": {"GET /": 200, "GET /api/ready": ready}}) == expected


@pytest.mark.parametrize(
    ("answer", "owner", "expected"),
    [
        (SILENT, "python start_child", True),
        (DEAF, "python start_child", True),
        ({**DEAF, "closes": False}, "bin/blockveil service worker configs", True),
        (DEAF, "bin/blockveil service worker configs", False),
        (REFUSAL, "python start_child", False),
        ({"dask": ["ran code as 0"], "wants": None}, "python start_child", False),
    ],
    ids=["nothing", "too late for TLS", "too late for HTTP", "a channel", "TLS", "code that ran"],
)
def test_who_was_too_late_to_answer_is_asked_again(answer, owner, expected):
    assert unanswered(answer, owner) == expected


def test_a_process_shows_its_files_to_its_own_account_alone_and_none_once_it_has_ended():
    files = ["environ", "mem", "fd", "maps", "cwd"]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays in the list of processes
    with stranger() as asking, subprocess.Popen(["sleep", "100"], user=STRANGER, group=STRANGER, cwd="/") as theirs:
        own, other, gone = asking.ask([("process", pid) for pid in (theirs.pid, os.getpid(), ended.pid)])
        theirs.kill()
    ended.wait()
    del own["mem"]  # a machine may keep even that to debuggers
    assert set(own.values()) == {"open"}
    assert other == dict.fromkeys(files, "Permission denied")
    assert list(gone) == files
    assert "open" not in gone.values()


def test_metrics_refuse_whoever_lacks_their_token(tmp_path, routes):
    site(tmp_path)
    words = ["service", "metrics", str(tmp_path), "--port", str(free_port())]
    shown = watched(words, tmp_path, routes, {"metrics": 1}, lambda: not (tmp_path / "gate").exists())
    token = (tmp_path / "home" / "blockveil-metrics-token").read_text().strip()
    assert token not in shown


class Refused:
    """A stranger whom every process and socket refuses, but who hears nothing of some."""

    def __init__(self, silent=()):
        self.silent = silent

    def ask(self, questions):
        return [
            {"environ": "Permission denied"}
            if kind == "process"
            else SILENT
            if set(words[1:2]) & set(self.silent)
            else REFUSAL
            for kind, *words in questions
        ]


@contextlib.contextmanager
def child():
    """A process of this program, which holds all that it holds."""
    number = os.fork()
    if number == 0:
        signal.pause()
    try:
        yield number
    finally:
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)


def watching(*processes, silent=()):
    """A watch of some processes alone."""
    watch = Watch(SimpleNamespace(pid=os.getpid()), "", [], Refused(silent))
    return watch, mock.patch.object(sockets, "tree", return_value={os.getpid(), *processes})


def test_a_socket_that_a_child_holds_before_it_is_a_program_of_its_own_is_one_of_its_parent():
    with socket.create_server(("127.0.0.1", 0)) as opened, child() as number:
        port = opened.getsockname()[1]
        first, both = sockets.listeners({number}), sockets.listeners({os.getpid(), number})
        assert [each.process for each in first if each.port == port] == [number]
        assert [each.process for each in both if each.port == port] == [os.getpid()]
        assert {each for each in first if each.port == port} == {each for each in both if each.port == port}


def test_a_socket_that_closes_without_a_word_is_not_waited_for_and_one_that_stays_is():
    with socket.create_server(("127.0.0.1", 0)) as brief, socket.create_server(("127.0.0.1", 0)) as lasting:
        ports = [each.getsockname()[1] for each in (brief, lasting)]
        watch, tree = watching(silent=ports)
        with tree:
            watch.look()
            assert {each.port for each in watch.silent} == set(ports)
            brief.close()
            watch.look()
            assert {each.port for each in watch.silent} == {ports[1]}


def test_a_socket_of_no_connection_may_be_seen_for_a_moment_and_not_stay():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as brief:
        brief.bind(("127.0.0.1", 0))
        watch, tree = watching()
        with tree:
            for _ in range(MOST_LOOKS):
                watch.look()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lasting, tree:
        lasting.bind(("127.0.0.1", 0))
        for _ in range(MOST_LOOKS):
            watch.look()
        with pytest.raises(AssertionError, match="udp"):
            watch.look()
