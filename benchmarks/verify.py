"""What checking a release takes beside reading and hashing its files, and what signing adds to a night.

``python -m benchmarks.verify [FEATURES RECORDS [REPEATS]]`` makes up records, lets ``blockveil run`` make a signed
release of their covariance, and prints medians of interleaved repeats, each beginning with another one, since what
runs second finds the files in the processor's caches:

* verify    ``verify`` of the release with its signer's key, as ``blockveil verify`` calls it: digest of all elements,
            promise, noise, unit and signature
* files     every file of the release read and hashed by ``hashlib.sha256``, in one thread, without decoding anything
* elements  the elements of its arrays hashed by ``hashlib.sha256`` from memory: what the digest covers, whose stored
            bytes are fewer where they are compressed
* sign      the signature of what the release states, beside plain Ed25519 on as many bytes
* prove     head and proof of the release's entry from its ledger, which is made on request and by no night

Files are in the page cache. Ratios above 1 say that checking is faster than what it is compared with. Beside the clock
stands the time of the processor, all threads together, which a busy machine hardly changes: checking reads and hashes
in two threads, so that its clock is less where two cores are idle.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from benchmarks import machine
from benchmarks.covariance import seconds
from benchmarks.night import blockveil, cluster, configure, store
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.verification.findings import Evidence
from blockveil.pipeline.verification.verified import verify

FEATURES, RECORDS, REPEATS = 2000, 20_000, 5
BLOCK = 2**20


def released(folder: Path, features: int, records: int, key: Ed25519PrivateKey) -> tuple[Path, float]:
    """Folder of a signed release, and the seconds of its night."""
    configure(folder, features, records, 4.0, cluster(2, threads=True))
    store(folder, features, records)
    pem = folder / "signer.pem"
    pem.touch(mode=0o600)
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    config = folder / "wide.toml"
    config.write_text(config.read_text() + 'signing_key = "file:signer.pem"\n')
    began = time.perf_counter()
    if blockveil(folder, "run", "wide.toml", "--no-prefect", "--date", "2026-01-01").wait():
        raise SystemExit("the release was not made")
    took = time.perf_counter() - began
    return next((folder / "releases").rglob("*.zarr")), took


def checked(release: Path, given: Evidence) -> None:
    """Verify, as of files that this process has not seen before."""
    some = next(path for path in release.rglob("*") if path.is_file() and path.name != "zarr.json")
    os.utime(some)
    found = verify(release, given)
    if not found.holds or any(finding.holds is not True for finding in found.findings):
        raise SystemExit(f"the release does not verify: {found.plain}")


def hashed_files(release: Path) -> None:
    """All files of the release, as anybody would hash them."""
    for path in sorted(release.rglob("*")):
        if path.is_file():
            total = hashlib.sha256()
            with path.open("rb", buffering=0) as file:
                while block := file.read(BLOCK):
                    total.update(block)


def hashed_elements(arrays: list[np.ndarray]) -> None:
    """Elements of all arrays from memory."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.reshape(-1).view(np.uint8).data)


def both(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    began = time.process_time()
    return seconds(run), time.process_time() - began


def times(run: Callable[[], object], often: int) -> float:
    """Seconds of one call of something short."""
    return seconds(lambda: [run() for _ in range(often)]) / often


def compare(folder: Path, features: int, records: int, repeats: int) -> None:
    """Make the release, measure, and print."""
    key = Ed25519PrivateKey.generate()
    release, night = released(folder, features, records, key)
    group = zarr.open_group(release, mode="r")
    arrays = [np.ascontiguousarray(each[...]) for _, each in group.arrays() if each.dtype.kind in "biuf"]
    runs: dict[str, Callable[[], object]] = {
        "verify": lambda: checked(release, Evidence(key.public_key())),
        "files": lambda: hashed_files(release),
        "elements": lambda: hashed_elements(arrays),
    }
    turns = [[*list(runs)[first:], *list(runs)[:first]] for first in range(len(runs))]
    timed = [{name: both(runs[name]) for name in turns[repeat % len(turns)]} for repeat in range(repeats)]
    stored = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    plain = sum(each.nbytes for each in arrays)
    print(f"covariance of {features:,} features: {stored / 2**20:.0f} MiB of files, {plain / 2**20:.0f} of elements")
    for kind, what in enumerate(("clock", "processor")):
        middle = {name: statistics.median(run[name][kind] for run in timed) for name in runs}
        print(f"  {what}: " + ", ".join(f"{name} {took:.3f} s" for name, took in middle.items()))
        for name in ("files", "elements"):
            ratio = statistics.median(run[name][kind] / run["verify"][kind] for run in timed)
            print(f"    speed of verify over reading and hashing the {name}: {ratio:.2f}")
    signing(release, folder, night, key)


def signing(release: Path, folder: Path, night: float, key: Ed25519PrivateKey) -> None:
    """Time of signature and proof, and their share of the night."""
    stated = open_release(release).attributes
    text = canonical_json({name: value for name, value in stated.items() if name != "signature"})
    sign, plain = times(lambda: Signer(key).signature(stated), 50), times(lambda: key.sign(text), 50)
    ledger, release_id = Ledger(load_config(folder / "wide.toml").ledger_url), str(stated["release_id"])
    prove = times(lambda: ledger.proof(release_id), 5)
    print(f"  sign {1e3 * sign:.2f} ms, plain Ed25519 of {len(text):,} bytes {1e3 * plain:.2f} ms: {plain / sign:.2f}")
    print(f"  a night of {night:.1f} s: the signature is {100 * sign / night:.4f} % of it")
    print(f"  prove {1e3 * prove:.1f} ms: {100 * prove / night:.2f} % of it")


def main() -> None:
    """Compare at the size given on the command line."""
    given = [int(word) for word in sys.argv[1:]]
    features, records, repeats = [*given, *(FEATURES, RECORDS, REPEATS)[len(given) :]]
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), features, records, repeats)


if __name__ == "__main__":
    machine.begin()
    main()
