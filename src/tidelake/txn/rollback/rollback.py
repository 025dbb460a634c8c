"""Taking a failed write off the table.

A rollback is an instant itself. It keeps an order, in which a crash leaves these states:

1. The heartbeat of the failed instant goes. A task of it that is still running finds that out once
   it has written its file, and deletes the file itself; all others have left a marker by then. A
   writer that rolls itself back has put its seal, and keeps the heartbeat until after step 2.
2. `rollback.requested` says which files are to go. Before it, nothing has happened. After it, the
   plan is the truth, and whoever comes next, Apache Hudi included, carries out the same plan again.
3. `rollback.inflight`, then the metadata table forgets the failed instant, then the files of the
   plan go; one that is gone already counts as done. On table versions up to 7 a log file is not
   deleted, because others may have written to it: a log file behind it takes back the blocks of the
   failed instant.
4. The files of the failed instant on the timeline go, and after them its markers.
5. The metadata table learns of logs that were added, and of deleted files that it still lists.
6. The completed rollback appears. From then on nothing but its record is left of the failed write.

Where several write, step 2 is made under the table's lock, as commits are: a write that finds a
rollback of its own does not commit, and one that has committed is not rolled back. Data files are
deleted without the lock, by whoever keeps the rollback's heartbeat; all else is done under it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import (
    CorruptFileError,
    MissingFileError,
    PlanRunningError,
    TidelakeError,
    UnsupportedTableError,
)
from tidelake.formats import plans
from tidelake.formats.instant_name import InstantName
from tidelake.formats.marker_name import heartbeat_path
from tidelake.formats.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
)
from tidelake.model import WRITE_ACTIONS, Action, Instant, State
from tidelake.timeline import Publisher, Timeline, TimelineContents, reload_timeline
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import savepoint_files
from tidelake.txn.liveness.heartbeat import Heartbeat, delete_seals, is_alive, last_beats
from tidelake.txn.liveness.markers import delete_markers
from tidelake.txn.metadata_keeper import MetadataKeeper, NoMetadataTable
from tidelake.txn.protocol.fenced_publish import complete, request, start_requested
from tidelake.txn.protocol.instant_times import InstantTimes
from tidelake.txn.rollback.failed_files import Undone, files_by_listing, plan_requests

_log = logging.getLogger(__name__)


def failed_writes(timeline: Timeline, contents: TimelineContents) -> Sequence[Instant]:
    """Return the writes that never completed, newest first; services keep their plans."""
    pending = [i for i in timeline.pending if i.planned_as in WRITE_ACTIONS]
    return [i for i in reversed(pending) if not _is_service(i, timeline, contents)]


def roll_back_failed(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    contents: TimelineContents,
    times: InstantTimes,
    *,
    use_markers: bool = True,
    keeper: MetadataKeeper | None = None,
    spared: Collection[str] = (),
) -> bool:
    """Finish rollbacks that somebody began, then roll back every failed write but the `spared`.

    Return whether anything was done: the timeline has changed then.
    """
    rollback = Rollback(env, config, timeline, times, keeper or NoMetadataTable(env))
    done: set[str] = set()
    begun = [i for i in timeline.pending if i.action is Action.ROLLBACK]
    for instant in begun:
        done |= rollback.resume(instant, contents)
    done.update(spared)
    failed = [i for i in failed_writes(timeline, contents) if i.requested_time not in done]
    for instant in failed:
        rollback.run(instant, use_markers=use_markers)
    return bool(begun or failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A rollback on the timeline that waits to be carried out."""

    requested_time: str
    target: InstantInfo
    plan: RollbackPlan
    keep_plan: bool = False


