"""The metadata table's own services, which keep it small however often the table is written.

They run right before a deltacommit. A compaction puts everything that counts into one base file for
each file group; it waits while the metadata table is ahead of a pending instant of the table,
because what may still be taken back must stay apart. The slices before the last two are cleaned;
instants that neither they nor the table's active timeline have to do with are archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidelake.config import ArchiveOptions, TableConfig
from tidelake.env import Env
from tidelake.formats import metadata_record, plans
from tidelake.formats.column_bounds import ColumnBounds, joined
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.hfile_writer import encode_hfile
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.metadata_encoding import encode_column_stats, encode_files
from tidelake.formats.metadata_record import ColumnRange, FileList, RecordType, decode_bounds
from tidelake.formats.metadata_schema import record_schema_text
from tidelake.formats.plans import (
    CleanerPlan,
    CleanFileInfo,
    CleanMetadata,
    CleanPartitionMetadata,
    CompactionOperation,
    CompactionPlan,
)
from tidelake.metadata.file_group import Combine, MetadataFileGroup
from tidelake.metadata.lost_files import refuse_lost_files
from tidelake.metadata.merge import merge
from tidelake.metadata.names import COLUMN_STATS, FILES, PARTITION_STATS
from tidelake.metadata.own_table import WRITE_TOKEN, ZEROS, OwnTable
from tidelake.model import Action, FileSlice, Instant, State
from tidelake.storage import Storage, StorageSpec, open_storage
from tidelake.timeline import Timeline, reload_timeline
from tidelake.timeline.archive import LogArchive, LsmArchive
from tidelake.txn import InstantTimes
from tidelake.txn.rollback.failed_files import absolute_path

_COMPACT = "COMPACT"
_KEEP_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
_PLAN_VERSION = 2
#: A metadata table with more bytes to compact is not compacted by the process that commits.
_LARGE_BYTES = 16 << 20
#: Slices of a file group that a clean leaves: the newest, and one for readers who came before it.
_KEPT_SLICES = 2
#: What services of layout 1 have behind the time of the newest deltacommit.
_COMPACTION_SUFFIX, _CLEAN_SUFFIX = "001", "002"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupToCompact:
    """A file group whose newest slice becomes one base file; it travels to tasks."""

    storage: StorageSpec
    slice: FileSlice
    instant_time: str
    schema: str

    def write(self) -> WriteStat:
        """Write the base file; a task that runs twice writes the same again."""
        storage = open_storage(self.storage)
        # From version 8 on a slice has no logs but those of completed instants.
        group = MetadataFileGroup(
            storage, self.slice, is_visible=lambda _: True, may_be_torn=lambda _: False
        )
        return _compacted(storage, self.slice, group, self.instant_time, self.schema)


#: Compacts many file groups at once, and returns their stats in the same order.
CompactGroups = Callable[[Sequence[GroupToCompact]], Sequence[WriteStat]]


def keep_small(
    env: Env,
    own: OwnTable,
    config: TableConfig,
    times: InstantTimes,
    *,
    delta_commits: int,
    compact_groups: CompactGroups | None = None,
) -> OwnTable:
    """Compact and clean when `delta_commits` have gathered; return the metadata table since then.

    `config` is that of the table which it describes. What is large is left to `compact_groups`.
    """
    if len(since_compaction(own)) < delta_commits:
        return own
    timeline = reload_timeline(env.storage, config)
    instant_time = _service_time(own, times, _COMPACTION_SUFFIX)
    if instant_time is None or not _may_compact(own, timeline):
        return own
    compact(own, sorted(config.metadata_partitions), instant_time, times, compact_groups)
    own = own.reloaded()
    clean(env, own, times)
    own = own.reloaded()
    times.ensure()
    archive(own, timeline, config.metadata_partitions, at_least=delta_commits)
    return own.reloaded()


def since_compaction(own: OwnTable) -> Sequence[Instant]:
    """Return the deltacommits that no base file holds yet."""
    newest = max((i.requested_time for i in _compactions(own)), default="")
    return [
        i
        for i in own.timeline.writes()
        if i.action is Action.DELTACOMMIT and _mark(own, i) > newest
    ]


def _mark(own: OwnTable, instant: Instant) -> str:
    # Up to version 7 a compaction has the time of the deltacommit before it, and three digits more.
    return instant.requested_time if own.names_logs_by_slice else instant.completion_time or ""


def _compactions(own: OwnTable) -> Iterator[Instant]:
    return (i for i in own.timeline.completed if i.action is Action.COMMIT)


def _may_compact(own: OwnTable, table: Timeline) -> bool:
    if any(i.planned_as is Action.COMPACTION for i in own.timeline.pending):
        return False
    pending = table.pending_times
    known = {i.requested_time for i in own.timeline.writes()}
    if own.names_logs_by_slice:
        return not any(time <= max(known) for time in pending)
    return not pending & known


def _service_time(own: OwnTable, times: InstantTimes, suffix: str) -> str | None:
    """Return the time of a service, or None when one has run since the newest deltacommit."""
    if own.names_logs_by_slice:
        deltas = (i for i in own.timeline.writes() if i.action is Action.DELTACOMMIT)
        newest = max((i.requested_time for i in deltas), default="")
        time = newest + suffix
        return time if all(i.requested_time != time for i in own.timeline.instants) else None
    return own.next_time(times)


def compact(
    own: OwnTable,
    partitions: Iterable[str],
    instant_time: str,
    times: InstantTimes,
    compact_groups: CompactGroups | None = None,
) -> None:
    """Write a base file for every file group of the partitions."""
    slices = [found for partition in partitions for found in _whole(own, partition)]
    plan = CompactionPlan(operations=tuple(map(_operation, slices)), version=_PLAN_VERSION)
    own.begin_service(instant_time, Action.COMPACTION, plans.encode(plan), times)
    is_large = sum(found.size_bytes for found in slices) > _LARGE_BYTES
    if compact_groups is not None and is_large and not own.names_logs_by_slice:
        stats = compact_groups(
            [
                GroupToCompact(
                    storage=own.storage.spec,
                    slice=found,
                    instant_time=instant_time,
                    schema=own.schema,
                )
                for found in slices
            ]
        )
    else:
        stats = [
            _compacted(own.storage, found, _group(own, found), instant_time, own.schema)
            for found in slices
        ]
    own.complete(instant_time, Action.COMMIT, stats, times, _COMPACT)


def _whole(own: OwnTable, partition: str) -> Sequence[FileSlice]:
    """Return the newest slices; raise when they lack files, which a base file would hide."""
    slices = own.slices(partition)
    refuse_lost_files(
        own.view,
        own.contents,
        partition,
        slices,
        is_visible=lambda _: True,
        now=lambda: own.reloaded().timeline,
    )
    return slices


def _operation(found: FileSlice) -> CompactionOperation:
    return CompactionOperation(
        base_instant_time=found.base_instant_time,
        delta_file_paths=tuple(log.name for log in found.log_files),
        data_file_path=found.base_file.name if found.base_file else None,
        file_id=found.group.file_id,
        partition_path=found.group.partition,
        metrics={"TOTAL_LOG_FILES": float(len(found.log_files))},
    )


def _group(own: OwnTable, found: FileSlice) -> MetadataFileGroup:
    return MetadataFileGroup(
        own.storage,
        found,
        is_visible=own.view.times.is_committed,
        # Before version 8 a crash may have left half a block in a file that others wrote to.
        may_be_torn=lambda _: own.names_logs_by_slice,
    )


def _compacted(
    storage: Storage,
    found: FileSlice,
    group: MetadataFileGroup,
    instant_time: str,
    own_schema: str,
) -> WriteStat:
    partition = found.group.partition
    schema = max((own_schema, *group.schemas()), key=len)
    entries = list(group.merged(_combining(partition, schema), schema))
    data = encode_hfile(entries, schema, is_base=True)
    name = format_base(
        file_id=found.group.file_id,
        write_token=WRITE_TOKEN,
        instant_time=instant_time,
        extension="hfile",
    )
    storage.put(f"{partition}/{name}", data)
    return WriteStat(
        file_id=found.group.file_id,
        path=f"{partition}/{name}",
        prev_commit=found.base_instant_time,
        num_writes=len(entries),
        num_inserts=0,
        num_update_writes=0,
        num_deletes=0,
        partition_path=partition,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        **ZEROS,
    )


def _combining(partition: str, schema: str) -> Combine:
    version = _version_of(schema)
    if partition == FILES:
        return lambda values: _joined_files(values, schema, version)
    if partition in (COLUMN_STATS, PARTITION_STATS):
        return lambda values: _joined_stats(values, schema, version)
    return lambda values: values[-1]


def _version_of(schema: str) -> int:
    return next(v for v in (6, 8, 9) if record_schema_text(v) == schema)


def _joined_files(values: Sequence[bytes | None], schema: str, version: int) -> bytes | None:
    merged = None
    for value in values:
        merged = merge(merged, None if value is None else metadata_record.decode(value, schema)[1])
    if not isinstance(merged, FileList) or values[-1] is None:
        return None
    kind = metadata_record.decode_type(values[-1], schema)
    live = {name: entry for name, entry in merged.entries.items() if not entry.is_deleted}
    return encode_files(live, version, is_partition_list=kind is RecordType.PARTITION_LIST)


def _joined_stats(values: Sequence[bytes | None], schema: str, version: int) -> bytes | None:
    newest = values[-1]
    if newest is None:
        return None
    record = metadata_record.decode(newest, schema)[1]
    if not isinstance(record, ColumnRange) or record.is_deleted:
        return None
    together: list[ColumnBounds] = []
    for value in values:
        found = None if value is None else metadata_record.decode(value, schema)[1]
        if value is None or not isinstance(found, ColumnRange) or found.is_deleted:
            together = []
            continue
        bounds = decode_bounds(value, schema)
        if bounds is None:
            return newest
        together = [bounds] if found.is_tight else [*together, bounds]
    both = joined(together)
    if both is None or len(together) == 1:
        return newest
    kind = metadata_record.decode_type(newest, schema)
    return encode_column_stats(
        both,
        version,
        name=record.file_name,
        column=record.column,
        is_partition=kind is RecordType.PARTITION_STATS,
        is_tight=False,
    )


def clean(env: Env, own: OwnTable, times: InstantTimes) -> None:
    """Delete the files of all slices but the last ones."""
    dead = {p: names for p in own.storage.list("").folders if (names := _dead_files(own, p))}
    instant_time = _service_time(own, times, _CLEAN_SUFFIX)
    if not dead or instant_time is None:
        return
    paths = {
        partition: tuple(
            CleanFileInfo(
                file_path=absolute_path(own.storage, f"{partition}/{name}"),
                is_bootstrap_base_file=False,
            )
            for name in names
        )
        for partition, names in dead.items()
    }
    newest = max(own.timeline.writes(), key=lambda i: i.completion_time or "").requested_time
    plan = CleanerPlan(
        policy=_KEEP_VERSIONS,
        last_completed_commit_timestamp=newest,
        files_to_be_deleted_per_partition={},
        file_paths_to_be_deleted_per_partition=paths,
        partitions_to_be_deleted=(),
        version=_PLAN_VERSION,
    )
    began_ms = env.clock.now_ms()
    own.begin_service(instant_time, Action.CLEAN, plans.encode(plan), times)
    own.storage.delete_all([f"{p}/{name}" for p, names in dead.items() for name in names])
    done = CleanMetadata(
        start_clean_time=instant_time,
        time_taken_in_millis=max(0, env.clock.now_ms() - began_ms),
        total_files_deleted=sum(map(len, dead.values())),
        earliest_commit_to_retain="",
        last_completed_commit_timestamp=newest,
        partition_metadata={
            partition: CleanPartitionMetadata(
                partition_path=partition,
                policy=_KEEP_VERSIONS,
                delete_path_patterns=tuple(names),
                success_delete_files=tuple(names),
                failed_delete_files=(),
                is_partition_deleted=False,
            )
            for partition, names in dead.items()
        },
        version=_PLAN_VERSION,
        bootstrap_partition_metadata={},
        extra_metadata={},
    )
    path = own.publisher.completed_path(instant_time, Action.CLEAN, own.next_time(times))
    times.ensure()
    own.publish(path, plans.encode(done), times)


def archive(
    own: OwnTable, table: Timeline, partitions: Iterable[str], *, at_least: int
) -> Sequence[Instant]:
    """Move old instants into the history, and return them; none when they are fewer than that.

    Those that the active timeline of the table has stay, because it is by them that a writer sees
    whether the metadata table is behind, and so do those of the slices that readers use.
    """
    found = (
        own.view.slices(group)[-_KEPT_SLICES:]
        for partition in partitions
        for group in own.view.groups([partition])
    )
    oldest = min((slices[0].base_instant_time for slices in found if slices), default="")
    active = {i.requested_time for i in table.instants}
    old: list[Instant] = []
    for instant in own.timeline.instants:
        is_write = instant.action is Action.DELTACOMMIT
        mark = _mark(own, instant) if is_write else instant.requested_time
        if not instant.is_completed or instant.requested_time in active or mark >= oldest:
            break
        old.append(instant)
    if len(old) < at_least:
        return ()
    kind = LogArchive if own.config.layout_version == LAYOUT_1 else LsmArchive
    history = kind(own.storage, own.config, ArchiveOptions())
    history.add(own.timeline, old)
    files = [f for i in old for f in own.timeline.files_of(i)]
    # Pending files first: a completed one needs no others.
    for file_name, _ in sorted(files, key=lambda at: at[1].state is State.COMPLETED):
        own.storage.delete(f"{own.config.timeline_folder}/{file_name}")
    history.tidy()
    return old


def _dead_files(own: OwnTable, partition: str) -> list[str]:
    names = []
    for group in own.view.groups([partition]):
        for found in own.view.slices(group)[:-_KEPT_SLICES]:
            names += [found.base_file.name] if found.base_file else []
            names += [log.name for log in found.log_files]
    return names
