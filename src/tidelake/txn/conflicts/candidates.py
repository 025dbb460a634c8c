"""Who a write is compared with before it commits, and what those others touched.

Completed instants count when the write cannot have seen their result, pending ones when they are
plans that a commit would invalidate. Each question is asked of one timeline, loaded inside the
critical section of the commit; `Start` is what the write saw when it chose its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidelake.errors import MissingFileError
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from tidelake.formats.file_name import parse_base
from tidelake.model import WRITE_ACTIONS, Action, FileGroupId, Instant, State, Word
from tidelake.timeline import History, Timeline, TimelineContents
from tidelake.txn.conflicts.judge import Footprint, Kind, Slot

#: Turns a file id into what `Slot` calls its name.
SlotName = Callable[[str], str]

#: Key of a commit's extra metadata that says the concurrency mode of its writer.
MODE = "tidelake.concurrency.mode"

_WHOLE_TABLE = "INSERT_OVERWRITE_TABLE"
_WHOLE_PARTITIONS = frozenset({"INSERT_OVERWRITE", _WHOLE_TABLE, "DELETE_PARTITION"})
_KINDS = {
    "COMPACT": Kind.COMPACTION,
    "LOG_COMPACT": Kind.LOG_COMPACTION,
    "CLUSTER": Kind.CLUSTERING,
}


class Basis(Word):
    """Which time tells whether a write saw the result of another."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a write saw of the timeline when it chose its files.

    Instants are published in the order of their times, and so are completions, because both happen
    under the table's lock. So whatever was not there is later than the latest that was.
    """

    requested_time: str
    pending: frozenset[str] = frozenset()
    latest_requested: str = ""
    latest_completion: str = ""
    first_completed: str = ""
    """Where the active timeline began; what lies before it now may have been archived since."""
    seen: frozenset[str] = frozenset()
    """The writes that were on the timeline; archival has passed by where one of them is gone."""
    is_newest_saved: bool = False
    """Whether a savepoint keeps the newest of them, behind which archival may go on."""

    @property
    def earliest_unseen(self) -> str:
        """Return a time before which nothing was requested and completed that this has not seen."""
        return min([self.latest_requested, self.latest_completion, *self.pending])

    @classmethod
    def of(cls, timeline: Timeline, requested_time: str) -> Start:
        """Return the start of a write that saw `timeline`, with its own instant or without."""
        others = [i for i in timeline.instants if i.requested_time != requested_time]
        writes = {i.requested_time for i in others if i.planned_as.completed_as in WRITE_ACTIONS}
        return cls(
            requested_time=requested_time,
            pending=timeline.pending_times - {requested_time},
            latest_requested=max((i.requested_time for i in others), default=""),
            latest_completion=max((i.completion_time or "" for i in others), default=""),
            first_completed=timeline.first_completed_time or "",
            seen=frozenset(writes),
            is_newest_saved=max(writes, default="") in timeline.saved_times,
        )

    @classmethod
    def of_plan(cls, requested_time: str) -> Start:
        """Return the start of a plan: it was made of what had completed when it was requested."""
        return cls(
            requested_time=requested_time,
            latest_requested=requested_time,
            latest_completion=requested_time,
        )

    def may_miss(self, timeline: Timeline) -> bool:
        """Return whether instants may have left the timeline that this start has not seen."""
        there = {i.requested_time for i in timeline.instants}
        return (
            (timeline.first_completed_time or "") > self.first_completed
            or not self.seen <= there
            or self.is_newest_saved
            or max(self.seen, default="") in timeline.saved_times
        )


def completed_candidates(
    timeline: Timeline, start: Start, basis: Basis, archived: Iterable[Instant] = ()
) -> list[Instant]:
    """Return the completed writes whose result the write cannot have seen, by requested time.

    `archived` are those that have left the timeline, in case that a write outlived it.
    """
    known = {i.requested_time for i in timeline.writes()}
    older = (i for i in archived if i.action in WRITE_ACTIONS and i.requested_time not in known)
    others = (i for i in (*older, *timeline.writes()) if i.requested_time != start.requested_time)
    if basis is Basis.END:
        return [i for i in others if (i.completion_time or "") > start.latest_completion]
    return [
        i
        for i in others
        if i.requested_time > start.latest_requested or i.requested_time in start.pending
    ]


def pending_candidates(
    timeline: Timeline,
    contents: TimelineContents,
    start: Start,
    *,
    ours: Kind,
    allows_update: bool = False,
) -> list[Instant]:
    """Return the pending plans, and to a clustering the writes, that count for the kind `ours`.

    Other pending writes do not: they will find ours when they commit, unless they never look; see
    `pending_writes`. `allows_update` is the strategy under which a clustering gives way to writes.
    """
    others = (i for i in timeline.pending if i.requested_time != start.requested_time)
    return [
        i for i in others if _matters(ours, _pending_kind(i, contents), allows_update=allows_update)
    ]


def pending_writes(timeline: Timeline, contents: TimelineContents, start: Start) -> list[Instant]:
    """Return the pending writes of rows other than ours."""
    others = (i for i in timeline.pending if i.requested_time != start.requested_time)
    return [i for i in others if _pending_kind(i, contents) is Kind.INGESTION]


def _matters(ours: Kind, pending: Kind | None, *, allows_update: bool) -> bool:
    if ours is Kind.INGESTION:
        # Compactions of any age: old plans matter to writers of base files, as `judge` knows.
        if pending is Kind.CLUSTERING:
            return not allows_update
        return pending in (Kind.COMPACTION, Kind.LOG_COMPACTION)
    if ours is Kind.CLUSTERING:
        return pending is Kind.INGESTION and allows_update
    return ours is Kind.LOG_COMPACTION and pending is Kind.COMPACTION


def footprint(
    instant: Instant,
    contents: TimelineContents,
    slot_name: SlotName = str,
    history: History | None = None,
) -> Footprint | None:
    """Return what an instant touched or set out to touch; an archived one is asked of `history`.

    None means that it was rolled back since the timeline was loaded. A pending write that did not
    say what it will touch has an empty footprint; see `is_silent`.
    """
    try:
        if instant.is_completed:
            source = history if history is not None and instant.file_name is None else contents
            return of_commit(instant, source.commit_metadata(instant), slot_name)
        return _of_pending(instant, contents, slot_name)
    except MissingFileError:
        return None


def of_commit(instant: Instant, metadata: CommitMetadata, slot_name: SlotName = str) -> Footprint:
    """Return what a completed write touched, or what a pending one said that it will."""
    stats = (
        # Those of a write that has not written yet do not say their partition themselves.
        stat if stat.partition_path is not None else replace(stat, partition_path=partition)
        for partition, found in metadata.partition_to_write_stats.items()
        for stat in found
    )
    return of_stats(
        stats,
        metadata.partition_to_replace_file_ids or {},
        operation=metadata.operation_type or "",
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
        slot_name=slot_name,
        kind=Kind.COMPACTION if instant.planned_as is Action.COMPACTION else None,
        touched=metadata.partition_to_write_stats,
        mode=metadata.extra_metadata.get(MODE) or "",
    )


def of_stats(
    stats: Iterable[WriteStat],
    replaced: Mapping[str, Iterable[str]],
    *,
    operation: str,
    requested_time: str,
    completion_time: str | None = None,
    slot_name: SlotName = str,
    kind: Kind | None = None,
    touched: Iterable[str] = (),
    mode: str = "",
) -> Footprint:
    """Return what a write with these stats touches; `touched` are partitions beyond those."""
    slots: set[Slot] = set()
    bases: set[Slot] = set()
    partitions: set[str] = {*replaced, *touched}
    unnamed: set[str] = set()
    files: dict[Slot, str] = {}
    filled: set[Slot] = set()
    file_ids: dict[Slot, str] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        partitions.add(partition)
        if not stat.file_id:
            unnamed.add(partition)
            continue
        slot = Slot(partition, slot_name(stat.file_id))
        slots.add(slot)
        file_ids[slot] = stat.file_id
        if stat.path:
            files[slot] = stat.path
        if stat.path and parse_base(*_split(stat.path), 0) is not None:
            bases.add(slot)
            if stat.num_inserts or stat.prev_commit in (None, NO_PREVIOUS_COMMIT):
                filled.add(slot)
    retired = {Slot(p, slot_name(file_id)) for p, ids in replaced.items() for file_id in ids}
    is_whole = operation.upper() in _WHOLE_PARTITIONS
    return Footprint(
        kind=kind or _KINDS.get(operation.upper(), Kind.INGESTION),
        requested_time=requested_time,
        completion_time=completion_time,
        slots=frozenset(slots | retired),
        base_slots=frozenset(bases | retired),
        partitions=frozenset(partitions) if is_whole else frozenset(),
        files=files,
        filled_slots=frozenset(filled),
        touched=frozenset(partitions),
        unnamed=frozenset(unnamed) if completion_time is None else frozenset(),
        replaces_table=operation.upper() == _WHOLE_TABLE,
        retired=frozenset(retired),
        retires=is_whole or bool(retired),
        file_ids=file_ids,
        mode=mode,
    )


def clustered_groups(timeline: Timeline, contents: TimelineContents) -> frozenset[FileGroupId]:
    """Return the file groups whose rows pending clusterings are moving elsewhere."""
    found: set[FileGroupId] = set()
    for instant in timeline.pending:
        if is_clustering(instant, contents):
            found |= planned_groups(instant, contents)
    return frozenset(found)


def planned_groups(instant: Instant, contents: TimelineContents) -> frozenset[FileGroupId]:
    """Return the file groups that a pending plan of a service names; none for anything else."""
    kind = _pending_kind(instant, contents)
    if kind not in (Kind.COMPACTION, Kind.LOG_COMPACTION, Kind.CLUSTERING):
        return frozenset()
    try:
        planned = list(_planned(instant, contents, kind))
    except MissingFileError:
        return frozenset()  # it was rolled back since the timeline was loaded
    return frozenset(FileGroupId(partition, file_id) for partition, file_id in planned)


def is_clustering(instant: Instant, contents: TimelineContents) -> bool:
    """Return whether a pending instant is a clustering, whatever the table version calls it."""
    return _pending_kind(instant, contents) is Kind.CLUSTERING


def is_silent(found: Footprint) -> bool:
    """Return whether a pending write did not say what it will touch."""
    return found.is_pending and not found.slots and not found.touched


def _of_pending(
    instant: Instant, contents: TimelineContents, slot_name: SlotName
) -> Footprint | None:
    kind = _pending_kind(instant, contents)
    if kind is None:
        return None
    if kind is Kind.INGESTION:
        # Before it is inflight, a write has not said anything.
        is_known = instant.state is State.INFLIGHT
        metadata = contents.commit_metadata(instant) if is_known else CommitMetadata()
        return of_commit(instant, metadata, slot_name)
    planned = _planned(instant, contents, kind)
    return Footprint(
        kind=kind,
        requested_time=instant.requested_time,
        slots=frozenset(Slot(partition, slot_name(file_id)) for partition, file_id in planned),
    )


def _planned(instant: Instant, contents: TimelineContents, kind: Kind) -> Iterator[tuple[str, str]]:
    """Return what a plan names; its inflight file is empty, so the requested one is read."""
    if kind is Kind.CLUSTERING:
        plan = contents.clustering_plan(instant)
        for group in plan.input_groups if plan else ():
            yield from ((piece.partition_path or "", piece.file_id) for piece in group.slices)
        return
    for operation in contents.compaction_plan(instant).operations or ():
        yield operation.partition_path or "", operation.file_id


def _pending_kind(instant: Instant, contents: TimelineContents) -> Kind | None:
    """Return what a pending instant is; None for bookkeeping, and for what was rolled back."""
    action = instant.planned_as
    if action is Action.COMPACTION:
        return Kind.COMPACTION
    if action is Action.LOGCOMPACTION:
        return Kind.LOG_COMPACTION
    if action is Action.CLUSTERING:
        return Kind.CLUSTERING
    if action not in WRITE_ACTIONS:
        return None
    try:
        is_clustering = contents.is_clustering(instant)
    except MissingFileError:
        return None
    return Kind.CLUSTERING if is_clustering else Kind.INGESTION


def _split(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    return partition, name
