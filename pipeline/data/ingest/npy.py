"""Arrays in the NPY format, read by rows from a stream, so that a compressed or a distant array is never held whole."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import DataError


class NpyStream:
    """Rows of one array.

    Parameters
    ----------
    stream
        At the start of an NPY file.
    name
        Name of the file, for messages.
    held_bytes
        Largest size of an array that is stored by column and so has to be held whole.

    Raises
    ------
    DataError
        The array does not hold numbers, booleans or text in rows and columns, or is too large to be held.
    ValueError
        It is no NPY file.
    """

    def __init__(self, stream: Any, name: str, held_bytes: int) -> None:
        version = npy.read_magic(stream)
        read: Callable[[Any], Any] = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, self._dtype = read(stream)
        check_form(name, self._dtype, shape)
        self.rows, self.width = int(shape[0]), int(np.prod(shape[1:]))
        self._stream, self._held, self._at = stream, None, 0
        if by_column and self.width > 1:
            if self.rows * self.width * self._dtype.itemsize > held_bytes:
                raise DataError(
                    f'File "{name}" holds an array that is stored by column',
                    "A large array is read by rows, from first to last",
                    "Save numpy.ascontiguousarray(array), or raise memory_gib",
                )
            self._held = self._read(self.rows * self.width).reshape(self.width, self.rows).T

    def skip(self, rows: int) -> None:
        """Leave rows out."""
        self._at += rows
        if self._held is None:
            self._stream.seek(rows * self.width * self._dtype.itemsize, io.SEEK_CUR)

    def take(self, rows: int) -> NDArray[Any]:
        """Read the next rows, shape (rows, width); EOFError where the file ends before."""
        first, self._at = self._at, self._at + rows
        if self._held is not None:
            return self._held[first : first + rows]
        return self._read(rows * self.width).reshape(rows, self.width)

    def _read(self, count: int) -> NDArray[Any]:
        content = bytearray(count * self._dtype.itemsize)
        view, at = memoryview(content), 0
        while at < len(content):
            part = self._stream.read(min(len(content) - at, 2**24))
            if not part:
                raise EOFError
            view[at : at + len(part)] = part
            at += len(part)
        return np.frombuffer(content, self._dtype)


def check_form(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array that is no table of numbers, booleans or text; DataError."""
    if dtype.kind not in "biufU" or len(shape) not in (1, 2):
        raise DataError(
            f'File "{name}" holds an array of type {dtype} with {len(shape)} axes',
            "An array holds numbers, booleans or text, in rows and columns",
            "Convert it",
        )
