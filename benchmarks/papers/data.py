"""Records of the experiments: shipped ones, files that their publishers distribute, and made-up ones in their place.

============ ======================== ==================================================================
experiment   records                  where they are
============ ======================== ==================================================================
MVG I        liver, 345 x 6           shipped
MVG II       movement, 10,176 x 4     ``MovementAAL_RSS_1.csv`` to ``..._314.csv`` below ``--data``
MVG III      fetal hearts, 2,126 x 21 ``CTG.xls`` below ``--data`` (read by xlrd, if it is installed)
R1SMG I      pickups, 89 x 89         shipped
R1SMG II     swarm, 24,016 x 2,400    ``Flocking.csv`` below ``--data``; else the shipped images of digits
training     digits, 1,797 x 64       shipped; MNIST by its four files below ``--data`` beside it
IMGM I       Adult, 48,842 x 105      shipped
============ ======================== ==================================================================

Shipped files and MNIST are checked by their digests. The publisher of the others (UCI) states none: the SHA-256 of what
was read is printed, so that two people can see whether they read the same.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

SHIPPED = Path(__file__).parents[1] / "data"
DIGESTS = {
    "liver.csv": "ab7c9f801a6fc0568605bda3796a3962d0b940a19ced4060fb1e2ff98438b5cc",
    "uber_grid.npz": "e879d68990afa358e66838022415dffb4e4e686372f84778c46d09b6bf26c1fc",
    "digits.npz": "dff739c317c3d7a561cd1d11ae22ab4ac7f0557489c9e3935e97bec510d05737",
    "adult.npz": "3d30373a761ef9e924947779cf42ce53e8c8b91274adbed091f81efb4a480ca8",
}
"""SHA-256 of what is shipped."""

MNIST = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
"""MD5 that is published for the files of MNIST. It tells a damaged file; it is no defence against a forger."""

_MOVEMENT, _PAPERS_MOVEMENTS = 314, 10_176
_HEART = {
    "LB": (50, 200), "AC": (0, 30), "FM": (0, 600), "UC": (0, 30), "ASTV": (0, 100), "MSTV": (0, 10), "ALTV": (0, 100),
    "MLTV": (0, 60), "DL": (0, 20), "DS": (0, 2), "DP": (0, 5), "Width": (0, 200), "Min": (40, 180), "Max": (100, 250),
    "Nmax": (0, 20), "Nzeros": (0, 10), "Mode": (50, 200), "Mean": (50, 200), "Median": (50, 200),
    "Variance": (0, 300), "Tendency": (-1, 1),
}  # fmt: skip
"""The 21 features of a recording, with bounds from what they count; none from the records."""


class Absent(Exception):
    """A file that is not there, or not the one that is meant: the message is the line that the table shows."""


@dataclass(frozen=True)
class Found:
    """Records of an experiment.

    Attributes
    ----------
    values
        Shape (n, d).
    note
        What they are, and the digest where the publisher states none.
    """

    values: np.ndarray
    note: str


def shipped(name: str) -> Path:
    """Path of a shipped file, of which the digest is checked."""
    path = SHIPPED / name
    if (digest := hashlib.sha256(path.read_bytes()).hexdigest()) != DIGESTS[name]:
        raise Absent(f"{name} has the SHA-256 {digest}, and not {DIGESTS[name]}; take it from the project again")
    return path


def below(folder: Path | None, name: str) -> Path:
    """A file of that name anywhere below a folder; the first by its path."""
    if folder is None:
        raise Absent(f"{name} was not looked for: give a folder that holds it with --data")
    if not (places := sorted(folder.rglob(name))):
        raise Absent(f"{name} is not below {folder}: put it there as its publisher distributes it")
    return places[0]


@cache
def liver_values() -> np.ndarray:
    """345 patients: five blood tests and drinks a day."""
    values: np.ndarray = np.loadtxt(shipped("liver.csv"), delimiter=",", skiprows=1)[:, :6]
    return values


@cache
def city() -> np.ndarray:
    """Pickups of R1SMG's three days by part of the city, shape (89, 89)."""
    with np.load(shipped("uber_grid.npz")) as bundle:
        return bundle["counts"].astype(np.int64)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 images of 8 x 8 pixels from 0 to 16, and what they show, in a fixed random order."""
    with np.load(shipped("digits.npz")) as bundle:
        order = np.random.default_rng(0).permutation(len(bundle["X"]))
        return bundle["X"][order].astype(float), bundle["y"][order].astype(int)


@cache
def adult() -> tuple[np.ndarray, np.ndarray, int]:
    """48,842 people: six numbers and 99 columns of categories, who earns more, and how many of them learn."""
    with np.load(shipped("adult.npz")) as bundle:
        numbers, codes, label = bundle["num"].astype(float), bundle["cat"], bundle["income"].astype(int)
        columns = [name.replace("-", "_") for name in bundle["cat_names"]]
        levels = [len(bundle[f"levels_{name}"]) for name in columns]
    known = [np.arange(count) == codes[:, i, None] for i, count in enumerate(levels)]
    numbers[:, 3:5] = np.log1p(numbers[:, 3:5]) / np.log1p([99_999, 4_500])
    return np.column_stack([numbers, *known]).astype(float), label, 32_561


def movement(folder: Path | None) -> Found:
    """Signals of four anchors: the first 10,176 that the publisher distributes; the paper does not say which."""
    first = below(folder, "MovementAAL_RSS_1.csv")
    digest, parts = hashlib.sha256(), []
    for number in range(1, _MOVEMENT + 1):
        path = first.with_name(f"MovementAAL_RSS_{number}.csv")
        if not path.exists():
            raise Absent(f"{path.name} is not beside {first.name}: all {_MOVEMENT} files are needed")
        digest.update(path.read_bytes())
        parts.append(np.loadtxt(path, delimiter=",", comments="#", ndmin=2))
    values = np.concatenate(parts)
    if values.shape[1] != 4 or len(values) < _PAPERS_MOVEMENTS:
        raise Absent(f"the {_MOVEMENT} files hold {values.shape} values; at least {_PAPERS_MOVEMENTS} of 4 are meant")
    note = f"movement, {_PAPERS_MOVEMENTS:,} x 4, SHA-256 {digest.hexdigest()[:16]} (the publisher states none)"
    return Found(np.clip(values[:_PAPERS_MOVEMENTS], -1.0, 1.0), note)


def fetal_hearts(folder: Path | None) -> Found:
    """21 features of 2,126 recordings, in [0, 1] of bounds that were written down beforehand."""
    path = below(folder, "CTG.xls")
    try:
        book = importlib.import_module("xlrd").open_workbook(str(path))
    except ImportError:
        raise Absent("CTG.xls needs xlrd: pip install xlrd into this environment") from None
    sheet = book.sheet_by_name("Raw Data")
    names = [str(value).strip() for value in sheet.row_values(0)]
    lower, upper = np.array(list(_HEART.values()), dtype=float).T
    rows = [[sheet.cell_value(i, names.index(name)) for name in _HEART] for i in range(1, sheet.nrows)]
    values = np.array([row for row in rows if all(isinstance(value, float) for value in row)])
    if len(values) != 2126:
        raise Absent(f"CTG.xls holds {len(values)} whole recordings, and not 2,126; take the publisher's file")
    note = f"fetal hearts, 2,126 x 21, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]} (publisher: none)"
    return Found(np.clip((values - lower) / (upper - lower), 0.0, 1.0), note)


def swarm(folder: Path | None) -> tuple[Found, np.ndarray]:
    """24,016 flocks of 2,400 features in [-1, 1] of their own ends, as in the paper, and what each is."""
    path = below(folder, "Flocking.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    if table.shape != (24_016, 2_401):
        raise Absent(f"Flocking.csv is {table.shape}; 24,016 lines of 2,401 values are meant")
    low, high = table[:, :-1].min(axis=0), table[:, :-1].max(axis=0)
    values = 2.0 * (table[:, :-1] - low) / np.maximum(high - low, 1e-9) - 1.0
    note = f"swarm, 24,016 x 2,400, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]} (publisher: none)"
    return Found(values, note), table[:, -1].astype(int)


def mnist(folder: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images in [-1, 1] and labels to learn from, and the same to test on."""
    parts = []
    for name, wanted in MNIST.items():
        content = below(folder, name).read_bytes()
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if digest != wanted:
            raise Absent(f"{name} has the MD5 {digest}, and not the published {wanted}: it is damaged or another file")
        plain = gzip.decompress(content)
        if "images" in name:
            parts.append(np.frombuffer(plain, np.uint8, offset=16).reshape(-1, 784) / 127.5 - 1.0)
        else:
            parts.append(np.frombuffer(plain, np.uint8, offset=8).astype(np.int64))
    return parts[0], parts[1], parts[2], parts[3]


