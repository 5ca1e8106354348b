"""What a release shows by itself: no ledger, key, config or server is asked.

Its arrays must have the digest that it names, and its name and its pointer that digest too. Its loss must amount to
the epsilon and delta that it states, recomputed by :mod:`.exact_gaussian`; the noise that it states must be as large as
that loss says; and a unit of several rows must be charged for all of them.

A signature shows whose it is to whoever has the public key from elsewhere. That noise was drawn at all, and with a
secret key, no file can show. The findings list what is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from blockveil.pipeline.base.ed25519 import raw
from blockveil.pipeline.base.errors import BlockveilError, LedgerError, NotPermitted, StoreError, StoreUnreachable
from blockveil.pipeline.base.places import looked_into
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.derived_noise import DerivedDeviations
from blockveil.pipeline.data.pointers import POINTER, RELEASE_FOLDER, OutOfPlace, withdrawal_of
from blockveil.pipeline.data.released import OpenRelease, open_release
from blockveil.pipeline.data.signatures import fingerprint, signer_of
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.exact_gaussian import delta_of
from blockveil.pipeline.verification.findings import WITHDRAWN, Evidence, Finding, Verified
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_fisher import FisherCheck
from blockveil.pipeline.verification.stated_noise import row_loss
from blockveil.pipeline.verification.stated_numbers import Moved, stated_number
from blockveil.pipeline.verification.stated_sensitivity import moved
from blockveil.pipeline.verification.stated_sentence import sentence_holds
from blockveil.pipeline.verification.stated_stages import Stages

_NOTHING = Evidence()
_ROUNDING = 1.0 + 1e-12
_ROUNDED = Fraction(_ROUNDING)
"""Covers the roundings of a quotient or product of floats that the release states."""


def releases_at(place: Location) -> list[Location]:
    """The releases of a place: itself, or all that the pointers below a folder, here or of an address, lead to.

    Raises
    ------
    StoreError
        There is none, the address is none of an object store, or the store does not list its folder.
    """
    places: list[Location]
    if isinstance(place, str):
        if place.rstrip("/").endswith((".json", ".zarr")):
            objects.client(place)  # which contacts nobody, and refuses what is no address
            return [place]
        names = objects.names_below(place)
        places = sorted(f"{place.rstrip('/')}/{each}" for each in names if POINTER.fullmatch(each.rpartition("/")[2]))
    elif not place.is_dir() or RELEASE_FOLDER.fullmatch(place.resolve().name):
        return [place]
    else:
        places = sorted(each for each in _files_below(place) if POINTER.fullmatch(each.name))
    if not places:
        raise StoreError(
            f"{place} holds no release", "A release has a pointer, such as 2026-11-20.json", "Name another folder"
        )
    return places


def _files_below(folder: Path) -> Iterator[Path]:
    remedy = "Give this account permission to read it if it holds releases, and else name a folder of releases alone"
    for each in looked_into(folder, "All releases below a folder are checked, or none", remedy):
        if not each.is_dir() or each.is_symlink():
            yield each
        elif not RELEASE_FOLDER.fullmatch(each.name):  # its pointer stands beside it
            yield from _files_below(each)


def verify(place: Location, given: Evidence = _NOTHING, root: Location | None = None) -> Verified:
    """Check one release by itself.

    Parameters
    ----------
    place
        Its pointer or its folder, as a path or as an address in an object store.
    given
        What the reader has beside it.
    root
        Folder below which it was found.

    Raises
    ------
    StoreUnreachable
        Its store does not answer, so that nobody knows.
    NotPermitted
        This account may not read all of it, so that nobody knows either.
    """
    try:
        withdrawn = withdrawal_of(place)
        if withdrawn is not None:
            return Verified(withdrawn.release_id, (Finding(WITHDRAWN, False, withdrawn.words),), given.not_checked)
        release = open_release(place)
    except (NotPermitted, StoreUnreachable):
        raise
    except BlockveilError as error:
        what = "Place" if isinstance(error, OutOfPlace) else "Content"
        return Verified(str(place), (Finding(what, False, f"{error.value}. {error.rule}"),), given.not_checked)
    attributes = release.attributes
    findings = (
        _content(release),
        _place(place, release, root),
        _found_of(_promise, attributes),
        _found_of(_noise, attributes),
        _found_of(_by_records(release), attributes),
        _found_of(_unit, attributes),
        _found_of(_by_arrays(release), attributes),
        *([_found_of(_by_stages(release), attributes)] if "learned" in attributes else []),
        *([_found_of(_by_errors(release), attributes)] if FisherCheck(attributes, release.arrays).there else []),
        _signature(attributes, given.key),
        *([_found_of(_by_proofs(given), attributes)] if given.proofs else []),
        *([_approval(attributes, given.officers)] if given.officers or "approval" in attributes else []),
    )
    return Verified(str(attributes.get("release_id", release.name)), findings, given.not_checked)


def _content(release: OpenRelease) -> Finding:
    """Its values have the digest that it names; here its name has it too."""
    digest = str(release.attributes["output_digest"])
    holds = RELEASE_FOLDER.fullmatch(release.name) is None or release.name.endswith(f"-{digest[:16]}.zarr")
    words = f"it has the digest {digest[:16]}..."
    return Finding("Content", holds, words if holds else f"{words}, which its name does not have")


def _place(place: Location, release: OpenRelease, root: Location | None) -> Finding:
    """Folders below a root are called as its data set and name, and pointer and folder after its date."""
    own = str(release.attributes.get("release_id", "not stated"))
    if root is None or root == place:
        return Finding("Place", True, one_line(f"{own}, as its date is in its name"))
    above = str(place).removeprefix(str(root)).strip("/").split("/")[:-1][-2:]
    if above and above != own.split("/")[:2][-len(above) :]:
        # One folder alone may be anybody's; two are where a release of that data set and name belongs.
        holds = False if len(above) > 1 else None
        return Finding("Place", holds, one_line(f"{own}, which is not what its folders are called: {'/'.join(above)}"))
    return Finding("Place", True, one_line(f"{own}, as its folders and its date say"))


def _signature(stated: Mapping[str, Any], key: Ed25519PublicKey | None) -> Finding:
    """It is signed with the key that is given; without one, nobody is known to have signed it."""
    what = "Signature"
    try:
        signer = signer_of(stated)
    except ValueError as error:
        return Finding(what, False, str(error))
    if signer is None:
        return Finding(what, None if key is None else False, "it is not signed")
    name = fingerprint(signer)
    if key is None:
        return Finding(what, None, f"signed with a key that nobody vouched for here, {name}")
    if raw(signer) != raw(key):
        return Finding(what, False, f"signed with another key than the one that was given, {name}")
    return Finding(what, True, f"signed with the key that was given, {name}")


def _approval(stated: Mapping[str, Any], officers: tuple[Ed25519PublicKey, ...]) -> Finding:
    """An officer signed this very plan of it; without an officer's key, nobody is known to have done so."""
    from blockveil.pipeline.ledger.approved import Approved  # the ledger takes longer to import than most checks

    what, signed = "Approval", Approved.of(stated.get("approval"))
    if signed is None:
        words = "it states no signed approval" if "approval" not in stated else "its approval is not one"
        return Finding(what, False, words)
    if not signed.holds or (signed.release_id, signed.plan) != (stated.get("release_id"), stated.get("plan_digest")):
        return Finding(what, False, "its approval is not signed, or is of another release or plan")
    if not officers:
        return Finding(what, None, f"{one_line(signed.words)}; nobody vouched for that key here")
    if signed.key not in [raw(officer).hex() for officer in officers]:
        return Finding(what, False, f"{one_line(signed.words)}, which is none of the officers given")
    return Finding(what, True, f"{one_line(signed.words)}, an officer given")


