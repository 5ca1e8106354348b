"""A proxy that speaks TLS to clients and plain TCP to a server here, as one stands before a Prefect server."""

import asyncio
import contextlib
import ssl
import threading


class TlsProxy:
    """Listens at localhost; ``target`` is the port of the server behind it."""

    def __init__(self, certificates):
        self.target = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        self._started, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self):
        """Where clients find it."""
        return f"https://localhost:{self.port}"

    def _run(self):
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self):
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.CancelledError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
            finally:
                for each in (inner_writer, writer):
                    each.transport.abort()
                await asyncio.sleep(0)  # the loop closes their sockets in its next turn, and may have no other


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()
