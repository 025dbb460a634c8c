"""The steps of one write, in the order in which files appear, and what a crash leaves.

`begin`, in `txn.protocol.begin`
1. The metadata table is brought up to date with the table, or its names leave the table's
   properties: see `txn.metadata_keeper`. A crash leaves a table whose readers list storage.
2. Failed writes are rolled back: see `txn.rollback`. The next `begin` goes on where this one ended.
3. `requested` appears. A crash leaves an instant without files.

   The heartbeat appears after it, and is renewed from now on.

`start`
4. `inflight` appears. A crash still leaves an instant without files.

Tasks, through `files`
5. For every file its marker, then the file, then a look whether it is wanted: at the seal and the
   heartbeat. A crash leaves files that no reader shows, and each of them is known by a marker.

`commit`
6. The seal appears: a task that is still running will now delete its own file. The heartbeat stays,
   because Apache's lazy cleaner looks at it without the lock, and would take this write for failed.
7. Files that have a marker and no stat go; tasks that were retried or ran twice wrote them.
8. The metadata table learns of the files. A crash leaves a metadata table that is ahead; readers
   pass over what it says of pending instants, and a rollback of the instant takes it back.
9. **The completed file appears**, whole or not at all, and only if it is not there. Before it a
   crash leaves the table as it was, after it the table as it is to be.
10. The heartbeat goes, then the seal and the markers. A crash leaves files that nobody reads, and
   that clean and archival delete.

Up to step 9 the next write, ours or Apache's, finds a pending instant and rolls it back by its
markers. When step 9 fails, the file is looked for, and if it is there, the commit landed. If it is
not, nothing is cleaned up here: the next write decides, from the timeline. When the storage refused
the file, the commit did not land. When it lost sight of a request, that might still arrive, and the
outcome is unknown, as it is when nobody can look. A file that arrives once the instant was rolled
back counts for nothing: see `timeline.late_commits`.

A writer that is alone looks at the timeline again before step 8: what somebody else completed since
it began, it does not write over.

With several writers two parts are critical sections under the table's lock, and each begins with a
look at the timeline: `begin`, where a time is taken and published, and `commit` from step 6 to 9.
In the second the write is compared with what others did since the first: see `txn.concurrency`.
Each ends with the request that gives the lock back, which tells whether it was ours until then, and
what has just appeared goes again if it was not: see `txn.protocol.fenced_publish`.

The heartbeat of a plan that one writer carries out alone appears after `inflight`, so that of two
that begin at once the first goes on. A write that fails puts the seal too, and its heartbeat goes
once its rollback has been carried out, or has failed; the heartbeat of a write that was interrupted
goes at once, and the next write rolls it back. When the outcome is unknown the heartbeat is not
renewed any more, and stays until it expires.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType

from typing_extensions import Self

from tidelake.config import ConcurrencyMode, TableConfig
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    InstantLostError,
    LockTimeoutError,
    Malformed,
    MissingFileError,
    SameWriteError,
    StorageError,
    TidelakeError,
    WriteConflictError,
)
from tidelake.formats.commit_metadata import WRITE_ID, CommitMetadata, WriteStat
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.marker_name import heartbeat_path, marker_folder
from tidelake.model import Action, Commit, FileGroupId, Instant, State, Word
from tidelake.timeline import (
    Publisher,
    Timeline,
    TimelineContents,
    open_history,
    reload_timeline,
)
from tidelake.timeline.load import completion_time_from
from tidelake.timeline.table_schema import commit_with_schema, writes_in_order
from tidelake.txn.concurrency import WRITER, Concurrency, Reviewer, SchemaResolver, lost
from tidelake.txn.conflicts.candidates import MODE, Start, of_stats
from tidelake.txn.conflicts.early_detection import Lookout
from tidelake.txn.conflicts.judge import Footprint, Slot
from tidelake.txn.conflicts.undone_writes import refuse_undone
from tidelake.txn.conflicts.unlocked_writers import came_late
from tidelake.txn.liveness.heartbeat import Heartbeat, is_alive, last_beats, never_gives_way
from tidelake.txn.liveness.markers import delete_markers, delete_strays, marker_files
from tidelake.txn.locks.process import ThisProcess
from tidelake.txn.metadata_keeper import MetadataKeeper, changes_of
from tidelake.txn.protocol.commits import commit_of, made_under, paths_of
from tidelake.txn.protocol.fenced_publish import start_requested
from tidelake.txn.protocol.instant_times import InstantTimes
from tidelake.txn.protocol.late_completion import built_on, hides_others, kept_by, refuse_unseen
from tidelake.txn.rollback.passed_over import PassedOver
from tidelake.txn.rollback.rollback import Rollback

_log = logging.getLogger(__name__)

#: Operations that leave every key in its file group.
_REWRITING = frozenset({"COMPACT", "LOG_COMPACT"})
_SCHEMA = "schema"
#: Waits between attempts to put the completed file.
_DELAYS_MS = (100, 400)


class Outcome(Word):
    """What is known about a write; only one that has NOT_LANDED may be cleaned up."""

    NOT_LANDED = "not landed"
    LANDED = "landed"
    UNKNOWN = "unknown"


class Transaction:
    """One write between `begin` and its end; as a context it aborts when an error passes by."""

    def __init__(
        self,
        env: Env,
        config: TableConfig,
        timeline: Timeline,
        *,
        times: InstantTimes,
        requested_time: str,
        action: Action,
        operation: str,
        write_id: str | None,
        keeper: MetadataKeeper,
        concurrency: Concurrency | None = None,
        seen: Timeline | None = None,
        asked: Timeline | None = None,
        owner: str | None = None,
        contents: TimelineContents | None = None,
    ) -> None:
        self.config = config
        self.timeline = timeline
        """The timeline before this write."""
        self.instant_time = requested_time
        self.action = action
        self.operation = operation
        self.owner = owner
        """Who carries out a plan that others may take over; None for a write of its own."""
        self.outcome = Outcome.NOT_LANDED
        self._process = ThisProcess()
        self._env = env
        self._storage = env.storage
        self._times = times
        self._write_id = write_id
        self._keeper = keeper
        self._publisher = Publisher(env.storage, config)
        self._contents = contents or TimelineContents(env.storage, config)
        self._concurrency = concurrency or Concurrency()
        self._seen = seen or timeline
        self._reviewed_on = timeline
        self._named: frozenset[Slot] = frozenset()
        self._empty: frozenset[Slot] = frozenset()
        # What it chose its files by may be newer than the answer that nobody had written it yet.
        self._asked = asked or self._seen
        self.heartbeat = Heartbeat(
            env,
            requested_time,
            interval_ms=self._concurrency.heartbeat_ms,
            expires_ms=self._concurrency.expires_after_ms,
            owner=owner,
            shares=self._concurrency.is_shared,
            mode=self._concurrency.mode.value,
        )
        self._passed_over = PassedOver(env, config, times, keeper, self._concurrency)
        self._lookout = Lookout(
            env,
            requested_time,
            self._concurrency.slot_name,
            expires_ms=self._concurrency.expires_after_ms,
        )

    def show_life(self) -> None:
        """Give signs of life from now on."""
        self.heartbeat.beat()
        self.heartbeat.keep_beating()

    @property
    def marker_folder(self) -> str:
        """Return where tasks put their markers; see `formats.marker_name`."""
        return marker_folder(self.instant_time)

    @property
    def heartbeat_path(self) -> str:
        """Return the file that a task looks for once it has written a data file."""
        return heartbeat_path(self.instant_time)

    def refuse_clustered(self, groups: Iterable[FileGroupId]) -> None:
        """Raise `WriteConflictError` when a pending clustering moves the rows of file groups."""
        self._reviewer(self.timeline).refuse_clustered(self._intent(groups))

    def refuse_gone(self, groups: Sequence[FileGroupId]) -> None:
        """Raise `WriteConflictError`, if there are any: these were found, and are not there now."""
        if not groups:
            return
        intent = self._intent(groups)
        self._reviewer(self.timeline).refuse_completed(intent)
        known = {i.requested_time for i in self._seen.instants}
        new = [i.requested_time for i in self.timeline.instants if i.requested_time not in known]
        raise WriteConflictError(
            ours=self.instant_time,
            theirs=max(new, default=""),
            overlap=frozenset(map(str, intent.slots)),
            rule="somebody took the file group off the table",
            next_step="run the write again: it starts from the table as it is now; "
            "hoodie.write.num.retries.on.conflict.failures does so by itself",
        )

    def found_empty(self, groups: Iterable[FileGroupId]) -> None:
        """Note buckets that had nothing to delete: the write gives way to who has filled one."""
        self._empty = self._intent(groups).slots

    def _intent(self, groups: Iterable[FileGroupId]) -> Footprint:
        """Return the footprint of a write that will change file groups."""
        return of_stats(
            (WriteStat(file_id=g.file_id, path=None, partition_path=g.partition) for g in groups),
            {},
            operation="",
            requested_time=self.instant_time,
            slot_name=self._concurrency.slot_name,
        )

    def start(self, profile: Mapping[str, Sequence[WriteStat]] | None = None) -> None:
        """Let tasks write; `profile` says by partition what they will, as far as that is known."""
        self._refuse_child()
        content = b""
        self._named = frozenset(
            Slot(partition, self._concurrency.slot_name(stat.file_id))
            for partition, found in (profile or {}).items()
            for stat in found
            if stat.file_id
        )
        if profile:
            planned = {partition: tuple(stats) for partition, stats in profile.items()}
            content = self._publisher.encode(
                CommitMetadata(partition_to_write_stats=planned, operation_type=self.operation)
            )
        if self.owner is not None:
            # Of two who take over one plan the first is the owner, and the other leaves no trace.
            if self._concurrency.is_shared and not self._is_mine():
                raise lost(self.instant_time, "somebody else carries the plan out")
            if not start_requested(self._publisher, self.instant_time, self.action, content):
                raise lost(self.instant_time, "somebody else carries the plan out, or removed it")
            if not self._concurrency.is_shared:
                self.show_life()
            return
        if not start_requested(self._publisher, self.instant_time, self.action, content):
            raise InstantLostError(
                f"instant {self.instant_time} was rolled back, or started by somebody else, before "
                "it began",
                next_step="run the write again; one writer at a time may write to this table, "
                "unless all of them share it",
            )
        if self._concurrency.early_period_ms is not None:
            self._look_ahead(profile or {}, self._concurrency.early_period_ms)

    def _look_ahead(self, profile: Mapping[str, Sequence[WriteStat]], period_ms: int) -> None:
        """Give up now if an older write is at the same file groups, and later if one comes to it.

        A task that finds the heartbeat gone stops, so that ending it is how to give up.
        """
        stats = [
            replace(stat, partition_path=partition)
            for partition, found in profile.items()
            for stat in found
        ]
        planned = of_stats(
            stats,
            {},
            operation=self.operation,
            requested_time=self.instant_time,
            slot_name=self._concurrency.slot_name,
        )

        def review() -> None:
            now = reload_timeline(self._storage, self.config)
            self._reviewer(now).refuse_completed(planned)

        if self._concurrency.early_commits:
            self._lookout.review = review
        conflict = self._lookout.look(planned.slots)
        if conflict is not None:
            raise conflict
        self._lookout.keep_looking(period_ms, self.heartbeat.end)

    def commit(
        self,
        stats: Sequence[WriteStat],
        *,
        schema: str,
        replaced: Mapping[str, Sequence[str]] | None = None,
        forgets_replaced: bool = False,
        extra: Mapping[str, str] | None = None,
        resolve_schema: SchemaResolver | None = None,
    ) -> Commit:
        """Make what the tasks wrote part of the table.

        `stats` name every file that counts; `schema` is the table's Avro schema from now on, unless
        others wrote and `resolve_schema` says otherwise; `replaced` the file ids by partition that
        are retired, whose keys leave the record index by what `stats` name if `forgets_replaced`
        says so. Raises `WriteConflictError` when the write has to give way to another,
        `InstantLostError` when somebody rolled it back, `CommitOutcomeUnknownError` when nobody can
        tell whether it landed, and otherwise what the storage raised, in which case nothing became
        visible.
        """
        self._refuse_child()
        moves_keys = self.operation not in _REWRITING
        changes = changes_of(
            stats, replaced, moves_keys=moves_keys, forgets_replaced=forgets_replaced
        )
        stats = [stat for stat in stats if not stat.is_index]
        self._lookout.end()
        if self._lookout.found is not None:
            raise self._lookout.found
        ours = self._footprint(stats, replaced or {})
        with self._concurrency.section():
            if not self._is_mine():
                raise lost(self.instant_time, "somebody else carries the plan out")
            self.heartbeat.seal()
            markers, now = self._storage.both(
                lambda: marker_files(self._storage, self.instant_time), self._looked_again
            )
            delete_strays(self._storage, self.instant_time, paths_of(stats), markers)
            if self._concurrency.is_shared:
                schema = self._reviewed(now, ours, schema, resolve_schema)
            else:
                schema = self._reviewed_alone(now, ours, schema, resolve_schema)
            content, metadata = self._content(stats, schema, replaced or {}, extra or {})
            has_looked = self._keeper.record(self.instant_time, changes, self._times)
            completion_time = self._publish(content, has_looked=has_looked)
        if self._concurrency.lock is not None:
            _log.debug(
                "%s held the lock for %d ms", self.instant_time, self._concurrency.lock.held_ms
            )
        instant = Instant(
            requested_time=self.instant_time,
            action=self.action.completed_as,
            state=State.COMPLETED,
            completion_time=completion_time,
        )
        try:
            self.heartbeat.end(also=markers)
            if self._storage.local_path("") is not None:
                delete_markers(self._storage, self.instant_time)  # and the folders that they had
        except StorageError as cause:
            # The write counts; its markers are read by nobody, and archival removes them.
            _log.warning("what %s left on its way stays: %s", self.instant_time, cause.problem)
        self._passed_over.carry_out()
        return commit_of(instant, metadata)

    def abort(self) -> None:
        """Roll the write back, unless it has landed or might have, or is of the parent process."""
        if self._process.is_inherited:
            return
        self._lookout.end()
        if self.outcome is not Outcome.NOT_LANDED:
            # A file that is on its way may still arrive: the heartbeat expires by itself.
            self.heartbeat.stop()
            return
        if not self._is_mine():
            self.heartbeat.stop()
            return
        try:
            self.heartbeat.seal()
            self._roll_back()
        finally:
            self.heartbeat.end()

    def _refuse_child(self) -> None:
        """Raise `ConfigError` in a forked child: the write is of the process that began it."""
        if self._process.is_inherited:
            raise ConfigError(
                f"process {self._process.pid} began instant {self.instant_time}, and this process "
                "was forked from it",
                next_step="commit the write where it began, or begin one of its own here; the "
                "parent's goes on",
            )

    def _roll_back(self) -> None:
        with self._concurrency.section():
            timeline = reload_timeline(self._storage, self.config)
            self._times.see(timeline)
            own = (self.instant_time, self.action.completed_as)
            mine = [i for i in timeline.pending if i.key == own]
            rollback = Rollback(
                self._env, self.config, timeline, self._times, self._keeper, self._concurrency
            )
            if self.owner is not None:
                # A plan that is not yet started leaves nothing to undo.
                for instant in mine:
                    if instant.state is State.INFLIGHT:
                        rollback.run(instant, keep_plan=not self._is_removable, is_sealed=True)
                return
            scheduled = [rollback.schedule(instant, is_sealed=True) for instant in mine]
            if not mine:
                # Somebody rolled it back; tasks, or the commit, may have left files since then.
                self._keeper.undo(self.instant_time, self._times)
                delete_strays(self._storage, self.instant_time, ())
                delete_markers(self._storage, self.instant_time)
        for found in scheduled:
            rollback.carry_out(found)

    def _is_mine(self) -> bool:
        """Return whether nobody else has taken over the plan since it was started."""
        return self.owner is None or self.heartbeat.is_ours()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception):
            if error is not None:
                self._give_up()
            return
        try:
            self.abort()
        except TidelakeError as cause:
            # What made the write fail tells more than that it could not be tidied up.
            _log.warning(
                "%s could not be rolled back, the next write will try again: %s",
                self.instant_time,
                cause,
            )
        found = self._lookout.found
        if found is not None and error is not found:
            # The tasks failed because they were told to.
            raise found from error

    def _give_up(self) -> None:
        """Speak no more for a write that was interrupted, in a process that may go on."""
        if self._process.is_inherited:
            return
        self._lookout.end()
        self.heartbeat.stop()
        if self.outcome is Outcome.NOT_LANDED:
            # Tasks that still run delete their files; the next write rolls this one back.
            self.heartbeat.give_up()

    def _looked_again(self) -> Timeline:
        """Load the timeline, and raise `InstantLostError` when somebody took the write off it."""
        now = self._reviewed_on = reload_timeline(self._storage, self.config)
        self._times.see(now)
        own = Instant(requested_time=self.instant_time, action=self.action, state=State.INFLIGHT)
        if not now.has_file(own, State.INFLIGHT):
            raise lost(self.instant_time, "somebody rolled it back")
        return now

    def _reviewed(
        self,
        now: Timeline,
        ours: Footprint,
        schema: str,
        resolve_schema: SchemaResolver | None,
    ) -> str:
        """Hold the write to what others did since it began; return the schema to commit."""
        late = came_late(self.timeline, now, by_completion=self.config.layout_version != LAYOUT_1)
        for instant in late:
            _log.warning(
                "%s %s appeared on the timeline after its time had passed: somebody writes to this "
                "table without its lock, and rows may get lost; `tidelake check` tells which",
                instant.planned_as,
                instant.requested_time,
            )
        reviewer = self._reviewer(now, late)
        reviewer.refuse_lost(self.instant_time)
        if self.heartbeat.is_doomed:
            raise lost(self.instant_time, "it gave no sign of life for too long")
        self._refuse_undone(reviewer)
        self._refuse_same(now, reviewer.contents)
        if self._is_compared:
            reviewer.refuse_conflicts(ours)
        elif self.owner is None:
            reviewer.refuse_displaced(ours, self._named)
        return self._resolved(now, reviewer.contents, schema, resolve_schema)

    def _refuse_undone(self, reviewer: Reviewer) -> None:
        refuse_undone(
            self.instant_time,
            (self._seen, self.timeline),
            reviewer.timeline,
            reviewer.contents,
            open_history(self._storage, self.config),
        )

    def _resolved(
        self,
        now: Timeline,
        contents: TimelineContents,
        schema: str,
        resolve_schema: SchemaResolver | None,
    ) -> str:
        """Return the schema to commit, whatever others made of the table's since the start."""
        if resolve_schema is None or self.owner is not None:
            return schema
        found = commit_with_schema(writes_in_order(self.config.table_version, now), contents)
        if found is None:
            return resolve_schema(self.config.create_schema, "")
        return resolve_schema(found[1], found[0].requested_time)

    def _reviewed_alone(
        self,
        now: Timeline,
        ours: Footprint,
        schema: str,
        resolve_schema: SchemaResolver | None,
    ) -> str:
        """Hold a write that thought it was alone to what others completed since it began."""
        reviewer = self._reviewer(now)
        self._refuse_undone(reviewer)
        if self.owner is not None:
            return schema
        if len(now.pending) > 1:
            reviewer.refuse_pending_writes(ours)
        done = {i.key for i in self._seen.completed}
        company = [i for i in now.writes() if i.key not in done]
        if not company:
            return schema
        reviewer.refuse_lost(self.instant_time)
        self._refuse_same(now, reviewer.contents)
        _log.warning(
            "%s completed while this process wrote to the table under %s: let all writers share "
            "it, or rows get lost",
            ", ".join(f"{i.action} {i.requested_time}" for i in company),
            ConcurrencyMode.SINGLE_WRITER,
        )
        reviewer.refuse(ours, company)
        return self._resolved(now, reviewer.contents, schema, resolve_schema)

    def _footprint(
        self, stats: Sequence[WriteStat], replaced: Mapping[str, Sequence[str]]
    ) -> Footprint:
        written = of_stats(
            stats,
            replaced,
            operation=self.operation,
            requested_time=self.instant_time,
            slot_name=self._concurrency.slot_name,
        )
        return replace(written, slots=written.slots | self._empty)

    def _refuse_same(self, now: Timeline, contents: TimelineContents) -> None:
        """Raise `SameWriteError` when another process has committed this very write meanwhile."""
        if self._write_id is None:
            return
        known = {i.requested_time for i in self._asked.writes()}
        new = [i for i in now.writes() if i.requested_time not in known]
        same = made_under(self._write_id, new, contents)
        if same is not None:
            raise SameWriteError(
                ours=self.instant_time,
                theirs=same.requested_time,
                overlap=frozenset({self._write_id}),
                rule="it is the same write, by its write_id",
                next_step="nothing is left to do: the rows are in the table",
            )

    def _reviewer(self, now: Timeline, late: Sequence[Instant] = ()) -> Reviewer:
        """Return what compares this write with others' on a timeline."""
        return Reviewer(
            concurrency=self._concurrency,
            start=Start.of(self._seen, self.instant_time)
            if self.owner is None
            else Start.of_plan(self.instant_time),
            timeline=now,
            contents=self._contents,
            table_version=self.config.table_version,
            history=open_history(self._storage, self.config),
            is_alive=self._gives_signs_of_life,
            roll_back_dead=lambda dead: self._passed_over.publish_rollback(dead, now),
            never_looks=self._never_looks,
            late=late,
        )

    @property
    def _is_compared(self) -> bool:
        """Return whether the write may have to give way to others.

        Services are kept out of each other's way by when they are planned. Compactions give way to
        nobody; what a clustering or a log compaction rewrites, others may have changed since.
        """
        if self.owner is None:
            return self._concurrency.mode is ConcurrencyMode.OPTIMISTIC
        return self.action in (Action.CLUSTERING, Action.LOGCOMPACTION)

    @property
    def _is_removable(self) -> bool:
        """Return whether a plan goes with a failed attempt at it; most outlive that (RFC-79)."""
        if self.action is Action.CLUSTERING:
            return self._concurrency.allows_update
        return self.action is Action.LOGCOMPACTION

    def _never_looks(self, instant_time: str) -> bool:
        said = last_beats(self._env).content(instant_time)
        return never_gives_way(said, or_unknown=self._concurrency.takes_non_blocking)

    def _gives_signs_of_life(self, instant_time: str) -> bool:
        return is_alive(
            last_beats(self._env),
            instant_time,
            expires_ms=self._concurrency.expires_after_ms,
        )

    def _content(
        self,
        stats: Sequence[WriteStat],
        schema: str,
        replaced: Mapping[str, Sequence[str]],
        extra: Mapping[str, str],
    ) -> tuple[bytes, CommitMetadata]:
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        own = {} if self._write_id is None else {WRITE_ID: self._write_id}
        if self._concurrency.is_shared:
            own[WRITER] = self._concurrency.writer
            own[MODE] = self._concurrency.mode.value
        metadata = CommitMetadata(
            partition_to_write_stats={p: tuple(found) for p, found in by_partition.items()},
            compacted=self.action in (Action.COMPACTION, Action.LOGCOMPACTION),
            extra_metadata={**extra, **own, _SCHEMA: schema},
            operation_type=self.operation,
            partition_to_replace_file_ids={p: tuple(ids) for p, ids in replaced.items()},
        )
        is_replace = self.action.completed_as is Action.REPLACECOMMIT
        return self._publisher.encode(metadata, is_replace=is_replace), metadata

    def _publish(self, content: bytes, *, has_looked: bool) -> str:
        """Put the completed file and return its completion time.

        `has_looked` says that the last request before this was a look at the lock.
        """
        completion_time = self._times.next()
        if has_looked:
            self._concurrency.ensure_lasting()
        else:
            self._concurrency.ensure()
        # Always under one name, however often: two completed files would be two commits.
        path = self._publisher.completed_path(
            self.instant_time, self.action.completed_as, completion_time
        )
        self.outcome = Outcome.UNKNOWN
        attempts = 1
        may_arrive = False
        while True:
            try:
                if not self._storage.put_if_absent(path, content):
                    self._refuse_other(path, content)
                break
            except StorageError as cause:
                may_arrive = may_arrive or not cause.is_refusal
                if self._has_landed(path, content):
                    break
                if attempts > len(_DELAYS_MS) and not may_arrive:
                    raise StorageError(
                        path,
                        f"{cause.cause}; instant {self.instant_time} did not complete",
                        next_step="nothing became visible; once the storage takes files again, run "
                        "the write again: it removes what this one left",
                    ) from cause
                if attempts > len(_DELAYS_MS):
                    raise CommitOutcomeUnknownError(self.instant_time, cause.problem) from cause
            self._env.clock.sleep_ms(_DELAYS_MS[attempts - 1])
            self._stay_in(may_arrive=may_arrive)
            attempts += 1
        self._take_back_if_lost(path)
        self.outcome = Outcome.LANDED
        if self.config.layout_version == LAYOUT_1:
            completion_time = self._modification_time(path) or completion_time
        return completion_time

    def _take_back_if_lost(self, path: str) -> None:
        """Give the lock back, and remove the completed file if others went on without seeing it.

        That takes a process that stood still between the last look at its lock and the file. The
        lock is taken again first: whoever had it meanwhile has committed then, or will see ours.
        """
        lock = self._concurrency.lock
        if lock is None or lock.give_back():
            return
        for delay_ms in (*_DELAYS_MS, None):
            try:
                lock.regain()
                self._refuse_late()
            except (InstantLostError, WriteConflictError):
                self._storage.delete(path)
                self.outcome = Outcome.NOT_LANDED
                raise
            except TidelakeError as cause:
                if delay_ms is None or isinstance(cause, LockTimeoutError):
                    raise CommitOutcomeUnknownError(self.instant_time, cause.problem) from cause
                self._env.clock.sleep_ms(delay_ms)
            else:
                return

    def _refuse_late(self) -> None:
        """Raise when a write that has completed was rolled back before, or came too late."""
        now = reload_timeline(self._storage, self.config)
        reviewer = self._reviewer(now)
        reviewer.refuse_rolled_back(self.instant_time, self._reviewed_on)
        self._refuse_taken_off()
        if self.owner is not None:
            return
        before, at = self._reviewed_on, (self._storage, self.config)
        contents = reviewer.contents
        on_top = built_on(self.instant_time, before, now, contents, *at)
        saved = kept_by(self.instant_time, before, now, contents)
        if on_top is None and saved is not None:
            if hides_others(self.instant_time, before, now, contents):
                # What others were told is committed counts for more than a savepoint of the moment.
                _log.warning(
                    "savepoint %s names files of %s, which gives way: delete it, and make another",
                    saved.requested_time,
                    self.instant_time,
                )
            else:
                on_top = saved
        if on_top is not None:
            _log.warning(
                "%s completed when it had lost the lock, and %s %s began on top of it: whether "
                "rows got lost on the way, `tidelake check` tells",
                self.instant_time,
                on_top.planned_as,
                on_top.requested_time,
            )
            return
        self._refuse_undone(reviewer)
        refuse_unseen(self.instant_time, before, now, contents)

    def _refuse_taken_off(self) -> None:
        """Raise when nothing but the completed file is left: a restore took the instant off."""
        if self._publisher.is_pending(self.instant_time, self.action, State.INFLIGHT):
            return
        archived = open_history(self._storage, self.config).completion_times()
        if self.instant_time not in archived:
            raise lost(self.instant_time, "somebody took it off the table before it completed")

    def _stay_in(self, *, may_arrive: bool) -> None:
        """Raise when others may have come in while the storage was asked."""
        try:
            self._concurrency.ensure()
        except TidelakeError as cause:
            if may_arrive:
                raise CommitOutcomeUnknownError(self.instant_time, cause.problem) from cause
            raise

    def _refuse_other(self, path: str, content: bytes) -> None:
        """Raise `InstantLostError` unless the completed file is ours, by an earlier attempt."""
        if self._storage.read(path) != content:
            self.outcome = Outcome.NOT_LANDED
            raise lost(self.instant_time, "another attempt at it has completed")

    def _has_landed(self, path: str, content: bytes) -> bool:
        for delay_ms in _DELAYS_MS:
            try:
                return self._is_there(path, content)
            except StorageError:
                self._env.clock.sleep_ms(delay_ms)
        try:
            return self._is_there(path, content)
        except StorageError as cause:
            raise CommitOutcomeUnknownError(self.instant_time, cause.problem) from cause

    def _is_there(self, path: str, content: bytes) -> bool:
        try:
            return self._storage.read(path) == content
        except MissingFileError:
            return False

    def _modification_time(self, path: str) -> str | None:
        try:
            found = self._storage.stat(path)
            return completion_time_from(found.modified_ms, self.config) if found else None
        except (StorageError, Malformed):
            return None  # the write counts, whatever its time is
