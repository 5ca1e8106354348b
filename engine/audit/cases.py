"""What ``audit NAME`` audits: each mechanism on small problems with their worst neighbours, and its mutants.

A case is the released arithmetic: the exact integer answers of two neighbours at the far ends of what one record may
change, rounded to the release's own grid, behind noise of the release's own law. Where the law is known the test is the
likelihood ratio; the secure sampler itself, and the whole path from records to released integers, are audited as black
boxes beside it.

Of several pairs of neighbours the one is attacked that the law of the noise, with the sizes of the design, hides worst:
in L2 for Gaussian noise, in L1 for Laplace noise. The likelihood ratio is tried at the asked delta; the sampler and the
whole path at the point of the charged loss where a wrong scale shows most. Noise that is so large that a wrong scale
would not show in one release is tried on as many releases as together cost mu one, which is what a ledger books.

The whole path from records to release is slow, and so is tried on groups: data sets that differ in g records have g
times the loss. Its records lie far beyond their bounds in every feature, of two and of forty, so that a mistake in the
clipping of any feature moves the answer further than the claim allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import combinations, product

import numpy as np

from blockveil.engine.answers.column_bins import EdgeBins, HistogramQuery, MissingValue
from blockveil.engine.answers.counts import CountQuery, Edges, Missing, Outside
from blockveil.engine.audit import laws, mutants, table_cases
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import Additive, Subject, visible_claim
from blockveil.engine.audit.training_cases import OF_TRAINING, mutants_of_training, training_cases
from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate, gaussian_epsilon
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours, PureDP
from blockveil.engine.mechanisms.contract import Mechanism, NotApplicable
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.mechanisms.registry import declarations, declared
from blockveil.engine.noise.additive import NoiseDesign, add_noise
from blockveil.engine.records.geometry import Body, Box, CappedBox
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity import rotation
from blockveil.engine.sensitivity.problems import (
    Counts,
    Histograms,
    Marginals,
    OuterProducts,
    Problem,
    Rows,
    SecondMoment,
    Totals,
)
from blockveil.engine.study import r1smg
from blockveil.engine.workloads.workload import AllRange, Kronecker, Total

K = 2**11 - 1
_ROWS = 20
_RANGES = (Kronecker(Total(1), AllRange(8)),)
_EXCESS = 8
_WIDE = 40
"""Features of the wide problem."""
_FAR = 100.0
"""How far beyond their bounds the records of the whole path lie, in half widths: clipping is part of that path."""
_GROUPED = 2000
"""Records by which neighbours of the whole path differ, at most."""
_FAINT = 0.25
"""Below this mu twice the loss of one release cannot be distinguished from it in a few hundred thousand trials."""
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE

Pairs = Sequence[tuple[Array, Array]]

MECHANISMS: dict[str, Mechanism] = {each.name: each.audited[0] for each in declarations() if each.audited}
"""Mechanisms of independent additive noise, with parameters that suit every problem."""

LAWS = tuple(each.name for each in declarations() if each.audit_cases)
"""Mechanisms of another law, which have cases of their own."""

MUTANTS = ("half-scale", "reseeded", "unclipped")
"""Mistakes that an audit must flag."""

_BASIS = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0
_CUBE = Box(-np.ones(3), np.ones(3), np.zeros(3))

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
        found: list[Subject] = getattr(import_module(module), function)(guarantee, mutant)
        return found
    known = (*MUTANTS, *mutants_of_training(declaration))
    if mutant is not None and mutant not in known:
        raise CalibrationError(f"mutant {mutant[:60]!r} cannot be audited; mutants are {', '.join(known)}")
    if not declaration.audited:
        raise CalibrationError(f"{declaration.name!r} declares nothing to audit; declare audited or audit_cases")
    trained = training_cases(declaration, guarantee, mutant)
    return trained if mutant in OF_TRAINING else _additive_cases(declaration, guarantee, mutant) + trained


def _additive_cases(declaration: MechanismDeclaration, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Independent additive noise on every problem that is answered, and the whole path to a release."""
    found, refusal = list[Subject](), f"{declaration.name!r} answers none of the problems; audit another mechanism"
    first, directed = declaration.audited[0], declaration.audited_along_directions
    tried = [(mechanism, *each) for mechanism in declaration.audited for each in _problems()]
    tried += [(directed, *each) for each in _along_directions()] if directed is not None else []
    for mechanism, problem, pairs in tried:
        try:
            design = mechanism.design(problem, guarantee)
        except NotApplicable:
            continue
        except CannotCalibrate as error:
            refusal = str(error)
            continue
        if design.strategy is None and isinstance(problem, Counts) and problem.workload:
            continue  # as a workload changes nothing for noise on the cells themselves
        found += _additive(problem, design, guarantee, pairs, mutant)
    if not found:
        raise CalibrationError(refusal)
    paths = _whole_path(first, guarantee, mutant) or _counts_path(first, guarantee, mutant)
    return found + paths + ([] if directed is None else _path_along_directions(directed, guarantee, mutant))


