"""Taking writes off the table: those that failed, and the newest that completed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelake.env import Env
from tidelake.errors import ConfigError, HorizonError, PlanRunningError
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import WRITE_ACTIONS, Action, Instant, State
from tidelake.services.clean_plan import files_beside_cleans, names_in, refuse_doomed
from tidelake.services.done_log import log_done
from tidelake.services.plan import PlannedFile, ServicePlan, Undoing
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.txn import MetadataKeeper, failed_writes
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import without
from tidelake.txn.liveness.heartbeat import is_alive, last_beats, live_writers, refuse_live
from tidelake.txn.rollback.rollback import Rollback

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """An instant that is off the table, under the time that it had."""

    requested_time: str
    files_deleted: int

    @property
    def instant(self) -> str:
        """Return `requested_time`, which is how the call named the instant."""
        return self.requested_time


def roll_back_all_failed(
    env: Env,
    keeper: MetadataKeeper | None = None,
    *,
    expires_ms: int | None = None,
    concurrency: Concurrency | None = None,
) -> Sequence[str]:
    """Finish rollbacks that were begun, and roll back every write that failed.

    Return the requested times of those writes. With `expires_ms` others may be writing, and only a
    write that gave no sign of life for so long has failed; without it whatever is pending has,
    unless it gives signs of life. The lock of `concurrency` is held while
    rollbacks are put on the timeline, newest write first, and not while they delete files.
    """
    shared = concurrency or Concurrency()
    with shared.section():
        now = ServiceContext.load(env, keeper, shared)
        pending = failed_writes(now.state.timeline, now.state.contents)
        begun = [i for i in now.state.timeline.pending if i.action is Action.ROLLBACK]
        if not (pending or begun):
            return []
        if expires_ms is None:
            live = live_writers(env, pending, expires_ms=shared.expires_after_ms)
            alive = {writer.instant_time for writer in live}
        else:
            beats = last_beats(env)
            alive = {
                i.requested_time
                for i in pending
                if is_alive(beats, i.requested_time, expires_ms=expires_ms)
            }
        failed = [i for i in pending if i.requested_time not in alive]
        if not (failed or begun):
            return []
        config = now.keeper.prepare(now.state.config, now.state.timeline, now.times)
        rollback = Rollback(env, config, now.state.timeline, now.times, now.keeper, shared)
        waiting = [
            found for i in begun if (found := rollback.find(i, now.state.contents)) is not None
        ]
        spoken_for = {found.target.commit_time for found in waiting}
        waiting += [rollback.schedule(i) for i in failed if i.requested_time not in spoken_for]
    for found in waiting:
        if found.keep_plan and shared.is_shared:
            continue  # whoever carries the plan out finishes it first
        try:
            rollback.carry_out(found)
        except PlanRunningError as cause:
            _log.info("%s", cause.problem)
    return sorted(i.requested_time for i in failed)


def roll_back(
    env: Env,
    requested_time: str,
    keeper: MetadataKeeper | None = None,
    *,
    concurrency: Concurrency | None = None,
    force: bool = False,
) -> RolledBack:
    """Roll back a write: one that did not complete, or the newest that did.

    All of it happens under the lock of `concurrency`. Raises `ConfigError` for an instant that
    cannot be rolled back, such as one that gives signs of life, unless `force` says that its writer
    is to lose it, and `HorizonError` when a clean has deleted what the table would have to go back
    to, or is about to.
    """
    shared = concurrency or Concurrency()
    began_ms = env.clock.now_ms()
    done = _rolled_back(env, requested_time, keeper, shared, force=force)
    log_done(env, began_ms, "rollback of", requested_time, f"{done.files_deleted} files deleted")
    return done


def _rolled_back(
    env: Env,
    requested_time: str,
    keeper: MetadataKeeper | None,
    shared: Concurrency,
    *,
    force: bool,
) -> RolledBack:
    with shared.section():
        now = ServiceContext.load(env, keeper, shared)
        instant = _refuse_needed(now, requested_time)
        if not instant.is_completed:
            if not force:
                _refuse_running(now, instant)
            return _roll_back_pending(now, instant)
        refuse_writers(now)
        roll_back_all_failed(env, keeper, concurrency=shared)
        before, now = now, ServiceContext.load(env, keeper, shared)
        if instant not in now.state.timeline.instants:
            # Its rollback had been begun before; without the lock others may have archived it.
            shared.ensure()
            if any(
                i.action in WRITE_ACTIONS for i in now.state.history.instants_at(requested_time)
            ):
                now.state.find_instant(requested_time)  # which says that it is archived
            return RolledBack(
                requested_time=requested_time, files_deleted=_deleted_since(before.state, now.state)
            )
        partitions = written_partitions(now.state.contents.commit_metadata(instant))
        done = _rollback(now).run_completed(instant, partitions)
    return RolledBack(requested_time=requested_time, files_deleted=done.total_files_deleted)


def _rollback(now: ServiceContext) -> Rollback:
    state = now.state
    now.concurrency.ensure()
    config = now.keeper.prepare(state.config, state.timeline, now.times)
    return Rollback(now.env, config, state.timeline, now.times, now.keeper, now.concurrency)


def refuse_writers(now: ServiceContext) -> None:
    """Raise `ConfigError` when somebody is writing who may have built on what is to go."""
    pending = failed_writes(now.state.timeline, now.state.contents)
    refuse_live(
        live_writers(now.env, pending, expires_ms=now.concurrency.expires_after_ms),
        why="it may build on what is to go",
        next_step="try again when it has ended",
    )


def _refuse_running(now: ServiceContext, instant: Instant) -> None:
    """Raise `ConfigError` when a write that is to be rolled back gives signs of life."""
    refuse_live(
        live_writers(now.env, [instant], expires_ms=now.concurrency.expires_after_ms),
        why="it is still running",
        next_step="let it finish; to take it off the table all the same, roll it back with force "
        "(`tidelake rollback --force`), upon which its writer is told that it is lost",
    )


def plan_roll_back(now: ServiceContext, requested_time: str) -> ServicePlan:
    """Return what a rollback would take off the table; raise as `roll_back` does."""
    instant = _refuse_needed(now, requested_time)
    partitions = None
    if instant.is_completed:
        partitions = written_partitions(now.state.contents.commit_metadata(instant))
    return ServicePlan(
        service=Undoing.ROLLBACK,
        reason=f"{instant.planned_as} {requested_time} is {instant.state}",
        files_deleted=tuple(files_of_instants(now.state, {requested_time}, partitions)),
    )


def files_of_instants(
    state: TableState, times: Collection[str], partitions: Sequence[str] | None
) -> Iterator[PlannedFile]:
    """Return the data files that instants left in some partitions, or anywhere."""
    listing = state.listing()
    wanted = listing.partitions() if partitions is None else partitions
    for partition, files in listing.files_of(wanted).items():
        for info in files:
            file = parse_base(partition, info.name, info.size_bytes) or parse_log(
                partition, info.name, info.size_bytes
            )
            if file is not None and file.instant_time in times:
                yield PlannedFile(path=file.path, size_bytes=info.size_bytes)


def written_partitions(metadata: CommitMetadata) -> Sequence[str]:
    """Return the partitions in which a commit left files."""
    return sorted(p for p, stats in metadata.partition_to_write_stats.items() if stats)


def _roll_back_pending(now: ServiceContext, instant: Instant) -> RolledBack:
    _rollback(now).run(instant)
    deleted = _deleted_since(
        now.state, ServiceContext.load(now.env, now.keeper, now.concurrency).state
    )
    return RolledBack(requested_time=instant.requested_time, files_deleted=deleted)


def _deleted_since(before: TableState, after: TableState) -> int:
    """Return how many files the rollbacks deleted that completed in between."""
    return sum(
        after.contents.rollback_metadata(instant).total_files_deleted
        for instant in after.timeline.completed
        if instant.action is Action.ROLLBACK and instant not in before.timeline.completed
    )


def _refuse_needed(now: ServiceContext, time: str) -> Instant:
    """Return the write; refuse to take away what somebody keeps, or has built on."""
    state = now.state
    instant = state.find_instant(time)
    if instant.planned_as.completed_as not in WRITE_ACTIONS:
        raise ConfigError(
            f"{time} is a {instant.planned_as}, which wrote no rows to take back",
            next_step="give the time of a commit, a deltacommit or a replacecommit",
        )
    failed = failed_writes(state.timeline, state.contents)
    if not instant.is_completed:
        if instant in failed:
            return instant
        raise ConfigError(
            f"{instant.planned_as} {time} is a plan that waits to be carried out",
            next_step="run it; a write that fails on its way is rolled back by itself",
        )
    if any(i.requested_time == time for i in state.savepoints()):
        raise ConfigError(
            f"{time} is kept by a savepoint",
            next_step=f"delete the savepoint of {time} first",
        )
    later = [
        i.requested_time
        for i in state.timeline.writes()
        if i != instant
        and (
            i.requested_time > time
            or (
                state.by_completion_time
                and (i.completion_time or "") > (instant.completion_time or "")
            )
        )
    ]
    if later:
        raise ConfigError(
            f"{time} is not the newest write: {', '.join(later)} came after it",
            next_step=f"roll back {later[-1]} first, or restore the table to a savepoint",
        )
    planned = [
        i
        for i in state.timeline.pending
        if i.requested_time > time
        and i.planned_as.completed_as in WRITE_ACTIONS
        and i not in failed
    ]
    if planned:
        raise ConfigError(
            f"{planned[0].planned_as} {planned[0].requested_time} was planned on what {time} wrote",
            next_step="run the plan and roll that back first",
        )
    _refuse_lost_past(state, instant, state.contents.commit_metadata(instant))
    return instant


def _refuse_lost_past(state: TableState, instant: Instant, metadata: CommitMetadata) -> None:
    """Refuse when the files are gone that were current before the instant."""
    replaced = metadata.partition_to_replace_file_ids
    needed: list[tuple[str, str, str | None]] = [
        (partition, file_id, None) for partition, ids in replaced.items() for file_id in ids
    ]
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            name = (stat.path or "").rpartition("/")[2]
            if stat.prev_commit not in (None, NO_PREVIOUS_COMMIT) and parse_base("", name, 0):
                needed.append((partition, stat.file_id or "", stat.prev_commit))
    there = _instants_by_group(state, sorted({partition for partition, _, _ in needed}))
    for partition, file_id, previous in needed:
        found = there.get((partition, file_id), set())
        is_there = (
            previous in found if previous else min(found, default="~") < (instant.requested_time)
        )
        if not is_there:
            raise _lost_past(instant, partition, file_id)
    _refuse_lost_logs(state, instant)
    _refuse_doomed_past(state, instant, metadata)


def _refuse_lost_logs(state: TableState, instant: Instant) -> None:
    """Refuse when files are gone that a compaction folded: the table would go back to them."""
    plan = Instant(
        requested_time=instant.requested_time, action=Action.COMPACTION, state=State.INFLIGHT
    )
    kinds = {(name.action, name.state) for _, name in state.timeline.files_of(plan)}
    if (Action.COMPACTION, State.REQUESTED) not in kinds:
        return
    operations = state.contents.compaction_plan(plan).operations or ()
    partitions = sorted({operation.partition_path or "" for operation in operations})
    there = {
        p: {f.name for f in files} for p, files in state.listing().files_of(partitions).items()
    }
    for operation in operations:
        partition = operation.partition_path or ""
        folded = (*(operation.delta_file_paths or ()), operation.data_file_path or "")
        names = {path.rpartition("/")[2] for path in folded if path}
        if not names <= there.get(partition, set()):
            raise _lost_past(instant, partition, operation.file_id)


def _lost_past(instant: Instant, partition: str, file_id: str) -> HorizonError:
    return HorizonError(
        f"{instant.requested_time} cannot be rolled back: what file group {file_id} of "
        f"partition {partition!r} held before it was cleaned away",
        next_step="restore the table to a savepoint, or write the rows anew",
    )


def _refuse_doomed_past(state: TableState, instant: Instant, metadata: CommitMetadata) -> None:
    """Refuse when a pending clean deletes what the table would go back to."""
    changed = {*metadata.partition_to_write_stats, *metadata.partition_to_replace_file_ids}
    past = state.with_timeline(without(state.timeline, [instant]))
    kept: dict[str, list[str]] = {}
    files = files_beside_cleans(state, sorted(changed))
    for found in past.view_of(files).latest_slices():
        kept.setdefault(found.group.partition, []).extend(names_in(found))
    refuse_doomed(
        state,
        kept,
        problem=f"{instant.requested_time} cannot be rolled back to what was there before it",
        next_step="let that clean finish, then restore the table to a savepoint, or write the rows "
        "anew",
    )


def _instants_by_group(
    state: TableState, partitions: Sequence[str]
) -> Mapping[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for partition, files in state.listing().files_of(partitions).items():
        for info in files:
            file = parse_base(partition, info.name, 0) or parse_log(partition, info.name, 0)
            if file is not None:
                found.setdefault((partition, file.file_id), set()).add(file.instant_time)
    return found
