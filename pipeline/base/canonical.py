"""One way to write plain values as bytes, so that equal values have equal digests on every machine.

Keys are sorted, floats are written by ``repr`` (the shortest text that reads back to the same bits), text is ASCII, and
what JSON cannot hold is refused instead of approximated.
"""

from __future__ import annotations

import hashlib
import json
import re
from itertools import chain
from typing import Any

TIME_OF_DAY = re.compile(rb"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}")
"""What no release may state: a resumed run could not write the same bytes."""


_PLAIN = frozenset((str, int, float, bool, type(None)))
_LISTS = (list, tuple)


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of plain values.

    Parameters
    ----------
    value
        Mappings with text keys, lists, tuples, text, booleans, integers, finite floats and None, nested.

    Raises
    ------
    ValueError
        A float is NaN or infinite.
    TypeError
        A value or a key of another type.
    """
    _check_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON, 64 hexadecimal digits; raises as :func:`canonical_json`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _check_keys(value: Any) -> None:
    # json.dumps would turn the key 1 into "1", so that two different mappings would share a digest.
    level = [value]
    while level:  # as deep as the value is nested, so that long lists of short ones cost little each
        mappings = [each for each in level if isinstance(each, dict)]  # json.dumps refuses mappings of other kinds
        for key in chain.from_iterable(mappings):
            if not isinstance(key, str):
                raise TypeError(f"a key is of type {type(key).__name__}; canonical JSON needs text keys")
        lists = [each for each in level if isinstance(each, _LISTS)]
        items = chain(chain.from_iterable(each.values() for each in mappings), chain.from_iterable(lists))
        level = [item for item in items if type(item) not in _PLAIN]
