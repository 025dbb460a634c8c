"""Change queries: every change inside a window of time, from change logs or inferred from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidelake.config import CdcMode, ReadOptions, TimeBasis
from tidelake.errors import ConfigError, IncrementalRangeError, UnsupportedTableError
from tidelake.files import ChangeKind, ChangePart, ChangeTask, ReadSpec, SliceTask
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import log_order, parse_base, parse_log
from tidelake.model import FileGroupId, FileSlice, Instant, LogFile, MergeMode
from tidelake.read.incremental import Time, window
from tidelake.read.scan import EVERYTHING, output_columns, read_spec, slice_tasks
from tidelake.records import MergeSpec
from tidelake.state.table_state import TableState
from tidelake.view import AsOf, FileGroup, MissingFiles, is_by, join_onto_base

#: Operations that change rows; services and index builds only move them.
_CHANGING = frozenset(
    {
        "INSERT",
        "INSERT_PREPPED",
        "UPSERT",
        "UPSERT_PREPPED",
        "DELETE",
        "DELETE_PREPPED",
        "BULK_INSERT",
        "BULK_INSERT_PREPPED",
        "BOOTSTRAP",
        "DELETE_PARTITION",
        "INSERT_OVERWRITE",
        "INSERT_OVERWRITE_TABLE",
    }
)
_COMPACTING = "COMPACT"
_DELETING = frozenset({"DELETE", "DELETE_PREPPED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlan:
    """The writes of a window, file group by file group, and how to understand their rows."""

    spec: ReadSpec
    tasks: tuple[ChangeTask, ...]


def plan_changes(
    state: TableState, *, start: Time | None = None, end: Time | None = None
) -> ChangesPlan:
    """Return the changes inside (start, end]; raise when their files are gone."""
    if not state.config.cdc_enabled:
        raise ConfigError(
            f"table {state.config.name} keeps no change log (hoodie.table.cdc.enabled is not true)",
            next_step="read rows instead of changes with an incremental query, or create the table "
            "with hoodie.table.cdc.enabled=true",
        )
    seen = window(state, start, end)
    schema = state.schema()
    spec = read_spec(state, schema, output_columns(schema, EVERYTHING))
    state.contents.load_commit_metadata(seen.instants)
    first_start, problem = seen.first_start, ""
    if first_start is not None:
        problem = f"{len(seen.archived)} writes of the window were archived"
    files = _Files(state)
    tasks: list[ChangeTask] = []
    for instant in sorted(seen.instants, key=seen.time_of):
        try:
            tasks += _Write(state, instant, files, spec.merge).tasks()
        except _FileGoneError as gone:
            first_start = max(first_start or "", seen.time_of(instant))
            problem = f"{gone} of {instant.requested_time} was cleaned"
    if first_start is not None:
        raise IncrementalRangeError(
            f"changes since {seen.start or 'the beginning'} are gone: {problem}",
            next_step=f"start the window at {first_start} or later; to read further back in the "
            "future, keep more commits (hoodie.clean.commits.retained, hoodie.keep.min.commits)",
        )
    return ChangesPlan(spec=spec, tasks=tuple(tasks))


class _FileGoneError(Exception):
    """A file is not there any more without which nobody can tell what a write changed."""


class _Files:
    """The files that are there, and those that the active timeline says were written."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._groups: dict[str, Mapping[FileGroupId, FileGroup]] = {}

    def of(self, group: FileGroupId) -> FileGroup:
        """Return the files of a group that are on storage."""
        if group.partition not in self._groups:
            found = self._state.view.groups([group.partition])
            self._groups[group.partition] = {g.id: g for g in found}
        return self._groups[group.partition].get(group, FileGroup(id=group))

    def refuse_missing(
        self,
        group: FileGroupId,
        piece: FileSlice | None,
        instant: Instant,
        own: WriteStat | None = None,
    ) -> None:
        """Raise `_FileGoneError` when the slice before a write lacks files.

        `own` is what the write says of the first log that it appended.
        """
        view = self._state.view
        as_of = _just_before(instant, by_completion=view.by_completion_time)
        appended = None if view.by_completion_time or own is None else _log(own)
        missing = MissingFiles(view, piece)
        begins = own is not None and _begins_group(own)
        for earlier, stat in self._written.get(group, ()):
            if not is_by(earlier, as_of):
                continue
            log = _log(stat)
            if log is not None and appended is not None and log_order(log) >= log_order(appended):
                continue  # it lies behind that of the write, whenever it was requested
            if missing.has(earlier, stat):
                raise _FileGoneError(stat.path)
            begins |= _begins_group(stat)
        if own is not None:
            self._refuse_other_slice(piece, own, as_of)
        has_base = piece is not None and piece.base_file is not None
        if not has_base and not begins and self._state.history.completion_times():
            # The group is older than the active timeline, and may have had a base file.
            raise _FileGoneError(f"a file of {group.partition}/{group.file_id}")

    def _refuse_other_slice(self, piece: FileSlice | None, own: WriteStat, as_of: AsOf) -> None:
        """Raise `_FileGoneError` when a slice lacks what a write says that its logs came upon.

        What it came upon may be of archived writes, and what others did meanwhile it does not know.
        """
        named = parse_base("", own.base_file or "", 0)
        base = None if piece is None else piece.base_file
        if named is not None and (base is None or base.instant_time < named.instant_time):
            raise _FileGoneError(own.base_file)
        if not self._state.by_completion_time or (base and named is None):
            return  # a log of version 6 may hold nothing but what was rolled back
        if base is not None and named is not None and base.instant_time > named.instant_time:
            return
        there = {log.name for log in piece.log_files} if piece else set()
        for name in own.log_files or ():
            log = parse_log("", name, 0)
            if log is None or log.is_cdc:
                continue  # Apache Hudi lists change logs as well, which are in no slice
            done = self._state.view.times(log.instant_time)
            if done is not None and done <= as_of.time and name not in there:
                raise _FileGoneError(name)

    def came_meanwhile(self, group: FileGroupId, compaction: Instant) -> bool:
        """Return whether logs were committed between the plan of a compaction and its end."""
        begun, ended = compaction.requested_time, compaction.completion_time or ""
        return any(
            begun < (instant.completion_time or "") < ended and _log(stat) is not None
            for instant, stat in self._written.get(group, ())
        )

    @cached_property
    def _written(self) -> Mapping[FileGroupId, Sequence[tuple[Instant, WriteStat]]]:
        """Return for every file group what the active timeline says of it, newest first."""
        writes = self._state.writes_by_time()
        self._state.contents.load_commit_metadata(writes)
        found: dict[FileGroupId, list[tuple[Instant, WriteStat]]] = {}
        for instant in reversed(writes):
            stats = self._state.contents.commit_metadata(instant).partition_to_write_stats
            for partition, of in stats.items():
                for stat in of:
                    if stat.path and stat.file_id:
                        group = FileGroupId(partition, stat.file_id)
                        found.setdefault(group, []).append((instant, stat))
        return found


