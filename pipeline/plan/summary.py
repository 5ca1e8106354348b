"""A plan in words and numbers, for a terminal, an artifact and a report. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.cost import GrowthKind
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.mechanisms.auto import Candidate
from blockveil.pipeline.budget.filter import Cap, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import BoxGeometry, ReleaseConfig, Threads
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger import BudgetStatus
from blockveil.pipeline.ledger.entries import PeriodStatus
from blockveil.pipeline.ledger.guessing import Together, bounds_of, cap_sentence, coin, listed, warning
from blockveil.pipeline.plan import nights, published_epsilons
from blockveil.pipeline.plan.drowning import drowned
from blockveil.pipeline.plan.names_apart import names_apart
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.rounded import rounding_sentence
from blockveil.pipeline.plan.vetting import unvetted_words

Rows = list[tuple[str, str]]

IN_CLEAR = (
    "not encrypted (insecure = true): whoever reaches a part of it can read un-noised sums and the key of the noise, "
    "and run code on it"
)
"""What a plan and a run's log say of a cluster whose parts may talk in clear."""


def describe(
    plan: Plan, budget: BudgetStatus | None, rates: Rates | None = None, store: Looked | None = None, paid: bool = False
) -> Rows:
    """Lines (what, value) of a plan, in the order a reader asks for them.

    Parameters
    ----------
    plan
        The plan.
    budget
        What would pay.
    rates
        Speed of the machine, for the time that it takes; nominal rates where none is given.
    store
        What the store says of its records; None where it was not looked at.
    paid
        Whether the release has a charge already.
    """
    config, answer = plan.config, plan.answer
    m, n = answer.shape
    query = f"{config.query.kind}, {m:,} x {n:,}, of at most {config.query.rows_at_most:,} rows"
    rows: Rows = [
        *(("Warning", said) for said in warnings(plan)),
        ("Release", plan.release_id),
        ("Query", query),
        *_norms(config),
        *_paid_bounds(config),
        ("Guarantee", plan.guarantee_sentence()),
        ("In words", in_words(plan, budget, paid)),
        ("Elsewhere", published_epsilons.nearest(plan.guarantee.epsilon)),
        ("Neighbours", f"{plan.neighbours.value}; {config.privacy.unit}{_several(config.privacy.rows_per_unit)}"),
        *([] if store is None else [("Records", store.sentence)]),
        ("Mechanism", plan.mechanism.name),
        *answer.design.lines(),
        *_training(plan),
        ("Expected error", answer.error_sentence()),
        *([] if (rounding := rounding_sentence(answer)) is None else [("Rounding", rounding)]),
        ("Charge", loss_text(plan, budget)),
    ]
    if plan.series is not None:
        rows += nights.describe(plan.series)
    rows += [("Compared", comparison_text(plan.compared))] if plan.compared else []
    rows += (
        _balance(budget, plan.charge_of_a_night, plan.new_part)
        if budget is not None
        else [("Budget", "none granted yet: blockveil budget set")]
    )
    return [*rows, *_effort(plan, rates)]


def in_words(plan: Plan, budget: BudgetStatus | None, paid: bool = False) -> str:
    """What a guess reaches with a plan's release, with all so far, and with all that its budget allows."""
    bounds, together = plan_bounds(plan, budget, paid)
    said = coin(plan.config.privacy.unit, plan.neighbours, bounds)
    return said if together is None else f"{said} {cap_sentence(together)}"


def plan_bounds(
    plan: Plan, budget: BudgetStatus | None, paid: bool = False
) -> tuple[list[tuple[float, str]], Together | None]:
    """Bounds of a guess with a plan's release alone, and beside all that its budget holds; see :func:`describe`."""
    alone = "with this release" if plan.series is None else f"with all {plan.series.nights} of its nights"
    bounds = [(plan.guess, alone)]
    if budget is None:
        return bounds, None
    fits = paid or budget.nights_left(plan.charge, plan.new_part) > 0
    together = Together.of(budget, None if paid or not fits else plan.charge, plan.new_part)
    so_far = "with this and all releases so far" if fits and not paid else "with all releases so far"
    return [*bounds, *bounds_of(together, so_far)], together


