"""A write that will have to give way learns of it while its tasks still write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typing_extensions import override

from tests.unit.txn import toy_writer
from tests.unit.txn.hand_ticker import HandTicker
from tests.unit.txn.toy_table import PARTITION, SCHEMA, Toy, new_storage
from tidelake.config import ConcurrencyOptions
from tidelake.errors import ConfigError, WriteConflictError
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import TableType
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock
from tidelake.txn import Transaction

ENABLE = "hoodie.write.concurrency.early.conflict.detection.enable"
MODE = "hoodie.write.concurrency.mode"


class Writer(toy_writer.Writer):
    """One that looks out, whenever its ticker ticks."""

    def __init__(self, storage: MemoryStorage, clock: ManualClock, number: int) -> None:
        super().__init__(storage, clock, number)
        self.ticker = HandTicker()
        self.env = replace(self.env, ticker=self.ticker)
        self.concurrency = replace(self.concurrency, early_period_ms=30_000)
        self._clock = clock

    @override
    def begin(self, *, overwrite: bool = False, write_id: str | None = None) -> Transaction:
        self._clock.sleep_ms(10)
        return super().begin(overwrite=overwrite, write_id=write_id)

    def task(self, txn: Transaction, group: str) -> WriteStat:
        existing = self.toy.slices(txn.timeline)
        return self.toy.task(txn, group, "new", existing.get(group), "0-1-0")


@pytest.fixture(params=list(TableType), ids=str)
def storage(request: pytest.FixtureRequest, clock: ManualClock) -> MemoryStorage:
    made = new_storage(9, request.param, now_ms=clock.now_ms)
    Toy(made).write({"a": "0", "b": "0"})
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def planned(group: str) -> dict[str, list[WriteStat]]:
    return {PARTITION: [WriteStat(file_id=group, path=None, prev_commit="null")]}


def test_before_its_first_task_by_what_it_plans(storage: MemoryStorage, clock: ManualClock) -> None:
    older, ours = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first = older.begin()
    first.start()
    stat = older.task(first, "a")
    second = ours.begin()
    with pytest.raises(WriteConflictError, match="still running") as refused:
        second.start(planned("a"))
    assert refused.value.theirs == first.instant_time
    assert refused.value.overlap == {f"{PARTITION}/a"}
    assert "lets both go on" in refused.value.explain()
    first.commit([stat], schema=SCHEMA)


def test_what_is_no_instant_stops_nobody(storage: MemoryStorage, clock: ManualClock) -> None:
    storage.put(".hoodie/.temp/.odd/file", b"")
    storage.put(heartbeat_path(".odd"), b"")
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    txn.start(planned("a"))
    txn.commit([ours.task(txn, "a")], schema=SCHEMA)


def test_between_two_tasks_by_its_markers(storage: MemoryStorage, clock: ManualClock) -> None:
    older, ours = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = older.begin(), ours.begin()

    def fail_like_a_task() -> None:
        second.start()
        ours.task(second, "a")
        ours.ticker.tick()
        assert storage.stat(heartbeat_path(second.instant_time)) is not None
        first.start()
        older.task(first, "a")
        ours.ticker.tick()
        # A task looks for the heartbeat after every file.
        assert storage.stat(heartbeat_path(second.instant_time)) is None
        raise KeyError

    with pytest.raises(WriteConflictError, match="still running") as refused, second:
        fail_like_a_task()
    assert isinstance(refused.value.__cause__, KeyError)
    pending = {i.requested_time for i in Toy(storage).timeline.pending}
    assert pending == {first.instant_time}, "what it wrote is rolled back"


def test_at_its_commit_if_no_task_was_left_to_fail(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    older, ours = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = older.begin(), ours.begin()
    first.start()
    second.start()
    older.task(first, "a")
    stat = ours.task(second, "a")
    ours.ticker.tick()
    with pytest.raises(WriteConflictError, match="still running"):
        second.commit([stat], schema=SCHEMA)


def test_the_older_of_two_goes_on(storage: MemoryStorage, clock: ManualClock) -> None:
    ours, younger = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = ours.begin(), younger.begin()
    second.start()
    younger.task(second, "a")
    first.start(planned("a"))
    stat = ours.task(first, "a")
    ours.ticker.tick()
    first.commit([stat], schema=SCHEMA)
    assert Toy(storage).rows()["a"] == "new"


@pytest.mark.parametrize("why", ["another file group", "a dead writer"])
def test_others_stop_nobody(storage: MemoryStorage, clock: ManualClock, why: str) -> None:
    older, ours = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first = older.begin()
    first.start()
    older.task(first, "b" if why == "another file group" else "a")
    if why == "a dead writer":
        clock.sleep_ms(older.concurrency.expires_after_ms + 1)
    second = ours.begin()
    second.start(planned("a"))
    stat = ours.task(second, "a")
    ours.ticker.tick()
    second.commit([stat], schema=SCHEMA)
    assert Toy(storage).rows()["a"] == "new"


def test_it_is_an_option_of_optimistic_writers() -> None:
    assert ConcurrencyOptions.from_settings({MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}).mode
    both = {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL", ENABLE: "true"}
    assert ConcurrencyOptions.from_settings(both).early_period_ms == 30_000
    for mode in ("SINGLE_WRITER", "NON_BLOCKING_CONCURRENCY_CONTROL"):
        with pytest.raises(ConfigError, match="may have to give way"):
            ConcurrencyOptions.from_settings({MODE: mode, ENABLE: "true"})


def test_a_write_that_was_interrupted_gives_no_more_signs_of_life(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """As by Ctrl-C in a notebook, which lives on: the write is dead, and its tasks learn that."""
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    txn.start(planned("a"))
    with pytest.raises(KeyboardInterrupt), txn:
        raise KeyboardInterrupt
    clock.sleep_ms(600_000)
    ours.ticker.tick()
    assert storage.stat(heartbeat_path(txn.instant_time)) is None
