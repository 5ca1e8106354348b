"""How good models are that one release trains, beside the same models without privacy and other libraries.

``python -m benchmarks.models FILE_OR_FOLDER ... [--seeds 5]`` takes ``adult.npz`` (``num``, ``cat``, ``income`` and the
number of levels of each category, the last 16,281 rows for tests) and files or folders of images: NPZ with ``X``
(images) and ``y``, or IDX as ``*-images-idx3-ubyte`` and ``*-labels-idx1-ubyte``, ``t10k`` for tests. At epsilon 1 and
delta 1e-5; each seed is another key. Where diffprivlib or scikit-learn is installed, it stands beside.
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from blockveil.engine.answers.public_features import OrientedGradients
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.zarr_arrays import create_group, write_array
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.questions import weights
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

EPSILON, DELTA, FIRST = 1.0, 1e-5, date(2026, 11, 20)
ADULT = ((0, 90), (0, 1_500_000), (0, 16), (0, 99_999), (0, 4_500), (0, 99))

CONFIG = """[release]
dataset = "{name}"
name = "model"
[data]
store = "{name}.zarr"
array = "records"
[query]
kind = "gradients"
rows_at_most = {most}
missing = "refuse"
largest_gradient = 1.0
[query.geometry]
kind = "box"
origin = "{origin}"
features = [ {features} ]
[query.model]
predicts = "{predicts}"
target = {{ name = "y", classes = {classes} }}
{hidden}
[query.training]
batches = "full"
examples = {examples}
{training}
[privacy]
epsilon = 1.0
delta = 1e-5
neighbours = "add-remove"
unit = "one record"
[mechanism]
kind = "gaussian"
[compute]
memory_gib = 2.0
[cluster]
kind = "threads"
threads_per_worker = 2
[output]
root = "releases-{name}"
ledger = "ledger-{name}.db"
keys = "keys-{name}"
"""


@dataclass(frozen=True)
class Task:
    """Records of a model: features and codes of classes to train on, and to test on, and bounds of the features."""

    name: str
    x: np.ndarray
    y: np.ndarray
    tested_x: np.ndarray
    tested_y: np.ndarray
    features: str
    origin: str
    training: str
    hidden: tuple[int, ...] = ()


def adult(path: Path) -> list[Task]:
    """Income of 48,842 people: six numbers and 99 columns of categories."""
    with np.load(path) as bundle:
        numbers, codes, label = bundle["num"].astype(float), bundle["cat"], bundle["income"].astype(float)
    onehot = [np.arange(codes[:, i].max() + 1) == codes[:, i, None] for i in range(codes.shape[1])]
    x = np.column_stack([numbers, *onehot]).astype(float)
    bounds = [f'{{ name = "n{i}", lower = {low}, upper = {high} }}' for i, (low, high) in enumerate(ADULT)]
    features = ", ".join([*bounds, f'{{ name = "c", lower = 0, upper = 1, count = {x.shape[1] - 6} }}'])
    x[:, 3:5] = np.log1p(x[:, 3:5]) / np.log1p([99_999, 4_500]) * [99_999, 4_500]  # of each record by itself
    steps = 'steps = 200\noptimiser = "momentum"\nmomentum = 0.9\nrate = 3.0\nschedule = "linear"'
    cut = len(x) - 16_281
    return [Task("adult", x[:cut], label[:cut], x[cut:], label[cut:], features, "zero", steps)]


def images(path: Path) -> list[Task]:
    """Raw pixels under a softmax and a hidden layer, and oriented gradients under a softmax."""
    x, y, tested_x, tested_y = _images(path)
    side, top = x.shape[1], float(max(x.max(), 1.0))
    cell = 2 if side % 4 else 4
    made = OrientedGradients(side, x.shape[2], cell, 8, top / 10.0)
    flat, tested = x.reshape(len(x), -1), tested_x.reshape(len(tested_x), -1)
    pixels = f'{{ name = "p", lower = 0, upper = {top:g}, count = {flat.shape[1]} }}'
    edges = f'{{ name = "e", lower = 0, upper = 1, count = {made.count} }}'
    adam = 'steps = 100\noptimiser = "adam"\nrate = {rate}\nschedule = "linear"'
    gradients = [
        np.concatenate([made.of(part[i : i + 2000]) for i in range(0, len(part), 2000)]) for part in (flat, tested)
    ]
    return [
        Task("pixels", flat, y, tested, tested_y, pixels, "zero", adam.format(rate=0.02)),
        Task("pixels-64-hidden", flat, y, tested, tested_y, pixels, "zero", adam.format(rate=0.01), (64,)),
        Task("oriented-gradients", gradients[0], y, gradients[1], tested_y, edges, "zero", adam.format(rate=0.1)),
    ]


def _images(path: Path):
    if path.is_dir():
        parts = []
        for start in ("train", "t10k"):
            pixels, labels = path / f"{start}-images-idx3-ubyte", path / f"{start}-labels-idx1-ubyte"
            content = pixels.read_bytes()
            count, height, width = np.frombuffer(content, ">i4", 3, 4)
            parts += [np.frombuffer(content, np.uint8, offset=16).reshape(count, height, width).astype(float)]
            parts += [np.frombuffer(labels.read_bytes(), np.uint8, offset=8).astype(float)]
        return parts
    with np.load(path) as bundle:
        x, y = bundle["X"].astype(float), bundle["y"].astype(float)
    side = round(x[0].size ** 0.5)
    order = np.random.default_rng(0).permutation(len(x))
    x, y, cut = x.reshape(-1, side, side)[order], y[order], len(x) * 4 // 5
    return x[:cut], y[:cut], x[cut:], y[cut:]


def released(task: Task, folder: Path, seed: int) -> tuple[float, float]:
    """Share of right predictions of one release, and the seconds that it took."""
    classes = int(task.y.max()) + 1
    hidden = ""
    if task.hidden:
        shapes = weights.shapes(task.x.shape[1] + 1, task.hidden, classes)
        digest = weights.save(weights.random(shapes, seed=1), folder / f"{task.name}-start.npz")
        hidden = f'hidden_units = {task.hidden[0]}\nactivation = "tanh"\nweights = "{task.name}-start.npz"\n'
        hidden += f'weights_sha256 = "{digest}"'
    text = CONFIG.format(
        name=task.name,
        most=len(task.x) + len(task.x) // 5,
        origin=task.origin,
        features=task.features,
        predicts="logistic" if classes == 2 else "softmax",
        classes=classes,
        hidden=hidden,
        examples=len(task.x),
        training=task.training,
    )
    path = folder / f"{task.name}.toml"
    path.write_text(text)
    if not (folder / f"{task.name}.zarr").exists():
        table = np.column_stack([task.x, task.y]).astype(np.float32)
        write_array(create_group(folder / f"{task.name}.zarr", {}), "records", table, ("record", "feature"))
    loaded = load_config(path)
    ledger = Ledger(loaded.ledger_url)
    if seed == 0:
        ledger.set_budget(
            dataset=task.name, epsilon=20.0, delta=1e-3, neighbours=Neighbours.ADD_REMOVE, privacy_unit="one record"
        )
    begun = time.perf_counter()
    plan = make_plan(loaded, FIRST + timedelta(days=seed))
    outcome = run_release(plan, ThreadCompute(2), "models", lambda *_: None)
    took = time.perf_counter() - begun
    return float(np.mean(open_(outcome.path).predict(task.tested_x) == task.tested_y)), took


def others(task: Task, seeds: int) -> dict[str, float]:
    """The same linear model by other libraries, where they are installed."""
    found, scale = {}, np.abs(task.x).max(axis=0)
    x, tested = task.x / np.maximum(scale, 1e-9), task.tested_x / np.maximum(scale, 1e-9)
    if _installed("sklearn"):
        model = importlib.import_module("sklearn.linear_model").LogisticRegression(max_iter=1000).fit(x, task.y)
        found["scikit-learn, not private"] = float(model.score(tested, task.tested_y))
    if _installed("diffprivlib"):
        made = importlib.import_module("diffprivlib.models").LogisticRegression
        norm = float(np.linalg.norm(x, axis=1).max())
        runs = [made(epsilon=EPSILON, data_norm=norm, max_iter=500, random_state=seed) for seed in range(seeds)]
        found["diffprivlib, pure epsilon"] = float(
            np.mean([each.fit(x, task.y).score(tested, task.tested_y) for each in runs])
        )
    return found


def _installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def main(paths: list[Path], seeds: int, folder: Path) -> None:
    """Print a line for each model."""
    os.chdir(folder)
    print(f"{'records':>20}  {'model':>28}  {'epsilon':>8}  {'accuracy':>8}  {'least':>7}  {'seconds':>8}")
    for path in paths:
        for task in adult(path) if path.name == "adult.npz" else images(path):
            runs = [released(task, folder, seed) for seed in range(seeds)]
            right, took = zip(*runs, strict=True)
            model = f"{task.hidden[0]} hidden" if task.hidden else "linear"
            scores = f"{EPSILON:8.3f}  {np.mean(right):8.4f}  {min(right):7.4f}  {np.median(took):8.1f}"
            print(f"{task.name:>20}  {model:>28}  {scores}", flush=True)
            if not task.hidden:
                for name, score in others(task, seeds).items():
                    epsilon = "none" if "not private" in name else f"{EPSILON:.3f}"
                    print(f"{task.name:>20}  {name:>28}  {epsilon:>8}  {score:8.4f}", flush=True)
            most = max(np.mean(task.tested_y == code) for code in np.unique(task.tested_y))
            print(f"{task.name:>20}  {'always the largest class':>28}  {'':>8}  {most:8.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main([path.resolve() for path in given.paths], given.seeds, Path(temporary))
