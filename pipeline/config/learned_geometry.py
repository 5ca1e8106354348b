"""Whether a shape that is learned has what it is learned for: one covariance with noise that follows its shape."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.config.fields import refusal
from blockveil.pipeline.config.mechanism_sections import MechanismSection

_INSTEAD = 'Ask for query.kind = "covariance", which releases the second moment, mean and count too; or leave learn out'


def check(query: Any, mechanism: MechanismSection, continual: object, density: float | None) -> None:
    """Refuse ``learn`` where no ellipsoid follows from it.

    Parameters
    ----------
    query, mechanism
        What is asked, and how noise is shaped.
    continual, density
        Nights that share a charge, and the bound on values other than zero; None where they are not given.
    """
    for key, shape in query.geometries.items():
        if getattr(shape, "learn", None) is None:
            continue
        weighted = isinstance(getattr(mechanism, "optimise_for", None), dict)
        reasons = {
            f'query.kind = "{query.kind}"': query.kind != "covariance",
            f'mechanism.kind = "{mechanism.kind}"': mechanism.kind != "shaped-gaussian",
            "importances by feature": weighted,
            "norm_at_most": shape.norm_at_most is not None,
            "[continual]": continual is not None,
            "compute.density_at_most": density is not None,
        }
        for what, given in reasons.items():
            if given:
                raise refusal(
                    f"query.{key}.learn",
                    f'"{shape.learn}" with {what}',
                    "The ellipsoid that is learned is that of one covariance with shaped-gaussian noise",
                    _INSTEAD if query.kind == "second-moment" else "Leave learn out, or the other",
                )
