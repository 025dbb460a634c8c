"""Part A: time and locks."""

from __future__ import annotations

import json
import os
import random  # noqa: TID251 - seeded below
import time as system_time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from tests.scenarios.lake import BUCKETS, COW, MOR, NBCC, Lake, row
from tests.scenarios.rules import guards
from tests.sim.planted import lost_lock_unnoticed, no_high_water_mark
from tests.unit.txn.toy_table import SCHEMA, Toy, new_storage
from tests.unit.txn.toy_writer import LEASE_MS, Writer
from tidelake.cli.main import main
from tidelake.config.keys.concurrency_keys import LOCK_PROVIDER
from tidelake.env import Env
from tidelake.errors import ClockAheadError, LockLostError, LockTimeoutError
from tidelake.files.write_task import WriteToken
from tidelake.model import Action, TableType
from tidelake.storage import MemoryStorage
from tidelake.testing import Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.timeline import Publisher, load_table_config, load_timeline
from tidelake.txn.locks import FileSystemLock, StorageLock, TableLock, file_system
from tidelake.txn.locks.process import process_mark
from tidelake.txn.locks.storage_lock import LOCK_FILE
from tidelake.txn.protocol import begin as opening
from tidelake.txn.protocol import instant_times as time
from tidelake.txn.protocol import transaction as protocol
from tidelake.txn.protocol.instant_times import InstantTimes


@pytest.fixture
def storage() -> MemoryStorage:
    made = new_storage(9, TableType.COPY_ON_WRITE)
    Toy(made).write({"a": "0", "b": "0"})
    return made


def same_name(patch: pytest.MonkeyPatch) -> None:
    """Whoever finds its time taken goes on as if it were its own."""
    real = Publisher.request

    def careless(publisher: Publisher, *args: object, **given: object) -> bool:
        real(publisher, *args, **given)  # type: ignore[arg-type]  # handed on as they are
        return True

    patch.setattr(Publisher, "request", careless)


@guards(no_high_water_mark, same_name)
def test_A_01_same_millisecond(storage: MemoryStorage) -> None:
    """Two writers ask in the same millisecond: two instants, in the order in which they asked."""
    clock = ManualClock()
    first, second = Writer(storage, clock, 1).begin(), Writer(storage, clock, 2).begin()
    assert first.instant_time < second.instant_time
    pending = load_timeline(storage, load_table_config(storage)).pending
    assert [i.requested_time for i in pending] == [first.instant_time, second.instant_time]


@guards(no_high_water_mark)
def test_A_02_a_clock_behind_within_the_bound(storage: MemoryStorage) -> None:
    """Clocks that differ by less than the bound: ten thousand times in turn, always later."""
    chance = random.Random(2)
    world = ManualClock()
    config = load_table_config(storage)
    folder = config.timeline_folder
    seen = load_timeline(storage, config)
    last = ""
    for number in range(10_000):
        clock = ManualClock(world.now_ms() - chance.randint(0, 150))
        times = InstantTimes(clock, config, seen, max_skew_ms=200 if number % 100 == 0 else 0)
        found = times.next()
        assert found > last
        last = found
        # What the next one sees under the lock: the newest instant is enough.
        newest = MemoryStorage({f"{folder}/{found}.commit.requested": b""})
        seen = load_timeline(newest, config)
        world.sleep_ms(chance.randint(0, 3))


@guards(no_high_water_mark)
@pytest.mark.parametrize("version", [8, 9])
def test_A_03_a_clock_beyond_the_bound(tmp_path: Path, version: int) -> None:
    """A clock that is, or jumps, further back than the bound: times ascend, and nobody waits."""
    clock = ManualClock()
    options = {"hoodie.time.generator.max_expected_clock_skew_ms": "200"}
    lake = Lake(tmp_path, COW, version, {**options, "hoodie.metadata.enable": "true"}, clock=clock)
    done = [lake.write([row("a", 1)])]
    clock.sleep_ms(-10_000)
    now_ms = clock.now_ms()
    done.append(lake.write([row("a", 2)]))
    assert clock.now_ms() - now_ms < 5_000, "the lock is not held until the clock is right"
    ours = lake.writing([row("a", 3)]).begun()
    clock.sleep_ms(-10_000)
    done.append(ours.commit())
    times = [t for commit in done for t in (commit.requested_time, commit.completion_time)]
    assert times == sorted(set(times))
    assert set(lake.incremental(done[1].completion_time)) == {"a"}
    assert lake.values() == {"a": 3}


