"""A lock whose requests get lost, or arrive late, is held by one or by nobody."""

from __future__ import annotations

import pytest

from tidelake.env import Env
from tidelake.errors import StorageError, TidelakeError
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.txn.locks import StorageLock, TableLock

LEASE_MS = 300_000
PUTS = ("put_if_absent", "put_if_tagged")


def lock_of(storage: Storage, clock: ManualClock, number: int) -> StorageLock:
    env = Env(storage, clock, SeededIds(number))
    return StorageLock(env, validity_ms=LEASE_MS, skew_ms=0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def used(storage: Storage, clock: ManualClock) -> None:
    """Leave the file that is there once a lock was used."""
    first = lock_of(storage, clock, 9)
    assert first.try_acquire()
    first.release()


@pytest.mark.parametrize("is_new", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST_CALL, Fault.LOST_REPLY], ids=str)
def test_a_lock_that_could_not_be_taken_is_taken_by_nobody_later(
    clock: ManualClock, fault: Fault, is_new: bool
) -> None:
    storage = MemoryStorage(now_ms=clock.now_ms)
    if not is_new:
        used(storage, clock)
    faults = [fault]

    def fail(_number: int, name: str, _path: str) -> Fault | None:
        return faults.pop() if faults and name in PUTS else None

    faulty = FaultyStorage(storage, fail)
    ours = lock_of(faulty, clock, 1)
    try:
        is_held = ours.try_acquire()
    except StorageError:
        is_held = False
    faulty.deliver()
    other = lock_of(storage, clock, 2)
    assert other.try_acquire() is not is_held
    assert ours.still_held(0) is is_held


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST_CALL, Fault.LOST_REPLY], ids=str)
def test_a_lock_is_free_at_once_although_a_request_of_its_release_was_lost(
    clock: ManualClock, fault: Fault
) -> None:
    storage = MemoryStorage(now_ms=clock.now_ms)
    faults: list[Fault] = []
    faulty = FaultyStorage(
        storage, lambda _, name, __: faults.pop() if faults and name in PUTS else None
    )
    with TableLock(lock_of(faulty, clock, 1), clock).held():
        faults.append(fault)
    other = lock_of(storage, clock, 2)
    assert other.try_acquire()
    faulty.deliver()
    assert other.still_held(0), "what comes late takes it from nobody"


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST_CALL, Fault.LOST_REPLY], ids=str)
def test_a_renewal_that_gets_lost_holds_nothing_once_the_lock_was_given_back(
    clock: ManualClock, fault: Fault
) -> None:
    storage = MemoryStorage(now_ms=clock.now_ms)
    faults: list[Fault] = []
    faulty = FaultyStorage(
        storage, lambda _, name, __: faults.pop() if faults and name in PUTS else None
    )
    held = TableLock(lock_of(faulty, clock, 1), clock)
    try:
        with held.held():
            clock.sleep_ms(LEASE_MS * 2 // 3)
            faults.append(fault)
            held.ensure()
    except TidelakeError:
        assert fault is not Fault.LOST_REPLY
    faulty.deliver()
    assert lock_of(storage, clock, 2).try_acquire()
