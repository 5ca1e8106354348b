"""Mistakes that are planted into the product for as long as a test looks for them, each by a change of its source text.

A mistake names the function, the text that stands there today, and what is put in its place; a text that is no longer
there is an error, so that a mistake cannot silently become none.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.simulation.schedule import engine


@dataclass(frozen=True)
class Mistake:
    """A change of one function.

    Attributes
    ----------
    where
        Module and function, such as ``blockveil.pipeline.releases.keys:KeyStore._link``.
    changes
        Texts of its source, each exactly once there, and what takes their place.
    unguarded
        Whether the triggers of the ledger, which would refuse what it does, are taken away too.
    """

    where: str
    changes: tuple[tuple[str, str], ...]
    unguarded: bool = False

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product with the mistake, for the time of a block."""
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(module_name)
        *owners, name = path.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each)
        source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
        for old, new in self.changes:
            if source.count(old) != 1:
                raise LookupError(f"{self.where} has {source.count(old)} times {old!r}")
            source = source.replace(old, new)
        space = dict[str, Any]()
        exec(compile(source, f"<{self.where} with a mistake>", "exec"), module.__dict__, space)  # our own source
        with mock.patch.object(owner, name, space[name]), mock.patch.object(engine(), "guarded", not self.unguarded):
            yield


_KEYS = "blockveil.pipeline.releases.keys:KeyStore."
_STEPS = "blockveil.pipeline.releases.charged_steps:"
_PUBLISHING = "blockveil.pipeline.releases.publishing:"
_SHARED = "blockveil.pipeline.ledger.shared_nights:"
_RETENTION = "blockveil.pipeline.releases.retention:"
_LEDGER = "blockveil.pipeline.ledger.ledger:Ledger."
_REQUEST = "blockveil.pipeline.ledger.reserving:ChargeRequest."
_RESTORING = "blockveil.pipeline.ledger.restoring:"

COPIED = {
    "a mark that another process wrote is not synced": Mistake(
        "blockveil.pipeline.ledger.marks:Mark.follow", (("                sync(folder())", "                pass"),)
    ),
    "the name of the mark is not synced": Mistake(
        "blockveil.pipeline.ledger.marks:Mark._replace", (("    sync(folder())\n", ""),)
    ),
    "an older copy of the ledger is not noticed": Mistake(
        _RESTORING + "_has", (("    return not seen.sequence or", "    return True or"),)
    ),
    "noise is drawn before the mark is written": Mistake(_LEDGER + "commit", (("    sight.follow()", "    pass"),)),
    "the mark is not synced": Mistake(
        "blockveil.pipeline.ledger.marks:Mark._replace", (("        os.fsync(file.fileno())\n", ""),)
    ),
    "what a copy had lost is not booked": Mistake(
        _RESTORING + "_missing", (("    return [one", "    return []\n    [one"),)
    ),
    "a series goes on after a copy was put back": Mistake(
        _RESTORING + "check_open", (("    if closed:\n", "    if False:\n"),)
    ),
}
"""Mistakes about older copies of the ledger that are put back."""

