"""Faults that Apache Hudi or its RFCs had, or that a careless change would bring back.

Each is planted into the real code while a history is played.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest

from tidelake.config import ConcurrencyMode, TimeBasis
from tidelake.env import Env
from tidelake.errors import PlanRunningError
from tidelake.formats.metadata_encoding import encode_column_stats
from tidelake.metadata import statistics
from tidelake.metadata.keeper import MetadataTableKeeper
from tidelake.model import Instant, State, TableType
from tidelake.operations import compaction_run as compaction
from tidelake.operations import table_services as table_services
from tidelake.operations import write_schemas, write_session
from tidelake.services import clean_plan
from tidelake.services.service_context import ServiceContext
from tidelake.testing.simulation import Faults, History, play
from tidelake.timeline import Timeline, TimelineContents, load_timeline
from tidelake.txn import begin, concurrency, failed_writes
from tidelake.txn.concurrency import Concurrency, Reviewer
from tidelake.txn.conflicts import candidates
from tidelake.txn.conflicts import judge as conflict
from tidelake.txn.conflicts.candidates import Start
from tidelake.txn.conflicts.judge import Footprint, Kind, Rule
from tidelake.txn.liveness.heartbeat import Heartbeat, is_alive, last_beats
from tidelake.txn.locks import TableLock
from tidelake.txn.protocol import fenced_publish as late
from tidelake.txn.protocol import instant_times as time
from tidelake.txn.protocol import plans as planned
from tidelake.txn.protocol.transaction import Transaction
from tidelake.txn.rollback.passed_over import PassedOver
from tidelake.txn.rollback.rollback import Rollback
from tidelake.view import slicing, table_view

Plant = Callable[[pytest.MonkeyPatch], None]
#: A history of whatever seed.
World = History


def world(mode: ConcurrencyMode, table_type: TableType, **more: Any) -> World:
    made = History(seed=0, mode=mode, table_type=table_type, table_version=9)
    return replace(made, **more)


OCC_COW = world(ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE)
OCC_MOR = world(ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ)
NBCC = world(ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ)
#: Worlds in which one thing happens often.
KEEPING = replace(
    OCC_MOR, metadata=True, actors=("upsert 0", "merge 0", "savepoint 0", "savepoint 1", "read 0")
)
UNDOING = replace(
    OCC_COW,
    faults=Faults(stall=0.01, late_listing=0.01),
    actors=("upsert 0", "upsert 1", "clean 0", "clean 1", "roll back 0", "roll back 1", "read 0"),
)
LATE = replace(UNDOING, faults=Faults(late=0.1))
BEYOND = replace(
    OCC_COW,
    writes=4,
    faults=Faults(),
    archives_beyond_savepoints=True,
    actors=("upsert 0", "upsert 1", "savepoint 0", "archive 0", "archive 1", "delete savepoint 0"),
)
RETIRING = replace(
    NBCC,
    faults=Faults(stall=0.01),
    actors=("upsert 0", "upsert 1", "overwrite 0", "delete partition 0", "read 0"),
    modes=tuple(
        (name, ConcurrencyMode.OPTIMISTIC) for name in ("overwrite 0", "delete partition 0")
    ),
)
MIXED = replace(
    NBCC,
    actors=("upsert 0", "upsert 1", "read 0"),
    modes=(("upsert 1", ConcurrencyMode.OPTIMISTIC),),
)
CLEANED = replace(
    OCC_COW,
    faults=Faults(),
    is_dense=True,
    actors=("upsert 0", "upsert 1", "roll back failed 0", "roll back failed 1"),
)
#: Others cluster what is written to.
CLUSTERING = replace(
    OCC_COW,
    buckets=False,
    faults=Faults(),
    slow_ms=1_500,
    slow=("cluster 0",),
    actors=("upsert 0", "upsert 1", "merge 0", "cluster 0", "cluster 1", "read 0"),
)
#: One is told that it has the table for itself, and others add columns.
TOLD_ALONE = replace(
    OCC_COW,
    partitions=4,
    evolves=0.3,
    faults=Faults(),
    slow_ms=1_500,
    slow=("upsert 0",),
    actors=("upsert 0", "upsert 1", "upsert 2"),
    modes=(("upsert 0", ConcurrencyMode.SINGLE_WRITER),),
)
#: One waits for its rows while others write and clean.
SLOW = replace(
    OCC_COW,
    buckets=False,
    fills_small_files=False,
    inline=True,
    writes=6,
    faults=Faults(),
    slow_ms=1_500,
    slow=("upsert 0",),
    actors=("upsert 0", "upsert 1", "upsert 2", "read 0"),
)
#: Keys are looked up in an index, and writes are undone that it knows of.
INDEXED = replace(
    OCC_COW,
    metadata=True,
    with_index=True,
    buckets=False,
    faults=Faults(),
    actors=("upsert 0", "upsert 1", "savepoint 0", "roll back 0", "roll back 1", "restore 0"),
)
#: Files and partitions have statistics, by which queries leave them out.
TOLD = replace(OCC_COW, metadata=True, with_stats=True, buckets=False, fills_small_files=False)
#: Keys go from one partition to another.
MOVING = replace(
    OCC_COW,
    partitions=2,
    buckets=False,
    moves=True,
    faults=Faults(),
    actors=("upsert 0", "upsert 1", "delete 0"),
)
#: Keys are deleted that others bring.
DELETING = replace(
    OCC_COW, partitions=2, faults=Faults(), actors=("upsert 0", "delete 0", "delete 1", "read 0")
)


def no_high_water_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "_high_water", lambda _config, _timeline: "0" * 17)


def missing_pending_candidates(patch: pytest.MonkeyPatch) -> None:
    real = Start.of

    def forgetful(timeline: Timeline, requested_time: str) -> Start:
        return replace(real(timeline, requested_time), pending=frozenset())

    patch.setattr(Start, "of", staticmethod(forgetful))
    # Nor is there the second guard, for writers without the lock.
    patch.setattr("tidelake.txn.protocol.transaction.came_late", lambda *_, **__: [])


def plan_before_time(patch: pytest.MonkeyPatch) -> None:
    real = planned.schedule

    def hasty(env: Env, config: Any, timeline: Timeline, **given: Any) -> str | None:
        make_plan = given.pop("make_plan")
        return real(
            env, config, timeline, make_plan=lambda _, time: make_plan(timeline, time), **given
        )

    patch.setattr(compaction, "schedule", hasty)


def requested_order_merge(patch: pytest.MonkeyPatch) -> None:
    real = slicing.slice_by_completion_time

    def in_requested_order(*args: Any, **given: Any) -> Any:
        return real(*args, **{**given, "order": TimeBasis.REQUESTED})

    patch.setattr(table_view, "slice_by_completion_time", in_requested_order)


def running_compaction_cuts(patch: pytest.MonkeyPatch) -> None:
    real = slicing.slice_by_completion_time

    def cut_by_any(group: Any, completion_time: Any, **given: Any) -> Any:
        on_storage = {base.instant_time for base in group.base_files}

        def known(instant_time: str) -> str | None:
            done: str | None = completion_time(instant_time)
            return done or (instant_time if instant_time in on_storage else None)

        return real(group, known, **given)

    patch.setattr(table_view, "slice_by_completion_time", cut_by_any)


def late_publish(patch: pytest.MonkeyPatch) -> None:
    """Take a time, and publish it, without the lock."""
    real = TableLock.held

    @contextmanager
    def only_for_commits(lock: TableLock) -> Iterator[None]:
        # Each write has a lock of its own, and takes it first to begin.
        is_first = not getattr(lock, "has_begun", False)
        lock.has_begun = True  # type: ignore[attr-defined]  # a mark of this test's own
        with nullcontext() if is_first else real(lock):
            yield

    patch.setattr(TableLock, "held", only_for_commits)
    patch.setattr(Concurrency, "ensure", lambda _: None)
    patch.setattr("tidelake.txn.protocol.transaction.came_late", lambda *_, **__: [])


def inflight_read_as_empty(patch: pytest.MonkeyPatch) -> None:
    real = candidates._planned

    def blind(instant: Instant, contents: TimelineContents, kind: Kind) -> Any:
        return iter(()) if instant.state is State.INFLIGHT else real(instant, contents, kind)

    patch.setattr(candidates, "_planned", blind)
    # Nor does a clustering look at what was written to its file groups meanwhile.
    judge = conflict.judge

    def trusting(ours: Footprint, theirs: Footprint, **given: Any) -> Rule:
        return Rule.DISJOINT if ours.kind is Kind.CLUSTERING else judge(ours, theirs, **given)

    patch.setattr(concurrency, "judge", trusting)


def roll_back_found(now: ServiceContext, dead: Sequence[Instant]) -> None:
    """Roll back what was found dead before the lock was taken."""
    state = now.state
    rollback = Rollback(
        now.env, state.config, state.timeline, now.times, now.keeper, now.concurrency
    )
    with now.concurrency.section():
        now.times.see(load_timeline(now.env.storage, state.config))
        scheduled = [rollback.schedule(instant) for instant in dead]
    for found in scheduled:
        with suppress(PlanRunningError):
            rollback.carry_out(found)


def heartbeat_outside_the_lock(patch: pytest.MonkeyPatch) -> None:
    def hasty(env: Env, *_: Any, expires_ms: int, concurrency: Concurrency) -> None:
        now = ServiceContext.load(env, concurrency=concurrency)
        beats = last_beats(env)
        dead = [
            i
            for i in failed_writes(now.state.timeline, now.state.contents)
            if not is_alive(beats, i.requested_time, expires_ms=expires_ms)
        ]
        roll_back_found(now, dead)

    patch.setattr(table_services, "roll_back_all_failed", hasty)


def lost_lock_unnoticed(patch: pytest.MonkeyPatch) -> None:
    _nobody_looks(patch)


def nobody_looks_behind(patch: pytest.MonkeyPatch) -> None:
    """Leave on the timeline what appeared when the lock had been lost."""
    patch.setattr(late, "_take_back_if_late", lambda *_: None)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    def open_door(_: Concurrency) -> AbstractContextManager[None]:
        return nullcontext()

    patch.setattr(Concurrency, "section", open_door)
    _nobody_looks(patch)


def _nobody_looks(patch: pytest.MonkeyPatch) -> None:
    """Take the lock for ours in front of a file, and behind it."""
    patch.setattr(Concurrency, "ensure", lambda _: None)
    patch.setattr(Concurrency, "ensure_lasting", lambda _: None)
    patch.setattr(TableLock, "is_held", lambda _: True)
    patch.setattr(TableLock, "give_back", lambda *_, **__: True)


def conflicts_not_judged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concurrency, "judge", lambda *_, **__: Rule.DISJOINT)


def rollback_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """Commit whatever others have begun to take back, after however long a silence."""
    patch.setattr(Reviewer, "refuse_lost", lambda *_: None)
    patch.setattr(Heartbeat, "is_doomed", property(lambda _: False))


def schema_not_resolved(patch: pytest.MonkeyPatch) -> None:
    def last_one_wins(_start: str | None, _now: str | None, writer: str, **_: Any) -> str:
        return writer

    patch.setattr(write_schemas, "resolve", last_one_wins)


def pending_savepoint_hides_its_commit(patch: pytest.MonkeyPatch) -> None:
    def by_time_alone(timeline: Timeline) -> frozenset[str]:
        return frozenset(i.requested_time for i in timeline.pending)

    patch.setattr(Timeline, "pending_times", property(by_time_alone))


def rollback_beside_a_clean(patch: pytest.MonkeyPatch) -> None:
    """Go back to what a clean is about to delete, or has just planned to."""
    for module in ("rollback", "restore"):
        room = sys.modules[f"tidelake.services.{module}"]  # a function has the same name
        patch.setattr(room, "refuse_doomed", lambda *_, **__: None)
    patch.setattr(clean_plan, "_settled", lambda now: now)


def undo_without_a_look_at_the_lock(patch: pytest.MonkeyPatch) -> None:
    """Take the lock, and rely on it for however long an undoing takes."""
    for name in ("roll_back", "restore", "savepoint", "delete_savepoint"):
        patch.setattr(table_services, name, _unfenced(getattr(table_services, name)))


def _unfenced(real: Callable[..., Any]) -> Callable[..., Any]:
    def hasty(*given: Any, concurrency: Concurrency, **named: Any) -> Any:
        with concurrency.section():
            return real(*given, **named)

    return hasty


def archived_behind_a_savepoint_is_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Take what the timeline lacks, and is no older than it, for uncommitted."""
    patch.setattr(table_view.CommitTimes, "_may_hide", lambda *_: False)
    patch.setattr(table_view.CommitTimes, "archived_within", lambda _: frozenset())


