"""What a published release holds: arrays with their error, and attributes that explain them. Public values only.

Nothing here depends on a clock, a path or the data beyond the released integers, so a resumed run stages the same bits.

What a release states follows from its plan, its shape and the released integers. A number or a name that cannot be
written would end every attempt at a release that is paid for. So all of it is built once before the charge is
committed, with zeros for the integers.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.pipeline.base.canonical import TIME_OF_DAY, canonical_json
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.foreign_files import MOST_METADATA
from blockveil.pipeline.base.kinds import Kind
from blockveil.pipeline.data import zarr_arrays
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan import promise, rounded, stages
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.stepwise import course_of

_MOST_ENTRIES = 2**20
"""Entries of an answer up to which its arrays are built: about a second. Larger ones differ in nothing but size."""

_LONGEST = "-2.2250738585072014e-308"[:-2]
"""As long with its quotes as the longest float."""

_INDENTED = 64
"""Characters that no number and what indents it take together, in a file of attributes."""

_MORE = 2**14
"""Bytes of a file of attributes beside those that are known beforehand: its digest, its signature and its frame."""

_MOST_BESIDE = 2**18
"""The same of shapes that a night may learn, which differ from its own in nothing but scales: a fifth of that."""

_Made = tuple[str, tuple[int, ...], str, tuple[str, ...]]
"""Name, shape, type and axes of an array."""

_made = set[_Made]()
_MOST_MADE = 2**12
"""Arrays that this process remembers to have made, as those of other nights and of stages are the same."""


def attributes(plan: Plan, charge: Charge, arrays: ReleaseArrays, dataset: Dataset) -> dict[str, Any]:
    """Attributes of the release group: plain JSON, public, the same for every attempt.

    Parameters
    ----------
    plan, charge
        The release and what paid for it.
    arrays
        Arrays of it that are small enough to stay in memory.
    dataset
        Its records, of which only the part, what a unit contributes and which maps made columns is stated.
    """
    part, contribution = dataset.part, dataset.contribution
    config = plan.config
    public = plan.stated
    title = "training of a model" if plan.trains else config.kind.titles[config.query.kind]
    return {
        "title": f"Differentially private {title} {'on' if plan.trains else 'of'} {config.release.dataset}",
        "release_id": plan.release_id,
        "dataset": config.release.dataset,
        "name": config.release.name,
        "logical_date": plan.logical_date.isoformat(),
        "query": public["query"],
        "matrix": plan.answer.matrix,
        "origin": [float(value) for value in plan.question.origin],
        **({"public_maps": [each.plain for each in dataset.maps]} if dataset.maps else {}),
        "guarantee": {
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
            "loss": plan.charge.plain,
            "neighbours": plan.neighbours.value,
            "privacy_unit": config.privacy.unit,
            "contribution": contribution.facts(),
            **({} if plan.series is None else {"nights": plan.series.nights}),
            "sentence": f"{promise.sentence(plan, part)} {contribution.sentence}",
        },
        **({} if part is None else {"part": {"column": part.column, "equals": part.value}}),
        "mechanism": {
            **public["mechanism"],
            **public["calibration"],
            **_least(plan),
            "algorithms": public["algorithms"],
        },
        **({"unvetted": public["unvetted"]} if "unvetted" in public else {}),
        **({} if plan.learned is None else {"learned": plan.learned.facts}),
        "error": {**error_facts(plan), **post_processing(config.kind, plan.answer, arrays)},
        "reliable": _reliable(arrays),
        **({"computed_in_clear": True} if config.in_clear else {}),
        "plan_digest": plan.digest,
        "ledger": {"charge_id": charge.charge_id, "sequence": charge.sequence, "row_hash": charge.row_hash},
        **({} if charge.approval is None else {"approval": charge.approval.plain}),
        "software": dict(_software()),
    }


def _least(plan: Plan) -> dict[str, float]:
    """Error below which no Gaussian noise gets, in six digits rounded down, where ``auto`` chose and it is known."""
    least = plan.least
    # Digits beyond these may differ between machines, and every attempt states the same.
    return {} if least is None else {"least_error": float(f"{least * (1.0 - 1e-5):.5e}")}


def error_facts(plan: Plan) -> dict[str, Any]:
    """Error of the whole matrix, known before any data was read; see :mod:`.error_bounds`; empty without
    noise.
    """
    report = plan.answer.error()
    if report is None:
        return {}
    return {
        "array": "second_moment" if plan.answer.matrix == "covariance" else plan.answer.matrix,
        "confidence": CONFIDENCE,
        "band_in_standard_deviations": report.band,
        "spectral_norm_bound": report.spectral,
        "frobenius_norm_bound": report.frobenius,
        "expected_squared_error": report.total_variance,
        **rounded.facts(plan.answer),
    }


def post_processing(kind: Kind, answer: Answer, arrays: ReleaseArrays) -> dict[str, Any]:
    """What is known of the error after post-processing; empty where nothing is post-processed.

    Parameters
    ----------
    kind
        Of the query.
    answer
        What was asked, with its design.
    arrays
        Arrays of the release.

    Returns
    -------
    Plain JSON: which post-processing, in which array, proven bounds, and what was simulated.
    """
    return kind.part("post_processing", _nothing)(answer, arrays)


def _nothing(answer: Any, arrays: ReleaseArrays) -> dict[str, Any]:
    del answer, arrays
    return {}


def _reliable(arrays: ReleaseArrays) -> bool:
    """Whether the count is far enough from zero, next to its own noise, for means and covariances to be ratios."""
    if "count" not in arrays:
        return True
    return float(arrays["count"][0]) > max(4.0 * float(arrays["count_standard_deviation"][0]), 0.0)


@cache
def _software() -> dict[str, str]:
    packages = ("blockveil", "numpy", "scipy", "zarr", "dask", "cryptography")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def require_publishable(plan: Plan, charge: Charge, dataset: Dataset) -> None:
    """Refuse a release that could be paid for and not published.

    Parameters
    ----------
    plan, charge
        The release and its charge, which is not committed yet.
    dataset
        Its records, none of which is read here.

    Raises
    ------
    ConfigError
        A number leaves float64, or a text cannot be stated.
    """
    documents = b""
    try:
        others = _other_stages(plan, dataset.rows)
        for each in (plan, *plan.last_stages):
            own = _stand_in(each, dataset.rows, _MOST_ENTRIES if each is plan else _MOST_BESIDE)
            facts = attributes(each, charge, own, dataset)
            document = canonical_json(facts)
            documents += document
            if each.learned is not None and len(document) + _INDENTED * _parts(document) > MOST_METADATA:
                _require_readable(facts, plan)
            _create({**own, **others})
    except (ArithmeticError, ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise ConfigError(
            f"What this release states of itself cannot be written ({type(error).__name__})",
            "All of it is built before anything is paid for",
            "Give bounds that records can reach, in units that make them neither huge nor tiny; if that does not help, "
            "report it with the config",
        ) from None
    require_no_time_of_day(documents)


def require_no_time_of_day(stated: bytes) -> None:
    """Refuse a text with a time of day: whoever resumes a run could not be told from whoever runs it later.

    Parameters
    ----------
    stated
        Canonical JSON of what a release states.

    Raises
    ------
    ConfigError
        There is one.
    """
    time = TIME_OF_DAY.search(stated)
    if time is not None:
        raise ConfigError(
            f'"{time.group().decode()}" in a text that the release states',
            "No release holds a time of day, since a resumed run writes the same bytes",
            "Leave the time out of names, texts and values of the config, or write it in another form",
        )


def _parts(written: bytes) -> int:
    """At least as many values, beginnings and ends of lists and mappings as a JSON text has."""
    return sum(written.count(each) for each in (b",", b"[", b"{", b"]", b"}"))


def _require_readable(facts: Mapping[str, Any], plan: Plan) -> None:
    """Refuse what no reader would open, however long the numbers become that first stages give."""
    document = json.dumps({"attributes": _with_long_numbers(facts)}, indent=2)
    if len(document) + _MORE > MOST_METADATA:
        what, other = (
            ("query.geometry.learn with", ", or leave learn out") if plan.learns_shape else ("Two stages of", "")
        )
        raise ConfigError(
            f"{what} {len(plan.columns):,} features",
            f"A release states all of its stages in one file of at most {MOST_METADATA:,} bytes",
            f"Declare fewer features, or give them shorter names{other}",
        )


def _with_long_numbers(value: Any) -> Any:
    """The same with a text of the same length as the longest number in place of each float."""
    if isinstance(value, Mapping):
        return {key: _with_long_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_long_numbers(each) for each in value]
    return _LONGEST if isinstance(value, float) else value


def _other_stages(plan: Plan, rows: int) -> ReleaseArrays:
    """Arrays of stages before or after the answer whose counts and sums are zero."""
    learning, stage_after = plan.designed.learning, plan.designed.stage_after
    draws = [] if learning is None else learning.blank(rows)
    course = course_of(plan.question, plan.design)
    if stage_after is not None and course is not None:
        draws = [
            stages.Drawn(stage_after.at(course.weights), np.zeros(stage_after.answer.design.shape, dtype=np.int64))
        ]
    with np.errstate(all="ignore"):
        return stages.arrays(draws, rows)


def _stand_in(plan: Plan, rows: int, most: int) -> ReleaseArrays:
    """Arrays of the release where all its counts and sums are zero; none of an answer of more entries."""
    work = plan.answer.work(rows)
    shape = work.shape if plan.design.by_tile and not plan.trains else plan.design.shape
    if work.blocked or shape[0] * shape[1] > most:
        return {}
    own = getattr(plan.design, "stand_in", None)  # of designs that never release zeros alone
    zeros = np.zeros(shape, dtype=np.int64) if own is None else own()
    with np.errstate(all="ignore"):
        return plan.answer.arrays(zeros, rows)


def _create(arrays: Mapping[str, tuple[Any, tuple[str, ...]]]) -> None:
    """Make the arrays, without their values, under the names that they have in a release; none that was made before."""
    group = None
    for name, (values, dimensions) in arrays.items():
        array = np.asarray(values)
        like = name, array.shape, str(array.dtype), dimensions
        if like not in _made:
            group = group or zarr.create_group(MemoryStore(), zarr_format=3)
            zarr_arrays.create_array(group, name, array.shape, array.dtype, dimensions)
            if len(_made) < _MOST_MADE:
                _made.add(like)
