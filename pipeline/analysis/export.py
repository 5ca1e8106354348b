"""Writes the numbers of a release for other programs: Parquet or CSV, a table a result, or one NetCDF file.

The numbers are those that were published, bit for bit, each beside the standard deviation of its noise where the
release states one; the promise stands in the metadata of each file. Values are read a slab at a time, so a release may
be larger than memory. A place that exists is refused, and nothing is seen of an export before all of it is there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.analysis import labelled, model_files, optional
from blockveil.pipeline.analysis.trained_model import TrainedModel
from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import ConfigError, guard
from blockveil.pipeline.base.permissions import open_as
from blockveil.pipeline.data.released import OpenRelease, stating
from blockveil.pipeline.report.words import plain_words

DEVIATION = "_standard_deviation"
"""Ending of the name of the array that holds the noise of another one."""

SLAB = 2**20
"""Numbers of one array in memory at once, but for the entries of a single row."""


def export(release: OpenRelease, place: Path, form: str) -> list[Path]:
    """Write the numbers of a release.

    Parameters
    ----------
    release
        The release.
    place
        Folder of tables, or the file; nothing may be there.
    form
        ``parquet`` or ``csv``: a folder with a table for each result, one number a row, with the names of features and
        cells, ``value`` and ``standard_deviation``. ``netcdf``: one file of all arrays. ``onnx`` and ``npz``: one file
        of the model that the release has trained, with its card.

    Returns
    -------
    The files.

    Raises
    ------
    ConfigError
        The form is unknown, the library that writes it is not installed, or something is at the place.
    StoreError
        The place cannot be written, or the release cannot be read.
    """
    if form not in FORMS:
        raise ConfigError(f'"{form[:60]}" is no form of an export', f"It is {', '.join(FORMS)}", "Choose one of them")
    if place.exists() or place.is_symlink():
        raise ConfigError(f'"{place.name}" exists', "An export is a new folder or file", "Choose another name")

    def written() -> list[Path]:
        with stating(release.path):
            return _written(release, place, FORMS[form])

    return guard(
        written, lambda error: durable.store_error(error, "The export cannot be written", "its place"), OSError
    )


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell, the wide ones of East Asian texts among them, that make spreadsheets compute it."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII)

Writer = Callable[[OpenRelease, Path], None]


def _written(release: OpenRelease, place: Path, write: Writer) -> list[Path]:
    place.parent.mkdir(parents=True, exist_ok=True)
    staging.sweep(place.parent)
    scratch = staging.Held(place.parent, "export")
    try:
        inside = scratch.path / place.name
        write(release, inside)
        durable.sync_tree(scratch.path)
        if inside.is_dir():
            open_as(inside, place.parent)
        inside.rename(place)
        durable.sync(place.parent)
    finally:
        scratch.discard()
    return sorted(place.iterdir()) if place.is_dir() else [place]


def _parquet(release: OpenRelease, folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    texts = {name.encode(): text.encode() for name, text in _facts(release).items()}
    for name in _results(release):
        schema = pa.schema(_fields(release, name)).with_metadata(texts)
        with parquet.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
            for columns in _slabs(release, name):
                writer.write_table(pa.table(columns, schema=schema))


def _csv(release: OpenRelease, folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    folder.mkdir()
    for name in _results(release):
        schema = pa.schema([field.with_name(_literal(field.name)) for field in _fields(release, name)])
        with csv.CSVWriter(folder / f"{name}.csv", schema) as writer:
            for columns in _slabs(release, name):
                literals = {_literal(column): _literals(values) for column, values in columns.items()}
                writer.write_table(pa.table(literals, schema=schema))
        (folder / f"{name}.csv-metadata.json").write_text(_csv_metadata(release, name), encoding="utf-8")


def _csv_metadata(release: OpenRelease, name: str) -> str:
    """What a table holds, as the W3C has it for CSV on the web (Model for Tabular Data and Metadata, 2015)."""
    facts, kinds = _facts(release), {"string": "string", "double": "double", "int64": "integer"}
    columns = [
        {"titles": _literal(field.name), "datatype": kinds.get(str(field.type), "any")}
        for field in _fields(release, name)
    ]
    content = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": f"{name}.csv",
        "dc:title": facts["title"],
        "dc:description": facts["guarantee"],
        "tableSchema": {"columns": columns},
        "notes": [labelled.plain(release.attributes)],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _literal(text: str) -> str:
    """The text as a spreadsheet shows it: what it would take for a formula follows an apostrophe."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _literals(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "OTU":
        return values
    return np.array([_literal(str(value)) for value in values.tolist()], dtype=object)


