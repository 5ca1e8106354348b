"""Compiled halves give the sums that NumPy gives, and nothing that gives other ones is used."""

import ast
import inspect

import numba
import numpy as np
import pytest

from blockveil.engine.answers import compiled_halves, gram, layout
from blockveil.engine.answers.compiled_halves import HalvesMismatch
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from tests.house.eight_bit_products import ProductByNumPy, use

COMPILER = numba.njit(nogil=True)


@pytest.fixture(scope="module")
def kernels():
    return compiled_halves.compiled_by(COMPILER)


@pytest.fixture(autouse=True)
def _only_here():
    use(ProductByNumPy(), halves=True)
    yield
    use(None)
    compiled_halves.use(None)


@pytest.mark.parametrize("side", [331, 130])
def test_tiles_of_one_panel_and_of_several_are_what_numpy_gives(kernels, side):
    box = Box(np.full(330, -1.0), np.linspace(1.0, 9.0, 330), np.zeros(330))
    asked = SecondMomentQuery(Quantiser(box.coordinates(), 32767, True, None))
    records = np.random.default_rng(3).standard_normal((2500, 330)) * 2.0
    tiles, found = layout.grid((331, 331), True, 1, side), []
    for used in (None, kernels):
        compiled_halves.use(used)
        found.append(asked.partial(records, 0, len(records), 900, tiles))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_sums_at_the_ends_are_those_of_whole_numbers(kernels):
    compiled_halves.use(kernels)
    box = Box(np.full(2, -1.0), np.ones(2), np.zeros(2))
    records = np.broadcast_to(np.array([1.0, -1.0]), (70_000, 2))
    found = gram.partial_gram(records, 0, 70_000, Quantiser(box.coordinates(), 32767, False, None), 2**16)
    assert found.tolist() == [[70_000 * 32767**2, -70_000 * 32767**2], [-70_000 * 32767**2, 70_000 * 32767**2]]


@pytest.mark.parametrize(
    ("step", "right", "wrong"),
    [
        ("_split", "high[i, j] = upper", "high[i, j] = number // np.int32(257)"),
        ("_split", "- np.int32(SHIFT)", "- np.int32(SHIFT - 1)"),
        ("_split", "sums[j] += number - SHIFT", "sums[j] += number"),
        ("_split", "sums[j] += number - SHIFT", "sums[j] = sums[j] * (i > 0) + number - SHIFT"),
        ("_fold", "np.int64(products[1, i, j]) +", "np.int64(products[2, i, j]) +"),
        ("_fold", "np.int64(products[0, i, j]) * 65536", "np.int64(products[0, i, j]) * 65535"),
        ("_fold", "total[i, j] +=", "total[i, j] ="),
    ],
)
def test_a_kernel_with_one_wrong_step_is_refused(step, right, wrong):
    source = inspect.getsource(getattr(compiled_halves, step))
    assert right in source
    made = {"np": np, "Any": object, "SHIFT": compiled_halves.SHIFT}
    exec(compile(ast.parse(source.replace(right, wrong)), "changed", "exec"), made)
    with pytest.raises(HalvesMismatch):
        compiled_halves.compiled_by(lambda kernel: COMPILER(made[step] if kernel.__name__ == step else kernel))