class _Write:
    """One write, and what it did to each file group."""

    def __init__(
        self, state: TableState, instant: Instant, files: _Files, merge: MergeSpec
    ) -> None:
        self._state = state
        self._instant = instant
        self._files = files
        self._merge = merge
        self._metadata = state.contents.commit_metadata(instant)

    def tasks(self) -> Iterator[ChangeTask]:
        """Return what the write did to each file group, so that it can be applied in this order."""
        if self._metadata.operation_type == _COMPACTING:
            yield from self._compacted()
        if self._metadata.operation_type not in _CHANGING:
            return
        # An overwrite may bring keys again that it replaces.
        for partition, file_ids in self._metadata.partition_to_replace_file_ids.items():
            for file_id in file_ids:
                yield self._replaced(FileGroupId(partition, file_id))
        done = list(self._changed())
        if not _may_move_rows(done):
            yield from (each.task for each in done)
            return
        for each in done:
            if each.deletes:
                part = ChangePart.DELETES if each.brings else ChangePart.ALL
                yield replace(each.task, part=part)
        for each in done:
            if each.brings or not each.deletes:
                part = ChangePart.OTHERS if each.deletes else ChangePart.ALL
                yield replace(each.task, part=part)

    def _changed(self) -> Iterator[_Changed]:
        """Return what the write did to the file groups that it wrote to."""
        for partition, stats in self._metadata.partition_to_write_stats.items():
            appended: dict[str, list[WriteStat]] = {}
            for stat in stats:
                if not stat.path or not stat.file_id:
                    continue
                if parse_log(partition, _name(stat.path), 0) is not None:
                    appended.setdefault(stat.file_id, []).append(stat)
                else:
                    yield _Changed.of(partition, self._rewritten(partition, stat), [stat])
            for file_id, of in appended.items():
                task = self._appended(FileGroupId(partition, file_id), of)
                yield _Changed.of(partition, task, of)

    def _compacted(self) -> Iterator[ChangeTask]:
        """Return the groups to which logs were added between the plan of a compaction and its end.

        They lay on the slice from before it, and lie on its base file from its end on. That may
        change which record of a key wins: a delete without an ordering value, and what it had
        deleted, are gone from the slice.
        """
        if not self._state.by_completion_time or _merges_in_steps(self._merge, self._state.options):
            return
        for partition, stats in self._metadata.partition_to_write_stats.items():
            for stat in stats:
                group = FileGroupId(partition, stat.file_id or "")
                if not self._files.came_meanwhile(group, self._instant):
                    continue
                whole = self._slice_at(group, self._instant.completion_time or "")
                if whole is None or whole.base_instant_time != self._instant.requested_time:
                    raise _FileGoneError(stat.path)
                before = self._slice_before(group, "")
                self._files.refuse_missing(group, before, self._instant)
                yield self._task(
                    ChangeKind.COMPACTED,
                    before=self._slice_task(before),
                    after=self._slice_task(replace(whole, base_file=None)),
                    whole=self._slice_task(whole),
                )

    def _rewritten(self, partition: str, stat: WriteStat) -> ChangeTask:
        group = FileGroupId(partition, stat.file_id or "")
        if stat.cdc_stats:
            return self._logged(group, stat, stat.cdc_stats)
        if self._metadata.operation_type in _DELETING and not stat.num_writes and stat.num_deletes:
            return self._task(ChangeKind.DELETED, before=self._base(group, stat.prev_commit))
        if not stat.num_update_writes and stat.num_writes == stat.num_inserts:
            after = self._base(group, self._instant.requested_time)
            return self._task(ChangeKind.INSERTED, after=after)
        raise UnsupportedTableError(
            f"{stat.path} was rewritten by {self._instant.requested_time} without a change log",
            next_step="the writer had hoodie.table.cdc.enabled off; start the window after "
            f"{self._instant.completion_time}",
        )

    def _logged(
        self, group: FileGroupId, stat: WriteStat, cdc_files: Mapping[str, int]
    ) -> ChangeTask:
        there = {log.path for log in self._files.of(group).change_logs}
        for path in cdc_files:
            if path not in there:
                raise _FileGoneError(path)
        mode = self._state.config.cdc_logging_mode
        before = after = None
        if mode is CdcMode.OP_KEY_ONLY and (stat.num_update_writes != 0 or stat.num_deletes != 0):
            before = self._base(group, stat.prev_commit)
        if mode is not CdcMode.DATA_BEFORE_AFTER and stat.num_writes != 0:
            after = self._base(group, self._instant.requested_time)
        return self._task(ChangeKind.LOGGED, before=before, after=after, cdc_files=cdc_files)

    def _appended(self, group: FileGroupId, stats: Sequence[WriteStat]) -> ChangeTask:
        files = self._files.of(group)
        written = {stat.path for stat in stats if stat.path}
        logs = tuple(sorted((f for f in files.log_files if f.path in written), key=log_order))
        if len(logs) < len(written):
            raise _FileGoneError(next(iter(written - {f.path for f in logs})))
        before = self._slice_before(group, logs[0].instant_time)
        whole = None
        if before is not None:
            held = tuple(f for f in before.log_files if f not in logs)
            if not self._state.by_completion_time:
                held = tuple(f for f in held if log_order(f) < log_order(logs[0]))
            before = replace(before, log_files=held)
        if self._state.by_completion_time:
            whole = self._slice_at(group, self._instant.completion_time or "")
        (own,) = (stat for stat in stats if stat.path == logs[0].path)
        self._files.refuse_missing(group, before, self._instant, own)
        after = FileSlice(
            group=group, base_instant_time=logs[0].instant_time, base_file=None, log_files=logs
        )
        return self._task(
            ChangeKind.APPENDED,
            before=self._slice_task(before),
            after=self._slice_task(after),
            whole=self._slice_task(whole),
        )

    def _replaced(self, group: FileGroupId) -> ChangeTask:
        before = self._slice_before(group, self._instant.requested_time)
        if before is None or not (before.base_file or before.log_files):
            raise _FileGoneError(f"{group.partition}/{group.file_id}")
        self._files.refuse_missing(group, before, self._instant)
        return self._task(ChangeKind.DELETED, before=self._slice_task(before))

    def _slice_before(self, group: FileGroupId, key: str) -> FileSlice | None:
        """Return the newest slice of what was committed before this write.

        Up to table version 7 `key` is the slice that the write belongs to.
        """
        if self._state.by_completion_time:
            return self._slice_at(group, _just_before(self._instant, by_completion=True).time)
        view = self._state.view
        slices = [s for s in view.slices(self._files.of(group)) if s.base_instant_time <= key]
        return join_onto_base(slices, view.pending_compactions(group)) if slices else None

    def _slice_at(self, group: FileGroupId, completed_by: str) -> FileSlice | None:
        """Return the newest slice of a group as of a completion time."""
        slices = self._state.view.slices(self._files.of(group), completed_by)
        return slices[-1] if slices else None

    def _base(self, group: FileGroupId, instant_time: str | None) -> SliceTask:
        """Return the base file that an instant left in a group."""
        for base in self._files.of(group).base_files:
            if base.instant_time == instant_time:
                piece = FileSlice(group=group, base_instant_time=base.instant_time, base_file=base)
                return slice_tasks(self._state, [piece])[0]
        raise _FileGoneError(f"the base file of {instant_time} in {group.file_id}, which the write")

    def _slice_task(self, piece: FileSlice | None) -> SliceTask | None:
        return None if piece is None else slice_tasks(self._state, [piece])[0]

    def _task(
        self,
        kind: ChangeKind,
        *,
        before: SliceTask | None = None,
        after: SliceTask | None = None,
        whole: SliceTask | None = None,
        cdc_files: Mapping[str, int] | None = None,
    ) -> ChangeTask:
        files = sorted((cdc_files or {}).items())
        return ChangeTask(
            kind=kind,
            instant_time=self._instant.requested_time,
            before=before,
            after=after,
            whole=whole,
            cdc_paths=tuple(path for path, _ in files),
            cdc_bytes=tuple(size_bytes for _, size_bytes in files),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changed:
    """What a write did to a file group: whether it deleted rows there, and wrote others."""

    partition: str
    task: ChangeTask
    deletes: bool
    brings: bool

    @classmethod
    def of(cls, partition: str, task: ChangeTask, stats: Sequence[WriteStat]) -> _Changed:
        return cls(
            partition=partition,
            task=task,
            deletes=any(stat.num_deletes != 0 for stat in stats),
            brings=any(stat.num_inserts != 0 or stat.num_update_writes != 0 for stat in stats),
        )


def _may_move_rows(changed: Sequence[_Changed]) -> bool:
    """Return whether a row that is deleted in one partition may be the one that another got."""
    left = {each.partition for each in changed if each.deletes}
    came = {each.partition for each in changed if each.brings}
    return any(here != there for here in left for there in came)


def _merges_in_steps(merge: MergeSpec, options: ReadOptions) -> bool:
    """Return whether it makes no difference into how many slices the records of a key are cut."""
    return (
        merge.mode is MergeMode.COMMIT_TIME
        and not merge.takes_columns
        and options.log_merge_order is TimeBasis.COMPLETION
    )


def _log(stat: WriteStat) -> LogFile | None:
    return parse_log("", _name(stat.path or ""), 0)


def _begins_group(stat: WriteStat) -> bool:
    """Return whether the write of a file found its file group empty."""
    own = _name(stat.path or "")
    if parse_base("", own, 0) is not None:
        return stat.prev_commit in (None, NO_PREVIOUS_COMMIT)
    return not stat.base_file and set(stat.log_files or ()) <= {own}


def _just_before(instant: Instant, by_completion: bool) -> AsOf:
    """Return the point in time before a write, as the table's windows go."""
    time = (instant.completion_time or "0") if by_completion else instant.requested_time
    basis = TimeBasis.COMPLETION if by_completion else TimeBasis.REQUESTED
    return AsOf(time=str(int(time) - 1).rjust(len(time), "0"), basis=basis)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