def dead_writer_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PassedOver, "publish_rollback", lambda *_: None)
    patch.setattr(Reviewer, "refuse_displaced", lambda *_: None)


def retires_beneath_non_blocking_writers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reviewer, "writers_beneath", lambda *_: [])
    # Nor does the writer look whether its file groups are still there.
    patch.setattr(Reviewer, "refuse_displaced", lambda *_: None)


def two_file_groups_for_a_bucket(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidelake.write.index.has_fixed_ids", lambda _: False)
    patch.setattr(Reviewer, "refuse_displaced", lambda *_: None)
    patch.setattr("tidelake.write.plan.refuse_split_buckets", lambda *_: None)


def built_on_what_was_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidelake.txn.protocol.transaction.refuse_undone", lambda *_: None)
    patch.setattr("tidelake.txn.protocol.begin.going", lambda *_: {})


def cleaned_rows_count_as_absent(patch: pytest.MonkeyPatch) -> None:
    """Take a slice that was cleaned since the timeline was loaded for one that never was."""
    patch.setattr(table_view, "refuse_lost_snapshot", lambda *_: None)


def schemas_are_compared_by_sharers_alone(patch: pytest.MonkeyPatch) -> None:
    """Let a writer that was told that it is alone commit its schema as it is."""
    real = Transaction._resolved

    def as_told(txn: Transaction, now: Any, contents: Any, schema: str, resolve: Any) -> str:
        if txn._concurrency.is_shared:
            return real(txn, now, contents, schema, resolve)
        return schema

    patch.setattr(Transaction, "_resolved", as_told)


def unlocked_cleaner(patch: pytest.MonkeyPatch) -> None:
    """Look for the dead without the lock, as Apache's lazy cleaner does; no fault of ours."""

    def clean(env: Env, *_: Any, expires_ms: int, concurrency: Concurrency) -> None:
        before = ServiceContext.load(env, concurrency=concurrency).state.timeline.pending
        beats = last_beats(env)
        now = ServiceContext.load(env, concurrency=concurrency)
        # Pending before and after the look, so it was pending during it.
        dead = [
            i
            for i in failed_writes(now.state.timeline, now.state.contents)
            if i in before and not is_alive(beats, i.requested_time, expires_ms=expires_ms)
        ]
        roll_back_found(now, dead)

    patch.setattr(table_services, "roll_back_all_failed", clean)


def heartbeat_goes_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """End signs of life early, beside a cleaner that looks at them without the lock."""
    unlocked_cleaner(patch)
    patch.setattr(Heartbeat, "seal", Heartbeat.end)


def undone_keys_stay_in_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetadataTableKeeper, "_drop_told", lambda _: None)


