"""What actions plan to do and what they did: the timeline's Avro files apart from commits.

`decode(CompactionPlan, data)` and `encode(plan)` serve every type of this module. The names and
meanings of the fields are Hudi's. Paths may be absolute and point to the place where a table once
was: use their last part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelake.errors import Malformed
from tidelake.formats import avro_file, avro_schemas, table_path
from tidelake.formats._wire_record import CORE, from_wire, to_wire
from tidelake.formats.file_name import UNKNOWN_WRITE_TOKEN, format_log, parse_base

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to compact; `delta_file_paths` are in log order."""

    base_instant_time: str | None
    delta_file_paths: tuple[str, ...] = ()
    data_file_path: str | None = None
    file_id: str
    partition_path: str = ""
    metrics: Mapping[str, float] | None = None
    bootstrap_file_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStrategy:
    """How a log compaction is to run; plain compactions have none."""

    compactor_class_name: str | None = None
    strategy_params: Mapping[str, str | None] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Content of `compaction.requested` and `logcompaction.requested`."""

    operations: tuple[CompactionOperation, ...] = field(default=(), metadata=CORE)
    extra_metadata: Mapping[str, str | None] | None = None
    version: int | None = 1
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceInfo:
    """One file slice to cluster."""

    data_file_path: str | None = None
    delta_file_paths: tuple[str, ...] | None = None
    file_id: str
    partition_path: str = ""
    bootstrap_file_path: str | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringGroup:
    """File slices that are rewritten together."""

    slices: tuple[SliceInfo, ...] = field(default=(), metadata=CORE)
    metrics: Mapping[str, float] | None = None
    num_output_file_groups: int | None = 1
    extra_metadata: Mapping[str, str | None] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringStrategy:
    """How a clustering is to run."""

    strategy_class_name: str | None = None
    strategy_params: Mapping[str, str | None] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringPlan:
    """Which file groups a clustering rewrites."""

    input_groups: tuple[ClusteringGroup, ...] = field(default=(), metadata=CORE)
    strategy: ClusteringStrategy | None = None
    extra_metadata: Mapping[str, str | None] | None = None
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = None
    missing_schedule_partitions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplaceMetadata:
    """Content of `clustering.requested` and `replacecommit.requested`.

    Every field is None when the replacecommit is an overwrite and no clustering.
    """

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = field(default=None, metadata=CORE)
    extra_metadata: Mapping[str, str | None] | None = None
    version: int | None = None

    @property
    def is_clustering(self) -> bool:
        """Return whether the replacecommit is a clustering."""
        return self.clustering_plan is not None or self.operation_type == "CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInstant:
    """An instant as a clean plan names it."""

    timestamp: str
    action: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFileInfo:
    """One file to delete."""

    file_path: str | None = None
    is_bootstrap_base_file: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan:
    """Content of `clean.requested`."""

    earliest_instant_to_retain: ActionInstant | None = field(default=None, metadata=CORE)
    last_completed_commit_timestamp: str = ""
    policy: str
    files_to_be_deleted_per_partition: Mapping[str, tuple[str, ...]] | None = None
    version: int | None = 1
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[CleanFileInfo, ...]] | None = None
    partitions_to_be_deleted: tuple[str, ...] | None = None
    extra_metadata: Mapping[str, str | None] | None = None


def doomed_files(plan: CleanerPlan) -> Mapping[str, tuple[str, ...]]:
    """Return the names that a clean deletes, by partition."""
    # Plans hold the paths of the place where they were made; the table may have moved.
    found = {
        partition: tuple(_last_part(file.file_path) for file in files if file.file_path)
        for partition, files in (plan.file_paths_to_be_deleted_per_partition or {}).items()
    }
    for partition, paths in (plan.files_to_be_deleted_per_partition or {}).items():
        # Plans of Hudi before 0.6 have nothing but these.
        found[partition] = found.get(partition, ()) + tuple(map(_last_part, paths))
    return found


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPartitionMetadata:
    """What a clean deleted in one partition; from version 2 on the lists hold bare file names."""

    partition_path: str
    policy: str
    delete_path_patterns: tuple[str, ...]
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...]
    is_partition_deleted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata:
    """Content of a completed clean; `earliest_commit_to_retain` is empty when nothing bounds it."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    partition_metadata: Mapping[str, CleanPartitionMetadata]
    version: int | None = 1
    bootstrap_partition_metadata: Mapping[str, CleanPartitionMetadata] | None = None
    extra_metadata: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantInfo:
    """An instant as rollbacks and restores name it."""

    commit_time: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """What to undo in one partition or file group."""

    partition_path: str
    file_id: str | None = None
    latest_base_instant: str | None = None
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Content of `rollback.requested`."""

    instant_to_rollback: InstantInfo | None = field(default=None, metadata=CORE)
    rollback_requests: tuple[RollbackRequest, ...] | None = field(
        default=None, metadata={"name": "RollbackRequests", **CORE}
    )
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPartitionMetadata:
    """What a rollback undid in one partition."""

    partition_path: str
    success_delete_files: tuple[str, ...]
    failed_delete_files: tuple[str, ...]
    rollback_log_files: Mapping[str, int] | None = None
    log_files_from_failed_commit: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata:
    """Content of a completed rollback."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, RollbackPartitionMetadata]
    version: int | None = 1
    instants_rollback: tuple[InstantInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """Content of `restore.requested`; the newest instant comes first."""

    instants_to_rollback: tuple[InstantInfo, ...] = field(default=(), metadata=CORE)
    version: int | None = 2
    savepoint_to_restore_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata:
    """Content of a completed restore, with one rollback for each instant taken back."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: tuple[str, ...]
    hoodie_restore_metadata: Mapping[str, tuple[RollbackMetadata | None, ...]]
    version: int | None = 1
    restore_instant_info: tuple[InstantInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPartitionMetadata:
    """The files of one partition that a savepoint keeps."""

    partition_path: str
    savepoint_data_file: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata:
    """Content of a savepoint; `savepointed_at` counts milliseconds since 1970."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, SavepointPartitionMetadata]
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPartitionInfo:
    """One partition of the metadata table that is built."""

    version: int | None = 1
    metadata_partition_path: str | None = None
    index_upto_instant: str | None = None
    extra_metadata: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """Content of `indexing.requested`."""

    version: int | None = 1
    index_partition_infos: tuple[IndexPartitionInfo, ...] = field(default=(), metadata=CORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCommitMetadata:
    """Content of a completed index build."""

    version: int | None = 1
    operation_type: str | None = None
    index_partition_infos: tuple[IndexPartitionInfo, ...] = field(default=(), metadata=CORE)


_SCHEMAS: Mapping[type[Any], avro_schemas.Schema] = {
    CompactionPlan: avro_schemas.COMPACTION_PLAN,
    RequestedReplaceMetadata: avro_schemas.REQUESTED_REPLACE_METADATA,
    CleanerPlan: avro_schemas.CLEANER_PLAN,
    CleanMetadata: avro_schemas.CLEAN_METADATA,
    RollbackPlan: avro_schemas.ROLLBACK_PLAN,
    RollbackMetadata: avro_schemas.ROLLBACK_METADATA,
    RestorePlan: avro_schemas.RESTORE_PLAN,
    RestoreMetadata: avro_schemas.RESTORE_METADATA,
    SavepointMetadata: avro_schemas.SAVEPOINT_METADATA,
    IndexPlan: avro_schemas.INDEX_PLAN,
    IndexCommitMetadata: avro_schemas.INDEX_COMMIT_METADATA,
}


#: The newest version of plans that name files to delete: a later one may mean something else.
_NEWEST_VERSION = 2


def decode(kind: type[P], data: bytes) -> P:
    """Return the `kind` of this module that the Avro container `data` holds.

    Plans name data files of the table and nothing else, or `Malformed` is raised.
    """
    expected = _SCHEMAS[kind]["name"]
    name, raw = avro_file.decode(data)
    if name != expected:
        raise Malformed(f"the file holds a {name} and no {expected}")
    found = from_wire(kind, raw)
    refuse_foreign_names(found)
    return found


def refuse_foreign_names(plan: object) -> None:
    """Raise `Malformed` for a plan that names what no plan of its kind may touch."""
    if isinstance(plan, CleanerPlan):
        _refuse_newer(plan.version)
        for partition, files in (plan.file_paths_to_be_deleted_per_partition or {}).items():
            table_path.data_files(partition, (f.file_path for f in files if f.file_path))
        for partition, paths in (plan.files_to_be_deleted_per_partition or {}).items():
            table_path.data_files(partition, paths)
        for partition in plan.partitions_to_be_deleted or ():
            # Without partitions the table itself is one, and that does not go.
            table_path.entry(table_path.partition(partition).rpartition("/")[2])
    elif isinstance(plan, RollbackPlan):
        _refuse_newer(plan.version)
        target = plan.instant_to_rollback
        if target is not None:
            table_path.instant_time(target.commit_time)
        for request in plan.rollback_requests or ():
            names = (*request.files_to_be_deleted, *(request.log_blocks_to_be_deleted or ()))
            table_path.data_files(request.partition_path, names)
            _refuse_others(request, None if target is None else target.commit_time)
            if request.log_blocks_to_be_deleted:
                _refuse_no_slice(request)
    elif isinstance(plan, RestorePlan):
        _refuse_newer(plan.version)
        for instant in plan.instants_to_rollback:
            table_path.instant_time(instant.commit_time)
    elif isinstance(plan, SavepointMetadata):
        for partition, kept in plan.partition_metadata.items():
            table_path.data_files(partition, kept.savepoint_data_file)
    elif isinstance(plan, CompactionPlan):
        for operation in plan.operations or ():
            table_path.partition(operation.partition_path)
            table_path.entry(operation.file_id)  # what is written begins with it


def _refuse_others(request: RollbackRequest, failed_time: str | None) -> None:
    """Raise `Malformed` for the base file of another write, which has that one's time.

    Logs have the time of their slice up to table version 7.
    """
    for path in request.files_to_be_deleted:
        base = parse_base(request.partition_path, _last_part(path), 0)
        if base is not None and base.instant_time != failed_time:
            raise Malformed(f"the rollback of {failed_time} deletes {path}, which is of another")


def _refuse_no_slice(request: RollbackRequest) -> None:
    """Raise `Malformed` unless a log can be added to the slice whose blocks are taken back."""
    table_path.data_file(
        request.partition_path,
        format_log(
            file_id=request.file_id or "",
            instant_time=request.latest_base_instant or "",
            version=1,
            write_token=UNKNOWN_WRITE_TOKEN,
        ),
    )


def _refuse_newer(version: int | None) -> None:
    if version is not None and version > _NEWEST_VERSION:
        raise Malformed(f"the plan is of version {version}, and {_NEWEST_VERSION} is the newest")


def decode_archived(kind: type[P], data: bytes) -> P:
    """Return a `kind` from history, where Hudi 1.0.2 left bare Avro without a container."""
    if data.startswith(avro_file.MAGIC):
        return decode(kind, data)
    found = from_wire(kind, avro_file.decode_bare(data, _SCHEMAS[kind]))
    refuse_foreign_names(found)
    return found


def from_archive(kind: type[P], raw: Mapping[str, Any]) -> P:
    """Return a `kind` from the record inside an archive entry of layout 1."""
    return from_wire(kind, raw)


def to_archive(value: object) -> dict[str, Any]:
    """Return the record that stands for a value inside an archive entry of layout 1."""
    return to_wire(value)


def encode(value: object) -> bytes:
    """Return the Avro container for a value of this module, with Hudi 1.x's schema."""
    return avro_file.encode(_SCHEMAS[type(value)], to_wire(value))
