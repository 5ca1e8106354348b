"""The mechanisms of the product, by name, and the file that declares each; a file is imported when it is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from blockveil.engine.mechanisms.declaration import MechanismDeclaration

FILES = {
    "gaussian": "gaussian",
    "shaped-gaussian": "gaussian",
    "laplace": "laplace",
    "discrete-laplace": "laplace",
    "k-norm": "k_norm.norm_noise",
    "box-diagonal": "box_diagonal",
    "shaped-diagonal": "shaped_diagonal",
    "joint-diagonal": "joint_diagonal",
    "matrix-mechanism": "counts.workload_answers",
    "hierarchical": "counts.workload_answers",
    "residuals": "counts.residuals",
    "histogram-residuals": "counts.histogram_noise",
    "dawa": "published.buckets",
    "classic-gaussian": "published.matrix_noise",
    "mgm": "published.matrix_noise",
    "imgm": "published.matrix_noise",
    "mvg": "published.mvg_noise",
    "mvg-exact": "published.mvg_noise",
    "analyze-gauss": "published.subspace_noise",
    "mod-sulq": "published.subspace_noise",
    "exponential": "directions.exponential",
    "ppca": "studied",
    "wishart": "studied",
    "johnson-lindenstrauss": "studied",
    "r1smg": "studied",
}
"""Module below this package of each mechanism, in the order in which they are listed."""


def declared(name: str) -> MechanismDeclaration | None:
    """Declaration of a name; None where it is not one of ours."""
    if name not in FILES:
        return None
    declarations: tuple[MechanismDeclaration, ...] = import_module(f"{__package__}.{FILES[name]}").DECLARED
    return next(each for each in declarations if each.name == name)


@cache
def declarations() -> tuple[MechanismDeclaration, ...]:
    """All of ours, in order."""
    return tuple(each for each in map(declared, FILES) if each is not None)
