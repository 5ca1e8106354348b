"""A Prefect server that is started here: asked in this process, with the settings that its own process would get."""

import asyncio
import os
from unittest import mock

import httpx
import pytest

from blockveil.flows.service import server

LOGIN = ("blockveil", "the secret")
OPEN = {("get", "/health"), ("get", "/ready")}
"""What answers without a login: that the server lives."""


@pytest.fixture
def app():
    """The server's API, without a database behind it."""
    from prefect.context import SettingsContext
    from prefect.server.api.server import create_app  # noqa: TID251 - without a schedule
    from prefect.settings import Profile, Settings

    with mock.patch.dict(os.environ, server._settings("http://127.0.0.1:1/api", ":".join(LOGIN))):
        settings = Settings()
        with SettingsContext(profile=Profile(name="test", settings={}), settings=settings):
            yield create_app(settings=settings, ignore_cache=True)


def answers(app, requests, **more):
    """Status of each of some requests."""

    async def ask():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return [(await client.request(*each, **more)).status_code for each in requests]

    return asyncio.run(ask())


@pytest.mark.slow
def test_no_route_answers_without_the_login_and_nothing_is_changed_without_a_token_beside_it(app):
    described = next(route.app for route in app.routes if route.path == "/api").openapi()["paths"]
    routes = [(method, path) for path, methods in described.items() for method in methods]
    assert len(routes) > 150
    asked = [(method.upper(), "/api" + path.replace("{", "").replace("}", "")) for method, path in routes]
    for login in (None, ("blockveil", "guessed"), ("", "")):
        found = dict(zip(routes, answers(app, asked, auth=login, json={}), strict=True))
        assert {route for route, status in found.items() if status not in (401, 403)} <= OPEN
    changing = [("POST", "/api/flows/"), ("PATCH", "/api/deployments/x"), ("DELETE", "/api/flows/x")]
    guessed = {"prefect-csrf-client": "test", "prefect-csrf-token": "guessed"}
    for headers in ({}, guessed):
        assert answers(app, changing, auth=LOGIN, json={"name": "x"}, headers=headers) == [403] * 3
    assert answers(app, [("GET", "/api/admin/version")], auth=LOGIN) == [200]
