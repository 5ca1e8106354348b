"""Text from outside, such as a config, a path or a published file, made harmless for whatever shows it."""

from __future__ import annotations

import html
import re
import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that steer a terminal, reorder what is read, break a line, or cannot be written as UTF-8."""

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Default_Ignorable_Code_Point of Unicode 16, and the empty Braille pattern: letters and marks that nobody sees."""

_MARKUP = re.compile(r"([\\`*_\[\]<>|~&#!$])")


def printable(text: str, kept: str = "\n") -> str:
    r"""Text whose control characters, reordering marks and lone surrogates are written as ``\u001b``.

    JSON stays JSON with the same values.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(sign) if is_hidden(sign) and sign not in kept else sign for sign in text)


def _escaped(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def is_hidden(sign: str) -> bool:
    """Whether a character has no picture of its own, but acts on those around it or on the terminal."""
    return unicodedata.category(sign) in _HIDDEN or INVISIBLE.match(sign) is not None


def one_line(text: str) -> str:
    """Printable text without line breaks."""
    return printable(text, kept="")


def visible(text: str) -> str:
    """One line in which two texts that differ look different, but for letters that are drawn alike.

    Blanks other than the plain one, and marks at the beginning, are written as escapes too.
    """
    first = text[:1] if unicodedata.category(text[:1] or " ").startswith("M") else ""
    rest = text[len(first) :]
    line = "".join(_escaped(sign) if sign.isspace() and sign != " " else sign for sign in rest)
    return "".join(map(_escaped, first)) + one_line(line)


def short(text: str, longest: int) -> str:
    """Text of at most ``longest`` characters; the middle of a longer one is left out."""
    if len(text) <= longest:
        return text
    head = (longest - 3) // 2
    return f"{text[:head]}...{text[len(text) - (longest - 3 - head) :]}"


def as_html(text: str) -> str:
    """Text for an HTML page or an attribute of it: shown as it is, never markup."""
    return html.escape(printable(text))


def as_markdown(text: str) -> str:
    """Text for one line of markdown, or a cell of a table: shown as it is, never markup, a link or an image."""
    return _MARKUP.sub(r"\\\1", one_line(text.replace("\n", " ")))


def as_code(text: str) -> str:
    """Text for one line of markdown, as code."""
    return "`" + one_line(text).replace("`", "'") + "`"
