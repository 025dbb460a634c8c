"""Options of a write against the table that they are given for."""

from __future__ import annotations

from collections.abc import Callable

from tidelake.config import CdcMode, TableConfig, WriteOptions
from tidelake.config.column_groups import ColumnGroup, parse_groups
from tidelake.config.keys import write_keys
from tidelake.config.keys.key import Key
from tidelake.config.table_config import key_generator_of
from tidelake.errors import ConfigError
from tidelake.model import MergeMode, TableType
from tidelake.records import MergeSpec


def refuse_contradictions(config: TableConfig, options: WriteOptions) -> None:
    """Raise `ConfigError` when options say something else than the table's properties."""
    given = options.settings

    def lists(key: Key) -> tuple[str, ...]:
        return tuple(item.partition(":")[0].strip() for item in key.items(given))

    said: list[tuple[Key, Callable[[Key], object], object]] = [
        (write_keys.TABLE_NAME, lambda key: key.text(given), config.name),
        (write_keys.TABLE_TYPE, lambda key: key.word(given, TableType), config.table_type),
        (write_keys.TABLE_VERSION, lambda key: key.number(given), config.table_version),
        (write_keys.RECORD_KEY_FIELDS, lists, config.record_key_fields),
        (write_keys.PARTITION_FIELDS, lists, config.partition_fields),
        (
            write_keys.HIVE_STYLE_PARTITIONING,
            lambda key: key.flag(given),
            config.hive_style_partitioning,
        ),
        (
            write_keys.URL_ENCODE_PARTITIONING,
            lambda key: key.flag(given),
            config.url_encode_partitioning,
        ),
        (
            write_keys.DROP_PARTITION_COLUMNS,
            lambda key: key.flag(given),
            config.drop_partition_columns,
        ),
        (write_keys.POPULATE_META_FIELDS, lambda key: key.flag(given), config.populate_meta_fields),
        (write_keys.CDC_ENABLED, lambda key: key.flag(given), config.cdc_enabled),
        (
            write_keys.CDC_LOGGING_MODE,
            lambda key: key.word(given, CdcMode) if config.cdc_enabled else None,
            config.cdc_logging_mode if config.cdc_enabled else None,
        ),
        (write_keys.KEY_GENERATOR_CLASS, _generator(options), config.key_generator),
        (write_keys.KEY_GENERATOR_TYPE, _generator(options), config.key_generator),
        (write_keys.MERGE_MODE, lambda key: key.word(given, MergeMode), _mode(config)),
        (
            write_keys.PARTIAL_UPDATE_ORDERING,
            lambda key: parse_groups(key.name, key.text(given) or ""),
            config.column_groups,
        ),
    ]
    for key, read, stored in said:
        if key.given(given) is not None and read(key) != stored:
            raise _contradiction(key, options, _shown(stored))
    _refuse_other_ordering(config, options, lists(write_keys.ORDERING_FIELDS))
    _refuse_other_payload(config, options)


def _generator(options: WriteOptions) -> Callable[[Key], object]:
    def read(key: Key) -> object:
        return key_generator_of(key.text(options.settings) or "")

    return read


def _mode(config: TableConfig) -> MergeMode:
    if config.record_merge_mode is not None:
        return config.record_merge_mode
    return MergeSpec.from_config(config).mode


def _refuse_other_ordering(
    config: TableConfig, options: WriteOptions, given: tuple[str, ...]
) -> None:
    # A table without ordering fields ignores them, as Hudi does under commit-time ordering.
    if given and config.ordering_fields and given != config.ordering_fields:
        raise _contradiction(write_keys.ORDERING_FIELDS, options, _shown(config.ordering_fields))


def _refuse_other_payload(config: TableConfig, options: WriteOptions) -> None:
    given = write_keys.PAYLOAD_CLASS.text(options.settings)
    stored = config.payload_class or config.legacy_payload_class
    if given is None or given == stored:
        return
    if stored is None and _payload_mode(given) is _mode(config):
        return
    raise _contradiction(
        write_keys.PAYLOAD_CLASS, options, stored or f"merged by {_mode(config).value}"
    )


def _payload_mode(payload: str) -> MergeMode | None:
    short = payload.rpartition(".")[2]
    return {
        "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME,
        "EventTimeAvroPayload": MergeMode.EVENT_TIME,
        "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME,
    }.get(short)


def _shown(value: object) -> str:
    if isinstance(value, tuple) and all(isinstance(item, ColumnGroup) for item in value):
        return ";".join(f"{g.ordering}:{','.join(g.columns[1:])}" for g in value) or "none"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _contradiction(key: Key, options: WriteOptions, stored: str) -> ConfigError:
    name, value = key.given(options.settings) or (key.name, "")
    return ConfigError(
        f"{name} is {value}, but the table has {stored}",
        next_step=f"leave out {name}; what a table is cannot be changed by a write",
    )
