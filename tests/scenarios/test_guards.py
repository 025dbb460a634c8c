"""What else many writers rely on: the unlocked second writer, archived neighbours, rollbacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.lake import COW, MOR, Lake, row
from tests.scenarios.rules import guards
from tests.scenarios.test_overlaps import foreign_archival
from tidelake.errors import ConfigError, InstantLostError, LockLostError, WriteConflictError
from tidelake.model import Action, TableType
from tidelake.read import check
from tidelake.testing import FaultyStorage
from tidelake.txn.liveness.heartbeat import Beats, Heartbeat
from tidelake.txn.locks.process import process_mark
from tidelake.txn.protocol.transaction import Transaction
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
    with pytest.MonkeyPatch.context() as patch:
        blind(patch)
        careless = thinks_it_is_alone.commit()
    told = "\n".join(found.problem for found in lake.check().violations)
    for part in (
        "overlap in time",
        honest.requested_time,
        careless.requested_time,
        "a writer that left no name",
    ):
        assert part in told


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_of_another_token_under_a_completed_time_is_named(
    tmp_path: Path, version: int
) -> None:
    lake = Lake(tmp_path, COW, version)
    lake.write([row("a", 1)])
    done = lake.write([row("a", 2)])
    (own,) = lake.root.glob(f"p=x/*_{done.requested_time}.parquet")
    file_id = own.name.partition("_")[0]
    assert lake.check().notes == []
    foreign = own.with_name(f"{file_id}_9-9-9_{done.requested_time}.parquet")
    foreign.write_bytes(next(lake.root.glob(f"p=x/{file_id}_*")).read_bytes())
    (note,) = lake.check().notes
    assert foreign.name in note
    assert lake.values() == {"a": 2}


def blind(patch: pytest.MonkeyPatch) -> None:
    """A writer that is told that it is alone believes it to the end."""
    patch.setattr(Transaction, "_reviewed_alone", lambda *given: given[-2])


@guards(blind)
@pytest.mark.parametrize(("kind", "version"), [(COW, 6), (COW, 9), (MOR, 8)])
def test_a_writer_that_is_told_it_is_alone_overwrites_nobody(
    tmp_path: Path, kind: TableType, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path, kind, version)
    lake.write([row("a", 1), row("b", 1), row("z", 1, p="z")])
    elsewhere = lake.writing([row("z", 2, p="z")], ALONE).begun()
    careless = lake.writing([row("a", 2)], ALONE).begun()
    honest = lake.write([row("b", 3)])
    with pytest.raises(WriteConflictError) as refused:
        careless.commit()
    assert refused.value.theirs == honest.requested_time
    assert "told that it is alone" in refused.value.explain()
    assert "OPTIMISTIC" in refused.value.next_step
    elsewhere.commit()
    assert f"{honest.requested_time} completed while this process" in caplog.text
    assert lake.values() == {"a": 1, "b": 3, "z": 2}
    assert lake.check().violations == []


def no_company(patch: pytest.MonkeyPatch) -> None:
    for place in ("tidelake.txn.protocol.begin", "tidelake.services.rollback"):
        patch.setattr(f"{place}.live_writers", lambda *_, **__: iter(()))


@guards(no_company)
def test_d20_a_writer_that_thinks_it_is_alone_leaves_live_writers_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, MOR)
    first = lake.write([row("a", 1)])
    lake.table_services().savepoint(first.requested_time, "")
    second = lake.write([row("a", 2)])
    ours = lake.writing([row("a", 3)]).begun()
    alone = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
    for options in (alone, ALONE):
        with pytest.raises(ConfigError, match=f"instant {ours.txn.instant_time}") as refused:
            lake.write([row("a", 4)], options)
        assert "OPTIMISTIC" in refused.value.next_step
    with pytest.raises(ConfigError, match="told that it is alone"):
        lake.compactor(alone).schedule()
    assert lake.table_services(alone).roll_back_failed() == []
    for options in (alone, {}):
        with pytest.raises(ConfigError, match="may build on what is to go"):
            lake.table_services(options).roll_back(second.requested_time)
        with pytest.raises(ConfigError, match="may build on what is to go"):
            lake.table_services(options).restore(first.requested_time)
    ours.commit()
    assert lake.values() == {"a": 3}


def test_d20_a_dead_process_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    name, _, began = process_mark().rpartition("-")
    gone = f"{name}-{int(began) - 1}"  # a process that had our number before us
    monkeypatch.setattr("tidelake.txn.liveness.heartbeat.process_mark", lambda: gone)
    dead = lake.writing([row("a", 2)]).begun()
    dead.txn.heartbeat.stop()
    assert lake.table_services().roll_back_failed() == [], "where others write it is silent first"
    lake.write([row("b", 3)], {"hoodie.write.concurrency.mode": "SINGLE_WRITER"})
    assert lake.state().timeline.pending == ()
    assert lake.values() == {"a": 1, "b": 3}


def test_a_clean_takes_away_the_heartbeats_of_what_has_ended(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    done = lake.write([row("a", 1)])
    live = lake.writing([row("a", 2)]).begun()
    beats = lake.root / ".hoodie/.heartbeat"
    ended, young = beats / done.requested_time, beats / "20261116000000000"
    ended.touch()  # by a process that died at the end
    young.touch()
    live.txn.heartbeat._beat_again()
    beside = beats / f".{live.txn.instant_time}.guard"
    for path in (ended, beside):
        os.utime(path, (1, 1))
    lake.table_services().clean()
    assert set(beats.iterdir()) == {beats / live.txn.instant_time, beside, young}
    live.commit()


def own_patience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Beats, "content", lambda *_: None)


@guards(own_patience)
def test_a_writer_with_longer_intervals_is_not_taken_for_dead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 2)]).begun()
    beat = lake.root / ".hoodie/.heartbeat" / ours.txn.instant_time
    now = beat.stat().st_mtime
    os.utime(beat, (now - 60, now - 60))
    hasty = lake.table_services({"hoodie.client.heartbeat.interval_in_ms": "1000"})
    assert hasty.roll_back_failed() == []
    assert "the same hoodie.client.heartbeat.interval_in_ms" in caplog.text
    os.utime(beat, (now - 121, now - 121))
    assert hasty.roll_back_failed() == [ours.txn.instant_time]


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
    assert lake.table_services().roll_back_failed() == [dead.txn.instant_time]
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
            lake.table_services().roll_back_failed()

    lake.storage = FaultyStorage(inner, second)
    lake.table_services().roll_back_failed()
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
    lake.table_services().roll_back_failed()
    ours.txn.heartbeat._beat_again()
    assert not beat.exists(), "tasks must learn that their files do not count"
    assert ours.txn.heartbeat.is_doomed
    with pytest.raises(InstantLostError):
        ours.commit()


@pytest.mark.parametrize("version", [6, 9])
def test_a_stopped_writer_replaces_nothing_in_the_metadata_table(
    tmp_path: Path, version: int
) -> None:
    """Its lock was released by hand while it was stopped, and others went on."""
    lake = Lake(tmp_path, MOR, version, {"hoodie.metadata.enable": "true"})
    lake.write([row("a", 1), row("b", 1)])
    inner = lake.storage

    def stopped(_number: int, name: str, path: str) -> None:
        if name.startswith("put") and path.startswith(".hoodie/metadata/files/.") and armed:
            armed.clear()
            lake.storage = inner
            (lake.root / ".hoodie/lock").unlink()
            lake.write([row("b", 5)])

    armed: list[bool] = []
    lake.storage = FaultyStorage(inner, stopped)
    ours = lake.writing([row("a", 2)]).begun()
    armed.append(True)
    with pytest.raises(LockLostError):
        ours.commit()
    assert lake.values() == {"a": 1, "b": 5}
    lake.write([row("a", 3)])
    assert lake.values() == {"a": 3, "b": 5}


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
