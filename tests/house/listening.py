"""An address that listens for messages, as a webhook of alarms has it."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def listening():
    """The address, and what it was sent so far."""
    messages = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self):
            messages.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", messages
        finally:
            server.shutdown()
            thread.join()
