"""Services in two steps: a plan is put on the timeline, and somebody carries it out.

`schedule`
1. What comes before any change of a table: see `txn.protocol.transaction`.
2. A time is taken, and the timeline loaded after that: what completed by then is in the plan.
3. `requested` appears, with the plan. Before it nothing has happened; after it whoever comes next,
   Apache Hudi included, may carry it out, today or in a week.

`take_over`
4. An attempt that ended half-way is rolled back: its files go, then `inflight`; the plan stays.
5. From `inflight` on it is a write like any other, save that an error takes back the attempt and
   never the plan. The heartbeat names its owner, so that an attempt that was taken for dead finds
   out before it commits, and its tasks before they leave a file.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
)
from tidelake.model import Action, Instant, State
from tidelake.timeline import Publisher, Timeline, TimelineContents, reload_timeline
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import rollback_target
from tidelake.txn.liveness.heartbeat import is_alive, last_beats, live_writers
from tidelake.txn.metadata_keeper import MetadataKeeper
from tidelake.txn.protocol.begin import enter_section
from tidelake.txn.protocol.fenced_publish import request
from tidelake.txn.protocol.transaction import Transaction
from tidelake.txn.rollback.rollback import Rollback

#: Makes the content of a plan for a table with this timeline, requested at this time; None: there
#: is nothing to do.
MakePlan = Callable[[Timeline, str], "bytes | None"]


def find_plan(timeline: Timeline, requested_time: str, action: Action) -> Instant:
    """Return the pending plan; raise when there is none, or it is done, or it is something else."""
    found = [i for i in timeline.instants if i.requested_time == requested_time]
    own = next((i for i in found if i.planned_as is action), None)
    if own is not None and not own.is_completed:
        return own
    own = own or next((i for i in found if _is_half_archived(timeline, i, action)), None)
    if own is not None:
        raise PlanCompletedError(
            f"{action} {requested_time} completed at {own.completion_time}",
            next_step="there is nothing left to do",
        )
    others = [i for i in found if i.action is not Action.SAVEPOINT]
    if others:
        raise ConfigError(
            f"{requested_time} is a {others[0].planned_as} and no {action}",
            next_step=f"schedule a {action} first, or give the time of one that is pending; "
            + _pending_plans(timeline, action),
        )
    raise PlanRemovedError(
        f"the timeline has no {action} {requested_time}: it was removed, or archived once it had "
        "completed",
        next_step=f"schedule a new {action} if there is still something to do; "
        + _pending_plans(timeline, action),
    )


def _is_half_archived(timeline: Timeline, instant: Instant, action: Action) -> bool:
    """Return whether the instant may be a plan of this kind that was carried out.

    Archival takes the plan off the timeline first, and the completed file last.
    """
    return (
        instant.is_completed
        and instant.action is action.completed_as
        and not timeline.has_file(instant, State.REQUESTED)
    )


def _pending_plans(timeline: Timeline, action: Action) -> str:
    plans = [i.requested_time for i in timeline.pending if i.planned_as is action]
    return f"pending are {', '.join(plans)}" if plans else f"no {action} is pending"


def schedule(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    *,
    action: Action,
    make_plan: MakePlan,
    keeper: MetadataKeeper,
    concurrency: Concurrency | None = None,
    roll_back: bool = True,
    use_markers: bool = True,
) -> str | None:
    """Put a plan on the timeline and return its time, or None when there is nothing to do."""
    concurrency = concurrency or Concurrency()
    with concurrency.section():
        config, timeline, times = enter_section(
            env,
            config,
            timeline,
            keeper,
            concurrency,
            roll_back=roll_back,
            use_markers=use_markers,
            is_service=True,
        )
        publisher = Publisher(env.storage, config)
        while True:
            requested_time = times.next()
            plan = make_plan(reload_timeline(env.storage, config), requested_time)
            if plan is None:
                return None
            if not config.format.has_own_logs:
                # Apache Hudi may not keep the metadata table of such a table while a plan waits.
                waits = Instant(requested_time=requested_time, action=action, state=State.REQUESTED)
                ahead = Timeline(instants=(*timeline.instants, waits))
                config = keeper.prepare(config, ahead, times)
            if request(publisher, concurrency, requested_time, action, plan):
                return requested_time


def take_over(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    *,
    requested_time: str,
    action: Action,
    operation: str,
    keeper: MetadataKeeper,
    concurrency: Concurrency | None = None,
    roll_back: bool = True,
    use_markers: bool = True,
    contents: TimelineContents | None = None,
) -> Transaction:
    """Return the transaction that carries out a pending plan; raise as `find_plan` does.

    `PlanRunningError` is raised for a plan that gives signs of life. `contents` are those of
    timeline files that the caller has read.
    """
    plan = find_plan(timeline, requested_time, action)
    concurrency = concurrency or Concurrency()
    with concurrency.section():
        _refuse_running(env, plan, concurrency)
        config, timeline, times = enter_section(
            env,
            config,
            timeline,
            keeper,
            concurrency,
            roll_back=roll_back,
            use_markers=use_markers,
            is_service=True,
            contents=contents,
        )
        contents = contents or TimelineContents(env.storage, config)
        rollback = Rollback(env, config, timeline, times, keeper, concurrency)
        if _finish_rollbacks(rollback, timeline, contents, requested_time):
            timeline = reload_timeline(env.storage, config)
        plan = find_plan(timeline, requested_time, action)
        if plan.state is State.INFLIGHT:
            rollback = Rollback(env, config, timeline, times, keeper, concurrency)
            rollback.run(plan, use_markers=use_markers, keep_plan=True)
            timeline = reload_timeline(env.storage, config)
        txn = Transaction(
            env,
            config,
            timeline,
            times=times,
            requested_time=requested_time,
            action=action,
            operation=operation,
            write_id=None,
            keeper=keeper,
            concurrency=concurrency,
            owner=env.ids.new(),
            contents=contents,
        )
        if concurrency.is_shared:
            txn.show_life()
        return txn


def _finish_rollbacks(
    rollback: Rollback, timeline: Timeline, contents: TimelineContents, requested_time: str
) -> bool:
    """Carry out rollbacks of earlier attempts that somebody began; return whether there were any.

    Left for later, one would take back what is about to be written under the same instant.
    """
    begun = [
        instant
        for instant in timeline.pending
        if instant.action is Action.ROLLBACK
        and rollback_target(instant, contents) == requested_time
    ]
    for instant in begun:
        rollback.resume(instant, contents)
    return bool(begun)


def _refuse_running(env: Env, plan: Instant, concurrency: Concurrency) -> None:
    """Raise `PlanRunningError` when somebody carries the plan out.

    Where one writes, an attempt is dead once its process has ended for sure; where several do, its
    tasks may outlive it, and it has to be silent for long enough.
    """
    expires_ms = concurrency.expires_after_ms
    if concurrency.is_shared:
        is_running = is_alive(last_beats(env), plan.requested_time, expires_ms=expires_ms)
    else:
        is_running = any(live_writers(env, [plan], expires_ms=expires_ms))
    if is_running:
        raise PlanRunningError(
            f"{plan.planned_as} {plan.requested_time} is being carried out by somebody else",
            next_step="let it finish; if it died, it may be run again once it has given no sign of "
            f"life for {expires_ms // 1000} s",
        )
