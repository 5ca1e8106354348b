"""Attacks: numbers computed from one output that tell neighbours apart, each with all that it needs.

An attack is fitted to calibration outputs and returns scores; the events that :func:`.audit.audit`
tests are "the score is at least (at most) a threshold". A score is a fixed function of one output once it is fitted,
which is all that the proof in :mod:`.bounds` asks of it.

================== ===================================================== ======================================
attack             score                                                 finds
================== ===================================================== ======================================
likelihood ratio   exact ratio of the densities                          anything; the best test there is
nearest answer     how much nearer to one answer than to the other       rank-one noise
ball               distance to one answer                                noise that is often nearly nothing
projection         component along the difference of the answers         too little noise
discriminant       the same after whitening by the measured covariance   noise that is correlated
coordinate         the entry that tells most                             one entry with too little noise
histogram          measured ratio of a binned projection                 noise of a wrong shape
repeated block     difference of two chunks of equal size                chunks that share their noise
last bits          lowest bit that is set in the output's floats         noise added in floating point
================== ===================================================== ======================================

**Source**: Neyman and Pearson, 1933 (likelihood ratio); Mironov, 2012 (last bits); the rest is what a person would try.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from blockveil.engine.audit.bounds import Array
from blockveil.engine.audit.subjects import Chunks, Indices, Subject

_FITTED = 2**14
"""Outputs that are enough to choose a direction, an entry or a pair of chunks."""
_PLACES = 2**10
"""Values at which distribution functions are compared: they miss a distance by far less than chance does."""
_SMALL = 8
_WIDEST = 64
_PAIRS = 64
_BINS = 64


@dataclass(frozen=True, eq=False)
class Score:
    """A number for each output.

    Attributes
    ----------
    description
        In words.
    of
        Outputs of shape (trials, M) to scores of shape (trials,).
    """

    description: str
    of: Callable[[Array], Array]


Attack = Callable[[Subject, Array, Array], list[Score]]
"""An attack turns a subject and calibration outputs on D and D', shape (trials, M) each, into scores, or none."""


def likelihood_ratio(subject: Subject, first: Array, second: Array) -> list[Score]:
    """The exact ratio, where the subject states it."""

    def score(outputs: Array) -> Array:
        ratio = subject.log_ratio(outputs)
        return np.zeros(outputs.shape[0]) if ratio is None else ratio

    return [] if subject.log_ratio(first[:1]) is None else [Score("log-likelihood ratio", score)]


def nearest_answer(subject: Subject, first: Array, second: Array) -> list[Score]:
    """How much farther the answer of D' is than the answer of D."""
    a, b = centres(subject, first, second)

    def score(outputs: Array) -> Array:
        to_a, to_b = np.linalg.norm(outputs - a, axis=1), np.linalg.norm(outputs - b, axis=1)
        # The difference of the distances, from the difference of their squares, without cancellation.
        return np.asarray(2.0 * ((outputs - (a + b) / 2.0) @ (a - b)) / np.maximum(to_a + to_b, 1e-300))

    return [Score("distance to the neighbour's answer less distance to the answer", score)]


