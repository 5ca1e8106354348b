"""Libraries that only some uses need: which extra of the package brings each of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar

from blockveil.pipeline.base.errors import BlockveilError

EXTRAS = {
    "adbc_driver_postgresql": "sql",
    "deltalake": "delta",
    "dp_accounting": "training",
    "duckdb": "sql",
    "h5netcdf": "netcdf",
    "h5py": "netcdf",
    "httpx": "server",
    "numba": "fast",
    "obstore": "s3",
    "onnxruntime": "fast",
    "pandas": "analysis",
    "prefect": "server",
    "prometheus_client": "server",
    "psycopg": "postgres",
    "pyiceberg": "iceberg",
    "sqlglot": "sql",
    "starlette": "server",
    "uvicorn": "server",
    "whenever": "server",
    "xarray": "analysis",
}
"""Extra of the package by the name that is imported."""


def is_installed(name: str) -> bool:
    """Whether a library can be imported, without importing it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


_WITHOUT = {"server": "; without it, `blockveil run --no-prefect` makes the same release"}


class MissingExtra(BlockveilError):
    """A library is not installed that this use needs."""

    exit_code: ClassVar[int] = 2

    @classmethod
    def of(cls, error: ModuleNotFoundError) -> MissingExtra | None:
        """What to install for a library that was not found; None where no extra brings it."""
        name = (error.name or "").partition(".")[0]
        return cls._named(name) if name in EXTRAS else None

    @classmethod
    def require(cls, name: str) -> None:
        """Refuse to go on without a library that an extra brings, before anything is started that needs it.

        Raises
        ------
        MissingExtra
            It is not installed.
        """
        if not is_installed(name):
            raise cls._named(name)

    @classmethod
    def _named(cls, name: str) -> MissingExtra:
        extra = EXTRAS[name]
        return cls(
            f"The package {name} is not installed",
            "Only some uses need it, and it comes with an extra",
            f'Install it with: pip install "blockveil[{extra}]"{_WITHOUT.get(extra, "")}',
        )
