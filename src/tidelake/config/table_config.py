"""What `hoodie.properties` says about a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import Self

from tidelake.config.column_groups import ColumnGroup, parse_groups
from tidelake.config.keys import read_keys as keys
from tidelake.config.keys.key import Key
from tidelake.config.words import CdcMode, KeyGeneratorType, PartitionFieldType
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.model import MergeMode, TableType
from tidelake.model.numbers import whole_number
from tidelake.model.table_format import TableFormat

#: The partition of a metadata table that says which file group every key is in.
RECORD_INDEX_PARTITION = "record_index"
#: Timeline layout of every table version tidelake reads.
LAYOUT_OF_VERSION = {6: 1, 7: 1, 8: 2, 9: 2}

_METADATA_PAYLOAD = "org.apache.hudi.metadata.HoodieMetadataPayload"

_TYPE_OF_CLASS = {
    "org.apache.hudi.keygen.SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "org.apache.hudi.keygen.SimpleAvroKeyGenerator": KeyGeneratorType.SIMPLE,
    "org.apache.hudi.keygen.ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "org.apache.hudi.keygen.ComplexAvroKeyGenerator": KeyGeneratorType.COMPLEX,
    "org.apache.hudi.keygen.TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "org.apache.hudi.keygen.CustomKeyGenerator": KeyGeneratorType.CUSTOM,
    "org.apache.hudi.keygen.CustomAvroKeyGenerator": KeyGeneratorType.CUSTOM,
    "org.apache.hudi.keygen.NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "org.apache.hudi.keygen.GlobalDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
    "org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
    "org.apache.hudi.keygen.AutoRecordGenWrapperKeyGenerator": KeyGeneratorType.AUTO_RECORD,
    "org.apache.hudi.keygen.AutoRecordGenWrapperAvroKeyGenerator": KeyGeneratorType.AUTO_RECORD,
    "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator": (
        KeyGeneratorType.HOODIE_TABLE_METADATA
    ),
    "org.apache.spark.sql.hudi.command.SqlKeyGenerator": KeyGeneratorType.SPARK_SQL,
    "org.apache.spark.sql.hudi.command.UuidKeyGenerator": KeyGeneratorType.SPARK_SQL_UUID,
    "org.apache.spark.sql.hudi.command.MergeIntoKeyGenerator": (
        KeyGeneratorType.SPARK_SQL_MERGE_INTO
    ),
}


def key_generator_of(name: str) -> KeyGeneratorType | None:
    """Return the type that the name of a type or of a Java class stands for; None for others."""
    if name in _TYPE_OF_CLASS:
        return _TYPE_OF_CLASS[name]
    folded = name.upper().removesuffix("_AVRO")
    return next((kind for kind in KeyGeneratorType if kind.value == folded), None)


def key_generator_class(kind: KeyGeneratorType) -> str:
    """Return the Java class that version 6 names where later versions have the type."""
    return next(name for name, found in _TYPE_OF_CLASS.items() if found is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table's settings, typed; `properties` holds them as they stand in the file."""

    properties: Mapping[str, str] = field(repr=False)
    name: str
    database: str | None
    table_type: TableType
    table_version: int
    layout_version: int
    timeline_folder: str
    history_folder: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_field_types: tuple[PartitionFieldType, ...]
    ordering_fields: tuple[str, ...]
    key_generator: KeyGeneratorType
    populate_meta_fields: bool
    drop_partition_columns: bool
    hive_style_partitioning: bool
    url_encode_partitioning: bool
    base_file_format: str
    cdc_enabled: bool
    cdc_logging_mode: CdcMode
    create_schema: str | None = field(repr=False)
    metadata_partitions: frozenset[str]
    payload_class: str | None
    legacy_payload_class: str | None
    record_merge_mode: MergeMode | None
    merge_strategy_id: str | None
    partial_update_mode: str | None
    column_groups: tuple[ColumnGroup, ...]
    merge_properties: Mapping[str, str]
    timeline_timezone_utc: bool
    timebased: Mapping[str, str]
    index_definitions_path: str | None
    may_be_cut: bool = False
    """Whether the file that they stand in may lack its end."""

    @property
    def has_record_index(self) -> bool:
        """Return whether the metadata table has an index of all keys.

        With it Apache Hudi leaves a key in its partition that arrives with another one, unless told
        otherwise, and stores the value that arrived: the path says nothing of the column then.
        """
        return RECORD_INDEX_PARTITION in self.metadata_partitions

    @property
    def is_metadata_table(self) -> bool:
        """Return whether this is the metadata table of another table."""
        return (
            self.key_generator is KeyGeneratorType.HOODIE_TABLE_METADATA
            or self.payload_class == _METADATA_PAYLOAD
        )

    @property
    def format(self) -> TableFormat:
        """Return what tables of this version can do."""
        return TableFormat(self.table_version)

    @property
    def logs_name_their_write(self) -> bool:
        """Return whether every log has the instant of its write in its name.

        Up to version 7 that was the instant of the slice, and an upgrade leaves such logs behind.
        """
        created_as = whole_number((keys.INITIAL_VERSION.text(self.properties) or "").strip())
        if created_as is None:
            return False
        return TableFormat(created_as).has_own_logs and self.format.has_own_logs

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Read the settings; raise `UnsupportedTableError` or `ConfigError` naming key and value.

        Keys of later table versions are honoured in earlier ones too: Hudi 1.2 writes them there.
        """
        table_version, layout_version = _versions(properties)
        _refuse_foreign_data(properties)
        timeline_folder, history_folder = _folders(properties, layout_version)
        fields, stored_types = _partition_fields(properties)
        record_key_fields = keys.RECORD_KEY_FIELDS.items(properties)
        key_generator = _key_generator(properties, record_key_fields, fields, stored_types)
        return cls(
            properties=dict(properties),
            name=_name(properties),
            database=keys.DATABASE_NAME.text(properties),
            table_type=keys.TABLE_TYPE.word(properties, TableType) or TableType.COPY_ON_WRITE,
            table_version=table_version,
            layout_version=layout_version,
            timeline_folder=timeline_folder,
            history_folder=history_folder,
            record_key_fields=record_key_fields,
            partition_fields=fields,
            partition_field_types=_partition_types(key_generator, stored_types),
            ordering_fields=keys.ORDERING_FIELDS.items(properties),
            key_generator=key_generator,
            populate_meta_fields=keys.POPULATE_META_FIELDS.flag(properties),
            drop_partition_columns=keys.DROP_PARTITION_COLUMNS.flag(properties),
            hive_style_partitioning=keys.HIVE_STYLE_PARTITIONING.flag(properties),
            url_encode_partitioning=keys.URL_ENCODE_PARTITIONING.flag(properties),
            base_file_format=_base_file_format(properties),
            cdc_enabled=keys.CDC_ENABLED.flag(properties),
            cdc_logging_mode=keys.CDC_LOGGING_MODE.word(properties, CdcMode)
            or CdcMode.DATA_BEFORE_AFTER,
            create_schema=keys.CREATE_SCHEMA.text(properties),
            metadata_partitions=frozenset(keys.METADATA_PARTITIONS.items(properties)),
            payload_class=keys.PAYLOAD_CLASS.text(properties),
            legacy_payload_class=keys.LEGACY_PAYLOAD_CLASS.text(properties),
            record_merge_mode=keys.RECORD_MERGE_MODE.word(properties, MergeMode),
            merge_strategy_id=keys.MERGE_STRATEGY_ID.text(properties),
            partial_update_mode=keys.PARTIAL_UPDATE_MODE.text(properties),
            column_groups=_column_groups(properties),
            merge_properties=_below(properties, keys.MERGE_PROPERTY_PREFIX),
            timeline_timezone_utc=(keys.TIMELINE_TIMEZONE.text(properties) or "").upper() == "UTC",
            timebased={
                name: value
                for prefix in reversed(keys.TIMEBASED_PREFIXES)
                for name, value in _below(properties, prefix).items()
            },
            index_definitions_path=keys.INDEX_DEFINITIONS_PATH.text(properties),
        )


def _name(properties: Mapping[str, str]) -> str:
    name = keys.TABLE_NAME.text(properties)
    if name is None:
        raise ConfigError(
            f"{keys.TABLE_NAME.name} is missing from the table's properties",
            next_step="restore .hoodie/hoodie.properties from its .backup file or from a copy",
        )
    return name


def _versions(properties: Mapping[str, str]) -> tuple[int, int]:
    table_version = _version(properties, keys.TABLE_VERSION)
    layout_version = _version(properties, keys.LAYOUT_VERSION)
    if table_version not in LAYOUT_OF_VERSION:
        newer = table_version > max(LAYOUT_OF_VERSION)
        raise UnsupportedTableError(
            f"{keys.TABLE_VERSION.name} is {table_version}, and tidelake reads versions 6, 8 and 9",
            next_step="install a newer tidelake"
            if newer
            else "upgrade the table with Apache Hudi to version 6, 8 or 9",
        )
    if layout_version != LAYOUT_OF_VERSION[table_version]:
        raise UnsupportedTableError(
            f"{keys.LAYOUT_VERSION.name} is {layout_version}, "
            f"but a table of version {table_version} has layout {LAYOUT_OF_VERSION[table_version]}",
            next_step="an upgrade or downgrade may have stopped half-way: run it again, or restore "
            "the .hoodie folder from a backup",
        )
    return table_version, layout_version


def _version(properties: Mapping[str, str], key: Key) -> int:
    found = key.number(properties)
    if found is None:
        raise UnsupportedTableError(
            f"{key.name} is missing from the table's properties",
            next_step="restore .hoodie/hoodie.properties; a table this old has to be upgraded by "
            "Apache Hudi 0.14 or newer first",
        )
    return found


def _refuse_foreign_data(properties: Mapping[str, str]) -> None:
    table_format = keys.TABLE_FORMAT.text(properties)
    if table_format != "native":
        raise UnsupportedTableError(
            f"{keys.TABLE_FORMAT.name} is {table_format!r}, and tidelake knows native",
            next_step="read the table with the engine of that format",
        )
    source = keys.BOOTSTRAP_BASE_PATH.text(properties)
    if source is not None:
        raise UnsupportedTableError(
            f"the table was bootstrapped and refers to rows in {source}, "
            "which tidelake does not read",
            next_step="rewrite the table once with Apache Hudi (clustering or insert_overwrite) "
            f"and remove {keys.BOOTSTRAP_BASE_PATH.name}",
        )


def _folders(properties: Mapping[str, str], layout_version: int) -> tuple[str, str]:
    if layout_version == 1:
        return ".hoodie", f".hoodie/{_folder(keys.ARCHIVE_FOLDER.text(properties))}"
    timeline = f".hoodie/{_folder(keys.TIMELINE_PATH.text(properties))}"
    return timeline, f"{timeline}/{_folder(keys.HISTORY_PATH.text(properties))}"


def _folder(text: str | None) -> str:
    parts = [part for part in (text or "").split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ConfigError(
            f"the timeline folder {text!r} of the table's properties leads out of .hoodie",
            next_step="correct .hoodie/hoodie.properties; Hudi's own values are timeline, history "
            "and archived",
        )
    return "/".join(parts)


def _base_file_format(properties: Mapping[str, str]) -> str:
    key = keys.BASE_FILE_FORMAT
    found = (key.text(properties) or "").upper()
    if found not in key.choices:
        raise key.refuse(properties, " and ".join(key.choices))
    return found


def _partition_fields(
    properties: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    pairs = [item.partition(":") for item in keys.PARTITION_FIELDS.items(properties)]
    return (
        tuple(name.strip() for name, _, _ in pairs),
        tuple(kind.strip().upper() if colon else None for _, colon, kind in pairs),
    )


def _key_generator(
    properties: Mapping[str, str],
    record_key_fields: tuple[str, ...],
    partition_fields: tuple[str, ...],
    stored_types: tuple[str | None, ...],
) -> KeyGeneratorType:
    given = keys.KEY_GENERATOR_TYPE.text(properties)
    if given is not None and given.upper() != "USER_PROVIDED":
        folded = given.upper().removesuffix("_AVRO")
        return keys.KEY_GENERATOR_TYPE.word(
            {keys.KEY_GENERATOR_TYPE.name: folded}, KeyGeneratorType
        ) or _inferred(record_key_fields, partition_fields, stored_types)
    class_name = keys.KEY_GENERATOR_CLASS.text(properties)
    if class_name is not None:
        if class_name not in _TYPE_OF_CLASS:
            raise keys.KEY_GENERATOR_CLASS.refuse(properties, "the key generators of Apache Hudi")
        return _TYPE_OF_CLASS[class_name]
    if given is not None:
        raise keys.KEY_GENERATOR_TYPE.refuse(
            properties, f"it only together with {keys.KEY_GENERATOR_CLASS.name}"
        )
    return _inferred(record_key_fields, partition_fields, stored_types)


def _inferred(
    record_key_fields: tuple[str, ...],
    partition_fields: tuple[str, ...],
    stored_types: tuple[str | None, ...],
) -> KeyGeneratorType:
    if not partition_fields:
        return KeyGeneratorType.NON_PARTITION
    if stored_types[0] is not None:
        return KeyGeneratorType.CUSTOM
    if len(partition_fields) == 1 and len(record_key_fields) <= 1:
        return KeyGeneratorType.SIMPLE
    return KeyGeneratorType.COMPLEX


def _partition_types(
    key_generator: KeyGeneratorType, stored_types: tuple[str | None, ...]
) -> tuple[PartitionFieldType, ...]:
    absent = {
        KeyGeneratorType.TIMESTAMP: PartitionFieldType.TIMESTAMP,
        KeyGeneratorType.CUSTOM: PartitionFieldType.UNKNOWN,
    }.get(key_generator, PartitionFieldType.SIMPLE)
    found = []
    for stored in stored_types:
        if stored is None:
            found.append(absent)
        elif stored in ("SIMPLE", "TIMESTAMP"):
            found.append(PartitionFieldType(stored))
        else:
            raise UnsupportedTableError(
                f"{keys.PARTITION_FIELDS.name} has a field of type {stored!r}, "
                "and tidelake knows SIMPLE and TIMESTAMP",
                next_step="correct the type in .hoodie/hoodie.properties",
            )
    return tuple(found)


def _column_groups(properties: Mapping[str, str]) -> tuple[ColumnGroup, ...]:
    key = keys.PARTIAL_UPDATE_ORDERING
    text = key.text(properties)
    return () if text is None else parse_groups(key.name, text)


def _below(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)
    }
