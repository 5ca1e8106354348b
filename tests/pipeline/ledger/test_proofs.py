"""A proof shows that an entry stands in a ledger, shows nothing of others, and holds for no other entry or ledger."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Head
from blockveil.pipeline.ledger.inclusion import inclusion_path, is_included, tree_hash
from blockveil.pipeline.ledger.proofs import Proof
from blockveil.testing.ledger_support import make, reserve

RELEASE = "people/covariance/{}"


def leaves_of(count):
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]


def test_the_tree_hash_is_that_of_the_standard():
    def of(prefix, *parts):
        return hashlib.sha256(prefix + b"".join(parts)).digest()

    a, b, c = (of(b"\0", bytes.fromhex(leaf)) for leaf in leaves_of(3))
    assert tree_hash([]) == hashlib.sha256(b"").hexdigest()
    assert tree_hash(leaves_of(1)) == a.hex()
    assert tree_hash(leaves_of(2)) == of(b"\1", a, b).hex()
    assert tree_hash(leaves_of(3)) == of(b"\1", of(b"\1", a, b), c).hex()
    assert inclusion_path(leaves_of(3), 2) == (of(b"\1", a, b).hex(),)


@given(st.integers(1, 70), st.data())
def test_each_leaf_is_included_at_its_own_place_and_nowhere_else(count, data):
    leaves, index = leaves_of(count), data.draw(st.integers(0, count - 1))
    path, root = inclusion_path(leaves, index), tree_hash(leaves)
    assert is_included(leaves[index], index, count, path, root)
    other = data.draw(st.integers(-1, count).filter(lambda place: place != index))
    assert not is_included(leaves[index], other, count, path, root)
    if 0 <= other < count:
        assert not is_included(leaves[other], index, count, path, root)
    assert not is_included(leaves[index], index, count, (*path, leaves[0]), root)
    if path:
        assert not is_included(leaves[index], index, count, path[:-1], root)
        assert not is_included(leaves[index], index, count, ("zz", *path[1:]), root)
    assert not is_included(leaves[index], index, count, path, tree_hash([*leaves, leaves[0]]))


@pytest.fixture
def ledger(tmp_path):
    made = make(tmp_path)
    for night in ("1", "2"):
        charge = reserve(made, night, mu=0.01)
        made.commit(charge.charge_id, "check")
        made.released(charge.charge_id, "d" * 64, "x.zarr")
    reserve(made, "3", mu=0.01)
    return made


def test_a_release_that_was_paid_for_has_a_proof_which_comes_back_from_its_text(ledger):
    for night in ("1", "2"):
        found = ledger.proof(RELEASE.format(night))
        assert found.holds
        assert Proof.from_json(found.to_json()) == found
        charge = ledger.find(RELEASE.format(night))
        assert (found.sequence, found.row_hash) == (charge.sequence, charge.row_hash)
        assert found.head == ledger.head()


@pytest.mark.parametrize("night", ["3", "4"])
def test_what_was_not_committed_has_none(ledger, night):
    with pytest.raises(LedgerError, match="No charge"):
        ledger.proof(RELEASE.format(night))


def test_a_proof_says_nothing_of_other_entries_but_hashes(ledger):
    text = ledger.proof(RELEASE.format("1")).to_json()
    said = set(json.loads(text)["path"]) | {json.loads(text)["row_hash"]}
    assert all(len(each) == 64 and int(each, 16) >= 0 for each in said)
    assert "people" not in text


def test_a_proof_of_one_release_is_none_of_another(ledger):
    first, second = (ledger.proof(RELEASE.format(night)) for night in ("1", "2"))
    assert not replace(first, row_hash=second.row_hash).holds
    assert not replace(first, sequence=second.sequence).holds
    assert not replace(first, path=second.path).holds
    assert not replace(first, head=replace(first.head, root=hashlib.sha256(b"another ledger").hexdigest())).holds


def test_a_head_names_what_was_withdrawn_and_its_signature_covers_that(ledger):
    key = "a secret of at least thirty-two characters"
    assert ledger.head().withdrawn == ()
    ledger.withdraw(RELEASE.format("1"), "wrong")
    head = ledger.head().signed(key)
    assert head.withdrawn == (ledger.find(RELEASE.format("1")).row_hash,)
    head.check(key)
    assert Head.from_json(head.to_json()) == head
    for changed in (replace(head, withdrawn=()), replace(head, root="0" * 64), replace(head, root="")):
        with pytest.raises(LedgerError):
            changed.check(key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[" * 100_000,
        '{"sequence": 1, "row_hash": "aa", "path": [], "head": {"entries": 1, "hash": "aa", "time": ""}}',
        '{"sequence": true, "row_hash": "aa", "path": [1], "head": null}',
    ],
)
def test_what_is_no_proof_is_refused(text):
    with pytest.raises(LedgerError, match="not readable"):
        Proof.from_json(text)
