"""Reports a run to a lineage catalogue when it ends: to a file, or to the address of an OpenLineage endpoint.

It receives what ``blockveil ledger export --format openlineage`` writes of the run's charge, from its START on: a
catalogue takes an event twice as once. Nothing that goes wrong here reaches the run, nor is it waited for longer than
:data:`WAIT_SECONDS`: the ledger has the events anyway.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.ledger import Charge, Ledger
from blockveil.pipeline.ledger.run_facets import run_events
from blockveil.pipeline.sections.fields import REFERENCES

WAIT_SECONDS = 10.0
"""How long a run waits at its end until the events are delivered, before it goes on without knowing."""

_EVENT = b'{"eventTime"'
"""How each line of a file of events begins."""

_LOCAL = ("localhost", "127.0.0.1", "::1")


def tell(loaded: LoadedConfig, ledger: Ledger, charge: Charge) -> None:
    """Deliver the events of a charge where the config wants it; a failure is a warning in the log, with no address."""
    place = loaded.config.output.lineage
    if place is None:
        return
    problems = []

    def deliver() -> None:
        try:
            entries = [one for one in ledger.history(release_id=charge.release_id) if one.charge_id == charge.charge_id]
            account = loaded.config.release.account
            events = run_events(entries, {account: ledger.budget(account).grant})
            if place.startswith(REFERENCES):
                _post(read_secret("output.lineage", place, loaded.base), _key(loaded), events)
            else:
                _append(loaded, place, events)
        except Exception as error:  # noqa: BLE001 - the run is done; its catalogue must not undo that
            problems.append(_reason(error))

    # A thread, for a server that sends a byte now and then keeps every timeout of a socket from passing.
    thread = threading.Thread(target=deliver, name="lineage", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        problems.append(_reason(error))
    else:
        thread.join(WAIT_SECONDS)
        if thread.is_alive():
            problems.append(f"no answer within {WAIT_SECONDS:g} seconds")
    for problem in problems:
        logging.getLogger(__name__).warning(
            "%s: its run events were not delivered (%s). `blockveil ledger export --format openlineage` has them.",
            charge.release_id,
            problem,
        )


def _reason(error: Exception) -> str:
    if isinstance(error, BlockveilError):
        return error.value
    return f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__


def _append(loaded: LoadedConfig, place: str, events: list[dict[str, Any]]) -> None:
    """Add a line for each event to a file, in one write."""
    path = loaded.resolve(place, "output.lineage")
    lines = "".join(f"{json.dumps(event, sort_keys=True)}\n" for event in events).encode()
    with path.open("a+b", buffering=0) as stream:
        stream.seek(0)
        first = stream.read(len(_EVENT))
        if not _EVENT.startswith(first):  # shorter where a full disk cut it off
            raise StoreError(
                f'"{path.name}" holds something else than events', "Events are added to a file of their own", "Name one"
            )
        if first and (stream.seek(-1, os.SEEK_END), stream.read(1))[1] != b"\n":
            lines = b"\n" + lines  # after a line that a full disk cut off
        if os.write(stream.fileno(), lines) < len(lines):
            raise StoreError("The disk is full", "A line holds a whole event", "Free some space")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirection an error: it could lead to a place that nobody chose."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _post(address: str, key: str | None, events: list[dict[str, Any]]) -> None:
    """Send each event to an endpoint."""
    parts = urlsplit(address)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOCAL):
        raise ConfigError(
            "what output.lineage refers to is not an https address",
            "Only an endpoint on this machine may do without",
            "Correct it",
        )
    opener = urllib.request.build_opener(_NoRedirect)
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    for event in events:
        request = urllib.request.Request(address, json.dumps(event).encode(), headers, method="POST")  # noqa: S310
        opener.open(request, timeout=WAIT_SECONDS).close()


def _key(loaded: LoadedConfig) -> str | None:
    reference = loaded.config.output.lineage_key
    return None if reference is None else read_secret("output.lineage_key", reference, loaded.base)
