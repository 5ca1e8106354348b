"""Whether a release can be published, asked while nothing is spent: all that it states, about a stand-in of its values.

What a release states follows from its plan, its shape and the released integers. A number or a name that cannot be
written would end every attempt at a release that is paid for. So all of it is built once before the charge is
committed, with zeros for the integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

from blockveil.pipeline.base.canonical import TIME_OF_DAY, canonical_json
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.foreign_files import MOST_METADATA
from blockveil.pipeline.data import zarr_arrays
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.stages import Drawn, arrays
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.stepwise import course_of
from blockveil.pipeline.releases import outputs

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
    stated = b""
    try:
        others = _other_stages(plan, dataset.rows)
        for each in (plan, *plan.last_stages):
            arrays = _stand_in(each, dataset.rows, _MOST_ENTRIES if each is plan else _MOST_BESIDE)
            attributes = outputs.attributes(each, charge, arrays, dataset)
            written = canonical_json(attributes)
            stated += written
            if each.learned is not None and len(written) + _INDENTED * _parts(written) > MOST_METADATA:
                _require_readable(attributes, len(plan.columns))
            _create({**arrays, **others})
    except (ArithmeticError, ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise ConfigError(
            f"What this release states of itself cannot be written ({type(error).__name__})",
            "All of it is built before anything is paid for",
            "Give bounds that records can reach, in units that make them neither huge nor tiny; if that does not help, "
            "report it with the config",
        ) from None
    require_no_time_of_day(stated)


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


def _require_readable(attributes: Mapping[str, Any], features: int) -> None:
    """Refuse what no reader would open, however long the numbers become that first stages give."""
    written = json.dumps({"attributes": _with_long_numbers(attributes)}, indent=2)
    if len(written) + _MORE > MOST_METADATA:
        raise ConfigError(
            f"query.geometry.learn with {features:,} features",
            f"A release states the shapes of all stages in one file of at most {MOST_METADATA:,} bytes",
            "Declare fewer features, give them shorter names, or leave learn out",
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
    drawn = [] if learning is None else learning.blank(rows)
    course = course_of(plan.question, plan.design)
    if stage_after is not None and course is not None:
        drawn = [Drawn(stage_after.at(course.weights), np.zeros(stage_after.answer.design.shape, dtype=np.int64))]
    with np.errstate(all="ignore"):
        return arrays(drawn, rows)


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
        found = np.asarray(values)
        like = name, found.shape, str(found.dtype), dimensions
        if like not in _made:
            group = group or zarr.create_group(MemoryStore(), zarr_format=3)
            zarr_arrays.create_array(group, name, found.shape, found.dtype, dimensions)
            if len(_made) < _MOST_MADE:
                _made.add(like)