def charged(design: NoiseDesign, guarantee: ApproxDP) -> Claim:
    """The loss that the ledger books for a design, as a claim at the guarantee's delta."""
    if design.loss.mu == 0.0:
        return PureDP(design.loss.epsilon)
    return ApproxDP(max(gaussian_epsilon(design.loss.mu, guarantee.delta), 1e-12), guarantee.delta)


def _problems() -> Sequence[tuple[Problem, Pairs]]:
    """Small problems, each with the integer answers of neighbours, a worst pair among them."""
    units = np.array([1.0, 3.0, 0.5])
    ones, signs = np.full(3, K), np.array([K, -K, K])
    cube = np.outer(ones, ones)
    cell, other = np.zeros((2, 3)), np.zeros((2, 3))
    cell[0, 0] = other[1, 2] = 1.0
    bins, last = np.eye(3)[[0, 0, 0]], np.eye(3)[[2, 2, 1]]
    row = np.vstack([ones, np.zeros(3)])
    line = np.eye(8)[:, None, :]
    return (
        (SecondMoment(Body.CUBE, units, ADD, K, _ROWS, False), [(cube, np.zeros((3, 3)))]),
        (
            SecondMoment(Body.CUBE, units, REPLACE, K, _ROWS, False),
            # The first is the worst in L2; a record at the far end that moves to the origin is worse in L1.
            [(cube, np.outer(signs, signs)), (cube, np.zeros((3, 3)))],
        ),
        (Rows(Body.CUBE, units, REPLACE, K, 2), [(row, -row)]),
        *_in_a_ball(),
        (
            OuterProducts(Body.BALL, Body.CUBE, np.ones(2), units, ADD, K, _ROWS),
            [(np.outer([K, 0], ones), np.zeros((2, 3)))],
        ),
        (Totals(Body.CUBE, units, ADD, K, _ROWS), [(np.array([[K, K, -K, K]]), np.zeros((1, 4)))]),
        (Totals(Body.CUBE, units, REPLACE, K, _ROWS), [(signs[None, :], -signs[None, :])]),
        (Counts((2, 3), ADD, _ROWS), [(cell, np.zeros((2, 3)))]),
        (Counts((2, 3), REPLACE, _ROWS), [(cell, other)]),
        # A record in the first bin of every column, against none, and against one that is in the last ones.
        (Histograms((3, 3, 2), ADD, _ROWS), [(bins, np.zeros((3, 3)))]),
        (Histograms((3, 3, 2), REPLACE, _ROWS), [(bins, last)]),
        *table_cases.problems(_ROWS),
        (Counts((1, 8), ADD, _ROWS, _RANGES), [(line[0], np.zeros((1, 8)))]),
        (Counts((1, 8), REPLACE, _ROWS, _RANGES), [(line[0], line[7])]),
    )


def _in_a_ball() -> Sequence[tuple[Problem, Pairs]]:
    """Records in a box within a ball: the integers of records that fill either, from the released quantiser."""
    boxes = [Box([low] * 3, np.ones(3), np.zeros(3), norm) for low, norm in ((-1.0, 1.25), (0.0, 1.0))]
    clips = [Quantiser(box.coordinates(), K, False, None) for box in boxes]
    signed, positive = (clip.quantise(np.array(list(product((1.0, 0.0, -1.0), repeat=3)))) for clip in clips)
    moments = [np.outer(k, k) for k in signed]
    rows = [np.vstack([k, np.zeros(3)]) for k in positive]
    about, above = (clip.coordinates.body for clip in clips)
    ones = np.ones(3)
    return (
        (SecondMoment(about, ones, ADD, K, _ROWS, False), [(moment, np.zeros((3, 3))) for moment in moments]),
        (SecondMoment(about, ones, REPLACE, K, _ROWS, False), list(combinations(moments, 2))),
        (Rows(above, ones, REPLACE, K, 2), list(combinations(rows, 2))),
        (Totals(above, ones, REPLACE, K, _ROWS, widths=ones), list(combinations(positive[:, None, :], 2))),
    )


