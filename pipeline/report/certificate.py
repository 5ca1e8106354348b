"""A certificate: one page to print, of one release or of all of a period, and how to check it without its maker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blockveil.pipeline.base.printable import as_html
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger.guessing import cap_sentence
from blockveil.pipeline.ledger.proofs import Proof
from blockveil.pipeline.report import bounds_source
from blockveil.pipeline.report.certified import Account, Certified, Paid
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.markup import (
    document,
    grid,
    heading,
    pairs,
    paragraph,
    promise,
    section,
    sourced,
    sourced_section,
)
from blockveil.pipeline.report.words import plain_words

LONGEST = 40
"""Features whose bounds stand on the page; the release holds the others."""

_LEDGER, _CHECKED = "the ledger", "the release as it was checked for this page"
_NO_LEDGER = "No ledger was asked, so that this page states neither what all releases promise together nor who agreed."
_ELSEWHERE = "drawn by another program; the ledger knows what it cost"
_NEVER = (
    "No file can show that noise was drawn, and with a secret key: whoever has the key of a signature can sign "
    "anything. For that a reader has to believe whoever made the release."
)


def of_release(release: Certified, account: Account | None, proof: Proof | None) -> str:
    """Page of one release.

    Parameters
    ----------
    release
        The release, checked.
    account
        Its budget; None where no ledger was asked.
    proof
        Place of its entry in the ledger, likewise.

    Raises
    ------
    LedgerError, StoreError
        The ledger says something else of it, or that it was withdrawn.
    """
    paid = None if account is None else account.check(release)
    stated = release.attributes
    guarantee = stated["guarantee"]
    parts = [
        sourced(
            "release_id, title",
            heading("Certificate of a differentially private release", f"{release.release_id}. {stated['title']}"),
        ),
        sourced_section(
            "guarantee" if account is None else f"guarantee, {_LEDGER}",
            "What is promised?",
            promise(plain_words(guarantee, None if account is None else account.together)),
            paragraph(f"In the terms of differential privacy: {guarantee['sentence']}", "exact"),
        ),
        _together(account),
        sourced_section(
            "guarantee, query",
            "Whom does it protect, and within which bounds?",
            pairs(_unit(guarantee)),
            *_bounds(stated["query"]),
        ),
        _agreed(account, paid),
        sourced_section(
            "output_digest, plan_digest, mechanism.mechanism, ledger, software", "What is it?", pairs(_identity(stated))
        ),
        sourced_section(
            _CHECKED if account is None else f"{_CHECKED}, {_LEDGER}",
            "What was checked for this page?",
            pairs(release.checked),
            paragraph(f"Not checked: {release.not_checked}."),
        ),
        _how([proof] if proof is not None else []),
    ]
    return document(f"Certificate of {release.release_id}", parts)


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
    parts = [
        sourced(
            "what was asked for",
            heading("Certificate of differentially private releases", f"Budget of {account.status.dataset}, {days}"),
        ),
        _together(account),
        sourced_section(
            f"guarantee.epsilon, guarantee.delta, {_LEDGER}",
            "What was released?",
            paragraph(f"The ledger knows {len(paid):,} releases of these nights, {len(releases):,} of which are here."),
            *([grid(rows)] if rows else []),
        ),
        _agreed(account, None),
        _how([]),
    ]
    return document(f"Certificate of {account.status.dataset}, {days}", parts)


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


def _together(account: Account | None) -> str:
    title = "What do all releases of its budget promise together?"
    if account is None:
        return section(title, paragraph(_NO_LEDGER))
    return sourced_section(_LEDGER, title, pairs(account.balance), paragraph(cap_sentence(account.together)))


def _unit(guarantee: Mapping[str, Any]) -> Rows:
    unit = Contribution.read(guarantee)
    return [
        ("Privacy unit", unit.unit),
        ("Neighbouring data sets", str(guarantee["neighbours"])),
        ("Rows of a unit", unit.sentence),
        ("Not protected", unit.not_protected),
    ]


def _bounds(query: Mapping[str, Any]) -> list[str]:
    """What was asked, and the bounds within which each record counts."""
    ranges = list(_ranges(query))
    shown = [{"feature": name, "least": least, "largest": most} for name, least, most in ranges[:LONGEST]]
    more = len(ranges) - LONGEST
    return [
        pairs([*_plain(query), *bounds_source.source_rows(dict(query))]),
        *([grid(shown)] if shown else []),
        *([paragraph(f"The release states the bounds of {more:,} more.")] if more > 0 else []),
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


def _agreed(account: Account | None, paid: Paid | None) -> str:
    title = "Who agreed?"
    if account is None:
        return section(title, paragraph(_NO_LEDGER))
    grants = [(f"Budget, {time[:10]}", text) for time, text in account.grants]
    return sourced_section(_LEDGER, title, pairs([*grants, *([] if paid is None else [("Approval", paid.approval)])]))


def _identity(stated: Mapping[str, Any]) -> Rows:
    software = ", ".join(f"{name} {version}" for name, version in sorted(stated["software"].items()))
    return [
        ("Content (SHA-256)", str(stated["output_digest"])),
        ("Plan (SHA-256)", str(stated["plan_digest"])),
        ("Mechanism", str(stated["mechanism"]["mechanism"])),
        ("Ledger", f"entry {stated['ledger']['sequence']}, hash {stated['ledger']['row_hash']}"),
        ("Software", software),
    ]


def _how(proofs: Sequence[Proof]) -> str:
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
    listed = "".join(f"<li>{as_html(each)}</li>" for each in steps)
    lines = "".join(sourced(_LEDGER, f"<pre>{as_html(each.to_json())}</pre>") for each in proofs)
    return section("How can this be checked without us?", f"<ol>{listed}</ol>{lines}", paragraph(_NEVER))
