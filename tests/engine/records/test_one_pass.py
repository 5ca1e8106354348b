"""Compiled quantisation: the same integers as NumPy's, whatever the records, and no memory but its own."""

import dataclasses
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blockveil.engine.answers import gram
from blockveil.engine.records import one_pass
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.one_pass import IntegerMismatch
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser

numba = pytest.importorskip("numba")

WIDTH = 11
DTYPES = ["f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f8", ">f4", ">i4", "g"]
FINE = "fine"
DITHERS = (False, True, FINE)
STAND_IN = np.linspace(-0.3, 0.6, WIDTH)


@pytest.fixture(scope="module")
def kernels():
    return one_pass.compiled_by(numba.njit(nogil=True))


@pytest.fixture(scope="module", autouse=True)
def numpy_afterwards():
    yield
    one_pass.use(None)


@contextmanager
def using(kernels):
    one_pass.use(kernels)
    try:
        yield
    finally:
        one_pass.use(None)


def quantiser(*, dithered, augmented=False, imputed=False, half=False, narrow=True, scale=1.0):
    lower = np.zeros(WIDTH) if half else -scale * np.linspace(1.0, 3.0, WIDTH)
    origin = np.zeros(WIDTH) if half else lower / 3.0
    box = Box(lower, scale * np.linspace(0.5, 2.0, WIDTH), origin)
    largest = 127 if dithered is True else 32767
    dither = {False: None, True: Dither(WIDTH), FINE: FineDither(WIDTH, largest)}[dithered]
    return Quantiser(box.coordinates(), largest, augmented, STAND_IN if imputed else None, narrow, dither)


OPTIONS = [
    {"dithered": dithered, "augmented": augmented, "imputed": imputed, "half": half, "narrow": narrow}
    for dithered in DITHERS
    for augmented in (False, True)
    for imputed in (False, True)
    for half, narrow in ((False, True), (True, True), (False, False))
]


def both(kernels, q, records, kind):
    """Integers by NumPy, and by what is compiled."""
    found = []
    for used in (None, kernels):
        integers = np.full((len(records), q.width), 99 if kind is np.int8 else np.nan, kind)
        with using(used):
            q.quantise_by_steps(records, integers)
        found.append(integers)
    return found


def ordinary(dtype, rows=200):
    values = np.random.default_rng(1).standard_normal((rows, WIDTH)) * 2.0
    return np.abs(values).astype(dtype) if np.dtype(dtype).kind in "ub" else values.astype(dtype)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(k for k, v in o.items() if v) or "plain")
@pytest.mark.parametrize("dtype", DTYPES)
def test_records_of_every_type_have_the_same_integers_under_every_option(kernels, dtype, options, kind):
    by_numpy, compiled = both(kernels, quantiser(**options), ordinary(dtype), kind)
    assert np.array_equal(by_numpy, compiled)
    assert np.isfinite(compiled).all()
    assert len(np.unique(compiled)) > 1 + options["augmented"]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(k for k, v in o.items() if v) or "plain")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_bytes_hold_the_integers_that_floats_hold(kernels, dtype, options):
    q, records = quantiser(**options), ordinary(dtype)
    q = dataclasses.replace(q, largest=127, dither=FineDither(WIDTH, 127) if options["dithered"] == FINE else q.dither)
    by_numpy, compiled = both(kernels, q, records, np.int8)
    assert np.array_equal(by_numpy, q.quantise(records))
    assert np.array_equal(compiled, by_numpy)
    assert np.abs(by_numpy.astype(int)).max() == 127


@given(
    data=st.data(),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    dithered=st.sampled_from(DITHERS),
    scale=st.sampled_from([2.0**-60, 1e-3, 1.0, 1e6, 2.0**60]),
)
def test_any_value_of_the_format_has_the_same_integers(kernels, data, dtype, dithered, scale):
    bits = np.finfo(dtype).bits
    shape = st.tuples(st.integers(0, 9), st.just(WIDTH))
    records = data.draw(hnp.arrays(dtype, shape, elements=st.floats(width=bits)))
    q = quantiser(dithered=dithered, imputed=True, scale=scale)
    assert np.array_equal(*both(kernels, q, records, np.float64))


@pytest.mark.parametrize("dithered", DITHERS)
def test_integers_at_the_ends_of_their_type_have_the_same_integers(kernels, dithered):
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u8"):
        ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
        records = np.repeat(ends[:, None], WIDTH, axis=1)
        assert np.array_equal(*both(kernels, quantiser(dithered=dithered), records, np.float64))


def test_the_kernels_do_the_work_where_they_can_and_only_there(kernels):
    calls = []

    def counted(kernel):
        return lambda *given: calls.append(1) or kernel(*given)

    watched = one_pass.Kernels(*map(counted, (kernels.moved, kernels.finely_moved, kernels.nearest)))
    for dithered in DITHERS:
        both(watched, quantiser(dithered=dithered), ordinary("f4"), np.float32)
    assert len(calls) == 3
    ball = Quantiser(Ball([0.0] * WIDTH, 3.0).coordinates(), 32767, False, None)
    capped = Quantiser(Box([-1.0] * WIDTH, [1.0] * WIDTH, [0.0] * WIDTH, 2.0).coordinates(), 32767, False, None)
    for q in (ball, capped):
        assert np.array_equal(*both(watched, q, ordinary("f8"), np.float64))
    both(watched, quantiser(dithered=False), ordinary("f8"), np.float16)
    assert len(calls) == 3


