"""``[mechanism]``: how noise is shaped. The names are those of ``blockveil mechanisms``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from pipeline.config.fields import Length, Section, refusal


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
                    "It names exactly the features of query.geometry",
                    "Add it" if missing else "Remove or rename it",
                )

    def _named(self) -> dict[str, dict[str, float]]:
        """Tables by feature, by their key."""
        return {}


class Gaussian(_Noise):
    """Equal noise for each entry, in raw units."""

    kind: Literal["gaussian"]
    """the noise mechanism"""


class ShapedGaussian(_Noise):
    """Noise that follows the declared shape."""

    kind: Literal["shaped-gaussian"]
    """the noise mechanism"""
    optimise_for: Aim
    """the error to make small: "relative-error", "absolute-error", or a positive importance for each feature"""

    def _named(self) -> dict[str, dict[str, float]]:
        return {"optimise_for": self.optimise_for} if isinstance(self.optimise_for, dict) else {}


Mechanism = Annotated[Gaussian | ShapedGaussian, Field(discriminator="kind")]
