"""Machines whose clocks differ by more than a lease lasts, or step while they write.

Another writer comes in at every call that a write makes to the storage, with every distance between
the clocks, with every step of the writer's clock, and after every pause. Both may commit, one after
the other; never does one write over what it has not seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, product

import pytest

from tests.unit.txn.toy_table import PARTITION, Toy, new_storage
from tests.unit.txn.toy_writer import LEASE_MS, Writer
from tidelake.errors import TidelakeError
from tidelake.model import TableType
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import FaultyStorage, ManualClock
from tidelake.timeline import TimelineContents
from tidelake.txn.locks import TableLock
from tidelake.txn.locks.table_lock import LockWait

FAR_MS = 10 * LEASE_MS
OFFSETS = (0, FAR_MS, -FAR_MS)
PAUSES = (0, LEASE_MS // 2, 3 * LEASE_MS)


@dataclass
class MachineClock:
    """A machine's clock, which is off by some time from that of the world."""

    world: ManualClock
    offset_ms: int

    def now_ms(self) -> int:
        return self.world.now_ms() + self.offset_ms

    def sleep_ms(self, delay_ms: int) -> None:
        self.world.sleep_ms(delay_ms)


def writer(storage: Storage, clock: MachineClock, number: int) -> Writer:
    found = Writer(storage, clock, number)
    wait = LockWait(wait_ms=LEASE_MS // 4)
    found.concurrency = type(found.concurrency)(
        mode=found.concurrency.mode,
        lock=TableLock(found.lock, clock, wait),
        writer=f"writer {number}",
    )
    return found


def write(ours: Writer, text: str) -> str:
    """Change one file group; return what the writer was told."""
    try:
        txn = ours.begin()
        with txn:
            ours.commit(txn, ours.write(txn, "a", text))
    except TidelakeError as error:
        return type(error).__name__
    return "committed"


def unseen(storage: MemoryStorage) -> list[str]:
    """Return the writes that went on from another state than the one before them."""
    toy = Toy(storage)
    contents = TimelineContents(storage, toy.config)
    writes = sorted(toy.timeline.writes(), key=lambda i: i.completion_time or "")
    found = []
    for before, instant in pairwise(writes):
        (stat,) = contents.commit_metadata(instant).partition_to_write_stats[PARTITION]
        if stat.prev_commit != before.requested_time:
            found.append(f"{instant.requested_time} went on from {stat.prev_commit}")
    return found


def calls(world: ManualClock) -> int:
    """Return how many calls a write makes that nobody disturbs."""
    storage = made(world)
    counted = FaultyStorage(storage)
    assert write(writer(counted, MachineClock(world, 0), 1), "ours") == "committed"
    return len(counted.calls)


def made(world: ManualClock) -> MemoryStorage:
    storage = new_storage(9, TableType.COPY_ON_WRITE).copied(world.now_ms)
    Toy(storage).write({"a": "first"})
    return storage


@pytest.mark.sampled(2)
@pytest.mark.parametrize("other_ms", OFFSETS, ids=lambda ms: f"other {ms}")
@pytest.mark.parametrize("step_ms", OFFSETS, ids=lambda ms: f"step {ms}")
def test_two_holders_never_both_commit_unseen(step_ms: int, other_ms: int) -> None:
    ended: Counter[tuple[str, str]] = Counter()
    for at, ours_ms, pause_ms in product(range(1, calls(ManualClock()) + 1), OFFSETS, PAUSES):
        world = ManualClock()
        storage = made(world)
        mine = MachineClock(world, ours_ms)
        said: list[str] = []

        def meanwhile(
            number: int,
            _name: str,
            _path: str,
            at: int = at,
            pause_ms: int = pause_ms,
            storage: MemoryStorage = storage,
            world: ManualClock = world,
            mine: MachineClock = mine,
            said: list[str] = said,
        ) -> None:
            if number == at and not said:
                said.append("begins")
                mine.offset_ms += step_ms
                world.sleep_ms(pause_ms)
                said[0] = write(writer(storage, MachineClock(world, other_ms), 2), "theirs")

        ours = write(writer(FaultyStorage(storage, meanwhile), mine, 1), "ours")
        where = f"call {at}, ours {ours_ms}, pause {pause_ms}: {ours}, {said}"
        landed = len(Toy(storage).timeline.writes()) - 1
        assert unseen(storage) == [], where
        assert landed == (ours == "committed") + (said == ["committed"]), where
        ended[ours, said[0]] += 1
    assert ended["committed", "committed"], "one after the other"
    assert any(theirs != "committed" for _, theirs in ended)
