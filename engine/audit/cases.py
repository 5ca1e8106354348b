"""What ``audit NAME`` audits: each mechanism on small problems with their worst neighbours, and its mutants.

A case is the released arithmetic: the exact integer answers of two neighbours at the far ends of what one record may
change, rounded to the release's own grid, behind noise of the release's own law. Where the law is known the test is the
likelihood ratio; the secure sampler itself, and the whole path from records to released integers, are audited as black
boxes beside it.

Of several pairs of neighbours the one is attacked that the law of the noise, with the sizes of the design, hides worst:
in L2 for Gaussian noise, in L1 for Laplace noise. The likelihood ratio is tried at the asked delta; the sampler and the
whole path (:mod:`.path_cases`) at the point of the charged loss where a wrong scale shows most. Noise that is so large
that a wrong scale would not show in one release is tried on as many releases as together cost mu one, which is what a
ledger books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module

import numpy as np

from blockveil.engine.audit import laws, mutants
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.path_cases import EXCESS, path_along_directions, paths_of_counts, paths_of_moments
from blockveil.engine.audit.small_problems import small_cases
from blockveil.engine.audit.subjects import Additive, Subject, visible_claim
from blockveil.engine.audit.training_cases import OF_TRAINING, mutants_of_training, training_cases
from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate, gaussian_epsilon
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, PureDP
from blockveil.engine.mechanisms.abilities import constants, ranges_asked, workload
from blockveil.engine.mechanisms.contract import Mechanism, NotApplicable
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.mechanisms.registry import declarations, declared
from blockveil.engine.noise.additive import NoiseDesign, add_noise
from blockveil.engine.records.geometry import CappedBox
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.small_cases import SmallCase
from blockveil.engine.study import r1smg

_FAINT = 0.25
"""Below this mu twice the loss of one release cannot be distinguished from it in a few hundred thousand trials."""

MECHANISMS: dict[str, Mechanism] = {each.name: each.audited[0] for each in declarations() if each.audited}
"""Mechanisms of independent additive noise, with parameters that suit every problem."""

LAWS = tuple(each.name for each in declarations() if each.audit_cases)
"""Mechanisms of another law, which have cases of their own."""

MUTANTS = ("half-scale", "reseeded", "unclipped")
"""Mistakes that an audit must flag."""

R1SMG_SETTINGS = (
    ("counts 89 x 89", 7921, 1e-5, 1e-7),
    ("covariance 2400 x 2400", 5_760_000, 1e-7, 1e-7),
    ("gradient of 10,000 entries", 10_000, 0.71, 3.33e-7),
)
"""The settings of its own paper: entries, epsilon, delta; at sensitivity one, which changes nothing."""


def cases(name: str, guarantee: ApproxDP, mutant: str | None = None) -> list[Subject]:
    """Subjects of a mechanism, or of one of its mutants.

    Parameters
    ----------
    name
        As in the catalogue.
    guarantee
        What the mechanism is calibrated to.
    mutant
        One of :data:`MUTANTS` or :data:`OF_TRAINING`, or None for the mechanism itself.

    Raises
    ------
    CalibrationError
        The name or the mutant is not known, or nothing of it can be audited.
    """
    declaration = declared(name)
    if declaration is None:
        raise CalibrationError(f"{name[:60]!r} cannot be audited; names are {', '.join([*MECHANISMS, *LAWS])}")
    return cases_of(declaration, guarantee, mutant)


def cases_of(declaration: MechanismDeclaration, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Subjects of what a mechanism's file declares; see :func:`cases`.

    Parameters
    ----------
    declaration
        The mechanism, of the catalogue or of another package.
    guarantee
        What it is calibrated to.
    mutant
        One of :data:`MUTANTS` or :data:`OF_TRAINING`, or None.

    Raises
    ------
    CalibrationError
        The mutant is not known, or nothing of it can be audited.
    """
    if declaration.audit_cases:
        module, _, function = declaration.audit_cases.partition(":")
        subjects: list[Subject] = getattr(import_module(module), function)(guarantee, mutant)
        return subjects
    names = (*MUTANTS, *mutants_of_training(declaration))
    if mutant is not None and mutant not in names:
        raise CalibrationError(f"mutant {mutant[:60]!r} cannot be audited; mutants are {', '.join(names)}")
    if not declaration.audited:
        raise CalibrationError(f"{declaration.name!r} declares nothing to audit; declare audited or audit_cases")
    trained = training_cases(declaration, guarantee, mutant)
    return trained if mutant in OF_TRAINING else _additive_cases(declaration, guarantee, mutant) + trained


