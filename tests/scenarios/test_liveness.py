"""Who counts as alive, and what becomes of writers that were silent and return."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import BUCKETS, COW, MOR, NBCC, Lake, Writing, row
from tests.scenarios.rules import guards
from tidelake.config import WriteOperation
from tidelake.env import Env
from tidelake.errors import ConfigError, InstantLostError, WriteConflictError
from tidelake.formats.marker_name import heartbeat_path, seal_path
from tidelake.model import Action
from tidelake.testing import Crash, Fault, FaultyStorage, ManualClock
from tidelake.txn.liveness.heartbeat import Heartbeat, live_writers
from tidelake.txn.locks import process
from tidelake.txn.rollback.passed_over import PassedOver

TIMELINE = ".hoodie/timeline"
SINGLE = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
LATER = {**SINGLE, "hoodie.clean.failed.writes.policy": "LAZY"}
ALLOW = {"hoodie.clustering.updates.strategy": "allow"}
RETIRING = [
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
]


def fall_silent(lake: Lake, writing: Writing) -> None:
    """Stop the process of a write for long, as SIGSTOP does."""
    writing.txn.heartbeat.stop()
    os.utime(lake.root / heartbeat_path(writing.txn.instant_time), (1, 1))


def passed_over_in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PassedOver, "publish_rollback", lambda *_: None)


@guards(passed_over_in_silence)
@pytest.mark.parametrize("options", [{}, LATER], ids=["sharing", "alone"])
@pytest.mark.parametrize("operation", RETIRING)
def test_a_silent_writer_that_returns_finds_out_that_it_was_passed_over(
    tmp_path: Path, operation: WriteOperation, options: dict[str, str]
) -> None:
    """An overwrite retires the file groups that a non-blocking writer is about to add to."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1), row("b", 1)], NBCC)
    silent = lake.writing([row("a", 5)], NBCC).begun()
    fall_silent(lake, silent)
    lake.write([row("o", 2)], options, operation=operation)
    assert [i.action for i in lake.state().timeline.completed][-1] is Action.ROLLBACK
    silent.txn.heartbeat._beat_again()
    with pytest.raises(InstantLostError):
        silent.commit()
    assert lake.values() == {"o": 2}
    assert lake.check().violations == []


@guards(passed_over_in_silence)
def test_a_clustering_passes_over_no_writer_in_silence(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    silent = lake.writing([row("a", 2)]).begun()
    fall_silent(lake, silent)
    clustering.commit(lake.state().schema().avro)
    assert silent.txn.instant_time not in {i.requested_time for i in lake.state().timeline.pending}
    with pytest.raises(InstantLostError):
        silent.commit()
    assert lake.values() == {"a": 1}


def test_a_rollback_that_cannot_be_carried_out_waits_on_the_timeline(tmp_path: Path) -> None:
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1)], NBCC)
    silent = lake.writing([row("a", 5)], NBCC).begun()
    fall_silent(lake, silent)
    inner = lake.storage
    lake.storage = FaultyStorage(
        inner, lambda _n, _name, path: Fault.ERROR if "rollback.inflight" in path else None
    )
    lake.write([row("o", 2)], operation=RETIRING[0])
    lake.storage = inner
    (waiting,) = [i for i in lake.state().timeline.pending if i.action is Action.ROLLBACK]
    with pytest.raises(InstantLostError, match=f"rollback {waiting.requested_time} has begun"):
        silent.commit()
    lake.table_services().clean()
    assert lake.state().timeline.pending == ()
    assert lake.values() == {"o": 2}


