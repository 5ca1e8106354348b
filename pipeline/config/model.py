"""A release's config as frozen models.

Two worlds that never mix: ``[release] [data] [query] [privacy] [mechanism] [continual]`` decide the release;
``[compute] [cluster] [approval] [output]`` may not change a bit of it. Privacy parameters, bounds, the neighbouring
relation and the handling of missing values have no defaults, because a default would be a decision that nobody took.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, StringConstraints, create_model

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.kinds import Kind, kind_of
from blockveil.pipeline.config import learned_geometry
from blockveil.pipeline.config.approval_section import ApprovalSection
from blockveil.pipeline.config.mechanism_sections import Mechanism
from blockveil.pipeline.config.queries import GROWING, Query
from blockveil.pipeline.config.unvetted import Unvetted
from blockveil.pipeline.sections.fields import (
    Label,
    LocalPath,
    Location,
    Name,
    Number,
    PathOrReference,
    Reference,
    RemoteLocation,
    Section,
    Whole,
    refusal,
    rule,
)

Insecure = Annotated[bool, Strict()]

SHARING = ("gaussian", "shaped-gaussian", "residuals", "matrix-mechanism", "hierarchical")
"""Kinds of mechanism whose noise nights can share; ``hierarchical`` where it is Gaussian."""

_ARRAY_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"


class ReleaseSection(Section):
    """``[release]``: what is released, together with the logical date."""

    dataset: Name
    """the name of the data set, and of the budget that pays unless budget names another: at most 63 lower-case letters,
    digits and dashes"""
    name: Name
    """the name of the release: at most 63 lower-case letters, digits and dashes"""
    budget: Name | None = None
    """the name of the budget that pays, where several data sets share people; the data set's own by default"""

    allow_unvetted: Annotated[bool, Strict(), AfterValidator(lambda value: value or None)] | None = None
    """whether a release may rest on a mechanism, query or ledger of another package, not checked with this one"""

    @property
    def account(self) -> str:
        """Name of the budget that pays."""
        return self.budget or self.dataset


class DataSection(Section):
    """``[data]``: where the records are."""

    store: Location
    """the folder of a Zarr array or group, relative to the config file, or its address in an object store"""
    array: Annotated[str, StringConstraints(pattern=_ARRAY_PATTERN)] = "records"
    """the name of the array in the group: letters, digits, dots, dashes and underscores"""
    partition_by: Label | None = None
    """the column of ingest.partition: the release is charged to that partition alone, which is valid only if each unit
    has one record in all stores, in one partition for good; charged to all records by default"""


class PrivacySection(Section):
    """``[privacy]``: what is promised, to whom."""

    epsilon: Annotated[Number, Field(gt=0, le=1000)]
    """how far one unit may move the odds of any output: by a factor of e^epsilon at most, but for delta; with a share,
    that of all releases that share it"""
    delta: Annotated[Number, Field(gt=0, le=0.5)]
    """what is added: P <= e^epsilon P' + delta for every set of outputs, P with and P' without the unit, and the other
    way round; below 1 / rows_at_most"""
    neighbours: Neighbours
    """how neighbours differ: by one unit that is there or not ("add-remove", the number of records is private), or by
    what it holds ("replace-one", the number is public)"""
    unit: Label
    """who or what a release protects, in printable text, such as "one person"; the unit of the ingest where there was
    one"""
    rows_per_unit: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    """the most rows of one unit in the store, as an ingest has bounded them; noise and charge are for all of them; 1
    where it is not given"""
    share: Annotated[Number, Field(gt=0, le=1)] | None = None
    """the share of mu squared, not of epsilon or delta, that this one of several releases takes of their common
    guarantee; for Gaussian noise; all of it by default"""


Span = Annotated[Whole, Field(ge=1, le=3659)]
"""A number of nights before another."""


class ContinualSection(Section):
    """``[continual]``: nights over growing records that one charge pays for."""

    nights: Annotated[Whole, Field(ge=2, le=3660)]
    """the nights that one charge and its guarantee are for, all together"""
    first: Annotated[date, Strict()]
    """the logical date of the first of them, such as 2026-11-01; the others are those of the days after it"""
    windows: Annotated[tuple[Span, ...], Field(min_length=1, max_length=8)] | None = None
    """lengths of sliding windows in nights, such as [7, 28], whose records are released too at no further charge; none
    by default"""


class ComputeSection(Section):
    """``[compute]``: how much memory and how large blocks; no influence on the numbers."""

    memory_gib: Annotated[Number, Field(gt=0, le=1e6)] = 4.0
    """the memory that one worker may use, in GiB"""
    block_rows: Annotated[Whole, Field(ge=1)] | None = None
    """the records read at once; chosen from memory where it is not given"""
    density_at_most: Annotated[Number, Field(gt=0, le=1)] | None = None
    """of sparse records, a public bound on the share of values other than zero; it decides how they are multiplied"""


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
    always_start_workers: bool = False
    """whether to start worker processes even if threads of this process would finish sooner"""


