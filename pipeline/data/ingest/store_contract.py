"""What a store was ingested for: its privacy unit, how many rows one unit has, its columns. Releases must agree.

The contract is kept in the attributes of the array. A store that was not made by an ingest has none; its rows are taken
as units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.base.spelling import TYPES, PartType, is_canonical
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config.model import ReleaseConfig
from blockveil.pipeline.data.contribution import Late
from blockveil.pipeline.data.sparse_store import Form, Stored

if TYPE_CHECKING:
    from blockveil.pipeline.config.ingest_file import IngestConfig
    from blockveil.pipeline.config.map_columns import MappedColumn

ATTRIBUTE = "blockveil ingest"

FORMAT = 1
"""Version of what a store says of itself and of how it is kept; the only one that this version of the package reads."""

By = Literal["row", "choose", "sum", "mean"]
_GROUPED = ("choose", "sum", "mean")
_STORE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Only:
    """The records of one value in a column.

    Attributes
    ----------
    column, equals
        The column, and the one spelling of the value.
    type
        Declared type of the column.
    listed
        Digest of the list of all values of a column of texts; None of other types.
    """

    column: str
    equals: str
    type: PartType
    listed: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether an ingest can have written it."""
        texts = all(isinstance(text, str) and text != "" for text in (self.column, self.equals))
        listed = isinstance(self.listed, str) if self.type == "text" else self.listed is None
        return texts and listed and self.type in TYPES and is_canonical(self.equals, self.type)

    def part(self, dataset: str) -> Part:
        """Part of the records of a data set that the store holds."""
        return Part(dataset, self.column, self.equals, self.type, self.listed)


