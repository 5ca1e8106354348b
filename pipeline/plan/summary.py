"""A plan in words and numbers, for a terminal, an artifact and a report. Reads no data."""

from __future__ import annotations

from dataclasses import replace

from blockveil.engine.answers.rates import Rates
from blockveil.engine.mechanisms.abilities import led_by_constants, positive_version
from blockveil.engine.records.geometry import Body
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import BoxGeometry, ReleaseConfig
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger.guessing import warning
from blockveil.pipeline.plan import nights, promise, published_epsilons, rounded
from blockveil.pipeline.plan.balance import Rows
from blockveil.pipeline.plan.coarse_steps import coarse_steps
from blockveil.pipeline.plan.excess_noise import Advice, excess_noise
from blockveil.pipeline.plan.mechanisms_compared import bound_sentence, comparison_text
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price
from blockveil.pipeline.plan.vetting import unvetted_words
from blockveil.pipeline.questions.stepwise import step_lines

_FAR = 1.5
"""Errors over the bound from which on another query is worth a word."""


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
        What would end a warning of noise (:func:`.excess_noise.advised`); None where nobody has looked for it.
    """
    config, answer, charge = plan.config, plan.answer, _charge(plan, price)
    m, n = answer.shape
    stages = plan.designed.learning or plan.designed.stage_after
    bounds = [*_norms(config), *_paid_bounds(config)]
    query = f"{config.query.kind}, {m:,} x {n:,}, of at most {config.query.rows_at_most:,} rows"
    rows: Rows = [
        *(("Warning", sentence) for sentence in warnings(plan, advice)),
        ("Release", plan.release_id),
        *(("Override", override.sentence) for override in plan.loaded.overrides),
        ("Query", query),
        *bounds,
        *([] if stages is None else stages.lines()),
        ("Guarantee", promise.sentence(plan)),
        ("In words", promise.in_words(plan, price)),
        ("Elsewhere", published_epsilons.nearest(plan.guarantee.epsilon)),
        ("Neighbours", f"{plan.neighbours.value}; {config.privacy.unit}{_several(config.privacy.rows_per_unit)}"),
        *([] if store is None else [("Records", store.sentence)]),
        ("Mechanism", plan.mechanism.name),
        *answer.design.lines(),
        *step_lines(plan.question, plan.design),
        ("Expected error", answer.error_sentence()),
        *rounded.lines(answer),
        ("Charge", charge),
    ]
    if plan.series is not None:
        rows += nights.describe(plan.series)
    rows += [("Compared", comparison_text(plan.compared))] if plan.compared else []
    least, error = plan.least, plan.compared[0].error if plan.compared else None
    if least is not None and error is not None:
        rows.append(("Bound", bound_sentence(error, least, _beside(plan)) + _instead(plan, error / least)))
    rows += [("Budget", "none granted yet: blockveil ledger grant")] if price is None else price.lines
    return [*rows, *plan.effort.lines(rates)]


def _beside(plan: Plan) -> str:
    """Of a covariance the bound is of noise that knows count and sums as well."""
    moment = plan.question.problem
    augmented = positive_version(moment) and led_by_constants(moment)
    return " that knows count and sums no worse" if augmented else ""


def _instead(plan: Plan, over: float) -> str:
    """What to ask for where features of one sign are counted from zero, with far more noise than is needed."""
    moment = plan.question.problem
    if not positive_version(moment) or led_by_constants(moment) or moment.body is not Body.HALF_CUBE or over < _FAR:
        return ""
    return '; kind = "covariance" with origin = "midpoint" tells the same with less noise'


def warnings(plan: Plan, advice: tuple[Advice, ...] | None = None) -> list[str]:
    """Warnings of what is unvetted, of noise beyond what records give or the guarantee needs, and of a weak promise."""
    noise = excess_noise(plan)
    excess = None if noise is None else replace(noise, advice=advice).sentence
    weak = warning(plan.guarantee.epsilon, plan.guess, "with this release")
    coarse, rounding = coarse_steps(plan), rounded.rounded(plan.answer)
    sentences = (
        unvetted_words(plan.config),
        excess,
        None if coarse is None else coarse.sentence,
        None if rounding is None else rounding.warning,
        weak,
    )
    return [sentence for sentence in sentences if sentence is not None]


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


def _charge(plan: Plan, price: Price | None) -> str:
    """A plan's loss in its own terms, and as an epsilon at one delta: that of the budget where there is one."""
    loss = plan.charge
    parts = [f"mu {loss.mu:.6g}"] if loss.mu else []
    parts += [f"pure epsilon {loss.epsilon:.6g}"] if loss.epsilon else []
    own = " and ".join(parts)
    if price is not None:
        return f"{own}, {price.charge}"
    return f"{own} (epsilon {Ticks.of(loss).epsilon(plan.guarantee.delta):.4g} at delta {plan.guarantee.delta:g})"


def _several(rows: int | None) -> str:
    return "" if rows is None else f", at most {rows} rows each"
