"""On which line of a TOML text each key stands, for messages; the text has been parsed before."""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path as File

Path = tuple[int | str, ...]
"""Keys and positions in lists, from the top of a file."""

_BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")


class LineNumbers:
    """Lines of the keys and list entries of a TOML text that is known to be valid."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [newline.start() for newline in re.finditer("\n", text)]
        self._lines: dict[Path, int] = {}
        self._last: dict[Path, int] = {}
        self._read()

    def line_of(self, path: Path) -> int | None:
        """Line, from 1, of the nearest place on the way to a path that the text has; None where it has none of it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None

    def _read(self) -> None:
        table: Path = ()
        while self._skip() < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)

    def _skip(self) -> int:
        """Leave out blanks, comments and commas."""
        self._at = self._match(_BLANK).end()
        return self._at

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("not TOML")
        return match

    def _note(self, path: Path, at: int) -> None:
        self._lines.setdefault(path, bisect_right(self._ends, at - 1) + 1)

    def _keys(self) -> tuple[str, ...]:
        """Parts of a dotted key."""
        parts: list[str] = []
        more = "."
        while more:
            match = self._match(_KEY)
            parts.append(next(part for part in match.groups()[:3] if part is not None))
            self._at, more = match.end(), match[4]
        return tuple(parts)

    def _header(self) -> Path:
        """Read ``[table]`` or ``[[table]]``; its path."""
        start, several = self._at, self._text.startswith("[[", self._at)
        self._at += 2 if several else 1
        *parents, last = self._keys()
        path: Path = ()
        for key in parents:
            path = self._entered((*path, key))
        path = (*path, last)
        self._note(path, start)
        if several:
            self._last[path] = self._last.get(path, -1) + 1
        path = self._entered(path)
        self._note(path, start)
        self._at = self._text.index("]]" if several else "]", self._at) + (2 if several else 1)
        return path

    def _entered(self, path: Path) -> Path:
        """The last entry of a list of tables; the path itself elsewhere."""
        return (*path, self._last[path]) if path in self._last else path

    def _pair(self, table: Path) -> None:
        start, path = self._at, table
        for key in self._keys():
            path = (*path, key)
            self._note(path, start)
        self._at = self._text.index("=", self._at) + 1
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip()
        self._note(path, self._at)
        if self._text.startswith(("[", "{"), self._at):
            self._several(path, self._text[self._at] == "[")
        elif self._text.startswith(("'", '"'), self._at):
            self._at = self._match(_TEXT).end()
        else:
            self._at = self._match(_PLAIN).end()

    def _several(self, path: Path, listed: bool) -> None:
        """Read a list or an inline table."""
        self._at, position = self._at + 1, 0
        self._skip()
        while self._at < len(self._text) and not self._text.startswith(("]", "}"), self._at):
            if listed:
                self._value((*path, position))
                position += 1
            else:
                self._pair(path)
            self._skip()
        self._at += 1


def lines_of(file: File) -> LineNumbers | None:
    """Lines of a file; None where it has become unreadable or another since it was parsed."""
    with suppress(OSError, ValueError, RecursionError):
        return LineNumbers(file.read_text("utf-8"))
    return None
