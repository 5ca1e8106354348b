"""What a mechanism's file declares beside its class: catalogue entry, parameters, audit, and what auto tries.

Everything else that knows mechanisms by name follows from these declarations: the catalogue, the comparison of
``auto``, the cases of an audit, the ``[mechanism]`` section of a config with its refusals, and the forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.engine.estimates.bands import Tails
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.contract import Importance, Mechanism, Status
from blockveil.engine.sensitivity.problems import Problem

BOTH = (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """One mechanism of the catalogue.

    Attributes
    ----------
    name
        As a config or ``blockveil study mechanisms`` names it.
    title
        In words.
    status
        How far the published claim can be trusted.
    source
        Paper and theorem.
    theorem
        What it says, or what a false claim says, in one sentence.
    relations
        Neighbouring relations that it serves; queries follow from what its design asks of a problem.
    needs
        What must be known and public.
    loss
        What the ledger books.
    error
        Expected squared error in the symbols of the source.
    finding
        What checking the published guarantee found.
    use
        "release" (a config may name it), "study" (drawn on public data, labelled) or "library" (for programs).
    """

    name: str
    title: str
    status: Status
    source: str
    relations: tuple[Neighbours, ...]
    needs: str
    loss: str
    error: str
    finding: str
    use: str
    theorem: str = ""


@dataclass(frozen=True)
class OneOf:
    """One of a few words or whole numbers."""

    options: tuple[str | int, ...]


@dataclass(frozen=True)
class IntegerBetween:
    """A whole number from ``least`` to ``most``."""

    least: int
    most: int


@dataclass(frozen=True)
class RealBetween:
    """A finite number from ``least`` to ``most``."""

    least: float
    most: float


@dataclass(frozen=True)
class PerFeature:
    """A positive number for each feature; passed as two tuples, by row and by column of the answer."""


@dataclass(frozen=True)
class ErrorAim:
    """The error to make small: absolute, relative, or weighted by feature; passed as :class:`.contract.Importance`."""


@dataclass(frozen=True)
class PrecisionShares:
    """Shares of a precision budget by feature or by public direction.

    Passed as :class:`.mvg_noise.Allocation`; a config gives it four keys, ``allocation`` and ``directions`` among
    them.
    """


AIM_MEANING = 'the error to make small: "relative-error", "absolute-error", or a positive importance for each feature'
"""What an :class:`ErrorAim` means, for forms and refusals."""

Values = OneOf | IntegerBetween | RealBetween | PerFeature | ErrorAim | PrecisionShares


@dataclass(frozen=True)
class Parameter:
    """One key of ``[mechanism]``.

    Attributes
    ----------
    key
        Its name, and that of the argument.
    values
        What may be given.
    meaning
        What it is, as forms and refusals say it.
    required
        Whether a config must give it.
    default
        The value where a config does not give it; None where the mechanism chooses.
    """

    key: str
    values: Values
    meaning: str
    required: bool = True
    default: float | str | None = None


@dataclass(frozen=True, kw_only=True)
class MechanismDeclaration:
    """All that the product needs to know of one mechanism.

    Attributes
    ----------
    entry
        What the catalogue says.
    mechanism
        The class; None where no config can name it.
    form
        What a form says of it, one sentence.
    parameters
        Keys of ``[mechanism]`` besides ``kind``.
    build
        The mechanism from its parameters by their keys; the class itself where they are its arguments.
    tried
        What ``auto`` compares, for an error that is to be small; nothing where the expected error depends on records.
    tried_for
        Whether ``auto`` compares it for a problem; for all problems where nothing is said. A plan holds the table of
        the comparison, so a mechanism that is new and for few problems leaves the tables, and the digests, of the
        others as they were.
    audited
        For independent additive noise: the mechanism with parameters that suit every problem, and further ones.
    audited_along_directions
        With noise of different sizes along directions other than the features; None where it has none.
    tails
        Law of the noise of one entry, from the public name of the grid, where entries get theirs together; None where
        each has noise of its own.
    audit_cases
        For another law: "module:function" of the cases, called with the guarantee and the mutant.
    """

    entry: CatalogueEntry
    mechanism: type[Any] | None = None
    form: str = ""
    parameters: tuple[Parameter, ...] = ()
    build: Callable[..., Any] | None = None
    tried: Callable[[Importance], Sequence[Any]] = lambda _: ()
    tried_for: Callable[[Problem], bool] = lambda _: True
    audited: tuple[Mechanism, ...] = ()
    audited_along_directions: Mechanism | None = None
    tails: Callable[[str], Tails] | None = None
    audit_cases: str = ""

    @property
    def name(self) -> str:
        """The name that a config uses."""
        return self.entry.name

    def built(self, **arguments: Any) -> Any:
        """The mechanism with these parameters; a TypeError where a config cannot name it."""
        make = self.build or self.mechanism
        if make is None:
            raise TypeError(f"{self.name} is not released; a config names another mechanism")
        return make(**arguments)
