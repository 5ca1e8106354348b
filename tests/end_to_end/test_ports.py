"""Servers of tests that run beside each other never want the same port."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.served import PORTS, free_port

ASK = "from tests.end_to_end.served import free_port; print(*[free_port() for _ in range(200)], flush=True); input()"


def test_processes_beside_each_other_get_different_ports_that_can_be_listened_at():
    command = [sys.executable, "-c", ASK]
    root = Path(__file__).parents[2]
    asking = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    ports = [int(port) for process in asking for port in process.stdout.readline().split()]
    ports += [free_port() for _ in range(200)]
    for process in asking:
        process.communicate("\n", timeout=60)
    assert len(ports) == len(set(ports)) == 1000
    assert set(ports) <= set(PORTS)
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports[0]))
        server.listen()
