"""Products of integers of eight bits with sums of 32, on processors that are fast at them.

Processors with instructions for such products (AVX-512 VNNI, AVX-VNNI, AMX, the dot products of ARM) compute several
times as many of them as in single precision. The product used here is MatMulInteger of the library onnxruntime, an
unsigned by a signed factor: the unsigned one is ``k + 128``, and 128 is its zero point, so that k itself is multiplied.

Whether it is used follows from the machine alone and changes no bit, for a sum of integers is what it is.
:func:`choose` compares it with exact sums at the ends of eight bits, where products of processors without these
instructions saturate, and with the time that BLAS takes. Until somebody calls :func:`use`, BLAS does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product as product_of
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

LARGEST = 127
"""Largest absolute integer that is multiplied as it is."""

LARGEST_OF_HALVES = 2**15 - 1
"""Largest absolute integer that has a high half and a low one of eight bits each; see :mod:`.half_sums`."""

SHIFT = 128

MOST_ROWS = (2**31 - 1) // (255 * 128)
"""Rows of one product, 65,793: on the way it adds up ``(k + 128) l``, at most 255 * 128 each, in int32."""

BLOCK = 128
"""Columns of a right factor for which the product is fastest."""

PIECE = 2048
"""Rows of a product for which it is fastest, as both factors and the sums stay in a core's cache."""

_ENDS_OF_LEFT, _ENDS_OF_RIGHT = (0, 1, SHIFT, 255), (-128, -127, 127)
"""Operands at which a product that saturates or wraps around gives another result."""

_WORTH = 1.2
"""Times as fast as BLAS from which eight bits are used: they are packed twice."""

_PRODUCTS_OF_HALVES = 4

Left = NDArray[np.uint8]
Right = NDArray[np.int8]
Sums = NDArray[np.int32]


class ByteProduct(Protocol):
    """Multiplies what lies at three places in memory, as often as asked, and turns right factors to left ones."""

    def bind(self, left: Left, right: Right, sums: Sums) -> Callable[[], None]:
        """What writes ``(left - 128) @ right`` to sums.

        Parameters
        ----------
        left
            ``k + 128``, shape (m, rows), C order, rows at most :data:`MOST_ROWS`.
        right
            Shape (rows, n), C order.
        sums
            Shape (m, n), C order. All three are read or written at each call, and have to live as long as what is
            returned.
        """

    def bind_turned(self, right: Right, left: Left) -> Callable[[], None]:
        """What writes ``right.T + 128`` to a left factor.

        Parameters
        ----------
        right
            Shape (rows, n), C order.
        left
            Shape (n, rows), C order. Both are read or written at each call, and have to live as long as what is
            returned.
        """


class InexactProduct(ArithmeticError):
    """A product gives other sums than integers have, or another left factor, so that it may not be used."""


@dataclass(frozen=True)
class Choice:
    """What multiplies integers of eight bits in this process.

    Attributes
    ----------
    product
        None where BLAS does, in single precision.
    halves
        Whether it multiplies integers of up to 16 bits too, by halves, faster than BLAS in double precision.
    reason
        Why, in words for a log.
    """

    product: ByteProduct | None
    halves: bool
    reason: str


_in_use: list[Choice] = []


def use(choice: Choice) -> None:
    """Let every sum of products of this process work with it."""
    _in_use[:] = [choice]


def in_use() -> Choice:
    """What every sum of products of this process works with: BLAS, until another choice was made."""
    return _in_use[0] if _in_use else BLAS