def _by_proofs(given: Evidence) -> Callable[[Mapping[str, Any]], Finding]:
    """Check of the ledger by what the reader has."""

    def _ledger(stated: Mapping[str, Any]) -> Finding:
        """The entry that paid for it stands in the ledger, and it was not withdrawn when the proof was made."""
        what, entry = "Ledger", stated["ledger"]
        proof = next((one for one in given.proofs if one.row_hash == entry["row_hash"]), None)
        if proof is None:
            return Finding(what, None, "no proof of its entry was given")
        head = proof.head
        if proof.sequence != entry["sequence"] or not proof.holds:
            return Finding(what, False, "the proof does not lead from its entry to the head of the ledger")
        try:
            if given.ledger_key is not None:
                head.check(given.ledger_key)
        except LedgerError as error:
            return Finding(what, False, error.value)
        if proof.row_hash in head.withdrawn:
            return Finding(what, False, f"it was withdrawn by {head.time}")
        words = f"entry {proof.sequence} of {head.entries}, not withdrawn by {head.time}"
        if given.ledger_key is None:
            return Finding(what, None, f"{words}, by a head that nobody vouched for here: {head.hash[:16]}...")
        words = f"{words}, by a head that is signed with the key that was given"
        # A proof is of an entry, and says nothing of values: whoever can write a release can name the entry of another.
        if given.key is None or _signature(stated, given.key).holds is not True:
            return Finding(what, None, f"{words}; that the entry is of this release, only its signature shows")
        return Finding(what, True, words)

    return _ledger


