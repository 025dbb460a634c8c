"""File groups and slices of one table at one snapshot of its timeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidelake.config import TimeBasis
from tidelake.formats.file_name import parse_log
from tidelake.model import Action, FileGroupId, FileSlice, Instant
from tidelake.model.table_format import TableFormat
from tidelake.timeline import ArchivedTimes, Timeline, TimelineContents
from tidelake.timeline.table_schema import writes_in_order
from tidelake.view.listing import Listing
from tidelake.view.slicing import (
    FileGroup,
    group_files,
    join_onto_base,
    slice_by_completion_time,
    slice_by_name,
)
from tidelake.view.vanished import Snapshot, refuse_lost_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A point in the table's past, the instant at `time` included."""

    time: str
    basis: TimeBasis


def is_by(instant: Instant, as_of: AsOf) -> bool:
    """Return whether an instant had taken effect at a point in the past."""
    if as_of.basis is TimeBasis.REQUESTED:
        return instant.requested_time <= as_of.time
    return instant.completion_time is not None and instant.completion_time <= as_of.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """When a file group was replaced by another."""

    requested_time: str
    completion_time: str


class CommitTimes:
    """Answer when an instant completed, from the active timeline or, if archived, from history."""

    def __init__(
        self,
        timeline: Timeline,
        history: Callable[[], Mapping[str, str]],
        rolled_back: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """Take what is not on the timeline from `history`, and from `rolled_back` what is in none.

        `rolled_back` are the writes of which the timeline says that they were taken back.
        """
        self._active = {i.requested_time: i.completion_time for i in timeline.writes()}
        self._pending = timeline.pending_times
        self._first = timeline.first_active_time
        self._last_seen = timeline.last_requested_time
        self._load_history = history
        self._load_rolled_back = rolled_back

    @cached_property
    def _rolled_back(self) -> Collection[str]:
        return self._load_rolled_back()

    @cached_property
    def _history(self) -> ArchivedTimes:
        return ArchivedTimes.of(self._load_history())

    @cached_property
    def _oldest(self) -> str:
        """Return from when on the history is whole; tables may have lost it, or never had one."""
        return self._history.oldest or "~"

    def __call__(self, requested_time: str) -> str | None:
        """Return the completion time, or None for an instant that is not committed.

        An instant older than the active timeline is archived, and only what completed is archived.
        One that the history does not have, although it goes back that far, was rolled back: what
        lies there under its name was left by a writer that did not notice.
        """
        done = self._active.get(requested_time)
        if done is not None:
            return done
        if requested_time in self._pending:
            return None
        if self._first is None or requested_time >= self._first:
            return self._history.get(requested_time) if self._may_hide(requested_time) else None
        done = self._history.get(requested_time)
        if done is None and requested_time < self._oldest:
            return None if requested_time in self._rolled_back else requested_time
        return done

    def is_unknown(self, requested_time: str) -> bool:
        """Return whether the instant should be archived, and the history does not have it.

        Nobody can tell then when it completed, or whether it did.
        """
        if requested_time in self._active or requested_time in self._pending:
            return False
        if self._first is None or requested_time >= self._first:
            return False
        return requested_time not in self._history

    def is_committed(self, requested_time: str) -> bool:
        """Return whether the instant took effect, without a look at history where that can be."""
        if requested_time in self._active:
            return True
        if requested_time in self._pending:
            return False
        if self._may_hide(requested_time):
            return requested_time in self._history
        if self._first is None or requested_time >= self._first:
            return False
        # A plan that was rolled back may have been carried out after that: the history tells.
        return requested_time not in self._rolled_back or requested_time in self._history

    def archived_within(self) -> frozenset[str]:
        """Return the archived writes that are no older than the active timeline."""
        if not self._last_seen:
            return frozenset()
        return frozenset(self._history.within(self._first or "", self._last_seen))

    def _may_hide(self, requested_time: str) -> bool:
        """Return whether the history may have an instant that the active timeline should have.

        Archival goes on behind commits that a savepoint keeps, and these stay where they are when
        the savepoint is deleted. A writer that was rolled back and did not notice may put its old
        instant back, and rollbacks may take all later writes off. So presence in the history
        decides, of everything up to the newest instant; later ones were archived after the look at
        the timeline.
        """
        return (self._first or "") <= requested_time < self._last_seen


class TableView:
    """What readers and services see of a table's files."""

    def __init__(
        self,
        *,
        table_version: int,
        timeline: Timeline,
        contents: TimelineContents,
        listing: Listing,
        history_times: Callable[[], Mapping[str, str]],
        order: TimeBasis = TimeBasis.COMPLETION,
        timeline_now: Callable[[], Timeline] | None = None,
    ) -> None:
        """Take files from `listing` as far as `timeline` knows them.

        `timeline_now` loads the timeline again. With it `latest_slices` raises `SnapshotLostError`
        for slices that were deleted between the loading of `timeline` and the listing.
        """
        self.timeline = timeline
        self.times = CommitTimes(timeline, history_times, lambda: contents.rolled_back_by(timeline))
        self._table_version = table_version
        self.by_completion_time = TableFormat(table_version).has_completion_times
        """Whether slices go by completion time; before version 8 names say them."""
        self.contents = contents
        self._listing = listing
        self._order = order
        self._timeline_now = timeline_now

    def partitions(self) -> Sequence[str]:
        """Return the partition paths relative to the table, sorted."""
        return self._listing.partitions()

    def writes_in_order(self) -> Sequence[Instant]:
        """Return completed writes by the time that this table version goes by, newest last."""
        return writes_in_order(self._table_version, self.timeline)

    def groups(self, partitions: Sequence[str] | None = None) -> list[FileGroup]:
        """Return every file group on storage, ordered by partition and file id."""
        wanted = self.partitions() if partitions is None else partitions
        files = self._listing.files_of(wanted)
        return [
            self._without_strays(group)
            for partition in wanted
            for group in group_files(partition, files[partition])
        ]

    def latest_slices(
        self, partitions: Sequence[str] | None = None, *, as_of: AsOf | None = None
    ) -> list[FileSlice]:
        """Return the newest slice of every live file group, now or at a point in the past.

        Logs behind a pending compaction are joined with the slice before it, so no record is
        missed.
        """
        wanted = self.partitions() if partitions is None else partitions
        groups = self.groups(wanted)
        live = (self.latest_slice(g, as_of) for g in groups if not self.is_replaced(g.id, as_of))
        found = [s for s in live if s is not None and (s.base_file or s.log_files)]
        self.refuse_lost_snapshot(wanted, groups, found, as_of)
        return found

    def refuse_lost_snapshot(
        self,
        partitions: Sequence[str],
        groups: Sequence[FileGroup],
        slices: Sequence[FileSlice],
        as_of: AsOf | None = None,
    ) -> None:
        """Raise `SnapshotLostError` when the newest slices lack files that the timeline knows.

        `groups` is what was listed in `partitions`, `slices` what of it counts.
        """
        if self._timeline_now is None or not any(map(self._is_ahead, groups)):
            return
        refuse_lost_snapshot(
            Snapshot(
                timeline=self.timeline,
                times=self.times,
                slices={s.group: s for s in slices},
                partitions=frozenset(partitions),
                is_replaced=lambda group: self.is_replaced(group, as_of),
                named_by_slice=not self.by_completion_time,
                until=None if as_of is None else as_of.time,
                basis=TimeBasis.COMPLETION if as_of is None else as_of.basis,
            ),
            self._timeline_now(),
            self.contents,
        )

    def _is_ahead(self, group: FileGroup) -> bool:
        """Return whether a file of the group is of an instant that had not completed yet."""
        times = {base.instant_time for base in group.base_files}
        if self.by_completion_time:
            times |= {log.instant_time for log in group.log_files}
        return not all(map(self.times.is_committed, times))

    def latest_slice(self, group: FileGroup, as_of: AsOf | None = None) -> FileSlice | None:
        """Return the newest slice of one group, or None when nothing was committed by then."""
        if not self.by_completion_time:
            return self._latest_by_name(group, as_of)
        if as_of is None:
            slices = self.slices(self._from_newest_base(group))
            return slices[-1] if slices else None
        if as_of.basis is TimeBasis.COMPLETION:
            slices = self.slices(group, as_of.time)
            return slices[-1] if slices else None
        return self._latest_by_requested_time(group, as_of.time)

    def _from_newest_base(self, group: FileGroup) -> FileGroup:
        """Return a group without the base files before its newest committed one.

        Only the newest slice follows from it, and nobody has to find out about older ones, whose
        writes may be archived long since.
        """
        times = sorted({base.instant_time for base in group.base_files}, reverse=True)
        newest = next((time for time in times if self.times(time)), None)
        if newest is None:
            return group
        kept = tuple(base for base in group.base_files if base.instant_time >= newest)
        return replace(group, base_files=kept)

    def slices(self, group: FileGroup, completed_by: str | None = None) -> list[FileSlice]:
        """Return every visible slice of a group, oldest first.

        From table version 8 on `completed_by` leaves out files that completed later.
        """
        if not self.by_completion_time:
            return slice_by_name(
                group, self._committed, opened_by=self.pending_compactions(group.id, None)
            )

        def times(requested_time: str) -> str | None:
            done = self.times(requested_time)
            return done if done and (completed_by is None or done <= completed_by) else None

        return slice_by_completion_time(
            group, times, order=self._order, compacted_at=self._log_compactions.get(group.id)
        )

    def _latest_by_name(self, group: FileGroup, as_of: AsOf | None) -> FileSlice | None:
        pending = self.pending_compactions(group.id, as_of)
        slices = slice_by_name(group, self._committed, opened_by=pending)
        if as_of is not None:
            slices = [s for s in slices if s.base_instant_time <= as_of.time]
        return join_onto_base(slices, pending) if slices else None

    def _latest_by_requested_time(self, group: FileGroup, time: str) -> FileSlice | None:
        pending = self.pending_compactions(group.id, None)
        slices = slice_by_completion_time(
            group,
            self.times,
            order=self._order,
            compacted_at=self._log_compactions.get(group.id),
            extra_cuts=pending,
        )
        seen = [
            replace(s, log_files=tuple(log for log in s.log_files if log.instant_time <= time))
            for s in slices
            if s.base_instant_time <= time
        ]
        seen = [s for s in seen if s.base_file or s.log_files]
        return join_onto_base(seen, pending) if seen else None

    def _committed(self, requested_time: str) -> str | None:
        return requested_time if self.times.is_committed(requested_time) else None

    def pending_compactions(self, group: FileGroupId, as_of: AsOf | None = None) -> frozenset[str]:
        """Return the requested times of pending compactions that include the file group."""
        planned = self._compaction_plans.get(group, frozenset())
        return planned if as_of is None else frozenset(t for t in planned if t <= as_of.time)

    def is_replaced(self, group: FileGroupId, as_of: AsOf | None = None) -> bool:
        """Return whether the file group had given way to others, now or at a point in the past."""
        replacements = self.replacements.get(group, ())
        if as_of is None:
            return bool(replacements)
        if as_of.basis is TimeBasis.COMPLETION:
            return any(r.completion_time <= as_of.time for r in replacements)
        return any(r.requested_time <= as_of.time for r in replacements)

    def _without_strays(self, group: FileGroup) -> FileGroup:
        """Drop copies that a retried task left beside the file its commit names."""
        taken = [(b.instant_time, 0) for b in group.base_files]
        if self.by_completion_time:
            taken += [(log.instant_time, log.version) for log in group.log_files]
        twice = {at for at in taken if taken.count(at) > 1} if len(set(taken)) < len(taken) else ()
        for instant_time in {at[0] for at in twice}:
            named = self._files_named_by(instant_time)
            if named is not None:
                group = replace(
                    group,
                    base_files=tuple(
                        b
                        for b in group.base_files
                        if b.instant_time != instant_time or b.path in named
                    ),
                    log_files=tuple(
                        f
                        for f in group.log_files
                        # Up to version 7 the name says the slice, and others wrote the log.
                        if not self.by_completion_time
                        or f.instant_time != instant_time
                        or f.path in named
                    ),
                )
        return group

    def _files_named_by(self, instant_time: str) -> frozenset[str] | None:
        for instant in self.timeline.writes():
            if instant.requested_time == instant_time:
                stats = self.contents.commit_metadata(instant).partition_to_write_stats
                return frozenset(stat.path for of in stats.values() for stat in of if stat.path)
        return None

    @cached_property
    def _compaction_plans(self) -> Mapping[FileGroupId, frozenset[str]]:
        found: dict[FileGroupId, frozenset[str]] = {}
        for instant in self.timeline.pending:
            if instant.action is not Action.COMPACTION:
                continue
            for operation in self.contents.compaction_plan(instant).operations:
                group = FileGroupId(operation.partition_path, operation.file_id)
                found[group] = found.get(group, frozenset()) | {instant.requested_time}
        return found

    @cached_property
    def _log_compactions(self) -> Mapping[FileGroupId, Mapping[str, str]]:
        """Return where the output of each completed log compaction stands among the other logs."""
        found: dict[FileGroupId, dict[str, str]] = {}
        for instant in self.timeline.writes():
            if instant.planned_as is not Action.LOGCOMPACTION:
                continue
            for operation in self.contents.compaction_plan(instant).operations:
                group = FileGroupId(operation.partition_path, operation.file_id)
                inputs = (
                    parse_log(group.partition, path.rpartition("/")[2], 0)
                    for path in operation.delta_file_paths
                )
                done = [self.times(log.instant_time) for log in inputs if log is not None]
                newest = max((t for t in done if t is not None), default=None)
                if newest is not None:
                    found.setdefault(group, {})[instant.requested_time] = newest
        return found

    @cached_property
    def replacements(self) -> Mapping[FileGroupId, Sequence[Replacement]]:
        """Return for every replaced file group the completed instants that replaced it."""
        found: dict[FileGroupId, list[Replacement]] = {}
        replacing = [i for i in self.timeline.writes() if i.action is Action.REPLACECOMMIT]
        self.contents.load_commit_metadata(replacing)
        for instant in replacing:
            if instant.completion_time is None:
                continue
            replacement = Replacement(
                requested_time=instant.requested_time, completion_time=instant.completion_time
            )
            metadata = self.contents.commit_metadata(instant)
            for partition, file_ids in metadata.partition_to_replace_file_ids.items():
                for file_id in file_ids:
                    found.setdefault(FileGroupId(partition, file_id), []).append(replacement)
        return found
