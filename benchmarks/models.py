"""How good models are that one release trains, beside the same models without privacy and other libraries.

``python -m benchmarks.training FILE_OR_FOLDER ...`` takes ``adult.npz`` (``num``, ``cat``, ``income`` and the
number of levels of each category, the last 16,281 rows for tests) and files or folders of images: NPZ with ``X``
(images) and ``y``, or IDX as ``*-images-idx3-ubyte`` and ``*-labels-idx1-ubyte``, ``t10k`` for tests. At epsilon 1 and
delta 1e-5; each seed is another key. CPU seconds a step are those of all threads, noise and weights included, of the
steps after the first; those of the release beside them, with reading, ledger and files, have a line of their own.
:mod:`.other_trainers` says what stands beside.
"""

from __future__ import annotations

import os
import re
import resource
import time
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from benchmarks import other_trainers
from blockveil.engine.answers.public_features import OrientedGradients
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.zarr_arrays import create_group, write_array
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import weights
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

FIRST, FEW = date(2026, 11, 20), 10_000
SCHEMES = {
    "full": 'batches = "full"',
    "fixed": 'batches = "fixed"\nbatch_count = 20\nbatch_seed = "benchmark"',
    "band": 'batches = "fixed"\nbatch_count = 20\nbatch_seed = "benchmark"\nband = 20',
    "poisson": 'batches = "poisson"\nsampling_probability = 0.05',
}
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
clipping_norm = {clip}
[query.geometry]
kind = "box"
origin = "zero"
features = [ {features} ]
[query.model]
loss = "{predicts}"
target = {{ name = "y", classes = {classes} }}
{hidden}
[query.training]
{batches}
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
    """Records of a model: features and codes of classes to train on, and to test on, and bounds of the features.

    Bounds are written in ``features`` as a config has them; ``top`` has the upper ones, and the origin is zero.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    tested_x: np.ndarray
    tested_y: np.ndarray
    features: str
    top: np.ndarray
    training: str
    hidden: tuple[int, ...] = ()
    clip: float = 1.0

    @property
    def model(self) -> str:
        """The model in words."""
        return f"{self.hidden[0]} hidden" if self.hidden else "linear"

    def setting(self, key: str) -> str | None:
        """What the config of the training says of a key."""
        found = re.search(rf'^{key} = "?([^"\n]+)', self.training, re.MULTILINE)
        return None if found is None else found[1]

    def with_steps(self, steps: int) -> Task:
        """The same over so many steps."""
        return replace(self, training=re.sub(r"steps = \d+", f"steps = {steps}", self.training))


def adult(path: Path) -> list[Task]:
    """Income of 48,842 people: six numbers and 99 columns of categories."""
    with np.load(path) as bundle:
        numbers, codes, label = bundle["num"].astype(float), bundle["cat"], bundle["income"].astype(float)
    onehot = [np.arange(codes[:, i].max() + 1) == codes[:, i, None] for i in range(codes.shape[1])]
    x = np.column_stack([numbers, *onehot]).astype(float)
    bounds = [f'{{ name = "n{i}", lower = {low}, upper = {high} }}' for i, (low, high) in enumerate(ADULT)]
    features = ", ".join([*bounds, f'{{ name = "c", lower = 0, upper = 1, count = {x.shape[1] - 6} }}'])
    x[:, 3:5] = np.log1p(x[:, 3:5]) / np.log1p([99_999, 4_500]) * [99_999, 4_500]  # of each record by itself
    steps = _steps("momentum", 200, 3.0)
    cut = len(x) - 16_281
    top = np.concatenate([[float(high) for _, high in ADULT], np.ones(x.shape[1] - len(ADULT))])
    return [Task("adult", x[:cut], label[:cut], x[cut:], label[cut:], features, top, steps)]


def images(path: Path) -> list[Task]:
    """Raw pixels under a softmax and a hidden layer, and oriented gradients under a softmax."""
    x, y, tested_x, tested_y = _images(path)
    side, top = x.shape[1], float(max(x.max(), 1.0))
    cell = 2 if side % 4 else 4
    made = OrientedGradients(side, x.shape[2], cell, 8, top / 10.0)
    flat, tested = x.reshape(len(x), -1), tested_x.reshape(len(tested_x), -1)
    pixels = f'{{ name = "p", lower = 0, upper = {top:g}, count = {flat.shape[1]} }}'
    edges = f'{{ name = "e", lower = 0, upper = 1, count = {made.count} }}'
    few, tops = len(x) < FEW, np.full(flat.shape[1], float(f"{top:g}"))
    ways = [_steps("momentum", 40, 1.0), _steps("adam", 50, 0.1), _steps("momentum", 20, 4.0)]
    ways = ways if few else [_steps("adam", steps, rate) for steps, rate in ((100, 0.02), (400, 0.01), (100, 0.1))]
    gradients = [
        np.concatenate([made.of(part[i : i + 2000]) for i in range(0, len(part), 2000)]) for part in (flat, tested)
    ]
    return [
        Task("pixels", flat, y, tested, tested_y, pixels, tops, ways[0]),
        Task("pixels-64-hidden", flat, y, tested, tested_y, pixels, tops, ways[1], (64,), 0.3 if few else 1.0),
        Task("oriented-gradients", gradients[0], y, gradients[1], tested_y, edges, np.ones(made.count), ways[2]),
    ]


def _steps(optimiser: str, steps: int, rate: float) -> str:
    kept = "momentum = 0.9\n" if optimiser == "momentum" else ""
    return f'steps = {steps}\noptimiser = "{optimiser}"\n{kept}learning_rate = {rate}\nschedule = "linear"'


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


def released(task: Task, folder: Path, scheme: str, seed: int) -> tuple[float, float, float]:
    """Share of right predictions of one release, the CPU seconds of a step after the first, and those of all else."""
    classes = int(task.y.max()) + 1
    hidden, name = "", f"{task.name}-{scheme}"
    if task.hidden:
        shapes = weights.shapes(task.x.shape[1] + 1, task.hidden, classes)
        digest = weights.save(weights.random(shapes, seed=1), folder / f"{task.name}-start.npz")
        hidden = f'hidden_units = {task.hidden[0]}\nactivation = "tanh"\nweights = "{task.name}-start.npz"\n'
        hidden += f'weights_sha256 = "{digest}"'
    text = CONFIG.format(
        name=name,
        most=len(task.x) + len(task.x) // 5,
        features=task.features,
        loss="logistic" if classes == 2 else "softmax",
        classes=classes,
        hidden=hidden,
        clip=task.clip,
        examples=len(task.x),
        batches=SCHEMES[scheme],
        training=task.training,
    )
    path = folder / f"{name}.toml"
    path.write_text(text.replace(f'store = "{name}.zarr"', f'store = "{task.name}.zarr"'))
    if not (folder / f"{task.name}.zarr").exists():
        table = np.column_stack([task.x, task.y]).astype(np.float32)
        write_array(create_group(folder / f"{task.name}.zarr", {}), "records", table, ("record", "feature"))
    loaded = load_config(path)
    ledger = Ledger(loaded.ledger_url)
    if seed == 0:
        ledger.set_budget(
            dataset=name, epsilon=30.0, delta=1e-3, neighbours=Neighbours.ADD_REMOVE, privacy_unit="one record"
        )
    plan = make_plan(loaded, FIRST + timedelta(days=seed))
    begun, reached = time.process_time(), list[float]()

    def tell(stage: str, _: float | None) -> None:
        if stage == "training":  # where each step begins
            reached.append(time.process_time())

    outcome = run_release(plan, ThreadCompute(2), "models", tell)
    whole, step = time.process_time() - begun, float(np.median(np.diff(reached)))
    return float(np.mean(open_(outcome.path).predict(task.tested_x) == task.tested_y)), step, whole - plan.steps * step


def compared(paths: list[Path], folder: Path, seeds: int, schemes: list[str], steps: int | None) -> None:
    """Print a line for each model and each way to train it; ``steps`` takes the place of a task's own number."""
    os.chdir(folder)
    print(f"{'records':>20}  {'way':>32}  {'epsilon':>7}  {'accuracy':>8}  {'least':>7}  {'CPU s a step':>12}")
    for path in paths:
        for task in adult(path) if path.name == "adult.npz" else images(path):
            asked = task if steps is None else task.with_steps(steps)
            own = {scheme: [released(asked, folder, scheme, i) for i in range(seeds)] for scheme in schemes}
            for scheme, runs in own.items():
                _line(asked, f"{asked.model}, {scheme}", runs)
            for way, runs in other_trainers.of(asked, seeds, schemes):
                _line(asked, way, runs)
                if "Opacus" in way and schemes[0] == "full":
                    _difference(asked, f"full less {way}", own["full"], runs)
            most = max(np.mean(asked.tested_y == code) for code in np.unique(asked.tested_y))
            _line(asked, "always the largest class, exact", [(float(most), float("nan"))])
            for what, ratio in other_trainers.passes(asked).items():
                print(f"{asked.name:>20}  {what}: {ratio:.2f}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest memory of all that, other libraries and the records in memory included: {peak:.2f} GiB")


def _difference(task: Task, what: str, own: list[tuple[float, ...]], others: list[tuple[float, ...]]) -> None:
    """How much more often ours are right, with the standard error of that: keys of both are independent."""
    shares = [np.array([run[0] for run in runs]) for runs in (own, others)]
    if min(map(len, shares)) > 1:
        off = float(np.sqrt(sum(np.var(each, ddof=1) / len(each) for each in shares)))
        print(
            f"{task.name:>20}  {what}: {np.mean(shares[0]) - np.mean(shares[1]):+.4f}, standard error {off:.4f}",
            flush=True,
        )


def _line(task: Task, way: str, runs: list[tuple[float, ...]]) -> None:
    right, took, *beside = zip(*runs, strict=True)
    epsilon = "none" if "exact" in way else f"{other_trainers.EPSILON:.3f}"
    scores = f"{epsilon:>7}  {np.mean(right):8.4f}  {min(right):7.4f}  {np.median(took):12.4f}"
    print(f"{task.name:>20}  {way:>32}  {scores}", flush=True)
    if beside:
        print(f"{task.name:>20}  CPU seconds of the release beside its steps: {np.median(beside[0]):.3f}", flush=True)
