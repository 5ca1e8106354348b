"""What a night that shares a charge needs of the nights before it: where their records end, and what was read of them.

A series that weighs records by age reads each night with the published results of earlier ones
(:mod:`.level_strategy`). Each is kept beside the other arrays of its release, a row for each tile of the answer, in the
grid steps that all nights of a series share. The ledger names its digest, so that nothing else is ever used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from blockveil.engine.noise.level_strategy import Levels
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.data.history import History, history_of
from blockveil.pipeline.ledger import Ledger, Night, State, refusals
from blockveil.pipeline.ledger.shared_nights import night_number
from blockveil.pipeline.plan.begun_plans import reserved_entries
from blockveil.pipeline.plan.nights import Series
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.contents import LedgerDigests


@dataclass(frozen=True, repr=False, eq=False)
class Growth:
    """Records of a night that shares a charge, and what it needs of the nights before it.

    Attributes
    ----------
    dataset
        Its records: of a night that was begun before others were appended, those with which it began.
    history, fingerprint
        Which records they are. Private: they stay in the ledger.
    night
        Which night its records were compared with.
    ages
        What weighs its records by their age.
    """

    dataset: Dataset
    history: str
    fingerprint: str
    night: Night
    ages: ByAge

    def __repr__(self) -> str:
        """Show nothing."""
        return "Growth()"


@dataclass(frozen=True, repr=False, eq=False)
class ByAge:
    """A night whose records are weighed by their age.

    Attributes
    ----------
    levels, number
        The weights, and the number of the night.
    ends
        Where the records of each range of ages end, the oldest first. Private.
    results
        Release of each earlier night that this one is read with, and the digest of its result, by its number.
    windows
        Numbers of nights whose records are released besides, and how many records came before them. Private.
    """

    levels: Levels
    number: int
    ends: tuple[int, ...]
    results: Mapping[int, tuple[Path, str]]
    windows: Mapping[int, int]

    def __repr__(self) -> str:
        """Show nothing."""
        return "ByAge()"


def growth_of(
    plan: Plan, series: Series, ledger: Ledger, root: Path, dataset: Dataset, contents: LedgerDigests
) -> Growth:
    """Compare the records of a night with those of the nights before it that share its charge.

    Parameters
    ----------
    plan, series
        The night, and the nights that share its charge.
    ledger, root
        Where charges stand, and the folder of all releases.
    dataset
        The opened records.
    contents
        Digests of records as the ledger has them.

    Raises
    ------
    DataError
        They do not begin with them, or with those that the night began with.
    LedgerError
        An earlier night was committed and is not released, or another one came in between.
    StoreError
        The records cannot be read.
    """
    levels = series.levels
    nights = {night_number(one.reserved): one for one in ledger.drawn_nights(plan.release_id, plan.public)}
    section = plan.config.continual
    windows = section.windows or () if section is not None else ()
    numbers = {*levels.needed(series.night), *(series.night - span for span in windows if span < series.night)}
    if any(number not in nights for number in numbers):
        raise refusals.another_night()
    unfinished = next((nights[number].reserved for number in numbers if not nights[number].released), None)
    if unfinished is not None:
        raise refusals.unfinished_night(str(unfinished.release_id))
    entries = reserved_entries(ledger, plan.config.release.account, plan.release_id)
    # The ledger refuses a charge without a history.
    own = entries[0] if entries and "history" in entries[0].payload["spec"]["data"] else None
    now = contents.renewals.now  # records of earlier nights may have been erased: each night draws noise of its own
    digests = [str(now(nights[number].reserved, "history")) for number in sorted(numbers)]
    history = History("")
    if own is None or contents.renewals.is_comparable(own):  # else it was published, or is refused: nothing is drawn
        history = history_of(dataset, contents.key, digests, None if own is None else now(own, "history"))
    end_of = dict(zip(sorted(numbers), history.ends, strict=False))
    rows = dataset.rows if own is None or not history.ends else history.ends[-1]
    ends = (*(end_of.get(series.night - age, 0) for age in reversed(levels.ages[1:])), rows)
    folder = root.joinpath(*plan.release_id.split("/")[:2])
    results = {
        number: (folder / str(nights[number].released["location"]), str(nights[number].released["running_total"]))
        for number in numbers
    }
    newest = nights[max(numbers)].reserved.charge_id if numbers else None
    return Growth(
        replace(dataset, rows=rows),
        history.digest if own is None else own.payload["spec"]["data"]["history"],
        contents.fingerprint(dataset, None) if own is None else own.payload["spec"]["data"]["fingerprint"],
        Night(newest),
        ByAge(levels, series.night, ends, results, {span: end_of.get(series.night - span, 0) for span in windows}),
    )


def needed_later(loaded: LoadedConfig, ledger: Ledger, day: date) -> set[date]:
    """Dates whose results later nights of a config's series are read with, unless the series ends before a date.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    section, release = loaded.config.continual, loaded.config.release
    if section is None or section.first + timedelta(days=section.nights - 1) < day:
        return set()
    owner = f"{release.dataset}/{release.name}/"
    nights, last, ages = list[tuple[int, date]](), 0, tuple[int, ...]()
    longest = max(section.windows or (), default=0)
    released = {entry.charge_id for entry in ledger.history(dataset=release.account) if entry.kind == State.RELEASED}
    for entry in reserved_entries(ledger, release.account):
        spec = entry.payload["spec"]
        ours = spec.get("continual", {}).get("first") == section.first.isoformat()
        if str(entry.release_id).startswith(owner) and ours:
            ages = Levels(section.nights, tuple(spec["calibration"]["continual"]["weights"])).ages
            number = night_number(entry)
            nights.append((number, date.fromisoformat(str(entry.release_id).rpartition("/")[2])))
            last = max(last, number) if entry.charge_id in released else last
    # The next night is read with the nights up to the largest age before it, and each later one with younger ones. It
    # is the one after the last that is released: one that is under way, or was interrupted, is still to be read.
    first = last + 1 - max(longest, *ages, 0)
    return {day for number, day in nights if number >= first}
