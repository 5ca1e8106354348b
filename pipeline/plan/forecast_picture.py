"""The picture of a forecast: what is left of a budget by day, and ahead."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date

from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.budget.filter import NOTHING, Cap
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.ledger import BudgetStatus, Entry
from blockveil.pipeline.ledger.entries import counted
from blockveil.pipeline.plan.forecast import Forecast, day_of

_INK, _PAST, _PLAN, _RATE = "#555555", "#0072b2", "#d55e00", "#009e73"  # Okabe and Ito: apart for every kind of eye


def picture(found: Forecast, budget: BudgetStatus, history: Sequence[Entry], today: date, form: str) -> bytes:
    """Burn-down: what is left of the budget by day, and ahead at the present rate and for the plans.

    Parameters
    ----------
    found
        The forecast.
    budget
        The budget that it is of.
    history
        Entries of its ledger, of this data set.
    today
        Day from which on the picture looks ahead.
    form
        ``svg`` or ``png``.

    Returns
    -------
    The file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes long to import, and few processes draw
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    days, left = _past(budget.cap, history)
    days, left = [*days, today], [*left, 100 * (1.0 - found.used)]
    with drawn_by({"svg.hashsalt": "blockveil", "svg.fonttype": "path", "font.size": 9.0}):
        figure = Figure(figsize=(7.2, 3.8))
        axes = figure.add_subplot()
        axes.step([_number(day) for day in days], left, where="post", color=_PAST, linewidth=1.8, label="left so far")
        for end, colour, style, label in (
            (found.lasts_until, _PLAN, "--", f"these releases {found.often}"),
            (found.rate_until, _RATE, ":", "present rate"),
        ):
            if end is not None:
                axes.plot([_number(today), _number(end)], [left[-1], 0.0], style, color=colour, label=f"{label}: {end}")
        if found.until is not None:
            axes.axvline(_number(found.until), color=_INK, linewidth=0.8)
        axes.set_ylim(0, 103)
        axes.set_ylabel("left of the budget, %")
        axes.xaxis_date()
        axes.legend(frameon=False, loc="upper right", fontsize=8.5)
        axes.set_title(f"{found.dataset}: epsilon {found.epsilon:g} at delta {found.delta:g}", color=_INK, fontsize=9.5)
        axes.spines[["top", "right"]].set_visible(False)
        figure.autofmt_xdate()
        out = io.BytesIO()
        if form == "svg":
            FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})
        else:
            FigureCanvasAgg(figure).print_png(out)
    return out.getvalue()


def _number(day: date) -> float:
    from matplotlib.dates import date2num

    return float(date2num(day))


def _past(cap: Cap, history: Sequence[Entry]) -> tuple[list[date], list[float]]:
    days: list[date] = []
    left: list[float] = []
    tally = Tally()
    for entry in counted(history):
        if entry.ticks == NOTHING and days:
            continue
        if not days:
            days, left = [day_of(entry)], [100.0]
        if entry.ticks != NOTHING:
            tally.add(entry.ticks, entry.of_part)
        days.append(day_of(entry))
        left.append(100.0 * (1.0 - cap.used(tally.total.ticks)))
    return days, left
