"""Another account of this machine, and what it gets when it asks the ports of a run."""

import json
import os
import subprocess
import sys

import pytest

STRANGER = 65534
"""A user and group without any right."""

ASK_DASK = """
import asyncio, encodings.idna, json, logging, os, sys
logging.disable(logging.CRITICAL)
from distributed import Client
from distributed.comm import connect
from distributed.core import rpc
from distributed.security import Security
import distributed.protocol.pickle as pickle
other = Security.temporary()  # an encrypted connection, with a certificate that another authority has signed
tls = other.get_connection_args("client")
os.setgroups([]); os.setgid(USER); os.setuid(USER)  # what is read up to here need not be readable for everybody

async def shake(address, arguments):
    try:
        comm = await asyncio.wait_for(connect(address, timeout=5, **arguments), 10)
        await comm.write({"op": "identity", "reply": True})
        return repr(await asyncio.wait_for(comm.read(), 10))
    except Exception as error:
        return None

async def code(address, arguments):
    try:
        there = rpc(address, connection_args=arguments, timeout=5)
        ran = await asyncio.wait_for(there.run(function=pickle.dumps(os.getuid), args=pickle.dumps(())), 10)
        return f"ran code as {ran['result']}"
    except Exception as error:
        return None

async def client(address, security):
    try:
        async with Client(address, security=security, asynchronous=True, timeout=5) as asked:
            return f"ran code as {await asked.run_on_scheduler(os.getuid)}"
    except Exception as error:
        return None

async def ask(address):
    plain = "tcp://" + address.partition("://")[2]
    tries = [shake(plain, {}), shake(address, tls), code(plain, {}), code(address, tls)]
    tries += [client(plain, None), client(address, other)]
    return [answer for answer in [await one for one in tries] if answer is not None]

async def main():
    print(json.dumps({address: await ask(address) for address in json.loads(sys.argv[1])}))

asyncio.run(main())
"""


def asking_dask(addresses):
    """Words of a command that asks Dask's ports in clear and with a certificate of its own, and lists their answers."""
    return [sys.executable, "-c", ASK_DASK.replace("USER", str(STRANGER)), json.dumps(list(addresses))]


def as_stranger(words):
    """What a command prints as JSON; it drops to an account without rights itself, after it has been read."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
