"""What runs when: ``deployments.toml`` in the folder of reviewed configs, as frozen models.

Everything in it is about when and where work starts, whom to tell, and how long to keep; nothing in it can change a bit
of a release or a budget.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, StringConstraints

from blockveil.pipeline.base.errors import ConfigError, StoreUnreachable
from blockveil.pipeline.base.places import absolute, looked_into
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.config.load import load_config
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.sections.fields import Name, Reference, RemoteLocation, Section, Whole, refusal, rule

FILE_NAME = "deployments.toml"
"""Name of the file in the folder of configs."""

CONFIG_NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""File name of a config without ``.toml``."""

Missed = Literal["skip", "latest", "all"]
"""What becomes of nights that could not start in time."""

_RULE = f"{FILE_NAME} in the folder of configs states what runs when; docs/operations.md shows one"
_ONCE_A_DAY = re.compile(r"[0-5]?\d (?:[01]?\d|2[0-3]) \S+ \S+ \S+", re.ASCII)
_BLOCK = r"^[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9-]{0,126}$"


def _cron(text: str) -> str:
    words = " ".join(text.split())
    if not _ONCE_A_DAY.fullmatch(words):
        raise refusal(
            "",
            f'"{text[:60]}"',
            "A schedule is five cron fields with a plain minute and hour, for one logical date is one release",
            'Write, for example, "30 2 * * *" for every night at half past two',
        )
    return words


def _zone(name: str) -> str:
    # Folders of zones hold files that a scheduler does not know, such as "localtime": it would never plan a run.
    if name not in available_timezones() - {"localtime", "Factory"}:
        raise refusal(
            "", f'"{name[:60]}"', "It must be a time zone of the IANA data base", 'Write one such as "Europe/Berlin"'
        )
    return name


Cron = Annotated[str, AfterValidator(_cron)]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=60), AfterValidator(_zone)]
ConfigName = Annotated[str, StringConstraints(pattern=CONFIG_NAME)]
Block = Annotated[str, StringConstraints(pattern=_BLOCK)]


class Scheduled(Section):
    """What all scheduled work has."""

    cron: Cron
    """the minute, hour, day, month and weekday, such as "30 2 * * *" """
    timezone: Zone
    """the time zone of the schedule; the logical date is the day there"""


class NightSection(Scheduled):
    """``[[night]]``: a config that is released every night."""

    config: ConfigName
    """the file name of a config in the same folder, without .toml"""
    mode: Literal["dry-run", "release"]
    """whether nights release, or only plan"""
    missed_nights: Missed
    """what to do with nights that could not start in time; each is a release with its own charge"""
    grace_minutes: Annotated[Whole, Field(ge=1, le=1440)] = 60
    """how late a night may start before it counts as missed"""
    ingest: ConfigName | None = None
    """the file name of the ingest config in the same folder, without .toml, with which each release begins; by default
    the records are read as they are"""


class LedgerCheck(Scheduled):
    """``[[verify]]``: recompute the chain of the ledger that a config names."""

    config: ConfigName
    """the file name of a config in the same folder, without .toml"""


class Ingest(Scheduled):
    """``[[ingest]]``: make the store of records again, or go on with it."""

    config: ConfigName
    """the file name of an ingest config in the same folder, without .toml"""


class AlertsSection(Section):
    """``[alerts]``: whom to tell. Addresses and passwords stay in Prefect blocks, which are named here."""

    notify: tuple[Block, ...] = ()
    """the Prefect blocks to notify, each as "type/name", such as "webhook/privacy-team" or "sendgrid-email/on-call" """
    late_minutes: Annotated[Whole, Field(ge=1, le=1440)] = 15
    """minutes after its time at which a run that has not started raises an alarm"""


class SiteSection(Section):
    """``[site]``: where `blockveil serve` sends the site of releases."""

    upload: RemoteLocation
    """the address in an object store that the pages are sent to, such as "s3://bucket/site" """
    upload_credentials: Reference | None = None
    """"env:NAME" or "file:PATH" of the credentials of the upload, as lines NAME = "VALUE", relative to this file; those
    of the environment are used where it is not given"""