def _norms(config: ReleaseConfig) -> Rows:
    """Bounds of a record's norm besides those of its features."""
    shapes = [shape for shape in config.query.geometries.values() if isinstance(shape, BoxGeometry)]
    return [
        (
            "Norm",
            f"at most {shape.norm_at_most:g} from the origin, besides the bounds of {len(shape.features)} features",
        )
        for shape in shapes
        if shape.norm_at_most is not None
    ]


def _paid_bounds(config: ReleaseConfig) -> Rows:
    """Which charged release gave the bounds of features."""
    shapes = [shape for shape in config.query.geometries.values() if isinstance(shape, BoxGeometry)]
    return [
        ("Bounds", f"from the release {shape.bounds_release}, which is charged for itself")
        for shape in shapes
        if shape.bounds_release is not None
    ]


def _several(rows: int | None) -> str:
    return "" if rows is None else f", at most {rows} rows each"


def comparison_text(compared: Sequence[Candidate]) -> str:
    """Expected error of each mechanism over that of the best."""
    best = compared[0].error or 1.0
    named = zip(names_apart([asdict(row) for row in compared]), compared, strict=True)
    shown = [f"{name} {row.error / best:.4g}" for name, row in named if row.error is not None]
    left_out = sorted({row.mechanism for row in compared if row.error is None})
    return ", ".join(shown) + (f"; not applicable: {', '.join(left_out)}" if left_out else "")


def loss_text(plan: Plan, budget: BudgetStatus | None = None) -> str:
    """A plan's loss in its own terms, and as an epsilon at one delta: that of the budget where there is one.

    Beside a budget it is also said as a share, which is what adds up.
    """
    loss = plan.charge
    parts = [f"mu {loss.mu:.6g}"] if loss.mu else []
    parts += [f"pure epsilon {loss.epsilon:.6g}"] if loss.epsilon else []
    own = " and ".join(parts)
    if budget is None:
        return f"{own} (epsilon {Ticks.of(loss).epsilon(plan.guarantee.delta):.4g} at delta {plan.guarantee.delta:g})"
    share, epsilon = _cost(plan, budget)
    alone = f"alone epsilon {epsilon:.4g} at the budget's delta {budget.delta:g}"
    return f"{own}, {share_text(share)} of the budget ({alone})"


def cost_text(plan: Plan, budget: BudgetStatus) -> str:
    """What a release costs beside what is spent: shares, which add up, and epsilons at one delta, which do not."""
    share, epsilon = _cost(plan, budget)
    used = share_text(budget.cap.used(budget.spent))
    return (
        f"It costs {share_text(share)} of the whole budget, of which {used} is spent. At the budget's delta of "
        f"{budget.delta:g} it is epsilon {epsilon:.4g} by itself, and the whole budget is epsilon {budget.epsilon:g}."
    )


def _cost(plan: Plan, budget: BudgetStatus) -> tuple[float, float]:
    """Share of a budget that a release takes, and its epsilon alone at the budget's delta."""
    booked = budget.tally.book(budget.cap, plan.charge, plan.new_part)
    return budget.cap.used(booked, budget.spent), booked.epsilon(budget.cap.delta, budget.cap.accountant)


def share_text(share: float) -> str:
    """A share of a budget in per cent."""
    return f"{100 * share:.3g} %"


def budget_lines(budget: BudgetStatus, loss: Loss | None = None, part: Part | None = None) -> Rows:
    """Lines of a budget: cap, spent, left, what a guess reaches, and how often a charge still fits."""
    together, rows = Together.of(budget), _balance(budget, loss, part)
    guessed = ("Guesses", f"{guesses(bounds_of(together))} {cap_sentence(together)}")
    said = warning(budget.epsilon, together.cap, "with all that the budget allows")
    return [*rows[:3], guessed, *rows[3:], *([] if said is None else [("Warning", said)])]


def guesses(bounds: Sequence[tuple[float, str]]) -> str:
    """What a guess reaches, in short; bounds as for :func:`.guessing.listed`."""
    return f"right {listed(bounds)}; a coin is right half of the time."


