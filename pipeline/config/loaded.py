"""A validated config together with the places it names, and its part that decides a release."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.printable import short
from blockveil.pipeline.config.mechanism_sections import AllocatedSection
from blockveil.pipeline.config.model import Address, ReleaseConfig
from blockveil.pipeline.config.secrets import check_private, read_address, read_key_store
from blockveil.pipeline.sections.fields import REFERENCES
from blockveil.pipeline.sections.geometry_section import BoxGeometry, EllipsoidGeometry
from blockveil.pipeline.sections.query_sections import Asked


@dataclass(frozen=True)
class Override:
    """A value that was laid over a config file for one call.

    Attributes
    ----------
    key
        Its key with dots.
    text
        The value, as TOML has it.
    before
        What the file says; None where it says nothing.
    """

    key: str
    text: str
    before: Any

    @property
    def sentence(self) -> str:
        """The same for a person; long values are cut short."""
        if self.before is None:
            return f"{self.key} = {short(self.text, _MOST_SHOWN)}, which the file leaves out"
        if not isinstance(self.before, bool | int | float | str):
            return f"{self.key} = {short(self.text, _MOST_SHOWN)}, in place of what the file says"
        before = json.dumps(self.before, ensure_ascii=False)
        return f"{self.key} = {short(self.text, _MOST_SHOWN)}, in place of {short(before, _MOST_SHOWN)}"


_MOST_SHOWN = 60
"""Signs of a value that a plan shows."""


@dataclass(frozen=True)
class LoadedConfig:
    """A config and where it was found.

    Attributes
    ----------
    config
        The validated values.
    path
        Absolute path of the config file; relative paths in the config start from its folder.
    overrides
        What was laid over the file for this call, in the order in which it was given. It is displayed and decides
        nothing by itself: the values are in the config.
    """

    config: ReleaseConfig
    path: Path
    overrides: tuple[Override, ...] = field(default=(), compare=False)

    @property
    def base(self) -> Path:
        """Folder that relative paths start from."""
        return self.path.parent

    def resolve(self, name: str, key: str = "The path") -> Path:
        """Absolute path of a path written in the config under a key; ConfigError where there can be none."""
        return absolute(self.base / name, key)

    @property
    def store_path(self) -> Path:
        """Folder of the records, where they are on a local file system."""
        return self.resolve(self.config.data.store, "data.store")

    @property
    def store(self) -> Path | str:
        """Folder of the records, or their address in an object store."""
        return self.config.data.store if "://" in self.config.data.store else self.store_path

    @property
    def output_root(self) -> Path:
        """Folder of published releases."""
        return self.resolve(self.config.output.root, "output.root")

    @property
    def keys_root(self) -> Path | None:
        """Folder of noise keys; None where another package keeps them, at an address that is named by reference."""
        location = self.config.output.keys
        return None if location.startswith(REFERENCES) else self.resolve(location, "output.keys")

    @property
    def keys_address(self) -> str:
        """Address of the key store of another package. It may hold a password: it is for opening the store only.

        Raises
        ------
        ConfigError
            What ``output.keys`` refers to cannot be read, or is no address of a key store of an installed package.
        """
        return read_key_store("output.keys", self.config.output.keys, self.base)

    @property
    def ledger_path(self) -> Path | None:
        """The ledger's SQLite file; None where it is a database that is named by reference."""
        location = self.config.output.ledger
        return None if location.startswith(REFERENCES) else self.resolve(location, "output.ledger")

    @property
    def ledger_url(self) -> str:
        """The ledger as a database address. It may hold a password: it is for opening the ledger only.

        Raises
        ------
        ConfigError
            What ``output.ledger`` refers to cannot be read or is no address of a PostgreSQL database.
        """
        if self.ledger_path is not None:
            return f"sqlite:///{self.ledger_path}"
        return read_address("output.ledger", self.config.output.ledger, self.base)

    def shape_matrix(self) -> NDArray[np.float64]:
        """Return the ellipsoid's matrix, shape (d, d), raw units squared.

        Raises
        ------
        ConfigError
            The geometry has no matrix file, the file changed since the config was loaded, or it holds something else.
        """
        geometry = self.config.query.geometries.get("geometry")
        if not isinstance(geometry, EllipsoidGeometry) or geometry.shape == "diagonal":
            raise ConfigError("query.geometry names no matrix", "Only an ellipsoid may have one", "Set shape to a file")
        return self._pinned(SHAPE, geometry.shape, geometry.shape_sha256, len(geometry.features))

    def directions(self) -> NDArray[np.float64] | None:
        """Return the directions of noise, shape (d, d), one a column; None where none are declared.

        Raises
        ------
        ConfigError
            The file changed since the config was loaded, or it holds something else.
        """
        mechanism = self.config.mechanism
        if not isinstance(mechanism, AllocatedSection) or mechanism.directions is None:
            return None
        size = len(self.config.query.columns)
        return self._pinned(DIRECTIONS, mechanism.directions, mechanism.directions_sha256, size)

    def _pinned(self, what: MatrixFile, name: str, pin: str | None, dimension: int) -> NDArray[np.float64]:
        content = _read(self.resolve(name, what.key), name, what)
        if hashlib.sha256(content).hexdigest() != pin:
            raise what.error(name, "changed while the release was planned", "Plan again")
        return _matrix(content, name, dimension, what)

    def tls_files(self) -> dict[str, Path] | None:
        """Return the paths ``tls_ca_file``, ``tls_client_cert`` and ``tls_client_key`` of a scheduler, or None.

        Raises
        ------
        ConfigError
            A variable that a reference names is not set, or other accounts may read or change the key.
        """
        cluster = self.config.cluster
        if not isinstance(cluster, Address):
            return None
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        paths = {name: self._refer(name, ref) for name in names if (ref := getattr(cluster, name)) is not None}
        for name, path in paths.items():
            check_private(f"cluster.{name}", path)
        return paths or None

    def _refer(self, key: str, reference: str) -> Path:
        scheme, _, rest = reference.partition(":")
        if scheme == "file":
            return self.resolve(rest, f"cluster.{key}")
        if rest not in os.environ:
            raise ConfigError(
                f"cluster.{key}: the variable {rest} is not set", "A reference must exist", f"Export {rest} with a path"
            )
        return self.resolve(os.environ[rest], f"cluster.{key}")


