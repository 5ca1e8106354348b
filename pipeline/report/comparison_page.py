"""A comparison of two nights as a page and as JSON."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.comparison import Change, Comparison
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.machine_readable import VERSION, plain
from blockveil.pipeline.report.number_sources import Sources
from blockveil.pipeline.report.pictures import difference_map
from blockveil.pipeline.report.report_sections import ReportSection, as_values

_BAND = (
    "A difference has the noise of both releases. The band holds all differences at once, in 95 of 100 pairs of nights "
    "on which nothing has changed; that of means and covariances is wider where the count is uncertain."
)


def title(found: Comparison) -> str:
    """What is compared."""
    mine, earlier = (facts.attributes["release_id"] for facts in (found.release, found.earlier))
    return f"{mine} against {earlier}"


def sentence(found: Comparison) -> str:
    """The outcome in one sentence."""
    label = found.release.entries
    alone = (
        f"noise alone makes none of the {found.held:,} numbers looked at differ so far, in 95 of 100 unchanged pairs"
    )
    others = [name for name in found.numbers if _beyond(found, name)]
    if found.beyond:
        return (
            f"{found.beyond:,} of {found.entries:,} {label} differ by more than noise explains ({alone}): what was "
            "measured has changed, be it the data or the config."
        )
    one = found.release.presenter.entry or f"{label.removesuffix('ies')}y"
    within = f"No {one} differs by more than the noise of the two releases explains"
    if not others:
        return f"{within}, and no other number does: {alone}."
    names = " and ".join(name.replace("_", " ") for name in others)
    return f"{within}, but {names} does ({alone}): what was measured has changed, be it the data or the config."


def lines(found: Comparison) -> Rows:
    """The outcome in a few lines."""
    others = [
        (name.replace("_", " "), f"{_beyond(found, name):,} of {len(changes):,} differ by more than noise explains")
        for name, changes in found.numbers.items()
    ]
    turn, spread = found.turn, found.mean_square_error
    angle = (
        f"the {turn.dimension} leading directions have turned by up to {turn.angle:.3g} degrees; "
        f"noise alone turns them by about {turn.noise_angle:.3g}"
        if turn.dimension
        else "no direction stands out from the noise in both releases, or all do: nothing to compare"
    )
    expectation = "about 1" if spread is None else f"1, give or take {spread:.2g},"
    if found.one_charge:
        expectation = "1 at most, since nights of one charge share noise,"
    one = found.release.presenter.entry
    of = f"{one}s" if one else f"Entries of the {found.release.label}"
    return [
        (of, f"{found.beyond:,} of {found.entries:,} differ by more than noise explains"),
        *others,
        ("Simultaneous band", f"{found.band:.3g} standard errors at least, for {found.held:,} numbers at once"),
        (
            "Mean squared difference",
            f"{found.mean_square:.4g} in units of the noise of both; {expectation} if nothing has changed",
        ),
        *([] if one else [("Leading subspace", angle)]),
    ]


def _beyond(found: Comparison, name: str) -> int:
    return sum(change.beyond for change in found.numbers[name])


def change_rows(changes: tuple[Change, ...]) -> list[dict[str, str]]:
    """Changes as text."""
    return [
        {
            "what": change.what,
            "now": number(change.value),
            "then": number(change.earlier),
            "difference": number(change.value - change.earlier),
            "its standard error": number(change.error),
            "in standard errors": f"{change.score:.2f}",
            "more than noise": "yes" if change.beyond else "no",
        }
        for change in changes
    ]


def page_sections(found: Comparison) -> list[ReportSection]:
    """All that the page of a comparison says, its heading first."""
    both = f"{Sources(found.release).arrays}, of both releases"
    text = (
        f"Heat map of the difference of two releases of the {found.release.label}. "
        f"{found.beyond:,} of {found.entries:,} entries differ by more than noise explains."
    )
    picture = difference_map(found.cells, found.release.matrix, found.band, text)
    return [
        ReportSection(title=title(found), source="release_id, of both releases"),
        ReportSection(sentences=[sentence(found)], look="promise", source=both),
        *([ReportSection(sentences=found.warnings, look="warning", source=both)] if found.warnings else []),
        ReportSection(title="What differs", sentences=[_BAND], lines=lines(found), picture=picture, source=both),
        *(
            [ReportSection(title="Largest differences", table=change_rows(found.largest), source=both)]
            if found.largest
            else []
        ),
        *(
            ReportSection(
                title=f"Difference of the {name.replace('_', ' ')}",
                table=change_rows(changes[:200]),
                source=f"{name}, {name}_standard_deviation, of both releases",
            )
            for name, changes in found.numbers.items()
        ),
        ReportSection(
            title="What differs between the configs",
            sentences=found.configs or ["Nothing."],
            look="list" if found.configs else "",
            source="query, guarantee, mechanism, of both releases",
        ),
        ReportSection(
            title="Costs no privacy",
            sentences=["Both releases were paid for; comparing them reads nothing else."],
        ),
    ]


def content(found: Comparison) -> dict[str, Any]:
    """Sections of the page, and its numbers as such, as plain JSON values."""
    return plain(
        {
            "blockveil_comparison": VERSION,
            "release_id": found.release.attributes["release_id"],
            "against": found.earlier.attributes["release_id"],
            "output_digests": [facts.attributes["output_digest"] for facts in (found.release, found.earlier)],
            "sentence": sentence(found),
            "matrix": {
                "name": found.release.kind,
                "entries": found.entries,
                "beyond_band": found.beyond,
                "band_in_standard_errors": found.band,
                "numbers_held_at_once": found.held,
                "mean_squared_score": found.mean_square,
                "mean_squared_score_error": found.mean_square_error,
                "largest": [_change(change) for change in found.largest],
            },
            "numbers": {
                name: {
                    "beyond_band": _beyond(found, name),
                    "changes": [_change(change) for change in changes[:200]],
                }
                for name, changes in found.numbers.items()
            },
            "leading_subspace": {
                "dimension": found.turn.dimension,
                "largest_angle_degrees": found.turn.angle,
                "angle_from_noise_degrees": found.turn.noise_angle,
            },
            "sections": as_values(page_sections(found)),
        }
    )


def _change(change: Change) -> dict[str, Any]:
    return {
        "what": change.what,
        "value": change.value,
        "earlier": change.earlier,
        "standard_error": change.error,
        "in_standard_errors": change.score,
        "beyond_band": change.beyond,
    }