@guards(no_high_water_mark)
def test_A_04_a_clock_far_behind(storage: MemoryStorage, caplog: pytest.LogCaptureFixture) -> None:
    """A clock five minutes behind goes on from the timeline, and the skew is told."""
    ahead = ManualClock()
    first = Writer(storage, ahead, 1).begin().instant_time
    late = Writer(storage, ManualClock(ahead.now_ms() - 300_000), 2)
    late.concurrency = replace(late.concurrency, max_future_ms=600_000)
    second = late.begin().instant_time
    assert int(second) == int(first) + 1
    assert f"is behind the timeline, which is at {first}" in caplog.text


def no_future_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InstantTimes, "_refuse_future", lambda *_: None)


@guards(no_future_guard)
def test_A_05_an_instant_in_the_future(storage: MemoryStorage) -> None:
    """An instant two days ahead stops writes, unless the guard is raised."""
    two_days_ms = 2 * 86_400_000
    right = ManualClock()
    wrong = Writer(storage, ManualClock(right.now_ms() + two_days_ms), 1)
    txn = wrong.begin()
    ahead = wrong.commit(txn, wrong.write(txn, "a", "ahead"))
    ours = Writer(storage, right, 2)
    ours.concurrency = replace(ours.concurrency, max_future_ms=600_000)
    right.sleep_ms(LEASE_MS)
    with pytest.raises(ClockAheadError, match=ahead.completion_time):
        ours.begin()
    assert load_timeline(storage, load_table_config(storage)).pending == ()
    ours.concurrency = replace(ours.concurrency, max_future_ms=2 * two_days_ms)
    later = ours.begin()
    assert later.instant_time > ahead.completion_time


@guards(lost_lock_unnoticed)
def test_A_06_a_time_is_taken_and_published_at_once(storage: MemoryStorage) -> None:
    """Whoever loses the lock between its time and the file does not publish: others went on."""
    clock = ManualClock()
    storage = storage.copied(clock.now_ms)
    newer: list[str] = []

    class Stalls(ManualClock):
        @override
        def sleep_ms(self, delay_ms: int) -> None:
            # The first writer has its time, and waits out the skew before it publishes.
            if not newer:
                newer.append("")
                clock.sleep_ms(LEASE_MS + 1_000)
                newer[0] = Writer(storage, clock, 2).begin().instant_time

        @override
        def now_ms(self) -> int:
            return clock.now_ms()

    slow = Writer(storage, Stalls(), 1)
    slow.concurrency = replace(slow.concurrency, max_skew_ms=200)
    with pytest.raises(LockLostError):
        slow.begin()
    pending = load_timeline(storage, load_table_config(storage)).pending
    assert [i.requested_time for i in pending] == newer


def put_over(patch: pytest.MonkeyPatch) -> None:
    """A store that puts whatever is there, and says nothing."""

    def overwrite(storage: MemoryStorage, path: str, data: bytes) -> bool:
        storage.put(path, data)
        return True

    patch.setattr(MemoryStorage, "put_if_absent", overwrite)


@guards(put_over)
def test_A_07_a_completed_file_is_not_overwritten(storage: MemoryStorage) -> None:
    """Two writers without a lock take the same time: the second finds it taken, and moves on."""
    clock = ManualClock()
    toys = [Toy(storage), Toy(storage)]
    for toy in toys:
        toy.env = Env(storage, clock, SeededIds(1))
    first, second = (
        opening.begin(
            toy.env,
            toy.config,
            toy.timeline,
            action=Action.COMMIT,
            operation="UPSERT",
            roll_back=False,
        )
        for toy in toys
    )
    assert first.instant_time != second.instant_time
    for toy, txn, text in zip(toys, (first, second), ("first", "second"), strict=True):
        txn.start()
        txn.commit([toy.task(txn, text[0], text, None, "0-1-0")], schema=SCHEMA)
    assert Toy(storage).rows()["f"] == "first"


