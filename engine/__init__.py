"""Numbers on blocks: queries, sensitivities, calibration and noise. Knows no orchestration, ledger, config or clock."""

import importlib

import numpy

_LEFT_OUT = {"f2py", "test", "testing"}


def _begin() -> None:
    """Import SciPy's functions without what they have no use for.

    They copy the names of all of NumPy, and its compiler of Fortran and its tools for tests would be imported for it by
    each command and each worker: a third of the time that the functions take, and 7 MiB. Whoever asks NumPy for one of
    these still gets it.
    """
    names, listed = numpy.__all__, numpy.__dir__
    try:
        numpy.__all__ = [name for name in names if name not in _LEFT_OUT]
        setattr(numpy, "__dir__", lambda: [name for name in listed() if name not in _LEFT_OUT])  # noqa: B010 - a hook
        importlib.import_module("scipy.special")
    finally:
        numpy.__all__ = names
        setattr(numpy, "__dir__", listed)  # noqa: B010


_begin()