def test_a_live_non_blocking_writer_stops_an_overwrite_that_thinks_it_is_alone(
    tmp_path: Path,
) -> None:
    """It began after the overwrite, which could not know of it then."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1)], NBCC)
    alone = lake.writing([row("o", 2)], LATER, operation=RETIRING[0]).begun()
    sharing = lake.writing([row("a", 5)], NBCC).begun()
    with pytest.raises(WriteConflictError):
        alone.commit()
    sharing.commit()
    assert lake.values() == {"a": 5}


@pytest.fixture
def neighbour() -> Iterator[str]:
    """Return the mark of another process of this machine that runs."""
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    facts = process._facts(running.pid)
    assert facts is not None
    host = process.process_name().rpartition(":")[0]
    yield f"{host}:{running.pid}:{process._machine()}-{facts[process._START]}"
    running.kill()
    running.wait()


ELSEWHERE = "worker-7:77:0badcafe-1"


def of_process(patch: pytest.MonkeyPatch, lake: Lake, mark: str) -> Writing:
    """Begin a write of another process, which has the table for itself."""
    with patch.context() as other:
        other.setattr("tidelake.txn.liveness.heartbeat.process_mark", lambda: mark)
        return lake.writing([row("a", 2)], SINGLE).begun()


@pytest.mark.parametrize("where", ["beside", "elsewhere", "here"])
def test_services_of_a_lone_process_leave_live_lone_writers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, neighbour: str, where: str
) -> None:
    lake = Lake(tmp_path, MOR, 9)
    first = lake.write([row("a", 1)])
    lake.table_services().savepoint(first.requested_time, "")
    second = lake.write([row("a", 1)])
    marks = {"beside": neighbour, "elsewhere": ELSEWHERE, "here": process.process_mark()}
    live = of_process(monkeypatch, lake, marks[where])
    time = live.txn.instant_time
    with pytest.raises(ConfigError, match=f"as instant {time}: this process is told"):
        lake.compactor(SINGLE).schedule()
    assert lake.table_services(SINGLE).roll_back_failed() == []
    with pytest.raises(ConfigError, match=f"as instant {time}"):
        lake.table_services(SINGLE).roll_back(second.requested_time)
    with pytest.raises(ConfigError, match=f"as instant {time}"):
        lake.table_services(SINGLE).restore(first.requested_time)
    live.commit()
    assert lake.values() == {"a": 2}
    assert lake.compactor(SINGLE).schedule() is not None


def test_two_lone_writers_of_one_machine_do_not_undo_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, neighbour: str
) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    live = of_process(monkeypatch, lake, neighbour)
    with pytest.raises(ConfigError, match=f"as instant {live.txn.instant_time}"):
        lake.write([row("b", 3)], SINGLE)
    live.commit()
    lake.write([row("b", 3)], SINGLE)
    assert lake.values() == {"a": 2, "b": 3}


@pytest.mark.parametrize("mark", [ELSEWHERE, ""], ids=["another machine", "this process"])
def test_a_lone_writer_waits_for_nobody_who_may_be_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """What is pending failed, where one writes: a job that was restarted goes on at once."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    of_process(monkeypatch, lake, mark or process.process_mark())
    lake.write([row("b", 3)], SINGLE)
    assert lake.state().timeline.pending == ()
    assert lake.values() == {"a": 1, "b": 3}


def only_ours_are_alive(patch: pytest.MonkeyPatch) -> None:
    for place in ("tidelake.txn.protocol.begin", "tidelake.services.rollback"):
        patch.setattr(
            f"{place}.live_writers",
            lambda *given, **named: (w for w in live_writers(*given, **named) if w.said),
        )


@guards(only_ours_are_alive)
def test_live_writers_of_apache_hudi_are_left_alone(tmp_path: Path) -> None:
    """Their heartbeats have no content; the modification time is all that tells."""
    lake = Lake(tmp_path, COW)
    first = lake.write([row("a", 1)])
    lake.table_services().savepoint(first.requested_time, "")
    second = lake.write([row("a", 2)])
    theirs = lake.writing([row("a", 3)]).begun()
    time = theirs.txn.instant_time
    beat = lake.root / heartbeat_path(time)
    theirs.txn.heartbeat.stop()
    beat.write_bytes(b"")
    for options in (SINGLE, {}):
        for undo in (
            lambda o: lake.table_services(o).restore(first.requested_time),
            lambda o: lake.table_services(o).roll_back(second.requested_time),
            lambda o: lake.table_services(o).roll_back(time),
        ):
            with pytest.raises(ConfigError, match=f"instant {time}"):
                undo(options)
        assert lake.table_services(options).roll_back_failed() == []
    with pytest.raises(ConfigError, match="perhaps Apache Hudi"):
        lake.write([row("b", 3)], SINGLE)
    os.utime(beat, (1, 1))
    assert lake.table_services(SINGLE).roll_back_failed() == [time]
    assert lake.values() == {"a": 2}


def test_a_live_write_is_rolled_back_by_force_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    live = lake.writing([row("a", 2)]).begun()
    time = live.txn.instant_time
    for options in (SINGLE, {}):
        with pytest.raises(ConfigError, match=f"as instant {time}") as refused:
            lake.table_services(options).roll_back(time)
        assert "force" in refused.value.next_step
    assert lake.table_services().roll_back(time, force=True).files_deleted == 1
    with pytest.raises(InstantLostError):
        live.commit()
    assert lake.values() == {"a": 1}


