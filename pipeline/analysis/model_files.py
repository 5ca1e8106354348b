"""Files of a trained model for other programs: NumPy's npz, and ONNX in double precision.

ONNX is written here, as messages of protocol buffers, so that nobody needs a library to have it. The graph takes the
features in their own units, cuts them at their bounds and scales them, as a release does; it does not round them to a
grid, so that its probabilities differ by what that rounding makes, about 1e-4 at most.

**Source**: the schema ``onnx.proto`` of ONNX, version 13 of its operators; protocol buffers, encoding of messages.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.models import Activation, Model, Output, PublicMap
from blockveil.engine.records.geometry import Box

Array = NDArray[np.float64]

_DOUBLE, _LONG = 11, 7
_INT = 2
_CUT = 16.0
"""Hidden values are cut there, as in the released model."""


def npz(model: Model, box: Box, features: Sequence[str], card: str) -> bytes:
    """Weights by layer, bounds and names of the features, and the card; the same model gives the same bytes.

    Parameters
    ----------
    model, box, features
        The model, and bounds and names of its features.
    card
        Its card, Markdown.
    """
    names = {layer: weights_of(each) for layer, each in zip(model.layers, (*model.hidden, model.last), strict=True)}
    coordinates = box.coordinates()
    arrays: dict[str, NDArray[np.generic]] = {f"{layer}_weights": array for layer, array in names.items()}
    arrays |= {"lower": box.lower, "upper": box.upper, "origin": coordinates.origin, "scale": coordinates.scale}
    arrays |= {"features": np.asarray(features, np.str_), "card": np.asarray(card, np.str_)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())  # a ZipInfo's own date is fixed
    return stream.getvalue()


def weights_of(layer: PublicMap) -> Array:
    """Weights of a layer, shape (outputs, inputs + 1), the constant's first."""
    return np.asarray(np.ldexp(layer.integers, -layer.bits))


def onnx(model: Model, box: Box, label: tuple[float, float], facts: Mapping[str, str]) -> bytes:
    """The model as ONNX: input ``records`` (n, features), float64.

    Parameters
    ----------
    model, box
        The model, and the bounds of its features.
    label
        Least and largest value of what is predicted, or of its codes.
    facts
        Texts for its metadata, such as the card.

    Returns
    -------
    Outputs ``label`` (n,), int64, and ``probabilities`` (n, classes), float64; ``predicted`` (n, 1), float64, of a
    number.
    """
    graph = _Graph()
    coordinates = box.coordinates()
    at = graph.node("Max", "records", graph.constant(box.lower))
    at = graph.node("Min", at, graph.constant(box.upper))
    at = graph.node("Sub", at, graph.constant(coordinates.origin))
    at = graph.node("Div", at, graph.constant(coordinates.scale))
    for layer in model.hidden:
        at = _activated(graph, _linear(graph, at, layer), model.activation)
        at = graph.node("Min", graph.node("Max", at, graph.constant(-_CUT)), graph.constant(_CUT))
    outputs = _ended(graph, _linear(graph, at, model.last), model.output, label)
    width = len(box.lower)
    whole = b"".join(graph.nodes) + _field(2, b"model") + b"".join(graph.constants)
    whole += _field(11, _value("records", _DOUBLE, [None, width])) + b"".join(outputs)
    entries = b"".join(_field(14, _field(1, key.encode()) + _field(2, facts[key].encode())) for key in sorted(facts))
    return _field(1, 8) + _field(2, b"blockveil") + _field(7, whole) + _field(8, _field(2, 13)) + entries


class _Graph:
    """Nodes and constants of a graph, in their order."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []

    def constant(self, values: Array | float) -> str:
        """Name of a constant."""
        array = np.asarray(values, "<f8")
        name = f"c{len(self.constants)}"
        dims = b"".join(_field(1, size) for size in array.shape)
        content = dims + _field(2, _DOUBLE) + _field(8, name.encode()) + _field(9, array.tobytes())
        self.constants.append(_field(5, content))
        return name

    def node(self, kind: str, *inputs: str, output: str = "", attributes: bytes = b"") -> str:
        """Name of the output of an operator."""
        name = output or f"n{len(self.nodes)}"
        content = b"".join(_field(1, each.encode()) for each in inputs) + _field(2, name.encode())
        self.nodes.append(_field(1, content + _field(4, kind.encode()) + attributes))
        return name


def _linear(graph: _Graph, at: str, layer: PublicMap) -> str:
    weights = weights_of(layer)
    product = graph.node("MatMul", at, graph.constant(np.ascontiguousarray(weights[:, 1:].T)))
    return graph.node("Add", product, graph.constant(weights[:, 0]))


def _activated(graph: _Graph, at: str, activation: Activation) -> str:
    match activation:
        case Activation.TANH:
            return graph.node("Tanh", at)
        case Activation.RELU:
            return graph.node("Max", at, graph.constant(0.0))
    # x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    cube = graph.node("Mul", graph.node("Mul", at, at), at)
    inner = graph.node("Add", at, graph.node("Mul", cube, graph.constant(0.044715)))
    share = graph.node("Tanh", graph.node("Mul", inner, graph.constant(0.7978845608028654)))
    half = graph.node("Mul", at, graph.constant(0.5))
    return graph.node("Mul", half, graph.node("Add", share, graph.constant(1.0)))


def _ended(graph: _Graph, at: str, output: Output, label: tuple[float, float]) -> list[bytes]:
    if output is Output.SQUARED:
        low, high = label
        product = graph.node("Mul", at, graph.constant((high - low) / 2.0))
        graph.node("Add", product, graph.constant((low + high) / 2.0), output="predicted")
        return [_field(12, _value("predicted", _DOUBLE, [None, 1]))]
    columns = _attribute("axis", 1)
    if output is Output.LOGISTIC:
        share = graph.node("Sigmoid", at)
        rest = graph.node("Sub", graph.constant(1.0), share)
        graph.node("Concat", rest, share, output="probabilities", attributes=columns)
    else:
        graph.node("Softmax", at, output="probabilities", attributes=columns)
    graph.node("ArgMax", "probabilities", output="label", attributes=columns + _attribute("keepdims", 0))
    classes = int(label[1]) + 1
    outputs = [_value("label", _LONG, [None]), _value("probabilities", _DOUBLE, [None, classes])]
    return [_field(12, each) for each in outputs]


def _attribute(name: str, value: int) -> bytes:
    return _field(5, _field(1, name.encode()) + _field(3, value) + _field(20, _INT))


def _value(name: str, kind: int, shape: Sequence[int | None]) -> bytes:
    """A tensor of this type; an axis of any length is called n."""
    sizes = b"".join(_field(1, _field(2, b"n") if size is None else _field(1, size)) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def _field(number: int, value: bytes | int) -> bytes:
    """A field of a message: a whole number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value > 127:
        octets.append(value & 127 | 128)
        value >>= 7
    return bytes([*octets, value])
