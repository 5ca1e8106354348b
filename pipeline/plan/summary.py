"""A plan in words and numbers, for a terminal, an artifact and a report. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.cost import GrowthKind
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.answers.step_records import FixedBatches, PoissonBatches
from blockveil.engine.mechanisms.auto import Candidate
from blockveil.engine.noise.banded import Band
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import BoxGeometry, ReleaseConfig, Threads
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger.guessing import cap_sentence, coin, warning
from blockveil.pipeline.plan import nights, published_epsilons
from blockveil.pipeline.plan.balance import Rows
from blockveil.pipeline.plan.drowning import drowned
from blockveil.pipeline.plan.names_apart import names_apart
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price
from blockveil.pipeline.plan.rounded import rounding_sentence
from blockveil.pipeline.plan.vetting import unvetted_words
from blockveil.pipeline.questions.gradients import batches_of

IN_CLEAR = (
    "not encrypted (insecure = true): whoever reaches a part of it can read un-noised sums and the key of the noise, "
    "and run code on it"
)
"""What a plan and a run's log say of a cluster whose parts may talk in clear."""


def describe(plan: Plan, price: Price | None, rates: Rates | None = None, store: Looked | None = None) -> Rows:
    """Lines (what, value) of a plan, in the order a reader asks for them.

    Parameters
    ----------
    plan
        The plan.
    price
        What it takes of its budget; None where nobody has granted one.
    rates
        Speed of the machine, for the time that it takes; nominal rates where none is given.
    store
        What the store says of its records; None where it was not looked at.
    """
    config, answer = plan.config, plan.answer
    m, n = answer.shape
    query = f"{config.query.kind}, {m:,} x {n:,}, of at most {config.query.rows_at_most:,} rows"
    rows: Rows = [
        *(("Warning", sentence) for sentence in warnings(plan)),
        ("Release", plan.release_id),
        ("Query", query),
        *_norms(config),
        *_paid_bounds(config),
        ("Guarantee", plan.guarantee_sentence()),
        ("In words", in_words(plan, price)),
        ("Elsewhere", published_epsilons.nearest(plan.guarantee.epsilon)),
        ("Neighbours", f"{plan.neighbours.value}; {config.privacy.unit}{_several(config.privacy.rows_per_unit)}"),
        *([] if store is None else [("Records", store.sentence)]),
        ("Mechanism", plan.mechanism.name),
        *answer.design.lines(),
        *_training(plan),
        ("Expected error", answer.error_sentence()),
        *([] if (rounding := rounding_sentence(answer)) is None else [("Rounding", rounding)]),
        ("Charge", _charge(plan, price)),
    ]
    if plan.series is not None:
        rows += nights.describe(plan.series)
    rows += [("Compared", comparison_text(plan.compared))] if plan.compared else []
    rows += [("Budget", "none granted yet: blockveil budget set")] if price is None else price.lines
    return [*rows, *_effort(plan, rates)]


def warnings(plan: Plan) -> list[str]:
    """Warnings of what is unvetted, of noise that exceeds anything that records can give, and of a weak promise."""
    noise = drowned(plan)
    weak = warning(plan.guarantee.epsilon, plan.guess, "with this release")
    found = (unvetted_words(plan.config), None if noise is None else noise.sentence, weak)
    return [sentence for sentence in found if sentence is not None]


def in_words(plan: Plan, price: Price | None) -> str:
    """What a guess reaches with a plan's release, with all so far, and with all that its budget allows."""
    bounds = [guess_alone(plan), *([] if price is None else price.bounds)]
    reached = coin(plan.config.privacy.unit, plan.neighbours, bounds)
    return reached if price is None else f"{reached} {cap_sentence(price.together)}"


def guess_alone(plan: Plan) -> tuple[float, str]:
    """Bound of a guess with a plan's release alone, or with all nights that share its charge."""
    return plan.guess, "with this release" if plan.series is None else f"with all {plan.series.nights} of its nights"


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


def _charge(plan: Plan, price: Price | None) -> str:
    """A plan's loss in its own terms, and as an epsilon at one delta: that of the budget where there is one."""
    loss = plan.charge
    parts = [f"mu {loss.mu:.6g}"] if loss.mu else []
    parts += [f"pure epsilon {loss.epsilon:.6g}"] if loss.epsilon else []
    own = " and ".join(parts)
    if price is not None:
        return f"{own}, {price.charge}"
    return f"{own} (epsilon {Ticks.of(loss).epsilon(plan.guarantee.delta):.4g} at delta {plan.guarantee.delta:g})"


def _training(plan: Plan) -> Rows:
    """What one step of a training costs, and all of them."""
    if plan.steps == 1:
        return []
    loss, batches = plan.design.loss, batches_of(plan.question)
    most = batches.most(plan.steps) if isinstance(batches, FixedBatches) else plan.steps
    alone = loss.mu / math.sqrt(most)
    of_steps = "a step alone has " + (f"mu {alone:.4g}" if alone > 0 else f"epsilon {loss.epsilon / most:.4g}")
    together = f"mu {loss.mu:.4g}" if alone > 0 else f"epsilon {loss.epsilon:.4g}"
    over, noise = "all records", plan.design.additive
    if isinstance(batches, FixedBatches):
        over = f"one of {batches.count:,} batches"
        of_steps = f"{of_steps} for the records of its batch, each of which is in at most {most:,} steps"
    if isinstance(batches, FixedBatches) and batches.band > 1:
        share = Band(batches.band, plan.steps).share_of_the_sum
        over = f"{over}, with noise that takes away noise of the {batches.band - 1:,} steps before"
        of_steps = f"noise {share:.2g} times that of independent steps is left in the sum of all steps so far"
    if isinstance(batches, PoissonBatches) and noise is not None:
        over = f"a secret sample of {batches.probability:g} of the records"
        multiplier = noise.scale / noise.sensitivity.bound
        of_steps = f"a step alone has noise {multiplier:.4g} times what a record changes in a step over all"
        together = f"{together} and a failure of {loss.failure:.2g} by the law of their loss"
    return [
        (
            "Training",
            f"{plan.steps:,} steps, each over {over}; {of_steps}, all together {together}, "
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
