"""Which files of a table nobody can ask for any more.

A clean moves the *horizon*: the earliest commit as of which the table stays readable. Of every file
group it leaves the slice that was current when the horizon was requested, and all later ones; the
newest slice always stays. On top of that it leaves whatever a savepoint or a pending plan names.

Planning looks at partitions in which a slice was superseded since the last clean, as the commits
since then tell. A commit that only adds file groups or logs supersedes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tidelake.config import CleanOptions, CleanPolicy
from tidelake.errors import HorizonError
from tidelake.formats import plans
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import WRITE_ACTIONS, Action, FileGroupId, FileSlice, Instant
from tidelake.model.numbers import whole_number
from tidelake.services.plan import PlannedFile, Service, ServicePlan
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.storage import FileInfo
from tidelake.txn.conflicts.undone_writes import going, without
from tidelake.view import FileGroup, Replacement, TableView

#: Key of a clean's extra metadata: the savepoints that were there.
SAVEPOINTS = "savepointed_timestamps"
#: Key of ours beside it: how many slices of a file group a clean by file versions left.
FILE_VERSIONS = "tidelake.clean.fileversions"

_HOUR_MS = 3_600_000
#: Pending writes that read the table as it was when they began.
_PENDING_WRITES = WRITE_ACTIONS | {Action.CLUSTERING}
#: Operations whose base files take over from other slices, whatever their stats say.
_REWRITING = frozenset({"COMPACT", "CLUSTER"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """What a clean deletes, by partition, and how far back the table can be read afterwards.

    `retained` is None when no commit bounds the past. `extent` says how many commits or, for a plan
    that looked `everywhere`, partitions were looked at.
    """

    policy: CleanPolicy
    retained: Instant | None = None
    last_completed: str = ""
    deleted: Mapping[str, tuple[PlannedFile, ...]] = field(default_factory=dict)
    extra: Mapping[str, str | None] = field(default_factory=dict)
    reason: str = ""
    everywhere: bool = False
    extent: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no file is to go."""
        return not self.deleted

    def shown(self) -> ServicePlan:
        """Return the plan as people look at it."""
        files = [file for partition in sorted(self.deleted) for file in self.deleted[partition]]
        return ServicePlan(
            service=Service.CLEAN,
            reason=self.reason,
            files_deleted=tuple(files),
            horizon=None if self.retained is None else self.retained.requested_time,
            facts={"policy": self.policy.value, "partitions": len(self.deleted)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClean:
    """What the newest completed clean did; `retained` is empty when it moved no horizon."""

    instant: Instant
    retained: str
    metadata: plans.CleanMetadata


def last_clean(state: TableState) -> LastClean | None:
    """Return the newest completed clean on the active timeline."""
    cleans = [i for i in state.timeline.completed if i.action is Action.CLEAN]
    if not cleans:
        return None
    metadata = state.contents.clean_metadata(cleans[-1])
    return LastClean(
        instant=cleans[-1],
        retained=metadata.earliest_commit_to_retain or "",
        metadata=metadata,
    )


def commits_since(state: TableState, last: Instant | None) -> int:
    """Return how many writes were requested since a clean, or ever."""
    writes = state.timeline.writes()
    return sum(1 for i in writes if last is None or i.requested_time > last.requested_time)


def doomed(state: TableState) -> Iterator[tuple[Instant, Mapping[str, Sequence[str]]]]:
    """Return the pending cleans, each with the names by partition that it deletes."""
    for instant in state.timeline.pending:
        if instant.action is Action.CLEAN:
            yield instant, plans.doomed_files(state.contents.clean_plan(instant))


def refuse_doomed(
    state: TableState, kept: Mapping[str, Iterable[str]], *, problem: str, next_step: str
) -> None:
    """Raise `HorizonError` when a pending clean deletes one of these files, by partition."""
    for clean, files in doomed(state):
        for partition, names in files.items():
            if not set(names).isdisjoint(kept.get(partition, ())):
                raise HorizonError(
                    f"{problem}: clean {clean.requested_time} is about to delete files of it",
                    next_step=next_step,
                )


def files_beside_cleans(
    state: TableState, partitions: Sequence[str] | None = None
) -> Mapping[str, Sequence[FileInfo]]:
    """Return the files of partitions, or of all, and those that pending cleans delete, gone or not.

    A clean that died has deleted some of them, and nothing but its plan says which.
    """
    listing = state.listing()
    wanted = listing.partitions() if partitions is None else partitions
    found = {p: list(files) for p, files in listing.files_of(wanted).items()}
    for _, files in doomed(state):
        for partition, names in files.items():
            if partition in found:
                there = {info.name for info in found[partition]}
                found[partition] += [FileInfo(n, 0, 0) for n in names if n not in there]
    return found


def _settled(now: ServiceContext) -> ServiceContext:
    """Return the table without the writes that a rollback has begun to take back.

    What they took over from is what the table goes back to, and has to stay.
    """
    state = now.state
    left = without(state.timeline, going(state.timeline, state.contents))
    return replace(now, state=state.with_timeline(left))


def plan_clean(now: ServiceContext, options: CleanOptions) -> CleanPlan:
    """Return which files to delete under `options` from the table as it is."""
    now = _settled(now)
    state = now.state
    by_versions = options.policy is CleanPolicy.FILE_VERSIONS
    last = last_clean(state)
    retained = None if by_versions else _horizon(now, options, last)
    writes = state.timeline.writes()
    if not writes or (retained is None and not by_versions):
        return CleanPlan(policy=options.policy, reason=f"nothing is older than {_kept(options)}")
    savepoints = frozenset(i.requested_time for i in state.savepoints())
    changed = _changed_partitions(state, options, retained, last, savepoints)
    if changed is None:
        partitions: Sequence[str] = state.listing().partitions()
        extent = len(partitions)
    else:
        partitions, extent = changed
    files = state.listing().files_of(partitions)
    dead = _DeadFiles(state=state, options=options, retained=retained, view=state.view_of(files))
    deleted = {p: found for p in partitions if (found := dead.in_partition(p, files[p]))}
    if by_versions:
        retained = _reached(state, dead.reach, last)
    extra: dict[str, str | None] = {}
    if savepoints:
        extra[SAVEPOINTS] = ",".join(sorted(savepoints))
    if by_versions:
        extra[FILE_VERSIONS] = str(options.file_versions)
    count = sum(map(len, deleted.values()))
    return CleanPlan(
        policy=options.policy,
        retained=retained,
        last_completed=writes[-1].requested_time,
        deleted=deleted,
        extra=extra,
        reason=f"{count or 'no'} {'file is' if count == 1 else 'files are'} older than "
        f"{_kept(options)}",
        everywhere=changed is None,
        extent=extent,
    )


def earliest_to_retain(now: ServiceContext, options: CleanOptions) -> Instant | None:
    """Return the commit to which `options` keep the past; None when all of it stays.

    A pending write holds the horizon back: it may still be reading what a clean would delete.
    """
    state = now.state
    writes = state.timeline.writes()
    if not writes or options.policy is CleanPolicy.FILE_VERSIONS:
        return None
    if options.policy is CleanPolicy.COMMITS:
        if len(writes) <= options.commits:
            return None
        done = state.timeline.by_completion_time() if state.by_completion_time else writes
        kept = [i for i in done if i.action in WRITE_ACTIONS][-options.commits :]
        found = min(kept, key=lambda i: i.requested_time)
    else:
        start = now.times.at(now.env.clock.now_ms() - options.hours * _HOUR_MS)
        found = next((i for i in writes if i.requested_time >= start), writes[-1])
    pending = (i for i in state.timeline.pending if i.planned_as in _PENDING_WRITES)
    first_pending = min((i.requested_time for i in pending), default=None)
    if first_pending is not None and first_pending < found.requested_time:
        before = [i for i in writes if i.requested_time < first_pending]
        found = before[-1] if before else writes[0]
    return None if found is writes[0] else found


def _horizon(now: ServiceContext, options: CleanOptions, last: LastClean | None) -> Instant | None:
    found = earliest_to_retain(now, options)
    if found is None or last is None or last.retained <= found.requested_time:
        return found
    # An earlier clean kept less than these options ask for, and what is gone does not come back.
    return _first_from(now.state, last.retained)


def _reached(state: TableState, reach: str, last: LastClean | None) -> Instant | None:
    """Return the horizon of a clean by file versions, which follows from what it deletes."""
    previous = "" if last is None else last.retained
    time = max(reach, previous)
    if not time:
        return None
    # A compaction may have completed after every write was requested: then no commit bounds it.
    return _first_from(state, time) or replace(state.timeline.writes()[-1], requested_time=time)


def _first_from(state: TableState, time: str) -> Instant | None:
    return next((i for i in state.timeline.writes() if i.requested_time >= time), None)


def _changed_partitions(
    state: TableState,
    options: CleanOptions,
    retained: Instant | None,
    last: LastClean | None,
    savepoints: Set[str],
) -> tuple[Sequence[str], int] | None:
    """Return where slices were superseded since the last clean, and by how many commits.

    None means that the last clean does not tell, and that every partition has to be looked at.
    """
    if last is None or not options.incremental:
        return None
    noted = last.metadata.extra_metadata or {}
    if not set(filter(None, (noted.get(SAVEPOINTS) or "").split(","))) <= savepoints:
        return None
    stored = noted.get(FILE_VERSIONS)
    versions = None if stored is None else whole_number(stored)
    if retained is None:
        # Fewer versions were asked for then, or as many: nothing older is left where no new are.
        if versions is None or versions > options.file_versions:
            return None
        start, end = last.metadata.last_completed_commit_timestamp, None
    elif stored is not None or not last.retained or state.timeline.is_archived(last.retained):
        return None
    else:
        start, end = last.retained, retained.requested_time
    window = [i for i in state.timeline.writes() if _is_between(state, i, start, end)]
    state.contents.load_commit_metadata(window)
    found = {p for i in window for p in _superseded(state.contents.commit_metadata(i))}
    found |= {p for p, part in last.metadata.partition_metadata.items() if part.failed_delete_files}
    return sorted(found), len(window)


def _is_between(state: TableState, instant: Instant, start: str, end: str | None) -> bool:
    if end is not None and instant.requested_time >= end:
        return False
    if instant.requested_time >= start:
        return True
    # It was under way when the last clean was planned, and superseded nothing then.
    done = instant.completion_time
    return state.by_completion_time and done is not None and done > start


def _superseded(metadata: CommitMetadata) -> Iterator[str]:
    """Return the partitions in which a commit put a slice in the place of another."""
    rewrites = metadata.compacted or metadata.operation_type in _REWRITING
    for partition, stats in metadata.partition_to_write_stats.items():
        if any(_is_base(stat) and (rewrites or not _is_new_group(stat)) for stat in stats):
            yield partition
    yield from metadata.partition_to_replace_file_ids


def _is_base(stat: WriteStat) -> bool:
    return parse_base("", (stat.path or "").rpartition("/")[2], 0) is not None


def _is_new_group(stat: WriteStat) -> bool:
    return stat.prev_commit == NO_PREVIOUS_COMMIT


@dataclass(kw_only=True)
class _DeadFiles:
    """Finds the files that may go, partition by partition."""

    state: TableState
    options: CleanOptions
    retained: Instant | None
    view: TableView
    reach: str = ""
    """The time before which the table cannot be read any more, because of what was found."""

    def __post_init__(self) -> None:
        self._protected = protected_files(self.state)

    def in_partition(self, partition: str, files: Iterable[FileInfo]) -> tuple[PlannedFile, ...]:
        dead: set[tuple[str, str]] = set()
        for group in self.view.groups([partition]):
            for found in self._slices(group):
                dead |= {(group.id.file_id, t) for t in _instants(found)}
        # By instant, so that copies which retried tasks left behind go with the file that counted.
        chosen = (f for f in files if _key(partition, f.name) in dead)
        return tuple(
            PlannedFile(path=_join(partition, f.name), size_bytes=f.size_bytes) for f in chosen
        )

    def _slices(self, group: FileGroup) -> Iterator[FileSlice]:
        """Return the slices of a group that may go."""
        opened = self.view.pending_compactions(group.id)
        # A pending compaction has opened a slice that cannot be read without the one before it.
        slices = [s for s in self.view.slices(group) if s.base_instant_time not in opened]
        replaced_at = self._replaced_at(group.id)
        if replaced_at is not None:
            dead = [s for s in slices if s.base_instant_time < replaced_at.requested_time]
            reach = self._time_of(replaced_at.requested_time, replaced_at.completion_time)
        else:
            first = self._first_kept(slices)
            dead = slices[:first]
            at = slices[first].base_instant_time if dead else ""
            reach = self._done(at) or at
        going = [s for s in dead if not self._is_protected(s)]
        if going:
            self.reach = max(self.reach, reach)
        yield from going

    def _time_of(self, requested_time: str, completion_time: str) -> str:
        return completion_time if self.state.by_completion_time else requested_time

    def _replaced_at(self, group: FileGroupId) -> Replacement | None:
        """Return the replacement that took the whole group out of everybody's reach."""
        found = self.view.replacements.get(group, ())
        if self.retained is not None:
            found = [r for r in found if self._is_before(r.requested_time, r.completion_time)]
        return max(found, key=lambda r: r.requested_time, default=None)

    def _first_kept(self, slices: Sequence[FileSlice]) -> int:
        if self.retained is None:
            return max(0, len(slices) - self.options.file_versions)
        for index in range(len(slices) - 1, 0, -1):
            at = slices[index].base_instant_time
            if self._is_before(at, self._done(at)):
                return index
        return 0

    def _done(self, requested_time: str) -> str | None:
        """Return when a committed instant took effect, as the table's version counts it."""
        # Slices of version 6 are committed ones already, and its archive takes long to read.
        return self.view.times(requested_time) if self.state.by_completion_time else requested_time

    def _is_before(self, requested_time: str, completion_time: str | None) -> bool:
        """Return whether an instant had taken effect when the horizon was requested."""
        assert self.retained is not None  # only a clean by file versions has no horizon yet
        horizon = self.retained.requested_time
        if requested_time >= horizon or completion_time is None:
            return False
        return not self.state.by_completion_time or completion_time <= horizon

    def _is_protected(self, found: FileSlice) -> bool:
        partition = found.group.partition
        return any((partition, name) in self._protected for name in names_in(found))


def protected_files(state: TableState) -> frozenset[tuple[str, str]]:
    """Return partition and name of every file that a savepoint or a pending plan needs."""
    found: set[tuple[str, str]] = set()
    for savepoint in state.savepoints():
        kept = state.contents.savepoint_metadata(savepoint).partition_metadata
        for partition, files in kept.items():
            found |= {(partition, _name(path)) for path in files.savepoint_data_file}
        for write in () if state.by_completion_time else state.late_beneath(savepoint):
            stats = state.contents.commit_metadata(write).write_stats
            found |= {(stat.partition_path or "", _name(stat.path)) for stat in stats if stat.path}
    for instant in state.timeline.pending:
        if instant.planned_as in (Action.COMPACTION, Action.LOGCOMPACTION):
            for operation in state.contents.compaction_plan(instant).operations:
                paths = (operation.data_file_path, *operation.delta_file_paths)
                found |= {(operation.partition_path, _name(path)) for path in paths if path}
        elif state.contents.is_clustering(instant):
            plan = state.contents.clustering_plan(instant)
            for group in plan.input_groups if plan else ():
                for part in group.slices:
                    paths = (part.data_file_path, *(part.delta_file_paths or ()))
                    found |= {(part.partition_path, _name(path)) for path in paths if path}
    return frozenset(found)


def names_in(found: FileSlice) -> list[str]:
    """Return the names of the files of a slice."""
    base = [] if found.base_file is None else [found.base_file.name]
    return [*base, *(log.name for log in found.log_files)]


def _instants(found: FileSlice) -> Iterator[str]:
    yield found.base_instant_time
    yield from (log.instant_time for log in found.log_files)


def _key(partition: str, name: str) -> tuple[str, str] | None:
    found = parse_base(partition, name, 0) or parse_log(partition, name, 0)
    return None if found is None else (found.file_id, found.instant_time)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def _kept(options: CleanOptions) -> str:
    if options.policy is CleanPolicy.COMMITS:
        return "the last commit" if options.commits == 1 else f"the last {options.commits} commits"
    if options.policy is CleanPolicy.HOURS:
        return f"the last {options.hours} hours"
    return f"the last {options.file_versions} versions of each file group"