def empty_buckets_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Let a delete complete beside whoever filled the bucket that it had found empty."""
    patch.setattr(Transaction, "found_empty", lambda *_: None)


def bounds_of_the_newest_files(patch: pytest.MonkeyPatch) -> None:
    """Let the bounds of a partition be those of the files that the last write wrote."""
    real = encode_column_stats

    def tight(*args: Any, **given: Any) -> bytes:
        return real(*args, **{**given, "is_tight": True})

    patch.setattr(statistics, "encode_column_stats", tight)
    patch.setattr(statistics, "groups", lambda *_: iter(()))
    patch.setattr(statistics, "_known_partitions", lambda _: frozenset())


def new_keys_are_compared_in_their_partition(patch: pytest.MonkeyPatch) -> None:
    """Let two writers bring the same key to two partitions, of which one may have it."""
    real = begin

    def narrow(*args: Any, concurrency: Concurrency, **given: Any) -> Transaction:
        within = replace(concurrency, keys_span_partitions=False)
        return real(*args, concurrency=within, **given)

    patch.setattr(write_session, "begin", narrow)


PLANTED: dict[str, tuple[World, Plant]] = {
    "no high-water mark": (OCC_MOR, no_high_water_mark),
    "plan before time": (NBCC, plan_before_time),
    "requested-order merge": (NBCC, requested_order_merge),
    "inflight read as empty": (CLUSTERING, inflight_read_as_empty),
    "heartbeat checked outside the lock": (OCC_COW, heartbeat_outside_the_lock),
    "missing pending candidates": (OCC_MOR, missing_pending_candidates),
    "base file of a running compaction cuts": (NBCC, running_compaction_cuts),
    "late publish": (OCC_MOR, late_publish),
    "a lost lock goes unnoticed": (OCC_MOR, lost_lock_unnoticed),
    "no lock": (NBCC, no_lock),
    "nobody looks behind the file": (LATE, nobody_looks_behind),
    "conflicts not judged": (OCC_MOR, conflicts_not_judged),
    "rollbacks of our own not looked for": (OCC_COW, rollback_not_looked_for),
    "the last schema wins": (OCC_COW, schema_not_resolved),
    "a pending savepoint hides its commit": (KEEPING, pending_savepoint_hides_its_commit),
    "a rollback beside a clean": (
        replace(UNDOING, commits_retained=1),
        rollback_beside_a_clean,
    ),
    "an undoing does not look at its lock": (UNDOING, undo_without_a_look_at_the_lock),
    "built on what was undone": (UNDOING, built_on_what_was_undone),
    "archived behind a savepoint": (BEYOND, archived_behind_a_savepoint_is_uncommitted),
    "a dead writer is passed over": (RETIRING, dead_writer_is_passed_over),
    "retires beneath non-blocking writers": (RETIRING, retires_beneath_non_blocking_writers),
    "two file groups for a bucket": (MIXED, two_file_groups_for_a_bucket),
    "cleaned rows count as absent": (SLOW, cleaned_rows_count_as_absent),
    "schemas are compared by sharers alone": (TOLD_ALONE, schemas_are_compared_by_sharers_alone),
    "the heartbeat goes before the commit": (CLEANED, heartbeat_goes_before_the_commit),
    "undone keys stay in the index": (INDEXED, undone_keys_stay_in_the_index),
    "a delete forgets the empty bucket": (DELETING, empty_buckets_are_forgotten),
    "new keys are compared in their partition": (MOVING, new_keys_are_compared_in_their_partition),
    "bounds are those of the newest files": (TOLD, bounds_of_the_newest_files),
}


@contextmanager
def planted(name: str) -> Iterator[World]:
    """Plant a fault, and return the world in which it shows."""
    world, plant = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        yield world


def shown(fault: str, history: History) -> list[str]:
    """Return what is wrong with a history that has the fault, and ends well without it."""
    with planted(fault):
        wrong = play(history).wrong
    return [] if wrong and play(history).wrong else wrong
