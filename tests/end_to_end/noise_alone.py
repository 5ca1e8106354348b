"""A command line that publishes noise alone, so that nothing that it writes or shows may depend on the records.

``python noise_alone.py CONDUCTOR FOLDER...`` releases the config of each folder. Worker processes of Dask load this
file too, as their preload. What stands in for what, and no more:

* zeros for the exact answer, at the one place where it meets what is drawn at random;
* a key that depends on its secret alone, for one that depends on the records' fingerprint too, as a random function;
* a hash of a ledger's row without its payload, for one that the row's random nonce hides;
* one secret, one moment, and counted identifiers, for random ones.
"""

import atexit
import contextlib
import hashlib
import io
import itertools
import json
import logging
import os
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import zarr

import blockveil.engine.noise.discrete_gaussian
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign
from blockveil.engine.mechanisms.published.buckets import BucketsDesign
from blockveil.engine.noise import design
from blockveil.flows.cluster import local_workers
from blockveil.flows.service import server
from blockveil.pipeline.ledger import Ledger, chain, ledger
from blockveil.pipeline.releases import charged_steps, keys, outputs

NIGHT = "2026-11-20"
MOMENT = "2026-11-20T02:30:00+00:00"

ARRIVALS = "arrive-*.npy"
"""Files of records that arrive before a later night of a series, whose date is in the name."""

leak = ""
"""Name of the present folder; one that names a leak has it planted, to see that it is found."""

logged = io.StringIO()
"""What was logged since the last folder."""

_add_noise, _derive = design.add_noise, blockveil.engine.noise.discrete_gaussian.NoiseKey.derive.__func__
_attributes, _measure = outputs.attributes, charged_steps.measure


def _alone(exact, steps, noise, shift=0):
    moved = int(exact.sum()) % 1000 if leak == "a sum moves a number" else 0
    return _add_noise(np.zeros_like(exact), steps, noise, shift) + moved


def _on_zeros(draw):
    return lambda design, key, exact, block=None: draw(design, key, np.zeros_like(exact), block)


def _measured(plan, books, reservation, *args):
    if leak == "the number of rows is logged":
        logging.getLogger("blockveil.pipeline").debug("%d rows", reservation.dataset.rows)
    found = _measure(plan, books, reservation, *args)
    if leak == "the number of rows is the size of a file":
        (found.path.parent / "padding").write_bytes(bytes(reservation.dataset.rows))
    return found


def _attributed(plan, charge, arrays, *args):
    found = _attributes(plan, charge, arrays, *args)
    if leak == "the fingerprint is published":
        entry = next(e for e in Ledger(plan.loaded.ledger_url).history() if e.kind == "RESERVED")
        found["plan_digest"] = hashlib.sha256(entry.payload["spec_digest"].encode()).hexdigest()
    return found


def _blinded(row):
    return hashlib.sha256(json.dumps({**row, "payload": ""}, sort_keys=True).encode()).hexdigest()


design.add_noise = _alone
for _design in (DirectionsDesign, BucketsDesign):
    _design.release = _on_zeros(_design.release)
blockveil.engine.noise.discrete_gaussian.NoiseKey.derive = classmethod(
    lambda cls, secret, _context: _derive(cls, secret, b"")
)


def fix():
    """Take what is random, and the clock, from one place; in the process of the command line alone."""
    numbers = itertools.count(1)
    charged_steps.measure, outputs.attributes = _measured, _attributed
    chain.row_hash = _blinded
    chain.os = SimpleNamespace(urandom=lambda length: next(numbers).to_bytes(length))  # whoever imported what uses it
    ledger.Ledger.__init__.__defaults__ = (lambda: MOMENT,)
    secrets.token_hex = lambda length: f"{next(numbers):0{2 * length}x}"
    keys.token_bytes = lambda length: bytes(range(length))


def commands(config, conductor, folder):
    """A night as people live it: asked, granted, run, and looked at; one of them run again, and reported again.

    Between the nights of a series stand names of files: of the records that arrive on the date of the name.
    """
    plain, again = conductor == "plain", folder.name == "covariance"
    run = ["run", config, *(["--no-prefect"] if plain else []), "--date"]
    grant = ["--epsilon", "900", "--delta", "1e-4"]
    later = [(path.name, path.stem.removeprefix("arrive-")) for path in sorted(Path().glob(ARRIVALS))]
    return [
        ["plan", config, "--date", NIGHT, "--json"],
        ["ledger", "grant", config, *grant],
        ["--debug", *run, NIGHT],
        *([[*run, NIGHT]] if plain and again else []),  # a process has one temporary server
        *(step for name, date in later for step in ([name], ["--debug", *run, date])),
        *([["plan", config, "--date", later[-1][1]]] if later else []),
        ["ledger", "budget", config],
        ["ledger", "show", config, "--all"],
        ["ledger", "export", config, "--format", "openlineage"],
        *([["report", "people/covariance/" + NIGHT, "--config", config, "--output", "page.html"]] if again else []),
    ]


def called(words):
    """Call the command line, or let records arrive; the code with which it ended."""
    from blockveil.flows.cli import main

    if len(words) == 1:
        zarr.open_group("records.zarr", mode="r+")["records"].append(np.load(words[0]))
        return 0
    sys.argv = ["blockveil", *words]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


def lived(folder, conductor):
    """Release a config of a folder; all that is shown and logged goes to files beside it."""
    global leak
    leak = folder.name
    os.chdir(folder)
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # ledgers whose first entries are equal are of other machines
    shown, codes = io.StringIO(), []
    for words in commands("people.toml", conductor, folder):
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            codes.append(called(words))
    Path("shown").write_text(shown.getvalue())
    Path("logged").write_text(logged.getvalue())
    logged.seek(0)
    logged.truncate()
    Path("codes").write_text(json.dumps(codes))


def one_cluster(folder):
    """Let all releases of this process have the same workers, whose start takes longer than what they do."""
    start, made = local_workers.start, []

    def started(*words):
        if not made:
            with dask.config.set({"temporary-directory": str(folder)}):  # a release's own ends with it
                made.append(start(*words))
            atexit.register(made[0].close)
            made[0].close = lambda: None
        return made[0]

    local_workers.start = started


if __name__ == "__main__":
    handler = logging.StreamHandler(logged)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger().addHandler(handler)
    conductor, *folders = sys.argv[1:]
    dask.config.set({"distributed.worker.preload": [str(Path(__file__).with_name("noise_alone_workers.py"))]})
    # A command has a temporary server of its own; several share one, for its start takes longer than they do.
    shared = len(folders) > 1 or any(Path(folders[0]).glob(ARRIVALS))
    if sum('kind = "local"' in (Path(folder) / "people.toml").read_text() for folder in folders) > 1:
        one_cluster(Path(folders[0]).parent / "workers")
    with server.at_hand() if conductor == "prefect" and shared else contextlib.nullcontext():
        for folder in folders:
            fix()
            lived(Path(folder), conductor)