class Address(Section):
    """A running Dask scheduler, encrypted."""

    kind: Literal["address"]
    """the kind of cluster"""
    address: Annotated[str, StringConstraints(pattern=r"^(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")]
    """the address of a scheduler, such as "tls://scheduler.example.org:8786" """
    tls_ca_file: Reference | None = None
    """the certificate authority's file, as "file:PATH" or "env:NAME" of a variable that holds the path"""
    tls_client_cert: Reference | None = None
    """the client certificate's file, as "file:PATH" or "env:NAME" """
    tls_client_key: Reference | None = None
    """the client key's file, as "file:PATH" or "env:NAME" """
    insecure: Insecure = False
    """whether the cluster may communicate without TLS; anybody who reaches a part of it can then run code on it"""

    @rule
    def _encrypted(self) -> None:
        if self.address.startswith("tcp://") and not self.insecure:
            raise refusal(
                "address",
                f'"{self.address}"',
                "Keys and un-noised sums travel to workers, and whoever reaches a scheduler without TLS, on this "
                "machine too, can run code on it",
                "Use a tls:// address, or accept the risk with insecure = true",
            )
        flags = [reference is not None for reference in (self.tls_ca_file, self.tls_client_cert, self.tls_client_key)]
        if any(flags) and not (all(flags) and self.address.startswith("tls://")):
            raise refusal(
                "tls_ca_file",
                "the TLS files are incomplete, or the address is not tls://",
                "tls_ca_file, tls_client_cert and tls_client_key go together, with a tls:// address",
                "Give all three or none",
            )


class ClusterClass(Section):
    """A Dask cluster of any installed class whose parts talk over TLS, such as those for batch systems and gateways."""

    kind: Literal["class"]
    """the kind of cluster"""
    cluster_class: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$")]
    """the import path of the class, such as "dask_jobqueue.SLURMCluster" """
    arguments: dict[str, Any] = Field(default_factory=dict)
    """what the class is called with; secrets come from its own environment or configuration"""
    workers: Annotated[Whole, Field(ge=1, le=4096)] = 2
    """the number of worker processes that it is scaled to"""
    threads_per_worker: Annotated[Whole, Field(ge=1, le=4096)] = 1
    """the threads of one worker, for the plan"""
    wait_minutes: Annotated[Number, Field(gt=0, le=1e4)] = 30.0
    """the longest time until the first worker is there, in minutes"""
    insecure: Insecure = False
    """whether the cluster may communicate without TLS; anybody who reaches a part of it can then run code on it"""


class OutputSection(Section):
    """``[output]``: where releases, the ledger and keys are kept."""

    root: LocalPath
    """the folder that releases are published in, relative to the config file"""
    ledger: PathOrReference
    """the ledger's SQLite file, relative to the config file; or "env:NAME" or "file:PATH" of a variable or a private
    file that holds the address of a PostgreSQL database"""
    keys: PathOrReference
    """the private folder of noise keys, relative to the config file; or "env:NAME" or "file:PATH" of a variable or a
    private file that holds the address of a key store of another package"""
    new_budget: Label | None = None
    """the reason for a separate budget over people whose records another ledger pays for; recorded with each grant"""
    upload: RemoteLocation | None = None
    """the address in an object store that each release and its report are sent to, such as "s3://bucket/folder"; a
    release counts as released once readers see it there"""
    upload_credentials: Reference | None = None
    """"env:NAME" or "file:PATH" of the credentials of the upload, as lines NAME = "VALUE"; those of the environment are
    used where it is not given"""
    signing_key: Reference | None = None
    """"env:NAME" or "file:PATH" of an Ed25519 private key in PEM that signs releases, so that anybody who has the
    public key can verify who published them"""
    lineage: PathOrReference | None = None
    """a file, relative to the config file, that OpenLineage run events are added to; or "env:NAME" or "file:PATH" of a
    variable or a private file that holds the https address of an endpoint they are sent to"""
    lineage_key: Reference | None = None
    """"env:NAME" or "file:PATH" of the key that the endpoint asks for"""

    @rule
    def _credentials_are_of_an_upload(self) -> None:
        if self.upload_credentials is not None and self.upload is None:
            raise refusal(
                "upload_credentials", "there is no upload", "Credentials are those of an upload", "Give upload too"
            )


def _local_by_default(value: Any) -> Any:
    return {"kind": "local", **value} if isinstance(value, dict) and "address" not in value else value


Cluster = Annotated[Threads | LocalCluster | Address | ClusterClass, Field(discriminator="kind")]


def can_be_shared(mechanism: Mechanism) -> bool:
    """Whether nights can share the noise of a mechanism: Gaussian, of a spread that is known beforehand."""
    return mechanism.kind in SHARING and getattr(mechanism, "noise", "gaussian") == "gaussian"


