"""A mistake for a test that guards a promise: planted into the product, it must make the test fail."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import itertools
import keyword
import textwrap
import tokenize
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the test that finds it.

    Attributes
    ----------
    test
        The test, as pytest names it.
    where
        Module and function, such as ``blockveil.pipeline.releases.keys:KeyStore._wipe``, or a number that it has.
    old, new
        Text that stands exactly once in the source of that, and what takes its place. Local variables of the function
        may have other names by now: layout and their names are not compared.
    among
        Words that choose among the parameters of the test, all of which a case has in its name; empty for all.
    run
        Where an inherited test is run, as pytest names it; empty where it is run under its own name.
    """

    test: str
    where: str
    old: str
    new: str
    among: tuple[str, ...] = ()
    run: str = ""

    def runs(self, name: str) -> bool:
        """Whether a case of a test, as pytest names it, is one that this mistake is for."""
        test, _, parameters = name.partition("[")
        return test == (self.run or self.test) and all(word in parameters for word in self.among)

    def source(self) -> tuple[Any, str]:
        """The function, or the module of a number, and the source of it with the mistake.

        Raises
        ------
        LookupError
            The text is no longer there, exactly once.
        """
        name, _, path = self.where.partition(":")
        module = found = importlib.import_module(name)
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
        if isinstance(found, int | float | str):
            return module, self.changed(_assigned(module, path), set())
        # Of a property, a cached one, or a method of a class or of none.
        inner = (getattr(found, part, None) for part in ("fget", "func", "__func__"))
        function = inspect.unwrap(next(filter(None, inner), found))
        return function, self.changed(textwrap.dedent(inspect.getsource(function)), set(_locals(function.__code__)))

    def changed(self, text: str, local: set[str]) -> str:
        """A source with the mistake, in which local variables may have been renamed.

        Raises
        ------
        LookupError
            The text is not in it, or more than once.
        """
        places = list(_matches(self.old, text, local))
        if exact := [place for place in places if all(old == now for old, now in place.names.items())]:
            places = exact
        if len(places) != 1:
            raise LookupError(f"{self.where} has {len(places)} times {self.old!r}")
        (place,) = places
        return text[: place.start] + place.renamed(self.new) + text[place.end :]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product with the mistake, for the time of a block."""
        place, text = self.source()
        if inspect.ismodule(place):
            name = self.where.partition(":")[2]
            whole = getattr(place, name)
            setattr(place, name, eval(text, vars(place)))  # our own source
        else:
            whole, place.__code__ = place.__code__, self._compiled(place, text)
        try:
            yield
        finally:
            if inspect.ismodule(place):
                setattr(place, name, whole)
            else:
                place.__code__ = whole

    def _compiled(self, function: Any, text: str) -> Any:
        lines, space = text.splitlines(keepends=True), dict[str, Any]()
        # Without its decorators.
        start = next(number for number, line in enumerate(lines) if line.startswith(("def ", "async def ")))
        code = compile("".join(["from __future__ import annotations\n", *lines[start:]]), f"<{self.where}>", "exec")
        exec(code, function.__globals__, space)  # our own source
        return space[function.__name__].__code__


@dataclass(frozen=True)
class _Place:
    """Where a text stands in another one, and how local variables of it are called there."""

    start: int
    end: int
    names: dict[str, str]

    def renamed(self, text: str) -> str:
        """Another text with the local variables of this place."""
        for token in reversed(_tokens(text)):
            start, end, word = token
            text = text[:start] + self.names.get(word, word) + text[end:]
        return text


def _matches(wanted: str, text: str, local: set[str]) -> Iterator[_Place]:
    """All places where a text stands in a function, its local variables perhaps under other names."""
    pattern, found = _tokens(wanted), _tokens(text)
    for first in range(len(found) - len(pattern) + 1):
        part, names = found[first : first + len(pattern)], dict[str, str]()
        pairs = [(old, now) for (_, _, old), (_, _, now) in zip(pattern, part, strict=True)]
        for old, now in pairs:
            renamed = old.isidentifier() and now in local and not keyword.iskeyword(old)
            if names.setdefault(old, now) != now or (old != now and not renamed):
                break
        else:
            if len(set(names.values())) == len(names):
                yield _Place(part[0][0], part[-1][1], names)


def _tokens(text: str) -> list[tuple[int, int, str]]:
    """Where each word or sign of a text begins and ends, and itself; blanks, line ends and comments are none."""
    begins = [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]
    found, none = [], (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in none and token.string:
                start, end = (begins[line - 1] + column for line, column in (token.start, token.end))
                found.append((start, end, token.string))
    except tokenize.TokenError:  # a part of an expression, which ends within brackets
        pass
    return found


def _locals(code: types.CodeType) -> Iterator[str]:
    """Names of the local variables of a function, and of those within it."""
    yield from (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _locals(inner)


def _assigned(module: Any, name: str) -> str:
    """What a module assigns to a name, as it is written."""
    text = inspect.getsource(module)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.get_source_segment(text, node.value) or ""
    raise LookupError(f"{module.__name__} assigns nothing to {name} alone")


def of(path: str, *found: tuple[str, str, str, str] | tuple[str, str, str, str, tuple[str, ...]]) -> tuple[Mutant, ...]:
    """Mistakes for tests of one file: name of the test, and the rest of what makes a mistake."""
    return tuple(Mutant(f"{path}::{name}", *rest) for name, *rest in found)
