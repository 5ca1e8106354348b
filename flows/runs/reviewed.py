"""Where the reviewed configs of this installation lie, and which file a name stands for."""

from __future__ import annotations

import os
import re
from pathlib import Path

from blockveil.pipeline.base.errors import ConfigError

CONFIG_ROOT = "BLOCKVEIL_CONFIG_ROOT"
"""Environment variable: folder of reviewed configs; without it ``configs`` in the working directory."""

_RELEASE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def config_file(name: str) -> Path:
    """File of a reviewed config under the config root.

    Raises
    ------
    ConfigError
        The name is not a plain name.
    """
    if not _RELEASE_NAME.fullmatch(name):
        raise ConfigError(
            f"The release {name[:70]!r} is not a name",
            "A release is chosen by the name of a reviewed config: lower-case letters, digits, dashes and underscores",
            f"Give the file name without .toml of a config in the folder {CONFIG_ROOT} names",
        )
    return Path(os.environ.get(CONFIG_ROOT, "configs")) / f"{name}.toml"
