"""A mistake for a test that guards a promise: planted into the product, it must make the test fail."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
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
        Text that stands exactly once in the source of that, and what takes its place.
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
            return module, self._changed(_assigned(module, path))
        # Of a property, a cached one, or a method of a class or of none.
        inner = (getattr(found, part, None) for part in ("fget", "func", "__func__"))
        function = inspect.unwrap(next(filter(None, inner), found))
        return function, self._changed(textwrap.dedent(inspect.getsource(function)))

    def _changed(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise LookupError(f"{self.where} has {text.count(self.old)} times {self.old!r}")
        return text.replace(self.old, self.new)

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