def _along_directions() -> Sequence[tuple[Problem, Pairs]]:
    """Records in a cube seen along directions: the integers of all its corners, from the released quantiser."""
    clip = _clip_along(_BASIS)
    corners = clip.quantise(np.array(list(product((-1.0, 1.0), repeat=3))))
    moments = [np.outer(corner, corner) for corner in corners] + [np.zeros((3, 3))]
    rows = [np.vstack([corner, np.zeros(3)]) for corner in corners]
    return (
        (rotation.second_moment(clip, ADD, _ROWS), [(moment, np.zeros((3, 3))) for moment in moments[:-1]]),
        (rotation.second_moment(clip, REPLACE, _ROWS), list(combinations(moments, 2))),
        (rotation.rows(clip, REPLACE, 2), list(combinations(rows, 2))),
    )


def _clip_along(directions: Array) -> Quantiser:
    return Quantiser(rotation.along(_CUBE.coordinates(), directions), K, False, None)


def _additive(
    problem: Problem, design: NoiseDesign, guarantee: ApproxDP, pairs: Pairs, mutant: str | None
) -> list[Subject]:
    """The rounded answers behind noise of the release's law, and behind its secure sampler."""
    gaussian = design.gaussian
    order = 2 if gaussian else 1
    difference = max((_difference(design, *pair) for pair in pairs), key=lambda d: float(np.linalg.norm(d, order)))
    sizes = np.full(difference.size, design.grid.privacy_scale)
    law = laws.gaussian if gaussian else laws.laplace
    label = f"{problem.query}{_place(problem)}, {problem.neighbours.value}"
    simulated = replace(law(difference, sizes, charged(design, guarantee)), name=f"{label}: likelihood ratio")
    drawn = laws.grid_noise(design.grid, difference, visible_claim(design.loss))
    found = [simulated, replace(drawn, name=f"{label}: secure sampler")]
    if 0.0 < design.mu < _FAINT:
        found.append(_repeated(label, difference, sizes, design.mu))
    return [_mutated(subject, mutant) for subject in found]


def _place(problem: Problem) -> str:
    if isinstance(problem, rotation.RotatedSecondMoment | rotation.RotatedRows):
        return " along directions"
    return " in a box within a ball" if isinstance(getattr(problem, "body", None), CappedBox) else ""


def _difference(design: NoiseDesign, first: Array, second: Array) -> Array:
    """Difference of two answers in grid steps, as they are rounded, distinct entries alone."""
    steps = design.steps((0, design.shape[0]), (0, design.shape[1]))
    none = np.zeros(design.shape, dtype=np.int64)
    distinct = np.triu_indices(design.shape[0]) if design.spread.symmetric else np.nonzero(np.ones(design.shape))
    exact = [answer.astype(np.int64) for answer in (first, second)]
    if design.strategy is not None:
        exact = [design.strategy.answers(counts) for counts in exact]
    rounded = [add_noise(a, steps, none, design.shift)[distinct] for a in exact]
    return np.asarray(rounded[0] - rounded[1], dtype=np.float64)


def _repeated(label: str, difference: Array, sizes: Array, mu: float) -> Additive:
    """The mean of so many releases, which tells all that they tell: as one whose answers are further apart."""
    times = int(mu**-2.0)
    # Squared losses add up, so that these cost at most mu one together.
    claim = visible_claim(Loss(mu * times**0.5, 0.0, 0.0))
    subject = laws.gaussian(difference * times**0.5, sizes, claim)
    return replace(subject, name=f"{label}: likelihood ratio of {times:,} releases")


def _mutated(subject: Additive, mutant: str | None) -> Subject:
    change: dict[str | None, Callable[[Additive], Additive]] = {
        "half-scale": mutants.half_scale,
        "unclipped": lambda s: mutants.unclipped(s, _EXCESS),
        "reseeded": lambda s: mutants.reseeded(s, _third(s.answers[0].size)),
    }
    return change[mutant](subject) if mutant is not None else subject


