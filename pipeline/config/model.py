"""A release's config as frozen models.

Two worlds that never mix: ``[release] [data] [query] [privacy] [mechanism]`` decide the release;
``[compute] [cluster] [output]`` may not change a bit of it. Privacy parameters, bounds, the neighbouring relation and
the handling of missing values have no defaults, because a default would be a decision that nobody took.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from engine.guarantees import Neighbours
from pipeline.config.fields import Label, Length, LocalPath, Name, Number, Reference, Section, Whole, refusal
from pipeline.config.geometry import BoxFeature, Geometry, PointFeature

_ARRAY_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"


class ReleaseSection(Section):
    """``[release]``: what is released, together with the logical date."""

    dataset: Name
    """the name of the data set whose budget pays: at most 63 lower-case letters, digits and dashes"""
    name: Name
    """the name of the release: at most 63 lower-case letters, digits and dashes"""


class DataSection(Section):
    """``[data]``: where the records are."""

    store: LocalPath
    """the local folder of a Zarr array or group, relative to the config file"""
    array: Annotated[str, StringConstraints(pattern=_ARRAY_PATTERN)] = "records"
    """the name of the array in the group: letters, digits, dots, dashes and underscores"""


class QuerySection(Section):
    """``[query]``: what is asked of the records."""

    kind: Literal["covariance", "second-moment"]
    """the matrix to release"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "impute"]
    """what to do with a missing value"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=20)] = 16
    """the bits of one quantised value"""
    geometry: Geometry
    """the public shape of one record"""

    @model_validator(mode="after")
    def _imputed(self) -> QuerySection:
        features: Sequence[BoxFeature | PointFeature] = self.geometry.features
        for position, (feature, (low, high)) in enumerate(zip(features, self.geometry.spans(), strict=True)):
            key, value = f"geometry.features[{position}].impute", feature.impute
            if (value is not None) != (self.missing == "impute"):
                raise refusal(
                    key,
                    f'{"missing" if value is None else "given"} for feature "{feature.name}"',
                    'Each feature has an impute value if and only if missing = "impute"',
                    "Give a public constant" if value is None else 'Remove it, or set query.missing = "impute"',
                )
            if value is not None and not low <= value <= high:
                raise refusal(
                    key,
                    f'{value!r} for feature "{feature.name}"',
                    f"An imputed value must be admissible, between {low!r} and {high!r}",
                    "Choose a public constant inside the bounds",
                )
        return self


class PrivacySection(Section):
    """``[privacy]``: what is promised, to whom."""

    epsilon: Annotated[Number, Field(gt=0, le=1000)]
    """the largest privacy loss of this release"""
    delta: Annotated[Number, Field(gt=0, le=0.5)]
    """the probability that the loss may exceed epsilon"""
    neighbours: Neighbours
    """how two neighbouring data sets differ"""
    unit: Label
    """what one record stands for in printable text, such as "one person" """


class Gaussian(Section):
    """Equal noise for each entry, in raw units."""

    kind: Literal["gaussian"]
    """the noise mechanism"""


def _aim_tag(value: Any) -> str:
    return "<importances>" if isinstance(value, dict) else "<aim>"


class ShapedGaussian(Section):
    """Noise that follows the declared shape."""

    kind: Literal["shaped-gaussian"]
    """the noise mechanism"""
    optimise_for: Annotated[
        Annotated[Literal["relative-error", "absolute-error"], Tag("<aim>")]
        | Annotated[dict[str, Length], Tag("<importances>")],
        Discriminator(_aim_tag),
    ]
    """the error to make small: "relative-error", "absolute-error", or a positive importance for each feature"""


class ComputeSection(Section):
    """``[compute]``: how much memory and how large blocks; no influence on the numbers."""

    memory_gib: Annotated[Number, Field(gt=0, le=1e6)] = 4.0
    """the memory that one worker may use, in GiB"""
    block_rows: Annotated[Whole, Field(ge=1)] | None = None
    """the records read at once; chosen from memory where it is not given"""


class Threads(Section):
    """Threads of this process, without a cluster."""

    kind: Literal["threads"]
    """the kind of cluster"""
    threads_per_worker: Annotated[Whole, Field(ge=1, le=4096)] = 2
    """the threads of this process"""


class LocalCluster(Section):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    """the kind of cluster"""
    workers: Annotated[Whole, Field(ge=1, le=4096)] = 2
    """the number of worker processes"""
    threads_per_worker: Annotated[Whole, Field(ge=1, le=4096)] = 1
    """the threads of one worker"""


class Address(Section):
    """A running Dask scheduler; encrypted unless it is on this machine."""

    kind: Literal["address"]
    """the kind of cluster"""
    address: Annotated[str, StringConstraints(pattern=r"^(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")]
    """the address of a scheduler, such as "tls://scheduler.example.org:8786" """
    tls_authority: Reference | None = None
    """the certificate authority's file, as "file:PATH" or "env:NAME" of a variable that holds the path"""
    tls_certificate: Reference | None = None
    """the client certificate's file, as "file:PATH" or "env:NAME" """
    tls_key: Reference | None = None
    """the client key's file, as "file:PATH" or "env:NAME" """

    @model_validator(mode="after")
    def _encrypted(self) -> Address:
        local = re.match(r"tcp://(localhost|127\.[0-9.]+|\[::1\]):", self.address)
        if self.address.startswith("tcp://") and not local:
            raise refusal(
                "address",
                f'"{self.address}"',
                "Keys and un-noised sums travel to workers, so a scheduler on another machine must use TLS",
                "Use a tls:// address",
            )
        given = [reference is not None for reference in (self.tls_authority, self.tls_certificate, self.tls_key)]
        if any(given) and not (all(given) and self.address.startswith("tls://")):
            raise refusal(
                "tls_authority",
                "the TLS files are incomplete, or the address is not tls://",
                "tls_authority, tls_certificate and tls_key go together, with a tls:// address",
                "Give all three or none",
            )
        return self


