"""A mail server that keeps what it is sent: enough of SMTP for a client that encrypts and logs in."""

import base64
import email
import email.policy
import socketserver
import ssl
import threading
from contextlib import contextmanager


class _Session(socketserver.StreamRequestHandler):
    timeout = 30

    def handle(self):
        server, encrypted, known, sender, recipients = self.server, False, None, None, []

        def say(line):
            self.wfile.write(f"{line}\r\n".encode())
            self.wfile.flush()

        say("220 localhost")
        while line := self.rfile.readline().decode().strip():
            word, _, rest = line.partition(" ")
            match word.upper():
                case "EHLO":
                    say("250-localhost")
                    say("250 AUTH PLAIN" if encrypted else "250 STARTTLS")
                case "STARTTLS":
                    say("220 go on")
                    self.finish()
                    self.connection = server.context.wrap_socket(self.connection, server_side=True)
                    self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
                    encrypted = True
                case "AUTH":
                    _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
                    known = (user, password) in server.users and encrypted
                    say("235 welcome" if known else "535 no")
                case "MAIL":
                    sender = rest
                    say("250 ok" if known or not server.users else "530 who are you")
                case "RCPT":
                    recipients.append(rest.partition("<")[2].rstrip(">"))
                    say("250 ok")
                case "DATA":
                    say("354 go on")
                    lines = iter(self.rfile.readline, b".\r\n")
                    message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
                    server.messages.append((sender, recipients, message))
                    say("250 kept")
                case "QUIT":
                    say("221 bye")
                    return
                case _:
                    say("250 ok")

    def finish(self):
        super().finish()
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """A client that does not trust the certificate hangs up; that is what is tested."""


@contextmanager
def running(certificates, users=()):
    """Listen at localhost; gives the port and the list of what was sent: sender, recipients and message."""
    with _Server(("127.0.0.1", 0), _Session) as server:
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        server.users, server.messages = set(users), []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], server.messages
        finally:
            server.shutdown()
            thread.join()
