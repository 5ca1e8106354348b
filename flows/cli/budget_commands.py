"""``blockveil ledger grant``, ``budget`` and more: grant, look at, forecast, split and price budgets."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Annotated

import typer

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.domination import dominating, fixed_delta, fixed_epsilon
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli.common import (
    Config,
    Date,
    Json,
    parse_date,
    parse_day,
    print_answer,
    print_json,
    print_rows,
    read_config,
    say,
)
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.event_files import plain, read_events
from blockveil.pipeline.budget.filter import Accountant
from blockveil.pipeline.config.cadence import Cadence
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.grants import named_grant, parse_periods
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan import budgets, signed_approval
from blockveil.pipeline.plan import forecast as ahead
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.balance import budget_lines
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.forecast_lines import forecast_lines
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.plan.splitting import split as split_plans
from blockveil.pipeline.releases import charged_steps, lost_ledger
from blockveil.pipeline.releases.charged_steps import Books
from blockveil.pipeline.sections.fields import NAME_PATTERN

NAME = re.compile(NAME_PATTERN)

ELSEWHERE = "elsewhere"
"""Stands for key, output and place of what another tool draws."""

Configs = Annotated[list[Path], typer.Argument(help="Config files of the releases of one night.", show_default=False)]
EventsFile = Annotated[Path, typer.Argument(help="File of events, TOML.", show_default=False)]


def grant(
    config: Config,
    epsilon: Annotated[float, typer.Option(help="Epsilon of all releases together.", show_default=False)],
    delta: Annotated[
        float,
        typer.Option(
            help="Delta of all releases together: P <= e^epsilon P' + delta for every set of outputs.",
            show_default=False,
        ),
    ],
    reserve: Annotated[
        float | None,
        typer.Option(help="Part of epsilon kept for pure losses (Laplace) beside Gaussian ones; none by default."),
    ] = None,
    slack: Annotated[
        float | None,
        typer.Option(help="Share of delta kept for failures and for distances of samplers; a thousandth by default."),
    ] = None,
    accountant: Annotated[
        Accountant | None,
        typer.Option(help="What adds up in the budget: mu squared (gaussian, the default) or rho (zcdp)."),
    ] = None,
    period: Annotated[
        list[str] | None,
        typer.Option(
            help="Also cap epsilon in a day, week, month, quarter, year or 30d, as month:0.5; may be repeated."
        ),
    ] = None,
    no_periods: Annotated[bool, typer.Option("--no-periods", help="Remove all caps for periods.")] = False,
    after_loss: Annotated[
        str | None,
        typer.Option(help="Why a budget is granted although the ledger has lost entries; kept for ever."),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who grants it; kept in the ledger, with --why.")] = None,
    why: Annotated[str | None, typer.Option(help="Why this much, in one line; kept in the ledger.")] = None,
    as_json: Json = False,
) -> None:
    """Grant or change the config's budget, for its privacy unit and neighbouring relation."""
    loaded = read_config(config)
    ledger = Ledger(loaded.ledger_url)
    lost_ledger.check_grant(loaded, ledger, after_loss)
    status = ledger.set_budget(
        dataset=loaded.config.release.account,
        epsilon=epsilon,
        delta=delta,
        neighbours=Neighbours(loaded.config.privacy.neighbours),
        privacy_unit=loaded.config.privacy.unit,
        reserve=reserve,
        slack=slack,
        accountant=accountant,
        periods=() if no_periods else None if period is None else parse_periods(period),
        after_loss=after_loss,
        granted_by=named_grant(by, why, loaded.config.output.new_budget),
    )
    print_answer(budget_lines(status), as_json, in_numbers=budgets.in_numbers(status))


