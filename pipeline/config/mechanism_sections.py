"""``[mechanism]``: how noise is shaped. Each kind follows from what the file of its mechanism declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import Discriminator, Field, StringConstraints, Tag, create_model

from blockveil.engine.mechanisms.declaration import (
    IntegerBetween,
    MechanismDeclaration,
    OneOf,
    Parameter,
    PerFeature,
    PrecisionShares,
    RealBetween,
    Values,
)
from blockveil.engine.mechanisms.registry import declarations
from blockveil.pipeline.sections.fields import Label, Length, Number, Section, Whole, refusal, rule


def _aim_tag(value: Any) -> str:
    return "<importances>" if isinstance(value, dict) else "<aim>"


Aim = Annotated[
    Annotated[Literal["relative-error", "absolute-error"], Tag("<aim>")]
    | Annotated[dict[str, Length], Tag("<importances>")],
    Discriminator(_aim_tag),
]


class MechanismSection(Section):
    """What every mechanism declares."""

    declaration: ClassVar[MechanismDeclaration | None] = None
    """What the mechanism's file declares; None for ``auto``."""

    if TYPE_CHECKING:
        kind: str  # each kind declares its own

    def check_features(self, columns: tuple[str, ...]) -> None:
        """Refuse names that are not columns of the records, and columns that lack a value."""
        for key, names in self._named().items():
            mismatch = sorted(set(columns) ^ set(names))
            if mismatch:
                missing = mismatch[0] in columns
                raise refusal(
                    f"mechanism.{key}",
                    f'"{mismatch[0]}" {"has no importance" if missing else "is not a feature"}',
                    f"It names exactly the {self._what}",
                    "Add it" if missing else "Remove or rename it",
                )

    def _named(self) -> dict[str, dict[str, float]]:
        """Tables by feature, by their key."""
        return {key: value for key, value in self if isinstance(value, dict)}

    @property
    def _what(self) -> str:
        return "features of query.geometry"


class Uniform(Section):
    """Equal shares."""

    kind: Literal["uniform"]
    """how the budget is shared"""


class Binary(Section):
    """A share to the important features, the rest to the others."""

    kind: Literal["binary"]
    """how the budget is shared"""
    important: Annotated[tuple[Label, ...], Field(min_length=1)]
    """the names of the important features: some and not all"""
    share: Annotated[Number, Field(gt=0, lt=1)]
    """the share that they get together"""


class SharesSection(Section):
    """Shares by hand."""

    kind: Literal["shares"]
    """how the budget is shared"""
    shares: dict[str, Length]
    """the relative share of each feature"""


class MaxPNRSection(Section):
    """The best power-to-noise ratio, by water-filling."""

    kind: Literal["max-pnr"]
    """how the budget is shared"""
    signal: dict[str, Length]
    """the public signal variance of each feature, relative to its squared half width"""


Allocation = Annotated[Uniform | Binary | SharesSection | MaxPNRSection, Field(discriminator="kind")]


