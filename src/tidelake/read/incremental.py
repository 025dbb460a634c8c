"""Incremental queries: rows that changed inside a window of time, as they stood at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidelake.config import HollowCommitPolicy, TimeBasis
from tidelake.errors import ConfigError, IncrementalRangeError, MissingFileError
from tidelake.model import FileGroupId, FileSlice, Instant
from tidelake.read.prune import Pruner
from tidelake.read.scan import (
    EVERYTHING,
    ScanPlan,
    Selection,
    output_columns,
    read_spec,
    scan_columns,
    slice_tasks,
)
from tidelake.state.table_state import TableState
from tidelake.view import AsOf, refuse_missing_files

Time = str | int | datetime

#: The milliseconds of a time that was stamped in whole seconds.
_WHOLE_SECOND = "000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The writes whose time lies in (start, end].

    `archived` are the requested times of those that left the active timeline. `is_whole` says that
    nothing was committed before the window, `end` is None for a window that reaches up to now, and
    `first_start` is where a window without archived writes may begin, None where this one may.
    """

    start: str | None
    end: str | None
    instants: tuple[Instant, ...]
    archived: frozenset[str]
    is_whole: bool
    by_completion: bool
    first_start: str | None

    def time_of(self, instant: Instant) -> str:
        """Return the time of a write that says whether it is inside."""
        return (instant.completion_time or "") if self.by_completion else instant.requested_time

    @property
    def requested_times(self) -> frozenset[str]:
        """Return the requested times of all writes in the window."""
        return self.archived | {i.requested_time for i in self.instants}


def window(state: TableState, start: Time | None, end: Time | None) -> Window:
    """Return the writes of a window, by completion time from version 8 on, else by requested."""
    after = None if start is None else state.window_bound(start)
    until = None if end is None else state.window_bound(end)
    if after is not None and until is not None and after > until:
        raise ConfigError(
            f"the window starts at {after}, after its end {until}",
            next_step="swap the two, or leave out the end to read up to now",
        )
    by_completion = state.by_completion_time
    writes = list(state.timeline.writes())
    if not by_completion:
        writes, by_completion = _settled(state, writes)
    archived, has_earlier = _archived_times(state, after)

    tied = _tied(state, writes, after) if by_completion else frozenset()

    def inside(requested: str, completed: str | None) -> bool:
        at = completed if by_completion else requested
        if requested in tied:
            return True
        return at is not None and (after is None or at > after) and (until is None or at <= until)

    gone = {t: done for t, done in archived.items() if inside(t, done)}
    return Window(
        start=after,
        end=until,
        instants=tuple(i for i in writes if inside(i.requested_time, i.completion_time)),
        archived=frozenset(gone),
        by_completion=by_completion,
        first_start=max(gone.values() if by_completion else gone, default=None),
        is_whole=after is None
        or (
            not has_earlier
            and all(
                after < ((done or "") if by_completion else requested)
                for requested, done in (
                    *((i.requested_time, i.completion_time) for i in writes),
                    *archived.items(),
                )
            )
        ),
    )


def _tied(state: TableState, writes: Sequence[Instant], after: str | None) -> frozenset[str]:
    """Return writes of the very second at which a window begins, if there are several.

    Modification times of version 6 are whole seconds on some storages: the window before may have
    ended between two of them, so that both are given again rather than one of them never.
    """
    if state.by_completion_time or after is None or not after.endswith(_WHOLE_SECOND):
        return frozenset()
    found = frozenset(i.requested_time for i in writes if i.completion_time == after)
    return found if len(found) > 1 else frozenset()


def _archived_times(state: TableState, after: str | None) -> tuple[Mapping[str, str], bool]:
    """Return the archived writes that may lie in the window, and whether some lie before it.

    Some of those before it may be among them.
    """
    last = state.timeline.last_requested_time
    if not last:
        return {}, False
    times = state.history.completion_times()
    if after is None:
        return times, False
    if state.by_completion_time:
        return times.completed_after(after), times.has_completed_by(after)
    if all(after < i.requested_time for i in state.timeline.writes()):
        return times, False
    return times.within(after, last), False


def _settled(state: TableState, writes: list[Instant]) -> tuple[list[Instant], bool]:
    """Apply the policy for hollow commits: pending writes older than completed ones."""
    hollow = state.first_hollow_commit
    policy = state.options.hollow_commit_policy
    if policy is HollowCommitPolicy.USE_TRANSITION_TIME:
        return writes, True
    if hollow is None or all(i.requested_time < hollow.requested_time for i in writes):
        return writes, False
    if policy is HollowCommitPolicy.BLOCK:
        return [i for i in writes if i.requested_time < hollow.requested_time], False
    raise IncrementalRangeError(
        f"{hollow.action} {hollow.requested_time} is still {hollow.state} while later writes have "
        "completed; whoever reads on from them would never see its rows",
        next_step="wait until it has completed or was rolled back, or set "
        "hoodie.read.timeline.holes.resolution.policy to BLOCK (stop before it) or "
        "USE_TRANSITION_TIME (go by completion time)",
    )