def _found_of(check: Callable[[Mapping[str, Any]], Finding], stated: Mapping[str, Any]) -> Finding:
    """A check; what is not stated is not checked, and what is stated as something impossible fails."""
    what = check.__name__.removeprefix("_").capitalize()
    try:
        return check(stated)
    except KeyError:
        return Finding(what, None, "not checked: the release does not state what is needed")
    except (TypeError, ValueError, ArithmeticError, AttributeError, IndexError, MemoryError, RecursionError):
        return Finding(what, False, "the release states as a number what cannot be one here")


def _promise(stated: Mapping[str, Any]) -> Finding:
    """The delta of its loss at its epsilon is at most the delta that it states."""
    promise = stated["guarantee"]
    mu, pure, distance = (stated_number(promise["loss"], part) for part in ("mu", "epsilon", "total_variation"))
    epsilon, delta = stated_number(promise, "epsilon"), stated_number(promise, "delta")
    failure = stated_number(promise["loss"], "failure") if "failure" in promise["loss"] else 0.0
    loss_delta = delta_of(mu, pure, distance, epsilon) + Decimal(failure)
    parts = ((mu, f"mu {mu:.6g}"), (pure, f"a pure epsilon of {pure:.6g}"))
    loss = " and ".join(part for size, part in parts if size) or "nothing"
    words = f"a loss of {loss} has delta {float(loss_delta):.6g} at epsilon {epsilon:g}"
    if not sentence_holds(stated):
        return Finding("Promise", False, f"{words}; its sentence promises something else")
    return Finding("Promise", loss_delta <= Decimal(delta), f"{words}; {delta:g} is stated")


def _noise(stated: Mapping[str, Any]) -> Finding:
    """The noise that it states is as large as its loss says, for the sensitivity that it states."""
    if "sampling" in stated["mechanism"]:
        return _sampled(stated)
    row, loss = row_loss(stated), stated["mechanism"]["loss"]
    # The loss is that of all rows of a unit together; where their number is not stated, the unit is not checked.
    rows = {"charged_rows": 1, **stated["guarantee"]["contribution"]}
    # Of the kind that noise of this law has: no Gaussian noise has a pure epsilon, and that of Laplace noise is no mu.
    charged = stated_number(loss, row.part) / stated_number(rows, "charged_rows")
    holds = 0.0 < row.size <= charged * _ROUNDING
    return Finding("Noise", holds, f"{row.words} {row.size:.6g}; {charged:.6g} is charged for a row")


def _by_records(release: OpenRelease) -> Callable[[Mapping[str, Any]], Finding]:
    """Check of the sensitivity, with the arrays of a strategy."""

    def _sensitivity(stated: Mapping[str, Any]) -> Finding:
        """The sensitivity that it states is not less than what records of the declared bounds change."""
        if "steps" in stated["mechanism"] or "concentration" in stated["mechanism"]:
            return Finding("Sensitivity", True, "part of the noise, and recomputed with it")
        return _against(stated, moved(stated, release.arrays))

    return _sensitivity


def _by_arrays(release: OpenRelease) -> Callable[[Mapping[str, Any]], Finding]:
    """Check of the arrays against the noise that is stated."""

    def _arrays(stated: Mapping[str, Any]) -> Finding:
        """What has noise lies on its steps, and standard deviations are those of the stated noise."""
        # What a reader computes of them is not stored, and what it follows from is looked at.
        stored = {name: array for name, array in release.arrays.items() if not isinstance(array, DerivedDeviations)}
        try:
            stored = FisherCheck(stated, Stages(stated, stored).last).others
            check = ArrayCheck(stated, stored)
            check.run()
        except OtherArray as problem:
            return Finding("Arrays", False, one_line(str(problem)))
        except KeyError as missing:
            # What is left out cannot be a way round: a release states all that its arrays follow from.
            return Finding(
                "Arrays", False, one_line(f"the release does not state {missing}, which its arrays follow from")
            )
        checked = len(set(check.checked) - set(check.reasons))
        rest = "; ".join(f"{', '.join(names)}: {why}" for why, names in _by_reason(check.reasons))
        words = f"{checked} of {len(stored)} follow from the stated noise, or lie on its steps"
        return Finding("Arrays", True, one_line(f"{words}; not checked: {rest}" if rest else words))

    return _arrays


