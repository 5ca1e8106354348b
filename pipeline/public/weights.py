"""Public weights of a model: a file pinned by its digest, and the next weights after a released gradient."""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.models import layer_names
from blockveil.pipeline.base import named_files
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.released import read_release

Weights = dict[str, NDArray[np.float64]]
"""Weights by layer, by the names of :func:`.models.layer_names`; shape (outputs, inputs + 1), the constant's first."""

_MOST_BESIDE = 2**20
"""Most bytes of a file of weights beside the weights."""

_OF_ARCHIVES = (zipfile.BadZipFile, zlib.error, AttributeError, NotImplementedError)


def shapes(inputs: int, hidden: Sequence[int], outputs: int) -> dict[str, tuple[int, int]]:
    """Shape of each layer of a model.

    Parameters
    ----------
    inputs
        Number of features and the constant.
    hidden
        Number of units of each hidden layer, the first layer first.
    outputs
        Number of outputs.
    """
    sizes = [inputs, *(units + 1 for units in hidden)]
    return dict(zip(layer_names(len(hidden)), zip((*hidden, outputs), sizes, strict=True), strict=True))


def read(loaded: LoadedConfig, name: str | None, pin: str | None, wanted: Mapping[str, tuple[int, int]]) -> Weights:
    """Weights that a config names; zeros where it names none.

    Raises ConfigError where the file cannot be read, has another digest, or holds other arrays than the model has.
    """
    if name is None:
        return {layer: np.zeros(shape) for layer, shape in wanted.items()}
    # Twice what the longest floats take: whatever is larger is something else, and is not brought into memory.
    most = _MOST_BESIDE + 32 * sum(rows * columns for rows, columns in wanted.values())
    content = _content(loaded.resolve(name, "query.model.weights"), name, most)
    if hashlib.sha256(content).hexdigest() != pin:
        raise _error(name, "has another digest than weights_sha256", "Correct the digest, or restore the file")
    return _arrays(content, name, wanted)


def load(path: Path) -> Weights:
    """Weights of a file, whatever its digest; raises as :func:`read`."""
    return _arrays(_content(path, path.name), path.name)


def save(weights: Mapping[str, NDArray[np.float64]], path: Path) -> str:
    """Write weights and return the SHA-256 of the file; the same weights give the same bytes.

    Raises
    ------
    ConfigError
        The name does not end in .npz: what it names may be anything else, and would be lost.
    StoreError
        The file system refuses.
    """
    if path.suffix != ".npz":
        raise ConfigError(f'"{path.name}" has no .npz name', "Weights are written to a file of that name", "Rename it")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for layer in sorted(weights):
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(weights[layer], dtype="<f8"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{layer}.npy"), part.getvalue())  # a ZipInfo's own date is fixed
    named_files.write(path, stream.getvalue(), "The weights")
    return hashlib.sha256(stream.getvalue()).hexdigest()


def random(wanted: Mapping[str, tuple[int, int]], seed: int) -> Weights:
    """Start of training: normal weights of variance one over the number of inputs, the constant's zero."""
    source = np.random.default_rng(seed)
    weights = {layer: source.standard_normal(shape) / np.sqrt(shape[1]) for layer, shape in wanted.items()}
    for array in weights.values():
        array[:, 0] = 0.0
    return weights


def step(release: Path, before: Weights | None, examples: float, rate: float) -> Weights:
    """Weights after one step along a released sum of gradients; post-processing, costs no privacy.

    Parameters
    ----------
    release
        Pointer or folder of a release of gradients.
    before
        Weights that it was taken at; zeros where None.
    examples
        Public number of examples to divide the sum by.
    rate
        Length of the step.

    Raises
    ------
    StoreError
        There is no release of gradients, or it is damaged.
    ConfigError
        The weights have other shapes, or a number is not positive.
    """
    if not (examples > 0 and rate > 0):
        raise ConfigError("The number of examples or the rate is not positive", "Both are above 0", "Correct them")
    arrays = read_release(release).arrays
    gradient = {name.removesuffix("_gradients"): array for name, array in arrays.items() if name.endswith("_gradients")}
    if not gradient and "gradients" in arrays:
        gradient = {"last": arrays["gradients"]}
    if not gradient:
        raise StoreError(f"{release.name} holds no gradients", "A step follows a gradient", "Name such a release")
    start = before or {layer: np.zeros(array.shape) for layer, array in gradient.items()}
    if {layer: array.shape for layer, array in start.items()} != {k: array.shape for k, array in gradient.items()}:
        raise ConfigError("The weights have other shapes than the gradients", "Both are of one model", "Name its file")
    return {layer: array - rate / examples * gradient[layer] for layer, array in start.items()}


def _content(path: Path, name: str, most: int | None = None) -> bytes:
    """What a file holds, unless it is no file (a pipe never ends) or larger than that."""
    large = False
    try:
        large = most is not None and path.is_file() and path.stat().st_size > most
        if path.is_file() and not large:
            return path.read_bytes()
    except OSError:
        pass
    if large:
        raise _error(name, f"is larger than {most:,} bytes", "Give the weights of this model alone")
    raise _error(name, "cannot be read", "Correct the path")


def _arrays(content: bytes, name: str, wanted: Mapping[str, tuple[int, int]] | None = None) -> Weights:
    """Finite matrices of a file, of the wanted names and shapes; nothing is made that the file does not hold."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            heads = {info.filename.removesuffix(".npy"): _head(archive, info) for info in archive.infolist()}
            _check(heads, name, wanted)
            arrays = {
                layer: np.asarray(np.lib.format.read_array(io.BytesIO(archive.read(head.info))), dtype=np.float64)
                for layer, head in heads.items()
            }
    except (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, MemoryError, *_OF_ARCHIVES):
        arrays = {}
    if not arrays or any(array.ndim != 2 or not np.isfinite(array).all() for array in arrays.values()):
        raise _error(
            name, "holds no finite weights", 'Give an .npz file with "last" (and "hidden", or "hidden_1" and so on)'
        )
    return arrays


def _check(heads: Mapping[str, _Head], name: str, wanted: Mapping[str, tuple[int, int]] | None) -> None:
    """Refuse other arrays than the wanted ones, and what a conversion to real numbers would change or unpickle."""
    if wanted is not None and {layer: head.shape for layer, head in heads.items()} != dict(wanted):
        expected = ", ".join(f'"{layer}" {rows} x {columns}' for layer, (rows, columns) in wanted.items())
        raise _error(name, "holds other arrays than the model has", f"Give {expected}")
    others = [head.kind.name for head in heads.values() if head.kind.kind not in "fiu"]
    if others:
        raise _error(name, f"holds an array of {others[0][:20]}", "Save real numbers, such as float64")


class _Head(NamedTuple):
    """What an array of a file is, before it is read."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    kind: np.dtype[Any]


def _head(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Head:
    """Raises ValueError where the array would be of another size than what the archive says that it holds."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise ValueError("an unknown version")
        shape, _, kind = reader[version](file)
        if not kind.hasobject and math.prod(shape) * kind.itemsize != info.file_size - file.tell():
            raise ValueError("an array of another size")
    return _Head(info, tuple(shape), kind)


def _error(name: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(
        f'The weights "{name}" cannot be used: the file {problem}', "Weights are public and pinned", remedy
    )
