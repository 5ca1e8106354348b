"""Noise is a function of key and position alone; known answers pin it for ever."""

import hashlib
import pickle
from bisect import bisect_right

import dask
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import (
    GRID_THREE_LEVEL,
    GRID_TWO_LEVEL,
    SECOND,
    THIRD,
    Grid,
    NoiseKey,
    noise_block,
)
from blockveil.engine.noise.gaussian_table import cumulative

KEY = NoiseKey(bytes(range(32)))
GRIDS = [GRID_TWO_LEVEL, GRID_THREE_LEVEL]
SIZE = (0, 300)
WHOLE = {
    (grid.levels, symmetric): noise_block(KEY, SIZE, SIZE, grid=grid, symmetric=symmetric)
    for grid in GRIDS
    for symmetric in (False, True)
}
KNOWN = {
    (2, False): "6367b3337a432dd333451b7e831fd65ee4b7a72db355997c3bd7703b2ee17966",
    (2, True): "418e78bcf0c8bac1aac7112bc55488351c9ddc427a0d2c9adb3843115f09b844",
    (3, False): "2825ba9ec70652d466791d3db6f6e745e0b424ac9b49afe94bd86a234004ea74",
    (3, True): "1529ac9c36e8ad2392fa12b1645d33521cb850def3bc533b565e0b729f15926c",
}


def cipher_block(counter):
    return Cipher(AES(bytes(range(32))), ECB()).encryptor().update(counter)


def word(lane, row, column, index, stream=0):
    """64-bit word by single block encryption: ``index`` counts words of the tile."""
    start = index * 8
    head = stream.to_bytes(2) + bytes((lane, 0)) + row.to_bytes(4) + column.to_bytes(4)
    block = cipher_block(head + (start // 16).to_bytes(4))
    return int.from_bytes(block[start % 16 : start % 16 + 8], "little")


def level(lane, row, column, index, stream=0):
    first, low = (word(which, row, column, index, stream) for which in (lane, lane + 1))
    magnitude = bisect_right(cumulative(), ((first >> 1) << 64) | low)
    return -magnitude if first & 1 else magnitude


def by_hand(i, j, grid, stream=0):
    """One entry with Python integers and one block cipher call a word."""
    row, column, entry = i // 128, j // 128, (i % 128) * 128 + j % 128
    value = level(0, row, column, 2 * entry, stream) + SECOND * level(0, row, column, 2 * entry + 1, stream)
    return value + (THIRD * level(2, row, column, entry, stream) if grid.levels == 3 else 0)


@pytest.mark.parametrize("case", KNOWN)
def test_known_answers(case):
    found = hashlib.sha256(WHOLE[case].astype("<i8").tobytes()).hexdigest()
    assert found == KNOWN[case]


@pytest.mark.parametrize("grid", GRIDS)
def test_entries_agree_with_an_independent_slow_path(grid):
    whole = WHOLE[grid.levels, False]
    for i, j in [(0, 0), (0, 1), (127, 127), (128, 0), (5, 200), (299, 299), (255, 256), (131, 17)]:
        assert whole[i, j] == by_hand(i, j, grid)
    far = noise_block(KEY, (2**32 - 1, 2**32), (70_000, 70_002), grid=grid, symmetric=False, stream=65_535)
    assert far.tolist() == [[by_hand(2**32 - 1, j, grid, 65_535) for j in (70_000, 70_001)]]


@given(
    rows=st.tuples(st.integers(0, 299), st.integers(1, 300)).filter(lambda r: r[0] < r[1]),
    columns=st.tuples(st.integers(0, 299), st.integers(1, 300)).filter(lambda r: r[0] < r[1]),
    grid=st.sampled_from(GRIDS),
    symmetric=st.booleans(),
)
def test_every_rectangle_is_a_part_of_the_whole(rows, columns, grid, symmetric):
    part = noise_block(KEY, rows, columns, grid=grid, symmetric=symmetric)
    assert np.array_equal(part, WHOLE[grid.levels, symmetric][slice(*rows), slice(*columns)])


def test_fifty_random_chunkings_assemble_to_the_same_bits():
    rng = np.random.default_rng(13)
    for _ in range(50):
        cuts = [np.unique(np.concatenate([[0, 300], rng.integers(1, 300, rng.integers(0, 5))])) for _ in range(2)]
        blocks = [
            [
                noise_block(KEY, (int(a), int(b)), (int(c), int(d)), grid=GRID_TWO_LEVEL, symmetric=True)
                for c, d in zip(cuts[1], cuts[1][1:], strict=False)
            ]
            for a, b in zip(cuts[0], cuts[0][1:], strict=False)
        ]
        assert np.array_equal(np.block(blocks), WHOLE[2, True])


@pytest.mark.parametrize("grid", GRIDS)
def test_symmetric_noise_is_its_transpose_and_shares_the_upper_triangle(grid):
    whole = WHOLE[grid.levels, True]
    assert np.array_equal(whole, whole.T)
    assert np.array_equal(np.triu(whole), np.triu(WHOLE[grid.levels, False]))


def test_another_key_or_stream_shares_no_entries():
    other = noise_block(NoiseKey.derive(bytes(range(32)), b"x"), SIZE, SIZE, grid=GRID_TWO_LEVEL, symmetric=False)
    stream = noise_block(KEY, SIZE, SIZE, grid=GRID_TWO_LEVEL, symmetric=False, stream=1)
    for block in (other, stream):
        assert np.mean(block == WHOLE[2, False]) < 1e-3


def test_a_context_makes_another_key_and_the_same_context_the_same():
    draw = lambda context: noise_block(  # noqa: E731
        NoiseKey.derive(bytes(32), context), (0, 4), (0, 4), grid=GRID_TWO_LEVEL, symmetric=False
    )
    assert np.array_equal(draw(b"a"), draw(b"a"))
    assert not np.array_equal(draw(b"a"), draw(b"b"))


def test_a_key_shows_itself_nowhere_but_travels_to_workers():
    secret = bytes(range(100, 132))
    key = NoiseKey(secret)
    for text in (repr(key), str(key), f"{key}", f"{key!r:>20}", repr([key])):
        assert secret.hex() not in text
        assert str(secret) not in text
        assert "***" in text
    assert not hasattr(key, "__dict__")
    travelled = pickle.loads(pickle.dumps(key))
    block = [noise_block(k, (0, 2), (0, 2), grid=GRID_TWO_LEVEL, symmetric=False).tolist() for k in (key, travelled)]
    assert block[0] == block[1]
    assert key != travelled


def test_a_key_cannot_become_part_of_a_task_name():
    with pytest.raises(TypeError, match=r"noise\.keyring"):
        dask.base.tokenize(KEY)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33)])
