"""A certificate: one page to print, of one release or of all of a period, and how to check it without its maker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import cap_sentence
from blockveil.pipeline.ledger.proofs import Proof
from blockveil.pipeline.plan.balance import balance
from blockveil.pipeline.report.certified import Account, Certified, Paid
from blockveil.pipeline.report.evaluation import LEDGER
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.markup import document
from blockveil.pipeline.report.report_sections import ReportSection
from blockveil.pipeline.report.words import plain_words, source_rows

LONGEST = 40
"""Features whose bounds stand on the page; the release holds the others."""

_CHECKED = "the release as it was checked for this page"
_NO_LEDGER = "No ledger was asked, so that this page states neither what all releases promise together nor who agreed."
_ELSEWHERE = "drawn by another program; the ledger knows what it cost"
_NEVER = (
    "No file can show that noise was drawn, and with a secret key: whoever has the key of a signature can sign "
    "anything. For that a reader has to believe whoever made the release."
)


def of_release(release: Certified, account: Account | None, proof: Proof | None) -> str:
    """Page of one release.

    Raises LedgerError or StoreError where the ledger says something else of it, or that it was withdrawn.

    Parameters
    ----------
    release
        The release, checked.
    account
        Its budget; None where no ledger was asked.
    proof
        Place of its entry in the ledger, likewise.
    """
    charge = None if account is None else account.check(release)
    attributes = release.attributes
    guarantee = attributes["guarantee"]
    heading = ReportSection(
        title="Certificate of a differentially private release",
        sentences=[f"{release.release_id}. {attributes['title']}"],
        look="under",
        source="release_id, title",
    )
    words = plain_words(guarantee, None if account is None else account.together)
    sections = [
        ReportSection(
            title="What is promised?",
            within=[
                ReportSection(sentences=[words], look="promise"),
                ReportSection(
                    sentences=[f"In the terms of differential privacy: {guarantee['sentence']}"], look="exact"
                ),
            ],
            source="guarantee" if account is None else f"guarantee, {LEDGER}",
        ),
        _together(account),
        ReportSection(
            title="Whom does it protect, and within which bounds?",
            lines=_unit(guarantee),
            within=_bounds(attributes["query"]),
            source="guarantee, query",
        ),
        _agreed(account, charge),
        ReportSection(
            title="What is it?",
            lines=_identity(attributes),
            source="output_digest, plan_digest, mechanism.mechanism, ledger, software",
        ),
        ReportSection(
            title="What was checked for this page?",
            lines=release.checked,
            within=[ReportSection(sentences=[f"Not checked: {release.not_checked}."])],
            source=_CHECKED if account is None else f"{_CHECKED}, {LEDGER}",
        ),
        _how([proof] if proof is not None else []),
    ]
    return document([heading, *sections])


def of_period(account: Account, paid: Sequence[Paid], releases: Mapping[str, Certified], days: str) -> str:
    """Page of all releases of a budget in a period.

    Parameters
    ----------
    account
        The budget.
    paid
        What the ledger says of each release.
    releases
        Those that are here, checked, by their ids.
    days
        The period, in words.
    """
    for release in releases.values():
        account.check(release)
    rows = [_row(each, releases.get(each.release_id)) for each in paid]
    here = f"The ledger knows {len(paid):,} releases of these nights, {len(releases):,} of which are here."
    heading = ReportSection(
        title="Certificate of differentially private releases",
        sentences=[f"Budget of {account.status.dataset}, {days}"],
        look="under",
        source="what was asked for",
    )
    sections = [
        _together(account),
        ReportSection(
            title="What was released?",
            sentences=[here],
            table=rows,
            source=f"guarantee.epsilon, guarantee.delta, {LEDGER}",
        ),
        _agreed(account, None),
        _how([]),
    ]
    return document([heading, *sections])


def _row(paid: Paid, release: Certified | None) -> dict[str, str]:
    absent = "withdrawn" if paid.withdrawn is not None else "not here, and not checked" if paid.digest else _ELSEWHERE
    return {
        "release": paid.release_id,
        "promise": "" if release is None else _epsilon(release.attributes["guarantee"]),
        "values (SHA-256)": paid.digest,
        "ledger": f"entry {paid.entry[0]}",
        "approval": paid.approval,
        "state": absent if release is None else "checked; stands",
    }


def _epsilon(guarantee: Mapping[str, Any]) -> str:
    return f"epsilon {guarantee['epsilon']:g} at delta {guarantee['delta']:g}"


def _together(account: Account | None) -> ReportSection:
    title = "What do all releases of its budget promise together?"
    if account is None:
        return ReportSection(title=title, sentences=[_NO_LEDGER])
    promise = ReportSection(sentences=[cap_sentence(account.together)])
    return ReportSection(title=title, lines=balance(account.status), within=[promise], source=LEDGER)


def _unit(guarantee: Mapping[str, Any]) -> Rows:
    unit = Contribution.read(guarantee)
    return [
        ("Privacy unit", unit.unit),
        ("Neighbouring data sets", str(guarantee["neighbours"])),
        ("Rows of a unit", unit.sentence),
        ("Not protected", unit.not_protected),
    ]


def _bounds(query: Mapping[str, Any]) -> list[ReportSection]:
    """What was asked, and the bounds within which each record counts."""
    ranges = list(_ranges(query))
    features = [{"feature": name, "least": least, "largest": most} for name, least, most in ranges[:LONGEST]]
    more = len(ranges) - LONGEST
    return [
        ReportSection(lines=[*_plain(query), *source_rows(dict(query))], table=features),
        ReportSection(sentences=[f"The release states the bounds of {more:,} more."] if more > 0 else []),
    ]


def _plain(query: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, str]]:
    """Single values that a query states, by their keys."""
    for key, value in query.items():
        name = f"{under}{key}"
        if isinstance(value, Mapping):
            yield from _plain(value, f"{name}.")
        elif isinstance(value, float):
            yield name, number(value)
        elif isinstance(value, str | int):
            yield name, str(value)


def _ranges(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Names with their least and largest values, wherever a query states them."""
    for value in query.values():
        if isinstance(value, Mapping):
            yield from _ranges(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Mapping) and {"name", "lower", "upper"} <= each.keys():
                    yield str(each["name"]), number(each["lower"]), number(each["upper"])