@pytest.mark.parametrize("dithered", DITHERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8"])
def test_a_missing_value_is_refused_wherever_it_stands(kernels, dithered, value, dtype):
    q = quantiser(dithered=dithered)
    for place in ((0, 0), (13, WIDTH - 1), (19, 5)):
        records = ordinary(dtype, 20)
        records[place] = value
        with using(kernels):
            with pytest.raises(NotFiniteError):
                q.quantise(records)
            if dithered:
                with pytest.raises(NotFiniteError):
                    q.starts(records)


@pytest.mark.parametrize("layout", ["columns", "every other", "backwards", "read only", "unaligned", "one", "none"])
@pytest.mark.parametrize("dithered", DITHERS)
def test_the_layout_of_records_in_memory_changes_nothing(kernels, layout, dithered):
    records = ordinary("f8", 60)
    if layout == "columns":
        records = np.asfortranarray(records)
    elif layout == "every other":
        records = np.repeat(records, 2, axis=1)[::2, ::2]
    elif layout == "backwards":
        records = records[::-1, ::-1]
    elif layout == "read only":
        records.flags.writeable = False
    elif layout == "unaligned":
        shifted = np.empty(records.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(records.shape)
        shifted[...] = records
        records = shifted
        assert not records.flags.aligned
    else:
        records = records[: int(layout == "one")]
    assert np.array_equal(*both(kernels, quantiser(dithered=dithered, augmented=True), records, np.float64))


@pytest.mark.parametrize("dithered", [True, FINE])
def test_parts_and_starts_of_records_are_the_same(kernels, dithered):
    q, records = quantiser(dithered=dithered, augmented=True), ordinary("f4")
    whole = q.quantise(records)
    with using(kernels):
        starts = q.starts(records)
        for (low, high), part in zip([(0, 1), (0, 5), (5, 12)], q.parts([(0, 1), (0, 5), (5, 12)]), strict=True):
            integers = np.empty((len(records), part.width))
            part.quantise_by_steps(records[:, max(low - 1, 0) : high - 1], integers, starts)
            assert np.array_equal(integers, whole[:, low:high])
    assert np.array_equal(starts, q.starts(records))


@pytest.mark.parametrize("dithered", DITHERS)
def test_a_gram_matrix_is_the_same(kernels, dithered):
    q, records = quantiser(dithered=dithered, augmented=True), ordinary("f4", 3000)
    by_numpy = gram.partial_gram(records, 0, len(records), q, 700)
    with using(kernels):
        assert np.array_equal(gram.partial_gram(records, 0, len(records), q, 700), by_numpy)


def test_only_the_rows_of_the_records_are_written(kernels):
    q, integers = quantiser(dithered=True, augmented=True), np.full((10, WIDTH + 1), 5.5)
    with using(kernels):
        q.quantise_by_steps(ordinary("f8", 4), integers[3:])
    assert np.all(integers[:3] == 5.5)
    assert np.all(integers[7:] == 5.5)
    assert np.array_equal(integers[3:7], np.rint(integers[3:7]))


@pytest.mark.parametrize("dithered", DITHERS)
def test_shapes_that_would_leave_an_array_are_refused(kernels, dithered):
    q, records = quantiser(dithered=dithered), ordinary("f8", 6)
    with using(kernels):
        for given, room in ((records[:, :-1], (6, WIDTH)), (records, (5, WIDTH)), (records, (6, WIDTH - 1))):
            with pytest.raises(ValueError, match="differ in shape"):
                q.quantise_into(given, np.empty(room))


@pytest.mark.parametrize("start", [-1, 2**12])
def test_a_start_outside_the_table_of_places_is_refused(kernels, start):
    starts = np.array([0, start, 0], np.intp)
    with using(kernels), pytest.raises(ValueError, match="no start"):
        quantiser(dithered=True).quantise_by_steps(ordinary("f8", 3), np.empty((3, WIDTH)), starts)
    with using(kernels), pytest.raises(ValueError, match="no start"):
        quantiser(dithered=True).quantise_by_steps(ordinary("f8", 3), np.empty((3, WIDTH)), starts[:2])


def test_a_part_without_starts_is_refused(kernels):
    (part,) = quantiser(dithered=True).parts([(0, 4)])
    with using(kernels), pytest.raises(ValueError, match="starts of whole records"):
        part.quantise(ordinary("f8", 3)[:, :4])


def spoilt(change):
    """A compiler whose code is right but for one change to the arguments or the result of a kernel."""
    return lambda function: change(numba.njit(function))


def off_by_a_bit(kernel):
    def run(records, origin, steps, *rest):
        return kernel(records, origin, np.nextafter(steps, np.inf), *rest)

    return run


def blind(kernel):
    return lambda *given: kernel(*given) or True


def one_column_off(kernel):
    def run(*given):
        *before, integers = given
        finite = kernel(*before, integers)
        integers[:, :1] += 1
        return finite

    return run


@pytest.mark.parametrize("change", [off_by_a_bit, blind, one_column_off])
def test_code_that_gives_other_integers_is_never_handed_out(change):
    with pytest.raises(IntegerMismatch):
        one_pass.compiled_by(spoilt(change))


@pytest.mark.parametrize("options", [{"fastmath": True}, {"fastmath": {"nnan", "ninf"}}], ids=["all", "some"])
def test_a_compiler_that_assumes_finite_numbers_gives_the_same_integers_or_is_refused(options):
    """Such a compiler may drop the test for missing values, which only the comparison would show."""
    try:
        kernels = one_pass.compiled_by(numba.njit(**options))
    except (IntegerMismatch, NotFiniteError):
        return
    records = ordinary("f8", 20)
    records[3, 4] = np.nan
    with using(kernels), pytest.raises(NotFiniteError):
        quantiser(dithered=True).quantise(records)
