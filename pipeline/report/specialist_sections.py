"""What a specialist checks of a release: its guarantee in numbers, its noise, and where it comes from."""

from __future__ import annotations

import json
from typing import Any

from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.report import after, evaluation, learned_shape
from blockveil.pipeline.report import facts as findings
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.number_sources import PLAN, Sources
from blockveil.pipeline.report.report_sections import ReportSection
from blockveil.pipeline.report.words import origin, source_rows


def specialist_sections(facts: Facts, folder: str, sources: Sources) -> list[ReportSection]:
    """What a specialist checks, each part folded.

    Parameters
    ----------
    facts
        The release.
    folder
        Name of its folder, for the loading examples.
    sources
        Where numbers come from.
    """
    noise = sources.lines([*findings.error_lines(facts), *findings.spectrum_lines(facts)])
    examples = [ReportSection(sentences=[name], code=code) for name, code in _loading(facts, folder)]
    levels = [each._asdict() for each in evaluation.answers(facts)]
    whole = [
        ReportSection(
            title="Guarantee",
            key="guarantee-in-numbers",
            lines=sources.lines(guarantee_rows(facts)),
            folded=True,
        ),
        ReportSection(title="Noise and signal", lines=noise, folded=True),
        *_after(facts.attributes.get("error") or {}),
        *_compared(facts),
        ReportSection(
            title="Evaluation by the levels of NIST SP 800-226",
            table=levels,
            folded=True,
        ),
        ReportSection(
            title="Origin of this release", key="origin", lines=sources.lines(origin_rows(facts)), folded=True
        ),
        ReportSection(
            title="How to load it",
            within=examples,
            source=f"release_id, {facts.kind}",
            decided_by=PLAN,
            folded=True,
        ),
    ]
    return [ReportSection(title="For the specialist", within=whole)]


def _after(error: after.Error) -> list[ReportSection]:
    """Error before and after post-processing, and of leading subspaces, where the release tells."""
    sizes, subspaces = after.sizes(error), after.subspaces(error)
    if not sizes:
        return []
    of = error.get("subspace", {}).get("matrix", "")
    lost = f"Squared sine distance of leading subspaces from the truth, at most their dimension; of the {of}."
    return [
        ReportSection(
            title="Error before and after post-processing",
            sentences=[after.explanation(error)],
            table=sizes,
            within=[ReportSection(sentences=[lost], table=subspaces)] if subspaces else [],
            source="error",
            decided_by=PLAN,
            folded=True,
        )
    ]


def _compared(facts: Facts) -> list[ReportSection]:
    """Why this mechanism was chosen, where it was chosen automatically."""
    rows, source = findings.comparison_rows(facts), "mechanism.compared, mechanism.least_error"
    return (
        [ReportSection(title="Mechanisms compared", table=rows, source=source, decided_by=PLAN, folded=True)]
        if rows
        else []
    )


def guarantee_rows(facts: Facts) -> list[tuple[str, str]]:
    """What an engineer checks."""
    promise, noise = facts.attributes["guarantee"], facts.attributes["mechanism"]
    loss = promise["loss"]
    parts = [f"mu {loss['mu']:.8g}"] if loss["mu"] else []
    parts += [f"pure epsilon {loss['epsilon']:.8g}"] if loss["epsilon"] else []
    failure = f", failure {loss['failure']:.2g}" if loss.get("failure") else ""
    return [
        ("Guarantee", f"epsilon {promise['epsilon']:g} at delta {promise['delta']:g}"),
        ("Loss charged", f"{' and '.join(parts)}, sampler within {loss['total_variation']:.2g} of it{failure}"),
        ("Neighbours", str(promise["neighbours"])),
        *_unit_rows(promise),
        ("Mechanism", str(noise["mechanism"])),
        *source_rows(learned_shape.asked(facts.attributes)),
        *(("Unvetted", origin(each)) for each in facts.attributes.get("unvetted", [])),
        *_noise_rows(noise),
    ]


def _unit_rows(promise: dict[str, Any]) -> list[tuple[str, str]]:
    unit = Contribution.read(promise)
    rows = [("Privacy unit", unit.unit)]
    if unit.rule in ("unknown", "declared"):  # nobody has bounded them
        return [*rows, ("Rows of a unit", unit.sentence)]
    of = f"at most {unit.rows} in the store; the noise is for {unit.charged_rows}"
    return [*rows, ("Rows of a unit", f"{of}. {unit.sentence}")]


def _noise_rows(noise: dict[str, Any]) -> list[tuple[str, str]]:
    if "concentration" in noise:
        return [
            (
                "Law",
                f"density exp({noise['concentration']:.8g} v'Av) over unit vectors v, in steps of {noise['step']:.3g}",
            ),
            ("Deviation shown", "that of an entry of a direction where records say nothing; no noise is added"),
        ]
    if "steps" in noise:
        steps = [
            (step["step"].capitalize(), f"pure epsilon {step['loss']:.8g}; {step['noise']}") for step in noise["steps"]
        ]
        return [*steps, ("Deviation shown", f"that of the noise; {noise['not_in_standard_deviations']}")]
    exact = "exact" if noise["sensitivity_exact"] else "upper bound"
    return [
        ("Sensitivity", f"{noise['sensitivity']:.8g} in spread coordinates ({exact})"),
        ("Noise", f"scale {noise['scale']:.8g} there, on a grid of {noise['grid']}"),
    ]


def origin_rows(facts: Facts) -> list[tuple[str, str]]:
    """Where the release comes from."""
    a = facts.attributes
    software = ", ".join(f"{name} {version}" for name, version in sorted(a["software"].items()))
    return [
        ("Release", a["release_id"]),
        ("Content (SHA-256)", a["output_digest"]),
        ("Plan (SHA-256)", a["plan_digest"]),
        ("Ledger", f"entry {a['ledger']['sequence']}, hash {a['ledger']['row_hash']}"),
        ("Software", software),
    ]


def _loading(facts: Facts, folder: str) -> list[tuple[str, str]]:
    """Language or library, and the lines that load the matrix of a release in a folder."""
    kind, path = json.dumps(facts.kind), json.dumps(folder)
    names = "index=group['feature'][...], columns=group['feature'][...]" if facts.matrix.symmetric else ""
    return [
        ("NumPy", f'import zarr\nmatrix = zarr.open_group({path}, mode="r")[{kind}][...]'),
        ("xarray", f"import xarray\nmatrix = xarray.open_zarr({path}, consolidated=False)[{kind}]"),
        (
            "pandas",
            f'import pandas, zarr\ngroup = zarr.open_group({path}, mode="r")\n'
            f"table = pandas.DataFrame(group[{kind}][...]{', ' if names else ''}{names})",
        ),
        (
            "Dask, where the matrix is larger than memory",
            f"import dask.array\nblocks = dask.array.from_zarr({path}, component={kind})",
        ),
        (
            "R, with the package zarr from CRAN",
            f'library(zarr)\nmatrix <- open_zarr({path})[["/{facts.kind}"]][]',
        ),
    ]