def _agreed(account: Account | None, paid: Paid | None) -> ReportSection:
    title = "Who agreed?"
    if account is None:
        return ReportSection(title=title, sentences=[_NO_LEDGER])
    grants = [(f"Budget, {time[:10]}", text) for time, text in account.grants]
    lines = [*grants, *([] if paid is None else [("Approval", paid.approval)])]
    return ReportSection(title=title, lines=lines, source=LEDGER)


def _identity(stated: Mapping[str, Any]) -> Rows:
    software = ", ".join(f"{name} {version}" for name, version in sorted(stated["software"].items()))
    return [
        ("Content (SHA-256)", str(stated["output_digest"])),
        ("Plan (SHA-256)", str(stated["plan_digest"])),
        ("Mechanism", str(stated["mechanism"]["mechanism"])),
        ("Ledger", f"entry {stated['ledger']['sequence']}, hash {stated['ledger']['row_hash']}"),
        ("Software", software),
    ]


def _how(proofs: Sequence[Proof]) -> ReportSection:
    """What a reader does who trusts neither this page nor whoever made it."""
    steps = [
        "Get the release from where it was published, and Blockveil from a package index or its source. Neither needs "
        "to come from whoever made this page.",
        "Run `blockveil verify RELEASE`: it recomputes the digest of the values, and promise, noise and unit by "
        "arithmetic of its own. Compare its digests with those of this page.",
        "Give it the curator's public key with `--key`, taken from a place that you trust: the release is theirs only "
        "if it is signed with that key.",
        "Write the line below into a file and give it with `--proof`, and the keeper's key with `--ledger-key`: the "
        "entry stands in the ledger, and the release had not been withdrawn by then."
        if proofs
        else "Ask the ledger's keeper for what `blockveil ledger prove` prints, and give it with `--proof`: the "
        "release was paid for, and had not been withdrawn by then.",
    ]
    return ReportSection(
        title="How can this be checked without us?",
        within=[
            ReportSection(sentences=steps, look="list"),
            *(ReportSection(code=each.to_json(), source=LEDGER) for each in proofs),
            ReportSection(sentences=[_NEVER]),
        ],
    )