def liver(trial: int) -> tuple[np.ndarray, np.ndarray]:
    """248 people to learn from and 97 to test on, at random; columns in [-1, 1] about the middle of fixed bounds."""
    low, high = np.array([50.0, 0, 0, 0, 0, 0]), np.array([110.0, 150, 160, 100, 300, 20])
    records = np.clip(2.0 * (liver_values() - low) / (high - low) - 1.0, -1.0, 1.0)
    order = np.random.default_rng(trial).permutation(len(records))
    return records[order[:248]], records[order[248:]]


def signals(trial: int) -> np.ndarray:
    """Made-up signals of four anchors in [-1, 1]: two that rise together and two that fall; 10,176 x 4."""
    rng = np.random.default_rng(trial)
    path = rng.standard_normal((10_176, 1)) * np.array([0.30, -0.25, -0.20, 0.28])
    return np.clip(path + 0.15 * rng.standard_normal((10_176, 4)), -1.0, 1.0)


def hearts(trial: int) -> np.ndarray:
    """Made-up recordings of 21 features in [0, 1] from four causes; 2,126 x 21."""
    rng = np.random.default_rng(trial)
    causes = rng.beta(2.0, 3.0, (2126, 4)) @ rng.dirichlet(np.full(21, 0.7), 4) * 6.0
    return np.clip(causes + 0.05 * rng.standard_normal((2126, 21)), 0.0, 1.0)