def _additive_cases(declaration: MechanismDeclaration, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Independent additive noise on every problem that is answered, and the whole path to a release."""
    subjects, refusal = list[Subject](), f"{declaration.name!r} answers none of the problems; audit another mechanism"
    first, directed = declaration.audited[0], declaration.audited_along_directions
    for mechanism, case in _attacked(declaration):
        try:
            design = mechanism.design(case.problem, guarantee)
        except NotApplicable:
            continue
        except CannotCalibrate as error:
            refusal = str(error)
            continue
        if design.strategy is None and _sums_of_cells(case.problem):
            continue  # as these change nothing for noise on the cells themselves
        subjects += _additive(case, design, guarantee, mutant)
    if not subjects:
        raise CalibrationError(refusal)
    paths = paths_of_moments(first, guarantee, mutant) or paths_of_counts(first, guarantee, mutant)
    return subjects + paths + ([] if directed is None else path_along_directions(directed, guarantee, mutant))


def _attacked(declaration: MechanismDeclaration) -> Iterator[tuple[Mechanism, SmallCase]]:
    """Each audited mechanism on problems along features, and that with noise along directions on the others."""
    directed = declaration.audited_along_directions
    for case in small_cases():
        mechanisms = declaration.audited if not case.along_directions else (directed,) if directed else ()
        if case.pairs:
            yield from ((mechanism, case) for mechanism in mechanisms)


def _sums_of_cells(problem: Problem) -> bool:
    """Whether sums of cells are asked for: a workload, or ranges of tables."""
    return ranges_asked(problem) is not None or bool(workload(problem))


def charged(design: NoiseDesign, guarantee: ApproxDP) -> Claim:
    """The loss that the ledger books for a design, as a claim at the guarantee's delta."""
    if design.loss.mu == 0.0:
        return PureDP(design.loss.epsilon)
    return ApproxDP(max(gaussian_epsilon(design.loss.mu, guarantee.delta), 1e-12), guarantee.delta)


def _additive(case: SmallCase, design: NoiseDesign, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """The rounded answers behind noise of the release's law, and behind its secure sampler."""
    gaussian = design.gaussian
    order = 2 if gaussian else 1
    difference = max((_difference(design, *pair) for pair in case.pairs), key=lambda d: float(np.linalg.norm(d, order)))
    sizes = np.full(difference.size, design.grid.privacy_scale)
    law = laws.gaussian if gaussian else laws.laplace
    label = f"{case.problem.query}{_place(case)}, {case.problem.neighbours.value}"
    simulated = replace(law(difference, sizes, charged(design, guarantee)), name=f"{label}: likelihood ratio")
    secure = laws.grid_noise(design.grid, difference, visible_claim(design.loss))
    subjects = [simulated]
    if design.spread.diagonal is None:  # whose noise on a diagonal is that of whole releases: see the paths
        subjects.append(replace(secure, name=f"{label}: secure sampler"))
    if 0.0 < design.mu < _FAINT:
        subjects.append(_repeated(label, difference, sizes, design.mu))
    return [_mutated(subject, mutant) for subject in subjects]


def _place(case: SmallCase) -> str:
    problem = case.problem
    if case.along_directions:
        return " along directions"
    if ranges_asked(problem) is not None:
        return " with ranges"
    if constants(problem)[0]:
        return " with a count"
    return " in a box within a ball" if isinstance(getattr(problem, "body", None), CappedBox) else ""


def _difference(design: NoiseDesign, first: Array, second: Array) -> Array:
    """Difference of two answers in grid steps, as they are rounded, distinct entries alone."""
    steps = design.steps((0, design.shape[0]), (0, design.shape[1]))
    none = np.zeros(design.shape, dtype=np.int64)
    distinct = np.triu_indices(design.shape[0]) if design.spread.symmetric else np.nonzero(np.ones(design.shape))
    exact = [answer.astype(np.int64) for answer in (first, second)]
    if design.strategy is not None:
        exact = [design.strategy.answers(counts) for counts in exact]
    rounded = [add_noise(a, steps, none, design.shift) for a in exact]
    return np.asarray(design.apart(rounded[0] - rounded[1])[distinct], dtype=np.float64)


def _repeated(label: str, difference: Array, sizes: Array, mu: float) -> Additive:
    """The mean of a number of releases, which is sufficient: as one release whose answers are further apart."""
    times = int(mu**-2.0)
    # Squared losses add up, so that these cost at most mu one together.
    claim = visible_claim(Loss(mu * times**0.5, 0.0, 0.0))
    subject = laws.gaussian(difference * times**0.5, sizes, claim)
    return replace(subject, name=f"{label}: likelihood ratio of {times:,} releases")


def _mutated(subject: Additive, mutant: str | None) -> Subject:
    change: dict[str | None, Callable[[Additive], Additive]] = {
        "half-scale": mutants.half_scale,
        "unclipped": lambda s: mutants.unclipped(s, EXCESS),
        "reseeded": lambda s: mutants.reseeded(s, _third(s.answers[0].size)),
    }
    return change[mutant](subject) if mutant is not None else subject


def _third(entries: int) -> int:
    """Largest size of at least three equal chunks."""
    return next(size for size in range(entries // 3, 0, -1) if entries % size == 0)


def rank_one_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """R1SMG at the settings of its own paper, whatever the guarantee; a CalibrationError for a mutant."""
    del guarantee
    if mutant is not None:
        raise CalibrationError(f"mutant {mutant!r} of r1smg cannot be audited; it is false as published; name none")
    return [_rank_one(*setting) for setting in R1SMG_SETTINGS]


def _rank_one(label: str, entries: int, epsilon: float, delta: float) -> Subject:
    noise = r1smg.published(entries, epsilon, delta, 1.0)
    subject = laws.rank_one(entries, noise.variance, 1.0, ApproxDP(epsilon, delta))
    return replace(subject, name=f"r1smg as published, {label}")