def _third(entries: int) -> int:
    """Largest size of at least three equal chunks."""
    return next(size for size in range(entries // 3, 0, -1) if entries % size == 0)


def _whole_path(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Records to released integers: clip, quantise, multiply, round, draw; a second moment of few and many features."""
    found = []
    for features in (2, _WIDE):
        box = Box(np.full(features, -1.0), np.ones(features), np.zeros(features))
        quantiser = Quantiser(box.coordinates(), K, False, None)
        problem = SecondMoment(Body.CUBE, np.ones(features), ADD, K, 2 * _GROUPED, False)
        try:
            design = mechanism.design(problem, guarantee)
        except NotApplicable:
            return []
        corner = np.where(np.arange(features) % 2, -1.0, 1.0)
        label = f"second-moment of {features} features, add-remove"
        found.append(_path(label, design, quantiser, corner, mutant))
    return found


def _path_along_directions(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """The same along directions, for the corner of the cube that moves the answer most."""
    clip = _clip_along(_BASIS)
    problem = rotation.second_moment(clip, ADD, 2 * _GROUPED)
    design = mechanism.design(problem, guarantee)
    corner = problem.records.worst(design.spread.rows**2)[1]
    return [_path("second-moment along directions, add-remove", design, clip, corner, mutant)]


def _path(label: str, design: NoiseDesign, quantiser: Quantiser, record: Array, mutant: str | None) -> Subject:
    others, group = np.zeros((3, record.size)), _group(design.loss)
    return mutants.second_moment_subject(
        f"{label}: records to release",
        _claim_of_a_group(design.loss, group),
        mutants.half_steps(design) if mutant == "half-scale" else design,
        mutants.unclipped_quantiser(quantiser, _EXCESS) if mutant == "unclipped" else quantiser,
        (np.vstack([others, np.tile(_FAR * record, (group, 1))]), others),
        noise=mutants.reseeded_noise(1) if mutant == "reseeded" else mutants.whole_noise,
        chunk=1 if mutant == "reseeded" else None,
    )


def _group(loss: Loss) -> int:
    """Records by which data sets differ whose loss is about where a wrong scale shows most in a few thousand trials."""
    return min(max(1, round(1.5 / loss.mu if loss.mu else 1.0 / loss.epsilon)), _GROUPED)


def _claim_of_a_group(loss: Loss, group: int) -> Claim:
    # Losses of the steps from one data set to the other add up (Dong, Roth and Su, 2022, Theorem 2.14).
    return visible_claim(Loss(group * loss.mu, group * loss.epsilon, group * loss.total_variation))


def _counts_path(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Records to released integers: of a line of cells and of tables, measured, and of histograms of columns."""
    line = CountQuery((Edges(np.linspace(0.0, 1.0, 9)),), Outside.DROP, Missing.REFUSE)
    columns = HistogramQuery((EdgeBins((0.0, 0.5, 1.0)),) * 3, MissingValue.DROP)
    rows = 2 * _GROUPED * _EXCESS
    problems: tuple[tuple[Problem, mutants.CellsQuery], ...] = (
        (Counts((1, 8), ADD, rows, _RANGES), line),
        (Histograms(columns.sizes, ADD, rows), columns),
        (Marginals(table_cases.TABLES, ADD, rows), table_cases.unit_query()),
    )
    found: list[Subject] = []
    for problem, query in problems:
        try:
            design = mechanism.design(problem, guarantee)
        except NotApplicable:
            continue
        found.append(_count_path(f"{problem.query}, add-remove", design, query, mutant))
    return found


def _count_path(label: str, design: NoiseDesign, query: mutants.CellsQuery, mutant: str | None) -> Subject:
    group = _group(design.loss)
    times = group * (_EXCESS if mutant == "unclipped" else 1)
    width = mutants.columns_of(query)
    data = np.full((3, width), 0.9)
    return mutants.counts_subject(
        f"{label}: records to release",
        _claim_of_a_group(design.loss, group),
        mutants.half_steps(design) if mutant == "half-scale" else design,
        query,
        # A record that is counted several times is what a missing bound would be.
        (np.vstack([data, np.full((times, width), 0.1)]), data),
        noise=mutants.reseeded_noise(1) if mutant == "reseeded" else mutants.whole_noise,
        chunk=1 if mutant == "reseeded" else None,
    )


def rank_one_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """R1SMG at the settings of its own paper, whatever the guarantee; a CalibrationError for a mutant."""
    del guarantee
    if mutant is not None:
        raise CalibrationError(f"mutant {mutant!r} of r1smg cannot be audited; it is false as published; name none")
    return [_rank_one(*setting) for setting in R1SMG_SETTINGS]


def _rank_one(label: str, entries: int, epsilon: float, delta: float) -> Subject:
    noise = r1smg.published(entries, epsilon, delta, 1.0)
    found = laws.rank_one(entries, noise.variance, 1.0, ApproxDP(epsilon, delta))
    return replace(found, name=f"r1smg as published, {label}")
