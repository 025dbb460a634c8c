"""Making a table where none is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.config import KeyGeneratorType, TableConfig
from tidelake.config.keys import read_keys as keys
from tidelake.config.merging import new_merge_properties
from tidelake.config.table_config import LAYOUT_OF_VERSION, key_generator_class
from tidelake.env import Env
from tidelake.errors import ConfigError, NotATableError, TableExistsError
from tidelake.formats.instant_name import LAYOUT_1, LAYOUT_2, InstantName
from tidelake.model import MergeMode, TableType
from tidelake.model.table_format import TableFormat
from tidelake.storage import Storage
from tidelake.timeline.table_properties import (
    BACKUP_PATH,
    PROPERTIES_PATH,
    encode_properties,
)

#: Table versions that can be created; 7 is 6 under another number, and Hudi never writes it.
VERSIONS = (6, 8, 9)

_META_FOLDER = ".hoodie"
_FOLDERS = (".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids", ".temp", ".schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table that is to be.

    `schema` is the Avro schema, as JSON text, of the user's columns. `partition_fields` have the
    form `column:TYPE` under a custom key generator. What is None follows from the rest.
    `properties` go into the table's properties as they stand, and win.
    """

    name: str
    schema: str
    table_type: TableType = TableType.COPY_ON_WRITE
    table_version: int = 9
    record_key_fields: tuple[str, ...] = ()
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    key_generator: KeyGeneratorType | None = None
    database: str | None = None
    merge_mode: MergeMode | None = None
    payload_class: str | None = None
    merge_strategy_id: str | None = None
    hive_style_partitioning: bool = False
    url_encode_partitioning: bool = False
    drop_partition_columns: bool = False
    populate_meta_fields: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)


def create_table(env: Env, spec: TableSpec) -> TableConfig:
    """Make an empty table; raise an error, and leave the place as it is, when anything lies there.

    The properties appear last and at once: a crash before leaves folders that hold nothing, and
    creating the table again goes on from there.
    """
    entries = table_properties(spec)
    config = TableConfig.from_properties(entries)
    _refuse_other_data(env.storage)
    folders = [f"{_META_FOLDER}/{name}" for name in _FOLDERS]
    for folder in (*folders, config.timeline_folder, config.history_folder):
        env.storage.make_folder(folder)
    content = encode_properties(entries, env.clock.now_ms(), "Properties saved on")
    if not env.storage.put_if_absent(PROPERTIES_PATH, content):
        raise _exists(env.storage)
    return config


def table_properties(spec: TableSpec) -> Mapping[str, str]:
    """Return what `hoodie.properties` says about the table, as Hudi writes it for that version."""
    if spec.table_version not in VERSIONS:
        raise ConfigError(
            f"tables of version {spec.table_version} cannot be created",
            next_step=f"choose one of {', '.join(map(str, VERSIONS))}; 9 is the newest",
        )
    if not spec.name.strip():
        raise ConfigError("a table needs a name", next_step="give name=...")
    layout = LAYOUT_OF_VERSION[spec.table_version]
    found = {
        keys.TABLE_NAME.name: spec.name,
        keys.TABLE_TYPE.name: spec.table_type.value,
        keys.TABLE_VERSION.name: str(spec.table_version),
        keys.LAYOUT_VERSION.name: str(layout),
        keys.ARCHIVE_FOLDER.name: "archived" if layout == LAYOUT_1 else "history",
        keys.TIMELINE_TIMEZONE.name: "UTC",
        keys.CREATE_SCHEMA.name: spec.schema,
        keys.DROP_PARTITION_COLUMNS.name: _flag(spec.drop_partition_columns),
        keys.HIVE_STYLE_PARTITIONING.name: _flag(spec.hive_style_partitioning),
        keys.URL_ENCODE_PARTITIONING.name: _flag(spec.url_encode_partitioning),
        keys.POPULATE_META_FIELDS.name: _flag(spec.populate_meta_fields),
    }
    if spec.database is not None:
        found[keys.DATABASE_NAME.name] = spec.database
    if layout == LAYOUT_2:
        found[keys.INITIAL_VERSION.name] = str(spec.table_version)
        found[keys.TIMELINE_PATH.name] = "timeline"
        found[keys.HISTORY_PATH.name] = "history"
    if TableFormat(spec.table_version).names_format:
        found[keys.TABLE_FORMAT.name] = "native"
    if spec.record_key_fields:
        found[keys.RECORD_KEY_FIELDS.name] = ",".join(spec.record_key_fields)
    if spec.partition_fields:
        # Version 6 keeps the names alone.
        fields = (f.partition(":")[0] if layout == LAYOUT_1 else f for f in spec.partition_fields)
        found[keys.PARTITION_FIELDS.name] = ",".join(fields)
    found |= _key_generator(spec, layout, found)
    found |= new_merge_properties(
        table_version=spec.table_version,
        ordering_fields=spec.ordering_fields,
        mode=spec.merge_mode,
        payload_class=spec.payload_class,
        strategy_id=spec.merge_strategy_id,
    )
    return found | dict(spec.properties)


def _key_generator(spec: TableSpec, layout: int, so_far: Mapping[str, str]) -> Mapping[str, str]:
    kind = spec.key_generator
    if kind is None:
        fields = {keys.PARTITION_FIELDS.name: ",".join(spec.partition_fields)}
        kind = TableConfig.from_properties({**so_far, **fields}).key_generator
    if layout == LAYOUT_1:
        return {keys.KEY_GENERATOR_CLASS.name: key_generator_class(kind)}
    return {keys.KEY_GENERATOR_TYPE.name: kind.value}


def _refuse_other_data(storage: Storage) -> None:
    for path in (PROPERTIES_PATH, BACKUP_PATH):
        if storage.stat(path) is not None:
            raise _exists(storage)
    top = storage.list("")
    others = [f.name for f in top.files] + [name for name in top.folders if name != _META_FOLDER]
    for folder in (_META_FOLDER, f"{_META_FOLDER}/timeline"):
        files = (f.name for f in storage.list(folder).files)
        others += [f"{folder}/{name}" for name in files if InstantName.parse(name, LAYOUT_2)]
    if others:
        raise NotATableError(
            f"{storage.spec.uri} holds other data, such as {others[0]}",
            next_step="give a folder that is empty or does not exist yet",
        )


def _exists(storage: Storage) -> TableExistsError:
    return TableExistsError(
        f"{storage.spec.uri} holds a table already",
        next_step="open it with Table.open, or give another path",
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"