def _by_stages(release: OpenRelease) -> Callable[[Mapping[str, Any]], Finding]:
    """Check of the stages before the answer, from which it was learned what that is best about."""

    def _stages(stated: Mapping[str, Any]) -> Finding:
        """Their noise, sensitivities and arrays are what they state, and all of them together lose what is promised."""
        try:
            failure = Stages(stated, release.arrays).failure()
        except (OtherArray, KeyError) as problem:
            failure = one_line(f"they do not state or hold {problem}")
        if failure is not None:
            return Finding("Stages", False, failure)
        learned = stated["learned"]
        words = f"{len(learned['stages']) + 1} under one promise"
        words += f"; records are in the {learned['domain']} that they gave" if "domain" in learned else ""
        return Finding("Stages", True, words)

    return _stages


def _by_errors(release: OpenRelease) -> Callable[[Mapping[str, Any]], Finding]:
    """Check of the stage from which errors of coefficients follow."""

    def _errors(stated: Mapping[str, Any]) -> Finding:
        """Its noise, sensitivity and arrays are what it states, and it loses what is promised together with steps."""
        try:
            failure = FisherCheck(stated, release.arrays).failure()
        except (OtherArray, KeyError) as problem:
            failure = one_line(f"the stage does not state or hold {problem}")
        return Finding(
            "Errors", failure is None, failure or "what they follow from is under one promise with the steps"
        )

    return _errors


def _by_reason(reasons: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Why arrays are not checked, and which ones."""
    return [(why, sorted(name for name in reasons if reasons[name] == why)) for why in sorted(set(reasons.values()))]


def _against(stated: Mapping[str, Any], found: Moved) -> Finding:
    what, mechanism = "Sensitivity", stated["mechanism"]
    squared = (Fraction(stated_number(mechanism, "sensitivity")) * _ROUNDED) ** 2
    ends = f"{stated_number(mechanism, 'sensitivity'):.6g} is stated"
    if squared < found.least:
        return Finding(what, False, f"some records change the answer by {_root(found.least)}; {ends}")
    if found.most is not None and squared >= found.most:
        return Finding(what, True, f"recomputed: no record changes the answer by more than {_root(found.most)}; {ends}")
    return Finding(what, None, f"lower bound only: some records change the answer by {_root(found.least)}; {ends}")


def _root(square: Fraction) -> str:
    return f"{math.sqrt(square):.6g}"


def _sampled(stated: Mapping[str, Any]) -> Finding:
    """The noise of steps over samples keeps the promise by the accountant of another library."""
    from dp_accounting import dp_event  # imported only where it is needed: it loads slowly
    from dp_accounting.pld import PLDAccountant

    promise, sampling = stated["guarantee"], stated["mechanism"]["sampling"]
    probability, steps = stated_number(sampling, "probability"), int(stated_number(sampling, "steps"))
    row, epsilon = row_loss(stated), stated_number(promise, "epsilon")
    if row.part != "mu" or promise["neighbours"] != "add-remove":
        words = "sampled steps are accounted for with Gaussian noise and neighbours that add or remove a record alone"
        return Finding("Noise", False, words)
    multiplier = 1.0 / row.size
    training = stated["query"]["training"]
    if (probability, steps) != (stated_number(training, "sampling_probability"), int(stated_number(training, "steps"))):
        return Finding("Noise", False, "its samples are not those of its query")
    step = dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(multiplier))
    all_steps = PLDAccountant().compose(dp_event.SelfComposedDpEvent(step, steps))
    total_epsilon = all_steps.get_epsilon(stated_number(promise, "delta"))
    words = f"{steps:,} steps over samples of {probability:g}, with noise {multiplier:.4g} times what a record changes"
    words = f"{words}, have epsilon {total_epsilon:.4g} by dp-accounting; {epsilon:g} is stated"
    return Finding("Noise", total_epsilon <= epsilon * _ROUNDING, words)


def _unit(stated: Mapping[str, Any]) -> Finding:
    """A unit is charged for all the rows that it may have."""
    promise, loss = stated["guarantee"], stated["mechanism"]["loss"]
    rows, unit = stated_number(promise["contribution"], "charged_rows"), promise["loss"]
    # Group privacy: losses of rows add up, mu to mu and epsilon to epsilon.
    if "sampling" in stated["mechanism"]:  # whose loss follows from its law, for one row
        holds = rows == 1
    else:
        row = row_loss(stated)
        holds = rows >= 1 and rows * row.size <= stated_number(unit, row.part) * _ROUNDING
    # What the mechanism loses is part of the promise: also the sampler's distance, and a failure where it has one.
    parts = {"mu", "epsilon", "total_variation"} | set(loss)
    holds = holds and all(stated_number(loss, part) <= stated_number(unit, part) * _ROUNDING for part in parts)
    return Finding("Unit", holds, f"{promise['privacy_unit']} is charged for {rows:,.0f} row{'s' * (rows != 1)}")
