"""What strangers and pages of other addresses get of a Prefect server: asked as ASGI has it, without a socket."""

import asyncio
import json
from base64 import b64encode

import pytest

from blockveil.flows.service.door import Door

LOGIN = "blockveil:the secret"
OWN = "http://127.0.0.1:4200"


class Inner:
    """A server that notes what reaches it."""

    def __init__(self, error=None):
        self.seen, self.error = [], error

    async def __call__(self, scope, receive, send):
        self.seen.append(scope)
        if self.error is not None:
            raise self.error
        if scope["type"] == "websocket":
            assert (await receive())["type"] == "websocket.connect"
            await send({"type": "websocket.accept", "subprotocol": "prefect"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})


def asked(scope, heard=(), inner=None, origins=(OWN,)):
    """What a door sends where it hears this, and what reached the server behind it."""
    inner, sent, coming = inner or Inner(), [], list(heard)

    async def receive():
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(Door(inner, LOGIN, list(origins))(scope, receive, send))
    return sent, inner.seen


def talk(*messages, origins=(), subprotocols=("prefect",), allowed=(OWN,)):
    headers = [(b"origin", each.encode()) for each in origins]
    scope = {"type": "websocket", "path": "/api/events/in", "headers": headers, "subprotocols": list(subprotocols)}
    heard = [{"type": "websocket.connect"}, *messages, {"type": "websocket.disconnect", "code": 1005}]
    return asked(scope, heard, origins=allowed)


def text(value):
    return {"type": "websocket.receive", "text": value if isinstance(value, str) else json.dumps(value)}


RIGHT = text({"type": "auth", "token": LOGIN})


@pytest.mark.parametrize(
    "origins",
    [
        ["http://evil.example"], ["null"], [""], ["http://localhost:4200"], ["https://127.0.0.1:4200"], [OWN + "/"],
        [OWN, "http://evil.example"], ["http://127.0.0.1:42000"], ["http://évil.example"],
    ],
)  # fmt: skip
def test_a_websocket_of_another_origin_is_refused_before_it_is_accepted_even_with_the_login(origins):
    assert talk(RIGHT, origins=origins) == ([{"type": "websocket.close"}], [])


def test_a_websocket_of_the_server_s_own_pages_or_of_a_program_talks_to_the_server_once_it_shows_the_login():
    for origins in ([], [OWN]):
        sent, seen = talk(RIGHT, text("more"), origins=origins)
        assert [each["type"] for each in sent] == ["websocket.accept", "websocket.send", "websocket.send"]
        assert [each["text"] for each in sent[1:]] == [RIGHT["text"], "more"]
        assert len(seen) == 1


def test_where_every_origin_is_allowed_over_http_it_is_on_a_websocket_too():
    assert talk(RIGHT, origins=["http://evil.example"], allowed=["*"])[1]


def test_a_websocket_that_cannot_log_in_is_not_accepted():
    assert talk(RIGHT, subprotocols=[]) == ([{"type": "websocket.close"}], [])


@pytest.mark.parametrize(
    "first",
    [
        text({"type": "auth", "token": "é"}), text({"type": "auth", "token": "\ud800"}), text({"type": "auth"}),
        text({"type": "auth", "token": LOGIN + "x"}), text({"type": "auth", "token": LOGIN[:-1]}),
        *(text({"type": "auth", "token": each}) for each in ("", None, 0, True, [], [LOGIN], {"a": 1})),
        text({"type": "subscribe", "token": LOGIN}), text({"token": LOGIN}), text({"type": ["auth"], "token": LOGIN}),
        *map(text, ("", "null", "[]", "{}", '"auth"', "NaN", "{", "1" * 10_000, "[" * 50_000)),
        {"type": "websocket.receive", "bytes": RIGHT["text"].encode()},
        {"type": "websocket.receive", "text": None, "bytes": b"\xff"},
    ],
)  # fmt: skip
def test_whatever_stands_for_a_login_is_refused_without_reaching_the_server_or_raising(first):
    sent, seen = talk(first, RIGHT)
    assert [each["type"] for each in sent] == ["websocket.accept", "websocket.close"]
    assert sent[1]["code"] == 1008
    assert seen == []


def test_a_websocket_that_says_nothing_reaches_no_server():
    assert [each["type"] for each in talk()[0]] == ["websocket.accept"]
    assert talk()[1] == []


def http(path="/api/flows/", inner=None, **headers):
    listed = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return asked({"type": "http", "method": "GET", "path": path, "headers": listed}, inner=inner)


def basic(value):
    return b"Basic " + b64encode(value)


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc"])
def test_a_description_of_the_server_which_takes_it_seconds_is_for_who_has_the_login(path):
    sent, seen = http(path)
    assert (sent[0]["status"], seen) == (401, [])
    assert http(path, authorization=basic(LOGIN.encode()))[1]


@pytest.mark.parametrize("given", [basic(b"\xe9"), basic("é".encode()), b"Basic =", b"Basic", b"\xff", b"Bearer x"])
def test_a_wrong_login_is_none_and_nothing_is_compressed_for_a_stranger(given):
    _, [scope] = http(authorization=given, accept_encoding=b"gzip", accept=b"text/html")
    assert scope["headers"] == [(b"accept", b"text/html")]
    _, [scope] = http(authorization=basic(LOGIN.encode()), accept_encoding=b"gzip")
    assert len(scope["headers"]) == 2


def test_an_error_at_a_stranger_s_request_is_no_traceback_and_one_at_another_s_is():
    http(inner=Inner(ValueError("made by a stranger")))
    with pytest.raises(ValueError, match="at work"):
        http(inner=Inner(ValueError("at work")), authorization=basic(LOGIN.encode()))
