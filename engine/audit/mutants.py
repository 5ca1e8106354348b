"""Mechanisms that are broken on purpose, and the released code path itself as a subject.

An audit is worth what it finds: every mutant here is a mistake that has been made in practice, and must be flagged. The
mutants of the second moment differ from the real path in one argument and share everything else with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from blockveil.engine.answers.column_bins import HistogramQuery, column_histograms
from blockveil.engine.answers.counts import CountQuery, partial_counts
from blockveil.engine.answers.gram import partial_gram
from blockveil.engine.answers.table_counts import TablesQuery, table_counts
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.laws import integer_noise as integer_noise_of
from blockveil.engine.audit.subjects import Additive, BlackBox, Chunks
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.gaussian import NoiseDesign, add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Body
from blockveil.engine.records.quantiser import Quantiser

Noise = Callable[[NoiseDesign, NoiseKey], NDArray[np.int64]]
"""Grid noise of a whole matrix from a design and a key."""


def rescaled(subject: Additive, factor: float) -> Additive:
    """The same subject with its noise multiplied by a factor; it still makes the same claim."""
    # Without a profile, which would tell at once what trials are to find.
    bare = replace(subject, scaled=None).with_noise(factor)
    return replace(bare, name=f"{subject.name}, noise times {factor:g}")


def half_scale(subject: Additive) -> Additive:
    """The mistake of a standard deviation that is too small by two."""
    return rescaled(subject, 0.5)


def unclipped(subject: Additive, excess: float) -> Additive:
    """The mistake of not clipping: one record lies beyond its bound and moves the answer ``excess`` times as far."""
    first, second = subject.answers
    return replace(
        subject,
        name=f"{subject.name}, a record {excess:g} times beyond its bound",
        answers=(second + excess * (first - second), second),
        profile=None,
        scaled=None,
    )


def unrounded(subject: Additive) -> Additive:
    """The mistake of adding continuous noise to a float: the last bits of the sum tell the answers apart."""
    return replace(
        subject, name=f"{subject.name}, added in floating point", grid=0.0, log_density=None, profile=None, scaled=None
    )


def reseeded(subject: Additive, entries: int) -> Additive:
    """The mistake of one seed for all tasks: every chunk of a given number of entries draws the noise of the first.

    Raises
    ------
    CalibrationError
        The chunks do not divide the output evenly.
    """
    width = subject.answers[0].size
    if not 0 < entries < width or width % entries:
        raise CalibrationError(f"{width} entries are not several chunks of {entries}; choose a divisor of the width")

    def noise(trials: int, rng: Generator) -> Array:
        return np.tile(subject.noise(trials, rng)[:, :entries], width // entries)

    return replace(
        subject,
        name=f"{subject.name}, the same noise in every {entries} entries",
        noise=noise,
        log_density=None,
        profile=None,
        scaled=None,
        chunks=list(np.arange(width).reshape(-1, entries)),
    )


def integer_noise(design: NoiseDesign, key: NoiseKey) -> NDArray[np.int64]:
    """Noise as it is released: addressed by position in the matrix, shape of the design."""
    rows, columns = ((0, length) for length in design.shape)
    return design.noise(key, rows, columns)


def reseeded_noise(side: int) -> Noise:
    """The mistake of coordinates that start anew in every block of ``side`` rows and columns."""

    def noise(design: NoiseDesign, key: NoiseKey) -> NDArray[np.int64]:
        m, n = design.shape
        block = design.grid.draw(key, (0, side), (0, side), design.spread.symmetric)
        return np.tile(block, (-(-m // side), -(-n // side)))[:m, :n]

    return noise


def half_steps(design: NoiseDesign) -> NoiseDesign:
    """The same design with half its grid steps, rounded up, and so half its noise; it still states the same loss.

    Noise in whole numbers has no smaller steps: there the rate is doubled.
    """
    if design.whole and isinstance(design.grid, DiscreteLaplace):
        return replace(design, grid=DiscreteLaplace.at_most(2 * design.grid.rate))
    return replace(design, scale=design.scale / 2.0)


def unclipped_quantiser(quantiser: Quantiser, excess: int, first: int = 0) -> Quantiser:
    """The same integers for admissible records, but bounds that are too wide.

    Parameters
    ----------
    quantiser
        Sound, of records in a cube.
    excess
        How many times too wide.
    first
        The first feature whose bounds are; those before it keep theirs.

    Raises
    ------
    CalibrationError
        The records are not declared in a cube, or the integers become too large.
    """
    c = quantiser.coordinates
    if c.body is not Body.CUBE or quantiser.largest * excess >= 2**20:
        raise CalibrationError("bounds can be replaced for records in a cube and integers below 2**20; use fewer bits")
    width = c.scale * np.where(np.arange(c.dimension) < first, 1.0, float(excess))
    wide = replace(c, lower=c.origin - width, upper=c.origin + width, scale=c.scale * float(excess))
    largest = quantiser.largest * excess
    places = None if quantiser.dither is None else FineDither(c.dimension, largest)
    return replace(quantiser, coordinates=wide, largest=largest, dither=places)


def _model(
    claim: Claim, design: NoiseDesign, answers: tuple[Array, Array], chunks: Chunks | None, factor: float
) -> Additive:
    """What a design releases, with noise larger by a factor, from a fast source of random numbers."""
    return replace(integer_noise_of(design.grid, answers, claim, factor), chunks=chunks)


def second_moment_subject(
    name: str,
    claim: Claim,
    design: NoiseDesign,
    quantiser: Quantiser,
    data: tuple[Array, Array],
    noise: Noise = integer_noise,
    chunk: int | None = None,
) -> BlackBox[NDArray[np.int64]]:
    """The released code path on two small data sets: quantise, multiply, round to the grid, add noise.

    Parameters
    ----------
    name, claim
        What is audited and what it promises.
    design
        Noise of the release; wide matrices make every output slow.
    quantiser
        Clip and quantisation of a record.
    data
        Neighbouring records, shapes (n, d) and (n', d).
    noise
        How grid noise is drawn.
    chunk
        Side of the blocks that different tasks draw; None where one draws all.

    Returns
    -------
    A subject whose outputs are the upper triangle of the released matrix, in grid steps.
    """
    everything = (0, design.width)
    upper = np.triu_indices(design.width)
    steps = design.steps(everything, everything)

    def release(exact: NDArray[np.int64], drawn: NDArray[np.int64]) -> Array:
        return design.apart(add_noise(exact, steps, drawn, design.shift))[upper].astype(np.float64)

    # Exact integers do not depend on the key, so that each data set is multiplied once.
    exact = (
        partial_gram(data[0], 0, data[0].shape[0], quantiser, max(1, data[0].shape[0])),
        partial_gram(data[1], 0, data[1].shape[0], quantiser, max(1, data[1].shape[0])),
    )
    none = np.zeros_like(steps)
    answers = release(exact[0], none), release(exact[1], none)
    blocks = None
    if chunk is not None:
        number = (upper[0] // chunk) * design.width + upper[1] // chunk
        blocks = [np.flatnonzero(number == block) for block in np.unique(number)]
    return BlackBox(
        name=name,
        claim=claim,
        run=lambda integers, key: release(integers, noise(design, key)),
        data=exact,
        answers=answers,
        chunks=blocks,
        model=partial(_model, claim, design, answers, blocks),
    )


CellsQuery = CountQuery | HistogramQuery | TablesQuery
"""Counts of a grid, of columns, or of tables."""


def exact_counts(records: Array, query: CellsQuery) -> NDArray[np.int64]:
    """Counts of all records, as a release has them before noise."""
    rows = records.shape[0]
    match query:
        case CountQuery():
            return partial_counts(records, 0, rows, query, max(1, rows))
        case TablesQuery():
            return table_counts(records, 0, rows, query, max(1, rows))
    return column_histograms(records, 0, rows, query, max(1, rows))


def columns_of(query: CellsQuery) -> int:
    """Columns of the records that are counted."""
    match query:
        case CountQuery():
            return len(query.axes)
        case TablesQuery():
            return len(query.grid.axes)
    return len(query.bins)


def counts_subject(
    name: str,
    claim: Claim,
    design: NoiseDesign,
    query: CellsQuery,
    data: tuple[Array, Array],
    noise: Noise = integer_noise,
    chunk: int | None = None,
) -> BlackBox[NDArray[np.int64]]:
    """The released code path on two small data sets: count, measure the strategy if there is one, round, add noise.

    Parameters
    ----------
    name, claim, design, noise, chunk
        As for :func:`second_moment_subject`.
    query
        Grid of cells, bins of columns, or tables.
    data
        Neighbouring records, shapes (n, columns) and (n', columns).

    Returns
    -------
    A subject whose outputs are the released integers, in grid steps.
    """
    rows, columns = ((0, length) for length in design.shape)
    steps = design.steps(rows, columns)

    def answer(records: Array) -> NDArray[np.int64]:
        counts = exact_counts(records, query)
        return counts if design.strategy is None else design.strategy.answers(counts)

    def release(exact: NDArray[np.int64], drawn: NDArray[np.int64]) -> Array:
        return add_noise(exact, steps, drawn, design.shift).ravel().astype(np.float64)

    # Exact integers do not depend on the key, so that each data set is counted once.
    exact = (answer(data[0]), answer(data[1]))
    none = np.zeros_like(steps)
    answers = release(exact[0], none), release(exact[1], none)
    blocks = None
    if chunk is not None:
        number = np.add.outer(np.arange(rows[1]) // chunk * columns[1], np.arange(columns[1]) // chunk).ravel()
        blocks = [np.flatnonzero(number == block) for block in np.unique(number)]
    return BlackBox(
        name=name,
        claim=claim,
        run=lambda integers, key: release(integers, noise(design, key)),
        data=exact,
        answers=answers,
        chunks=blocks,
        model=partial(_model, claim, design, answers, blocks),
    )