def ball(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Distance to each of the two answers."""
    names = ("distance to the answer", "distance to the neighbour's answer")

    def distance(centre: Array) -> Callable[[Array], Array]:
        return lambda outputs: np.asarray(np.linalg.norm(outputs - centre, axis=1))

    return [Score(n, distance(c)) for n, c in zip(names, centres(subject, first, second), strict=True)]


def projection(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Component along the difference of the answers."""
    a, b = centres(subject, first, second)
    return [Score("projection on the difference", lambda outputs: (outputs - (a + b) / 2.0) @ (a - b))]


def discriminant(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Component along the difference after whitening by the measured covariance; not for more than 64 entries."""
    a, b = centres(subject, first, second)
    if not 1 < a.size <= _WIDEST:
        return []
    noise = np.concatenate([sample[:_FITTED] - np.mean(sample[:_FITTED], axis=0) for sample in (first, second)])
    sizes = np.std(noise, axis=0)
    sizes[sizes == 0.0] = 1e-300
    correlation = (noise / sizes).T @ (noise / sizes) / noise.shape[0]
    # A singular correlation is what this looks for: the small ridge lets its null directions weigh most.
    weights = np.linalg.solve(correlation + 1e-10 * np.eye(a.size), (a - b) / sizes) / sizes
    return [Score("projection after whitening", lambda outputs: (outputs - (a + b) / 2.0) @ weights)]


def coordinate(subject: Subject, first: Array, second: Array) -> list[Score]:
    """The one entry whose values, compared with a threshold such as the midpoint, tell most."""
    gaps = [separation(first[:_FITTED, j], second[:_FITTED, j]) for j in range(first.shape[1])]
    best = int(np.argmax(gaps))
    return [Score(f"entry {best}", lambda outputs: outputs[:, best])]


def histogram(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Measured log-ratio of the bin into which the projection on the difference falls."""
    project = projection(subject, first, second)[0].of
    projected = project(first), project(second)
    edges = np.unique(np.quantile(np.concatenate(projected), np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
    bins = [np.bincount(np.searchsorted(edges, p, side="right"), minlength=edges.size + 1) for p in projected]
    ratio = np.log(bins[0] + 0.5) - np.log(bins[1] + 0.5)
    return [
        Score("bins of the projection", lambda outputs: ratio[np.searchsorted(edges, project(outputs), side="right")])
    ]


def repeated_block(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Distance of the difference of two chunks from what it is without noise: zero where the chunks share their noise.

    Chunks of different sizes are not compared. Where the chunks are not known and there are few entries, each entry is
    taken for a chunk.
    """
    answers = centres(subject, first, second)
    scores = []
    for one, other in _pairs(subject.chunks, first.shape[1]):
        for which, name in enumerate(("the answers", "the neighbour's answers")):
            target = answers[which][one] - answers[which][other]
            scores.append(
                Score(
                    f"noise of entries {one.tolist()} less that of {other.tolist()}, by {name}, in size",
                    _unlikeness(one, other, target),
                )
            )
    gaps = [separation(score.of(first[:_FITTED]), score.of(second[:_FITTED])) for score in scores]
    return [scores[int(np.argmax(gaps))]] if scores else []


def last_bits(subject: Subject, first: Array, second: Array) -> list[Score]:
    """Exponent of the lowest bit that is set in any entry: a float sum has none below the last bit of its terms."""

    def score(outputs: Array) -> Array:
        mantissa, exponent = np.frexp(outputs)
        integers = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = np.frexp((integers & -integers).astype(np.float64))[1] + exponent
        return np.asarray(np.min(np.where(integers == 0, 2048, lowest), axis=1), dtype=np.float64)

    return [Score("lowest bit", score)]


def _unlikeness(one: Indices, other: Indices, target: Array) -> Callable[[Array], Array]:
    # Entries first: a maximum over the first axis runs over whole columns of outputs at once.
    return lambda outputs: np.max(np.abs(outputs.T[one] - outputs.T[other] - target[:, None]), axis=0)


BLACK_BOX: Sequence[Attack] = (
    nearest_answer,
    ball,
    projection,
    discriminant,
    coordinate,
    histogram,
    repeated_block,
    last_bits,
)
"""Attacks that need no density."""

WHITE_BOX: Sequence[Attack] = (likelihood_ratio, nearest_answer, ball, discriminant, repeated_block)
"""Attacks on a subject whose likelihood ratio is known: the last two do not believe that entries are independent."""


def centres(subject: Subject, first: Array, second: Array) -> tuple[Array, Array]:
    """Answers without noise, or medians of the calibration outputs where they are not known."""
    return subject.answers or (np.median(first, axis=0), np.median(second, axis=0))


def separation(first: Array, second: Array) -> float:
    """Largest distance of the two distribution functions, at some thousand values of each sample."""
    samples = np.sort(first), np.sort(second)
    places = np.concatenate([sample[:: max(1, sample.size // _PLACES)] for sample in samples])
    shares = [np.searchsorted(sample, places, side="right") / sample.size for sample in samples]
    return float(np.max(np.abs(shares[0] - shares[1])))


def _pairs(chunks: Chunks | None, entries: int) -> list[tuple[Indices, Indices]]:
    if chunks is None:
        chunks = [np.array([j]) for j in range(entries)] if entries <= _SMALL else []
    return [(one, other) for one, other in combinations(chunks, 2) if one.size == other.size][:_PAIRS]
