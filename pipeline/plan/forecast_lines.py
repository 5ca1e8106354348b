"""A forecast in words, as a terminal shows it."""

from __future__ import annotations

from blockveil.pipeline.plan.forecast import Forecast


def forecast_lines(ahead: Forecast) -> list[tuple[str, str]]:
    """Lines (what, value) for a terminal."""
    rows = [
        ("Budget", f"epsilon {ahead.epsilon:g} at delta {ahead.delta:g} for '{ahead.dataset}'"),
        ("Spent", f"{100 * ahead.used:.3g} % of it"),
    ]
    rows += [
        ("Cost", f"{cost.release}: {100 * cost.share:.3g} % of the budget (epsilon {cost.epsilon:.4g} on its own)")
        for cost in ahead.costs
    ]
    end = "" if ahead.lasts_until is None else f", until {ahead.lasts_until}"
    rows.append(("Schedule", f"{ahead.often}: {ahead.schedule}"))
    rows.append((f"{ahead.unit.capitalize()} left", f"{ahead.nights_left} like this{end}"))
    rows += [
        (part.period.capitalize(), f"{part.nights_left} more releases like this; a whole one holds {part.nights}")
        for part in ahead.periods
    ]
    if ahead.rate_share > 0:
        when = "more than a hundred years" if ahead.rate_until is None else f"until {ahead.rate_until}"
        rows.append(("Present rate", f"{100 * ahead.rate_share:.3g} % a {ahead.unit_of_rate} lasts {when}"))
    if ahead.until is not None:
        rows.append((f"To {ahead.until}", _advice(ahead)))
    return rows


def _advice(ahead: Forecast) -> str:
    if ahead.nights_until == 0:
        return "no release is due until then"
    one = ahead.nights_until == 1
    nights = f"{ahead.nights_until} {ahead.unit.removesuffix('s') if one else ahead.unit}"
    if ahead.noise_factor is None:
        return f"{nights} cannot be paid for with any noise: nothing is left"
    if ahead.noise_factor == 1.0:
        return f"{nights} {'fits as it is' if one else 'fit as they are'}"
    pairs = zip(ahead.costs, ahead.epsilons, strict=True)
    epsilons = ", ".join(f"{cost.release} {epsilon:g}" for cost, epsilon in pairs)
    return (
        f"{nights} {'fits' if one else 'fit'} with {ahead.noise_factor:.4g} times the noise: privacy.epsilon {epsilons}"
    )
