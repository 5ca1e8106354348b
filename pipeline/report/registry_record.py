"""A deployment as a record of the OpenDP deployments registry: from plan, ledger, newest release, and its curator.

What the product knows it says itself, from public facts alone; what only the curator knows comes from the disclosure.
Tier 3 has no blanks: what is missing is named, and nothing is written.

**Source**: the registry's schema (opendp/deployments-registry-data, July 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from typing import Any

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms import catalogue
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.disclosure_file import Disclosure
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import BudgetStatus, Entry, Ledger, State
from blockveil.pipeline.ledger.entries import WITHDRAWN
from blockveil.pipeline.plan import promise
from blockveil.pipeline.plan.planning import Plan, plan_near

Tree = dict[str, Any]

_LEARNED = "Machine learning model"
_OWN: dict[str, str] = {
    "basic.data_curators": "curators",
    "basic.intended_use": "intended_use",
    "basic.data_product_region": "region",
    "basic.description": "description",
    "basic.publication_date": "first_published",
    "dp_variant.data_domain": "population",
    "deployment_model.actors": "actors",
    "deployment_model.data_source_type": "records_change",
    "implementation.preprocessing_and_hyperparameter_tuning": "exploration",
    "implementation.justification": "justification",
    "administrative.registry_authors": "authors",
}
"""Places of a record that a curator fills, and the keys of the disclosure for them."""

_ALWAYS = ("basic.", "administrative.")
"""Sections whose blanks the registry refuses in every tier."""

_FROM_TIER = {"dp_variant": 2, "privacy_loss": 2, "deployment_model": 2, "accounting": 3, "implementation": 3}


@dataclass(frozen=True)
class DisclosedDeployment:
    """What is known of a deployment without its curator.

    Attributes
    ----------
    plan
        Its plan, for a date near the present.
    budget
        What pays; None where nothing is granted.
    published
        Days on which releases of it were sealed, in order; withdrawn ones left out.
    newest
        Attributes of its newest release that can be read; empty where there is none.
    """

    plan: Plan
    budget: BudgetStatus | None
    published: tuple[date, ...]
    newest: Mapping[str, Any]

    @classmethod
    def of(cls, loaded: LoadedConfig, today: date) -> DisclosedDeployment:
        """Look at a config, its ledger and its newest release; reads no records.

        Raises BlockveilError where the config cannot be planned, or the ledger cannot be read.
        """
        plan, ledger, release = plan_near(loaded, today), Ledger(loaded.ledger_url), loaded.config.release
        if not ledger.exists() or release.account not in ledger.datasets():
            return cls(plan, None, (), {})
        entries = _sealed(ledger.history(release.account), f"{release.dataset}/{release.name}")
        days = sorted(date.fromisoformat(entry.time[:10]) for entry in entries.values())
        return cls(plan, ledger.budget(release.account), tuple(days), _newest(loaded, entries))


def _sealed(history: list[Entry], owner: str) -> dict[str, Entry]:
    """RELEASED entries of a release by their dates, without those that were withdrawn."""
    entries: dict[str, Entry] = {}
    for entry in history:
        name, _, night = (entry.release_id or "").rpartition("/")
        if name == owner and entry.kind == State.RELEASED:
            entries[night] = entry
        elif name == owner and entry.kind == WITHDRAWN:
            entries.pop(night, None)
    return entries


def _newest(loaded: LoadedConfig, sealed: Mapping[str, Entry]) -> Mapping[str, Any]:
    folder = loaded.output_root / loaded.config.release.dataset / loaded.config.release.name
    for night in sorted(sealed, reverse=True):
        try:
            return open_release(folder / f"{night}.json").attributes
        except BlockveilError:
            continue
    return {}


def record(found: DisclosedDeployment, disclosure: Disclosure, digest: str, tier: int) -> tuple[Tree, list[str]]:
    """Return the record as plain values, and the keys of the disclosure that tier 3 would still need.

    Raises ConfigError where something is missing that the tier, or the registry in any tier, asks for.

    Parameters
    ----------
    found
        What is known without the curator.
    disclosure
        What the curator says.
    digest
        SHA-256 of the curator's file, which the record names.
    tier
        1, 2 or 3: how much the record holds. Blanks are left out below tier 3.
    """
    release = found.plan.config.release
    sections = {
        "basic": _basic(found, disclosure),
        "dp_variant": _variant(found, disclosure),
        "privacy_loss": _loss(found),
        "deployment_model": _model(found, disclosure),
        "accounting": _accounting(found),
        "implementation": _implementation(found, disclosure),
        "administrative": _administrative(disclosure, digest),
    }
    names = [name for name in sections if tier >= _FROM_TIER.get(name, 1)]
    blank = _blanks(sections, disclosure)
    missing = [key for place, key in blank.items() if tier == 3 or place.startswith(_ALWAYS)]
    if missing:
        may_state_less = not any(place.startswith(_ALWAYS) for place in blank)
        raise ConfigError(
            f"The disclosure leaves blank: {', '.join(sorted(missing))}",
            f"A record of tier {tier} states them, and only a curator can",
            f"Write them into the disclosure{', or ask for a lower tier' if may_state_less else ''}",
        )
    deployment = {name: {key: value for key, value in sections[name].items() if value is not None} for name in names}
    slug = f"{release.dataset}_{release.name}".replace("-", "_")
    return {"url_slug": slug, "status": "Draft", "tier": tier, "deployment": deployment}, sorted(blank.values())


def _blanks(sections: Mapping[str, Tree], disclosure: Disclosure) -> dict[str, str]:
    """Places of a record that are blank, with the keys of the disclosure that fill them."""
    blanks = {place: key for place, key in _OWN.items() if sections[place.split(".")[0]][place.split(".")[1]] is None}
    return blanks if disclosure.security else {**blanks, "implementation.mechanisms": "security"}


def _basic(found: DisclosedDeployment, disclosure: Disclosure) -> Tree:
    config = found.plan.config
    first = disclosure.first_published or (found.published[0] if found.published else None)
    kinds = {"gradients": _LEARNED, "rows": "Dataset"}
    return {
        "name": disclosure.title or f"{config.release.dataset}/{config.release.name}",
        "data_curators": list(disclosure.curators) or None,
        "intended_use": disclosure.intended_use,
        "data_product_type": kinds.get(config.query.kind, "Summary statistics"),
        "data_product_region": disclosure.region,
        "description": disclosure.description,
        "publication_date": None if first is None else first.isoformat(),
        "data_product_sector": disclosure.sector,
    }


def _variant(found: DisclosedDeployment, disclosure: Disclosure) -> Tree:
    plan, bound = found.plan, getattr(found.plan.config.query, "rows_at_most", None)
    pure = plan.guarantee.delta == 0.0
    size = "" if bound is None else f" A data set has at most {bound:,} rows."
    return {
        "variant_name": "Pure DP" if pure else "Approximate DP",
        "data_domain": None if disclosure.population is None else f"{disclosure.population}{size}",
        "unprotected_quantities": _unprotected(plan),
    }


def _unprotected(plan: Plan) -> str:
    rows = (
        "The number of rows is treated as public. "
        if plan.neighbours is Neighbours.REPLACE_ONE
        else "The number of rows is protected. "
    )
    return (
        f"{rows}The names of the features, their declared bounds, the config, and the days on which releases were made "
        "are public. No statistic of the records is released without noise."
    )


def _loss(found: DisclosedDeployment) -> Tree:
    plan, budget = found.plan, found.budget
    total = (
        "Nobody has granted a budget yet."
        if budget is None
        else f"All releases together stay within epsilon {budget.epsilon:g} at delta {budget.delta:g}."
    )
    guarantee = found.newest.get("guarantee", {})
    sentence = guarantee.get("sentence") or promise.sentence(plan, None)
    epsilon, delta = float(plan.guarantee.epsilon), float(plan.guarantee.delta)
    return {
        "privacy_unit": plan.config.privacy.unit,
        "privacy_unit_details": f"Neighbouring data sets: {plan.neighbours.value}. {sentence}",
        "privacy_parameters": {"epsilon": epsilon} | ({} if delta == 0.0 else {"delta": delta}),
        "privacy_parameters_details": (
            f"The parameters are of one release; its Gaussian loss is mu {plan.charge.mu:.6g} and its pure loss "
            f"{plan.charge.epsilon:.6g}. {total}"
        ),
    }


def _model(found: DisclosedDeployment, disclosure: Disclosure) -> Tree:
    many = len(found.published) > 1 or found.plan.series is not None
    changes = disclosure.records_change
    periods = () if found.budget is None else found.budget.periods
    caps = "".join(f" A cap of epsilon {each.cap.epsilon:g} holds {each.period.words}." for each in periods)
    return {
        "model_name": "Central",
        "model_name_details": "The curator holds the records and releases noisy results of them.",
        "actors": disclosure.actors,
        "release_type": "Many releases" if many else "One release",
        "release_type_details": (
            f"Releases that were published and stand: {len(found.published)}. The budget is never reset.{caps} "
            f"{disclosure.future_use or ''}"
        ).strip(),
        "data_source_type": None if changes is None else "Dynamic" if changes else "Static",
        "data_source_type_details": None if changes is None else _source(changes),
        "access_type": "Non-interactive",
        "access_type_details": "Readers receive what was published and cannot query the records.",
    }


def _source(changes: bool) -> str:
    return "Records are added or changed between releases." if changes else "The records stay as they are."


def _accounting(found: DisclosedDeployment) -> Tree:
    error = found.newest.get("error", {})
    after = error.get("post_processing") or "Symmetry, and for matrices a positive semi-definite version"
    return {
        "post_processing": f"{after}. It reads noisy values alone.",
        "composition": (
            "A ledger charges each release before it is computed, and refuses what the budget does not hold. "
            "Gaussian losses add up in Gaussian differential privacy, also for releases that are chosen in view of "
            "earlier ones; pure losses add up as they are; releases of disjoint parts of the records that are declared "
            "so compose in parallel."
        ),
    }


def _implementation(found: DisclosedDeployment, disclosure: Disclosure) -> Tree:
    name = str(found.plan.public["calibration"]["mechanism"])
    entry = catalogue.find(name)
    status = "" if entry is None else f" ({entry.status}; {entry.source})"
    return {
        "preprocessing_and_hyperparameter_tuning": disclosure.exploration,
        "mechanisms": (
            f"Mechanism {name}{status}, by Blockveil {version('blockveil')}. Records are clipped and rounded to whole "
            "numbers and added up exactly. Additive noise is sampled on a grid from tables of whole numbers, so that "
            "attacks on floating-point samplers do not apply. Readers see no timing: releases are made in batches. "
            f"Security of the records: {disclosure.security or 'not stated'}"
        ),
        "justification": disclosure.justification,
    }


def _administrative(disclosure: Disclosure, digest: str) -> Tree:
    contact = "" if disclosure.contact is None else f" Contact: {disclosure.contact}."
    return {
        "sources": disclosure.sources,
        "notes": f"Written by Blockveil {version('blockveil')} from plan and ledger, and from the curator's disclosure "
        f"with SHA-256 {digest}.{contact}",
        "registry_authors": list(disclosure.authors) or None,
    }
