"""Merkle trees: one hash over many, of which each can be shown by the few hashes beside its way to the root.

**Source**: RFC 9162, section 2.1. An odd node goes up as it is, so that no leaf can stand in for two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over hashes of leaves, in order; of none that of the empty tree."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    half = split(len(leaves))
    return node(tree_root(leaves[:half]), tree_root(leaves[half:]))


def split(count: int) -> int:
    """Return the largest power of two below a number of leaves: how many lie below the left node."""
    return 1 << (count - 1).bit_length() - 1


def leaf(content: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + content).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of two nodes."""
    return hashlib.sha256(b"\x01" + left + right).digest()
