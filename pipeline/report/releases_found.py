"""Published releases under folders of releases, by their pointers, and the configs that make them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.base.places import absolute, looked_into
from blockveil.pipeline.config.deployments_file import config_names
from blockveil.pipeline.config.load import load_config
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.data.pointers import read_json, split_release_id, withdrawal_of

_DIGEST = re.compile(r"[0-9a-f]{64}")

_WHY = "Pages show all releases of a place, so all of its folders are looked into"


@dataclass(frozen=True)
class FoundNight:
    """One published release.

    Attributes
    ----------
    release_id
        ``dataset/name/date``, each part of it a name that is safe in a path and an address.
    pointer
        Its pointer.
    output_digest
        SHA-256 of its content, by the pointer; empty where the pointer cannot be read.
    withdrawn
        That it was withdrawn, when and why; empty where it stands.
    """

    release_id: str
    pointer: Path
    output_digest: str
    withdrawn: str = ""

    @property
    def night(self) -> str:
        """Logical date, ISO."""
        return split_release_id(self.release_id)[2]


@dataclass(frozen=True)
class SiteSource:
    """What a site shows.

    Attributes
    ----------
    configs
        Configs that could be read, by their names.
    unusable
        Names of those that could not.
    roots
        Folders of releases, in order.
    """

    configs: dict[str, LoadedConfig]
    unusable: tuple[str, ...]
    roots: tuple[Path, ...]


def look_at(place: Path) -> SiteSource:
    """Configs of a folder and where they release to, or a folder of releases alone.

    Raises ConfigError where there is no such folder, or it has neither configs nor releases.
    """
    folder = absolute(place, "The folder")
    if not folder.is_dir():
        raise ConfigError(
            f'"{place}" is no folder', "A site is made of a folder of configs or of releases", "Correct it"
        )
    configs: dict[str, LoadedConfig] = {}
    unusable = []
    for name in config_names(folder, "release", or_unreadable=True):
        try:
            configs[name] = load_config(folder / f"{name}.toml")
        except BlockveilError:
            unusable.append(name)
    roots = sorted({each.output_root for each in configs.values()})
    if not configs and not unusable:
        if next(pointers(folder), None) is None:
            raise ConfigError(
                f'"{place}" has no config of a release and no release',
                "A site is made of a folder of configs, or of releases as dataset/name/date.json",
                "Name the folder of configs, or output.root of one",
            )
        roots = [folder]
    return SiteSource(configs, tuple(unusable), tuple(roots))


def pointers(root: Path) -> Iterator[tuple[str, Path]]:
    """Release id and pointer of each release under a folder; whatever else lies there is left out."""
    for path in _pointed(root):
        release_id = "/".join([*path.relative_to(root).parts[:2], path.stem])
        try:
            split_release_id(release_id)
        except ValueError:
            continue
        yield release_id, path


def _pointed(root: Path) -> Iterator[Path]:
    """Files two folders down."""
    folders = [root]
    for _ in range(2):
        folders = [each for folder in folders for each in looked_into(folder, _WHY) if each.is_dir()]
    yield from (each for folder in folders for each in looked_into(folder, _WHY) if each.suffix == ".json")


def nights_of(root: Path) -> dict[str, list[FoundNight]]:
    """Nights of each ``dataset/name`` under a folder, the newest last."""
    nights: dict[str, list[FoundNight]] = {}
    for release_id, path in sorted(pointers(root)):
        try:
            digest, withdrawal = str(read_json(path).get("output_digest")), withdrawal_of(path)
        except StoreError:
            digest, withdrawal = "", None
        summary = "" if withdrawal is None else f"Withdrawn on {withdrawal.day}: {withdrawal.reason}"
        digest = digest if _DIGEST.fullmatch(digest) else ""
        nights.setdefault(release_id.rpartition("/")[0], []).append(FoundNight(release_id, path, digest, summary))
    return nights


def fingerprint(roots: Sequence[Path]) -> tuple[tuple[str, int], ...]:
    """What changes when a release comes or goes: each pointer and the time of its last change."""
    return tuple((str(path), path.stat().st_mtime_ns) for root in roots for _, path in sorted(pointers(root)))
