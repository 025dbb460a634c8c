"""Faults that Apache Hudi or its RFCs had, or that a careless change would bring back.

Each is planted into the real code while a history is played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest

from tidelake.config import ConcurrencyMode, TimeBasis
from tidelake.engine import caretaker, compaction, write_schemas
from tidelake.env import Env
from tidelake.errors import PlanRunningError
from tidelake.model import Instant, State, TableType
from tidelake.services.table_now import TableNow
from tidelake.timeline import Timeline, TimelineContents, load_timeline
from tidelake.txn import candidates, concurrency, failed_writes, planned, time
from tidelake.txn.candidates import Start
from tidelake.txn.concurrency import Concurrency, Reviewer
from tidelake.txn.conflict import Kind, Rule
from tidelake.txn.heartbeat import Heartbeat, is_alive, last_beats
from tidelake.txn.locks import TableLock
from tidelake.txn.rollback import Rollback
from tidelake.view import slicing, table_view

Plant = Callable[[pytest.MonkeyPatch], None]
World = tuple[ConcurrencyMode, TableType, int]

OCC_COW: World = (ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE, 9)
OCC_MOR: World = (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, 9)
NBCC: World = (ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ, 9)


def no_high_water_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "_high_water", lambda _config, _timeline: "0" * 17)


def missing_pending_candidates(patch: pytest.MonkeyPatch) -> None:
    real = Start.of

    def forgetful(timeline: Timeline, requested_time: str) -> Start:
        return replace(real(timeline, requested_time), pending=frozenset())

    patch.setattr(Start, "of", staticmethod(forgetful))
    # Nor is there the second guard, for writers without the lock.
    patch.setattr("tidelake.txn.protocol.came_late", lambda *_, **__: [])


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
    patch.setattr("tidelake.txn.protocol.came_late", lambda *_, **__: [])


def inflight_read_as_empty(patch: pytest.MonkeyPatch) -> None:
    real = candidates._planned

    def blind(instant: Instant, contents: TimelineContents, kind: Kind) -> Any:
        return iter(()) if instant.state is State.INFLIGHT else real(instant, contents, kind)

    patch.setattr(candidates, "_planned", blind)


def heartbeat_outside_the_lock(patch: pytest.MonkeyPatch) -> None:
    def hasty(env: Env, *_: Any, expires_ms: int, concurrency: Concurrency) -> None:
        now = TableNow.load(env, concurrency=concurrency)
        beats = last_beats(env)
        dead = [
            i
            for i in failed_writes(now.timeline, now.contents)
            if not is_alive(beats, i.requested_time, expires_ms=expires_ms)
        ]
        rollback = Rollback(env, now.config, now.timeline, now.times, now.keeper, concurrency)
        with concurrency.section():
            now.times.see(load_timeline(env.storage, now.config))
            scheduled = [rollback.schedule(instant) for instant in dead]
        for found in scheduled:
            with suppress(PlanRunningError):
                rollback.carry_out(found)

    patch.setattr(caretaker, "roll_back_all_failed", hasty)


def lost_lock_unnoticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Concurrency, "ensure", lambda _: None)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    def open_door(_: Concurrency) -> AbstractContextManager[None]:
        return nullcontext()

    patch.setattr(Concurrency, "section", open_door)
    patch.setattr(Concurrency, "ensure", lambda _: None)


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


PLANTED: dict[str, tuple[World, Plant]] = {
    "no high-water mark": (OCC_MOR, no_high_water_mark),
    "plan before time": (NBCC, plan_before_time),
    "requested-order merge": (NBCC, requested_order_merge),
    "inflight read as empty": (OCC_MOR, inflight_read_as_empty),
    "heartbeat checked outside the lock": (OCC_COW, heartbeat_outside_the_lock),
    "missing pending candidates": (OCC_MOR, missing_pending_candidates),
    "base file of a running compaction cuts": (NBCC, running_compaction_cuts),
    "late publish": (OCC_MOR, late_publish),
    "a lost lock goes unnoticed": (OCC_MOR, lost_lock_unnoticed),
    "no lock": (NBCC, no_lock),
    "conflicts not judged": (OCC_MOR, conflicts_not_judged),
    "rollbacks of our own not looked for": (OCC_COW, rollback_not_looked_for),
    "the last schema wins": (OCC_COW, schema_not_resolved),
}


@contextmanager
def planted(name: str) -> Iterator[World]:
    """Plant a fault, and return the world in which it shows."""
    world, plant = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        yield world