@dataclass(frozen=True)
class MapOrigin:
    """Where columns come from that a public map made of others.

    Attributes
    ----------
    first, count
        Name of the first of them, and how many there are.
    kind
        Of the map.
    author, fitted_on
        Who chose it, and of what.
    trained_on, sha256
        What a network was trained on, and the digest of its file; None of other maps.
    """

    first: str
    count: int
    kind: str
    author: str
    fitted_on: str
    trained_on: str | None = None
    sha256: str | None = None

    @classmethod
    def declared(cls, column: MappedColumn) -> MapOrigin:
        """Origin of the columns of an ingest."""
        from blockveil.pipeline.config.map_columns import OnnxColumn

        network = (column.trained_on, column.sha256) if isinstance(column, OnnxColumn) else (None, None)
        outputs = column.outputs
        return cls(outputs[0], len(outputs), column.kind, column.author, column.fitted_on, *network)

    @property
    def is_valid(self) -> bool:
        """Whether an ingest can have written it."""
        texts = (self.first, self.kind, self.author, self.fitted_on, self.trained_on or "", self.sha256 or "")
        return type(self.count) is int and self.count > 0 and all(isinstance(text, str) for text in texts)

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values, all of them public."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Contract:
    """What holds of every record of a store.

    Attributes
    ----------
    unit
        The privacy unit, in words.
    rows_per_unit
        Largest number of rows that one unit has.
    grouped
        Whether rows were put in the order of units.
    dropping
        Whether a record may be missing from the store for its own values.
    columns
        Names of the columns.
    spec
        Digest of the config and of the identities of the source's files; in a store that grows, under its private key.
        Private, as the store is.
    store_id
        Random name of the store, 32 hexadecimal digits, written once: it says which records, and nothing about them.
    by
        How the rows of a unit were bounded.
    only
        What all records that were kept have in a column; None where all values were kept.
    late
        What becomes of files that come late, of a store that grows; None of one that does not.
    maps
        Origins of the columns that public maps made.
    """

    unit: str
    rows_per_unit: int
    grouped: bool
    dropping: bool
    columns: tuple[str, ...]
    spec: str
    store_id: str
    by: By
    partition: Only | None = None
    late: Late | None = None
    maps: tuple[MapOrigin, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether records are appended to the store."""
        return self.late is not None

    @classmethod
    def made(cls, config: IngestConfig, spec: str, store_id: str) -> Contract:
        """Contract of an ingest."""
        from blockveil.pipeline.config.ingest_file import AggregatedRows, RowUnit  # a release reads contracts alone
        from blockveil.pipeline.config.map_columns import MappedColumn

        grouped, partition = not isinstance(config.unit, RowUnit), config.ingest.partition
        only = None if partition is None else Only(partition.column, partition.value, partition.type, partition.listed)
        by: By = config.unit.by if isinstance(config.unit, AggregatedRows) else config.unit.kind
        bounded, late = config.rows_per_unit, config.ingest.late
        maps = tuple(MapOrigin.declared(column) for column in config.columns if isinstance(column, MappedColumn))
        return cls(
            config.unit.name, bounded, grouped, config.drops, config.outputs, spec, store_id, by, only, late, maps
        )

    @classmethod
    def of(cls, array: Stored | Form) -> Contract | None:
        """Contract of a store, or None where it was not made by an ingest. No number of rows is looked at.

        Raises StoreError where the attribute is damaged, or the store is of another format.
        """
        attributes: Any = array.attrs.get(ATTRIBUTE)
        if attributes is None:
            return None
        _check_format(attributes)
        try:
            fields = {name: value for name, value in dict(attributes).items() if name != "format"}
            only = None if "partition" not in fields else Only(**fields["partition"])
            maps = tuple(MapOrigin(**each) for each in fields.get("maps", ()))
            contract = cls(**{**fields, "columns": tuple(fields["columns"]), "partition": only, "maps": maps})
            types = (str, int, bool, bool, tuple, str, str)
            valid = all(type(value) is kind for value, kind in zip(vars(contract).values(), types, strict=False))
            valid &= _STORE_ID.fullmatch(contract.store_id) is not None and (only is None or only.is_valid)
            valid &= contract.by in (_GROUPED if contract.grouped else ("row",))
            valid &= contract.by not in ("sum", "mean") or (contract.rows_per_unit == 1 and not contract.grows)
            valid &= contract.late in (None, *get_args(Late)) and all(each.is_valid for each in maps)
        except (TypeError, KeyError, ValueError):
            valid = False
        if not valid or contract.rows_per_unit < 1 or len(contract.columns) != array.shape[1]:
            raise StoreError(
                "What the records were ingested for cannot be read",
                "The store says what its privacy unit is and how many rows one unit has",
                "Ingest the records again",
            )
        return contract

    def attributes(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        fields = {**asdict(self), "columns": list(self.columns), "maps": [each.plain for each in self.maps]}
        if self.partition is not None:
            fields["partition"] = {name: value for name, value in asdict(self.partition).items() if value is not None}
        attributes = {name: value for name, value in fields.items() if value is not None and value != []}
        return {ATTRIBUTE: {"format": FORMAT, **attributes}}

    def check(self, config: ReleaseConfig) -> None:
        """Refuse a release whose promise does not hold for these records.

        Raises
        ------
        DataError
            It promises something for another unit, for fewer rows per unit, under a relation that the ingest does not
            keep, or declares other columns.
        """
        self._check_unit(config)
        self._check_relation(config)
        self._check_part(config)
        for position, (stored, declared) in enumerate(zip(self.columns, config.query.columns, strict=True)):
            if stored != declared:
                raise DataError(
                    f'Column {position + 1} of the records is "{stored}" and query declares "{declared}"',
                    "Each column has its own declaration, in the same order",
                    "Correct the features of query, or ingest the columns in that order",
                )

    def _check_unit(self, config: ReleaseConfig) -> None:
        if config.privacy.unit != self.unit:
            raise DataError(
                f'The records were ingested for the unit "{self.unit}" and privacy.unit is "{config.privacy.unit}"',
                "A release protects the unit whose rows were bounded",
                "Correct privacy.unit, or ingest the records for that unit",
            )
        declared = config.privacy.rows_per_unit or 1
        if self.rows_per_unit > declared:
            raise DataError(
                f"One unit may have {self.rows_per_unit} rows in the store and privacy.rows_per_unit is {declared}",
                "The noise must hide all rows of a unit",
                f"Set privacy.rows_per_unit = {self.rows_per_unit}, or ingest fewer rows or one record a unit",
            )

    def _check_part(self, config: ReleaseConfig) -> None:
        partition_by = config.data.partition_by
        if partition_by is None:
            return
        if self.partition is None or self.partition.column != partition_by:
            records = "all records" if self.partition is None else f'the records of one "{self.partition.column}"'
            raise DataError(
                f'data.partition_by = "{partition_by}" with a store that was ingested to hold {records}',
                "A release is of a part of the records where an ingest kept the records of one value alone",
                f'Set ingest.partition = {{ column = "{partition_by}", type = ... }}, or correct data.partition_by',
            )
        if self.grouped:
            raise DataError(
                f'data.partition_by = "{partition_by}" with records that were ingested by the column of their unit',
                "A unit that is found by a column may have records in several parts",
                "Leave data.partition_by out, or ingest records that are units of their own",
            )

    def _check_relation(self, config: ReleaseConfig) -> None:
        if config.privacy.neighbours is not Neighbours.REPLACE_ONE:
            return
        if self.dropping:
            raise DataError(
                'privacy.neighbours = "replace-one" with records that may have been dropped for their values',
                "Under replace-one the number of records is public; a dropped record would show in it",
                'Ingest with "refuse" or constants in place of "drop", or set neighbours = "add-remove"',
            )
        if self.grouped and self.grows:
            raise DataError(
                'privacy.neighbours = "replace-one" with records of units to which others are appended',
                "Under replace-one the number of records is public; that of each append tells when a unit came first",
                'Set neighbours = "add-remove"',
            )
        if self.grouped and config.query.kind == "rows":
            raise DataError(
                'query.kind = "rows" with records in the order of their units',
                "The place of a row would follow from who else is in the data",
                "Ask for sums, or ingest records that are units of their own",
            )


def _check_format(found: object) -> None:
    """Refuse a store of another format; what is no table at all is damaged."""
    format_number = found.get("format") if isinstance(found, Mapping) else FORMAT
    if format_number == FORMAT:
        return
    raise StoreError(
        "The records are in another format",
        f"This version of Blockveil reads format {FORMAT}, and could misread in another one whose they are",
        "Finish its nights with the version that ingested them, or ingest the records again",
    )