class Rollback:
    """Rolls back instants of one table, as the timeline shows them."""

    def __init__(
        self,
        env: Env,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        keeper: MetadataKeeper,
        concurrency: Concurrency | None = None,
    ) -> None:
        self._env = env
        self._keeper = keeper
        self._concurrency = concurrency or Concurrency()
        self._storage = env.storage
        self._config = config
        self._timeline = timeline
        self._times = times
        self._publisher = Publisher(env.storage, config)

    def run(
        self,
        instant: Instant,
        *,
        use_markers: bool = True,
        keep_plan: bool = False,
        is_sealed: bool = False,
    ) -> None:
        """Roll back one instant that never completed.

        With `keep_plan` it is an attempt at a service, after which the service is requested again.
        """
        scheduled = self.schedule(
            instant, use_markers=use_markers, keep_plan=keep_plan, is_sealed=is_sealed
        )
        self.carry_out(scheduled)

    def schedule(
        self,
        instant: Instant,
        *,
        use_markers: bool = True,
        keep_plan: bool = False,
        is_sealed: bool = False,
    ) -> Scheduled:
        """Put the rollback of an instant that never completed on the timeline.

        Where several write, the timeline must have been loaded under the lock that is held now.
        `is_sealed` says that the writer rolls itself back, and has told its tasks so.
        """
        if not is_sealed:
            self._storage.delete(heartbeat_path(instant.requested_time))
        action = instant.planned_as if keep_plan else instant.planned_as.completed_as
        target = InstantInfo(commit_time=instant.requested_time, action=action.value)
        requests = plan_requests(
            self._storage,
            self._config,
            instant.requested_time,
            use_markers=use_markers,
            base_files_only=instant.planned_as is Action.COMPACTION,
        )
        plan = RollbackPlan(instant_to_rollback=target, rollback_requests=tuple(requests))
        return Scheduled(
            requested_time=self._request(plan), target=target, plan=plan, keep_plan=keep_plan
        )

    def run_completed(self, instant: Instant, partitions: Sequence[str]) -> RollbackMetadata:
        """Roll back an instant that completed, and that wrote to these partitions alone.

        Whoever calls this knows that nothing was built on it since, and holds the lock.
        """
        return self.carry_out(self.schedule_completed(instant, partitions))

    def schedule_completed(self, instant: Instant, partitions: Sequence[str]) -> Scheduled:
        """Put the rollback of an instant that completed on the timeline."""
        target = InstantInfo(commit_time=instant.requested_time, action=instant.action.value)
        requests = files_by_listing(
            self._storage, self._config, instant.requested_time, partitions=partitions
        )
        plan = RollbackPlan(instant_to_rollback=target, rollback_requests=tuple(requests))
        return Scheduled(requested_time=self._request(plan), target=target, plan=plan)

    def take_off(
        self, target: InstantInfo, *, rollback_time: str, partitions: Sequence[str] | None
    ) -> RollbackMetadata:
        """Undo an instant without a rollback on the timeline: a restore stands for all of its own.

        Without `partitions` the whole table is looked at. Calling this again finishes the work.
        """
        requests = tuple(
            files_by_listing(self._storage, self._config, target.commit_time, partitions=partitions)
        )
        began_ms = self._env.clock.now_ms()
        # One that does not honour the lock may have completed it since.
        self._timeline = reload_timeline(self._storage, self._config)
        self._hide(target)
        done = self._delete(requests, rollback_time, target)
        self._concurrency.ensure()
        self._forget(target, keep_plan=False)
        return self._metadata(rollback_time, target, done, began_ms)

    def _request(self, plan: RollbackPlan) -> str:
        requested_time, content = self._times.next(), plans.encode(plan)
        while not request(
            self._publisher, self._concurrency, requested_time, Action.ROLLBACK, content
        ):
            requested_time = self._times.next()
        return requested_time

    def resume(self, rollback: Instant, contents: TimelineContents) -> set[str]:
        """Carry out a rollback that somebody began; return the instants that are off the table."""
        found = self.find(rollback, contents)
        if found is None:
            return set()
        self.carry_out(found)
        return {found.target.commit_time}

    def find(self, rollback: Instant, contents: TimelineContents) -> Scheduled | None:
        """Return a rollback that somebody began; None when it had not done anything, and is gone.

        Where several write, one that cannot be read is kept: somebody may be at it.
        """
        try:
            plan = contents.rollback_plan(rollback)
        except MissingFileError:
            # It is done and archived; a process that was stopped for long put this file back.
            self._publisher.remove([_file_name(rollback)])
            return None
        except CorruptFileError as cause:
            if rollback.state is not State.REQUESTED or self._concurrency.is_shared:
                raise
            # As Apache Hudi does: before it is inflight, a rollback has not touched anything.
            _log.warning("rollback %s has no readable plan and is removed", cause.path)
            self._publisher.remove([_file_name(rollback)])
            return None
        target = plan.instant_to_rollback
        if target is None or not names_a_write(target):
            raise UnsupportedTableError(
                f"the pending rollback {rollback.requested_time} does not say what to roll back",
                next_step=f"remove {rollback.requested_time}.rollback.* from the timeline folder; "
                "the write that failed is then rolled back anew",
            )
        # The plan of a service is not taken back with an attempt to carry it out.
        keep_plan = any(
            _is_service(i, self._timeline, contents)
            for i in self._timeline.pending
            if i.requested_time == target.commit_time and i.action is not Action.SAVEPOINT
        )
        return Scheduled(
            requested_time=rollback.requested_time, target=target, plan=plan, keep_plan=keep_plan
        )

    def carry_out(self, scheduled: Scheduled) -> RollbackMetadata:
        """Do what a rollback says, all of it or what is left.

        Raises `PlanRunningError` where several write and somebody else is at it.
        """
        heartbeat = self._heartbeat(scheduled.requested_time)
        if heartbeat is None:
            return self._carry_out(scheduled, None)
        try:
            metadata = self._carry_out(scheduled, heartbeat)
        except TidelakeError:
            heartbeat.give_up()
            raise
        finally:
            heartbeat.stop()
        heartbeat.end()
        return metadata

    def _carry_out(self, scheduled: Scheduled, heartbeat: Heartbeat | None) -> RollbackMetadata:
        time, target = scheduled.requested_time, scheduled.target
        began_ms = self._env.clock.now_ms()
        with self._concurrency.section():
            if heartbeat is not None:
                self._refuse_running(time)
                heartbeat.beat()
                heartbeat.keep_beating()
                # Whoever was stopped for long might put a file back that others have archived.
                self._concurrency.ensure()
            self._times.refuse_future()
            if not start_requested(self._publisher, time, Action.ROLLBACK):
                self._refuse_taken_back(time)
            is_forgotten = self._hide(target)
        done = self._delete(scheduled.plan.rollback_requests or (), time, target)
        with self._concurrency.section():
            if heartbeat is not None:
                self._refuse_taken_over(time, heartbeat)
                self._concurrency.ensure()
            self._forget(target, keep_plan=scheduled.keep_plan)
            metadata = self._metadata(time, target, done, began_ms)
            changes = done.changes(with_deletes=not is_forgotten)
            if changes:
                self._concurrency.ensure()
                self._keeper.record(time, changes, self._times)
            completion_time = self._times.next()
            path = self._publisher.completed_path(time, Action.ROLLBACK, completion_time)
            what = f"the end of rollback {time}"
            complete(self._storage, self._concurrency, path, plans.encode(metadata), what)
        return metadata

    def _heartbeat(self, rollback_time: str) -> Heartbeat | None:
        """Return what says that somebody is at the rollback; a writer that is alone needs none."""
        if not self._concurrency.is_shared:
            return None
        return Heartbeat(
            self._env,
            rollback_time,
            interval_ms=self._concurrency.heartbeat_ms,
            expires_ms=self._concurrency.expires_after_ms,
            owner=self._env.ids.new(),
        )

    def _refuse_running(self, rollback_time: str) -> None:
        timeline = reload_timeline(self._storage, self._config)
        self._times.see(timeline)
        is_pending = any(
            i.requested_time == rollback_time and i.action is Action.ROLLBACK
            for i in timeline.pending
        )
        expires_ms = self._concurrency.expires_after_ms
        is_running = is_alive(last_beats(self._env), rollback_time, expires_ms=expires_ms)
        if is_running or not is_pending:
            raise PlanRunningError(
                f"rollback {rollback_time} is carried out by somebody else",
                next_step="nothing is left to do; if it died, the next clean goes on with it once "
                f"it has given no sign of life for {expires_ms // 1000} s",
            )

    def _refuse_taken_back(self, rollback_time: str) -> None:
        """Raise when the rollback is not there any more, and not only inflight already."""
        if not self._publisher.is_pending(rollback_time, Action.ROLLBACK, State.INFLIGHT):
            raise PlanRunningError(
                f"rollback {rollback_time} was taken back by who put it on the timeline, or has "
                "been carried out",
                next_step="nothing is left to do",
            )

    def _refuse_taken_over(self, rollback_time: str, heartbeat: Heartbeat) -> None:
        # A writer that was taken for dead may have gone on, and put another file on the timeline.
        self._timeline = reload_timeline(self._storage, self._config)
        self._times.see(self._timeline)
        if not heartbeat.is_ours():
            raise PlanRunningError(
                f"rollback {rollback_time} was taken over by somebody else",
                next_step="nothing is left to do; this one gave no sign of life for too long",
            )

    def _hide(self, target: InstantInfo) -> bool:
        """Take the instant out of readers' sight; return whether the metadata table forgot it."""
        self._concurrency.ensure()
        self._storage.delete(heartbeat_path(target.commit_time))
        names = self._files_on_timeline(target)
        # Readers must not see half of it, should it have completed once.
        self._publisher.remove(n for n in names if names[n] is State.COMPLETED)
        self._concurrency.ensure()
        return self._keeper.undo(target.commit_time, self._times)

    def _delete(
        self, requests: Iterable[RollbackRequest], rollback_time: str, target: InstantInfo
    ) -> Undone:
        done = Undone(self._storage, self._config)
        for wanted in requests:
            # Under the lock this takes long enough for it to run out.
            self._concurrency.extend()
            done.undo(wanted, rollback_time=rollback_time, failed_time=target.commit_time)
        return done

    def _forget(self, target: InstantInfo, *, keep_plan: bool) -> None:
        """Take what is left of the instant off the timeline, and its markers after that.

        A savepoint of it keeps nothing any more.
        """
        names = self._files_on_timeline(target)
        # The completed file may have arrived since the instant was hidden.
        left = {State.COMPLETED, State.INFLIGHT} | (set() if keep_plan else {State.REQUESTED})
        self._publisher.remove(n for n in names if names[n] in left)
        self._publisher.remove(savepoint_files(self._timeline, target.commit_time))
        delete_markers(self._storage, target.commit_time)
        delete_seals(self._storage, target.commit_time)

    def _metadata(
        self, rollback_time: str, target: InstantInfo, done: Undone, began_ms: int
    ) -> RollbackMetadata:
        return RollbackMetadata(
            start_rollback_time=rollback_time,
            time_taken_in_millis=max(0, self._env.clock.now_ms() - began_ms),
            total_files_deleted=sum(len(deleted) for deleted in done.deleted.values()),
            commits_rollback=(target.commit_time,),
            partition_metadata=done.by_partition(),
            instants_rollback=(target,),
        )

    def _files_on_timeline(self, target: InstantInfo) -> Mapping[str, State]:
        found = {}
        for file_name in self._timeline.file_names | self._timeline.late_files:
            name = InstantName.parse(file_name, self._config.layout_version)
            if (
                name is not None
                and name.requested_time == target.commit_time
                and name.action.completed_as is Action(target.action).completed_as
            ):
                found[file_name] = name.state
        return found


def names_a_write(target: InstantInfo) -> bool:
    """Return whether a plan names something that can be taken off a table."""
    return target.action in set(Action) and Action(target.action).completed_as in WRITE_ACTIONS


def _is_service(instant: Instant, timeline: Timeline, contents: TimelineContents) -> bool:
    if instant.planned_as is Action.REPLACECOMMIT:
        # Layout 1 has one word for clusterings and overwrites.
        return timeline.has_file(instant, State.REQUESTED) and contents.is_clustering(instant)
    return instant.planned_as not in WRITE_ACTIONS


def _file_name(instant: Instant) -> str:
    assert instant.file_name is not None  # only archived instants have none
    return instant.file_name
