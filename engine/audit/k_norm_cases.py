"""K-norm noise under audit: records in a box and short gradients, their laws, samplers and released programs.

Neighbours: a record at the far corner of the box, and one at the opposite corner, so that the largest entry changes by
all that it may; and a gradient of the largest length against none, or against its opposite. Such changes have the
charged loss on the whole cone in which the norm grows with the change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from blockveil.engine.audit import mutants
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import Additive, BlackBox, Subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.k_norm.cube_noise import CubeNoise
from blockveil.engine.mechanisms.k_norm.norm_noise import KNorm
from blockveil.engine.noise.additive import NoiseDesign, add_noise
from blockveil.engine.noise.discrete_gaussian import TILE, NoiseKey
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.problems import Problem

_K = 2**11 - 1
_ROWS = 20
_EXCESS = 8
_FAR = 100.0
_MUTANTS = ("half-scale", "reseeded", "unclipped")
_UPPER = np.array([1.0, 3.0, 0.5])

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


def k_norm_cases(guarantee: ApproxDP, mutant: str | None = None) -> list[Subject]:
    """Subjects of K-norm noise, or of one of its mutants.

    Raises
    ------
    CalibrationError
        There is no such mutant, or the guarantee cannot be met.
    """
    if mutant not in (None, *_MUTANTS):
        raise CalibrationError(f"the mutants of k-norm are {', '.join(_MUTANTS)}, not {mutant}; choose one of them")
    subjects: list[Subject] = []
    for label, problem, pair in _problems(mutant == "unclipped"):
        design = KNorm().design(problem, guarantee)
        claim = PureDP(design.loss.epsilon)
        if mutant == "half-scale":
            design = mutants.half_steps(design)
        subjects += _subjects(label, design, claim, pair, mutant == "reseeded")
    return subjects


def _problems(unclipped: bool) -> list[tuple[str, Problem, Pair]]:
    """Problems with the integer answers of the worst neighbours: of records as the released quantiser has them."""
    clip = Quantiser(Box(-_UPPER, _UPPER, np.zeros(3)).coordinates(), _K, False, None)
    if unclipped:
        clip = mutants.unclipped_quantiser(clip, _EXCESS)
    far = clip.quantise(_FAR * np.vstack([_UPPER, -_UPPER])).astype(np.int64)
    rows = tuple(np.vstack([row, np.zeros_like(row)]) for row in far)
    gradient = np.array([[_K**2 * (_EXCESS if unclipped else 1), 0]], dtype=np.int64)
    ball = (Body.BALL, Body.BALL, np.ones(1), np.ones(2))
    added = GradientProblem(*ball, Neighbours.ADD_REMOVE, _K, _ROWS)
    replaced = GradientProblem(*ball, Neighbours.REPLACE_ONE, _K, _ROWS)
    return [
        ("rows, replace-one", Rows(Body.CUBE, _UPPER, Neighbours.REPLACE_ONE, _K, 2), (rows[0], rows[1])),
        ("gradients, add-remove", added, (gradient, np.zeros_like(gradient))),
        ("gradients, replace-one", replaced, (gradient, -gradient)),
    ]


def _subjects(label: str, design: NoiseDesign, claim: Claim, pair: Pair, shared: bool) -> list[Subject]:
    """The law behind the rounded answers, the secure sampler in bulk where it is fast, and the released program."""
    whole = (0, design.shape[0]), (0, design.shape[1])
    first, second = (_rounded(design, exact) for exact in pair)
    answers = first.ravel(), second.ravel()
    law = k_norm(answers, design, claim)
    subjects = [replace(law, name=f"{label}: likelihood ratio")]
    if isinstance(design.grid, CubeNoise):
        subjects.append(replace(law, name=f"{label}: secure sampler", grid=0.0, noise=partial(_in_bulk, design)))
    if shared:  # one number for all entries
        return [mutants.reseeded(subject, 1) for subject in subjects]
    program = BlackBox(
        name=f"{label}: integers to release",
        claim=claim,
        run=lambda exact, key: design.release(key, exact, whole).astype(np.float64),
        data=pair,
        answers=answers,
        model=law.with_noise,
    )
    return [*subjects, program]


def _rounded(design: NoiseDesign, exact: NDArray[np.int64]) -> Array:
    """An answer in grid steps, without noise."""
    steps = design.steps((0, design.shape[0]), (0, design.shape[1]))
    none = np.zeros(design.shape, dtype=np.int64)
    return add_noise(exact, steps, none, design.shift).astype(np.float64)


def k_norm(answers: tuple[Array, Array], design: NoiseDesign, claim: Claim) -> Additive:
    """Continuous noise by the largest entry of each row, or by the length of the whole answer, in grid steps.

    Parameters
    ----------
    answers
        Of the neighbours, in grid steps, shape (M,).
    design
        What is released.
    claim
        What is promised.
    """
    shape, scale, cube = design.shape, design.grid.privacy_scale, isinstance(design.grid, CubeNoise)

    def noise(trials: int, rng: Generator) -> Array:
        if cube:
            radius = rng.gamma(shape[1] + 1.0, scale, (trials, shape[0], 1))
            return np.asarray(radius * rng.uniform(-1.0, 1.0, (trials, *shape))).reshape(trials, -1)
        ways = rng.standard_normal((trials, shape[0] * shape[1]))
        lengths = rng.gamma(ways.shape[1], scale, (trials, 1))
        return np.asarray(ways / np.linalg.norm(ways, axis=1, keepdims=True) * lengths)

    def log_density(noise: Array) -> Array:
        if cube:
            return np.asarray(-np.sum(np.max(np.abs(noise.reshape(-1, *shape)), axis=2), axis=1) / scale)
        return np.asarray(-np.linalg.norm(noise, axis=1) / scale)

    return Additive(
        name=f"K-norm noise, {design.grid.label}",
        claim=claim,
        answers=answers,
        noise=noise,
        grid=1.0,
        log_density=log_density,
    )


def _in_bulk(design: NoiseDesign, trials: int, rng: Generator) -> Array:
    """Noise of a given number of releases from the secure sampler under one key, shape (trials, M)."""
    rows, columns = design.shape
    beside = TILE // columns
    noise = design.grid.draw(NoiseKey(rng.bytes(32)), (0, -(-trials * rows // beside)), (0, beside * columns), False)
    return noise.reshape(-1, rows * columns)[:trials].astype(np.float64)