class AllocatedSection(MechanismSection):
    """A precision budget shared between features."""

    allocation: Allocation
    """how the precision budget is shared between features, or between directions: direction1, direction2, ..."""
    directions: Annotated[str, StringConstraints(pattern=r"^.+\.npy$")] | None = None
    """the .npy file of an orthonormal d x d matrix, one public direction of noise a column"""
    directions_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of that file, 64 hexadecimal digits; filled in when it is not given"""
    directions_source: Label | None = None
    """the source of the directions: public knowledge, or the identifier of a charged release"""

    @rule
    def _sourced(self) -> None:
        if self.directions is None:
            extra = next((key for key in ("directions_sha256", "directions_source") if getattr(self, key)), None)
            if extra is not None:
                raise refusal(extra, "given without directions", "It describes a matrix of directions", "Remove it")
        elif self.directions_source is None:
            raise refusal(
                "directions_source",
                "not given",
                "Directions are public or come from a release that was paid for, and the plan says which",
                'State it, such as "people/covariance/2026-11-21"',
            )

    def _named(self) -> dict[str, dict[str, float]]:
        match self.allocation:
            case SharesSection():
                return {"allocation.shares": self.allocation.shares}
            case MaxPNRSection():
                return {"allocation.signal": self.allocation.signal}
        return {}

    def check_features(self, columns: tuple[str, ...]) -> None:
        """Refuse names that are not there; important features are some of the columns, or of the directions."""
        columns = self.names(columns)
        super().check_features(columns)
        unknown = sorted(set(self.allocation.important) - set(columns)) if isinstance(self.allocation, Binary) else []
        if unknown:
            raise refusal(
                "mechanism.allocation.important",
                f'"{unknown[0]}" is not a feature',
                f"It names {self._what}",
                "Remove or rename it",
            )

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """What an allocation names: the columns, or as many directions."""
        return columns if self.directions is None else tuple(f"direction{i}" for i, _ in enumerate(columns, 1))

    @property
    def _what(self) -> str:
        return "features of query.geometry" if self.directions is None else "direction1, direction2, ..."


class SubspaceSection(Section):
    """The leading subspace."""

    kind: Literal["subspace"]
    """the error to make small"""
    dimension: Annotated[Whole, Field(ge=1)]
    """the dimension of the subspace"""
    variance: dict[str, Length]
    """a public guess of the variance of each feature, in its unit squared"""


Least = Annotated[
    Annotated[Literal["total", "relative", "psd", "spectral", "workload"], Tag("<aim>")]
    | Annotated[SubspaceSection, Tag("<subspace>")]
    | Annotated[dict[str, Length], Tag("<importances>")],
    Discriminator(lambda value: _least_tag(value)),
]


def _least_tag(value: Any) -> str:
    if isinstance(value, SubspaceSection) or (isinstance(value, dict) and value.get("kind") == "subspace"):
        return "<subspace>"
    return "<importances>" if isinstance(value, dict) else "<aim>"


class AutoSection(MechanismSection):
    """The proven mechanism with the least expected error."""

    kind: Literal["auto"]
    """the noise mechanism"""
    minimise: Least
    """the error: "total", "relative", "psd", "spectral", "workload", importances, or a leading subspace"""

    def _named(self) -> dict[str, dict[str, float]]:
        if isinstance(self.minimise, SubspaceSection):
            return {"minimise.variance": self.minimise.variance}
        return {"minimise": self.minimise} if isinstance(self.minimise, dict) else {}


def section_of(declaration: MechanismDeclaration) -> type[MechanismSection]:
    """The ``[mechanism]`` of one kind, from what the mechanism's file declares."""
    section = _section(declaration)
    section.declaration = declaration
    return section


def _section(declaration: MechanismDeclaration) -> type[MechanismSection]:
    has_shares = any(isinstance(parameter.values, PrecisionShares) for parameter in declaration.parameters)
    fields: dict[str, Any] = {"kind": (_literal(declaration.name), Field(description="the noise mechanism"))}
    for parameter in declaration.parameters:
        if not isinstance(parameter.values, PrecisionShares):
            fields[parameter.key] = _field(parameter)
    name = "" if declaration.mechanism is None else declaration.mechanism.__name__
    base = AllocatedSection if has_shares else MechanismSection
    return create_model(
        f"{name}Section",
        __base__=base,
        __doc__=declaration.form,
        __module__=__name__,
        **fields,
    )


def _field(parameter: Parameter) -> tuple[Any, Any]:
    kind = _type(parameter.values)
    if parameter.required:
        return kind, Field(description=parameter.meaning)
    optional = kind | None if parameter.default is None else kind
    return optional, Field(default=parameter.default, description=parameter.meaning)


def _type(values: Values) -> Any:
    match values:
        case OneOf(options):
            return _literal(*options)
        case IntegerBetween(least, most):
            return Annotated[Whole, Field(ge=least, le=most)]
        case RealBetween(least, most):
            return Annotated[Number, Field(ge=least, le=most)]
        case PerFeature():
            return dict[str, Length]
    return Aim


def _literal(*options: str | int) -> Any:
    return Literal.__getitem__(options)  # as Literal[...] of what is not known here


_SECTIONS = tuple(section_of(each) for each in declarations() if each.mechanism is not None)

if TYPE_CHECKING:
    Mechanism = MechanismSection
else:
    Mechanism = Annotated[Union[*_SECTIONS, AutoSection], Field(discriminator="kind")]