def _balance(budget: BudgetStatus, loss: Loss | None, part: Part | None) -> Rows:
    """Lines of a budget without those on guesses; all of one part of the records."""
    used = budget.cap.used(budget.spent)
    rows: Rows = [
        ("Budget", f"epsilon {budget.epsilon:g} at delta {budget.delta:g} for '{budget.dataset}'"),
        (
            "Spent",
            f"{share_text(used)} of it by {budget.charges} release{'' if budget.charges == 1 else 's'}, "
            f"together epsilon {budget.spent_epsilon:.4g} at that delta",
        ),
        (
            "Left",
            f"{share_text(max(0.0, 1.0 - used))} of it; one more {_kind(budget)} alone may take epsilon "
            f"{budget.left_epsilon:.4g} at that delta",
        ),
    ]
    rows += [(part.period.words.capitalize(), _period(part)) for part in budget.periods]
    rows += _parts(budget.cap)
    if loss is not None:
        soon = [f"; {budget.nights_now(one, loss, part)} of them in {one.period.words}" for one in budget.periods]
        like = "like this one" if part is None else f"like this one of each {part.column} that has none yet"
        left = budget.nights_left(loss, part)
        rows.append(("Nights left", f"{left} more release{'' if left == 1 else 's'} {like}{''.join(soon)}"))
    return rows


def warnings(plan: Plan) -> list[str]:
    """Warnings of what is unvetted, of noise that exceeds anything that records can give, and of a weak promise."""
    noise = drowned(plan)
    said = warning(plan.guarantee.epsilon, plan.guess, "with this release")
    found = (unvetted_words(plan.config), None if noise is None else noise.sentence, said)
    return [sentence for sentence in found if sentence is not None]


def _kind(budget: BudgetStatus) -> str:
    kind = "release of pure loss" if budget.left_mu == 0 < budget.left_epsilon else "release"
    return f"{kind} of all records" if budget.tally.has_parts else kind


def _period(part: PeriodStatus) -> str:
    cap, used = part.cap, part.cap.used(part.spent)
    count = f"{part.charges} release{'' if part.charges == 1 else 's'}"
    return (
        f"{share_text(used)} of epsilon {cap.epsilon:g} by {count}; {share_text(max(0.0, 1.0 - used))} left, one more "
        f"release alone may take epsilon {cap.left_epsilon(part.spent):.4g}"
    )


def _parts(cap: Cap) -> Rows:
    """What is kept apart, where it is not as usual."""
    usual = Cap(cap.epsilon, cap.delta)
    rows = [("Reserve", f"epsilon {cap.reserve:g} for pure losses beside others")] if cap.reserve else []
    rows += [("Slack", f"{cap.slack:g} of delta for failures and samplers")] if cap.slack != usual.slack else []
    return rows + ([("Accountant", cap.accountant.value)] if cap.accountant != usual.accountant else [])


def _training(plan: Plan) -> Rows:
    """What one step of a training costs, and all of them."""
    if plan.steps == 1:
        return []
    alone = plan.design.loss.mu / math.sqrt(plan.steps)
    of_steps = f"mu {alone:.4g}" if alone > 0 else f"epsilon {plan.design.loss.epsilon / plan.steps:.4g}"
    together = f"mu {plan.design.loss.mu:.4g}" if alone > 0 else f"epsilon {plan.design.loss.epsilon:.4g}"
    return [
        (
            "Training",
            f"{plan.steps:,} steps, each over all records; a step alone has {of_steps}, all together {together}, "
            "booked as one charge. How good the model will be depends on the records, which a plan does not read",
        )
    ]


def _effort(plan: Plan, rates: Rates | None) -> Rows:
    machine = plan.machine(rates=rates or NOMINAL)
    cut = plan.cut(machine)
    memory = f"at most {cut.cost.peak_bytes / 2**20:,.0f} of {machine.memory / 2**20:,.0f} MiB a worker"
    source = "nominal rates" if rates is None else "rates measured on this machine"
    if rates is not None and cut.work.kind is GrowthKind.PRODUCTS and cut.work.largest <= eight_bit.LARGEST_OF_HALVES:
        from blockveil.pipeline.plan.machine_speed import products  # it was needed to measure the rates

        source += f"; products in {products().reason}"
    warning = [("Cluster", IN_CLEAR)] if plan.config.in_clear else []
    alone = "" if plan.here is None or isinstance(plan.config.cluster, Threads) else "; too little to start workers for"
    return [
        *warning,
        ("Computed by", f"{cut.explain()}{alone}"),
        ("Cost", f"{memory}; {_time(cut.cost.seconds * plan.steps)} ({source})"),
    ]


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(seconds, 1):,.0f} s"
    return f"about {seconds / 60:,.0f} min" if seconds < 5400 else f"about {seconds / 3600:,.1f} h"