class Deployments(Section):
    """Everything that is deployed."""

    pool: Name = "blockveil"
    """the name of a team server's work pool; `blockveil serve` needs none"""
    night: tuple[NightSection, ...] = ()
    """the nightly releases"""
    verify: tuple[LedgerCheck, ...] = ()
    """the ledger checks"""
    ingest: tuple[Ingest, ...] = ()
    """the ingests"""
    alerts: AlertsSection = AlertsSection()
    """who is notified"""
    site: SiteSection | None = None
    """where the site of releases is sent; it is not sent by default"""

    @rule
    def _each_once(self) -> None:
        for table, names in (
            ("night", [night.config for night in self.night]),
            ("verify", [check.config for check in self.verify]),
            ("ingest", [ingest.config for ingest in self.ingest]),
        ):
            repeat = next((name for name in names if names.count(name) > 1), None)
            if repeat is not None:
                raise refusal(table, f'"{repeat}" has two of them', "Each has one schedule", "Remove one")


@dataclass(frozen=True)
class LoadedDeployments:
    """What is deployed, and the configs of the folder it lies in.

    Attributes
    ----------
    deployments
        The validated file.
    root
        Folder of the reviewed configs.
    configs
        Config of each name that the file uses.
    """

    deployments: Deployments
    root: Path
    configs: Mapping[str, LoadedConfig]

    @property
    def offered(self) -> tuple[str, ...]:
        """Names of all release configs in the folder, used by a schedule or not."""
        return config_names(self.root, "release")


def config_names(root: Path, table: str, *, or_unreadable: bool = False) -> tuple[str, ...]:
    """Names of configs in a folder: files with a plain name that hold a table.

    Parameters
    ----------
    root
        The folder.
    table
        Name of the table.
    or_unreadable
        Whether files that cannot be read count too, since nobody can tell what they hold.
    """
    files = looked_into(root, "A folder of configs is read as a whole")
    configs = [file for file in files if file.suffix == ".toml" and file.name != FILE_NAME]
    return tuple(
        file.stem for file in configs if re.fullmatch(CONFIG_NAME, file.stem) and _holds(file, table, or_unreadable)
    )


def _holds(file: Path, table: str, or_unreadable: bool) -> bool:
    try:
        return isinstance(read_toml(file).get(table), dict)  # a file of bounds names its release in a text
    except (ConfigError, StoreUnreachable) as error:
        if error.passes and not or_unreadable:
            raise
        return or_unreadable  # who names it reads why


def load_deployments(path: str | os.PathLike[str], only: str | None = None) -> LoadedDeployments:
    """Read and validate a deployments file and every config that it names.

    With ``only``, the one config of that name is read, which the file need not name: others need not be usable.

    Raises
    ------
    ConfigError
        It or one of the configs is not usable.
    """
    place = absolute(path, "The folder of configs")
    file = place / FILE_NAME if place.is_dir() else place
    deployments = parse_deployments(read_toml(file, _RULE), file.name, file)
    root = file.parent
    names = {night.config for night in deployments.night} | {check.config for check in deployments.verify}
    names = names if only is None else names & {only}
    configs = {name: load_config(root / f"{name}.toml") for name in sorted(names)}
    for night in deployments.night:
        if night.ingest is not None and night.config in configs:
            _check_ingest(configs[night.config], root / f"{night.ingest}.toml")
    return LoadedDeployments(deployments, root, configs)


def _check_ingest(release: LoadedConfig, file: Path) -> None:
    """Refuse an ingest that does not make the store that a release reads: its nights would never see a new record."""
    target = load_ingest(file).target
    if release.store != target:
        raise ConfigError(
            f'night.ingest "{file.stem}" makes another store than "{release.path.stem}" reads',
            "A night that begins with an ingest releases what that ingest has made",
            "Let ingest.store of the one and data.store of the other name the same folder",
        )


def parse_deployments(tree: Mapping[str, Any], source: str, file: Path | None = None) -> Deployments:
    """Validate a parsed deployments file.

    Parameters
    ----------
    tree
        The parsed file.
    source
        Its name, for messages.
    file
        Where it is, for the lines of messages.

    Raises
    ------
    ConfigError
        A key is unknown, missing or has a value that is not allowed.
    """
    return validated(Deployments, tree, source, file)


def datasets(loaded: LoadedDeployments) -> Sequence[str]:
    """Data sets that the nights release from; runs of one take turns, whichever budget pays."""
    nights = (loaded.configs[night.config] for night in loaded.deployments.night)
    return sorted({config.config.release.dataset for config in nights})
