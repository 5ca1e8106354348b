"""One way to write plain values as bytes, so that equal values have equal digests on every machine.

Keys are sorted, floats are written by ``repr`` (the shortest text that reads back to the same bits), text is ASCII, and
what JSON cannot hold is refused instead of approximated.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

TIME_OF_DAY = re.compile(rb"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}")
"""What no release may state: a resumed run could not write the same bytes."""


_PLAIN = (str, int, float, type(None))
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
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):  # json.dumps refuses mappings of other kinds
            for key in each:
                if not isinstance(key, str):
                    raise TypeError(f"a key is of type {type(key).__name__}; canonical JSON needs text keys")
            waiting += [item for item in each.values() if not isinstance(item, _PLAIN)]
        elif isinstance(each, _LISTS):
            waiting += [item for item in each if not isinstance(item, _PLAIN)]