def budget(config: Config, as_json: Json = False) -> None:
    """Show what the config's data set has spent, what is left, and how many more such releases fit."""
    loaded = read_config(config)
    status = Ledger(loaded.ledger_url).budget(loaded.config.release.account)
    try:
        plan: Plan | None = plan_near(loaded, parse_date(None))
    except ConfigError:  # what was spent is shown all the same
        plan = None
    charge, part = (None, None) if plan is None else (plan.charge_of_a_night, plan.new_part)
    nights = None if charge is None else status.nights_left(charge, part)
    lines = budget_lines(status, charge, part)
    lines += [("This config", "cannot be planned; `blockveil plan` says why")] if plan is None else []
    print_answer(lines, as_json, in_numbers=budgets.in_numbers(status), nights_left=nights)


def forecast(
    configs: Configs,
    until: Annotated[
        str | None,
        typer.Option(help="Date until which the budget is to last, YYYY-MM-DD; shows the noise that this needs."),
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Days between nights, such as 7, in place of the schedule.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how many nights the budget affords, how long it lasts, and the noise that makes it last to a date."""
    plans = _plans(configs, None)
    cadence = ahead.cadence_of_all(plans) if every is None else Cadence.each(every)
    today = cadence.today(datetime.now(UTC))
    ledger, dataset = Ledger(plans[0].loaded.ledger_url), plans[0].config.release.account
    last = parse_day("--until", until)
    projection = ahead.forecast(ledger.budget(dataset), ledger.history(dataset), plans, today, last, cadence)
    if as_json:
        print_json(projection.plain())
    else:
        print_rows(forecast_lines(projection))


def _plans(configs: list[Path], date: str | None) -> list[Plan]:
    """Plans of one night, all for the same budget."""
    plans = [plan_near(read_config(config), parse_date(date)) for config in configs]
    scopes = {
        (plan.loaded.ledger_url, plan.config.release.account, plan.neighbours, plan.config.privacy.unit)
        for plan in plans
    }
    if len(scopes) > 1:
        raise ConfigError(
            "These configs do not share a budget",
            "Releases of one night are for the same ledger, data set, relation and unit",
            "Give configs of one data set",
        )
    return plans


def split(
    configs: Configs,
    date: Date = None,
    hold: Annotated[
        bool, typer.Option("--reserve", help="Also reserve the budget of all releases, or of none, for `run` to use.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Calibrate releases with privacy.share together, and show how they divide one guarantee."""
    division = split_plans(_plans(configs, date))
    if hold:
        _hold(division.plans)
    privacy = division.plans[0].config.privacy
    together = division.together.epsilon(privacy.delta)
    if as_json:
        rows = [
            {"release": plan.release_id, "share": share, "epsilon": plan.guarantee.epsilon, "mu": plan.charge.mu}
            for plan, share in zip(division.plans, division.shares, strict=True)
        ]
        print_json({"delta": privacy.delta, "epsilon": together, "reserved": hold, "releases": rows})
        return
    for plan, share in zip(division.plans, division.shares, strict=True):
        error = plan.answer.error_sentence()
        say(f"{plan.release_id}  share {share:g}, epsilon {plan.guarantee.epsilon:.4g}; {error}")
    print_rows([("Together", f"epsilon {together:.6g} of {privacy.epsilon:g} at delta {privacy.delta:g}")])
    if hold:
        say("The budget of all of them is reserved; run each of them next.")


def _hold(plans: tuple[Plan, ...]) -> None:
    """Reserve all or none: what this call has reserved is given back where one is refused."""
    ledger = Ledger(plans[0].loaded.ledger_url)
    releases = [(as_begun(plan, ledger), Books(plan.loaded, ledger)) for plan in plans]
    for plan, _ in releases:
        question = budgets.approval_needed(plan, ledger)
        # Where officers sign, whoever has not yet is asked for; a name can be typed for one run alone.
        if question is not None and signed_approval.approver(plan, ledger, None, question) is None:
            raise NotApproved.because(
                question.text, "Run it with `blockveil run --approve NAME` instead of reserving it"
            )
    reservations = []
    try:
        for plan, books in releases:
            reservations.append((books, charged_steps.reserve(plan, books, f"process {os.getpid()}")))
    except BaseException as error:
        for books, reservation in reservations:
            if reservation.charge.is_new:
                with suppress(Exception):  # the others are given back too, and the first failure is the one to show
                    charged_steps.abandon(books, reservation, type(error).__name__)
        raise


def price(
    events: EventsFile,
    delta: Annotated[float, typer.Option(help="Delta at which to state epsilon.", show_default=False)],
    epsilon: Annotated[float | None, typer.Option(help="Also state delta at this epsilon.")] = None,
    as_json: Json = False,
) -> None:
    """Show a certified cost of a fixed series of events: epsilon at a delta, and the Gaussian charge of a budget."""
    if not 0 < delta < 1:
        raise ConfigError(f"--delta is {delta:g}", "delta lies between 0 and 1", "Correct it")
    content = read_events(events)
    try:
        charge, bound = dominating(content.series), fixed_epsilon(content.series, delta)
        delta_bound = None if epsilon is None else fixed_delta(content.series, epsilon)
    except CalibrationError as error:
        raise ConfigError("These events cannot be composed", str(error), "Change the events") from None
    if as_json:
        cost = {"epsilon": bound, "delta": delta, "mu": charge.mu, "failure": charge.failure}
        if epsilon is not None and delta_bound is not None:
            cost |= {"at_epsilon": epsilon, "delta_there": delta_bound}
        print_json({**cost, "neighbours": content.neighbours.value, "unit": content.unit})
        return
    rows = [
        ("Events", f"{sum(step.count for step in content.series):,}, {content.neighbours.value}, {content.unit}"),
        ("As a fixed series", f"epsilon {_at_least(bound)} at delta {delta:g} (upper bound)"),
        ("In a budget", f"mu {_at_least(charge.mu)} and failure {charge.failure:.3g}, whatever is released beside it"),
    ]
    rows += [] if delta_bound is None else [(f"At epsilon {epsilon:g}", f"delta {delta_bound:.4g} (upper bound)")]
    print_rows(rows)


def _at_least(bound: float) -> str:
    """Four digits of a bound, rounded up: the last digits of a float depend on the processor."""
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(bound):g}"


def charge(
    config: Config,
    events: EventsFile,
    name: Annotated[str, typer.Option(help="Name of what was released, as in the ledger.", show_default=False)],
    date: Date = None,
    as_json: Json = False,
) -> None:
    """Charge a series of events to the budget before another tool draws them: the whole series, for ever.

    The config names the ledger and the budget. The same events of one name and date are charged once.
    """
    loaded, content = read_config(config), read_events(events)
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name[:70]!r} is not a name", "It has lower-case letters, digits and dashes", "Correct it"
        )
    release = loaded.config.release
    release_id = f"{release.dataset}/{name}/{parse_date(date).isoformat()}"
    spec = {"release_id": release_id, "elsewhere": plain(content.series)}
    ledger = Ledger(loaded.ledger_url)
    try:
        hold = ledger.reserve(
            ChargeRequest(
                release_id=release_id,
                dataset=release.account,
                spec=spec,
                spec_digest=digest(spec),
                charge=content.series,
                neighbours=content.neighbours,
                unit=content.unit,
                attempt=f"process {os.getpid()}",
            )
        )
    except CalibrationError as error:
        raise ConfigError("These events cannot be booked", str(error), "Change the events") from None
    ledger.commit(hold.charge_id, key_check=ELSEWHERE)
    entry, status = ledger.released(hold.charge_id, ELSEWHERE, ELSEWHERE).sequence, ledger.budget(release.account)
    if not as_json:
        say(f"{release_id} is booked: entry {entry}")
    print_answer(budget_lines(status), as_json, release=release_id, entry=entry, in_numbers=budgets.in_numbers(status))
