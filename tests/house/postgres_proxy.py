"""A proxy before a PostgreSQL server that cuts the connection when a client commits."""

import contextlib
import selectors
import socket
import threading
import time

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"


class CuttingProxy:
    """Listens on a socket in a folder; the first ``cuts`` commits meet trouble, everything else passes.

    ``how``: "before" drops the commit; "after" lets the server commit and drops its answer; "late" drops the client and
    sends the commit on a moment later.
    """

    def __init__(self, folder, server, how, cuts=1):
        self.how, self.left, self.cut = how, cuts, 0
        self._server = f"{server}/.s.PGSQL.5432"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/.s.PGSQL.5432")
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
        except OSError:  # it is away
            server.close()
            return client.close()
        with client, server, selectors.DefaultSelector() as ready, contextlib.suppress(ConnectionError):  # killed
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    sent = key.fileobj.recv(65536)
                    if not sent:
                        return None
                    if key.fileobj is client and sent.endswith(COMMIT) and self.left:
                        self.left, self.cut = self.left - 1, self.cut + 1
                        return self._trouble(client, server, sent)
                    (server if key.fileobj is client else client).sendall(sent)

    def _trouble(self, client, server, commit):
        if self.how == "after":
            server.sendall(commit)
            assert server.recv(65536)
        if self.how == "late":
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(0.3)
            server.sendall(commit)
            assert server.recv(65536)
