"""What a commit wrote: the content of commit, deltacommit and replacecommit files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.errors import Malformed
from tidelake.formats import avro_file, avro_schemas, jackson, table_path
from tidelake.formats._wire_record import CORE, OFF_WIRE, from_wire, to_wire
from tidelake.formats.column_bounds import ColumnBounds

#: What Hudi writes as the previous commit of a new file group.
NO_PREVIOUS_COMMIT = "null"

_RECORD_NAMES = ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata")
_REPLACED = "partitionToReplaceFileIds"


#: Key of a commit's extra metadata under which the caller's idempotence key is kept.
WRITE_ID = "tidelake.write.id"
#: Key beside it: how many rows the call brought, and a checksum over their keys.
WRITE_ROWS = "tidelake.write.rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """Milliseconds spent on one file."""

    total_scan_time: int | None = None
    total_create_time: int | None = None
    total_upsert_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """One file that a commit wrote; the names and meanings are Hudi's.

    `path` is relative to the table. `prev_commit` is the text "null" for a new file group. The
    stats of a write still to be done have no path, and those of inserts an empty file id.
    """

    file_id: str | None = field(metadata=CORE)
    path: str | None = field(metadata=CORE)
    prev_commit: str | None = None
    num_writes: int | None = None
    num_deletes: int | None = None
    num_update_writes: int | None = None
    total_write_bytes: int | None = None
    total_write_errors: int | None = None
    partition_path: str | None = None
    total_log_records: int | None = None
    total_log_files: int | None = None
    total_updated_records_compacted: int | None = None
    num_inserts: int | None = None
    total_log_blocks: int | None = None
    total_corrupt_log_block: int | None = None
    total_rollback_blocks: int | None = None
    file_size_in_bytes: int | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int | None = None
    total_log_read_time_ms: int | None = None
    total_log_size_compacted: int | None = None
    temp_path: str | None = None
    num_updates: int | None = None
    column_bounds: Mapping[str, ColumnBounds] | None = field(
        default=None, metadata=OFF_WIRE, compare=False
    )
    """Bounds of the file's columns, for the metadata table; None where nobody asked for them."""
    new_keys: Any = field(default=None, metadata=OFF_WIRE, compare=False, repr=False)
    """Arrow array of the keys that came into the file; a task keeps it to itself."""
    is_indexed: bool = field(default=False, metadata=OFF_WIRE, compare=False)
    """Whether the task wrote the keys of the file to the record index."""
    is_index: bool = field(default=False, metadata=OFF_WIRE, compare=False)
    """Whether the file is one of the record index; its path is inside of the metadata table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """What one instant wrote and which file groups it retired.

    `partition_to_replace_file_ids` is filled by replacecommits alone. An empty value stands for an
    empty file, which Hudi leaves behind after some crashes and reads the same way.
    """

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(
        default_factory=dict, metadata=CORE
    )
    compacted: bool | None = None
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    version: int | None = None
    operation_type: str | None = None
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """Return the Avro schema that the commit wrote with, as JSON text, or None without one."""
        return self.extra_metadata.get("schema") or None

    @property
    def write_stats(self) -> tuple[WriteStat, ...]:
        """Return the stats of all partitions."""
        return tuple(s for stats in self.partition_to_write_stats.values() for s in stats)


def decode(data: bytes, *, is_replace: bool = False, is_pending: bool = False) -> CommitMetadata:
    """Return the content of a commit file, in JSON or as an Avro container.

    With `is_replace` the file must say which file groups it replaces, if only that there are none.
    Only a pending commit may have nothing to say yet: Hudi writes no completed one without content,
    so an empty one lost it, and with it which files were written or replaced.
    """
    if not data:
        if is_pending:
            return CommitMetadata()
        raise Malformed("a completed commit says what it wrote, but this file is empty")
    if data.startswith(b"{"):
        return _from_raw(jackson.decode(data), is_replace)
    if data.startswith(avro_file.MAGIC):
        name, raw = avro_file.decode(data)
        if name not in _RECORD_NAMES:
            raise Malformed(f"the file holds a {name} and no commit metadata")
        return _from_raw(raw, is_replace)
    raise Malformed("commit metadata is JSON or an Avro file, but this is neither")


def decode_archived(data: bytes, *, is_replace: bool = False) -> CommitMetadata:
    """Return commit metadata from history, where Hudi 1.0.2 left bare Avro without a container."""
    if not data or data.startswith((b"{", avro_file.MAGIC)):
        return decode(data, is_replace=is_replace)
    schema = avro_schemas.REPLACE_COMMIT_METADATA if is_replace else avro_schemas.COMMIT_METADATA
    return _from_raw(avro_file.decode_bare(data, schema), is_replace)


def from_archive(raw: Mapping[str, Any]) -> CommitMetadata:
    """Return commit metadata from the record inside an archive entry of layout 1."""
    return _checked(from_wire(CommitMetadata, raw))


def to_archive(metadata: CommitMetadata, *, is_replace: bool = False) -> dict[str, Any]:
    """Return the record that stands for commit metadata inside an archive entry of layout 1."""
    raw = to_wire(metadata)
    if not is_replace:
        del raw[_REPLACED]
    # A map of Avro has no nulls, the JSON that it comes from may.
    raw["extraMetadata"] = {key: value or "" for key, value in raw["extraMetadata"].items()}
    return raw


def _from_raw(raw: Mapping[str, Any], is_replace: bool) -> CommitMetadata:
    if is_replace and _REPLACED not in raw:
        raise Malformed(f"a replacecommit lacks its field {_REPLACED}")
    return _checked(from_wire(CommitMetadata, raw))


def _checked(found: CommitMetadata) -> CommitMetadata:
    for partition, stats in found.partition_to_write_stats.items():
        table_path.partition(partition)
        for stat in stats:
            if stat.path:
                table_path.data_path(stat.path)
    return found


def encode_avro(metadata: CommitMetadata, *, is_replace: bool = False) -> bytes:
    """Return the file of table version 8 and up; `is_replace` for a completed replacecommit."""
    raw = to_wire(metadata)
    if is_replace:
        return avro_file.encode(avro_schemas.REPLACE_COMMIT_METADATA, raw)
    del raw[_REPLACED]
    return avro_file.encode(avro_schemas.COMMIT_METADATA, raw)


def encode_json(metadata: CommitMetadata, *, is_replace: bool = False) -> bytes:
    """Return the file of table versions up to 7, as Hudi 0.15 lays it out."""
    raw = to_wire(metadata)
    text: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_json_stat(stat) for stat in stats]
            for partition, stats in raw["partitionToWriteStats"].items()
        },
        "compacted": bool(metadata.compacted),
        "extraMetadata": raw["extraMetadata"],
        "operationType": metadata.operation_type,
    }
    if is_replace:
        text[_REPLACED] = raw[_REPLACED]
    return jackson.encode(text)


#: Keys of a stat in Hudi 0.15's order; those that are a primitive in Java cannot be null.
_JSON_STAT = (
    ("fileId", None),
    ("path", None),
    ("cdcStats", None),
    ("prevCommit", None),
    ("numWrites", 0),
    ("numDeletes", 0),
    ("numUpdateWrites", 0),
    ("numInserts", 0),
    ("totalWriteBytes", 0),
    ("totalWriteErrors", 0),
    ("tempPath", None),
    ("partitionPath", None),
    ("totalLogRecords", 0),
    ("totalLogFilesCompacted", 0),
    ("totalLogSizeCompacted", 0),
    ("totalUpdatedRecordsCompacted", 0),
    ("totalLogBlocks", 0),
    ("totalCorruptLogBlock", 0),
    ("totalRollbackBlocks", 0),
    ("fileSizeInBytes", 0),
    ("minEventTime", None),
    ("maxEventTime", None),
    ("runtimeStats", None),
)
_JSON_LOG_STAT = (("logVersion", 0), ("logOffset", 0), ("baseFile", None), ("logFiles", None))


def _json_stat(raw: Mapping[str, Any]) -> dict[str, Any]:
    is_log = raw["logVersion"] is not None
    keys = _JSON_STAT + (_JSON_LOG_STAT if is_log else ())
    stat: dict[str, Any] = {key: default if raw[key] is None else raw[key] for key, default in keys}
    if stat["runtimeStats"] is not None:
        times = stat["runtimeStats"]
        order = ("totalScanTime", "totalUpsertTime", "totalCreateTime")
        stat["runtimeStats"] = {key: times[key] or 0 for key in order}
    if is_log:
        stat["recordsStats"] = {"val": None}
    return stat
