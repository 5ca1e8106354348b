"""That a row stands in a ledger, for somebody who may not read the ledger: a Merkle tree over the hashes of its rows.

A row's hash covers a random nonce, so that the hashes of a proof say nothing of other rows.

**Source**: RFC 9162, section 2.1 (tree hash, inclusion proof and its verification).
"""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.base.hash_tree import leaf as leaf_hash
from blockveil.pipeline.base.hash_tree import node as node_hash
from blockveil.pipeline.base.hash_tree import split, tree_root


def tree_hash(leaves: Sequence[str]) -> str:
    """Root of the tree over the hashes of rows, in hexadecimal digits, in order; of none that of the empty tree."""
    return tree_root(_hashes(leaves)).hex()


def inclusion_path(leaves: Sequence[str], index: int) -> tuple[str, ...]:
    """Hashes beside the way from a leaf to the root, the lowest first.

    Parameters
    ----------
    leaves
        Hashes of rows, as for :func:`tree_hash`.
    index
        Of the row, counted from 0.
    """
    return tuple(node.hex() for node in _path(_hashes(leaves), index))


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
        node = leaf_hash(bytes.fromhex(leaf))
        for each in path:
            beside = bytes.fromhex(each)
            if last == 0:
                return False
            if number % 2 or number == last:
                node = node_hash(beside, node)
                while number % 2 == 0 and number != 0:
                    number, last = number // 2, last // 2
            else:
                node = node_hash(node, beside)
            number, last = number // 2, last // 2
    except (TypeError, ValueError):
        return False
    return last == 0 and node.hex() == root


def _hashes(leaves: Sequence[str]) -> list[bytes]:
    return [leaf_hash(bytes.fromhex(leaf)) for leaf in leaves]


def _path(leaves: list[bytes], index: int) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    half = split(len(leaves))
    if index < half:
        return [*_path(leaves[:half], index), tree_root(leaves[half:])]
    return [*_path(leaves[half:], index - half), tree_root(leaves[:half])]
