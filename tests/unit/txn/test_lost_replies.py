"""What becomes of operations whose requests the storage loses, or carries out late."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.unit.txn.toy_table import KINDS, Toy, new_storage
from tests.unit.txn.toy_writer import Writer
from tidelake.config import ReadOptions
from tidelake.errors import CommitOutcomeUnknownError, StorageError
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import Action, TableType
from tidelake.read.check import check_table
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage
from tidelake.testing import Crash, Fault, FaultyStorage, ManualClock

each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)
FIRST = {"a-0": "a1", "b-0": "b1"}
SECOND = {"a-0": "a2", "c-0": "c2"}
THIRD = {"b-0": "b3"}
LOST = (Fault.LOST_CALL, Fault.LATE)


def written(table_version: int, table_type: TableType) -> MemoryStorage:
    storage = new_storage(table_version, table_type)
    Toy(storage).write(FIRST)
    return storage


def completed_file(fault: Fault) -> Callable[[int, str, str], Fault | None]:
    """Return what makes every attempt at the file fail that completes a write."""

    def act(_number: int, name: str, path: str) -> Fault | None:
        is_one = name == "put_if_absent" and path.endswith((".commit", ".deltacommit"))
        return fault if is_one and ".hoodie" in path else None

    return act


@pytest.mark.parametrize("fault", LOST, ids=str)
def test_a_commit_whose_requests_got_lost_has_an_unknown_outcome(fault: Fault) -> None:
    storage = written(9, TableType.COPY_ON_WRITE)
    with pytest.raises(CommitOutcomeUnknownError):
        Toy(FaultyStorage(storage, completed_file(fault))).write(SECOND)
    toy = Toy(storage)
    assert toy.rows() == FIRST
    assert len(list(toy.data_files())) == 4, "nothing is cleaned up"


def test_a_commit_that_the_storage_refused_did_not_land() -> None:
    storage = written(9, TableType.COPY_ON_WRITE)
    with pytest.raises(StorageError, match="nothing became visible"):
        Toy(FaultyStorage(storage, completed_file(Fault.ERROR))).write(SECOND)


def test_one_lost_request_among_refused_ones_may_still_arrive() -> None:
    storage = written(9, TableType.COPY_ON_WRITE)
    faults = [Fault.LATE]

    def fault(number: int, name: str, path: str) -> Fault | None:
        is_one = completed_file(Fault.ERROR)(number, name, path) is not None
        return (faults.pop() if faults else Fault.ERROR) if is_one else None

    with pytest.raises(CommitOutcomeUnknownError):
        Toy(FaultyStorage(storage, fault)).write(SECOND)


@each_kind
def test_a_commit_that_arrives_before_anybody_writes_counts(
    table_version: int, table_type: TableType
) -> None:
    storage = written(table_version, table_type)
    faulty = FaultyStorage(storage, completed_file(Fault.LATE))
    with pytest.raises(CommitOutcomeUnknownError):
        Toy(faulty).write(SECOND)
    faulty.deliver()
    assert Toy(storage).rows() == {**FIRST, **SECOND}
    Toy(storage).write(THIRD)
    assert Toy(storage).rows() == {**FIRST, **SECOND, **THIRD}


@each_kind
def test_a_commit_that_arrives_once_it_was_rolled_back_counts_for_nothing(
    table_version: int, table_type: TableType
) -> None:
    storage = written(table_version, table_type)
    faulty = FaultyStorage(storage, completed_file(Fault.LATE))
    with pytest.raises(CommitOutcomeUnknownError):
        Toy(faulty).write(SECOND)
    Toy(storage).write(THIRD)
    faulty.deliver()
    (late,) = Toy(storage).timeline.late_files
    assert Toy(storage).rows() == {**FIRST, **THIRD}
    report = check_table(TableState.load(storage, ReadOptions()), None, quick=True)
    assert report.is_sound
    assert any(late in note for note in report.notes)
    Toy(storage).write({"d-0": "d4"})
    toy = Toy(storage)
    assert toy.rows() == {**FIRST, **THIRD, "d-0": "d4"}
    assert not toy.timeline.late_files, "the next write takes it away"
    assert toy.leftovers() == []


@each_kind
def test_a_commit_that_arrives_while_it_is_rolled_back_counts_for_nothing(
    table_version: int, table_type: TableType
) -> None:
    origin = written(table_version, table_type)
    faulty = FaultyStorage(origin, completed_file(Fault.LATE))
    with pytest.raises(CommitOutcomeUnknownError):
        Toy(faulty).write(SECOND)
    before = {name for name, _ in named(origin)}
    faulty.deliver()
    arrived = [(name, data) for name, data in named(origin) if name not in before]
    for name, _ in arrived:
        origin.delete(name)
    number = 0
    seen = set()
    while True:
        number += 1
        storage = copy.deepcopy(origin)
        try:
            Toy(FaultyStorage.failing_at(storage, number, Fault.CRASH_AFTER)).write(THIRD)
        except Crash:
            pass
        else:
            break
        for name, data in arrived:
            storage.put_if_absent(name, data)
        found = Toy(storage).rows()
        assert found in (FIRST, {**FIRST, **SECOND}, {**FIRST, **THIRD}), number
        seen.add(tuple(sorted(found.items())))
        Toy(storage).write({"d-0": "d4"})
        toy = Toy(storage)
        assert toy.rows() == {**found, "d-0": "d4"}, number
        assert toy.leftovers() == [], number
    assert len(seen) == 3


def named(storage: MemoryStorage) -> list[tuple[str, bytes]]:
    return [(path, storage.read(path)) for path in storage.files_below(".hoodie")]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(clock: ManualClock) -> MemoryStorage:
    return new_storage(9, TableType.COPY_ON_WRITE, clock.now_ms)


def test_a_rollback_counts_although_its_heartbeat_stays(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    first = Writer(storage, clock, 1)
    txn = first.begin()
    stats = first.write(txn, "a-0", "a1")
    first.commit(txn, stats)

    def keeps_heartbeats(_number: int, name: str, path: str) -> Fault | None:
        is_heartbeat = path.startswith(heartbeat_path("")) and not path.endswith(".sealed")
        is_of_rollback = is_heartbeat and path != heartbeat_path(txn.instant_time)
        return Fault.ERROR if name == "delete" and is_of_rollback else None

    second = Writer(FaultyStorage(storage, keeps_heartbeats), clock, 2)
    txn = second.begin()
    second.write(txn, "b-0", "b1")
    txn.abort()
    toy = Toy(storage)
    assert [i.action for i in toy.timeline.completed] == [Action.COMMIT, Action.ROLLBACK]
    assert toy.rows() == {"a-0": "a1"}
