"""How fast a stage goes, in words."""

from __future__ import annotations


def pace(share: float, seconds: float) -> str:
    """Throughput and time left of a stage, as shares: the number of records can be private, so none is shown.

    Parameters
    ----------
    share
        Fraction of the stage that is done.
    seconds
        Time it took.
    """
    if share <= 0.0 or seconds <= 0.0:
        return "just begun" if share < 1.0 else f"done in {duration(seconds)}"
    rate, remaining = 100.0 * share / seconds, seconds * (1.0 - share) / share
    if rate >= 100.0:
        speed = f"{rate:.0f} % a second"
    else:
        speed = f"{rate:.3g} % a second" if rate >= 1.0 else f"{60.0 * rate:.3g} % a minute"
    return f"{speed}, about {duration(remaining)} left" if share < 1.0 else f"{speed}, done in {duration(seconds)}"


def duration(seconds: float) -> str:
    """A length of time, to a whole second, minute or a tenth of an hour."""
    if seconds < 90.0:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60.0)} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