_DECIDING = {"release", "query", "privacy", "mechanism", "continual"}


def release_world(config: ReleaseConfig) -> dict[str, Any]:
    """Return the part of a config that decides a release, as plain JSON values.

    Paths are not part of it: the records are identified by their fingerprint, a matrix file by its digest. Keys without
    a value are left out.

    Raises
    ------
    ValueError
        The config names a matrix file but was not loaded by ``load_config``, which pins the file's digest.
    """
    geometry = config.query.geometries.get("geometry")
    world = config.model_dump(mode="json", exclude_none=True, include=_DECIDING)
    if isinstance(geometry, EllipsoidGeometry) and geometry.shape != "diagonal":
        if geometry.shape_sha256 is None:
            raise ValueError("the matrix file has no digest; load the config with load_config")
        world["query"]["geometry"]["shape"] = "matrix"
    for key, shape in config.query.geometries.items():
        if isinstance(shape, BoxGeometry) and shape.bounds is not None:
            world["query"][key]["bounds"] = "file"
    if isinstance(config.mechanism, AllocatedSection) and config.mechanism.directions is not None:
        if config.mechanism.directions_sha256 is None:
            raise ValueError("the directions have no digest; load the config with load_config")
        world["mechanism"]["directions"] = "matrix"
    if isinstance(config.query, Asked) and config.query.quantisation_bits is None:
        world["query"]["quantisation_bits"] = config.query.usual_bits
    if "weights" in world["query"].get("model", {}):
        world["query"]["model"]["weights"] = "file"
    unvetted = {"unvetted": [each.facts for each in config.unvetted]} if config.unvetted else {}
    part = {} if config.data.partition_by is None else {"partition_by": config.data.partition_by}
    return {**world, **unvetted, "data": {"array": config.data.array, **part}}


@dataclass(frozen=True)
class MatrixFile:
    """A public matrix that a config names."""

    key: str
    kind: str

    def error(self, name: str, problem: str, remedy: str) -> ConfigError:
        """What is wrong with a file of this name."""
        rule = f"It must be an .npy file of {self.kind}, one row for each feature"
        return ConfigError(f'{self.key}: the file "{name}" {problem}', rule, remedy)


SHAPE = MatrixFile("query.geometry.shape", "a symmetric positive definite matrix")
DIRECTIONS = MatrixFile("mechanism.directions", "an orthonormal matrix")


def pinned_digest(loaded: LoadedConfig, what: MatrixFile, name: str, pin: str | None) -> str:
    """Return the SHA-256 of a matrix file; ConfigError where it differs from the pin in the config."""
    digest = hashlib.sha256(_read(loaded.resolve(name, what.key), name, what)).hexdigest()
    if pin not in (None, digest):
        raise ConfigError(
            f'{what.key}: the file "{name}" differs from its {what.key.rpartition(".")[2]}_sha256',
            "A pinned matrix must not change",
            f"Restore the file, or set {what.key.rpartition('.')[2]}_sha256 to {digest}",
        )
    return digest


def _read(file: Path, name: str, what: MatrixFile) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({os.strerror(error.errno or 0)})"
        failure = durable.unreadable(error, what.error(name, problem, f"Correct {what.key}"))
    raise failure


def _matrix(content: bytes, name: str, dimension: int, what: MatrixFile) -> NDArray[np.float64]:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        # A conversion would take the real part of complex numbers, and read text as numbers.
        matrix = np.asarray(loaded, dtype=np.float64) if loaded.dtype.kind in "fiu" else np.empty(0)
    except Exception:  # noqa: BLE001 - a reader of foreign files may raise anything
        matrix = np.empty(0)
    if matrix.shape != (dimension, dimension) or not np.all(np.isfinite(matrix)):
        raise what.error(
            name, f"does not hold a {dimension} x {dimension} matrix of finite numbers", "Save one with numpy.save"
        )
    return matrix
