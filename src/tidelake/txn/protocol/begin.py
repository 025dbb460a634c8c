"""How a write comes onto the timeline: the first of the steps in `txn.protocol.transaction`."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.config import ConcurrencyMode, TableConfig
from tidelake.config.keys import concurrency_keys
from tidelake.env import Env
from tidelake.errors import LockLostError, PlanRunningError, RestorePendingError
from tidelake.model import WRITE_ACTIONS, Action, Instant
from tidelake.timeline import Publisher, Timeline, TimelineContents, load_timeline, reload_timeline
from tidelake.timeline.table_properties import BACKUP_PATH, refuse_cut, repair_table_config
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import going
from tidelake.txn.liveness.heartbeat import live_writers, refuse_live
from tidelake.txn.metadata_keeper import MetadataKeeper, NoMetadataTable
from tidelake.txn.protocol.fenced_publish import leave, request
from tidelake.txn.protocol.instant_times import InstantTimes
from tidelake.txn.protocol.transaction import Transaction
from tidelake.txn.rollback.rollback import Rollback, roll_back_failed


def enter_section(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    keeper: MetadataKeeper,
    concurrency: Concurrency,
    *,
    roll_back: bool,
    use_markers: bool,
    is_service: bool = False,
    is_fresh: bool = False,
    contents: TimelineContents | None = None,
) -> tuple[TableConfig, Timeline, InstantTimes]:
    """Do what comes before any change of a table; return its settings and timeline after that.

    Call it inside of the section of `concurrency`. A service (`is_service`) of a process that has
    the table for itself gives way to every writer that gives signs of life. A write of such a
    process takes what is pending for dead, unless it is known to run. `is_fresh` says that `config`
    and `timeline` were loaded inside of the section, in this order; `contents` are those of
    timeline files that the caller has read.
    """
    if not concurrency.is_shared:
        _refuse_others(env, timeline, concurrency, is_service=is_service)
    elif not is_fresh:
        timeline = load_timeline(env.storage, config)
    refuse_cut(config)
    knows_backup = is_fresh or concurrency.is_shared
    if not knows_backup or timeline.may_have(BACKUP_PATH):
        is_fresh = not repair_table_config(env) and is_fresh
    times = concurrency.times(env, config, timeline)
    restore = next((i for i in timeline.pending if i.action is Action.RESTORE), None)
    if restore is not None:
        raise RestorePendingError(restore.requested_time)
    if timeline.late_files:
        # Apache Hudi would take them for commits.
        concurrency.ensure()
        Publisher(env.storage, config).remove(timeline.late_files)
    config = keeper.prepare(config, timeline, times, is_fresh=is_fresh)
    contents = contents or TimelineContents(env.storage, config)
    leaving = going(timeline, contents)
    if leaving and concurrency.is_shared:
        rollback = Rollback(env, config, timeline, times, keeper, concurrency)
        _finish(rollback, leaving, contents)
        timeline = reload_timeline(env.storage, config)
    if roll_back and roll_back_failed(
        env, config, timeline, contents, times, use_markers=use_markers, keeper=keeper
    ):
        timeline = reload_timeline(env.storage, config)
    return config, timeline, times


def _finish(
    rollback: Rollback, leaving: Mapping[Instant, Instant], contents: TimelineContents
) -> None:
    """Bring rollbacks of completed writes to their end: nobody may build on those any more."""
    for instant, begun in leaving.items():
        try:
            rollback.resume(begun, contents)
        except PlanRunningError as cause:
            raise PlanRunningError(
                f"rollback {begun.requested_time} takes {instant.requested_time} back, and "
                "somebody else is at it",
                next_step="run this again when that has ended; if that process is dead, it counts "
                "as such once its heartbeat has expired",
            ) from cause


def _refuse_others(
    env: Env, timeline: Timeline, concurrency: Concurrency, *, is_service: bool
) -> None:
    """Raise `ConfigError` when others write right now to a table that this process has for itself.

    It would roll back what they are about to commit, or commit what they do not see.
    """
    pending = [i for i in timeline.pending if i.planned_as in WRITE_ACTIONS]
    live = live_writers(env, pending, expires_ms=concurrency.expires_after_ms)
    refuse_live(
        (writer for writer in live if is_service or writer.is_known_to_run),
        why=f"this process is told that it is alone ({ConcurrencyMode.SINGLE_WRITER})",
        next_step="let it finish; or let every writer share the table, by "
        f"{concurrency_keys.CONCURRENCY_MODE.name}={ConcurrencyMode.OPTIMISTIC}",
    )


def begin(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    *,
    action: Action,
    operation: str,
    write_id: str | None = None,
    roll_back: bool = True,
    use_markers: bool = True,
    keeper: MetadataKeeper | None = None,
    concurrency: Concurrency | None = None,
    seen: Timeline | None = None,
    contents: TimelineContents | None = None,
    is_fresh: bool = False,
) -> Transaction:
    """Roll back what failed before, and put a new write on the timeline.

    `timeline` must be what the table has right now, without a commit under `write_id`; where others
    write, it is loaded again, unless it `is_fresh`: loaded, behind `config`, inside of the section
    that the caller is in. `contents` are those of timeline files that the caller has read.
    `roll_back` is the policy EAGER; without it failed writes stay where they are. Without `keeper`
    the table loses its metadata table. Plan the write with the transaction's `config` and
    `timeline`, and list files after this call only: both may have changed. A write that found its
    file groups earlier says in `seen` on which timeline.
    """
    concurrency = concurrency or Concurrency()
    keeper = keeper or NoMetadataTable(env)
    asked = timeline
    with concurrency.section():
        config, timeline, times = enter_section(
            env,
            config,
            timeline,
            keeper,
            concurrency,
            roll_back=roll_back,
            use_markers=use_markers,
            is_fresh=is_fresh,
            contents=contents,
        )
        publisher = Publisher(env.storage, config)
        requested_time = times.next()
        while not request(publisher, concurrency, requested_time, action, looks_behind=False):
            requested_time = times.next()
        txn = Transaction(
            env,
            config,
            timeline,
            times=times,
            requested_time=requested_time,
            action=action,
            operation=operation,
            write_id=write_id,
            keeper=keeper,
            concurrency=concurrency,
            seen=seen,
            asked=asked,
            contents=contents,
        )
        txn.show_life()
        try:
            leave(publisher, concurrency, requested_time, action, whole=is_fresh)
        except LockLostError:
            txn.heartbeat.end()
            raise
        return txn
