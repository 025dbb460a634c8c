"""Which file slices to compact, and when: a pure function of the table and the options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidelake.config import (
    CompactionOptions,
    CompactionStrategy,
    CompactionTrigger,
    TableConfig,
    TimeBasis,
)
from tidelake.errors import ConfigError, MissingFileError, UnsupportedTableError
from tidelake.formats.file_name import parse_log
from tidelake.formats.plans import CompactionOperation, CompactionPlan
from tidelake.model import WRITE_ACTIONS, Action, FileGroupId, FileSlice, Instant, TableType
from tidelake.model.instant_digits import shown_moment
from tidelake.model.table_format import TableFormat
from tidelake.services.plan import PlannedFile, Service, ServicePlan
from tidelake.services.service_context import ServiceContext
from tidelake.timeline import Timeline, TimelineContents
from tidelake.view import (
    AsOf,
    FileGroup,
    TableView,
    clustered_groups,
    log_compacted_groups,
    refuse_missing_files,
)

#: From this version of the plan on paths are bare file names.
_PLAN_VERSION = 2
_MIB = 1 << 20


def refuse_uncompactable(config: TableConfig) -> None:
    """Raise `ConfigError` or `UnsupportedTableError` for a table that has nothing to compact."""
    if config.table_type is not TableType.MERGE_ON_READ:
        raise ConfigError(
            f"{config.name} is copy-on-write: it has no logs, and nothing to compact",
            next_step="to make fewer files of many, cluster the table",
        )
    if config.is_metadata_table:
        raise UnsupportedTableError(
            "this is the metadata table of another table",
            next_step="compact the table that it belongs to",
        )
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"tidelake does not write base files of format {config.base_file_format}",
            next_step="compact the table with the engine that created it",
        )


def is_due(timeline: Timeline, options: CompactionOptions, *, at: str) -> bool:
    """Return whether a compaction requested `at` has enough to do, as the trigger has it.

    Deltacommits are counted from the last compaction on that completed, or was requested under
    `NUM_COMMITS_AFTER_LAST_REQUEST`; without one, from the first deltacommit on.
    """
    trigger = options.trigger
    deltas = [i for i in timeline.completed if i.action is Action.DELTACOMMIT]
    last = _last_compaction(
        timeline, with_pending=trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST
    )
    if last is not None:
        deltas = [i for i in deltas if (i.completion_time or "") > last]
    since = last or min((i.requested_time for i in deltas), default=at)
    enough = len(deltas) >= options.max_delta_commits
    late = _seconds_between(since, at) >= options.max_delta_seconds
    if trigger is CompactionTrigger.TIME_ELAPSED:
        return late
    if trigger is CompactionTrigger.NUM_AND_TIME:
        return enough and late
    if trigger is CompactionTrigger.NUM_OR_TIME:
        return enough or late
    return enough


def _last_compaction(timeline: Timeline, *, with_pending: bool) -> str | None:
    """Return when the last compaction was requested; as in Hudi any commit of the table is one."""
    instants: Iterable[Instant] = timeline.instants if with_pending else timeline.completed
    kinds = (Action.COMMIT, Action.COMPACTION)
    times = (i.requested_time for i in instants if i.action in kinds)
    return max(times, default=None)


def _seconds_between(start: str, end: str) -> float:
    try:
        return (shown_moment(end) - shown_moment(start)).total_seconds()
    except ValueError:
        return 0.0


def plan_compaction(
    view: TableView,
    contents: TimelineContents,
    options: CompactionOptions,
    *,
    table_version: int,
    requested_time: str,
) -> CompactionPlan | None:
    """Return the plan of a compaction requested at `requested_time`; None: there is nothing to do.

    `view` must have been made after that time was taken. A slice takes part with the logs that
    completed by then, unless another plan has spoken for its file group. Up to table version 7,
    where a log goes to the slice that its name says, nothing is planned while an older write is
    pending: its logs would land behind the compaction.
    """
    timeline = view.timeline
    if not TableFormat(table_version).has_completion_times:
        as_of = None
        if any(_is_write_before(i, requested_time) for i in timeline.pending):
            return None
    else:
        as_of = AsOf(time=requested_time, basis=TimeBasis.COMPLETION)
    taken = clustered_groups(timeline, contents) | log_compacted_groups(timeline, contents)
    groups = [
        group
        for group in view.groups()
        if group.id not in taken
        and not view.pending_compactions(group.id)
        and not view.is_replaced(group.id)
    ]
    if as_of is not None:
        _refuse_unknown(view, contents, groups)
    slices = [
        found
        for group in groups
        if (found := view.latest_slice(group, as_of)) is not None and found.log_files
    ]
    operations = narrowed([operation(found, options) for found in slices], options)
    if not operations:
        return None
    # A base file made without a file that is gone would hide that it is.
    refuse_missing_files(view, slices, None, as_of, only={found.group for found in slices})
    return CompactionPlan(
        operations=tuple(operations),
        extra_metadata={},
        version=_PLAN_VERSION,
        preserve_hoodie_metadata=False,
        missing_schedule_partitions=(),
    )


def _refuse_unknown(
    view: TableView, contents: TimelineContents, groups: Sequence[FileGroup]
) -> None:
    """Raise for a log of which nobody can tell when it completed.

    A plan that left it out, or put it into the wrong slice, would lose its rows. One of a write
    that was rolled back has none: a task that did not notice has left it, and nobody reads it.
    """
    logs = [log for group in groups for log in group.log_files]
    unknown = [log for log in logs if view.times.is_unknown(log.instant_time)]
    rolled_back = contents.ever_rolled_back(view.timeline) if unknown else frozenset()
    for log in unknown:
        if log.instant_time not in rolled_back:
            raise UnsupportedTableError(
                f"{log.path} belongs to instant {log.instant_time}, which is neither on the "
                "timeline nor in its history, so nobody can tell when it completed",
                next_step="restore the history; if a failed write left the file, which "
                f"`tidelake timeline TABLE` shows as rolled back, delete {log.path}",
            )


def show_compaction(now: ServiceContext, options: CompactionOptions) -> ServicePlan:
    """Return what a compaction would do now, beside plans that wait already."""
    state = now.state
    refuse_uncompactable(state.config)
    at = now.times.next()
    view = state.view
    plan = plan_compaction(
        view,
        state.contents,
        options,
        table_version=state.config.table_version,
        requested_time=at,
    )
    waiting = [i for i in state.timeline.pending if i.planned_as is Action.COMPACTION]
    slices = [s for i in waiting for s in planned_slices(view, state.contents.compaction_plan(i))]
    slices += planned_slices(view, plan) if plan is not None else []
    writes = [i.requested_time for i in state.timeline.pending if i.action in WRITE_ACTIONS]
    facts: dict[str, str | int] = {"file groups": len(slices)}
    if waiting:
        facts["plans that wait"] = ", ".join(i.requested_time for i in waiting)
    if writes:
        facts["pending writes"] = ", ".join(writes)
    return ServicePlan(
        service=Service.COMPACT,
        reason=_reason(slices, is_due=is_due(state.timeline, options, at=at)),
        files_in=tuple(_files_in(slices)),
        files_out=tuple(
            PlannedFile(
                path=f"{s.group.partition}/{s.group.file_id}_…".lstrip("/"),
                size_bytes=s.base_file.size_bytes if s.base_file else None,
            )
            for s in slices
        ),
        facts=facts,
    )


def _reason(slices: Sequence[FileSlice], *, is_due: bool) -> str:
    if not slices:
        return "no file slice has logs that a compaction could take"
    return "a compaction is due" if is_due else "none is due, but there are logs to fold in"


def _files_in(slices: Iterable[FileSlice]) -> Iterator[PlannedFile]:
    for piece in slices:
        if piece.base_file is not None:
            yield PlannedFile(path=piece.base_file.path, size_bytes=piece.base_file.size_bytes)
        for log in piece.log_files:
            yield PlannedFile(path=log.path, size_bytes=log.size_bytes)


def _is_write_before(instant: Instant, time: str) -> bool:
    return instant.action in (Action.COMMIT, Action.DELTACOMMIT) and instant.requested_time < time


def operation(found: FileSlice, options: CompactionOptions) -> CompactionOperation:
    """Return a slice as plans have it, with Hudi's estimate of what it costs."""
    base = found.base_file
    log_bytes = sum(log.size_bytes for log in found.log_files)
    read_mib = ((base.size_bytes if base else 0) + log_bytes) // _MIB
    write_mib = (base.size_bytes if base else options.new_file_bytes) // _MIB
    return CompactionOperation(
        base_instant_time=found.base_instant_time,
        delta_file_paths=tuple(log.name for log in found.log_files),
        data_file_path=None if base is None else base.name,
        file_id=found.group.file_id,
        partition_path=found.group.partition,
        metrics={
            "TOTAL_LOG_FILES": float(len(found.log_files)),
            "TOTAL_IO_MB": float(read_mib + write_mib),
            "TOTAL_IO_READ_MB": float(read_mib),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_WRITE_MB": float(write_mib),
        },
    )


