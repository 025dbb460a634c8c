"""What the person who writes asks for."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import Self

from tidelake.config.keys import concurrency_keys, write_keys
from tidelake.config.keys import read_keys as keys
from tidelake.config.keys.key import Key, Scope
from tidelake.config.options.concurrency_options import ConcurrencyOptions
from tidelake.config.options.read_options import edit_distance
from tidelake.config.options.service_options import ServiceOptions
from tidelake.config.words import (
    BucketEngine,
    ConcurrencyMode,
    DuplicatePolicy,
    FailedWritesPolicy,
    IndexType,
    NullPartitionPolicy,
    SortMode,
    WriteOperation,
)
from tidelake.errors import ConfigError

_log = logging.getLogger(__name__)

_KNOWN = frozenset(name for key in (*keys.ALL, *write_keys.ALL) for name in key.names)
_WRITE_ONLY = frozenset(name for key in write_keys.ALL for name in key.names) - frozenset(
    name for key in keys.ALL if key.scope is Scope.READ for name in key.names
)
_MISTAKES = 2
_MOVES: Mapping[IndexType | None, Key] = {
    IndexType.GLOBAL_BLOOM: write_keys.BLOOM_MOVES_PARTITION,
    IndexType.RECORD_INDEX: write_keys.RECORD_INDEX_MOVES_PARTITION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of one write, typed; `settings` holds them as given, names in lower case."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    operation: WriteOperation = WriteOperation.UPSERT
    partitions_to_delete: tuple[str, ...] = ()
    combine_before_upsert: bool = True
    combine_before_insert: bool = False
    insert_duplicates: DuplicatePolicy = DuplicatePolicy.NONE
    keep_duplicates: bool = True
    null_partition: NullPartitionPolicy = NullPartitionPolicy.FAIL
    fill_missing_columns: bool = True
    drop_missing_columns: bool = False
    partial_columns: tuple[str, ...] | None = None
    """Columns that an upsert changes; none stand for those that its rows have."""
    logs_changed_columns: bool = True
    """Whether a merge may log the columns that it changes alone."""
    consistent_timestamps: bool = False
    complex_key_new_encoding: bool = False
    index_type: IndexType | None = None
    bucket_engine: BucketEngine = BucketEngine.SIMPLE
    bucket_count: int | None = None
    bucket_hash_fields: tuple[str, ...] = ()
    moves_partition: bool = True
    concurrency: ConcurrencyOptions = field(default_factory=ConcurrencyOptions)
    failed_writes: FailedWritesPolicy = FailedWritesPolicy.EAGER
    rollback_using_markers: bool = True
    sort_mode: SortMode = SortMode.NONE
    parallelism: int | None = None
    bulk_parallelism: int | None = None
    max_file_size_bytes: int = 120 << 20
    small_file_limit_bytes: int = 100 << 20
    record_size_bytes: int = 1024
    insert_auto_split: bool = True
    insert_split: int = 500_000
    staging_expiry_ms: int = 24 * 3_600_000
    services: ServiceOptions = field(default_factory=ServiceOptions)
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    """Extra entries for the commit, given as options below a prefix."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read the options, whatever the case of their names; raise `ConfigError` for a wrong one.

        Reader options are accepted and ignored, and so are those of services and of storage.
        """
        settings = {name.lower(): _text(value) for name, value in options.items()}
        _refuse_unknown(settings)
        _refuse_other_formats(settings)
        index_type = write_keys.INDEX_TYPE.word(settings, IndexType)
        if index_type is IndexType.GLOBAL_RECORD_LEVEL_INDEX:
            index_type = IndexType.RECORD_INDEX
        moves = _MOVES.get(index_type, write_keys.SIMPLE_MOVES_PARTITION)
        buckets = write_keys.BUCKET_COUNT
        concurrency = ConcurrencyOptions.from_settings(settings)
        return cls(
            settings=settings,
            operation=write_keys.OPERATION.word(settings, WriteOperation) or WriteOperation.UPSERT,
            partitions_to_delete=write_keys.PARTITIONS_TO_DELETE.items(settings),
            combine_before_upsert=write_keys.COMBINE_BEFORE_UPSERT.flag(settings),
            combine_before_insert=write_keys.COMBINE_BEFORE_INSERT.flag(settings),
            insert_duplicates=_insert_duplicates(settings),
            keep_duplicates=write_keys.KEEP_DUPLICATES.flag(settings),
            null_partition=write_keys.NULL_PARTITION.word(settings, NullPartitionPolicy)
            or NullPartitionPolicy.FAIL,
            fill_missing_columns=write_keys.RECONCILE_SCHEMA.flag(settings)
            or write_keys.SET_NULL_FOR_MISSING.flag(settings),
            drop_missing_columns=write_keys.DROP_MISSING_COLUMNS.flag(settings),
            partial_columns=_partial_columns(settings),
            logs_changed_columns=write_keys.MERGE_PARTIAL_UPDATES.flag(settings),
            consistent_timestamps=write_keys.CONSISTENT_TIMESTAMPS.flag(settings),
            complex_key_new_encoding=write_keys.COMPLEX_KEY_NEW_ENCODING.flag(settings),
            index_type=index_type,
            bucket_engine=write_keys.BUCKET_ENGINE.word(settings, BucketEngine)
            or BucketEngine.SIMPLE,
            bucket_count=buckets.count(settings, least=1) if buckets.given(settings) else None,
            bucket_hash_fields=write_keys.BUCKET_HASH_FIELDS.items(settings),
            moves_partition=moves.flag(settings),
            concurrency=concurrency,
            failed_writes=_failed_writes(settings, concurrency.mode),
            rollback_using_markers=write_keys.ROLLBACK_USING_MARKERS.flag(settings),
            sort_mode=write_keys.SORT_MODE.word(settings, SortMode) or SortMode.NONE,
            parallelism=write_keys.UPSERT_PARALLELISM.count(settings) or None,
            bulk_parallelism=write_keys.BULK_PARALLELISM.count(settings) or None,
            max_file_size_bytes=_count(write_keys.MAX_FILE_SIZE, settings, least=1),
            small_file_limit_bytes=max(0, write_keys.SMALL_FILE_LIMIT.number(settings) or 0),
            record_size_bytes=_count(write_keys.RECORD_SIZE, settings, least=1),
            insert_auto_split=write_keys.INSERT_AUTO_SPLIT.flag(settings),
            insert_split=_count(write_keys.INSERT_SPLIT, settings, least=1),
            staging_expiry_ms=60_000 * _count(write_keys.STAGING_EXPIRY, settings, least=1),
            services=ServiceOptions.from_settings(settings),
            commit_metadata=_commit_metadata(settings),
        )


def without_write_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table's handle that are not for its writes alone."""
    noted = _commit_metadata(options)
    return {
        name: value
        for name, value in options.items()
        if name.lower() not in _WRITE_ONLY and name not in noted
    }


