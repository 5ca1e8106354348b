"""``[mechanism]``: how noise is shaped. The names are those of ``blockveil mechanisms``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from blockveil.pipeline.config.fields import Label, Length, Number, Section, Whole, refusal


def _aim_tag(value: Any) -> str:
    return "<importances>" if isinstance(value, dict) else "<aim>"


Aim = Annotated[
    Annotated[Literal["relative-error", "absolute-error"], Tag("<aim>")]
    | Annotated[dict[str, Length], Tag("<importances>")],
    Discriminator(_aim_tag),
]


class _Noise(Section):
    """What every mechanism declares."""

    def check_features(self, columns: tuple[str, ...]) -> None:
        """Refuse names that are not columns of the records, and columns that lack a value."""
        for key, named in self._named().items():
            wrong = sorted(set(columns) ^ set(named))
            if wrong:
                missing = wrong[0] in columns
                raise refusal(
                    f"mechanism.{key}",
                    f'"{wrong[0]}" {"has no importance" if missing else "is not a feature"}',
                    f"It names exactly the {self._what}",
                    "Add it" if missing else "Remove or rename it",
                )

    def _named(self) -> dict[str, dict[str, float]]:
        """Tables by feature, by their key."""
        return {}

    @property
    def _what(self) -> str:
        return "features of query.geometry"


class GaussianSection(_Noise):
    """Equal noise for each entry, in raw units."""

    kind: Literal["gaussian"]
    """the noise mechanism"""


class ShapedGaussianSection(_Noise):
    """Noise that follows the declared shape."""

    kind: Literal["shaped-gaussian"]
    """the noise mechanism"""
    optimise_for: Aim
    """the error to make small: "relative-error", "absolute-error", or a positive importance for each feature"""

    def _named(self) -> dict[str, dict[str, float]]:
        return {"optimise_for": self.optimise_for} if isinstance(self.optimise_for, dict) else {}


class ClassicGaussianSection(_Noise):
    """Equal noise for each entry by the classic formula, for epsilon below one; kept for comparison."""

    kind: Literal["classic-gaussian"]
    """the noise mechanism"""


class MgmSection(_Noise):
    """Equal noise for each entry by the matrix Gaussian mechanism as published; kept for comparison."""

    kind: Literal["mgm"]
    """the noise mechanism"""


class LaplaceSection(_Noise):
    """Laplace noise that follows the declared shape: a pure epsilon."""

    kind: Literal["laplace"]
    """the noise mechanism"""
    optimise_for: Aim
    """the error to make small: "relative-error", "absolute-error", or a positive importance for each feature"""

    def _named(self) -> dict[str, dict[str, float]]:
        return {"optimise_for": self.optimise_for} if isinstance(self.optimise_for, dict) else {}


class WholeLaplaceSection(_Noise):
    """Discrete Laplace noise on counts, in whole numbers: a pure epsilon."""

    kind: Literal["discrete-laplace"]
    """the noise mechanism"""


class MatrixMechanismSection(_Noise):
    """Gaussian noise on an optimised strategy for the declared workload of counts."""

    kind: Literal["matrix-mechanism"]
    """the noise mechanism"""


class HierarchicalSection(_Noise):
    """Noise on the sums of nested blocks of the grid, for the declared workload of counts."""

    kind: Literal["hierarchical"]
    """the noise mechanism"""
    noise: Literal["gaussian", "laplace"]
    """the law of the noise; Laplace gives a pure epsilon"""
    branching: Annotated[Whole, Field(ge=2, le=2**20)] | None = None
    """the blocks of the next level along each axis; the best for the workload where it is not given"""


class DawaSection(_Noise):
    """Noise on counts of buckets of cells, which are chosen privately so that their cells are alike: a pure epsilon."""

    kind: Literal["dawa"]
    """the noise mechanism"""
    partition_share: Annotated[Number, Field(ge=0.01, le=0.99)] = 0.25
    """the share of the pure epsilon that pays for choosing the buckets; the counts take the rest"""


class ImgmSection(_Noise):
    """Matrix Gaussian noise with given relative sizes, by IMGM Theorem 2."""

    kind: Literal["imgm"]
    """the noise mechanism"""
    shape: dict[str, Length] | None = None
    """the relative standard deviation of each feature's noise; equal where it is not given, which is optimal"""

    def _named(self) -> dict[str, dict[str, float]]:
        return {"shape": self.shape} if self.shape is not None else {}


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


