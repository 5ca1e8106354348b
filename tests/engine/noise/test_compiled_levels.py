"""Compiled levels of noise: the same integers as NumPy's, whatever the key, and no kernel that differs anywhere."""

import ast
import inspect

import numpy as np
import pytest

from blockveil.engine.noise import compiled_levels, gaussian_table
from blockveil.engine.noise.compiled_levels import NoiseMismatch
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.testing.recording import RecordingKey

numba = pytest.importorskip("numba")

GRIDS = pytest.mark.parametrize("grid", [GRID_TWO_LEVEL, GRID_THREE_LEVEL], ids=["two levels", "three"])
BLOCKS = [((0, 300), (0, 300), True), ((5, 6), (120, 400), False), ((100, 300), (7, 9), False), ((0, 1), (0, 1), True)]


@pytest.fixture(scope="module")
def kernel():
    return compiled_levels.compiled_by(numba.njit(nogil=True))


@pytest.fixture(autouse=True)
def numpy_afterwards():
    yield
    compiled_levels.use(None)


def both(kernel, draw):
    """What is drawn by NumPy, and by what is compiled."""
    found = []
    for used in (None, kernel):
        compiled_levels.use(used)
        found.append(draw())
    return found


@GRIDS
@pytest.mark.parametrize(("rows", "columns", "symmetric"), BLOCKS)
def test_every_block_has_the_same_noise(kernel, grid, rows, columns, symmetric):
    key = NoiseKey.derive(bytes(range(32)), b"compiled")
    by_numpy, compiled = both(kernel, lambda: noise_block(key, rows, columns, grid=grid, symmetric=symmetric, stream=3))
    assert np.array_equal(by_numpy, compiled)
    assert compiled.any()


@GRIDS
def test_the_same_parts_of_the_key_stream_are_asked_for(kernel, grid):
    def asked():
        key = RecordingKey(bytes(32))
        noise_block(key, (0, 300), (0, 300), grid=grid, symmetric=True)
        return key.asked

    by_numpy, compiled = both(kernel, asked)
    assert by_numpy == compiled


class TiedKey(NoiseKey):
    """One word of a lane ties with an entry of the table, and what decides is below it or not."""

    def __init__(self, lane, above):
        super().__init__(bytes(32))
        self._lane, self._above = lane, above

    def stream(self, counter, length):
        words = np.frombuffer(super().stream(counter, length), "<u8").copy()
        if counter[2] == self._lane:
            words[5] = gaussian_table.table().even[900]
        if counter[2] == self._lane + 1:
            words[5] = 2**64 - 1 if self._above else 0
        return words.tobytes()


@pytest.mark.parametrize("lane", [0, 2])
def test_words_that_tie_are_settled_as_numpy_settles_them(kernel, lane):
    blocks = []
    for above in (False, True):
        key = TiedKey(lane, above)
        draw = lambda key=key: noise_block(key, (0, 4), (0, 128), grid=GRID_THREE_LEVEL, symmetric=False)  # noqa: E731
        by_numpy, compiled = both(kernel, draw)
        assert np.array_equal(by_numpy, compiled)
        blocks.append(compiled)
    assert np.count_nonzero(blocks[0] != blocks[1]) == 1


SOURCE = inspect.getsource(compiled_levels._added_up)


@pytest.mark.parametrize(
    ("right", "wrong", "level"),
    [
        ("while even[at] < magnitude:", "while even[at] <= magnitude:", 1),
        ("while even[at] < magnitude:", "while even[at] < magnitude - sign:", 0),
        ("word = first[2 * i + 1]", "word = first[2 * i]", 0),
        ("negative = -np.int64(word & sign)", "negative = np.int64(0)", 2),
        ("tied |= even[at] == magnitude", "tied |= False", 1),
        ("tied |= even[at] == magnitude", "tied = even[at] == magnitude", 2),
    ],
)
def test_a_kernel_with_one_wrong_step_is_refused(right, wrong, level):
    parts = SOURCE.split(right)
    changed = right.join(parts[: level + 1]) + wrong + right.join(parts[level + 1 :])
    made = {"np": np, "Any": object}
    exec(compile(ast.parse(changed), "changed", "exec"), made)
    with pytest.raises(NoiseMismatch):
        compiled_levels.compiled_by(lambda _: numba.njit(nogil=True)(made["_added_up"]))


def test_no_kernel_reads_beyond_the_table(monkeypatch):
    whole = gaussian_table.table()
    monkeypatch.setattr(compiled_levels, "table", lambda: whole._replace(even=whole.even[:-1]))
    compiled_levels._lookup.cache_clear()
    try:
        with pytest.raises(NoiseMismatch):
            compiled_levels._lookup()
    finally:
        compiled_levels._lookup.cache_clear()
