"""Public networks that make features of records, from their pinned files."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.public_encoder import OnnxEncoder, UnfitEncoder
from blockveil.pipeline.base.errors import ConfigError, guard
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.config.map_columns import OnnxColumn
from blockveil.pipeline.data.ingest.column_faults import Unfit

Array = NDArray[np.float64]


class Network:
    """The network of a column.

    Raises
    ------
    ConfigError
        The file cannot be read, is not the pinned one, or does not give the declared features.
    MissingExtra
        The library that it needs is not installed.
    """

    def __init__(self, column: OnnxColumn, folder: Path) -> None:
        MissingExtra.require("onnxruntime")
        self._name = column.name
        bounds = [(float(each.lower), float(each.upper)) for each in column.columns for _ in each.names]
        self._lower, self._upper = (np.array(side, np.float64) for side in zip(*bounds, strict=True))
        content, ends = (
            _pinned(column, absolute(folder / column.file, "file")),
            (float(column.lower), float(column.upper)),
        )
        self._encoder = guard(
            lambda: OnnxEncoder(content, column.taken, column.features, ends, column.output),
            lambda error: _failure(
                column,
                str(error),
                f"It takes {list(column.taken)} numbers of one record and gives {column.features:,} features, the same "
                "at each call",
                "Correct shape, output and features, or export the network again for use, in one file",
            ),
            UnfitEncoder,
        )

    def of(self, values: Array) -> Array:
        """Features of records, shape (n, inputs) to (n, features); NaN where the network gives no number.

        Raises Unfit where the network gives one of them other than the declared features.
        """
        with suppress(UnfitEncoder):
            return self._encoder.of(np.clip(values, self._lower, self._upper))
        # Its own words are left out: how many numbers a network gives may follow from the values of the record.
        raise Unfit(
            self._name,
            "holds a record for which the network gives other than the declared features",
            "Each record has all features",
        )


def networks(config: IngestConfig, folder: Path) -> dict[str, Network]:
    """Networks of a config by the name of their column; raises as :class:`Network`."""
    return {column.name: Network(column, folder) for column in config.columns if isinstance(column, OnnxColumn)}


def _pinned(column: OnnxColumn, file: Path) -> bytes:
    """Content of the file of a column."""

    def failure(error: OSError) -> ConfigError:
        return _failure(
            column, f"cannot be read ({os.strerror(error.errno or 0)})", "It is a file of ONNX", "Correct file"
        )

    content = guard(file.read_bytes, failure, OSError)
    if hashlib.sha256(content).hexdigest() != column.sha256:
        raise _failure(
            column,
            "differs from its sha256",
            "A map is public and pinned, for another map makes other records",
            "Restore the file, or pin it anew; `sha256sum FILE` prints the digest",
        )
    return content


def _failure(column: OnnxColumn, problem: str, rule: str, remedy: str) -> ConfigError:
    return ConfigError(f'columns "{column.name}": the file "{column.file}" {problem}', rule, remedy)
