from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelake.env import Env
from tidelake.errors import CorruptFileError, LockLostError, LockTimeoutError, StorageError
from tidelake.storage import LocalStorage, MemoryStorage
from tidelake.testing import Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.txn.locks import (
    FileSystemLock,
    InProcessLock,
    LockProvider,
    LockWait,
    StorageLock,
    TableLock,
)
from tidelake.txn.locks.process import is_gone, process_mark, process_name, shown_name
from tidelake.txn.locks.storage_lock import LOCK_FILE

LEASE_MS = 10_000
Make = Callable[[int], LockProvider]


@pytest.fixture
def clock() -> ManualClock:
    # The file system's clock is the machine's, and locks on it are judged by both.
    return ManualClock()


@pytest.fixture(params=["in process", "storage", "local storage"])
def make(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Make:
    storage = LocalStorage(str(tmp_path)) if "local" in request.param else MemoryStorage()

    def provider(number: int) -> LockProvider:
        if request.param == "in process":
            return InProcessLock(str(tmp_path), clock)
        env = Env(storage, clock, SeededIds(number))
        return StorageLock(env, validity_ms=LEASE_MS, skew_ms=0)

    return provider


def test_one_of_two_holds_it(make: Make) -> None:
    first, second = make(1), make(2)
    assert first.try_acquire()
    assert not second.try_acquire()
    assert first.still_held(0)
    assert not second.still_held(0)
    holder = second.holder()
    assert holder is not None
    assert str(os.getpid()) in holder.owner
    first.release()
    assert second.holder() is None
    assert second.try_acquire()
    first.release()
    assert second.still_held(0)


def test_whoever_gives_it_back_learns_whose_it_was_until_then(make: Make) -> None:
    first, second = make(1), make(2)
    assert first.try_acquire()
    assert first.give_back()
    assert second.try_acquire()
    assert not first.give_back()
    assert second.still_held(0)
    first.break_lock()
    assert not second.give_back()


def test_a_lease_that_has_run_out_was_not_ours_to_the_end(clock: ManualClock) -> None:
    storage = MemoryStorage()
    ours = StorageLock(Env(storage, clock, SeededIds(1)), validity_ms=LEASE_MS, skew_ms=0)
    assert ours.try_acquire()
    clock.sleep_ms(LEASE_MS)
    assert not ours.lasts(0)
    assert not ours.give_back()


def test_a_lock_that_was_given_back_is_taken_again_with_one_request(clock: ManualClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    ours = StorageLock(Env(storage, clock, SeededIds(1)), validity_ms=LEASE_MS, skew_ms=0)
    other = StorageLock(Env(storage, clock, SeededIds(2)), validity_ms=LEASE_MS, skew_ms=0)
    assert ours.try_acquire()
    ours.release()
    storage.calls.clear()
    assert ours.try_acquire()
    assert storage.calls == [("put_if_tagged", LOCK_FILE)]
    ours.release()
    assert other.try_acquire()
    assert not ours.try_acquire()
    other.release()
    assert ours.try_acquire()
    assert not other.still_held(0)


def test_by_its_own_clock_a_lease_lasts_without_a_request_until_it_runs_short(
    clock: ManualClock,
) -> None:
    storage = FaultyStorage(MemoryStorage())
    ours = StorageLock(Env(storage, clock, SeededIds(1)), validity_ms=LEASE_MS, skew_ms=0)
    assert not ours.lasts(0)
    assert ours.try_acquire()
    storage.calls.clear()
    assert ours.lasts(1_000)
    assert storage.calls == []
    clock.sleep_ms(LEASE_MS // 2)
    assert ours.lasts(1_000)
    assert storage.calls == [("put_if_tagged", LOCK_FILE)]
    ours.break_lock()
    clock.sleep_ms(LEASE_MS // 2)
    assert not ours.lasts(1_000)


def test_in_process_a_table_has_one_lock_by_whatever_path(
    tmp_path: Path, clock: ManualClock
) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    first, second = (InProcessLock(str(tmp_path / name), clock) for name in ("table", "link"))
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()


def test_a_broken_lock_is_lost_to_its_holder(make: Make) -> None:
    first, second = make(1), make(2)
    assert first.try_acquire()
    assert second.break_lock() is not None
    assert not first.still_held(0)
    assert second.try_acquire()


class TestLeases:
    @pytest.fixture
    def storage(self, clock: ManualClock) -> MemoryStorage:
        return MemoryStorage(now_ms=clock.now_ms)

    def lock(
        self, storage: MemoryStorage | FaultyStorage, clock: ManualClock, number: int
    ) -> StorageLock:
        env = Env(storage, clock, SeededIds(number))
        return StorageLock(env, validity_ms=LEASE_MS, skew_ms=500)

    def test_end_when_their_holder_is_silent(
        self, storage: MemoryStorage, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, second = self.lock(storage, clock, 1), self.lock(storage, clock, 2)
        assert first.try_acquire()
        clock.sleep_ms(LEASE_MS + 500)
        assert not second.try_acquire(), "the first one's clock may be ahead"
        clock.sleep_ms(499)
        assert not second.try_acquire(), "the storage may stamp whole seconds"
        clock.sleep_ms(1)
        assert caplog.text == ""
        assert second.try_acquire()
        assert f"taken over from {process_name()}, which was silent" in caplog.text, "A-09"
        assert not first.still_held(0)
        first.release()
        assert second.still_held(0)
        second.release()
        caplog.clear()
        assert first.try_acquire()
        assert caplog.text == "", "it was given back"

    def test_a_clock_that_is_ahead_takes_over_from_nobody(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        first = self.lock(storage, clock, 1)
        ahead = self.lock(storage, ManualClock(clock.now_ms() + 10 * LEASE_MS), 2)
        assert first.try_acquire()
        assert not ahead.try_acquire()
        assert first.still_held(0)

    def test_are_extended_while_they_are_looked_at(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        first, second = self.lock(storage, clock, 1), self.lock(storage, clock, 2)
        assert first.try_acquire()
        for _ in range(10):
            clock.sleep_ms(LEASE_MS // 2)
            assert first.still_held(0)
            assert not second.try_acquire()

    def test_a10_do_not_come_back_once_they_ran_out(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        first, second = self.lock(storage, clock, 1), self.lock(storage, clock, 2)
        assert first.try_acquire()
        clock.sleep_ms(LEASE_MS + 1_000)
        assert second.try_acquire()
        second.release()
        assert not first.still_held(0)

    def test_of_two_heirs_one_comes_in(self, storage: MemoryStorage, clock: ManualClock) -> None:
        first = self.lock(storage, clock, 1)
        assert first.try_acquire()
        clock.sleep_ms(LEASE_MS + 1_000)
        heir = self.lock(storage, clock, 2)

        def race(_number: int, name: str, _path: str) -> None:
            if name == "put_if_tagged":
                assert heir.try_acquire()

        late = self.lock(FaultyStorage(storage, race), clock, 3)
        assert not late.try_acquire()
        assert heir.still_held(0)

    @pytest.mark.parametrize("call", ["put_if_absent", "put_if_tagged"])
    def test_a11_a_lost_reply_is_looked_up(
        self, storage: MemoryStorage, clock: ManualClock, call: str
    ) -> None:
        faults = iter([Fault.LOST_REPLY])

        def lose(_number: int, name: str, _path: str) -> Fault | None:
            return next(faults, None) if name == call else None

        first = self.lock(FaultyStorage(storage, lose), clock, 1)
        assert first.try_acquire()
        clock.sleep_ms(LEASE_MS - 1)
        assert first.still_held(0)
        assert not self.lock(storage, clock, 2).try_acquire()
        first.release()
        assert self.lock(storage, clock, 2).try_acquire()

    def test_a_file_that_says_nothing_is_reported(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        storage.put(LOCK_FILE, b"{}")
        with pytest.raises(CorruptFileError, match="does not say who holds"):
            self.lock(storage, clock, 1).try_acquire()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b'{"owner": "x", "validUntil": 1, "expired": "no"}',
            b'{"owner": "x", "validUntil": null, "expired": false}',
        ],
    )
    def test_a_file_that_says_nothing_can_be_released(
        self, storage: MemoryStorage, clock: ManualClock, content: bytes
    ) -> None:
        storage.put(LOCK_FILE, content)
        lock = self.lock(storage, clock, 1)
        with pytest.raises(CorruptFileError, match="lock release"):
            lock.try_acquire()
        assert lock.break_lock() is not None
        assert lock.try_acquire()

    def test_say_since_when(self, storage: MemoryStorage, clock: ManualClock) -> None:
        first, second = self.lock(storage, clock, 1), self.lock(storage, clock, 2)
        began_ms = clock.now_ms()
        assert first.try_acquire()
        clock.sleep_ms(LEASE_MS // 2)
        assert first.still_held(0)
        holder = second.holder()
        assert holder is not None
        assert (holder.since_ms, holder.until_ms) == (began_ms, clock.now_ms() + LEASE_MS)

    def test_until_any_time_can_be_told(self, storage: MemoryStorage, clock: ManualClock) -> None:
        storage.put(LOCK_FILE, b'{"expired":false,"validUntil":' + b"9" * 30 + b',"owner":"x"}')
        waits = TableLock(self.lock(storage, clock, 1), clock, LockWait(wait_ms=10))
        with pytest.raises(LockTimeoutError, match="x holds it, until 9999"), waits.held():
            pass

    def test_one_that_could_not_be_given_back_is_its_owners_still(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        faults = iter([Fault.ERROR])

        def fails(_number: int, name: str, _path: str) -> Fault | None:
            return next(faults, None) if name == "put_if_tagged" else None

        lock = TableLock(self.lock(FaultyStorage(storage, fails), clock, 1), clock)
        with lock.held():
            pass
        with lock.held():
            lock.ensure()

    def test_are_kept_in_the_form_of_apache_hudi(
        self, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        later = clock.now_ms() + 5_000
        held = f'{{"expired":false,"validUntil":{later},"owner":"spark-1"}}'
        storage.put(LOCK_FILE, held.encode())
        ours = self.lock(storage, clock, 1)
        assert not ours.try_acquire()
        holder = ours.holder()
        assert holder is not None
        assert (holder.owner, holder.until_ms) == ("spark-1", later)
        storage.put(LOCK_FILE, held.replace("false", "true").encode())
        assert ours.try_acquire()


def age(folder: Path, *, minutes: int) -> None:
    """Let the lock file be older than it is."""
    lock = folder / "lock"
    at = lock.stat().st_mtime - minutes * 60
    os.utime(lock, (at, at))


class TestFiles:
    def lock(self, folder: Path, clock: ManualClock, number: int, minutes: int) -> FileSystemLock:
        env = Env(MemoryStorage(), clock, SeededIds(number))
        return FileSystemLock(env, str(folder), expire_ms=minutes * 60_000)

    @pytest.fixture
    def now(self, tmp_path: Path) -> ManualClock:
        probe = tmp_path / "probe"
        probe.touch()
        return ManualClock(probe.stat().st_mtime_ns // 1_000_000)

    def test_one_of_two_holds_it(self, tmp_path: Path, now: ManualClock) -> None:
        first, second = self.lock(tmp_path, now, 1, 10), self.lock(tmp_path, now, 2, 10)
        assert first.try_acquire()
        assert not second.try_acquire()
        assert first.still_held(0)
        first.release()
        assert not (tmp_path / "lock").exists()
        assert second.try_acquire()

    def test_an_old_file_has_one_heir(self, tmp_path: Path, now: ManualClock) -> None:
        first, second = self.lock(tmp_path, now, 1, 10), self.lock(tmp_path, now, 2, 10)
        assert first.try_acquire()
        age(tmp_path, minutes=11)
        assert second.try_acquire()
        assert not first.still_held(0)
        first.release()
        assert second.still_held(0)

    def test_a_lock_of_apache_hudi_is_respected_until_it_expires(
        self, tmp_path: Path, now: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "lock").touch()
        ours = self.lock(tmp_path, now, 1, 10)
        assert not ours.try_acquire()
        holder = ours.holder()
        assert holder is not None
        assert "left no name" in holder.owner
        now.sleep_ms(11 * 60_000)
        assert not ours.try_acquire(), "our clock is ahead, the file is not old"
        age(tmp_path, minutes=11)
        assert ours.try_acquire()
        assert "taken over from a writer that left no name" in caplog.text

    def test_a_lock_that_never_expires_stays(self, tmp_path: Path, now: ManualClock) -> None:
        (tmp_path / "lock").touch()
        now.sleep_ms(1000 * 60_000)
        assert not self.lock(tmp_path, now, 1, 0).try_acquire()

    def test_looking_at_it_extends_it(self, tmp_path: Path, now: ManualClock) -> None:
        first = self.lock(tmp_path, now, 1, 10)
        assert first.try_acquire()
        before = (tmp_path / "lock").stat().st_ino
        now.sleep_ms(6 * 60_000)
        assert first.still_held(0)
        assert (tmp_path / "lock").stat().st_ino != before

    @pytest.mark.parametrize(
        ("content", "owner"),
        [
            (b"", "a writer that left no name"),
            (b"\xff", "a writer that left no name"),
            (b"[1]", "a writer that left no name"),
            (b'{"owner": "x", "since_ms": "abc"}', "x"),
            (b'{"owner": "x", "since_ms": 1e40}', "x"),
            (b'{"lockCreateTime":"2026-11-16","lockThreadName":"main"}', "thread main of Apache"),
        ],
    )
    def test_whatever_is_in_the_file_the_holder_is_told(
        self, tmp_path: Path, now: ManualClock, content: bytes, owner: str
    ) -> None:
        (tmp_path / "lock").write_bytes(content)
        waits = TableLock(self.lock(tmp_path, now, 1, 10), now, LockWait(wait_ms=10))
        with pytest.raises(LockTimeoutError, match=f"{owner}.* holds it since 2"), waits.held():
            pass

    def test_a_place_for_no_file_is_named(self, tmp_path: Path, now: ManualClock) -> None:
        (tmp_path / "lock").mkdir()
        (tmp_path / "file").touch()
        for folder in (tmp_path, tmp_path / "file", Path("/proc/none")):
            with pytest.raises(StorageError) as refused:
                self.lock(folder, now, 1, 10).try_acquire()
            assert f"{folder}/lock: " in str(refused.value)
            assert "hoodie.write.lock.filesystem.path" in refused.value.next_step


def left_by_a_dead_process(take: Callable[[], object]) -> None:
    """Have a process take a lock and end without a word."""
    child = os.fork()
    if child == 0:
        take()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("minutes", [10, 0])
def test_a09_the_lock_file_of_a_dead_process_has_an_heir_at_once(
    tmp_path: Path, minutes: int
) -> None:
    env = Env(LocalStorage(str(tmp_path)))

    def lock() -> FileSystemLock:
        return FileSystemLock(env, str(tmp_path), expire_ms=minutes * 60_000)

    left_by_a_dead_process(lambda: lock().try_acquire())
    holder = lock().holder()
    assert holder is not None
    assert holder.is_gone
    ours = lock()
    assert ours.try_acquire()
    assert ours.still_held(0)
    assert not lock().try_acquire(), "we are alive"


def test_a09_the_lease_of_a_dead_process_has_an_heir_at_once(tmp_path: Path) -> None:
    env = Env(LocalStorage(str(tmp_path)))

    def lock() -> StorageLock:
        return StorageLock(env, validity_ms=600_000, skew_ms=0)

    left_by_a_dead_process(lambda: lock().try_acquire())
    assert lock().try_acquire()
    assert not lock().try_acquire(), "we are alive"


@pytest.mark.parametrize(
    "mark", ["spark-1", "vm:1", "vm:999999999:00000000-5", "vm:x:00000000-5", ""]
)
def test_of_other_machines_nobody_can_tell(mark: str) -> None:
    assert not is_gone(mark)


def test_a_process_is_known_by_its_number_and_its_beginning() -> None:
    mark = process_mark()
    assert not is_gone(mark)
    assert shown_name(mark) == process_name()
    began = mark.rpartition("-")[2]
    assert is_gone(mark.replace(began, str(int(began) - 1))), "its number was given anew"


class TestTableLock:
    @pytest.fixture
    def pair(self, clock: ManualClock, tmp_path: Path) -> tuple[TableLock, TableLock]:
        wait = LockWait(wait_ms=300)
        providers = [InProcessLock(str(tmp_path), clock) for _ in range(2)]
        first, second = (TableLock(provider, clock, wait) for provider in providers)
        return first, second

    def test_waits_and_then_says_who_has_it(
        self, pair: tuple[TableLock, TableLock], clock: ManualClock
    ) -> None:
        first, second = pair
        began_ms = clock.now_ms()
        with (
            first.held(),
            pytest.raises(LockTimeoutError, match=f"{os.getpid()} holds it since"),
            second.held(),
        ):
            pass
        assert clock.now_ms() - began_ms == 300
        with second.held():
            second.ensure()

    def test_is_entered_again_by_its_holder(self, pair: tuple[TableLock, TableLock]) -> None:
        first, second = pair
        with first.held():
            with first.held():
                pass
            first.ensure()
            with pytest.raises(LockTimeoutError), second.held():
                pass

    def test_is_released_when_an_error_passes_by(self, pair: tuple[TableLock, TableLock]) -> None:
        first, second = pair
        with pytest.raises(KeyError), first.held():
            raise KeyError
        with second.held():
            second.ensure()

    def test_notices_that_it_is_gone(self, clock: ManualClock, tmp_path: Path) -> None:
        provider = InProcessLock(str(tmp_path), clock)
        lock = TableLock(provider, clock)
        with lock.held():
            provider.break_lock()
            with pytest.raises(LockLostError, match="nobody holds it now"):
                lock.ensure()

    def test_counts_how_long_it_was_held(
        self, pair: tuple[TableLock, TableLock], clock: ManualClock
    ) -> None:
        lock = pair[0]
        for _ in range(2):
            with lock.held():
                clock.sleep_ms(7)
        assert lock.held_ms == 14


def _count(folder: str, times: int) -> None:
    env = Env(LocalStorage(folder))
    path = Path(folder) / "number"
    for _ in range(times):
        lock = TableLock(FileSystemLock(env, folder, expire_ms=60_000), env.clock)
        with lock.held():
            number = int(path.read_text())
            path.write_text(str(number + 1))


@pytest.mark.slow
def test_processes_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count, args=(str(tmp_path), 50)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "number").read_text() == "150"