MISTAKES = {
    "the secret is not synced": Mistake(
        _KEYS + "_link", (("            file.flush()\n            os.fsync(file.fileno())\n", "            pass\n"),)
    ),
    "the name of the secret is not synced": Mistake(_KEYS + "_link", (("    sync(self._root)\n", ""),)),
    "the name of the key store is not synced": Mistake(_KEYS + "_link", (("    sync_names(self._root)", "    pass"),)),
    "noise is drawn before the commit": Mistake(
        _STEPS + "measure",
        (
            (
                "    charge, key = _commit(books, reservation.charge, tell)\n",
                "    charge = reservation.charge\n"
                "    secret = books.keys.create(charge.charge_id)\n"
                "    key = NoiseKey.derive(secret, bytes.fromhex(charge.spec_digest))\n",
            ),
            (
                '            tell("closing the release", None)\n',
                "            charge, key = _commit(books, reservation.charge, tell)\n",
            ),
        ),
    ),
    "a committed charge is given back": Mistake(
        _LEDGER + "void_if_reserved",
        (("        if state is State.RESERVED:\n", "        if state in (State.RESERVED, State.COMMITTED):\n"),),
        unguarded=True,
    ),
    "the key is wiped before the release is published": Mistake(
        _STEPS + "measure", (("installed.callback(compute.forget, ", "installed.callback(books.keys.destroy, "),)
    ),
    "the key outlives the seal": Mistake(
        _STEPS + "seal",
        (
            ("    books.keys.destroy(charge_id)\n", ""),
            ("    lineage.tell", "    books.keys.destroy(charge_id)\n    lineage.tell"),
        ),
    ),
    "the pointer comes before the data": Mistake(
        _PUBLISHING + "publish",
        (
            ("_settle(staged, target)\n        durable.sync(folder)\n", "verified_attributes(staged.path)\n"),
            ("        durable.sync_names(folder)\n", "        _settle(staged, target)\n        durable.sync(folder)\n"),
        ),
    ),
    "the name of a release is not synced before its pointer": Mistake(
        _PUBLISHING + "publish", (("        durable.sync(folder)\n        content", "        content"),)
    ),
    "a release is not synced": Mistake(
        _PUBLISHING + "Draft.finish",
        (
            ("    durable.sync_tree(self._held.path)\n    digest", "    digest"),
            ("    durable.sync_tree(self._held.path)\n    return", "    return"),
        ),
    ),
    "a pointer is written in place": Mistake(
        "blockveil.pipeline.base.durable:replace_file",
        (
            (
                "    with replacing",
                "    target.write_bytes(content)\n    return sync(target), sync(target.parent)\n    with replacing",
            ),
        ),
    ),
    "a retry is charged again": Mistake(
        _REQUEST + "book",
        (("(active := lookups.active(connection, self.release_id))", "(active := None)"),),
        unguarded=True,
    ),
    "the cap is not looked at": Mistake(
        _REQUEST + "_paid",
        (("booked(budget, self.charge, self.part)", "budget.tally.book(budget.cap, self.charge, self.part)"),),
    ),
    "two attempts draw with two keys": Mistake(
        _STEPS + "_commit", (("    if charge.key_check != _check_value(secret):\n", "    if False:\n"),)
    ),
    "records are not looked at after the draw": Mistake(
        _STEPS + "measure", (("            dataset.check_unchanged(committed=True)\n", ""),)
    ),
    "the pointer is sent before what it points to": Mistake(
        "blockveil.pipeline.releases.destination:Destination.send",
        (("    files = _files(published.path)\n", "    files = _files(published.path)\n"
          "    if found is None:\n"
          "        self._create(release_id, _pointer(release_id), published.pointer, there=False)\n"),),
    ),
    "commits do not wait for the disk": Mistake(
        "blockveil.pipeline.ledger.sqlite:_configure", (("synchronous=FULL", "synchronous=NORMAL"),)
    ),
    "what is sealed may not have been sent": Mistake(
        "blockveil.pipeline.releases.destination:send", (("    if place is not None:\n", "    if False:\n"),)
    ),
    "two nights of a charge draw for one place": Mistake(
        _SHARED + "check_commit", (("    if \"continual\" in spec:", "    if False:"),)
    ),
    "each night of a charge pays again": Mistake(
        _SHARED + "paid_by", (("    if not series:\n        return None\n", "    return None\n"),)
    ),
    "what later nights are read with is removed": Mistake(
        _RETENTION + "old_releases", (("needed_later(loaded, ledger, before), []", "set(), []"),)
    ),
    "the newest release is removed": Mistake(_RETENTION + "old_releases", (("in sealed[:-1]:", "in sealed:"),)),
    "a release is removed before its pointer": Mistake(
        _RETENTION + "prune", (("for path in each.files:", "for path in each.files[::-1]:"),)
    ),
    "what was sent goes before its pointer": Mistake(
        "blockveil.pipeline.releases.destination:Destination.remove",
        (("        writes.remove(self.place, [_pointer(release_id)])\n", ""),),
    ),
}  # fmt: skip
"""Each name says what is wrong then."""
