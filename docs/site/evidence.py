"""Evidence beside sentences: what shows each promise of a page, put after it.

``docs/sentences.toml`` says of each sentence of four pages what it is, and ``docs/evidence.toml`` what shows those that
promise something.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_MARK = re.compile(r"\s*(?:[-*]|\d+\.) ")
_END = re.compile(r"[.?!:][)\"*]*(?=\s+[\"(*`\[]*[A-Z0-9])")
_TITLE = re.compile(r"\*\*[^*]+[.?]\*\*$")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page.

    Attributes
    ----------
    words
        The sentence, with single spaces; a row of a table as a whole.
    end
        Where in the page it ends.
    numbered
        First words, in bold, of the numbered item that it is in; empty elsewhere.
    """

    words: str
    end: int
    numbered: str

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of its hash, by which it is known."""
        return hashlib.sha256(self.words.encode()).hexdigest()[:8]

    @property
    def row(self) -> bool:
        """Whether it is a row of a table."""
        return self.words.startswith("|")


def sentences(text: str) -> Iterator[Sentence]:
    """Every sentence of a page, from the first to the last; code, headings, heads of tables and pictures have none."""
    for start, words in _blocks(text):
        if words.startswith("|"):
            yield Sentence(words.strip(), start + len(words.rstrip()), "")
        else:
            yield from _of_block(start, words)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Where each row, item and paragraph begins, and what it says."""
    begin, end, place, code = 0, 0, 0, False
    for line in text.splitlines(keepends=True):
        fence = line.startswith("```")
        apart = fence or code or not line.strip() or line.startswith(("#", "!"))
        code ^= fence
        row = line.startswith("|")
        if (apart or row or _MARK.match(line)) and end > begin:
            yield begin, text[begin:end]
            begin = end
        if row and set(line.strip()) - set("|- :"):
            yield place, line
        if apart or row:
            begin = end = place + len(line)
        else:
            begin, end = (place if end == begin else begin), place + len(line)
        place += len(line)
    if end > begin:
        yield begin, text[begin:end]


def _of_block(start: int, words: str) -> Iterator[Sentence]:
    mark = _MARK.match(words)
    begin = mark.end() if mark else 0
    title = re.match(r"\*\*(.+?)\*\*", words[begin:], re.DOTALL)
    numbered = title[1] if title and mark and mark[0].strip()[0].isdigit() else ""
    for end in [*(found.end() for found in _END.finditer(words)), len(words.rstrip())]:
        said = " ".join(words[begin:end].split())
        if said and not _TITLE.match(said) and said.count("`") % 2 == 0:
            yield Sentence(said, start + end, numbered)
            begin = end


def shown(promise: Mapping[str, Any]) -> str:
    """What shows a promise, in words."""
    tests = [f"`{test}`" for test in promise.get("shown_by", ())]
    measured = [f"`{command}`, which measures it" for command in promise.get("measured_by", ())]
    mistakes = promise.get("finds", ())
    found = "".join(f"; a test plants the mistake that {mistake}, and finds it" for mistake in mistakes)
    return f"*Shown by* {', '.join([*tests, *measured])}{found}."


def with_evidence(text: str, promises: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]] = ()) -> str:
    """A page with what ``docs/evidence.toml`` names after each numbered promise, and after each sentence that claims.

    Raises
    ------
    ValueError
        A promise or a claim is not on the page, or more than once.
    """
    places = [(_end_of_item(text, promise["says"]), promise) for promise in promises]
    found = list(sentences(text))
    for claim in claims:
        of = [each for each in found if each.words.startswith(claim["says"])]
        if len(of) != 1:
            raise ValueError(f"{claim['says']!r} begins {len(of)} sentences")
        places.append((of[0].end - 2 if of[0].row else of[0].end, claim))
    for end, promise in sorted(places, key=lambda place: -place[0]):
        text = f"{text[:end]} {shown(promise)}{text[end:]}"
    return text


def _end_of_item(text: str, says: str) -> int:
    start = text.index(f". **{says}**")
    end = re.compile(r"\n(?=\d+\. |\n)|\Z").search(text, start)
    if end is None:
        raise ValueError(f"the promise {says!r} has no end")
    return end.start()


def unclassified() -> Iterator[str]:
    """Lines for ``docs/sentences.toml`` of what it does not know yet, with what they are left open, by page."""
    for page, known in tomllib.loads((ROOT / "docs" / "sentences.toml").read_text()).items():
        for sentence in sentences((ROOT / page).read_text()):
            if sentence.digest not in known:
                first = re.sub(r"[`*|]", "", sentence.words).split()[:8]
                yield f'{page}: {sentence.digest} = "?"  # {" ".join(first)}'


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in unclassified())
