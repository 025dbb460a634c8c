"""Taking the table back to a savepoint.

1. Writes that failed are rolled back.
2. `restore.requested` says which instants go, newest first. From here on nobody else may change the
   table, and whoever restores it goes on with this plan.
3. `restore.inflight`, then instant by instant: its completed file goes, so that no reader sees it
   any more, then what the metadata table says of it, then its data files, then the rest of it on
   the timeline.
4. What the metadata table lists is held to storage: what it cannot forget it learns to be gone.
5. The completed restore appears, with what was undone.

A crash leaves a pending restore. Restoring to the same savepoint again goes on from there. What the
metadata table lists meanwhile and nobody has any more is of instants that no reader sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    HorizonError,
    RestorePendingError,
    UnsupportedTableError,
)
from tidelake.formats import plans
from tidelake.formats.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
)
from tidelake.model import WRITE_ACTIONS, Action, Instant
from tidelake.services.clean_plan import refuse_doomed
from tidelake.services.done_log import log_done
from tidelake.services.plan import ServicePlan, Undoing
from tidelake.services.rollback import (
    files_of_instants,
    refuse_writers,
    roll_back_all_failed,
    written_partitions,
)
from tidelake.services.savepoint import find_savepoint
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.timeline import Publisher
from tidelake.txn import MetadataKeeper
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.protocol.fenced_publish import complete, request
from tidelake.txn.rollback.rollback import Rollback, names_a_write


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A restore that took place, and the instants that it took back, newest first."""

    requested_time: str
    completion_time: str
    savepoint: str
    instants: tuple[str, ...]
    files_deleted: int


def restore(
    env: Env,
    savepoint: str,
    keeper: MetadataKeeper | None = None,
    *,
    concurrency: Concurrency | None = None,
) -> Restored:
    """Make the table what it was when `savepoint` was current, and forget everything since.

    All of it happens under the lock of `concurrency`. Raises `ConfigError` when there is no such
    savepoint or others are writing, `HorizonError` when files of it are gone or going or later
    instants are archived already, and `RestorePendingError` when another restore has not finished.
    Before `restore.requested` appears, nothing is changed. Without `keeper` the metadata table is
    taken out of use.
    """
    shared = concurrency or Concurrency()
    began_ms = env.clock.now_ms()
    with shared.section():
        now = ServiceContext.load_restoring(env, keeper, shared)
        pending = next((i for i in now.state.timeline.pending if i.action is Action.RESTORE), None)
        if pending is not None:
            plan = now.state.contents.restore_plan(pending)
            if plan.savepoint_to_restore_timestamp not in (None, savepoint):
                raise RestorePendingError(pending.requested_time)
            _refuse_bad_plan(now.state, pending, plan)
        find_savepoint(now.state, savepoint)
        if pending is None:
            _refuse_lost_files(now.state, savepoint)
            _refuse_archived(now.state, savepoint)
            refuse_writers(now)
            roll_back_all_failed(env, keeper, concurrency=shared)
            now = ServiceContext.load(env, keeper, shared)
            plan = plan_restore(now.state, savepoint)
        shared.ensure()
        now.keeper.prepare(now.state.config, now.state.timeline, now.times)
        requested_time = _request(now, plan) if pending is None else pending.requested_time
        done = _run(now, requested_time, plan)
    facts = f"{len(done.instants)} instants taken back, {done.files_deleted} files deleted"
    log_done(env, began_ms, "restore to", savepoint, facts)
    return done


def show_restore(state: TableState, savepoint: str) -> ServicePlan:
    """Return what a restore would take off the table; raise as `restore` does."""
    find_savepoint(state, savepoint)
    _refuse_lost_files(state, savepoint)
    _refuse_archived(state, savepoint)
    times = [target.commit_time for target in plan_restore(state, savepoint).instants_to_rollback]
    return ServicePlan(
        service=Undoing.RESTORE,
        reason=f"{len(times)} instants came after {savepoint}",
        files_deleted=tuple(files_of_instants(state, set(times), None)),
        facts={"instants taken back": ", ".join(times) or "none"},
    )


def plan_restore(state: TableState, savepoint: str) -> RestorePlan:
    """Return what goes, newest first: every write that took effect after the savepoint.

    Up to table version 7 that goes by requested time, so that a compaction that was planned before
    the savepoint stays. A plan that waits is dropped when it was made later: it may name files that
    go.
    """
    completed = list(state.completed_after(_saved(state, savepoint)))
    if state.by_completion_time:
        completed.sort(key=lambda i: i.completion_time or "")
    plans_since = [
        i
        for i in state.timeline.pending
        if i.planned_as.completed_as in WRITE_ACTIONS and i.requested_time > savepoint
    ]
    return RestorePlan(
        instants_to_rollback=tuple(
            InstantInfo(commit_time=i.requested_time, action=i.action.value)
            for i in (*reversed(plans_since), *reversed(completed))
        ),
        version=2,
        savepoint_to_restore_timestamp=savepoint,
    )


