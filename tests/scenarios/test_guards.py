"""What else many writers rely on: the unlocked second writer, archived neighbours, rollbacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.lake import COW, MOR, Lake, row
from tests.scenarios.rules import guards
from tests.scenarios.test_overlaps import foreign_archival
from tidelake.errors import InstantLostError
from tidelake.model import Action, TableType
from tidelake.read import check
from tidelake.testing import FaultyStorage
from tidelake.txn.heartbeat import Heartbeat
from tidelake.view.table_view import CommitTimes

ALONE = {
    "hoodie.write.concurrency.mode": "SINGLE_WRITER",
    "hoodie.clean.failed.writes.policy": "NEVER",
}


@guards(lambda patch: patch.setattr(check, "unexplained", lambda *_, **__: iter(())))
@pytest.mark.parametrize("kind", [COW, MOR])
def test_a_second_writer_without_the_lock_is_named(tmp_path: Path, kind: TableType) -> None:
    lake = Lake(tmp_path, kind, 9)
    lake.write([row("a", 1), row("b", 1)])
    thinks_it_is_alone = lake.writing([row("a", 2)], ALONE).begun()
    honest = lake.write([row("b", 3)])
    careless = thinks_it_is_alone.commit()
    told = "\n".join(found.problem for found in lake.check().violations)
    for part in (
        "overlap in time",
        honest.requested_time,
        careless.requested_time,
        "a writer that left no name",
    ):
        assert part in told


def test_rollbacks_delete_files_without_the_lock(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    dead = lake.writing([row("a", 2)]).begun()
    os.utime(lake.root / ".hoodie/.heartbeat" / dead.txn.instant_time, (1, 1))
    held: list[tuple[str, bool]] = []

    def look(_number: int, name: str, path: str) -> None:
        if name in ("delete", "put_if_absent"):
            held.append((path, (lake.root / ".hoodie/lock").exists()))

    lake.storage = FaultyStorage(lake.storage, look)
    assert lake.caretaker().roll_back_failed() == [dead.txn.instant_time]
    assert [on for path, on in held if path.endswith(".parquet")] == [False]
    assert {on for path, on in held if "rollback" in path} == {True}


def test_of_two_cleaners_one_rolls_back(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    dead = lake.writing([row("a", 2)]).begun()
    os.utime(lake.root / ".hoodie/.heartbeat" / dead.txn.instant_time, (1, 1))
    inner = lake.storage

    def second(_number: int, name: str, path: str) -> None:
        if name == "delete" and path.endswith(".parquet"):
            lake.storage = inner
            lake.caretaker().roll_back_failed()

    lake.storage = FaultyStorage(inner, second)
    lake.caretaker().roll_back_failed()
    timeline = lake.state().timeline
    assert [i.is_completed for i in timeline.instants if i.action is Action.ROLLBACK] == [True]
    assert timeline.pending == ()
    assert list((lake.root / ".hoodie/.heartbeat").iterdir()) == []
    assert lake.values() == {"a": 1}


def revived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Heartbeat, "_beat_again", Heartbeat.beat)


@guards(revived)
def test_a_writer_that_was_rolled_back_gives_no_signs_of_life(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 2)]).begun()
    beat = lake.root / ".hoodie/.heartbeat" / ours.txn.instant_time
    os.utime(beat, (1, 1))
    lake.caretaker().roll_back_failed()
    ours.txn.heartbeat._beat_again()
    assert not beat.exists(), "tasks must learn that their files do not count"
    assert ours.txn.heartbeat.is_doomed
    with pytest.raises(InstantLostError):
        ours.commit()


def older_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = CommitTimes.__call__

    def archived(times: CommitTimes, requested_time: str) -> str | None:
        return requested_time if times.is_unknown(requested_time) else real(times, requested_time)

    patch.setattr(CommitTimes, "__call__", archived)


@guards(older_is_committed)
def test_what_a_rolled_back_write_left_is_not_read_once_it_is_old(tmp_path: Path) -> None:
    """Its instant is older than the timeline, but the history does not have it."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1), row("z", 0, p="z")])
    ours = lake.writing([row("a", 9)]).begun()
    (left,) = lake.root.glob(f"p=x/*{ours.txn.instant_time}*")
    data = left.read_bytes()
    ours.txn.abort()
    for ts in range(5):
        lake.write([row("z", ts, p="z")])
    left.write_bytes(data)  # by a task that nobody waited for
    foreign_archival(lake)
    assert lake.state().timeline.is_archived(ours.txn.instant_time)
    assert lake.values()["a"] == 1
