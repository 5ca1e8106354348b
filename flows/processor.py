"""Kernels of the linear algebra library on processors that are newer than it.

OpenBLAS chooses its kernels by the processor's family. For a family that it does not know it takes those of 2013, which
reach about half the speed of a processor with AVX-512. A release does not depend on the choice: what BLAS computes of
records are sums of integers, exact in any order.
"""

from __future__ import annotations

import os
from pathlib import Path

_AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
"""What the kernels named SkylakeX use."""

_FIRST_UNKNOWN = 26
"""AMD's Zen 5; OpenBLAS 0.3.30 does not know it."""


def kernels(processor: str) -> str | None:
    """Kernels to ask OpenBLAS for, or None where it chooses well.

    Parameters
    ----------
    processor
        Text of ``/proc/cpuinfo``.
    """
    first = processor.partition("\n\n")[0]
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    unknown = fields.get("vendor_id") == "AuthenticAMD" and int(fields.get("cpu family", 0)) >= _FIRST_UNKNOWN
    return "SkylakeX" if unknown and set(fields.get("flags", "").split()) >= _AVX512 else None


def choose_kernels() -> None:
    """Set the choice for this process and its children, unless one is set; NumPy must not have been imported yet."""
    try:
        found = kernels(Path("/proc/cpuinfo").read_text())
    except OSError:  # another operating system
        return
    if found is not None:
        os.environ.setdefault("OPENBLAS_CORETYPE", found)