def plan_incremental(
    state: TableState,
    selection: Selection = EVERYTHING,
    *,
    start: Time | None = None,
    end: Time | None = None,
) -> ScanPlan:
    """Return the scan of rows last changed inside (start, end], as they stood at its end.

    The rows are merged as of the end of the window, so a change that lost against another one is
    not among them.
    """
    if not state.config.populate_meta_fields:
        raise IncrementalRangeError(
            "the table keeps no meta columns (hoodie.populate.meta.fields=false), so nobody can "
            "tell when a row changed",
            next_step="read the whole table, or compare two points in time with as_of",
        )
    seen = window(state, start, end)
    at = _end_of(state, seen)
    schema = state.schema()
    keep = None if seen.is_whole else seen.requested_times
    columns = scan_columns(schema, selection)
    spec = read_spec(state, schema, columns, as_of=at, keep_instants=keep)
    output = output_columns(schema, selection)
    if not seen.instants and not seen.archived:
        return ScanPlan(spec=spec, tasks=(), output=output)
    pruner = Pruner(state, schema, selection.where, as_of=at)
    touched = None if seen.archived or seen.is_whole else _touched(state, seen.instants)
    partitions = _within(pruner.partitions(), touched)
    slices = state.view.latest_slices(partitions, as_of=at)
    if at is not None and at.time < (state.earliest_retained or ""):
        _refuse_cleaned(state, at, touched, slices, partitions)
    elif not state.is_listed_by_metadata:
        refuse_missing_files(state.view, slices, partitions, at, only=touched)
    if touched is not None:
        slices = [s for s in slices if s.group in touched]
    kept = pruner.slices(slices, base_only=False)
    return ScanPlan(spec=spec, tasks=slice_tasks(state, kept), output=output)


def _end_of(state: TableState, seen: Window) -> AsOf | None:
    if seen.end is None:
        return None
    if state.by_completion_time:
        return AsOf(time=seen.end, basis=TimeBasis.COMPLETION)
    # Where modification times are whole seconds, a write completes before it is requested.
    inside = seen.requested_times if seen.by_completion else ()
    return AsOf(time=max((seen.end, *inside)), basis=TimeBasis.REQUESTED)


def _within(
    partitions: Sequence[str] | None, touched: Collection[FileGroupId] | None
) -> Sequence[str] | None:
    if touched is None:
        return partitions
    written = sorted({group.partition for group in touched})
    return written if partitions is None else [p for p in written if p in set(partitions)]


def _touched(state: TableState, instants: Iterable[Instant]) -> frozenset[FileGroupId]:
    """Return the file groups that `instants` wrote."""
    return frozenset(
        FileGroupId(partition, stat.file_id)
        for instant in instants
        for partition, stats in state.contents.commit_metadata(
            instant
        ).partition_to_write_stats.items()
        for stat in stats
        if stat.file_id and stat.path
    )


def _refuse_cleaned(
    state: TableState,
    at: AsOf,
    touched: Collection[FileGroupId] | None,
    slices: Sequence[FileSlice],
    partitions: Sequence[str] | None,
) -> None:
    """Raise unless every file is left that the end of the window needs, which nobody promised."""
    if touched is None:
        raise IncrementalRangeError(
            f"files as of {at.time} were cleaned: the table keeps its past from "
            f"{state.earliest_retained} on",
            next_step=f"end the window at {state.earliest_retained} or later, or leave out the end",
        )
    try:
        refuse_missing_files(state.view, slices, partitions, at, only=touched)
    except MissingFileError as gone:
        raise _cleaned(at, gone.path) from gone
    for piece in slices:
        if piece.group in touched and piece.base_file is None and _may_lack_logs(state):
            raise _cleaned(at, f"a file of {piece.group.partition}/{piece.group.file_id}")


def _may_lack_logs(state: TableState) -> bool:
    """Return whether logs without a base file may be all that is left of a slice."""
    return state.by_completion_time and bool(state.history.completion_times())


def _cleaned(at: AsOf, what: str) -> IncrementalRangeError:
    return IncrementalRangeError(
        f"the rows as of {at.time} are gone: {what} was cleaned",
        next_step="leave out the end to read every row changed since the start as it is now, "
        "or read windows before the cleaner passes them",
    )
