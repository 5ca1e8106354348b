"""A plan in words and numbers, for a terminal, an artifact and a report. Reads no data."""

from __future__ import annotations

from dataclasses import replace

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.cost import GrowthKind
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.pipeline.config import BoxGeometry, ReleaseConfig, Threads
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger.guessing import warning
from blockveil.pipeline.plan import nights, promise, published_epsilons
from blockveil.pipeline.plan.balance import Rows
from blockveil.pipeline.plan.drowning import Advice, drowned
from blockveil.pipeline.plan.names_apart import comparison_text
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price, charge_text
from blockveil.pipeline.plan.rounded import rounding_sentence
from blockveil.pipeline.plan.vetting import unvetted_words
from blockveil.pipeline.questions.gradients import training_lines

IN_CLEAR = (
    "not encrypted (insecure = true): whoever reaches a part of it can read un-noised sums and the key of the noise, "
    "and run code on it"
)
"""What a plan and a run's log say of a cluster whose parts may talk in clear."""


def describe(
    plan: Plan,
    price: Price | None,
    rates: Rates | None = None,
    store: Looked | None = None,
    advice: tuple[Advice, ...] | None = None,
) -> Rows:
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
    advice
        What would end a warning of noise (:func:`.drowning.advised`); None where nobody has looked for it.
    """
    config, answer = plan.config, plan.answer
    m, n = answer.shape
    query = f"{config.query.kind}, {m:,} x {n:,}, of at most {config.query.rows_at_most:,} rows"
    rows: Rows = [
        *(("Warning", sentence) for sentence in warnings(plan, advice)),
        ("Release", plan.release_id),
        ("Query", query),
        *_norms(config),
        *_paid_bounds(config),
        ("Guarantee", promise.sentence(plan)),
        ("In words", promise.in_words(plan, price)),
        ("Elsewhere", published_epsilons.nearest(plan.guarantee.epsilon)),
        ("Neighbours", f"{plan.neighbours.value}; {config.privacy.unit}{_several(config.privacy.rows_per_unit)}"),
        *([] if store is None else [("Records", store.sentence)]),
        ("Mechanism", plan.mechanism.name),
        *answer.design.lines(),
        *training_lines(plan.question, plan.design),
        ("Expected error", answer.error_sentence()),
        *([] if (rounding := rounding_sentence(answer)) is None else [("Rounding", rounding)]),
        ("Charge", charge_text(plan, price)),
    ]
    if plan.series is not None:
        rows += nights.describe(plan.series)
    rows += [("Compared", comparison_text(plan.compared))] if plan.compared else []
    rows += [("Budget", "none granted yet: blockveil budget set")] if price is None else price.lines
    return [*rows, *_effort(plan, rates)]


def warnings(plan: Plan, advice: tuple[Advice, ...] | None = None) -> list[str]:
    """Warnings of what is unvetted, of noise that exceeds anything that records can give, and of a weak promise."""
    noise = drowned(plan)
    drowns = None if noise is None else replace(noise, advice=advice).sentence
    weak = warning(plan.guarantee.epsilon, plan.guess, "with this release")
    found = (unvetted_words(plan.config), drowns, weak)
    return [sentence for sentence in found if sentence is not None]


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