def _text(value: object) -> str:
    # Spark's own writers take True for "true".
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count(key: Key, settings: Mapping[str, str], *, least: int) -> int:
    found = key.count(settings, least=least)
    if found is None:
        raise ValueError(f"{key.name} has no default")
    return found


def _partial_columns(settings: Mapping[str, str]) -> tuple[str, ...] | None:
    key = write_keys.PARTIAL_UPDATE_SCHEMA
    given = (key.text(settings) or "").strip()
    if not given:
        return None
    if not given.startswith("{"):
        return () if given == "*" else key.items(settings)
    try:
        return tuple(str(field["name"]) for field in json.loads(given)["fields"])
    except (ValueError, KeyError, TypeError) as cause:
        raise key.refuse(settings, "an Avro record schema, or names of columns, or *") from cause


def _failed_writes(settings: Mapping[str, str], mode: ConcurrencyMode) -> FailedWritesPolicy:
    found = write_keys.FAILED_WRITES_POLICY.word(settings, FailedWritesPolicy)
    if found is FailedWritesPolicy.EAGER and mode.is_shared:
        raise ConfigError(
            f"{write_keys.FAILED_WRITES_POLICY.name}={found} would roll back what others are "
            f"writing under {concurrency_keys.CONCURRENCY_MODE.name}={mode}",
            next_step=f"leave it out, or set it to {FailedWritesPolicy.LAZY}",
        )
    return found or (FailedWritesPolicy.LAZY if mode.is_shared else FailedWritesPolicy.EAGER)


def _insert_duplicates(settings: Mapping[str, str]) -> DuplicatePolicy:
    if write_keys.INSERT_DUPLICATES.given(settings):
        found = write_keys.INSERT_DUPLICATES.word(settings, DuplicatePolicy)
        return found or DuplicatePolicy.NONE
    if write_keys.DROP_DUPLICATES.flag(settings):
        return DuplicatePolicy.DROP
    mode = (write_keys.INSERT_MODE.text(settings) or "").lower()
    if mode not in write_keys.INSERT_MODE.choices:
        raise write_keys.INSERT_MODE.refuse(settings, ", ".join(write_keys.INSERT_MODE.choices))
    return DuplicatePolicy.FAIL if mode == "strict" else DuplicatePolicy.NONE


def _commit_metadata(settings: Mapping[str, str]) -> dict[str, str]:
    prefix = write_keys.COMMIT_METADATA_PREFIX.text(settings) or "_"
    return {name: value for name, value in settings.items() if name.startswith(prefix)}


def _refuse_unknown(settings: Mapping[str, str]) -> None:
    prefix = write_keys.COMMIT_METADATA_PREFIX.text(settings) or "_"
    ignored = []
    for name, value in settings.items():
        if name in write_keys.REFUSED and value.strip().lower() not in ("", "false"):
            raise ConfigError(f"tidelake does not offer {name}", next_step=write_keys.REFUSED[name])
        if _is_known(name) or name.startswith(prefix):
            continue
        closest = _closest(name)
        if closest is not None:
            raise ConfigError(f"option {name} is unknown", next_step=f"did you mean {closest}?")
        if not name.startswith("hoodie."):
            raise ConfigError(
                f"option {name} is unknown",
                next_step="leave it out; docs/options.md lists every option of a write",
            )
        ignored.append(name)
    if ignored:
        _log.info("a write has no use for these options: %s", ", ".join(sorted(ignored)))


def _refuse_other_formats(settings: Mapping[str, str]) -> None:
    key = write_keys.BASE_FILE_FORMAT
    if (key.text(settings) or "").upper() not in key.choices:
        raise key.refuse(settings, ", ".join(key.choices))


def _is_known(name: str) -> bool:
    return (
        name in _KNOWN
        or name in keys.SPARK_OPTIONS
        or name in keys.REFUSED
        or name in write_keys.REFUSED
        or name.startswith((*keys.STORAGE_PREFIXES, *keys.MERGE_OPTION_PREFIXES))
        or name.startswith((keys.MERGE_PROPERTY_PREFIX, *keys.TIMEBASED_PREFIXES))
    )


def _closest(name: str) -> str | None:
    """Return the write option that `name` misspells, if it does."""
    best = None
    limit = _MISTAKES
    for key in write_keys.ALL:
        for known in key.names:
            distance = edit_distance(name, known, limit)
            if distance <= limit:
                best, limit = known, distance - 1
    return best
