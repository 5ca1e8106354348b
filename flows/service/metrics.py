"""Budgets and nights for Prometheus. Public numbers only.

Nothing of a record, a row count, a fingerprint or a run time is among them. Every scrape reads the ledgers anew, so
what is shown is what the ledger would decide by. Whoever asks must show the token of the Prefect home: budgets are for
those who read them, not for every account of the machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from blockveil.flows.service import connections, login, own_secret
from blockveil.flows.service.answering import Answering, App, listen
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.deployments_file import LoadedDeployments, NightSection
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.releases.catch_up import charges_of, last_released

_LABELS = ("dataset", "release")

_FIRST_ZONE = timedelta(hours=14)
# A day begins there first; a later one has begun nowhere.

_TOKEN = "blockveil-metrics-token"  # noqa: S105 - the name of a file


class Budgets(Collector):
    """What each nightly release has left and when it was last made."""

    def __init__(self, loaded: LoadedDeployments) -> None:
        self._nights = loaded.deployments.night
        self._plans = {night.config: _plan(loaded, night) for night in self._nights}

    def describe(self) -> list[Any]:
        """Tell nothing in advance, so that starting does not read a ledger."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the ledgers."""
        texts = {
            "epsilon_granted": "Epsilon of the budget, at its delta",
            "epsilon_spent": "Epsilon of all charges together, at the budget's delta",
            "budget_spent_ratio": "Share of the budget that is spent; shares add up, epsilons do not",
            "nights_left": "Releases like this one that still fit",
            "releases": "Nights that are released",
            "unfinished_nights": "Nights that were begun and are not released",
            "last_release_timestamp_seconds": "Start of the newest released logical date, in UTC",
            "ledger_readable": "1 where the ledger could be read, else 0",
        }
        gauges = {name: GaugeMetricFamily(f"blockveil_{name}", text, labels=_LABELS) for name, text in texts.items()}
        for plan in self._plans.values():
            labels = (plan.config.release.dataset, plan.config.release.name)
            try:
                values = _values(plan)
            except BlockveilError:
                values = {"ledger_readable": 0.0}
            for name, value in values.items():
                gauges[name].add_metric(labels, value)
        yield from gauges.values()


def _plan(loaded: LoadedDeployments, night: NightSection) -> Plan:
    return plan_near(loaded.configs[night.config], datetime.now(UTC).date())


def _values(plan: Plan) -> dict[str, float]:
    ledger = Ledger(plan.loaded.ledger_url)
    status = budgets.granted(plan, ledger)
    if status is None:
        return {"ledger_readable": 1.0}
    nights = charges_of(ledger, plan.config.release)
    last = last_released(nights, (datetime.now(UTC) + _FIRST_ZONE).date())
    release_count = sum(state is State.RELEASED for state in nights.values())
    values = {
        "ledger_readable": 1.0,
        "epsilon_granted": status.epsilon,
        "epsilon_spent": status.spent_epsilon,
        "budget_spent_ratio": status.used,
        "nights_left": float(budgets.nights_left(plan, ledger, status)),
        "releases": float(release_count),
        "unfinished_nights": float(len(nights) - release_count),
    }
    if last is not None:
        values["last_release_timestamp_seconds"] = datetime.combine(last, time(), UTC).timestamp()
    return values


def token() -> str:
    """What a scrape must show; made once and kept in the Prefect home.

    Raises
    ------
    StoreError
        The file cannot be made or read, or others could have read or changed it.
    """
    return own_secret.kept(login.home() / _TOKEN, "token")


def start(loaded: LoadedDeployments, host: str, port: int, wanted: str) -> Answering:
    """Answer scrapes at ``http://host:port/metrics`` from a thread of its own.

    Parameters
    ----------
    loaded
        Nights of which budgets are shown.
    host, port
        Where to listen.
    wanted
        Token that a scrape must show.
    """
    registry = CollectorRegistry()
    registry.register(Budgets(loaded))
    app = guarded(make_asgi_app(registry), wanted)
    return listen(app, host, port)


def guarded(app: App, wanted: str) -> App:
    """Let in only who shows a token, as ``Authorization: Bearer TOKEN``, whatever they ask for."""
    expected = f"Bearer {wanted}".encode()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        header = Headers(scope=scope).get("authorization", "").encode("latin-1")
        if hmac.compare_digest(header, expected):
            connections.show_login(scope)
            await app(scope, receive, send)
        else:
            await PlainTextResponse("Unauthorized\n", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    return answer
