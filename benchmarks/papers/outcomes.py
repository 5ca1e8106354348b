"""What an experiment found: a line for each way, with the guarantee that it really has and the paper's own figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey

Values = dict[str, float]


@dataclass(frozen=True)
class Result:
    """Mean over trials, and its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        """Both, as a table shows them."""
        return f"{self.mean:.3g} ({self.error:.1g})"


@dataclass(frozen=True)
class Way:
    """One line of an experiment.

    Attributes
    ----------
    name
        What was done.
    guarantee
        What it really is private for.
    stated
        The paper's figure for it, or an empty text.
    """

    name: str
    guarantee: str
    stated: str = ""


@dataclass(frozen=True)
class Outcome:
    """An experiment that was run.

    Attributes
    ----------
    name
        Of the experiment.
    metric
        What is measured.
    records
        On what.
    lines
        A result for each way; None for one that was not run.
    """

    name: str
    metric: str
    records: str
    lines: dict[Way, Result | None]

    def result(self, name: str) -> Result:
        """Result of a way by its name."""
        (found,) = (result for way, result in self.lines.items() if way.name == name)
        if found is None:
            raise KeyError(name)
        return found

    def table(self) -> str:
        """Markdown."""
        rows = [f"{self.name}: {self.metric}; {self.records}", ""]
        rows += ["| way | private for | mean (standard error) | the paper states |", "|---|---|---|---|"]
        for way, result in self.lines.items():
            rows.append(f"| {way.name} | {way.guarantee} | {result or 'not run'} | {way.stated or '-'} |")
        return "\n".join(rows)


def over(trials: int, run: Callable[[int], Values]) -> dict[str, Result]:
    """Mean and standard error of each value that a trial gives."""
    runs = [run(number) for number in range(trials)]
    return {
        name: Result(float(np.mean(values)), float(np.std(values, ddof=min(1, trials - 1)) / np.sqrt(trials)))
        for name in runs[0]
        for values in ([each[name] for each in runs],)
    }


def lines(ways: list[Way], found: Mapping[str, Result]) -> dict[Way, Result | None]:
    """Ways in their order, each with what was found; every result has a way."""
    if unknown := set(found) - {way.name for way in ways}:
        raise KeyError(f"no way is declared for {sorted(unknown)}")
    return {way: found.get(way.name) for way in ways}


def noisy(design: NoiseDesign, answer: np.ndarray, trial: int) -> np.ndarray:
    """An answer in coordinates with noise of the product's own sampler, under a public key."""
    m, n = design.shape
    key = NoiseKey.derive(bytes(32), b"papers" + trial.to_bytes(4))
    steps = design.steps((0, m), (0, n)) / design.shifted_unit
    released: np.ndarray = answer + design.noise(key, (0, m), (0, n)) * steps
    return released


def sketched(records: np.ndarray, floor: float, rows: int, trial: int) -> np.ndarray:
    """Second moment that a Gaussian sketch of records gives, with ``floor^2`` added to it and taken off again."""
    rng = np.random.default_rng([trial, 1])
    features = records.shape[1]
    sketch = rng.standard_normal((rows, len(records))) @ records
    sketch += floor * rng.standard_normal((rows, features))
    moment: np.ndarray = sketch.T @ sketch / rows - floor**2 * np.eye(features)
    return moment
