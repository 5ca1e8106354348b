"""Connections without the login keep nobody else out: of every port of a service, by sockets of this machine."""

import contextlib
import logging
import socket
import threading
import time

import pytest
from starlette.responses import PlainTextResponse
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from blockveil.flows.service import answering, connections, door

MANY = 300
"""More than any bound on connections without the login."""


async def app(scope, receive, send):
    """Lets in who says so; everybody gets an answer, the stranger a long one."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await receive()
        await receive()
        return
    known = dict(scope["headers"]).get(b"authorization") == b"known"
    if known:
        connections.show_login(scope)
    await PlainTextResponse("welcome" if known else "x" * 20_000_000)(scope, receive, send)


@pytest.fixture
def port():
    """Of a server with that application."""
    server = answering.listen(app, "127.0.0.1", 0)
    yield server.port
    server.close()


@pytest.fixture
def websockets_port(monkeypatch):
    """Of a server that has WebSockets too, as Prefect's has."""
    real = connections.server
    monkeypatch.setattr(connections, "server", lambda app, ws, **more: real(app, **more))
    server = answering.listen(app, "127.0.0.1", 0)
    yield server.port
    server.close()


WAIT = 300.0
"""Seconds that an answer may take: a crowd of connections keeps a busy machine from it for half a minute."""


def opened(port, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT, source_address=(source, 0))


def is_open(connection):
    """Whether the other side has kept a connection; what it has sent until now is lost."""
    connection.setblocking(False)
    try:
        while connection.recv(2**20):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(WAIT)


def until(done):
    """Wait for something that the server does soon."""
    end = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nAuthorization: known\r\n\r\n")
    heard = b""
    while not heard.endswith(b"welcome"):
        part = connection.recv(1000)
        assert part, "the connection was closed"
        heard += part


@pytest.fixture
def crowd(port):
    """Opens many connections, which it closes at the end."""
    with contextlib.ExitStack() as stack:

        def come(first=b"", number=MANY, source="127.0.0.1"):
            came = [stack.enter_context(opened(port, source)) for _ in range(number)]
            for each in came:
                with contextlib.suppress(ConnectionError):
                    each.sendall(first)
            return came

        yield come


@pytest.mark.parametrize("first", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"])
def test_few_of_many_connections_without_the_login_stay_and_its_owner_is_answered(port, crowd, first):
    came = crowd(first)
    with opened(port) as owner:
        ask(owner)
    until(lambda: sum(map(is_open, came[:-64])) <= 64)


def test_a_connection_that_has_shown_the_login_stays_however_many_come(port, crowd):
    with opened(port) as owner:
        ask(owner)
        for _ in range(2):
            crowd()
            ask(owner)


def test_the_crowd_of_one_peer_ends_no_connection_of_another(port, crowd):
    with opened(port, "127.0.0.2") as other:
        crowd()
        with opened(port) as owner:
            ask(owner)
        assert is_open(other)


@pytest.mark.parametrize("first", [b"", b"GET / HT"])
def test_a_first_request_that_does_not_come_in_time_ends_its_connection(port, monkeypatch, first):
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 0.2)
    with opened(port) as silent:
        silent.sendall(first)
        until(lambda: not is_open(silent))


def test_bytes_that_drip_win_no_time(port, monkeypatch):
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 0.5)
    with opened(port) as slow:

        def drip():
            with contextlib.suppress(ConnectionError):
                slow.sendall(b"G")
            return not is_open(slow)

        until(drip)


def test_whoever_reads_an_answer_slowly_is_cut_off(port, monkeypatch):
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
    with opened(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        time.sleep(2)  # nothing is read, and the answer is larger than what systems keep for a reader
        heard = 0
        with contextlib.suppress(ConnectionError):
            while part := slow.recv(2**20):
                heard += len(part)
        assert heard < 20_000_000


@pytest.mark.parametrize("sent", [None, "x" * 100_000], ids=["nothing", "too much"])
def test_a_websocket_without_the_login_ends_soon(websockets_port, monkeypatch, sent):
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 5.0 if sent else 0.5)
    with connect(f"ws://127.0.0.1:{websockets_port}/", open_timeout=60) as opened_one:
        if sent is not None:
            opened_one.send(sent)
        with pytest.raises(ConnectionClosed):
            opened_one.recv(timeout=60)


BROKEN = {
    "silent": b"",
    "no HTTP": b"\x00\x01\xff\r\n\r\n",
    "half": b"GET / HTTP/1.1\r\nHo",
    "a bad length": b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n",
    "long": b"GET /" + b"a" * 200_000,
    "another protocol": b"GET / HTTP/1.1\r\nHost: here\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "no handshake": b"GET / HTTP/1.1\r\nHost: here\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("first", BROKEN.values(), ids=BROKEN)
def test_a_broken_connection_costs_no_line(port, capfd, monkeypatch, first):
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 0.2)
    for end in (socket.SHUT_WR, socket.SHUT_RDWR, None):
        with opened(port) as broken, contextlib.suppress(OSError):
            broken.sendall(first)
            if end is not None:
                broken.shutdown(end)
            else:
                time.sleep(0.5)
    with opened(port) as owner:
        ask(owner)
    assert capfd.readouterr() == ("", "")


def test_garbage_costs_no_line_whatever_level_prefect_gives_the_logger_of_uvicorn(port, caplog):
    caplog.set_level(logging.WARNING, "uvicorn.error")
    with opened(port) as stranger:
        stranger.sendall(b"\x00\x01\xff\r\n\r\n")
        assert b"400 Bad Request" in stranger.recv(1000)
    assert not caplog.records
    logging.getLogger("uvicorn.error").error("a fault of the server")
    assert [record.message for record in caplog.records] == ["a fault of the server"]


def test_many_who_come_at_once_are_all_answered_where_they_have_the_login(port, crowd):
    problems = []

    def come():
        try:
            with opened(port) as owner:
                ask(owner)
        except Exception as error:  # in a thread it would be lost
            problems.append(error)

    threads = [threading.Thread(target=come) for _ in range(100)]
    crowd(number=100)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_the_door_of_a_server_and_small_servers_have_the_same_bounds():
    assert door.connections is connections
    assert isinstance(connections.server(app), connections.Server)
