"""What must hold whatever happens, checked from outside: nothing here uses the product's own reading of its state.

Rows are read by SQL, files from the simulated disk, and the budget is computed from the formula of a Gaussian loss.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
import zlib
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.canonical import canonical_json
from tests.simulation.shared_charge import SharedCharge
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule

_COLUMNS = "sequence, kind, release_id, charge_id, payload, previous_hash, hash"


def nights_within(epsilon: float, delta: float, mu: float) -> int:
    """How many releases of a loss a budget holds: the most whose composition keeps the promise.

    The privacy profile of a Gaussian loss (Balle and Wang, 2018), and that losses add up in squares.
    """

    def profile(total: float) -> float:
        def cdf(x: float) -> float:
            return math.erfc(-x / math.sqrt(2)) / 2

        return cdf(total / 2 - epsilon / total) - math.exp(epsilon) * cdf(-total / 2 - epsilon / total)

    count = 0
    while profile(mu * math.sqrt(count + 1)) <= delta:
        count += 1
    return count


Copy = tuple[int, dict[str, list[str]], dict[str, dict[str, Any]]]


class Watcher:
    """Knows all that was ever seen of one schedule.

    Parameters
    ----------
    schedule
        Whose disk, database and bucket are looked at.
    most
        Releases that the budget holds.
    """

    def __init__(self, schedule: Schedule, most: int) -> None:
        self._schedule, self._most = schedule, most
        self._rows: list[tuple[Any, ...]] = []
        self._states: dict[str, list[str]] = {}
        self._release: dict[str, str] = {}
        self._checks: dict[str, str] = {}
        self._fingerprints: dict[str, str] = {}
        self._drawn: dict[str, bytes] = {}
        self._visible: dict[str, tuple[str, dict[str, bytes]]] = {}
        self._series = SharedCharge(self._require)
        self._before: date | None = None
        self._ever: dict[str, tuple[Any, ...]] = {}
        self._committed: set[str] = set()
        self._lost: dict[str, str] = {}
        self.restored = False
        self.released: dict[str, dict[str, Any]] = {}
        self.moments: set[str] = set()

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(what)

    # ---- the ledger --------------------------------------------------------------------------------------------

    def booked(self) -> None:
        """Look at the rows that were added; those before them must be as they were."""
        query = f"SELECT {_COLUMNS} FROM entry WHERE sequence > ? ORDER BY sequence"
        for row in self._schedule.engine.watcher.execute(query, (len(self._rows),)).fetchall():
            self._row(row)

    def ledger_whole(self) -> None:
        """No row that was committed may be lost or changed."""
        found = self._schedule.engine.watcher.execute(f"SELECT {_COLUMNS} FROM entry ORDER BY sequence").fetchall()
        self._require(found == self._rows, "a committed row of the ledger was lost or changed")

    def _row(self, row: tuple[Any, ...]) -> None:
        sequence, kind, release_id, charge, payload, previous, _ = row
        self._require(sequence == len(self._rows) + 1, "the ledger's sequence has a gap")
        self._require(not self._rows or previous == self._rows[-1][-1], "a row does not continue the one before it")
        self._rows.append(row)
        self._ever[row[-1]] = row
        if charge is None:
            return
        said, states = json.loads(payload), self._states.setdefault(charge, [])
        states.append(kind)
        if "lost" in said:
            self._lost[charge] = said["lost"].get("charge", charge)
        if charge in self._lost or (kind == "COMMITTED" and charge in self._committed):
            lost = self._lost.get(charge, charge) in self._committed
            self._require(lost, "a charge is booked that was never committed")
            self._moment("booked again")
            return
        self._release[charge] = release_id
        self._series.row(kind, release_id, charge, said)
        if kind == "RESERVED":
            self._fingerprints[charge] = self._state_with(said["spec"]["data"]["fingerprint"])
            self._caps(release_id)
        elif kind == "COMMITTED":
            self._require(states == ["RESERVED", "COMMITTED"], "a charge was committed that was not reserved")
            self._checks[charge] = said["key_check"]
            self._moment("committed")
            self._committed.add(charge)
            self.all_is_charged()
        elif kind == "VOID":
            self._require(states == ["RESERVED", "VOID"], "a committed charge was given back")
            self._require(charge not in self._drawn, "a charge was given back after its noise was drawn")
            self._moment("void")
        elif kind == "RELEASED":
            self._require(states == ["RESERVED", "COMMITTED", "RELEASED"], "a release was sealed without a commit")
            self.released[charge] = said
            self.sealed(charge)
            self._moment("released")
            if charge in self._series.payers:
                self._moment("released at the charge of another night")

    def _state_with(self, fingerprint: str) -> str:
        """Which state of the records a digest is of, under a secret that the key store has."""
        for path, node in self._schedule.world.disk.walk():
            if path[0] == "keys" and node.entries is None and len(node.content) == 32:
                for state in ("state 0", "state 1"):
                    if fingerprint == _keyed(bytes(node.content), state):
                        return state
        raise Violation("a charge is for records that nobody has, or the key of their digest is gone")

    def all_is_charged(self) -> None:
        """Whatever was drawn counts, also after an older copy of the ledger was put back."""
        charged = {self._lost.get(charge, charge) for charge, states in self._states.items() if "COMMITTED" in states}
        self._require(charged >= set(self._drawn), "a charge is forgotten whose noise was drawn")

    # ---- copies that are put back ------------------------------------------------------------------------------

    def copy(self) -> Copy:
        """What the ledger says now, to be put back."""
        return len(self._rows), {charge: list(states) for charge, states in self._states.items()}, dict(self.released)

    def put_back(self, copy: Copy) -> None:
        """An older copy of the ledger is there again; what was drawn and seen remains so."""
        rows, states, released = copy
        self._rows = self._rows[:rows]
        self._states = {charge: list(kinds) for charge, kinds in states.items()}
        self.released, self.restored = dict(released), True
        self._series.forget(set(states))
        self._moment("put back")

    def _moment(self, name: str) -> None:
        self.moments.add(name)

    def _caps(self, release_id: str) -> None:
        standing = [charge for charge, states in self._states.items() if states[-1] != "VOID"]
        paid = [charge for charge in standing if charge not in self._series.payers]
        self._require(len(paid) <= self._most, "standing charges exceed the budget")
        same = [charge for charge in standing if self._release[charge] == release_id]
        self._require(len(same) == 1, "one release has two standing charges")

    def state_of(self, release_id: str) -> int:
        """State of the records that a standing charge is for, or a night before it; the first where there is none."""
        standing = {self._release[c]: c for c, states in self._states.items() if states[-1] != "VOID"}
        charge = standing.get(release_id) or (self._series.opening and next(iter(standing.values()), None))
        return 0 if charge is None else int(self._fingerprints[charge].rpartition(" ")[2])

    # ---- noise -------------------------------------------------------------------------------------------------

    def drew(self, charge: str, secret: bytes, states: tuple[int, ...]) -> None:
        """Noise is drawn: only under a committed charge, and under one key."""
        del states
        self._require(charge in self._committed, "noise was drawn before the charge was committed")
        self._require(self._is_marked(charge), "noise was drawn before the mark was on the disk")
        before = self._drawn.setdefault(charge, secret)
        self._require(before == secret, "one charge drew with two keys")
        self._require(list(self._drawn.values()).count(secret) == 1, "two charges drew with one key")
        self._moment("drew again" if before is not secret else "drew")

    def _is_marked(self, charge: str) -> bool:
        """Whether a mark that no lost power takes away has a charge."""
        safe = self._schedule.world.disk.root.safe.get("marks")
        files = [] if safe is None else [node for name, node in safe.safe.items() if name.endswith(".jsonl")]
        return any(charge.encode() in (node.safe or b"") for node in files)

    # ---- what readers see --------------------------------------------------------------------------------------

    def named(self, target: tuple[str, ...]) -> None:
        """A name has come up on the disk: of a pointer, it must lead to a whole release that was paid for."""
        if target[0] == "releases" and target[-1].endswith(".json") and len(target) == 4:
            self.pointer(target)

    def pointer(self, target: tuple[str, ...]) -> None:
        """Follow a pointer as a reader does."""
        disk = self._schedule.world.disk
        try:
            said = json.loads(bytes(disk.find(target).content))
            files = _files(disk, (*target[:-1], said["path"]))
        except ValueError:
            raise Violation("a pointer is no JSON") from None
        except FileNotFoundError:
            raise Violation("a pointer, or what it leads to, is not there") from None
        self._whole(said, files, "/".join(target[1:])[: -len(".json")])

    def put(self, path: str) -> None:
        """An object has come up in the store."""
        if not path.endswith(".json") or path.endswith("zarr.json"):
            return
        said = json.loads(self._schedule.bucket.objects[path])
        start = f"{path.rpartition('/')[0]}/{said['path']}/"
        objects = self._schedule.bucket.objects
        files = {name.removeprefix(start): data for name, data in objects.items() if name.startswith(start)}
        self._whole(said, files, path[: -len(".json")])
        self._moment("sent")

    def _whole(self, said: dict[str, Any], files: dict[str, bytes], release_id: str) -> None:
        self._require(said["release_id"] == release_id, "a pointer is of another release")
        self._require("zarr.json" in files, "a pointer leads to no release")
        try:
            attributes = json.loads(files["zarr.json"])["attributes"]
        except ValueError:
            raise Violation("a pointer leads to a release that is torn") from None
        self._require(attributes["output_digest"] == said["output_digest"], "pointer and release differ")
        self._require(_digest(files) == said["output_digest"], "a release differs from its digest")
        charge = attributes["ledger"]["charge_id"]
        self._require(charge in self._committed, "something was published without a committed charge")
        self._require(self._release[charge] == release_id, "a release names the charge of another one")
        numbers = {name: content for name, content in files.items() if name.endswith("/c")}
        first, before = self._visible.setdefault(release_id, (said["output_digest"], numbers))
        # A commit that a copy had lost is another entry, which the release names: its numbers are the same.
        same = first == said["output_digest"] or (self.restored and before == numbers)
        self._require(same, "one release has shown two outputs")
        row = self._ever[attributes["ledger"]["row_hash"]]
        same = (row[3], row[0]) == (charge, attributes["ledger"]["sequence"])
        self._require(same, "its ledger entry is another's")
        self._require(self._of_one_state(charge, files), "a release mixes two states of the records")
        if self._schedule.kind.first is not None:
            self._series.read(charge, files)

    def _of_one_state(self, charge: str, files: dict[str, bytes]) -> bool:
        noise = int.from_bytes(hashlib.sha256(b"noise" + self._drawn[charge]).digest()[:6], "little")
        total = struct.unpack("<d", files["sum/c"][:-4])[0] - noise
        return self._fingerprints[charge] == f"state {int(total) // 2}" and total in (0, 2)

    # ---- seals and keys ----------------------------------------------------------------------------------------

    def sealed(self, charge: str) -> None:
        """What the ledger calls released is there with its digest, and its key is nowhere."""
        said, release_id = self.released[charge], self._release[charge]
        self.no_key(charge)
        target = ("releases", *release_id.split("/")[:2], f"{release_id.rpartition('/')[2]}.json")
        if not self._may_be_gone(release_id) or self._schedule.world.disk.has(target):
            self.pointer(target)
            pointer = json.loads(bytes(self._schedule.world.disk.find(target).content))
            same = (pointer["output_digest"], pointer["path"]) == (said["output_digest"], said["location"])
            self._require(same, "what is there is not what the ledger calls released")
        if self._schedule.kind.sends and not self._may_be_gone(release_id):
            self._require(f"{release_id}.json" in self._schedule.bucket.objects, "a sealed release was not sent")

    def no_key(self, charge: str) -> None:
        """After the seal no file holds the secret that was committed."""
        for path, node in self._schedule.world.disk.walk():
            if path[0] == "keys" and node.entries is None and len(node.content) == 32:
                check = hmac.new(bytes(node.content), b"blockveil key check", hashlib.sha256).hexdigest()
                self._require(check != self._checks.get(charge), "a key is there after its seal")

    # ---- retention ---------------------------------------------------------------------------------------------

    def prunes(self, before: date) -> None:
        """Somebody removes the releases before a date."""
        self._before = max(before, self._before or before)

    def _may_be_gone(self, release_id: str) -> bool:
        """Whether it may have been removed: it is old enough, and a newer one is released."""
        night, released = release_id.rpartition("/")[2], [self._release[charge] for charge in self.released]
        old = self._before is not None and night < self._before.isoformat()
        return old and release_id in released and any(each > release_id for each in released)

    def removed(self, target: tuple[str, ...]) -> None:
        """A release or its pointer has gone from the disk: only an old one may, and its pointer goes first."""
        night = target[-1][: len("2026-01-01")]
        release_id = "/".join((*target[1:3], night))
        self._require(self._may_be_gone(release_id), "a release was removed that is kept")
        there = self._schedule.world.disk.has((*target[:-1], f"{night}.json"))
        self._require(not there, "a release was removed before its pointer")
        self._moment("pruned")

    def deleted(self, path: str) -> None:
        """An object has gone: the pointer of its release must have gone before it."""
        dataset, name, rest = path.split("/", 2)
        release_id = f"{dataset}/{name}/{rest[: len('2026-01-01')]}"
        self._require(self._may_be_gone(release_id), "a sent release was removed that is kept")
        there = f"{release_id}.json" in self._schedule.bucket.objects
        self._require(not there, "a sent release was removed before its pointer")

    def everything(self) -> None:
        """All that is sealed and all that has a pointer, again: after a power loss, and at the end."""
        self.ledger_whole()
        for path, _ in list(self._schedule.world.disk.walk()):
            self.named(path)
        for charge in self.released:
            self.sealed(charge)

    def unfinished(self) -> list[str]:
        """What stands beside releases and is none."""
        try:
            return [path[-1] for path, _ in self._schedule.world.disk.walk(("releases",)) if ".staging" in path[-1]]
        except FileNotFoundError:
            return []

    def _wanted(self, nights: list[str]) -> int:
        """How many releases there must be at the end."""
        if self._schedule.kind.first is None:
            return min(len(nights), self._most)
        # Of nights that share a charge none is drawn any more once a later one was.
        last = max((self._release[charge].rpartition("/")[2] for charge in self.released), default="")
        made = {self._release[charge].rpartition("/")[2] for charge in self.released}
        return sum(night in made or night > last for night in nights)

    def settled(self, nights: list[str]) -> bool:
        """Whether as many nights are released as the budget holds, and no charge of another one is held."""
        held = [states for states in self._states.values() if states[-1] not in ("VOID", "RELEASED")]
        return not held and len(self.released) == self._wanted(nights)

    def end(self, nights: list[str]) -> None:
        """At the end every night is released, or the budget holds no more; nothing is unfinished or held."""
        self.everything()
        self.all_is_charged()
        if self.restored:  # nights whose key or charge is gone are not made up for
            return
        standing = {self._release[c]: c for c, states in self._states.items() if states[-1] != "VOID"}
        held = [release for release, charge in standing.items() if self._states[charge][-1] != "RELEASED"]
        self._require(not held, "a night was lost: its charge stands and it is not released")
        wanted = self._wanted(nights)
        self._require(len(standing) == wanted, f"a night was lost: {len(standing)} of {wanted} are released")
        self._require(not self.unfinished(), "something unfinished was left beside releases")
        for release_id in standing:
            if self._schedule.kind.sends and not self._may_be_gone(release_id):
                self.put(f"{release_id}.json")


@lru_cache(maxsize=256)
def _keyed(secret: bytes, state: str) -> str:
    return hashlib.blake2b(state.encode(), key=secret, digest_size=32, person=b"fingerprint").hexdigest()


def _files(disk: Any, start: tuple[str, ...]) -> dict[str, bytes]:
    return {
        "/".join(path[len(start) :]): bytes(node.content) for path, node in disk.walk(start) if node.entries is None
    }


def _digest(files: dict[str, bytes]) -> str:
    """Digest of a release, as :mod:`.content` says, each array a single tile; empty where one is damaged."""
    return _digest_of(tuple(sorted(files.items())))


@lru_cache(maxsize=64)
def _digest_of(items: tuple[tuple[str, bytes], ...]) -> str:
    files = dict(items)
    arrays = []
    for name in sorted({name.partition("/")[0] for name in files if "/" in name}):
        chunk, said = files.get(f"{name}/c", b""), json.loads(files.get(f"{name}/zarr.json", b"{}"))
        if zlib.crc32(chunk[:-4]).to_bytes(4, "little") != chunk[-4:] or "shape" not in said:
            return ""
        leaves = [hashlib.sha256(b"\x00" + chunk[:-4]).digest()] if chunk[:-4] else []
        labels = canonical_json([name, "<f8", said["shape"], said["dimensions"], {}])
        arrays.append(_hashed(b"\x02", labels, len(leaves).to_bytes(8, "little"), _root(leaves)))
    attributes = json.loads(files["zarr.json"])["attributes"]
    covered = {name: value for name, value in attributes.items() if name not in ("output_digest", "signature")}
    return _hashed(b"\x03", canonical_json(covered), len(arrays).to_bytes(8, "little"), _root(arrays)).hex()


def _hashed(kind: bytes, *fields: bytes) -> bytes:
    return hashlib.sha256(kind + b"".join(len(each).to_bytes(8, "little") + each for each in fields)).digest()


def _root(hashes: list[bytes]) -> bytes:
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256().digest()
    half = 2 ** (math.ceil(math.log2(len(hashes))) - 1)
    return hashlib.sha256(b"\x01" + _root(hashes[:half]) + _root(hashes[half:])).digest()