def narrowed(
    operations: list[CompactionOperation], options: CompactionOptions
) -> list[CompactionOperation]:
    """Return the operations that the strategies take, in the order in which they are to run."""
    for strategy in options.strategies:
        operations = _STRATEGIES[strategy](operations, options)
    return operations


_Operations = list[CompactionOperation]


def _by_log_size(operations: _Operations, options: CompactionOptions) -> _Operations:
    large = [
        o
        for o in operations
        if _metric(o, "TOTAL_LOG_FILES_SIZE") >= options.log_size_threshold_bytes
    ]
    large.sort(key=lambda o: _metric(o, "TOTAL_LOG_FILES_SIZE"), reverse=True)
    return _bounded(large, options)


def _by_log_count(operations: _Operations, options: CompactionOptions) -> _Operations:
    many = [o for o in operations if len(o.delta_file_paths) >= options.log_count_threshold]
    many.sort(key=lambda o: len(o.delta_file_paths), reverse=True)
    return _bounded(many, options)


def _bounded(operations: _Operations, options: CompactionOptions) -> _Operations:
    """Return operations up to and with the one that reaches the target, as Hudi counts."""
    left = float(options.target_io_mib)
    chosen: _Operations = []
    for each in operations:
        if left <= 0:
            break
        left -= _metric(each, "TOTAL_IO_MB")
        chosen.append(each)
    return chosen


