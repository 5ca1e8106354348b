"""The error of a release before and after post-processing, and of its leading subspaces, as tables and a sentence."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.base.written_numbers import number

Error = dict[str, Any]
"""What a release says of its error; a kind of release that has less says less."""

_SIZES = {
    "entry": "entry, root mean square",
    "largest": "largest entry, 95 of 100 releases",
    "spectral": "spectral norm, 95 of 100 releases",
    "frobenius": "Frobenius norm, 95 of 100 releases",
}


def sentence(error: Error) -> list[tuple[str, str]]:
    """What post-processing does to the error, in one line; nothing where it was not simulated."""
    simulation = error.get("simulated")
    if not simulation:
        return []
    before, after = simulation["raw"]["entry"], simulation["post_processed"]["entry"]
    share = f"{after / before:.2f} of the error of an entry" if before else "no error either way"
    return [
        (
            "After post-processing",
            f"{share} is left in {error['post_processed'].replace('_', ' ')} "
            f"({error['post_processing']}); simulated on {simulation['matrix']}",
        )
    ]


def sizes(error: Error) -> list[dict[str, str]]:
    """Error before and after post-processing: proven bounds beside simulation; empty where there is none."""
    if "post_processing" not in error:
        return []
    simulation = error.get("simulated", {})
    noisy, after = simulation.get("raw", {}), simulation.get("post_processed", {})
    # What was bounded beforehand is the noise of the second moment, which a covariance follows from.
    same = error["array"] == error["post_processed"].removesuffix("_psd").removesuffix("_integer")
    bounds = {
        "spectral": (error["spectral_norm_bound"] if same else None, None),
        "frobenius": (
            error["frobenius_norm_bound"] if same else None,
            error.get("post_processed_frobenius_norm_bound"),
        ),
    }
    rows = []
    for name, what in _SIZES.items():
        bound, bound_after = bounds.get(name, (None, None))
        values = (bound, noisy.get(name), bound_after, after.get(name))
        if any(value is not None for value in values):
            columns = ("noisy, at most", "noisy, simulated", "after, at most", "after, simulated")
            rows.append({"what": what, **dict(zip(columns, map(_shown, values), strict=True))})
    # Of a covariance nothing was bounded beforehand, and a column of nothing says nothing.
    return [{name: text for name, text in row.items() if any(each[name] for each in rows)} for row in rows]


def explanation(error: Error) -> str:
    """What the columns mean."""
    text = f"After: {error['post_processing']}, in the array {error['post_processed']}. "
    if "simulated" not in error:
        return text + "The matrix is too large to simulate."
    return text + (
        f"Simulated: {error['simulated']['draws']} releases on {error['simulated']['matrix']}; "
        "an estimate, not a bound."
    )


def subspaces(error: Error) -> list[dict[str, str]]:
    """Squared sine distance of leading subspaces from the truth's, of at most their dimension."""
    subspace = error.get("subspace", {"leading": []})
    return [
        {
            "leading directions": str(row["dimensions"]),
            f"at most, 95 of 100 releases ({subspace['bound_by']})": number(row["squared_sine_bound"]),
            "expected, simulated": number(row["squared_sine_simulated"]),
        }
        for row in subspace["leading"]
    ]


def _shown(value: float | None) -> str:
    return "" if value is None else number(value)
