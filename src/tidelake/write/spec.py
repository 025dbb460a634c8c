"""The options of a write as settings of the files it makes."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.config import ConcurrencyMode, ReadOptions, TableConfig, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.files.write_task import (
    BloomSettings,
    ColumnSet,
    LogFormat,
    LogSettings,
    ParquetSettings,
    WriteSpec,
)
from tidelake.formats.bloom_filter import BloomKind
from tidelake.formats.schema_history import SchemaHistory
from tidelake.model.index_target import IndexTarget
from tidelake.records import KeyRule, MergeSpec
from tidelake.storage import StorageSpec


def write_spec(
    config: TableConfig,
    options: WriteOptions,
    storage: StorageSpec,
    *,
    schema: str,
    history: SchemaHistory | None,
    instant_time: str,
    marker_folder: str,
    combine: bool,
    column_sets: tuple[ColumnSet, ...] = (),
    bounded_columns: Sequence[str] = (),
    record_index: IndexTarget | None = None,
) -> WriteSpec:
    """Return how the tasks of one write lay down rows; raise `ConfigError` for a wrong option."""
    return WriteSpec(
        storage=storage,
        schema=schema,
        table_version=config.table_version,
        instant_time=instant_time,
        marker_folder=marker_folder,
        merge=merge_spec(config, options),
        keys=KeyRule.from_config(config),
        populate_meta_fields=config.populate_meta_fields,
        dropped_columns=config.partition_fields if config.drop_partition_columns else (),
        history=history,
        combine=combine,
        cdc=config.cdc_logging_mode if config.cdc_enabled else None,
        column_sets=column_sets,
        completes_new=options.concurrency.mode is not ConcurrencyMode.NON_BLOCKING,
        bounded_columns=tuple(bounded_columns),
        record_index=record_index,
        positions=write_keys.RECORD_POSITIONS.flag(options.settings),
        parquet=parquet_settings(options),
        log=log_settings(options),
    )


def merge_spec(config: TableConfig, options: WriteOptions) -> MergeSpec:
    """Return how records of the table are merged, as its readers will do it."""
    names = ("hoodie.payload.", "hoodie.write.partial.update.", "hoodie.record.merge.property.")
    given = {n: v for n, v in options.settings.items() if n.startswith(names)}
    return MergeSpec.from_config(config, ReadOptions.from_options(given))


def parquet_settings(options: WriteOptions) -> ParquetSettings:
    """Return how base files and Parquet log blocks are written."""
    given = options.settings
    bloom = None
    if write_keys.BLOOM_ENABLED.flag(given):
        bloom = BloomSettings(
            kind=write_keys.BLOOM_KIND.word(given, BloomKind) or BloomKind.DYNAMIC_V0,
            entries=write_keys.BLOOM_ENTRIES.count(given, least=1) or 1,
            false_positives=write_keys.BLOOM_FPP.fraction(given),
            max_entries=write_keys.BLOOM_MAX_ENTRIES.count(given, least=1) or 1,
        )
    codec = (write_keys.PARQUET_CODEC.text(given) or "").lower()
    if codec not in write_keys.PARQUET_CODEC.choices:
        raise write_keys.PARQUET_CODEC.refuse(given, ", ".join(write_keys.PARQUET_CODEC.choices))
    return ParquetSettings(
        codec=codec,
        block_size_bytes=write_keys.PARQUET_BLOCK_SIZE.count(given, least=1) or 1,
        page_size_bytes=write_keys.PARQUET_PAGE_SIZE.count(given, least=1) or 1,
        max_file_size_bytes=options.max_file_size_bytes,
        dictionary=write_keys.PARQUET_DICTIONARY.flag(given),
        bloom=bloom,
    )


def log_settings(options: WriteOptions) -> LogSettings:
    """Return how log files are written."""
    given = options.settings
    return LogSettings(
        format=write_keys.LOG_FORMAT.word(given, LogFormat) or LogFormat.AVRO,
        max_file_size_bytes=write_keys.LOG_MAX_SIZE.count(given, least=1) or 1,
        max_block_size_bytes=write_keys.LOG_BLOCK_SIZE.count(given, least=1) or 1,
    )
