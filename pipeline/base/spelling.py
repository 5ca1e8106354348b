"""The one spelling of a value that divides records: two spellings of one value would be two parts of the records.

Parallel composition needs that each record is in one part. "7" of one file and "07" of another are one value and two
texts, so a column is declared to be of a type, and a text that is not the type's one spelling of a value is refused.

**Source**: Unicode Standard Annex 15 (normalisation form C) and section 5.21 (Default_Ignorable_Code_Point); ISO 8601
(calendar dates in the extended format).
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from typing import Literal, get_args

from blockveil.pipeline.base.printable import INVISIBLE

PartType = Literal["whole", "date", "text"]
UnitType = Literal["whole", "text"]

TYPES: tuple[PartType, ...] = get_args(PartType)

RULES: dict[PartType, str] = {
    "whole": "A whole number is written in decimal digits without leading zeros, blanks or a plus sign",
    "date": "A date is written YYYY-MM-DD and is in the calendar",
    "text": "A text is in the Unicode normalisation form C, without control or invisible characters, other blanks than "
    "the plain one, a blank at its ends or a mark at its beginning",
}
REMEDIES: dict[PartType, str] = {
    "whole": "Write 7 in place of 07, +7 or 7.0",
    "date": "Write 2026-11-20 in place of 20261120, 2026-11-20T00:00 or 20.11.2026",
    "text": "Normalise the texts to form C and strip them",
}

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


_LOOK_LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТХҮԚԜаеоѕіјрсухһԁԛԝӀӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρϲ",
    "ABESIJKMHOPCTXYQWaeosijpcyxhdqwllABEZHIKMNOPTYXovpc",
)
"""Letters of the Cyrillic and Greek alphabets, and the Latin ones that look like them (UTS 39)."""


def is_canonical(text: str, kind: PartType) -> bool:
    """Whether a text is the one spelling of a value of a type."""
    match kind:
        case "whole":
            return bool(_WHOLE.fullmatch(text)) and -(2**63) <= int(text) < 2**63
        case "date":
            return bool(_DATE.fullmatch(text)) and _in_the_calendar(text)
        case "text":
            # Printable characters are all but those of the categories "other" and "separator", and the plain blank.
            if text == "" or not text.isprintable() or text != text.strip(" ") or INVISIBLE.search(text):
                return False
            return unicodedata.is_normalized("NFC", text) and not unicodedata.category(text[0]).startswith("M")


def alike(text: str) -> str:
    """What texts have in common that a reader may take for one: two with the same are confusable.

    Case, compatible characters, how many blanks there are, and letters of the Greek and Cyrillic alphabets that look
    like Latin ones do not count.
    """
    if text.isascii():
        return re.sub(" +", " ", text.lower())
    # Letters twice: some look alike in one case alone.
    plain = unicodedata.normalize("NFKC", text).translate(_LOOK_LATIN).casefold().translate(_LOOK_LATIN)
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", plain))


def _in_the_calendar(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