def choose(clock: Callable[[], float]) -> Choice:
    """Fastest exact product of this machine, in some hundredths of a second.

    Parameters
    ----------
    clock
        Seconds, from any beginning. BLAS should work with as many threads as it will have.
    """
    try:
        product = _OnnxRuntime()
        check(product)
        single, double = _times_as_fast(product, clock)
    except ModuleNotFoundError:
        return _by_blas("onnxruntime is not installed")
    except InexactProduct:
        return _by_blas("products in 8 bits are not exact on this processor")
    except Exception as error:  # noqa: BLE001 - a library's own failure; the other path is always there
        return _by_blas(f"onnxruntime does not work ({type(error).__name__})")
    if single < _WORTH:
        return _by_blas(f"products in 8 bits are only {single:.2g} times as fast here")
    halves = double / _PRODUCTS_OF_HALVES
    wide = "by halves," if halves >= _WORTH else "in double precision, for halves are only"
    times = f"{single:.2g} times as fast as single precision here"
    times_of_halves = f"{halves:.2g} times as fast as double"
    return Choice(product, halves >= _WORTH, f"8 bits by onnxruntime, {times}, and 16 bits {wide} {times_of_halves}")


def _by_blas(why: str) -> Choice:
    return Choice(None, False, f"single precision, for {why}")


BLAS = _by_blas("no other way was looked for")


def check(product: ByteProduct) -> None:
    """Compare a product with the sums of Python's integers, at the ends of eight bits and of 32.

    Raises
    ------
    InexactProduct
        They differ.
    """
    # Sizes beside those of a processor's vectors and tiles, one row or column, and as many rows as there may be.
    for m, rows, n in ((1, 1, 1), (1, 67, 130), (5, 3, 1), (67, 515, 131), (130, 2500, 300), (16, MOST_ROWS, 16)):
        random = np.random.default_rng(m)
        left, right = random.integers(0, 256, (m, rows), np.uint8), random.integers(-128, 128, (rows, n), np.int8)
        # Sums of at most 65,793 products of at most 2**14: exact in double precision, in any order.
        _compare(product, left, right, (left.astype(np.float64) - SHIFT) @ right.astype(np.float64))
        for low, high in product_of(_ENDS_OF_LEFT, _ENDS_OF_RIGHT):
            exact = rows * (low - SHIFT) * high
            _compare(product, np.full((m, rows), low, np.uint8), np.full((rows, n), high, np.int8), exact)
        turned = np.full((n, rows), 7, np.uint8)
        product.bind_turned(right, turned)()
        if not np.array_equal(turned, right.T.astype(np.int16) + SHIFT):
            raise InexactProduct("a left factor in eight bits is not the right one, turned")


def _compare(product: ByteProduct, left: Left, right: Right, exact: NDArray[np.float64] | int) -> None:
    sums = np.full((left.shape[0], right.shape[1]), 7, np.int32)
    multiply = product.bind(left, right, sums)
    for _ in range(2):  # what a call leaves behind must not be added to
        multiply()
        if not np.all(sums == exact):
            raise InexactProduct("a product in eight bits gives other sums than integers have")


def _times_as_fast(product: ByteProduct, clock: Callable[[], float]) -> tuple[float, float]:
    """How many times as fast as in single and in double precision a product is, the fastest of a few calls each."""
    from scipy.linalg.blas import dgemm, sgemm  # a plan multiplies nothing

    left, right = np.full((512, PIECE), 255, np.uint8), np.full((PIECE, BLOCK), -127, np.int8)
    multiply = product.bind(left, right, np.empty((512, BLOCK), np.int32))

    def by_blas(general: Callable[..., object], dtype: type[np.float32 | np.float64]) -> Callable[[], object]:
        a, b = np.ones((PIECE, 512), dtype), np.ones((PIECE, BLOCK), dtype)
        total = np.zeros((BLOCK, 512), dtype, order="F")
        return partial(general, 1.0, b.T, a.T, beta=1.0, c=total, trans_b=1, overwrite_c=1)

    def seconds(work: Callable[[], object]) -> float:
        start = clock()
        work()
        return clock() - start

    ways = (multiply, by_blas(sgemm, np.float32), by_blas(dgemm, np.float64))
    ours, single, double = (
        min(times) for times in zip(*([seconds(way) for way in ways] for _ in range(5)), strict=True)
    )
    return single / ours, double / ours