@guards(lambda patch: patch.setattr(Env, "storage_now_ms", lambda env: env.clock.now_ms()))
def test_a_cleaner_whose_clock_is_ahead_rolls_nobody_back(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    live = lake.writing([row("a", 2)]).begun()
    lake.clock = ManualClock(lake.clock.now_ms() + 300_000)
    assert lake.table_services().roll_back_failed() == []
    lake.table_services().clean()
    lake.clock = ManualClock(lake.clock.now_ms() - 600_000)
    os.utime(lake.root / heartbeat_path(live.txn.instant_time), (1, 1))
    assert lake.table_services().roll_back_failed() == [live.txn.instant_time], "a clock behind"


@guards(lambda patch: patch.setattr(Heartbeat, "seal", Heartbeat.end))
@pytest.mark.parametrize("options", [SINGLE, {}, {**BUCKETS, **NBCC}], ids=["one", "OCC", "NBCC"])
def test_the_heartbeat_is_there_until_the_write_has_completed(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """A lazy cleaner of Apache Hudi's looks at it without the lock, at any moment."""
    lake = Lake(tmp_path, MOR, 9, {**options, "hoodie.metadata.enable": "true"})
    lake.write([row("a", 1)])
    inner = lake.storage
    landed: list[str] = []
    is_begun = False

    def look(_number: int, name: str, path: str) -> None:
        time = writing.txn.instant_time if is_begun else ""
        if not time or landed:
            return
        assert inner.stat(heartbeat_path(time)) is not None, f"before {name} of {path}"
        if name == "put_if_absent" and path.startswith(f"{TIMELINE}/{time}_"):
            landed.append(path)

    lake.storage = FaultyStorage(inner, look)
    writing = lake.writing([row("a", 2)]).begun()
    is_begun = True
    writing.commit()
    assert landed
    left = lake.root / ".hoodie/.heartbeat"
    assert [p.name for p in left.iterdir() if not p.name.endswith(".guard")] == []


@pytest.mark.parametrize("options", [SINGLE, {}], ids=["one", "OCC"])
def test_the_heartbeat_of_a_plan_is_there_until_it_is_carried_out(
    tmp_path: Path, options: dict[str, str]
) -> None:
    lake = Lake(tmp_path, MOR, 9, options)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    planned = lake.compactor().schedule()
    assert planned is not None
    inner = lake.storage
    seen: list[bool] = []

    def look(_number: int, name: str, path: str) -> None:
        if name == "put_if_absent" and path.startswith(f"{TIMELINE}/{planned}_"):
            seen.append(inner.stat(heartbeat_path(planned)) is not None)

    lake.storage = FaultyStorage(inner, look)
    lake.compactor().run(planned)
    assert seen == [True]
    assert inner.stat(heartbeat_path(planned)) is None


@pytest.mark.parametrize("options", [SINGLE, {}], ids=["one", "OCC"])
def test_a_failed_write_keeps_its_heartbeat_until_its_rollback_is_published(
    tmp_path: Path, options: dict[str, str]
) -> None:
    lake = Lake(tmp_path, COW, 9, options)
    lake.write([row("a", 1)])
    inner = lake.storage
    seen: list[tuple[bool, bool]] = []

    def look(_number: int, name: str, path: str) -> None:
        if name == "put_if_absent" and path.endswith("rollback.requested"):
            time = failing.txn.instant_time
            beat, seal = (inner.stat(p) for p in (heartbeat_path(time), seal_path(time)))
            seen.append((beat is not None, seal is not None))

    lake.storage = FaultyStorage(inner, look)
    failing = lake.writing([row("a", 2)]).begun()
    failing.txn.abort()
    assert seen == [(True, True)], "tasks know, and cleaners see a live write"
    assert inner.list(".hoodie/.heartbeat").files == []
    assert lake.values() == {"a": 1}


def test_an_interrupted_write_holds_nobody_up(tmp_path: Path) -> None:
    lake = Lake(tmp_path, MOR, 9, SINGLE)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    interrupted = lake.writing([row("a", 3)]).begun()
    with pytest.raises(KeyboardInterrupt), interrupted.txn:
        raise KeyboardInterrupt
    assert lake.compactor().schedule() is not None
    assert lake.values() == {"a": 2}


def test_a_crash_of_a_plan_is_told_from_a_live_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that carried it out has ended for sure: nobody has to wait."""
    lake = Lake(tmp_path, MOR, 9, SINGLE)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    planned = lake.compactor().schedule()
    assert planned is not None
    name, _, began = process.process_mark().rpartition("-")
    inner = lake.storage

    def die(_number: int, _name: str, path: str) -> Fault | None:
        return Fault.CRASH_AFTER if path.endswith(".sealed") else None

    lake.storage = FaultyStorage(inner, die)
    with monkeypatch.context() as other:
        other.setattr(
            "tidelake.txn.liveness.heartbeat.process_mark", lambda: f"{name}-{int(began) - 1}"
        )
        with pytest.raises(Crash):
            lake.compactor().run(planned)
    lake.storage = inner
    lake.compactor().run(planned)
    assert lake.values() == {"a": 2}