class _Allocated(_Noise):
    """A precision budget shared between features."""

    allocation: Allocation
    """how the precision budget is shared between features, or between directions: direction1, direction2, ..."""
    directions: Annotated[str, StringConstraints(pattern=r"^.+\.npy$")] | None = None
    """the .npy file of an orthonormal d x d matrix, one public direction of noise a column"""
    directions_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of that file, 64 hexadecimal digits; filled in when it is not given"""
    directions_source: Label | None = None
    """where the directions come from: the identifier of a release that was paid for, or the public knowledge"""

    @model_validator(mode="after")
    def _sourced(self) -> _Allocated:
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
        return self

    def _named(self) -> dict[str, dict[str, float]]:
        match self.allocation:
            case SharesSection():
                return {"allocation.shares": self.allocation.shares}
            case MaxPNRSection():
                return {"allocation.signal": self.allocation.signal}
        return {}

    def check_features(self, columns: tuple[str, ...]) -> None:
        """As for others; important features are some of the columns, or of the directions."""
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


class MvgSection(_Allocated):
    """Matrix-variate Gaussian noise as published, at its exact loss."""

    kind: Literal["mvg"]
    """the noise mechanism"""
    theorem: Literal[2, 3]
    """the published theorem: 2 for any query, 3 for second moments"""
    zeta: Literal["published", "square-root"]
    """the bound in it: as printed, or its square root as in the authors' program"""


class ExactMvgSection(_Allocated):
    """Matrix-variate Gaussian noise with the exact budget of a box."""

    kind: Literal["mvg-exact"]
    """the noise mechanism"""


class SubspaceSection(Section):
    """The leading subspace."""

    kind: Literal["subspace"]
    """the error to make small"""
    leading: Annotated[Whole, Field(ge=1)]
    """the dimension of the subspace"""
    variance: dict[str, Length]
    """a public guess of the variance of each feature, in its unit squared"""


Least = Annotated[
    Annotated[Literal["total", "relative", "spectral", "workload"], Tag("<aim>")]
    | Annotated[SubspaceSection, Tag("<subspace>")]
    | Annotated[dict[str, Length], Tag("<importances>")],
    Discriminator(lambda value: _least_tag(value)),
]


def _least_tag(value: Any) -> str:
    if isinstance(value, SubspaceSection) or (isinstance(value, dict) and value.get("kind") == "subspace"):
        return "<subspace>"
    return "<importances>" if isinstance(value, dict) else "<aim>"


class AnalyzeGaussSection(_Noise):
    """Analyze Gauss as published, on second moments, at its exact loss."""

    kind: Literal["analyze-gauss"]
    """the noise mechanism"""


class ModSulqSection(_Noise):
    """MOD-SULQ as published, on second moments, at its exact loss."""

    kind: Literal["mod-sulq"]
    """the noise mechanism"""


class ExponentialSection(_Noise):
    """The exponential mechanism for principal directions: a pure epsilon."""

    kind: Literal["exponential"]
    """the noise mechanism"""


class AutoSection(_Noise):
    """The proven mechanism with the least expected error."""

    kind: Literal["auto"]
    """the noise mechanism"""
    minimise: Least
    """the error: "total", "relative", "spectral", "workload", an importance for each feature, or a leading subspace"""

    def _named(self) -> dict[str, dict[str, float]]:
        if isinstance(self.minimise, SubspaceSection):
            return {"minimise.variance": self.minimise.variance}
        return {"minimise": self.minimise} if isinstance(self.minimise, dict) else {}


Mechanism = Annotated[
    GaussianSection
    | ShapedGaussianSection
    | LaplaceSection
    | WholeLaplaceSection
    | MatrixMechanismSection
    | HierarchicalSection
    | DawaSection
    | ClassicGaussianSection
    | MgmSection
    | ImgmSection
    | MvgSection
    | ExactMvgSection
    | AnalyzeGaussSection
    | ModSulqSection
    | ExponentialSection
    | AutoSection,
    Field(discriminator="kind"),
]