def _saved(state: TableState, savepoint: str) -> Instant:
    (saved,) = (i for i in state.timeline.writes() if i.requested_time == savepoint)
    return saved


def _refuse_bad_plan(state: TableState, pending: Instant, plan: RestorePlan) -> None:
    """Refuse a plan that names what is no write, before anything is deleted."""
    for target in plan.instants_to_rollback:
        if not names_a_write(target):
            time, folder = pending.requested_time, state.config.timeline_folder
            raise UnsupportedTableError(
                f"the pending restore {time} is to take back {target.action!r:.40} "
                f"{target.commit_time!r:.40}, which is no write",
                next_step=f"if {folder}/{time}.restore.inflight is not there, nothing was deleted: "
                f"remove {folder}/{time}.restore.requested and restore again",
            )


def _request(now: ServiceContext, plan: RestorePlan) -> str:
    publisher = Publisher(now.env.storage, now.state.config)
    requested_time, content = now.times.next(), plans.encode(plan)
    while not request(publisher, now.concurrency, requested_time, Action.RESTORE, content):
        requested_time = now.times.next()
    return requested_time


def _run(now: ServiceContext, requested_time: str, plan: RestorePlan) -> Restored:
    state = now.state
    publisher = Publisher(now.env.storage, state.config)
    began_ms = now.env.clock.now_ms()
    now.concurrency.ensure()
    publisher.start(requested_time, Action.RESTORE)
    rollback = Rollback(
        now.env, state.config, state.timeline, now.times, now.keeper, now.concurrency
    )
    undone: dict[str, tuple[RollbackMetadata | None, ...]] = {}
    for target in plan.instants_to_rollback:
        done = rollback.take_off(
            target,
            rollback_time=now.times.next(),
            partitions=_partitions(state, target),
        )
        undone[target.commit_time] = (done,)
    now.concurrency.ensure()
    now.keeper.reconcile(requested_time, now.times)
    times = tuple(target.commit_time for target in plan.instants_to_rollback)
    metadata = RestoreMetadata(
        start_restore_time=requested_time,
        time_taken_in_millis=max(0, now.env.clock.now_ms() - began_ms),
        instants_to_rollback=times,
        hoodie_restore_metadata=undone,
        restore_instant_info=plan.instants_to_rollback,
    )
    completion_time = now.times.next()
    path = publisher.completed_path(requested_time, Action.RESTORE, completion_time)
    what = f"the end of restore {requested_time}"
    complete(now.env.storage, now.concurrency, path, plans.encode(metadata), what)
    return Restored(
        requested_time=requested_time,
        completion_time=completion_time,
        savepoint=plan.savepoint_to_restore_timestamp or "",
        instants=times,
        files_deleted=sum(
            done.total_files_deleted for found in undone.values() for done in found if done
        ),
    )


def _partitions(state: TableState, target: InstantInfo) -> Sequence[str] | None:
    """Return where an instant left files; None when nothing on the timeline tells.

    That is so for a plan, and where an attempt that crashed has deleted the completed file and not
    yet all others.
    """
    for instant in state.timeline.completed:
        if (instant.requested_time, instant.action.value) == (target.commit_time, target.action):
            try:
                return written_partitions(state.contents.commit_metadata(instant))
            except CorruptFileError:
                return None
    return None


def _refuse_lost_files(state: TableState, savepoint: str) -> None:
    instant = find_savepoint(state, savepoint)
    kept = state.contents.savepoint_metadata(instant).partition_metadata
    files = state.listing().files_of(sorted(kept))
    for partition, found in kept.items():
        there = {file.name for file in files[partition]}
        for path in found.savepoint_data_file:
            name = _name(path)
            if name not in there:
                raise HorizonError(
                    f"the table cannot be restored to {savepoint}: its file {partition}/{name} is "
                    "gone",
                    next_step="restore to a later savepoint, or bring the file back from the "
                    "storage's versions",
                )
    refuse_doomed(
        state,
        {p: [_name(path) for path in found.savepoint_data_file] for p, found in kept.items()},
        problem=f"the table cannot be restored to {savepoint}",
        next_step="let that clean finish, and restore to a later savepoint",
    )
    if not any(i.requested_time == savepoint for i in state.timeline.writes()):
        raise ConfigError(
            f"{savepoint} is not on the active timeline any more",
            next_step="restore to another savepoint",
        )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _refuse_archived(state: TableState, savepoint: str) -> None:
    """Refuse when later writes are in the history, from which nothing is ever taken."""
    saved = _saved(state, savepoint)
    later = [
        i.requested_time
        for i in state.history.instants_since(savepoint)
        if i.action in WRITE_ACTIONS and state.is_after(i, saved)
    ]
    if later:
        raise HorizonError(
            f"the table cannot be restored to {savepoint}: {len(later)} later writes are archived, "
            f"such as {later[0]}",
            next_step="restore to a savepoint after the newest archived write, or read the table "
            f"as of {savepoint} and write that to a new one",
        )
