"""The release that a person names on the command line: by its id, its pointer, its folder or its address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.objects import is_remote
from blockveil.pipeline.data.pointers import find_release, split_release_id
from blockveil.pipeline.data.stores import Location

if TYPE_CHECKING:
    from blockveil.pipeline.config import LoadedConfig


def named_release(named: str, loaded: LoadedConfig | None) -> Location:
    """Pointer or folder that is named, or its address."""
    if is_remote(named):
        return named
    if Path(named).exists() or not re.fullmatch(r"[^/]+/[^/]+/\d{4}-\d{2}-\d{2}", named):
        return Path(named)
    if loaded is None:
        raise ConfigError(
            f"{named} is a release id, and no config says where releases are",
            "A release id is found under output.root of a config",
            "Give --config, or the pointer or folder of the release",
        )
    try:
        split_release_id(named)
    except ValueError as error:
        raise ConfigError(f"{named} is not a release id", str(error), "Correct it") from None
    return find_release(loaded.output_root, named)
