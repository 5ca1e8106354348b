"""A plan in words and numbers, for a terminal, an artifact and a report. Reads no data."""

from __future__ import annotations

import numpy as np

from engine import estimates
from pipeline.ledger import BudgetStatus
from pipeline.planning import Plan

Rows = list[tuple[str, str]]


def describe(plan: Plan, budget: BudgetStatus | None) -> Rows:
    """Lines (what, value) of a plan, in the order a reader asks for them."""
    config, design = plan.config, plan.design
    query = f"{config.query.kind} of {len(plan.features)} features, at most {config.query.rows_at_most:,} rows"
    exact = "exact" if design.sensitivity.exact else "upper bound"
    rows: Rows = [
        ("Release", plan.release_id),
        ("Query", query),
        ("Guarantee", plan.guarantee_sentence()),
        ("Neighbours", f"{plan.neighbours.value}; {config.privacy.unit}"),
        ("Sensitivity", f"{design.sensitivity.bound:.6g} in weighted coordinates ({exact})"),
        ("Noise", f"standard deviation {design.standard_deviation:.6g} there; discrete, {design.grid.label}"),
        ("Expected error", _error(plan)),
        ("Charge", f"mu {design.mu:.6g} (epsilon {plan.guarantee.epsilon:g} at delta {plan.guarantee.delta:g})"),
    ]
    rows += (
        budget_lines(budget, design.mu)
        if budget is not None
        else [("Budget", "none granted yet: blockveil budget set")]
    )
    return [*rows, ("Cost", _cost(plan))]


def budget_lines(budget: BudgetStatus, mu: float | None = None) -> Rows:
    """Lines of a budget: cap, spent, left and how often a charge still fits."""
    rows: Rows = [
        ("Budget", f"epsilon {budget.epsilon:g} at delta {budget.delta:g} for '{budget.dataset}'"),
        (
            "Spent",
            f"epsilon {budget.spent_epsilon:.4g} by {budget.charges} release{'' if budget.charges == 1 else 's'}",
        ),
        ("Left", f"epsilon {budget.left_epsilon:.4g} for one more release, at that delta"),
    ]
    if mu is not None:
        rows.append(("Nights left", f"{budget.nights_left(mu)} more releases like this one"))
    return rows


def _error(plan: Plan) -> str:
    rows = plan.config.query.rows_at_most
    if plan.augmented:
        share = estimates.worst_covariance_deviation(plan.design, rows)
        lead = f"at {rows:,} rows, a covariance entry's standard deviation is at most"
    else:
        share = plan.design.entry_standard_deviation() / rows
        lead = f"at {rows:,} rows, a second moment's standard deviation per row is"
    low, high = float(np.min(share)), float(np.max(share))
    span = f"{high:.3g}" if low > 0.999 * high else f"{low:.3g} to {high:.3g}"
    return f"{lead} {span} of the product of the two features' half widths"


def _cost(plan: Plan) -> str:
    cluster = plan.config.cluster
    threads = getattr(cluster, "threads_per_worker", 1)
    cost = plan.cost(threads, getattr(cluster, "workers", 1))
    memory = f"about {cost.peak_bytes / 2**20:,.0f} MiB a worker"
    return f"{memory}, some {max(cost.seconds, 1):,.0f} s of computing (nominal rates)"
