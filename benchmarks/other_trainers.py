"""The models of :mod:`.models` trained by other libraries, where they are installed, and the passes of NumPy.

============== =================================================== ==================================================
library        what it trains                                      what it promises
============== =================================================== ==================================================
scikit-learn   the linear model, to its optimum                    nothing
diffprivlib    the linear model (objective perturbation)           a pure epsilon of 1
Opacus         the same model, optimiser, rate and number of steps the same epsilon and delta: over all records as
                                                                   here, or over Poisson samples of 5 % by its own
                                                                   accountant
============== =================================================== ==================================================

No product needs any of them: ``pip install scikit-learn diffprivlib opacus`` brings them, Opacus with PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from blockveil.engine.answers import held_records
from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.public import weights

if TYPE_CHECKING:
    from benchmarks.models import Task

EPSILON, DELTA, SAMPLED, PAIRS = 1.0, 1e-5, 0.05, 5
_HELD = "passes"


def of(task: Task, seeds: int, schemes: list[str]):
    """Names of ways to train a task, each with shares of right predictions and CPU seconds of a step by seed."""
    x, tested = seen(task, task.x), seen(task, task.tested_x)
    if _installed("sklearn") and not task.hidden:
        model = importlib.import_module("sklearn.linear_model").LogisticRegression(max_iter=1000).fit(x, task.y)
        yield "scikit-learn, exact", [(float(model.score(tested, task.tested_y)), math.nan)]
    if _installed("diffprivlib") and not task.hidden:
        made = importlib.import_module("diffprivlib.models").LogisticRegression
        length = float(np.linalg.norm(x, axis=1).max())
        runs = [
            made(epsilon=EPSILON, data_norm=length, max_iter=500, random_state=seed) for seed in range(min(seeds, 5))
        ]
        yield (
            "diffprivlib, pure epsilon",
            [(float(each.fit(x, task.y).score(tested, task.tested_y)), math.nan) for each in runs],
        )
    if _installed("opacus"):
        for name, share in (("all records", 1.0), ("samples of 5 %", SAMPLED)):
            if share == 1.0 or "poisson" in schemes or len(task.x) > 10_000:
                yield f"Opacus, {name}", [_opacus(task, (x, tested), share, seed) for seed in range(seeds)]


def seen(task: Task, rows):
    """Features between 0 and 1 as the model of a release sees them: by their bounds, not by the largest values."""
    return np.clip(rows / task.top, 0.0, 1.0)


def passes(task: Task) -> dict[str, float]:
    """How much longer the exact sum of clipped gradients takes than the plain gradient of NumPy, medians of pairs.

    The first step reads and rounds the records, further ones find their integers in memory.
    """
    classes, rows = int(task.y.max()) + 1, task.x[:20_000]
    width, outputs = rows.shape[1] + 1, classes if classes > 2 else 1
    at = weights.random(weights.shapes(width, task.hidden, outputs), seed=1)
    top = task.top
    clip = Quantiser(
        Box(np.zeros_like(top), top, np.zeros_like(top)).coordinates(), FEATURE_STEPS, augmented=True, stand_in=None
    )
    output = Output.SOFTMAX if classes > 2 else Output.LOGISTIC
    query = GradientsQuery(Model.at(output, Activation.TANH, at), clip, (0.0, classes - 1.0), 1.0, 2**15 - 1)
    table = np.column_stack([rows, task.y[: len(rows)]]).astype(np.float32)
    x = np.column_stack([np.ones(len(rows)), seen(task, rows)])
    y, first, further = task.y[: len(rows)], list[float](), list[float]()
    keyring.install(_HELD, NoiseKey(bytes(32)))  # records stay in memory beside a key alone
    try:
        with threadpool_limits(1, user_api="blas"):  # as in tasks
            for number in range(PAIRS):
                holding = Holding(_HELD, str(number), 2**34, len(table))
                for found in (first, further):
                    begun = time.process_time()
                    query.total(table, 0, len(table), len(table), None, holding)
                    between = time.process_time()
                    _plain(x, y, at, outputs)
                    found.append((between - begun) / (time.process_time() - between))
    finally:
        keyring.forget(_HELD)
        held_records.forget(_HELD)
    what = "CPU time of the passes of a {} step over those of NumPy in float64"
    return {what.format(name): float(np.median(each)) for name, each in (("first", first), ("further", further))}


def _plain(x, y, at, outputs):
    """Mean gradient by layer in floats, without any bound."""
    entered = [x]
    for layer in list(at)[:-1]:
        entered.append(np.column_stack([np.ones(len(x)), np.tanh(entered[-1] @ at[layer].T)]))
    reached = entered[-1] @ at[list(at)[-1]].T
    if outputs == 1:
        errors = 1.0 / (1.0 + np.exp(-reached)) - y[:, None]
    else:
        errors = np.exp(reached - reached.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(y)), y.astype(int)] -= 1.0
    found = []
    for i, layer in reversed(list(enumerate(at))):
        found.append(errors.T @ entered[i] / len(x))
        if i:
            errors = errors @ at[layer][:, 1:] * (1.0 - entered[i][:, 1:] ** 2)
    return found


def _opacus(task: Task, features, share: float, seed: int) -> tuple[float, float]:
    """Share of right predictions, and CPU seconds of a step, of the same training by Opacus."""
    torch = importlib.import_module("torch")
    opacus = importlib.import_module("opacus")
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    classes, steps = int(task.y.max()) + 1, int(task.setting("steps") or 0)
    x, tested = (torch.tensor(part, dtype=torch.float32) for part in features)
    y = torch.tensor(task.y, dtype=torch.long)
    width, nn = x.shape[1], torch.nn
    hidden = [nn.Linear(width, task.hidden[0]), nn.Tanh()] if task.hidden else []
    model = nn.Sequential(*hidden, nn.Linear(task.hidden[0] if task.hidden else width, classes if classes > 2 else 1))
    if not task.hidden:  # as here
        nn.init.zeros_(model[0].weight)
        nn.init.zeros_(model[0].bias)
    batch = max(1, round(share * len(x)))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimiser, loader = opacus.PrivacyEngine(accountant="prv").make_private(
            module=model,
            optimizer=_optimiser(torch, model, task),
            data_loader=loader,
            noise_multiplier=_multiplier(opacus, share, steps),
            max_grad_norm=task.clip,
            poisson_sampling=share < 1.0,
        )
        begun, made = time.process_time(), 0
        rate = float(task.setting("learning_rate") or 0)
        while made < steps:
            for rows, labels in [(x, y)] if share == 1.0 else loader:
                if made == steps:
                    break
                for group in optimiser.param_groups:
                    group["lr"] = rate * (1.0 - made / steps)
                optimiser.zero_grad()
                reached = model(rows)
                if classes > 2:
                    nn.functional.cross_entropy(reached, labels).backward()
                else:
                    nn.functional.binary_cross_entropy_with_logits(reached[:, 0], labels.float()).backward()
                optimiser.step()
                made += 1
    took = (time.process_time() - begun) / steps
    with torch.no_grad():
        reached = model(tested)
    found = reached.argmax(1) if classes > 2 else (reached[:, 0] > 0).long()
    return float((found.numpy() == task.tested_y).mean()), took


def _optimiser(torch, model, task: Task):
    rate = float(task.setting("learning_rate") or 0)
    if task.setting("optimiser") == "adam":
        return torch.optim.Adam(model.parameters(), lr=rate)
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=float(task.setting("momentum") or 0))


def _multiplier(opacus, share: float, steps: int) -> float:
    """Noise of the asked epsilon and delta: exact for all records, by the library's own accountant for samples."""
    if share < 1.0:
        found = importlib.import_module("opacus.accountants.utils").get_noise_multiplier
        return float(
            found(target_epsilon=EPSILON, target_delta=DELTA, sample_rate=share, steps=steps, accountant="prv")
        )

    def above(mu: float) -> float:
        return norm.cdf(-EPSILON / mu + mu / 2) - math.exp(EPSILON) * norm.cdf(-EPSILON / mu - mu / 2) - DELTA

    return math.sqrt(steps) / brentq(above, 1e-3, 50.0)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