class ReleaseConfig(Section):
    """Everything that is declared of one release."""

    release: ReleaseSection
    """what is released"""
    data: DataSection
    """where the records are"""
    query: Query
    """the query"""
    privacy: PrivacySection
    """the guarantee"""
    mechanism: Mechanism
    """the noise"""
    continual: ContinualSection | None = None
    """nights that share one charge and correlated noise"""
    compute: ComputeSection = ComputeSection()
    """memory and block size"""
    cluster: Annotated[Cluster, BeforeValidator(_local_by_default)] = LocalCluster()
    """where the work runs"""
    approval: ApprovalSection | None = None
    """when a person must agree first"""
    output: OutputSection
    """where results are stored"""

    unvetted: ClassVar[tuple[Unvetted, ...]] = ()
    """Kinds of other packages that it names."""

    @classmethod
    def naming(cls, unvetted: tuple[Unvetted, ...]) -> type[ReleaseConfig]:
        """The model of a config that names these kinds of other packages."""
        if not unvetted:
            return cls
        tables: dict[str, Any] = {
            each.table: (each.section, Field(description=cls.model_fields[each.table].description)) for each in unvetted
        }
        model = create_model(cls.__name__, __base__=cls, __module__=__name__, **tables)
        model.unvetted = unvetted
        return model

    @property
    def kind(self) -> Kind:
        """Kind of its query."""
        declarations = (each.declaration for each in self.unvetted if isinstance(each.declaration, Kind))
        return next(declarations, None) or kind_of(self.query.kind)

    @property
    def in_clear(self) -> bool:
        """Whether the parts of the cluster may talk to each other without encryption."""
        return isinstance(self.cluster, Address | ClusterClass) and self.cluster.insecure

    @rule
    def _delta_protects_everyone(self) -> None:
        rows, delta = self.query.rows_at_most, self.privacy.delta
        # A delta of 1/n allows a mechanism that publishes one record of n in clear: it must be below that.
        if delta >= 1.0 / rows:
            raise refusal(
                "privacy.delta",
                f"{delta!r} with query.rows_at_most = {rows}",
                "delta must be well below 1 / rows_at_most, or publishing a random record in clear would be allowed",
                f"Lower delta, for instance to {0.01 / rows:.0e}",
            )

    @rule
    def _releases_are_apart_from_records(self) -> None:
        upload, records = f"{(self.output.upload or '').rstrip('/')}/", f"{self.data.store.rstrip('/')}/"
        if self.output.upload is not None and (upload.startswith(records) or records.startswith(upload)):
            raise refusal(
                "output.upload",
                "data.store and the releases lie in one another",
                "Whoever may read releases must not read records",
                "Send releases to another folder, better to another bucket",
            )

    @rule
    def _rows_of_a_unit_stay_private(self) -> None:
        if (self.privacy.rows_per_unit or 1) > 1 and self.privacy.neighbours is Neighbours.REPLACE_ONE:
            raise refusal(
                "privacy.rows_per_unit",
                f'{self.privacy.rows_per_unit} with neighbours = "replace-one"',
                "Under replace-one the number of records is public, and units with several rows differ in it",
                'Set neighbours = "add-remove", or ingest one row or record a unit',
            )

    @rule
    def _parts_are_disjoint(self) -> None:
        if self.data.partition_by is None:
            return
        if self.privacy.neighbours is not Neighbours.ADD_REMOVE:
            raise refusal(
                "data.partition_by",
                f'"{self.data.partition_by}" with neighbours = "{self.privacy.neighbours.value}"',
                "A record that is replaced may leave one part and enter another",
                'Set neighbours = "add-remove", or leave partition_by out',
            )
        several = (self.privacy.rows_per_unit or 1) > 1
        if several or self.privacy.share is not None or self.continual is not None:
            raise refusal(
                "data.partition_by",
                f'"{self.data.partition_by}" with rows_per_unit, share or [continual]',
                "The charge of a part is for records that are units of their own, and is neither split nor shared",
                "Leave partition_by out, or the others",
            )

    @rule
    def _nights_can_share_noise(self) -> None:
        if self.continual is None:
            return
        if not can_be_shared(self.mechanism):
            raise refusal(
                "mechanism.kind",
                f'"{self.mechanism.kind}" with [continual]',
                "Nights that share a charge share Gaussian noise whose spread is known beforehand",
                f"Choose one of {', '.join(SHARING)} (with Gaussian noise), or leave [continual] out",
            )
        if not self.kind.grows:
            raise refusal(
                "query.kind",
                f'"{self.query.kind}" with [continual]',
                "Nights that share a charge release a sum over all records so far",
                f"Choose one of {', '.join(GROWING)}, or leave [continual] out",
            )
        if getattr(self.query, "training", None) is not None:
            raise refusal(
                "query.training",
                "steps with [continual]",
                "Each step is at weights that the steps before it gave, so two nights would not measure one sum",
                "Release a training by itself, or the gradients at one file of weights",
            )
        if self.privacy.share is not None:
            raise refusal(
                "privacy.share",
                "share with [continual]",
                "One charge for several nights is not split",
                "Leave share out, or leave [continual] out",
            )

    @rule
    def _shapes_are_learned_for_covariances(self) -> None:
        learned_geometry.check(self.query, self.mechanism, self.continual, self.compute.density_at_most)

    @rule
    def _named_features_exist(self) -> None:
        self.mechanism.check_features(self.query.columns)
