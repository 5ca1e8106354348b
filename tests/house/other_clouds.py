"""Stores in this process that answer as Google Cloud Storage (its XML interface) and Azure's blob storage document.

They hold objects in memory and know the requests that the product makes, conditions included: of several writers of one
name exactly one creates it. Lists come in short pages. A request without credentials is refused.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 3
"""Objects in one page of a list; the clients have to ask for the others."""

WRITTEN = "Fri, 20 Nov 2026 03:00:00 GMT"


@dataclass(frozen=True)
class Held:
    """An object.

    Attributes
    ----------
    content, kind
        Its bytes and their media type.
    generation
        Number of the write that made it.
    """

    content: bytes
    kind: str
    generation: int


@dataclass
class Asked:
    """A request: method, bucket, object (or an empty text), query, headers in lower case and body."""

    method: str
    bucket: str
    name: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """Status, headers and content."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


class Cloud:
    """A server of buckets; its subclasses are the dialects.

    Attributes
    ----------
    address
        Where it listens.
    """

    scheme = ""
    """How addresses of its buckets begin."""

    def __init__(self) -> None:
        self._buckets: dict[str, dict[str, Held]] = {}
        self._lock, self._writes = threading.Lock(), 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()

    def make(self, bucket: str) -> None:
        """Make an empty bucket, in place of one that there is."""
        with self._lock:
            self._buckets[bucket] = {}

    def split(self, path: str) -> tuple[str, str]:
        """Bucket and object of a path."""
        bucket, _, name = path.lstrip("/").partition("/")
        return unquote(bucket), unquote(name)

    def answer(self, asked: Asked) -> Answer:
        """Carry a request out."""
        if "authorization" not in asked.headers:
            return self.error(401, "Unauthenticated")
        held = self._buckets.get(asked.bucket)
        if held is None:
            return self.error(404, "NoSuchBucket")
        with self._lock:
            if not asked.name:
                return self.removed(asked, held) if asked.method == "POST" else self.listed(asked, held)
            if asked.method == "PUT":
                return self._put(asked, held)
            if asked.name not in held:
                return self.error(404, "NoSuchObject")
            if asked.method == "DELETE":
                del held[asked.name]
                return Answer(202 if isinstance(self, Azure) else 204)
            return self._got(asked, held[asked.name])

    def _put(self, asked: Asked, held: dict[str, Held]) -> Answer:
        problem = self.condition(asked.headers, held.get(asked.name))
        if problem:
            return self.error(problem, "ConditionNotMet")
        self._writes += 1
        kind = asked.headers.get("x-ms-blob-content-type") or asked.headers.get("content-type", "")
        held[asked.name] = Held(asked.body, kind, self._writes)
        return Answer(201 if isinstance(self, Azure) else 200, self.marks(held[asked.name]))

    def _got(self, asked: Asked, found: Held) -> Answer:
        headers = {**self.marks(found), "Content-Type": found.kind, "Accept-Ranges": "bytes"}
        wanted = asked.headers.get("if-match")
        if wanted is not None and wanted != headers["ETag"]:
            return self.error(412, "ConditionNotMet")
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("range") or asked.headers.get("x-ms-range", ""))
        if part is None:
            return Answer(200, headers, found.content)
        start, stop = int(part[1]), min(int(part[2]) + 1, len(found.content))
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(found.content)}"
        return Answer(206, headers, found.content[start:stop])

    def error(self, status: int, code: str) -> Answer:
        """An error in the words of the store."""
        text = f"<Error><Code>{code}</Code><Message>never-to-be-quoted</Message></Error>".encode()
        return Answer(status, {"Content-Type": "application/xml"}, text)

    def page(self, names: list[str], prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
        """Objects and folders of one page, and the last of them where more follow."""
        seen: dict[str, bool] = {}
        for name in sorted(names):
            if name.startswith(prefix):
                head, found, _ = name[len(prefix) :].partition(delimiter or "\0")
                seen[prefix + head + delimiter if found else name] = bool(found)
        rest = [each for each in seen if each > after]
        shown = rest[:PAGE]
        last = shown[-1] if len(rest) > PAGE else ""
        return [each for each in shown if not seen[each]], [each for each in shown if seen[each]], last

    def condition(self, headers: dict[str, str], found: Held | None) -> int:
        """Status of a write that its own condition forbids, or 0."""
        raise NotImplementedError

    def marks(self, held: Held) -> dict[str, str]:
        """Headers that tell which state of an object it is."""
        raise NotImplementedError

    def listed(self, asked: Asked, held: dict[str, Held]) -> Answer:
        """A page of a list."""
        raise NotImplementedError

    def removed(self, asked: Asked, held: dict[str, Held]) -> Answer:
        """Several objects removed by one request."""
        raise NotImplementedError

    def environment(self, address: str, secret: str) -> dict[str, str]:
        """Variables by which a client finds it at an address, perhaps that of a door before it."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

            def answer(self) -> None:
                """Answer."""
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                found = cloud.answer(Asked(self.command, *cloud.split(parts.path), query, headers, body))
                with suppress(ConnectionError):
                    self.send_response(found.status)
                    for name, value in {"Content-Length": str(len(found.content)), **found.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(found.content)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - names of the library

        return Handler


class Google(Cloud):
    """Google Cloud Storage: a write is conditional on the generation, and the entity tag is of the content alone."""

    scheme = "gs"

    def environment(self, address: str, secret: str) -> dict[str, str]:
        """A token in place of an account."""
        return {"GOOGLE_BASE_URL": address, "GOOGLE_BEARER_TOKEN": secret, "GOOGLE_ALLOW_HTTP": "true"}

    def condition(self, headers: dict[str, str], found: Held | None) -> int:
        """The generation that must be there, where 0 stands for none."""
        wanted = headers.get("x-goog-if-generation-match")
        there = 0 if found is None else found.generation
        return 412 if wanted is not None and int(wanted) != there else 0

    def marks(self, held: Held) -> dict[str, str]:
        """Entity tag, generation and time."""
        return {"ETag": _tag(held), "x-goog-generation": str(held.generation), "Last-Modified": WRITTEN}

    def listed(self, asked: Asked, held: dict[str, Held]) -> Answer:
        """A page as the second version of the list writes it."""
        query = asked.query
        after = query.get("continuation-token") or query.get("start-after", "")
        names, folders, last = self.page(list(held), query.get("prefix", ""), query.get("delimiter", ""), after)
        entries = [
            f"<Contents><Key>{escape(name)}</Key><Generation>{held[name].generation}</Generation>"
            f"<LastModified>2026-11-20T03:00:00.000Z</LastModified><ETag>{escape(_tag(held[name]))}</ETag>"
            f"<Size>{len(held[name].content)}</Size></Contents>"
            for name in names
        ]
        entries += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders]
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
        truncated = "true" if last else "false"
        text = (
            "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
            f"<Name>{escape(asked.bucket)}</Name><IsTruncated>{truncated}</IsTruncated>{''.join(entries)}{more}"
            "</ListBucketResult>"
        )
        return Answer(200, {"Content-Type": "application/xml"}, text.encode())


class Azure(Cloud):
    """Azure's blob storage below the account of its emulator: the entity tag is of the write."""

    scheme = "az"
    account = "devstoreaccount1"

    def environment(self, address: str, secret: str) -> dict[str, str]:
        """The account of the emulator, with the secret as its key."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(secret.encode()).decode(),
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURE_ALLOW_HTTP": "true",
            "AZURITE_BLOB_STORAGE_URL": address,
        }

    def split(self, path: str) -> tuple[str, str]:
        """Container and blob behind the account."""
        return super().split(path.removeprefix(f"/{self.account}"))

    def condition(self, headers: dict[str, str], found: Held | None) -> int:
        """A blob that is there already, or another entity tag than the one that must be there."""
        if headers.get("if-none-match") == "*" and found is not None:
            return 409
        wanted = headers.get("if-match")
        there = None if found is None else self.marks(found)["ETag"]
        return 412 if wanted is not None and wanted != there else 0

    def marks(self, held: Held) -> dict[str, str]:
        """Entity tag and time."""
        return {"ETag": f'"0x{held.generation:X}"', "Last-Modified": WRITTEN, "x-ms-blob-type": "BlockBlob"}

    def listed(self, asked: Asked, held: dict[str, Held]) -> Answer:
        """A page as the list of blobs writes it."""
        query = asked.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        names, folders, last = self.page(list(held), prefix, delimiter, query.get("marker", ""))
        entries = [
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{WRITTEN}</Last-Modified>"
            f"<Etag>{self.marks(held[name])['ETag'].strip(chr(34))}</Etag>"
            f"<Content-Length>{len(held[name].content)}</Content-Length><Content-Type>{held[name].kind}</Content-Type>"
            "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            for name in names
        ]
        entries += [f"<BlobPrefix><Name>{escape(each)}</Name></BlobPrefix>" for each in folders]
        text = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{escape(asked.bucket)}">'
            f"<Blobs>{''.join(entries)}</Blobs><NextMarker>{escape(last)}</NextMarker></EnumerationResults>"
        )
        return Answer(200, {"Content-Type": "application/xml"}, text.encode())

    def removed(self, asked: Asked, held: dict[str, Held]) -> Answer:
        """A batch: requests within the request, answered within the answer."""
        wanted = re.findall(rf"(?m)^DELETE /{self.account}/([^ ?]+)[^\n]* HTTP/1\.1", asked.body.decode())
        parts = []
        for number, path in enumerate(wanted):
            found = held.pop(self.split(path)[1], None)
            line = "404 The specified blob does not exist." if found is None else "202 Accepted"
            code = "x-ms-error-code: BlobNotFound\r\n" if found is None else ""
            inner = f"HTTP/1.1 {line}\r\n{code}x-ms-version: 2023-11-03\r\nContent-Length: 0\r\n\r\n"
            parts.append(f"--batch\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n{inner}\r\n")
        text = "".join(parts) + "--batch--\r\n"
        return Answer(202, {"Content-Type": "multipart/mixed; boundary=batch"}, text.encode())


def _tag(held: Held) -> str:
    return f'"{hashlib.md5(held.content, usedforsecurity=False).hexdigest()}"'
