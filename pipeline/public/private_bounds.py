"""Bounds of columns from a published release of histograms: the charged way to learn them.

The release was paid for when it was made, so whatever is computed from it costs nothing more. A later config names the
file that is written here, and is pinned to it by its digest; the two charges add up in the ledger like any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.engine.estimates.chosen_bounds import ChosenBounds
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.kinds import kind_of
from blockveil.pipeline.config.bounds_file import BoundedFeature, BoundsFile
from blockveil.pipeline.releases.publishing import read_release
from blockveil.pipeline.sections.fields import LARGEST

_SHOWN = 50
"""Columns whose bounds are shown; the file holds all."""


_MOSTLY_ZERO = (
    "most values are zero, and of the others more may lie outside of these bounds than within: they would be clipped. "
    "Declare lower and upper that you know, or edges of bins for another draft, or find the bounds with a larger share "
    "of the promise or for fewer columns"
)


@dataclass(frozen=True)
class PrivateBounds:
    """Bounds that a release gives.

    Attributes
    ----------
    found
        Names and bounds of the columns, in their order.
    lost
        Names of columns of which nothing stands out from the noise.
    reach
        Values that noise alone does not give a bin; a bin of twice as many is found.
    file
        What a config names.
    """

    found: tuple[tuple[str, ChosenBounds], ...]
    lost: tuple[str, ...]
    reach: float
    file: BoundsFile

    def rows(self, name: str) -> list[tuple[str, str]]:
        """Lines for a reader: the bounds, what lies outside, and how to declare them."""
        percent = f"{100 * CONFIDENCE:.0f} of 100 releases"
        rows = [("From", self.file.release), *((feature, _words(each)) for feature, each in self.found[:_SHOWN])]
        if len(self.found) > _SHOWN:
            rows.append(("...", f"and {len(self.found) - _SHOWN} more columns, which the file holds"))
        if self.lost:
            rows.append(("Not found", f"{_listed(self.lost)}: nothing in any bin stands out from the noise"))
        zeros = tuple(feature for feature, each in self.found if each.mostly_zero)
        if zeros:
            rows.append(("Warning", f"{_listed(zeros)}: {_MOSTLY_ZERO}"))
        return [
            *rows,
            (
                "Missed",
                f"a bin of fewer than {2.0 * self.reach:.4g} values may be left out; all this holds in {percent}",
            ),
            ("Geometry", f'kind = "box", bounds = "{name}"; features without lower and upper take theirs from it'),
            ("Budget", "the release has been charged; the bounds themselves cost nothing"),
        ]


def _words(bounds: ChosenBounds) -> str:
    outside = bounds.outside
    if outside.share != outside.share:  # not a number
        share = "what share of the values lies outside is not known"
    else:
        low, high = (f"{100.0 * share:.3g}" for share in (outside.least_share, outside.most_share))
        share = f"{100.0 * outside.share:.3g} % of the values outside, between {low} and {high} %"
    beyond = "; values stand out beyond the widest bin and are clipped" if bounds.beyond_widest else ""
    return f"{bounds.lower:.6g} to {bounds.upper:.6g}; {share}{beyond}"


def _listed(names: tuple[str, ...]) -> str:
    quoted = ", ".join(f'"{name[:40]}"' for name in names[:3])
    return quoted if len(names) <= 3 else f"{quoted} and {len(names) - 3} more"


def private_bounds(release: Path, accepted: float = 0.0) -> PrivateBounds:
    """Bounds that a release of histograms gives.

    Parameters
    ----------
    release
        Folder or pointer of a published release of kind "column-histograms".
    accepted
        Share of a column's values that may lie outside its bounds, 0 to 0.5; zero asks for bounds beyond which nothing
        stands out from the noise.

    Raises
    ------
    ConfigError
        It is another release, nothing stands out from its noise, or the share is out of range.
    StoreError
        The release cannot be read.
    """
    if not 0.0 <= accepted <= 0.5:
        raise ConfigError(
            f"outside is {accepted:g}", "It is a share of a column's values, 0 to 0.5", "Give for instance 0.01"
        )
    opened = read_release(release)
    parts: Any = kind_of(str(opened.attributes.get("query", {}).get("kind"))).part("released_bounds", None)
    if parts is None:
        raise ConfigError(
            "This release gives no bounds",
            'Bounds are chosen from a release of kind "column-histograms"',
            "Draft one with blockveil public bounds draft",
        )
    bounds_of, noise_of = parts
    choices = bounds_of(opened.arrays, opened.attributes, accepted)
    bounds = tuple((name, each) for name, each in choices if each is not None)
    lost = tuple(name for name, each in choices if each is None)
    reach = noise_of(opened.arrays, opened.attributes).reach
    if not bounds:
        raise ConfigError(
            "No column of this release has a bin that stands out from the noise",
            f"A bin is found if it holds about {2.0 * reach:.3g} values or more",
            "Release it with a larger epsilon, for fewer columns or of more records, or declare bounds that you know",
        )
    features = tuple(
        BoundedFeature(name=name, lower=_within(each.lower), upper=_within(each.upper)) for name, each in bounds
    )
    source, digest = str(opened.attributes["release_id"]), opened.output_digest
    return PrivateBounds(bounds, lost, reach, BoundsFile(release=source, content_sha256=digest, features=features))


def _within(bound: float) -> float:
    """A bound that a config may hold; bins end within it, as their section says."""
    return min(max(bound, -LARGEST), LARGEST)


def save_bounds(bounds: PrivateBounds, output: Path) -> None:
    """Write the bounds as a TOML file that does not exist yet.

    Raises
    ------
    ConfigError
        The name does not end in .toml.
    StoreError
        The file exists or cannot be written.
    """
    comments = (
        f"Bounds of columns, from the charged release {bounds.file.release}.",
        "A config names this file as query.geometry.bounds and is pinned to it by its SHA-256: do not change it.",
    )
    save_toml(bounds.file.text(comments), output)


def save_toml(text: str, output: Path) -> None:
    """Write a TOML file that does not exist yet; raises as :func:`save_bounds`."""
    if output.suffix != ".toml":
        raise ConfigError(
            f'"{output.name}" has no .toml name', "A config is a TOML file, and so are bounds", "Rename it"
        )
    durable.write_new(output, text.encode(), "the file", "What a release may depend on is not overwritten")
