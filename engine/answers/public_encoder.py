"""A public network as a map of records to features, one record at a time.

A network in floats gives other last digits where it takes another number of records at once, because sums are then
split otherwise; and one that uses statistics over its batch lets a record move the features of others. So each record
goes through the network alone, by one thread: what comes out is a function of that record, of the network, and of the
library and the processor, and neither order nor company of records matters. Unlike the maps of :mod:`.public_features`
it may have other last digits on another machine.

A network must be one and the same function at each call. So operators that draw random numbers are refused, also those
of other domains than ONNX's own, of which nothing is known, and weights that are not in the file, since the digest of
the file would not fix them.

**Source**: the schema ``onnx.proto`` of ONNX; protocol buffers, encoding of messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANDOM = (
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
"""Operators that draw random numbers, or may."""

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")

_MOST_DEPTH, _MOST_SHIFT = 32, 63
_VARIABLE, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

# Fields that hold messages, by message: those in which there may be operators or weights.
_INSIDE = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}  # fmt: skip
_OPERATOR, _DOMAIN = 4, 7
_EXTERNAL, _LOCATION = 13, 14


class UnfitEncoder(ValueError):
    """A network that is no map of one record to its features; the text says why."""


class OnnxEncoder:
    """A network of ONNX, which takes one array of floats.

    Parameters
    ----------
    content
        The file of the network.
    shape
        How it takes one record, without the axis of records, such as (1, 28, 28).
    count
        Number of features.
    bounds
        Least and largest value of each feature; those beyond count as the nearest.
    output
        Name of the output that holds the features; the first one where None.

    Raises
    ------
    UnfitEncoder
        It is no network, or none that gives one record these features.
    ModuleNotFoundError
        The library onnxruntime is not installed.
    """

    def __init__(
        self, content: bytes, shape: tuple[int, ...], count: int, bounds: tuple[float, float], output: str | None = None
    ) -> None:
        import onnxruntime

        check(content)
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - its own classes of errors are not public
            raise UnfitEncoder(f"is no network that onnxruntime reads ({type(error).__name__})") from None
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in ("tensor(float)", "tensor(double)"):
            raise UnfitEncoder("takes other than one array of floats")
        self._input, self._shape = inputs[0].name, shape
        self._dtype = np.float32 if inputs[0].type == "tensor(float)" else np.float64
        outputs = [each.name for each in self._session.get_outputs()]
        if output is not None and output not in outputs:
            raise UnfitEncoder("has no output of the declared name")
        self._output = outputs[0] if output is None else output
        (self._lower, self._upper), self._count = bounds, count
        self._alone(np.zeros(math.prod(shape)))

    def of(self, values: Array) -> Array:
        """Features of some records, shape (n, inputs) to (n, count); NaN where the network gives no number."""
        features = np.empty((len(values), self._count))
        for row, record in zip(features, values, strict=True):
            row[...] = self._alone(record)
        # The bounds that a release declares; a maximum with NaN is NaN.
        return np.clip(features, self._lower, self._upper)

    def _alone(self, record: Array) -> Array:
        tensor = record.astype(self._dtype).reshape(1, *self._shape)
        try:
            features = np.asarray(self._session.run([self._output], {self._input: tensor})[0], np.float64).ravel()
        except Exception as error:  # noqa: BLE001 - as above; its text may hold shapes, and never a value
            raise UnfitEncoder(f"does not take one record of this shape ({type(error).__name__})") from None
        if features.size != self._count:
            raise UnfitEncoder(f"gives {features.size:,} numbers for one record")
        return features


def check(content: bytes) -> None:
    """Refuse a network that draws random numbers, has unknown operators, or keeps weights elsewhere.

    Raises
    ------
    UnfitEncoder
        It does, or this is no message of protocol buffers.
    """
    try:
        _check(content, "model", 0)
    except (IndexError, UnicodeDecodeError):
        raise UnfitEncoder("is no file of ONNX") from None


def _check(content: bytes, kind: str, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise UnfitEncoder("is nested too deeply")
    for number, value in _fields(content):
        if kind == "node" and number == _DOMAIN and _text(value) not in DOMAINS:
            raise UnfitEncoder(f'has an operator of the domain "{_text(value)[:40]}", of which nothing is known')
        if kind == "node" and number == _OPERATOR and _text(value) in RANDOM:
            raise UnfitEncoder(f"has the operator {_text(value)}, which draws random numbers, or may")
        if kind == "tensor" and (number == _EXTERNAL or (number == _LOCATION and value != 0)):
            raise UnfitEncoder("keeps weights in another file, which its digest does not fix")
        inner = _INSIDE[kind].get(number)
        if inner is not None and isinstance(value, bytes):
            _check(value, inner, depth + 1)


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers of the fields of a message with their values, in order; IndexError where it ends too early."""
    at = 0
    while at < len(content):
        tag, at = _variable(content, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARIABLE:
            value, at = _variable(content, at)
            yield number, value
            continue
        if wire not in (_FIXED64, _LENGTH, _FIXED32):
            raise IndexError
        size = 8 if wire == _FIXED64 else 4
        if wire == _LENGTH:
            size, at = _variable(content, at)
        if at + size > len(content):
            raise IndexError
        yield number, content[at : at + size]
        at += size


def _variable(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > _MOST_SHIFT:
            raise IndexError


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else ""
