"""The whole path from records to released integers under audit.

The path is slow, and so is tried on groups: data sets that differ in g records have g
times the loss. Its records lie far beyond their bounds in every feature, of two and of forty, so that a mistake in the
clipping of any feature moves the answer further than the claim allows.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.answers.column_bins import EdgeBins, HistogramQuery, MissingValue
from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.table_counts import TablesQuery
from blockveil.engine.answers.value_cells import Edges, Missing, Outside
from blockveil.engine.audit import mutants
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import Subject, visible_claim
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.counts.worst_neighbours import RANGES
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.kinds.marginals.worst_neighbours import TABLES
from blockveil.engine.kinds.moments import rotated
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Mechanism, NotApplicable
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.small_cases import ADD, BASIS, LARGEST, clip_along

EXCESS = 8
"""How many times too large the contribution of a record is without clipping."""
_WIDE = 40
"""Features of the wide problem."""
_FAR = 100.0
"""How far beyond their bounds the records of the whole path lie, in half widths: clipping is part of that path."""
_GROUPED = 2000
"""Records by which neighbours of the whole path differ, at most."""


def paths_of_moments(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Records to released integers: clip, quantise, multiply, round, draw; a second moment of few and many features.

    Of mechanisms for covariances alone it is one with a count in front.
    """
    for counted in (False, True):
        problems = [
            SecondMoment(Body.CUBE, np.ones(features), ADD, LARGEST, 2 * _GROUPED, counted) for features in (2, _WIDE)
        ]
        try:
            designs = [mechanism.design(problem, guarantee) for problem in problems]
        except NotApplicable:
            continue
        return [_path_of(*pair, mutant) for pair in zip(problems, designs, strict=True)]
    return []


def _path_of(problem: SecondMoment, design: NoiseDesign, mutant: str | None) -> Subject:
    features = problem.scale.size
    box = Box(np.full(features, -1.0), np.ones(features), np.zeros(features))
    quantiser = Quantiser(box.coordinates(), LARGEST, problem.augmented, None)
    corner = np.where(np.arange(features) % 2, -1.0, 1.0)
    label = f"second-moment of {features} features{' with a count' * problem.augmented}, add-remove"
    return _path(label, design, quantiser, corner, mutant)


def path_along_directions(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """The same along directions, for the corner of the cube that moves the answer most."""
    clip = clip_along(BASIS)
    problem = rotated.second_moment(clip, ADD, 2 * _GROUPED)
    design = mechanism.design(problem, guarantee)
    corner = problem.records.worst(design.spread.rows**2)[1]
    return [_path("second-moment along directions, add-remove", design, clip, corner, mutant)]


def _path(label: str, design: NoiseDesign, quantiser: Quantiser, record: Array, mutant: str | None) -> Subject:
    others, group = np.zeros((3, record.size)), _group(design.loss)
    return mutants.second_moment_subject(
        f"{label}: records to release",
        _claim_of_a_group(design.loss, group),
        mutants.half_steps(design) if mutant == "half-scale" else design,
        mutants.unclipped_quantiser(quantiser, EXCESS) if mutant == "unclipped" else quantiser,
        (np.vstack([others, np.tile(_FAR * record, (group, 1))]), others),
        noise=mutants.reseeded_noise(1) if mutant == "reseeded" else mutants.integer_noise,
        chunk=1 if mutant == "reseeded" else None,
    )


def _group(loss: Loss) -> int:
    """Records by which data sets differ whose loss is about where a wrong scale shows most in a few thousand trials."""
    return min(max(1, round(1.5 / loss.mu if loss.mu else 1.0 / loss.epsilon)), _GROUPED)


def _claim_of_a_group(loss: Loss, group: int) -> Claim:
    # Losses of the steps from one data set to the other add up (Dong, Roth and Su, 2022, Theorem 2.14).
    return visible_claim(Loss(group * loss.mu, group * loss.epsilon, group * loss.total_variation))


def paths_of_counts(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Records to released integers: of a line of cells and of tables, measured, and of histograms of columns."""
    line = CountQuery((Edges(np.linspace(0.0, 1.0, 9)),), Outside.DROP, Missing.REFUSE)
    edges = tuple(Edges(np.linspace(0.0, 1.0, cells + 1)) for cells in TABLES.sizes)
    tables = TablesQuery(CountQuery(edges, Outside.DROP, Missing.REFUSE), TABLES)
    columns = HistogramQuery((EdgeBins((0.0, 0.5, 1.0)),) * 3, MissingValue.DROP)
    rows = 2 * _GROUPED * EXCESS
    problems: tuple[tuple[Problem, mutants.CellsQuery], ...] = (
        (Counts((1, 8), ADD, rows, RANGES), line),
        (Histograms(columns.sizes, ADD, rows), columns),
        (Marginals(TABLES, ADD, rows), tables),
    )
    subjects: list[Subject] = []
    for problem, query in problems:
        try:
            design = mechanism.design(problem, guarantee)
        except NotApplicable:
            continue
        subjects.append(_count_path(f"{problem.query}, add-remove", design, query, mutant))
    return subjects


def _count_path(label: str, design: NoiseDesign, query: mutants.CellsQuery, mutant: str | None) -> Subject:
    group = _group(design.loss)
    times = group * (EXCESS if mutant == "unclipped" else 1)
    width = mutants.columns_of(query)
    data = np.full((3, width), 0.9)
    return mutants.counts_subject(
        f"{label}: records to release",
        _claim_of_a_group(design.loss, group),
        mutants.half_steps(design) if mutant == "half-scale" else design,
        query,
        # A record that is counted several times is what a missing bound would be.
        (np.vstack([data, np.full((times, width), 0.1)]), data),
        noise=mutants.reseeded_noise(1) if mutant == "reseeded" else mutants.integer_noise,
        chunk=1 if mutant == "reseeded" else None,
    )
