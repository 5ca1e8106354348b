"""The arrays of a release, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ReleaseArrays = Mapping[str, tuple[Any, tuple[str, ...]]]
"""Name -> (values, name of each axis)."""