@guards(lambda patch: patch.setattr(WriteToken, "of_owner", lambda token, _: token))
def test_A_08_two_attempts_never_write_the_same_file(tmp_path: Path) -> None:
    """Two processes carry out one plan under one instant: each has file names of its own."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    planned = lake.compactor().schedule()
    assert planned is not None
    first = files_of_attempt(lake, planned)
    second = files_of_attempt(lake, planned)
    assert first
    assert not first & second


def files_of_attempt(lake: Lake, planned: str) -> set[str]:
    """Let an attempt at a plan write its files and die; return them."""
    compactor = lake.compactor({"hoodie.client.heartbeat.interval_in_ms": "1000"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol.Transaction, "commit", _die)
        patch.setattr(protocol.Transaction, "abort", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            compactor.run(planned)
    for path in (lake.root / ".hoodie/.heartbeat").iterdir():
        os.utime(path, (1, 1))
    return {path.name for path in lake.root.glob("p=x/*.parquet") if planned in path.name}


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def never_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileSystemLock, "_has_expired", lambda _: False)
    patch.setattr(file_system, "is_gone", lambda _: False)


@guards(never_expires)
@pytest.mark.parametrize("holder", ["spark-7:41", "dead"])
def test_A_09_a_holder_that_crashed(tmp_path: Path, holder: str) -> None:
    """Its lock is free once it expires, and at once where it is sure that the process is gone."""
    lake = Lake(tmp_path, COW, 9, {"hoodie.write.lock.wait_time_ms": "50"})
    lake.write([row("a", 1)])
    lock = lake.root / ".hoodie/lock"
    if holder == "dead":
        name, _, began = process_mark().rpartition("-")
        holder = f"{name}-{int(began) - 1}"
    lock.write_text(json.dumps({"owner": holder, "since_ms": 1_794_700_800_000}))
    if "spark" in holder:
        with pytest.raises(LockTimeoutError, match=f"{holder} holds it since 2026-11-15 00:00"):
            lake.write([row("a", 2)])
        os.utime(lock, (1, 1))
    lake.write([row("a", 3)])
    assert lake.values() == {"a": 3}
    assert not lock.exists()


@guards(lost_lock_unnoticed)
def test_A_10_a_lease_lost_in_the_critical_section(storage: MemoryStorage) -> None:
    """A holder stalls past its lease after the checks, another commits: the first gives up."""
    clock = ManualClock()
    storage = storage.copied(clock.now_ms)
    armed = {"now": False}

    def stall(_number: int, name: str, path: str) -> None:
        # The lock is looked at in front of the completed file.
        if armed["now"] and (name, path) == ("read", LOCK_FILE):
            armed["now"] = False
            clock.sleep_ms(LEASE_MS + 1_000)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "a", "theirs"))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    armed["now"] = True
    with pytest.raises(LockLostError, match="lost while it was needed"), txn:
        ours.commit(txn, stats)
    assert Toy(storage).rows()["a"] == "theirs"
    assert Toy(storage).leftovers() == []


def believes_the_reply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StorageLock, "_is_mine", lambda *_: False)


@guards(believes_the_reply)
def test_A_11_a_renewal_answered_412() -> None:
    """A renewal arrived and its reply was lost: whoever reads the lock back finds itself."""
    storage, clock = MemoryStorage(), ManualClock()
    faults: Iterator[Fault] = iter([Fault.LOST_REPLY])

    def lose(_number: int, name: str, _path: str) -> Fault | None:
        return next(faults, None) if name == "put_if_tagged" else None

    lock = StorageLock(
        Env(FaultyStorage(storage, lose), clock, SeededIds(1)), validity_ms=10_000, skew_ms=0
    )
    assert lock.try_acquire()
    clock.sleep_ms(6_000)
    assert lock.still_held(0), "the renewal had arrived"
    clock.sleep_ms(6_000)
    assert lock.still_held(0), "and the lease lives on"
    stolen = StorageLock(Env(storage, clock, SeededIds(2)), validity_ms=10_000, skew_ms=0)
    stolen.break_lock()
    assert stolen.try_acquire()
    assert not lock.still_held(0), "a lock that somebody else took is not ours"


HOLDERS = [
    ("file system", ".hoodie/lock", {"owner": "spark-7:41", "since_ms": 1_794_700_800_000}),
    ("storage", LOCK_FILE, {"owner": "spark-7:41", "validUntil": 2**42, "expired": False}),
]


@guards(lambda patch: patch.setattr(TableLock, "_acquire", lambda _: None))
@pytest.mark.parametrize(("provider", "path", "content"), HOLDERS)
def test_A_12_a_lock_that_does_not_come(
    tmp_path: Path, provider: str, path: str, content: dict[str, object]
) -> None:
    """The wait ends with who has the lock; nothing was written, and a lock can be released."""
    options = {"hoodie.write.lock.provider": provider, "hoodie.write.lock.wait_time_ms": "50"}
    lake = Lake(tmp_path, COW, 9, options)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 2)])
    (lake.root / path).write_text(json.dumps(content))
    before = lake.state().timeline
    with pytest.raises(LockTimeoutError, match="spark-7:41 holds it") as refused:
        ours.begun()
    assert "hoodie.write.lock.wait_time_ms" in refused.value.next_step
    assert lake.state().timeline.instants == before.instants
    released = ["lock", "release", str(lake.root), "--option", f"{LOCK_PROVIDER.name}={provider}"]
    assert main(released) == 0
    ours.begun().commit()
    assert lake.values() == {"a": 2}


@guards(no_high_water_mark)
def test_A_13_daylight_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone is local and its clock goes back one hour: times go on, and so do readers."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    system_time.tzset()
    try:
        clock = ManualClock(1_792_889_940_000)  # 2026-10-25 00:59 UTC, 02:59 in Berlin
        options = {"hoodie.write.lock.provider": "in process"}
        lake = Lake(tmp_path, COW, 9, options, clock=clock)
        with (lake.root / ".hoodie/hoodie.properties").open("a") as properties:
            properties.write("hoodie.table.timeline.timezone=LOCAL\n")
        first = lake.write([row("a", 1)])
        assert first.requested_time.startswith("2026102502")
        clock.sleep_ms(5 * 60_000)  # 02:04 again
        now_ms = clock.now_ms()
        second = lake.write([row("b", 2)])
        assert second.requested_time > first.completion_time
        assert clock.now_ms() - now_ms < 1_000, "nobody waits until the hour is over"
        assert set(lake.incremental(first.completion_time)) == {"b"}
        assert lake.values() == {"a": 1, "b": 2}
    finally:
        monkeypatch.undo()
        system_time.tzset()


@guards(lambda patch: patch.setattr(time, "_padded", lambda text: text.ljust(17, "0")))
def test_A_14_legacy_instants_of_seconds() -> None:
    """A 14-digit instant counts as the last moment of its second."""
    clock = ManualClock()
    storage = new_storage(6, TableType.COPY_ON_WRITE)
    config = load_table_config(storage)
    now = InstantTimes(clock, config, load_timeline(storage, config)).at(clock.now_ms() + 1)
    Publisher(storage, config).request(now[:14], Action.COMMIT)
    storage.put(f"{config.timeline_folder}/{now[:14]}.commit", b"{}")
    found = InstantTimes(clock, config, load_timeline(storage, config)).next()
    assert found > f"{now[:14]}999"


def test_A_01_non_blocking_writers_take_different_times(tmp_path: Path) -> None:
    """Two writers that never wait for each other have two times all the same."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **BUCKETS})
    first = lake.writing([row("a", 1)]).begun()
    second = lake.writing([row("a", 2)]).begun()
    assert first.txn.instant_time < second.txn.instant_time
    done = second.commit(), first.commit()
    times = [t for c in done for t in (c.requested_time, c.completion_time)]
    assert len(set(times)) == len(times)