def _unbounded(operations: _Operations, _: CompactionOptions) -> _Operations:
    return operations


def _by_day(operations: _Operations, options: CompactionOptions) -> _Operations:
    days = sorted({o.partition_path for o in operations}, reverse=True)[: options.day_partitions]
    return sorted(
        (o for o in operations if o.partition_path in days),
        key=lambda o: days.index(o.partition_path),
    )


def _by_regex(operations: _Operations, options: CompactionOptions) -> _Operations:
    pattern = re.compile(options.partition_regex)
    return [o for o in operations if pattern.fullmatch(o.partition_path)]


def _metric(operation: CompactionOperation, name: str) -> float:
    return (operation.metrics or {}).get(name, 0.0)


_STRATEGIES: Mapping[
    CompactionStrategy, Callable[[_Operations, CompactionOptions], _Operations]
] = {
    CompactionStrategy.LOG_FILE_SIZE: _by_log_size,
    CompactionStrategy.LOG_FILE_NUM: _by_log_count,
    CompactionStrategy.BOUNDED_IO: _bounded,
    CompactionStrategy.UNBOUNDED: _unbounded,
    CompactionStrategy.DAY_BASED: _by_day,
    CompactionStrategy.PARTITION_REGEX: _by_regex,
}


def planned_slices(view: TableView, plan: CompactionPlan) -> list[FileSlice]:
    """Return the slices of a plan, ours or Apache's, with their logs in merge order.

    Raises `MissingFileError` when a file of the plan is no longer part of the table.
    """
    partitions = sorted({o.partition_path for o in plan.operations})
    groups = {group.id: group for group in view.groups(partitions)}
    return [_planned_slice(view, groups, operation) for operation in plan.operations]


def _planned_slice(
    view: TableView, groups: Mapping[FileGroupId, FileGroup], planned: CompactionOperation
) -> FileSlice:
    group_id = FileGroupId(planned.partition_path, planned.file_id)
    group = groups.get(group_id, FileGroup(id=group_id))
    base_name = (planned.data_file_path or "").rpartition("/")[2]
    names = [path.rpartition("/")[2] for path in planned.delta_file_paths]
    # Version 6 has change logs in its plans, which are no part of the slice.
    wanted = [name for name in names if not _is_change_log(group_id.partition, name)]
    base = next((b for b in group.base_files if b.name == base_name), None)
    if base_name and base is None:
        raise _missing(group_id, base_name)
    logs = [log for piece in view.slices(group) for log in piece.log_files if log.name in wanted]
    for name in wanted:
        if all(log.name != name for log in logs):
            raise _missing(group_id, name)
    return FileSlice(
        group=group_id,
        base_instant_time=planned.base_instant_time or "",
        base_file=base,
        log_files=tuple(logs),
    )


def _is_change_log(partition: str, name: str) -> bool:
    log = parse_log(partition, name, 0)
    return log is not None and log.is_cdc


def _missing(group: FileGroupId, name: str) -> MissingFileError:
    path = f"{group.partition}/{name}" if group.partition else name
    return MissingFileError(
        path,
        next_step="the plan of the compaction names it, so it cannot run: restore the file, or "
        "restore the table to a savepoint; nothing was written",
    )
