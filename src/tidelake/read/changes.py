"""Change queries: every change inside a window of time, from change logs or inferred from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidelake.errors import ConfigError, IncrementalRangeError, UnsupportedTableError
from tidelake.files import ChangeKind, ChangeTask, ReadSpec, SliceTask
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import log_order, parse_log
from tidelake.model import FileGroupId, FileSlice, Instant
from tidelake.read.incremental import Time, window
from tidelake.read.scan import EVERYTHING, output_columns, read_spec, slice_tasks
from tidelake.read.state import TableState
from tidelake.view import FileGroup, join_onto_base

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
    if seen.archived:
        raise IncrementalRangeError(
            f"changes since {seen.start or 'the beginning'} are gone: {len(seen.archived)} "
            "writes of the window were archived",
            next_step=f"start at {state.timeline.first_active_time} or later",
        )
    schema = state.schema()
    spec = read_spec(state, schema, output_columns(schema, EVERYTHING))
    state.contents.load_commit_metadata(seen.instants)
    tasks = [task for instant in seen.instants for task in _Write(state, instant).tasks()]
    return ChangesPlan(spec=spec, tasks=tuple(tasks))


class _Write:
    """One write, and what it did to each file group."""

    def __init__(self, state: TableState, instant: Instant) -> None:
        self._state = state
        self._instant = instant
        self._metadata = state.contents.commit_metadata(instant)
        self._groups: dict[str, Mapping[FileGroupId, FileGroup]] = {}

    def tasks(self) -> Iterator[ChangeTask]:
        if self._metadata.operation_type not in _CHANGING:
            return
        for partition, stats in self._metadata.partition_to_write_stats.items():
            appended: dict[str, list[WriteStat]] = {}
            for stat in stats:
                if not stat.path or not stat.file_id:
                    continue
                if parse_log(partition, _name(stat.path), 0) is not None:
                    appended.setdefault(stat.file_id, []).append(stat)
                else:
                    yield self._rewritten(partition, stat)
            for file_id, of in appended.items():
                yield self._appended(FileGroupId(partition, file_id), of)
        for partition, file_ids in self._metadata.partition_to_replace_file_ids.items():
            for file_id in file_ids:
                yield from self._replaced(FileGroupId(partition, file_id))

    def _rewritten(self, partition: str, stat: WriteStat) -> ChangeTask:
        group = FileGroupId(partition, stat.file_id or "")
        if stat.cdc_stats:
            return self._task(
                ChangeKind.LOGGED,
                before=self._base(group, stat.prev_commit),
                after=self._base(group, self._instant.requested_time),
                cdc_files=stat.cdc_stats,
            )
        if self._metadata.operation_type in _DELETING and not stat.num_writes and stat.num_deletes:
            return self._task(
                ChangeKind.DELETED, before=self._needed(self._base(group, stat.prev_commit), stat)
            )
        if not stat.num_update_writes and stat.num_writes == stat.num_inserts:
            after = self._base(group, self._instant.requested_time)
            return self._task(ChangeKind.INSERTED, after=self._needed(after, stat))
        raise UnsupportedTableError(
            f"{stat.path} was rewritten by {self._instant.requested_time} without a change log",
            next_step="the writer had hoodie.table.cdc.enabled off; start the window after "
            f"{self._instant.completion_time}",
        )

    def _appended(self, group: FileGroupId, stats: Sequence[WriteStat]) -> ChangeTask:
        files = self._group(group)
        written = {stat.path for stat in stats if stat.path}
        logs = tuple(sorted((f for f in files.log_files if f.path in written), key=log_order))
        if len(logs) < len(written):
            raise self._gone(next(iter(written - {f.path for f in logs})))
        before = self._slice_before(files, logs[0].instant_time)
        if before is not None:
            held = tuple(f for f in before.log_files if f not in logs)
            if not self._state.by_completion_time:
                held = tuple(f for f in held if log_order(f) < log_order(logs[0]))
            before = replace(before, log_files=held)
        after = FileSlice(
            group=group, base_instant_time=logs[0].instant_time, base_file=None, log_files=logs
        )
        return self._task(
            ChangeKind.APPENDED, before=self._slice_task(before), after=self._slice_task(after)
        )

    def _replaced(self, group: FileGroupId) -> Iterator[ChangeTask]:
        files = self._group(group)
        before = self._slice_before(files, self._instant.requested_time)
        if before is None or not (before.base_file or before.log_files):
            raise self._gone(f"{group.partition}/{group.file_id}")
        yield self._task(ChangeKind.DELETED, before=self._slice_task(before))

    def _slice_before(self, files: FileGroup, key: str) -> FileSlice | None:
        """Return the newest slice of what was committed before this write.

        Up to table version 7 `key` is the slice that the write belongs to.
        """
        view = self._state.view
        if self._state.by_completion_time:
            slices = view.slices(files, _just_before(self._instant.completion_time or ""))
            return slices[-1] if slices else None
        slices = [s for s in view.slices(files) if s.base_instant_time <= key]
        return join_onto_base(slices, view.pending_compactions(files.id)) if slices else None

    def _base(self, group: FileGroupId, instant_time: str | None) -> SliceTask | None:
        """Return the base file that an instant left in a group, None when there is none."""
        for base in self._group(group).base_files:
            if base.instant_time == instant_time:
                piece = FileSlice(group=group, base_instant_time=base.instant_time, base_file=base)
                return self._slice_task(piece)
        return None

    def _group(self, group: FileGroupId) -> FileGroup:
        if group.partition not in self._groups:
            found = self._state.view.groups([group.partition])
            self._groups[group.partition] = {g.id: g for g in found}
        return self._groups[group.partition].get(group, FileGroup(id=group))

    def _slice_task(self, piece: FileSlice | None) -> SliceTask | None:
        return None if piece is None else slice_tasks(self._state, [piece])[0]

    def _needed(self, task: SliceTask | None, stat: WriteStat) -> SliceTask:
        if task is None:
            raise self._gone(stat.path or "")
        return task

    def _task(
        self,
        kind: ChangeKind,
        *,
        before: SliceTask | None = None,
        after: SliceTask | None = None,
        cdc_files: Mapping[str, int] | None = None,
    ) -> ChangeTask:
        files = sorted((cdc_files or {}).items())
        return ChangeTask(
            kind=kind,
            instant_time=self._instant.requested_time,
            before=before,
            after=after,
            cdc_paths=tuple(path for path, _ in files),
            cdc_bytes=tuple(size_bytes for _, size_bytes in files),
        )

    def _gone(self, path: str) -> IncrementalRangeError:
        return IncrementalRangeError(
            f"the changes of {self._instant.requested_time} are gone: {path} was cleaned",
            next_step=f"start the window at {self._instant.completion_time} or later",
        )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _just_before(time: str) -> str:
    return str(int(time) - 1).rjust(len(time), "0")
