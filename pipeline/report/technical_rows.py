"""What an engineer checks of a release: its guarantee in numbers, its noise, and where it comes from."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.report import bounds_source, learned_shape
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.words import origin


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
        *bounds_source.source_rows(learned_shape.asked(facts.attributes)),
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
