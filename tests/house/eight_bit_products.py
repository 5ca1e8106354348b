"""Products in eight bits for tests: one that every machine has, and the one that this machine would choose."""

from __future__ import annotations

import numpy as np
import pytest

from blockveil.engine.answers import eight_bit


class ProductByNumPy:
    """The definition, in NumPy's whole numbers."""

    def bind(self, left, right, sums):
        """See :class:`.eight_bit.ByteProduct`."""

        def multiply():
            # Exact: sums of at most 65,793 products of at most 2**14 in double precision.
            sums[...] = (left.astype(np.float64) - 128) @ right.astype(np.float64)

        return multiply

    def bind_turned(self, right, left):
        """See :class:`.eight_bit.ByteProduct`."""

        def turn():
            left[...] = right.T.astype(np.int16) + 128

        return turn


def use(product, halves=False):
    """Let sums of products work with this product, of halves too, or by BLAS."""
    eight_bit.use(eight_bit.Choice(product, halves, "a test"))


def of_this_machine():
    """What onnxruntime multiplies with here; the test is skipped where that is not exact."""
    pytest.importorskip("onnxruntime")
    product = eight_bit._OnnxRuntime()
    try:
        eight_bit.check(product)
    except eight_bit.InexactProduct:
        pytest.skip("products in eight bits are not exact on this processor")
    return product
