"""Deleting what a clean plan names.

1. `clean.requested` appears with the plan. Before it, nothing has happened; after it whoever comes
   next, Apache Hudi included, carries out the same plan.
2. `clean.inflight`, then the files go; one that is gone already counts as done.
3. The metadata table learns of it, and the completed clean appears, which says what is gone and how
   far back the table can be read.

A crash leaves a pending clean, and the next clean finishes it before it makes a plan of its own.
Where several write, steps 1 and 3 are made under the table's lock, and the files go without it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.config import CleanOptions, TableConfig
from tidelake.env import Env
from tidelake.errors import (
    CorruptFileError,
    MissingFileError,
    PlanCompletedError,
    PlanRemovedError,
)
from tidelake.formats import partition_metadata, plans, table_path
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CleanMetadata,
    CleanPartitionMetadata,
)
from tidelake.model import Action, Instant, State
from tidelake.services.clean_plan import CleanPlan, last_clean, plan_clean
from tidelake.services.done_log import log_done
from tidelake.services.rollback import roll_back_all_failed
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.timeline import Publisher
from tidelake.txn import FileChanges, MetadataKeeper
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.liveness.heartbeat import delete_stale_beats
from tidelake.txn.protocol.fenced_publish import complete, request, start_requested
from tidelake.txn.rollback.failed_files import absolute_path

_log = logging.getLogger(__name__)

#: The lists of plans and metadata hold absolute paths and bare names, respectively.
_VERSION = 2
#: Commits that a plan looked at in vain from which on a clean without files is worth an instant:
#: the next plan begins where this one ended.
_WORTH_AN_EMPTY_CLEAN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """A clean that took place; `earliest_retained` is empty when it moved no horizon."""

    requested_time: str
    completion_time: str
    earliest_retained: str
    files_deleted: int


def clean(
    env: Env,
    options: CleanOptions,
    keeper: MetadataKeeper | None = None,
    *,
    expires_ms: int | None = None,
    concurrency: Concurrency | None = None,
) -> Sequence[Cleaned]:
    """Finish cleans that somebody began, then clean the table as it is now.

    With `expires_ms`, which is the policy LAZY, writes that gave no sign of life for so long are
    rolled back first. Return what was cleaned, in order; nothing when no file is old enough.
    """
    shared = concurrency or Concurrency()
    if expires_ms is not None:
        roll_back_all_failed(env, keeper, expires_ms=expires_ms, concurrency=shared)
    now = ServiceContext.load(env, keeper, shared)
    done = [
        cleaned
        for instant in pending_cleans(now.state)
        if (cleaned := _run_unless_done(now, instant.requested_time)) is not None
    ]
    with shared.section():
        is_new = bool(done) or shared.is_shared
        now = ServiceContext.load(env, keeper, shared) if is_new else now
        stale_ms = shared.expires_after_ms if expires_ms is None else expires_ms
        delete_stale_beats(env, now.state.timeline.pending, expires_ms=stale_ms)
        requested_time = schedule_clean(now, options)
    if requested_time is not None:
        cleaned = _run_unless_done(ServiceContext.load(env, keeper, shared), requested_time)
        done += [] if cleaned is None else [cleaned]
    return done


def _run_unless_done(now: ServiceContext, requested_time: str) -> Cleaned | None:
    """Carry out a plan that was there; None: somebody else did, and nothing was left to do."""
    try:
        return run_clean(now, requested_time)
    except (PlanCompletedError, PlanRemovedError):
        return None


def pending_cleans(state: TableState) -> Sequence[Instant]:
    """Return the cleans that were begun and not finished."""
    return [i for i in state.timeline.pending if i.action is Action.CLEAN]


def schedule_clean(now: ServiceContext, options: CleanOptions) -> str | None:
    """Put a plan on the timeline and return its time, or None when there is nothing to do."""
    state = now.state
    plan = plan_clean(now, options)
    if plan.is_empty and not _is_worth_an_instant(state, plan):
        return None
    now.keeper.prepare(state.config, state.timeline, now.times)
    content = plans.encode(_encoded(now, plan))
    publisher = Publisher(now.env.storage, state.config)
    requested_time = now.times.next()
    while not request(publisher, now.concurrency, requested_time, Action.CLEAN, content):
        requested_time = now.times.next()
    return requested_time


def run_clean(now: ServiceContext, requested_time: str) -> Cleaned:
    """Carry out a pending plan, ours or Apache Hudi's.

    Raises `PlanRemovedError` when there is none, `PlanCompletedError` when it was carried out, and
    `CorruptFileError` when nobody can read it. When somebody else completes it meanwhile, that is
    what is returned.
    """
    instant = _find(now.state, requested_time)
    try:
        return _carried_out(now, requested_time, _readable_plan(now.state, instant))
    except (PlanCompletedError, PlanRemovedError, MissingFileError):
        now = ServiceContext.load(now.env, now.keeper, now.concurrency)
        done = _done_by_others(now.state, requested_time)
        if done is None:
            raise
        return done


def _done_by_others(state: TableState, requested_time: str) -> Cleaned | None:
    """Return what a clean did that is done by now, and perhaps archived."""
    key = (requested_time, Action.CLEAN)
    active = [i for i in state.timeline.completed if (i.requested_time, i.action) == key]
    archived = [i for i in state.history.instants_at(requested_time) if i.action is Action.CLEAN]
    if not (active or archived):
        return None
    done = (active or archived)[0]
    metadata = (state.contents if active else state.history).clean_metadata(done)
    if metadata is None:
        return None
    return Cleaned(
        requested_time=requested_time,
        completion_time=done.completion_time or "",
        earliest_retained=metadata.earliest_commit_to_retain,
        files_deleted=metadata.total_files_deleted,
    )


def _carried_out(now: ServiceContext, requested_time: str, plan: CleanerPlan) -> Cleaned:
    storage = now.env.storage
    began_ms = now.env.clock.now_ms()
    with now.concurrency.section():
        if now.concurrency.is_shared:
            now = ServiceContext.load(now.env, now.keeper, now.concurrency)
            _find(now.state, requested_time)
        now.times.refuse_future()
        config = now.keeper.prepare(now.state.config, now.state.timeline, now.times)
        publisher = Publisher(storage, config)
        now.concurrency.ensure()
        content = _inflight_content(config, plan)
        if not start_requested(publisher, requested_time, Action.CLEAN, content):
            _refuse_taken_back(publisher, requested_time)
    deleted = plans.doomed_files(plan)
    storage.delete_all([table_path.data_file(p, n) for p, names in deleted.items() for n in names])
    gone = [p for p in plan.partitions_to_be_deleted or () if _drop_empty_partition(now, p)]
    changes = FileChanges(deleted={p: names for p, names in deleted.items() if names}, gone=gone)
    metadata = CleanMetadata(
        start_clean_time=requested_time,
        time_taken_in_millis=max(0, now.env.clock.now_ms() - began_ms),
        total_files_deleted=sum(map(len, deleted.values())),
        earliest_commit_to_retain=_timestamp(plan.earliest_instant_to_retain),
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata={
            partition: CleanPartitionMetadata(
                partition_path=partition,
                policy=plan.policy,
                delete_path_patterns=deleted.get(partition, ()),
                success_delete_files=deleted.get(partition, ()),
                failed_delete_files=(),
                is_partition_deleted=partition in gone,
            )
            for partition in (*deleted, *(p for p in gone if p not in deleted))
        },
        version=_VERSION,
        bootstrap_partition_metadata={},
        extra_metadata=plan.extra_metadata or {},
    )
    with now.concurrency.section():
        if now.concurrency.is_shared:
            now = ServiceContext.load(now.env, now.keeper, now.concurrency)
            _find(now.state, requested_time)
        if changes:
            now.keeper.record(requested_time, changes, now.times)
        completion_time = now.times.next()
        path = publisher.completed_path(requested_time, Action.CLEAN, completion_time)
        what = f"the end of clean {requested_time}"
        complete(storage, now.concurrency, path, plans.encode(metadata), what)
    facts = f"{metadata.total_files_deleted} files deleted"
    log_done(now.env, began_ms, "clean", requested_time, facts)
    return Cleaned(
        requested_time=requested_time,
        completion_time=completion_time,
        earliest_retained=metadata.earliest_commit_to_retain,
        files_deleted=metadata.total_files_deleted,
    )


def _refuse_taken_back(publisher: Publisher, requested_time: str) -> None:
    """Raise when the clean is not there any more, and not only inflight already."""
    if not publisher.is_pending(requested_time, Action.CLEAN, State.INFLIGHT):
        raise PlanRemovedError(
            f"clean {requested_time} was taken back by who planned it, or has been carried out",
            next_step="there is nothing left to do",
        )


def _find(state: TableState, requested_time: str) -> Instant:
    for instant in state.timeline.instants:
        if (instant.requested_time, instant.action) == (requested_time, Action.CLEAN):
            if instant.is_completed:
                raise PlanCompletedError(
                    f"clean {requested_time} completed at {instant.completion_time}",
                    next_step="there is nothing left to do",
                )
            return instant
    pending = ", ".join(i.requested_time for i in pending_cleans(state))
    raise PlanRemovedError(
        f"the timeline has no clean {requested_time}",
        next_step=f"pending are {pending}" if pending else "schedule a clean first",
    )


def _readable_plan(state: TableState, instant: Instant) -> CleanerPlan:
    try:
        return state.contents.clean_plan(instant)
    except CorruptFileError as cause:
        folder, time = state.config.timeline_folder, instant.requested_time
        raise CorruptFileError(
            cause.path,
            cause.cause,
            next_step=f"delete {folder}/{time}.clean.requested and {folder}/{time}.clean.inflight "
            "and clean again: what this clean has deleted, nobody could read any more",
        ) from cause


def _is_worth_an_instant(state: TableState, plan: CleanPlan) -> bool:
    if plan.retained is None or not (plan.everywhere or plan.extent >= _WORTH_AN_EMPTY_CLEAN):
        return False
    last = last_clean(state)
    return last is None or plan.retained.requested_time > last.retained


def _encoded(now: ServiceContext, plan: CleanPlan) -> CleanerPlan:
    retained = plan.retained
    return CleanerPlan(
        earliest_instant_to_retain=None
        if retained is None
        else ActionInstant(
            timestamp=retained.requested_time,
            action=retained.action.value,
            state=State.COMPLETED.value.upper(),
        ),
        last_completed_commit_timestamp=plan.last_completed,
        policy=plan.policy.value,
        files_to_be_deleted_per_partition={},
        version=_VERSION,
        file_paths_to_be_deleted_per_partition={
            partition: tuple(
                CleanFileInfo(
                    file_path=absolute_path(now.env.storage, file.path),
                    is_bootstrap_base_file=False,
                )
                for file in files
            )
            for partition, files in plan.deleted.items()
        },
        partitions_to_be_deleted=(),
        extra_metadata=dict(plan.extra),
    )


def _inflight_content(config: TableConfig, plan: CleanerPlan) -> bytes:
    # Hudi 0.x throws away a pending clean whose inflight file is empty.
    return plans.encode(plan) if config.layout_version == LAYOUT_1 else b""


def _drop_empty_partition(now: ServiceContext, partition: str) -> bool:
    """Remove a partition that Apache Hudi planned to drop, unless it has files again, or may have.

    Others may be writing to it, and Apache Hudi orders what the metadata table learns of them by
    requested times: a clean that was requested later would take the partition off its list.
    """
    if now.concurrency.is_shared:
        return False
    storage = now.env.storage
    marker = f"{partition}/{partition_metadata.FILE_NAME}"
    if [path for path in storage.files_below(partition) if path != marker]:
        _log.warning("partition %s has files again and is kept", partition)
        return False
    storage.delete_folder(partition)
    return True


def _timestamp(instant: ActionInstant | None) -> str:
    return "" if instant is None else instant.timestamp