class OutputSection(Section):
    """``[output]``: where releases, the ledger and keys are kept."""

    root: LocalPath
    """the folder that releases are published in, relative to the config file"""
    ledger: LocalPath
    """the ledger's SQLite file, relative to the config file"""
    keys: LocalPath
    """the private folder of noise keys, relative to the config file"""


def _local_by_default(value: Any) -> Any:
    return {"kind": "local", **value} if isinstance(value, dict) and "address" not in value else value


Mechanism = Annotated[Gaussian | ShapedGaussian, Field(discriminator="kind")]
Cluster = Annotated[Threads | LocalCluster | Address, Field(discriminator="kind")]


class ReleaseConfig(Section):
    """Everything one release needs to be told."""

    release: ReleaseSection
    """what is released"""
    data: DataSection
    """where the records are"""
    query: QuerySection
    """what is asked of the records"""
    privacy: PrivacySection
    """what is promised"""
    mechanism: Mechanism
    """how noise is shaped"""
    compute: ComputeSection = ComputeSection()
    """memory and block size"""
    cluster: Annotated[Cluster, BeforeValidator(_local_by_default)] = LocalCluster()
    """where the work runs"""
    output: OutputSection
    """where results are kept"""

    @model_validator(mode="after")
    def _delta_protects_everyone(self) -> ReleaseConfig:
        rows, delta = self.query.rows_at_most, self.privacy.delta
        # A delta of 1/n allows a mechanism that publishes one record of n in clear: it must be below that.
        if delta >= 1.0 / rows:
            raise refusal(
                "privacy.delta",
                f"{delta!r} with query.rows_at_most = {rows}",
                "delta must be well below 1 / rows_at_most, or publishing a random record in clear would be allowed",
                f"Lower delta, for instance to {0.01 / rows:.0e}",
            )
        return self

    @model_validator(mode="after")
    def _importance_for_each_feature(self) -> ReleaseConfig:
        if isinstance(self.mechanism, ShapedGaussian) and isinstance(self.mechanism.optimise_for, dict):
            features: Sequence[BoxFeature | PointFeature] = self.query.geometry.features
            names = {feature.name for feature in features}
            wrong = sorted(names ^ set(self.mechanism.optimise_for))
            if wrong:
                state = "has no importance" if wrong[0] in names else "is not a feature"
                raise refusal(
                    "mechanism.optimise_for",
                    f'"{wrong[0]}" {state}',
                    "Importances name exactly the features of query.geometry",
                    "Add it" if wrong[0] in names else "Remove or rename it",
                )
        return self
