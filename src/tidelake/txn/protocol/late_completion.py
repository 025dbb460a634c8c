"""A write that completed although it had lost its lock: whether it may stay.

Between the last look at a lock and the file that completes a write, a process can be stopped, or
the storage may take its time. Whoever has the lock then does not see the write coming, and commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelake.config import TableConfig
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.plans import CleanerPlan, SavepointMetadata, doomed_files
from tidelake.model import Action, Instant
from tidelake.storage import Storage
from tidelake.timeline import Timeline, TimelineContents
from tidelake.txn.conflicts.candidates import planned_groups
from tidelake.txn.conflicts.undone_writes import conflict_with

#: Plans that name files, which have to stay until somebody has carried them out.
_PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})


def built_on(
    ours: str,
    before: Timeline,
    now: Timeline,
    contents: TimelineContents,
    storage: Storage,
    config: TableConfig,
) -> Instant | None:
    """Return an instant that counts on the files of ours, which therefore cannot go any more.

    `before` is what ours was compared with, and `now` the timeline, loaded under the lock, on which
    it has completed. What appeared after the file that completed ours has seen it: a write that
    completed, a plan that names its files, a clean that deletes what its files stand for.
    """
    mine, others = _new_writes(ours, before, now)
    appeared = {f.name: f.modified_ms for f in storage.list(config.timeline_folder).files}
    landed_ms = max(_times(now, mine, appeared), default=0)
    written = [contents.commit_metadata(i) for i in mine]
    for instant in now.instants:
        is_later = min(_times(now, [instant], appeared), default=0) > landed_ms
        if instant in others:
            if is_later or _goes_on_from(contents.commit_metadata(instant), ours):
                return instant
        elif instant.action is Action.CLEAN:
            if is_later and _deletes_behind(contents.clean_plan(instant), written):
                return instant
        elif is_later and not instant.is_completed and instant.planned_as in _PLANS:
            return instant
    return None


def kept_by(
    ours: str, before: Timeline, now: Timeline, contents: TimelineContents
) -> Instant | None:
    """Return a savepoint that names files of ours; its content tells."""
    mine, _ = _new_writes(ours, before, now)
    written = [contents.commit_metadata(i) for i in mine]
    saved = (i for i in now.completed if i.action is Action.SAVEPOINT)
    return next((i for i in saved if _keeps(contents.savepoint_metadata(i), written)), None)


def hides_others(ours: str, before: Timeline, now: Timeline, contents: TimelineContents) -> bool:
    """Return whether others completed or planned something in file groups of ours meanwhile."""
    mine, others = _new_writes(ours, before, now)
    groups = _groups(contents.commit_metadata(i) for i in mine)
    if not groups.isdisjoint(_groups(contents.commit_metadata(i) for i in others)):
        return True
    return _unseen_plan(mine, before, now, contents) is not None


def refuse_unseen(ours: str, before: Timeline, now: Timeline, contents: TimelineContents) -> None:
    """Raise `WriteConflictError` when ours and another completed without seeing each other.

    Whether two writes touched the same files does not matter: ours has a completion time that lies
    in the past of the other. Nor may any other instant have the same completion time. A plan that
    was made meanwhile on file groups of ours would be carried out without what ours wrote there.
    """
    mine, others = _new_writes(ours, before, now)
    if others:
        rule = "it lost the table's lock before it completed, and the other completed meanwhile"
        raise conflict_with(ours, others[-1].requested_time, rule)
    times = {i.completion_time for i in mine}
    for instant in now.completed:
        if instant not in mine and instant.completion_time in times:
            rule = "it lost the table's lock, and the other took its completion time"
            raise conflict_with(ours, instant.requested_time, rule)
    plan = _unseen_plan(mine, before, now, contents)
    if plan is not None:
        rule = "it lost the table's lock before it completed, and the other was planned on its "
        raise conflict_with(ours, plan.requested_time, f"{rule}file groups meanwhile")


def _unseen_plan(
    mine: Iterable[Instant], before: Timeline, now: Timeline, contents: TimelineContents
) -> Instant | None:
    """Return a pending plan on file groups of ours that `before` does not show."""
    groups = _groups(contents.commit_metadata(i) for i in mine)
    seen = {(i.requested_time, i.planned_as) for i in before.instants}
    for plan in now.pending:
        if (plan.requested_time, plan.planned_as) not in seen:
            planned = {(g.partition, g.file_id) for g in planned_groups(plan, contents)}
            if not groups.isdisjoint(planned):
                return plan
    return None


def _new_writes(
    ours: str, before: Timeline, now: Timeline
) -> tuple[Sequence[Instant], Sequence[Instant]]:
    """Return our write as it is on the timeline, and others that `before` does not show."""
    known = {i.key for i in before.completed}
    new = [i for i in now.writes() if i.key not in known]
    mine = [i for i in new if i.requested_time == ours]
    return mine, [i for i in new if i not in mine]


def _keeps(saved: SavepointMetadata, ours: Iterable[CommitMetadata]) -> bool:
    """Return whether a savepoint names a file of ours."""
    kept = {
        (partition, name)
        for partition, of in saved.partition_metadata.items()
        for name in of.savepoint_data_file
    }
    return any(
        (partition, (stat.path or "").rpartition("/")[2]) in kept
        for metadata in ours
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    )


def _deletes_behind(plan: CleanerPlan, ours: Iterable[CommitMetadata]) -> bool:
    """Return whether a clean deletes files of the file groups that ours wrote to, or replaced."""
    groups = _groups(ours)
    return any(
        (partition, _file_id(name)) in groups
        for partition, names in doomed_files(plan).items()
        for name in names
    )


def _groups(writes: Iterable[CommitMetadata]) -> frozenset[tuple[str, str | None]]:
    """Return the file groups that writes wrote to or replaced, with their partitions."""
    found: set[tuple[str, str | None]] = set()
    for metadata in writes:
        for partition, stats in metadata.partition_to_write_stats.items():
            found.update((partition, stat.file_id) for stat in stats)
        for partition, replaced in metadata.partition_to_replace_file_ids.items():
            found.update((partition, file_id) for file_id in replaced)
    return frozenset(found)


def _goes_on_from(metadata: CommitMetadata, ours: str) -> bool:
    """Return whether a commit says that it went on from files of ours.

    Storages that count time in seconds do not tell.
    """
    stats = (stat for of in metadata.partition_to_write_stats.values() for stat in of)
    return any(stat.prev_commit == ours for stat in stats)


def _times(
    now: Timeline, instants: Iterable[Instant], appeared: Mapping[str, int]
) -> Sequence[int]:
    """Return when the timeline files of instants appeared, by the storage's clock."""
    names = (name for instant in instants for name, _ in now.files_of(instant))
    return [appeared.get(name, 0) for name in names]


def _file_id(name: str) -> str | None:
    found = parse_base("", name, 0) or parse_log("", name, 0)
    return None if found is None else found.file_id