def _netcdf(release: OpenRelease, file: Path) -> None:
    library = optional.library("h5netcdf")
    with library.File(file, "w") as target:
        target.attrs.update(_facts(release))
        lengths = {axis: length for name in release.arrays for axis, length in _axes(release, name)}
        target.dimensions = lengths
        for axis, length in lengths.items():
            names = labelled.axis_names(release, axis, length)
            if names is not None and axis not in release.arrays:
                target.create_variable(axis, (axis,), _netcdf_type("text"))[...] = np.array(names, dtype=object)
        for name, array in release.arrays.items():
            variable = target.create_variable(
                name, tuple(axis for axis, _ in _axes(release, name)), _netcdf_type(array)
            )
            for part in _parts(array.shape):
                variable[part] = _plain(array[part])
            if f"{name}{DEVIATION}" in release.arrays:
                variable.attrs["ancillary_variables"] = f"{name}{DEVIATION}"
            if name.endswith(DEVIATION):
                variable.attrs["long_name"] = f"standard deviation of the noise of {name.removesuffix(DEVIATION)}"


def _netcdf_type(array: Any) -> Any:
    if isinstance(array, str) or np.dtype(array.dtype).kind in "OTU":
        return optional.library("h5py").string_dtype()
    return np.dtype("i1") if np.dtype(array.dtype).kind == "b" else np.dtype(array.dtype)


def _plain(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind in "OTU":
        return array.astype(object)
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def _onnx(release: OpenRelease, file: Path) -> None:
    trained = TrainedModel.of(release)
    facts = {"card": trained.card, "features": "\n".join(trained.features), **_facts(release)}
    file.write_bytes(model_files.onnx(trained.model, trained.box, trained.label, facts))


def _npz(release: OpenRelease, file: Path) -> None:
    trained = TrainedModel.of(release)
    file.write_bytes(model_files.npz(trained.model, trained.box, trained.features, trained.card))


FORMS: dict[str, Writer] = {"parquet": _parquet, "csv": _csv, "netcdf": _netcdf, "onnx": _onnx, "npz": _npz}
"""Writers of the forms by their names."""


def _facts(release: OpenRelease) -> dict[str, Any]:
    """Promise and provenance of a release: texts, and under ``blockveil`` all of its attributes as JSON."""
    attributes = release.attributes
    guarantee = attributes["guarantee"]
    return {
        "title": str(attributes.get("title")),
        "release_id": str(attributes.get("release_id")),
        "guarantee": str(guarantee["sentence"]),
        "in_words": plain_words(guarantee),
        "output_digest": str(attributes["output_digest"]),
        "blockveil": canonical_json(labelled.plain(attributes)).decode(),
    }


def _results(release: OpenRelease) -> list[str]:
    """Arrays that become tables: neither names along an axis nor the noise of another one."""
    return [
        name
        for name, array in release.arrays.items()
        if np.dtype(array.dtype).kind not in "OTU"
        and not (name.endswith(DEVIATION) and name.removesuffix(DEVIATION) in release.arrays)
    ]


def _axes(release: OpenRelease, name: str) -> list[tuple[str, int]]:
    return list(zip(labelled.axes_of(release, name), map(int, release.arrays[name].shape), strict=True))


def _fields(release: OpenRelease, name: str) -> list[Any]:
    """Columns of the table of a result."""
    import pyarrow as pa

    axes = [(axis, labelled.axis_names(release, axis, length)) for axis, length in _axes(release, name)]
    fields = [pa.field(axis, pa.int64() if names is None else pa.string()) for axis, names in axes]
    fields.append(pa.field("value", pa.from_numpy_dtype(release.arrays[name].dtype)))
    if f"{name}{DEVIATION}" in release.arrays:
        fields.append(pa.field("standard_deviation", pa.float64()))
    return fields


def _slabs(release: OpenRelease, name: str) -> Iterator[dict[str, Any]]:
    """Columns of the table of a result, some rows at a time, in C order of its array."""
    array, noise = release.arrays[name], release.arrays.get(f"{name}{DEVIATION}")
    axes = _axes(release, name)
    labels = [labelled.axis_names(release, axis, length) for axis, length in axes]
    for part in _parts(array.shape):
        values = np.asarray(array[part])
        positions = [np.arange(length)[along] for (_, length), along in zip(axes, _whole(part, axes), strict=True)]
        grids = np.meshgrid(*positions, indexing="ij")
        columns = {
            axis: grid.ravel() if names is None else np.asarray(names, dtype=object)[grid.ravel()]
            for (axis, _), names, grid in zip(axes, labels, grids, strict=True)
        }
        columns["value"] = values.ravel()
        if noise is not None:
            columns["standard_deviation"] = _noise(noise, array.shape, part).ravel()
        yield columns


def _noise(noise: Any, shape: tuple[int, ...], part: tuple[slice, ...]) -> NDArray[np.float64]:
    block = noise[part] if noise.shape == shape else np.broadcast_to(noise[...], shape)[part]
    return np.asarray(block, np.float64)


def _parts(shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Slices along the first axis that hold about :data:`SLAB` numbers each; all where there is no axis."""
    if not shape:
        yield ()
        return
    step = max(1, SLAB // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])),)


def _whole(part: tuple[slice, ...], axes: Sequence[object]) -> tuple[slice, ...]:
    return (*part, *(slice(None) for _ in axes[len(part) :]))
