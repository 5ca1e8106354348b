"""A logistic regression trained over ten nights, and in one release of many steps, beside training without noise.

``python -m benchmarks.training [--folder FOLDER]`` trains on 24,000 credit-card holders and tests on 6,000 others.
Records, configs, releases and weights stay in FOLDER, a temporary one where it is not given. Classifiers that follow
from one covariance, without steps, stand beside them.

``python -m benchmarks.training FILE_OR_FOLDER ... [--seeds 5] [--schemes full,fixed,band,poisson] [--steps 400]``
trains on records that the reader has, beside other libraries: see :mod:`.models`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import zarr
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from benchmarks import machine, models
from blockveil.engine.answers.models import FEATURE_STEPS
from blockveil.engine.estimates.class_rules import ClassRule
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.zarr_arrays import create_group, write_array
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import weights
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

CONFIGS = Path(__file__).parents[1] / "configs"
NIGHTS, TRAINED, RATE = 10, 24_000, 4.0
STEPS = (10, 60, 200)
LABEL = 'count = 6 },\n  { name = "default", lower = 0, upper = 1 },\n]'
FIRST = date(2026, 11, 20)


def records():
    """Bundled records with their label as the last column, in a fixed random order."""
    folder = CONFIGS / "data" / "credit_default"
    with np.load(folder / "credit_default.npz") as bundle, np.load(folder / "default.npz") as labels:
        found = np.column_stack([bundle["records"], labels["default"]])
    return found[np.random.default_rng(0).permutation(len(found))]


def config_of(folder: Path, night: int, digest: str | None) -> Path:
    """Config of one night, at the weights of the night before."""
    text = (CONFIGS / "training.toml").read_text().replace("../build/training/", "")
    if digest is not None:
        pinned = f'weights = "weights-{night - 1}.npz"\nweights_sha256 = "{digest}"\n'
        text = text.replace("\n[privacy]", f"{pinned}\n[privacy]")
    path = folder / f"night-{night}.toml"
    path.write_text(text)
    return path


def scores(question, found, rows):
    """Share of right predictions, and area under the curve."""
    features = question.query.features.quantise(rows[:, :-1]) / FEATURE_STEPS
    return of_scores((features @ found["last"].T)[:, 0], rows[:, -1] == 1)


def of_scores(reached, label):
    """Share of right predictions where a positive score means the label, and area under the curve."""
    ranks, positive = rankdata(reached), int(label.sum())
    area = (ranks[label].sum() - positive * (positive + 1) / 2) / (positive * (len(label) - positive))
    return float(np.mean((reached > 0) == label)), float(area)


def main(folder: Path) -> None:
    """Train, night by night, and print how good the model is."""
    everything = records()
    trained, tested = everything[:TRAINED], everything[TRAINED:]
    write_array(create_group(folder / "credit_default.zarr", {}), "records", trained, ("record", "feature"))
    digest, private, plain = None, None, None
    print(f"{'night':>5}  {'epsilon':>8}  {'accuracy':>8}  {'area':>6}  {'without noise':>14}  {'area':>6}")
    for night in range(1, NIGHTS + 1):
        loaded = load_config(config_of(folder, night, digest))
        plan = make_plan(loaded, FIRST + timedelta(days=night))
        ledger, dataset = Ledger(loaded.ledger_url), loaded.config.release.dataset
        if night == 1:
            unit = loaded.config.privacy.unit
            ledger.set_budget(
                dataset=dataset, epsilon=2.0, delta=1e-6, neighbours=Neighbours.ADD_REMOVE, privacy_unit=unit
            )
        outcome = run_release(plan, ThreadCompute(2), "training", lambda *_: None)
        private = weights.step(outcome.path, private, TRAINED, RATE)
        digest = weights.save(private, folder / f"weights-{night}.npz")
        question = plan.question
        plain = exact_step(question, plain, trained)
        told = [*scores(question, private, tested), *scores(question, plain, tested)]
        spent = ledger.budget(dataset).spent_epsilon
        print(f"{night:5d}  {spent:8.3f}  {told[0]:8.4f}  {told[1]:6.4f}  {told[2]:14.4f}  {told[3]:6.4f}")
    print(f"\n{'steps of one release':>20}  {'epsilon':>8}  {'accuracy':>8}  {'area':>6}  {'seconds':>8}")
    for number, steps in enumerate(STEPS):
        made, took = trained_at_once(folder, steps, FIRST + timedelta(days=number))
        told = scores(question, {"last": made}, tested)
        print(f"{steps:20d}  {1.0:8.3f}  {told[0]:8.4f}  {told[1]:6.4f}  {took:8.1f}")
    for rule, (accuracy, area) in by_moments(folder, tested).items():
        print(f"{f'moments, {rule}':>20}  {1.0:8.3f}  {accuracy:8.4f}  {area:6.4f}")
    told = scores(question, {"last": fitted(question, trained)}, tested)
    print(f"{'fitted, not private':>20}  {'none':>8}  {told[0]:8.4f}  {told[1]:6.4f}")
    print(f"always the larger class: accuracy {max(np.mean(tested[:, -1]), 1 - np.mean(tested[:, -1])):.4f}")


def trained_at_once(folder: Path, steps: int, day: date):
    """Weights of one release of many steps, and the seconds that it took."""
    text = (CONFIGS / "train-model.toml").read_text().replace("../build/training/", "")
    text = apart(text, f"{steps}")
    path = folder / f"model-{steps}.toml"
    path.write_text(text.replace("steps = 60", f"steps = {steps}"))
    loaded = granted(path)
    begun = time.perf_counter()
    outcome = run_release(make_plan(loaded, day), ThreadCompute(2), "training", lambda *_: None)
    return zarr.open_array(outcome.path / "last_weights", mode="r")[...], time.perf_counter() - begun


def apart(text: str, name: str) -> str:
    """A config with releases and a ledger of its own: it is compared with the others, not released beside them."""
    return text.replace('releases"', f'releases-{name}"').replace('ledger.db"', f'ledger-{name}.db"')


def granted(path: Path):
    """A config whose budget is that of its one release."""
    loaded = load_config(path)
    Ledger(loaded.ledger_url).set_budget(
        dataset=loaded.config.release.dataset,
        epsilon=1.0,
        delta=1e-7,
        neighbours=Neighbours.ADD_REMOVE,
        privacy_unit=loaded.config.privacy.unit,
    )
    return loaded


def by_moments(folder: Path, tested):
    """Scores of the classifiers that follow from one covariance of features and label, at the same guarantee."""
    text = (CONFIGS / "train-model.toml").read_text().replace("../build/training/", "")
    query, _, rest = text.partition("[query.model]")
    query = query.replace('kind = "gradients"', 'kind = "covariance"').replace('name = "model"', 'name = "moments"')
    query = query.replace("clipping_norm = 2.0", "").replace("count = 6 },\n]", LABEL)
    rest = apart(rest[rest.index("[privacy]") :], "moments")
    rest = rest.replace('kind = "gaussian"', 'kind = "shaped-gaussian"\noptimise_for = "relative-error"')
    path = folder / "moments.toml"
    path.write_text(query + rest)
    release = open_(run_release(make_plan(granted(path), FIRST), ThreadCompute(2), "training", lambda *_: None).path)
    found = {}
    for rule in ClassRule:
        reached = release.classifier("default", rule=rule).decision_function(tested[:, :-1])
        found[rule] = of_scores(reached[:, 1] - reached[:, 0], tested[:, -1] == 1)
    return found


def fitted(question, rows):
    """Weights of the same model by maximum likelihood, without privacy."""
    features, label = question.query.features.quantise(rows[:, :-1]) / FEATURE_STEPS, rows[:, -1]

    def loss(at):
        reached = features @ at
        return np.mean(np.logaddexp(0.0, reached) - label * reached), features.T @ (expit(reached) - label) / len(label)

    return minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x[None]


def exact_step(question, before, rows):
    """The same step without noise, computed in floats."""
    found = before or {"last": np.zeros(question.query.model.shapes[0])}
    features = question.query.features.quantise(rows[:, :-1]) / FEATURE_STEPS
    errors = 1.0 / (1.0 + np.exp(-(features @ found["last"].T))) - rows[:, -1:]
    norms = np.abs(errors[:, 0]) * np.linalg.norm(features, axis=1)
    errors *= np.minimum(1.0, question.query.clip / norms)[:, None]
    return {"last": found["last"] - RATE / len(rows) * errors.T @ features}


def called() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--schemes", default="full,fixed,band")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.folder is not None:
            folder = given.folder.resolve()
            folder.mkdir(parents=True)
        if given.paths:
            paths, schemes = [path.resolve() for path in given.paths], given.schemes.split(",")
            models.compared(paths, folder, given.seeds, schemes, given.steps)
        else:
            main(folder)


if __name__ == "__main__":
    machine.begin()
    called()
