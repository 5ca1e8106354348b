"""The one form of each identifier of a unit: a person in two spellings would be two units, each with rows of its own.

Programs rewrite identifiers: a column of integers with a gap becomes floats, so that one file says ``7.0`` and the next
one ``7``; a spreadsheet takes leading zeros away and writes ``1E+05``. So a config declares what its column holds, and
every source gives one form per value or is refused, without the value being shown:

* ``whole``: the integer, whether it was an integer, a float, a decimal or a text (``7``, ``7.0``, ``07``, ``+7``,
  blanks around it). Where digits may be lost it is refused: scientific notation, and floats from 2^53 on (float32:
  2^24).
* ``text``: the text itself, if it is the one spelling of type ``text`` (:mod:`pipeline.base.spelling`) and nothing that
  a program made of a number (``7.0``, ``07``, ``1e5``) or of a missing value (``nan``, ``NULL``). Two texts that
  readers may take for one (:func:`.spelling.alike`) are refused where they meet, over all appends: whether they are two
  people or one is for the curator to say. :func:`text_digests` makes them meet.

**Source**: Unicode Standard Annex 15 (forms C and KC), Unicode Technical Standard 39 (confusable characters).
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.base.spelling import UnitType, alike, is_canonical
from blockveil.pipeline.data.ingest.column_faults import Unfit

Digests = NDArray[np.bytes_]

_SAME_FOLD = 12
"""Bytes in which the digests of texts agree that readers may take for one; the other four tell them apart."""

_WHOLE_TEXT = r"^[ \t]*[+-]?[0-9]+(\.0*)?[ \t]*$"
_WHOLE_PARTS = r"^[ \t]*\+?(-?)0*([0-9]+?)(\.0*)?[ \t]*$"
_WHOLE_RULE = "A unit of type whole is a whole number of 64 bits, with all of its digits"
_WHOLE_REMEDY = (
    "Write whole numbers without an exponent in the source, and no value where there is none; or set unit.type"
)

_PLAIN = r"^[A-Za-z_][!-~]*$"
"""Texts that are no spelling of a number; short words are looked at more closely."""

_NUMERAL = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")
_OWN_DIGITS = re.compile(r"0|-?[1-9][0-9]*")
_HEXADECIMAL = re.compile(r"[0-9]+[eE][0-9]+")
_LONG = 24
"""Letters from which on a text of digits and one e is no number that a program wrote, but a digest in hexadecimal."""

_ABSENT = frozenset({
    "nan", "none", "null", "nil", "na", "n/a", "#n/a", "<na>", "nat", "inf", "-inf", "+inf", "infinity", "-infinity",
})  # fmt: skip
"""What programs write where there is no value, or none that a float holds; upper and lower case alike."""

_TEXT_RULE = (
    "A unit of type text is in Unicode form C without invisible characters or outer blanks, and no text that a program "
    "makes of a number (7.0, 07, 1e5) or of a missing value (nan, NULL)"
)
_TEXT_REMEDY = (
    'Set unit.type = "whole" where units are numbers; else write each with a letter in front (p07), and no value where '
    "there is none, in CSV files one of source.missing_values"
)


def canonical(name: str, column: pa.Array, kind: UnitType) -> pa.Array:
    """Identifiers of units in their one form.

    Raises Unfit where one of them has no such form, or may have lost digits.

    Parameters
    ----------
    name
        Name of the column, for messages.
    column
        Identifiers as a source has them, null where there is none.
    kind
        What the column is declared to hold.

    Returns
    -------
    int64 or large_string, null where there is none.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return column.cast(pa.int64() if kind == "whole" else pa.large_string())
    textual = is_text(column.type)
    if kind == "text":
        if not textual:
            raise Unfit(
                name, f"is of type {type_name(column.type)}", 'It is declared: unit.type = "text"', _TEXT_REMEDY
            )
        return _own_spelling(name, column.cast(pa.large_string()))
    if textual:
        return _read_digits(name, column.cast(pa.large_string()))
    if pa.types.is_floating(column.type):
        return whole_floats(name, column)
    if not (pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)):
        raise Unfit(name, f"is of type {type_name(column.type)}", 'It is declared: unit.type = "whole"', _WHOLE_REMEDY)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        pass  # raised outside the handler: the text of what was caught quotes the value
    raise Unfit(name, "holds a unit that is not whole, or is beyond 64 bits", _WHOLE_RULE, _WHOLE_REMEDY)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text; a file in which all values are missing may have written it without a type."""
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def type_name(kind: pa.DataType) -> str:
    """Name of a type for a person; of one that a driver does not know, as its database calls it."""
    if isinstance(kind, pa.OpaqueType):
        return str(kind.type_name)
    return str(kind.extension_name) if isinstance(kind, pa.BaseExtensionType) else str(kind)


def whole_floats(name: str, column: pa.Array) -> pa.Array:
    """Integers that were written as floats, as columns with gaps are; int64, null for a missing one.

    Raises Unfit where one of them is not whole, or so large that it may have been another integer.
    """
    values = column.to_numpy(zero_copy_only=False)
    absent = np.isnan(values)
    # From here on, two integers are one float: the number in the file may have been another.
    most = 2.0 ** (np.finfo(values.dtype).nmant + 1)
    values = np.where(absent, 0.0, values)
    if not np.all((values == np.rint(values)) & (np.abs(values) < most)):
        raise Unfit(
            name,
            f"holds a number that is not whole, or that {column.type} does not hold exactly",
            f"Whole numbers in such a column lie between -{most:.0f} and {most:.0f}",
            'Declare it a "number", store whole numbers (dtype = "int64"), or correct the source',
        )
    return pa.array(values.astype(np.int64), mask=absent)


def _read_digits(name: str, column: pa.Array) -> pa.Array:
    if pc.all(pc.match_substring_regex(column, _WHOLE_TEXT)).as_py() is not False:
        try:
            whole = pc.replace_substring_regex(column, _WHOLE_PARTS, r"\1\2").cast(pa.int64())
        except pa.ArrowInvalid:
            pass
        else:
            floats = pc.filter(whole, pc.match_substring(column, "."))
            # A point says that a program had it as a float, which holds every integer below 2^53.
            if pc.all(pc.less(pc.abs_checked(floats), 2**53)).as_py() is not False:
                return whole
    problem = "holds a text that is not a whole number, is beyond 64 bits, or may have lost digits"
    raise Unfit(name, problem, _WHOLE_RULE, _WHOLE_REMEDY)


def _own_spelling(name: str, column: pa.Array) -> pa.Array:
    plain = pc.and_(pc.match_substring_regex(column, _PLAIN), pc.greater(pc.binary_length(column), len("-infinity")))
    others = pc.unique(column.filter(pc.invert(plain)))  # without missing ones: a filter drops what is null
    if not all(_is_own(text) for text in others.to_pylist()):
        raise Unfit(name, "holds a unit in another spelling than its own", _TEXT_RULE, _TEXT_REMEDY)
    return column


def _is_own(text: str) -> bool:
    if not is_canonical(text, "text") or text.lower() in _ABSENT:
        return False
    if _NUMERAL.fullmatch(text) is None:
        return True
    return bool(_OWN_DIGITS.fullmatch(text) or (len(text) > _LONG and _HEXADECIMAL.fullmatch(text)))


def text_digests(key: bytes, texts: list[str]) -> bytes:
    """Keyed digests of texts, 16 bytes each: those of texts that readers may take for one are neighbours."""
    return b"".join(
        hashlib.blake2b(alike(text).encode(), key=key, digest_size=_SAME_FOLD).digest()
        + hashlib.blake2b(text.encode(), key=key, digest_size=16 - _SAME_FOLD).digest()
        for text in texts
    )


def require_one_spelling(column: str, units: Digests, earlier: Digests | None) -> None:
    """Refuse texts of which readers may take two for one; DataError.

    Parameters
    ----------
    column
        Name of the column of the unit.
    units, earlier
        Digests of units, in order; of those that are stored already, None where none are.
    """
    both = units if earlier is None or not earlier.size else np.union1d(units, earlier)
    folds = np.ascontiguousarray(both).view(np.uint8).reshape(-1, 16)[:, :_SAME_FOLD]
    if both.size > 1 and np.any(np.all(folds[1:] == folds[:-1], axis=1)):
        raise DataError(
            f'Column "{column}" holds two units that differ in upper and lower case, in blanks or in letters that '
            "look the same alone",
            "They are one person in two spellings, or two whom a reader would take for one",
            "Write each person in one spelling in the source; where they are two, by whole numbers",
        )
