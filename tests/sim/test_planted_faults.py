"""A simulator that never finds anything proves nothing: each fault here is found by some seed.

The faults are ones that Apache Hudi or its RFCs had, or that a careless change would bring back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.test_many_writers import FAULTS, KINDS, play
from tidelake.config import ConcurrencyMode, TimeBasis
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.testing.simulation import actors
from tidelake.timeline import Timeline
from tidelake.txn import concurrency, planned, time
from tidelake.txn.candidates import Start
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflict import Rule
from tidelake.txn.locks import TableLock
from tidelake.view import slicing, table_view

MOST_RUNS = 2_000
OCC_MOR, NBCC = KINDS[1], KINDS[3]
Kind = tuple[ConcurrencyMode, TableType, int]


def first_finding(kind: Kind) -> tuple[int, str]:
    """Return the first seed whose history is wrong, and what is."""
    for seed in range(MOST_RUNS):
        try:
            _, wrong = play(seed, *kind, FAULTS)
        except AssertionError as error:
            wrong = [str(error)]
        if wrong:
            return seed, wrong[0]
    raise AssertionError(f"no seed below {MOST_RUNS} finds the fault")


def found_in(kind: Kind, capsys: pytest.CaptureFixture[str], fault: str) -> None:
    seed, wrong = first_finding(kind)
    with capsys.disabled():
        print(f"\n{fault}: seed {seed}: {wrong[:100]}")  # noqa: T201 - the finding is the result


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def test_no_high_water_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time, "_high_water", lambda _config, _timeline: "0" * 17)
    found_in(OCC_MOR, capsys, "no high-water mark")


def test_missing_pending_candidates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Start.of

    def forgetful(timeline: Timeline, requested_time: str) -> Start:
        return replace(real(timeline, requested_time), pending=frozenset())

    monkeypatch.setattr(Start, "of", staticmethod(forgetful))
    found_in(OCC_MOR, capsys, "missing pending candidates")


def test_plan_before_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = planned.schedule

    def hasty(env: Env, config: Any, timeline: Timeline, **given: Any) -> str | None:
        make_plan = given.pop("make_plan")
        return real(
            env, config, timeline, make_plan=lambda _, time: make_plan(timeline, time), **given
        )

    monkeypatch.setattr(actors, "schedule", hasty)
    found_in(NBCC, capsys, "plan before time")


def test_requested_order_merge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = slicing.slice_by_completion_time

    def in_requested_order(*args: Any, **given: Any) -> Any:
        return real(*args, **{**given, "order": TimeBasis.REQUESTED})

    monkeypatch.setattr(table_view, "slice_by_completion_time", in_requested_order)
    found_in(NBCC, capsys, "requested-order merge")


def test_base_file_of_a_running_compaction_cuts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = slicing.slice_by_completion_time

    def cut_by_any(group: Any, completion_time: Any, **given: Any) -> Any:
        on_storage = {base.instant_time for base in group.base_files}

        def known(instant_time: str) -> str | None:
            done: str | None = completion_time(instant_time)
            return done or (instant_time if instant_time in on_storage else None)

        return real(group, known, **given)

    monkeypatch.setattr(table_view, "slice_by_completion_time", cut_by_any)
    found_in(NBCC, capsys, "base file of a running compaction cuts")


def test_late_publish(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A time that is taken, and published, without the lock."""
    real = TableLock.held

    @contextmanager
    def only_for_commits(lock: TableLock) -> Iterator[None]:
        # Each write has a lock of its own, and takes it first to begin.
        is_first = not getattr(lock, "has_begun", False)
        lock.has_begun = True  # type: ignore[attr-defined]  # a mark of this test's own
        with nullcontext() if is_first else real(lock):
            yield

    monkeypatch.setattr(TableLock, "held", only_for_commits)
    monkeypatch.setattr(Concurrency, "ensure", lambda _: None)
    found_in(OCC_MOR, capsys, "late publish")


def test_lock_not_looked_at_before_publishing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Concurrency, "ensure", lambda _: None)
    found_in(OCC_MOR, capsys, "a lost lock goes unnoticed")


def test_no_lock_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def open_door(_: Concurrency) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(Concurrency, "section", open_door)
    monkeypatch.setattr(Concurrency, "ensure", lambda _: None)
    found_in(NBCC, capsys, "no lock")


def test_conflicts_not_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concurrency, "judge", lambda *_, **__: Rule.DISJOINT)
    found_in(OCC_MOR, capsys, "conflicts not judged")
