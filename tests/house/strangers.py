"""Another account of this machine, and what it gets when it asks the sockets and processes of a command."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

STRANGER = 65534
"""A user and group without any right."""

ASKING = """
import asyncio, encodings.idna, json, logging, os, ssl, sys
logging.disable(logging.CRITICAL)
import distributed.protocol.pickle as pickle
from distributed import Client
from distributed.comm import connect
from distributed.core import rpc
from distributed.security import Security
from websockets.asyncio.client import connect as open_websocket

other = Security.temporary()  # an encrypted connection, with a certificate that another authority has signed
tls = other.get_connection_args("client")
nothing = ssl.create_default_context()
nothing.check_hostname, nothing.verify_mode = False, ssl.CERT_NONE
nameless = {"ssl_context": nothing, "require_encryption": True}
PATIENCE = 4
os.setgroups([]); os.setgid(USER); os.setuid(USER)  # what is read up to here need not be readable for everybody

async def shake(address, arguments):
    comm = await connect(address, timeout=PATIENCE, **arguments)
    await comm.write({"op": "identity", "reply": True})
    return repr(await comm.read())

async def code(address, arguments):
    there = rpc(address, connection_args=arguments, timeout=PATIENCE)
    ran = await there.run(function=pickle.dumps(os.getuid), args=pickle.dumps(()))
    return f"ran code as {ran['result']}"

async def client(address, security):
    async with Client(address, security=security, asynchronous=True, timeout=PATIENCE) as asked:
        return f"ran code as {await asked.run_on_scheduler(os.getuid)}"

async def tried(work, seconds=3 * PATIENCE):
    try:
        return await asyncio.wait_for(work, seconds)
    except (Exception, asyncio.CancelledError):
        return None

async def dask(place):
    clear, closed = "tcp://" + place, "tls://" + place
    tries = [shake(clear, {}), code(clear, {}), client(clear, None)]
    for arguments in (tls, nameless):
        tries += [shake(closed, arguments), code(closed, arguments)]
    tries += [client(closed, other)]
    return [answer for answer in await asyncio.gather(*map(tried, tries)) if answer is not None]

async def http(host, port, method, path):
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # The same words could be a form of another server; none of ours must answer them but with 401.
        writer.write(f"{method} {path} HTTP/1.0\\r\\nHost: {host}:{port}\\r\\nContent-Type: application/json\\r\\n"
                     "Content-Length: 2\\r\\n\\r\\n{}".encode())
        words = (await reader.readline()).split()
        return int(words[1]) if words and words[0].startswith(b"HTTP/") else None
    finally:
        writer.close()

async def websocket(host, port, path):
    async with open_websocket(f"ws://{host}:{port}{path}", subprotocols=["prefect"]) as asked:
        await asked.send(json.dumps({"type": "auth", "token": "guessed:guessed"}))
        return await asked.recv()

async def pages(host, port, routes):
    turns = asyncio.Semaphore(4)
    async def one(method, path):
        async with turns:
            work = websocket(host, port, path) if method == "WEBSOCKET" else http(host, port, method, path)
            return f"{method} {path}", await tried(work, 60)
    return dict(await asyncio.gather(*(one(*route) for route in routes)))

async def tcp(host, port, routes):
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        (await asyncio.open_connection(host, port))[1].close()
    except OSError:
        return {"gone": True}
    if await tried(http(host, port, "GET", "/")) is not None:
        return {"pages": await pages(host, port, routes)}
    found = {"dask": await dask(place), "wants": await tried(wanted(host, port))}
    if found == {"dask": [], "wants": None}:
        found["closes"] = await tried(closes(host, port))
    return found

async def closes(host, port):
    # Whether it ends the connection of somebody who says something else than it wants to hear.
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"guessed" * 50 + bytes([10]))
        return await reader.read(1) == b""
    except ConnectionError:
        return True
    finally:
        writer.close()

async def wanted(host, port):
    # Of somebody who speaks TLS and has no certificate.
    reader, writer = await asyncio.open_connection(host, port, ssl=nothing)
    try:
        await reader.read(1)
    except ssl.SSLError as error:
        return error.reason
    finally:
        writer.close()

async def unix(path):
    try:
        (await asyncio.open_unix_connection(path))[1].close()
    except OSError as error:
        return {"unix": error.strerror}
    return {"unix": "open"}

def beginning(path):
    with open(path, "rb") as file:
        return b"opened" if path.endswith("mem") else file.read(1)  # nothing stands at address 0

async def process(pid):
    found = {}
    for name in ("environ", "mem", "fd", "maps", "cwd"):
        try:
            look = {"fd": os.listdir, "cwd": os.readlink}.get(name, beginning)
            # A process that has ended keeps its files of memory for a moment, and nothing in them.
            found[name] = "open" if look(f"/proc/{pid}/{name}") else "gone"
        except FileNotFoundError:
            found[name] = "gone"
        except OSError as error:
            found[name] = error.strerror
    return found

async def main():
    reader = asyncio.StreamReader(limit=2**26)  # a question names every route of a server
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        kinds = {"tcp": tcp, "unix": unix, "process": process}
        print(json.dumps(await asyncio.gather(*(kinds[kind](*words) for kind, *words in json.loads(line)))), flush=True)

asyncio.run(main())
"""


REFUSAL = {"dask": [], "wants": "TLSV13_ALERT_CERTIFICATE_REQUIRED"}
"""Answer of a part of Dask that lets in only who has a certificate of its own authority."""


class Stranger:
    """A process of another account, which asks on request."""

    def __init__(self):
        if os.getuid() != 0:
            pytest.skip("only root can become another user")
        script = ASKING.replace("USER", str(STRANGER))
        self._process = subprocess.Popen(
            [sys.executable, "-c", script], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, questions):
        """Answers to questions that are asked at once.

        They are ``("tcp", host, port, routes)``, ``("unix", path)`` and ``("process", number)``. Of a port ``dask`` is
        a list of answers, ``pages`` the status of each route, and ``gone`` says that nobody listens; of a process it is
        told which of its files can be opened.
        """
        self._process.stdin.write(json.dumps(questions) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the stranger died"
        return json.loads(line)

    def dask(self, addresses):
        """What each of Dask's addresses answers."""
        places = [address.partition("://")[2].rpartition(":") for address in addresses]
        answers = self.ask([("tcp", host, int(port), []) for host, _, port in places])
        return dict(zip(addresses, answers, strict=True))

    def close(self):
        """End."""
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@contextlib.contextmanager
def stranger():
    """Somebody with an account of this machine."""
    made = Stranger()
    try:
        yield made
    finally:
        made.close()
