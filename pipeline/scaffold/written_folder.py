"""The folder of a release on the disk: written whole, or nothing of it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from blockveil.pipeline.base.durable import replace_file, store_error, sync_tree, write_new
from blockveil.pipeline.scaffold.folder import DEPLOYMENTS, FirstRelease, require_new


def write(composed: FirstRelease) -> None:
    """Write the folder, or the files of a further question in one that is there: whole, or nothing of it.

    Raises
    ------
    ConfigError
        It exists already.
    StoreError
        It cannot be written.
    """
    try:
        _join(composed) if composed.joins else _make(composed)
    except OSError as error:
        failure = store_error(error, "writing the configs", "--output")
    else:
        return
    raise failure


def _make(composed: FirstRelease) -> None:
    """Make a folder by one rename."""
    folder = composed.folder
    require_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".init-", dir=folder.parent))
    try:
        for name, text in composed.files.items():
            (staging / name).write_text(text, encoding="utf-8")
        (staging / "private").mkdir(mode=0o700)
        staging.chmod(0o755)
        sync_tree(staging)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _join(composed: FirstRelease) -> None:
    """Add files to a folder; the nights, which begin to use them, come last."""
    new = {name: text for name, text in composed.files.items() if name != DEPLOYMENTS}
    paths: list[Path] = []
    try:
        for name, text in new.items():
            path = composed.folder / name
            write_new(path, text.encode(), f'the config "{name}"', "A config that is there is not overwritten")
            paths.append(path)
        if DEPLOYMENTS in composed.files:
            target = composed.folder / DEPLOYMENTS
            replace_file(target, composed.files[DEPLOYMENTS].encode(), target.with_suffix(".new"))
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