class _OnnxRuntime:
    """Product of onnxruntime, by one thread for each caller."""

    def __init__(self) -> None:
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # tasks are parallel already
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 4
        self._multiply: Any
        self._turn: Any
        self._multiply, self._turn = (
            onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            for model in (_multiplying(), _turning())
        )

    def bind(self, left: Left, right: Right, sums: Sums) -> Callable[[], None]:
        """See :class:`ByteProduct`."""
        if not (left.flags.c_contiguous and right.flags.c_contiguous and sums.flags.carray):
            raise ValueError("factors and sums must be in C order")
        if left.shape[1] != right.shape[0] or sums.shape != (left.shape[0], right.shape[1]):
            raise ValueError("factors and sums differ in shape")
        if left.shape[1] > MOST_ROWS:
            raise ValueError("more rows than are exact")
        places = self._multiply.io_binding()
        places.bind_cpu_input("left", left)
        places.bind_cpu_input("right", right)
        places.bind_output("sums", "cpu", 0, np.int32, sums.shape, sums.ctypes.data)
        run, buffers = self._multiply.run_with_iobinding, (left, right, sums)

        def multiply() -> None:
            assert buffers  # noqa: S101 - the places hold their addresses alone
            run(places)

        return multiply

    def bind_turned(self, right: Right, left: Left) -> Callable[[], None]:
        """See :class:`ByteProduct`."""
        if not (right.flags.c_contiguous and left.flags.carray):
            raise ValueError("factors must be in C order")
        if left.shape != right.shape[::-1]:
            raise ValueError("factors differ in shape")
        places = self._turn.io_binding()
        places.bind_cpu_input("factor", right.view(np.uint8))
        places.bind_output("turned", "cpu", 0, np.uint8, left.shape, left.ctypes.data)
        run, buffers = self._turn.run_with_iobinding, (right, left)

        def turn() -> None:
            run(places)
            # k + 128 is k with its highest bit turned, as eight bits.
            np.bitwise_xor(buffers[1], np.uint8(SHIFT), out=buffers[1])

        return turn


_UNSIGNED, _SIGNED, _WIDE = 2, 3, 6
"""Types of ONNX: uint8, int8 and int32."""


def _multiplying() -> bytes:
    """One MatMulInteger whose first factor has the zero point 128."""
    zero = _field(2, _UNSIGNED) + _field(8, b"zero") + _field(9, bytes([SHIFT]))
    factors = {b"left": _UNSIGNED, b"right": _SIGNED}
    return _model(b"MatMulInteger", factors, {b"sums": _WIDE}, _field(5, zero), b"zero")


def _turning() -> bytes:
    """One Transpose of bytes."""
    return _model(b"Transpose", {b"factor": _UNSIGNED}, {b"turned": _UNSIGNED})


def _model(
    operator: bytes, inputs: dict[bytes, int], outputs: dict[bytes, int], constants: bytes = b"", *known: bytes
) -> bytes:
    """One operator on matrices of these types, and on constants, as ONNX: messages of protocol buffers."""
    node = b"".join(_field(1, name) for name in (*inputs, *known)) + b"".join(_field(2, name) for name in outputs)
    graph = _field(1, node + _field(4, operator)) + _field(2, b"product") + constants
    graph += b"".join(_field(11, _matrix(*each)) for each in inputs.items())
    graph += b"".join(_field(12, _matrix(*each)) for each in outputs.items())
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def _matrix(name: bytes, kind: int) -> bytes:
    """A matrix of any size and this type of ONNX."""
    shape = _field(1, b"") + _field(1, b"")
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _field(number: int, value: bytes | int) -> bytes:
    """A field of a message: a number below 128, or fewer than 2**14 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    size = len(value)
    length = [size] if size < 2**7 else [size % 2**7 + 2**7, size // 2**7]
    return bytes([number << 3 | 2, *length]) + value