def test_a_key_of_another_length_is_refused(secret):
    with pytest.raises(ValueError, match="32 bytes"):
        NoiseKey(secret)


@pytest.mark.parametrize("bad", [(0, 0), (3, 2), (-1, 4), (0, 2**32 + 1)])
def test_a_range_that_is_empty_or_outside_is_refused(bad):
    with pytest.raises(ValueError, match="half-open"):
        noise_block(KEY, bad, (0, 1), grid=GRID_TWO_LEVEL, symmetric=False)


@pytest.mark.parametrize("stream", [-1, 2**16])
def test_a_stream_outside_its_field_is_refused(stream):
    with pytest.raises(ValueError, match="stream"):
        noise_block(KEY, (0, 1), (0, 1), grid=GRID_TWO_LEVEL, symmetric=False, stream=stream)


def test_only_two_grids_exist_and_their_deviations_are_as_designed():
    with pytest.raises(ValueError, match="2 or 3"):
        Grid(4)
    assert GRID_TWO_LEVEL.standard_deviation == pytest.approx(2048 * np.sqrt(1 + 1087**2))
    assert GRID_THREE_LEVEL.standard_deviation > 2**31
    for grid in GRIDS:
        assert grid.privacy_scale**2 <= grid.variance - 100
        assert grid.privacy_scale == pytest.approx(grid.standard_deviation, rel=1e-9)


def test_the_keyring_holds_a_key_until_it_is_forgotten():
    keyring.install("h", KEY)
    assert keyring.fetch("h") is KEY
    keyring.forget("h")
    keyring.forget("h")
    with pytest.raises(keyring.MissingNoiseKey, match="not installed"):
        keyring.fetch("h")
