"""An object store in memory, whose replies are lost and whose requests arrive twice, or after their sender has died."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obstore.exceptions import AlreadyExistsError, GenericError

if TYPE_CHECKING:
    from tests.simulation.world import World


class Got:
    """What ``obstore.get`` returns."""

    def __init__(self, content: bytes, meta: dict[str, Any]) -> None:
        self._content, self.meta = content, meta

    def bytes(self) -> bytes:
        """All of it."""
        return self._content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


class Bucket:
    """Objects by path; every request is a step of the process that makes it.

    Parameters
    ----------
    world
        Decides what becomes of a request.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.objects: dict[str, bytes] = {}
        self.in_flight: list[tuple[str, bytes]] = []
        self.on_put: list[Any] = []
        self.on_delete: list[Any] = []

    def put(self, path: str, content: bytes | Path, *, mode: Any = None, **_: Any) -> dict[str, Any]:
        """Create or replace an object, with chance in between."""
        data = content.read_bytes() if isinstance(content, Path) else bytes(content)
        flight = (path, data)
        if mode == "create":
            self.in_flight.append(flight)  # where the sender dies now, the request may still arrive
        self._world.step("put", path)
        if flight in self.in_flight:
            self.in_flight.remove(flight)
        fate = self._fate()
        if fate == "refused":
            raise GenericError("503")
        created = self._carry_out(path, data, mode)
        if fate == "lost":
            raise GenericError("the reply was lost")
        if fate == "twice" and mode == "create":
            created = self._carry_out(path, data, mode)
        if not created:
            raise AlreadyExistsError(path)
        return self._meta(path)

    def _carry_out(self, path: str, data: bytes, mode: Any) -> bool:
        if mode == "create" and path in self.objects:
            return False
        self.objects[path] = data
        self._world.note(f"the store has {path}")
        for react in self.on_put:
            react(path)
        return True

    def _fate(self) -> str:
        world = self._world
        if world.current is world.machine or not world.faults.bucket or world.chance() >= world.faults.bucket:
            return "done"
        return str(world.one_of(("refused", "lost", "twice")))

    def arrive(self) -> None:
        """Requests of senders that have died are carried out, or are lost on the way."""
        flights, self.in_flight = self.in_flight, []
        for path, data in flights:
            if self._world.chance() < 0.5:
                self._carry_out(path, data, "create")

    def get(self, path: str, **_: Any) -> Got:
        self._ask("get", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return Got(self.objects[path], self._meta(path))

    def head(self, path: str) -> dict[str, Any]:
        self._ask("head", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self._meta(path)

    def list(self, prefix: str | None = None, **_: Any) -> list[list[dict[str, Any]]]:
        self._ask("list", prefix or "")
        start = f"{prefix}/" if prefix else ""
        return [[self._meta(path) for path in sorted(self.objects) if path.startswith(start)]]

    def list_with_delimiter(self, prefix: str | None = None) -> dict[str, Any]:
        self._ask("list", prefix or "")
        start = f"{prefix}/" if prefix else ""
        inner = [path.removeprefix(start) for path in sorted(self.objects) if path.startswith(start)]
        folders = sorted({f"{start}{name.partition('/')[0]}" for name in inner if "/" in name})
        return {"objects": [self._meta(start + name) for name in inner if "/" not in name], "common_prefixes": folders}

    def delete(self, path: str) -> None:
        self._ask("delete", path)
        self.objects.pop(path, None)
        for react in self.on_delete:
            react(path)

    def _ask(self, what: str, path: str) -> None:
        self._world.step(what, path)
        if self._fate() != "done":
            raise GenericError("503")

    def _meta(self, path: str) -> dict[str, Any]:
        data = self.objects[path]
        tag = hashlib.sha256(data).hexdigest()
        return {"path": path, "size": len(data), "e_tag": f'"{tag}"', "last_modified": datetime(2026, 1, 1, tzinfo=UTC)}


def requests() -> dict[str, Any]:
    """The functions of ``obstore`` that the product calls, for a bucket in place of a client."""
    return {name: partial(_asked, name) for name in ("put", "get", "head", "list", "list_with_delimiter", "delete")}


def _asked(name: str, place: Bucket, *rest: Any, **options: Any) -> Any:
    return getattr(place, name)(*rest, **options)
