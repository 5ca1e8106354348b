"""That a row stands in a ledger, for somebody who may not read the ledger: a Merkle tree over the hashes of its rows.

A row's hash covers a random nonce, so that the hashes of a proof say nothing of other rows.

**Source**: RFC 9162, section 2.1 (tree hash, inclusion proof and its verification).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def tree_hash(leaves: Sequence[str]) -> str:
    """Root of the tree over the hashes of rows, in hexadecimal digits, in order; of none that of the empty tree."""
    return _root([bytes.fromhex(leaf) for leaf in leaves]).hex()


def inclusion_path(leaves: Sequence[str], index: int) -> tuple[str, ...]:
    """Hashes beside the way from a leaf to the root, the lowest first.

    Parameters
    ----------
    leaves
        Hashes of rows, as for :func:`tree_hash`.
    index
        Of the row, counted from 0.
    """
    return tuple(node.hex() for node in _path([bytes.fromhex(leaf) for leaf in leaves], index))


def is_included(leaf: str, index: int, size: int, path: Sequence[str], root: str) -> bool:
    """Whether a path leads from a leaf to a root.

    Parameters
    ----------
    leaf
        Hash of the row.
    index
        Its place, counted from 0.
    size
        Number of rows of the tree.
    path, root
        What :func:`inclusion_path` and :func:`tree_hash` gave.
    """
    if not 0 <= index < size:
        return False
    number, last = index, size - 1
    try:
        node = _leaf(bytes.fromhex(leaf))
        for each in path:
            beside = bytes.fromhex(each)
            if last == 0:
                return False
            if number % 2 or number == last:
                node = _node(beside, node)
                while number % 2 == 0 and number != 0:
                    number, last = number // 2, last // 2
            else:
                node = _node(node, beside)
            number, last = number // 2, last // 2
    except (TypeError, ValueError):
        return False
    return last == 0 and node.hex() == root


def _root(leaves: list[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return _leaf(leaves[0])
    half = _split(len(leaves))
    return _node(_root(leaves[:half]), _root(leaves[half:]))


def _path(leaves: list[bytes], index: int) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    half = _split(len(leaves))
    if index < half:
        return [*_path(leaves[:half], index), _root(leaves[half:])]
    return [*_path(leaves[half:], index - half), _root(leaves[:half])]


def _split(count: int) -> int:
    """Largest power of two below a number of leaves."""
    return 1 << (count - 1).bit_length() - 1


def _leaf(content: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + content).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
