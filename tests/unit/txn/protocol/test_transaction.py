from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.golden.timelines import memory_table
from tests.unit.txn.hand_ticker import HandTicker
from tests.unit.txn.toy_table import KINDS, PARTITION, SCHEMA, Rows, Toy, new_storage
from tidelake.errors import (
    CommitOutcomeUnknownError,
    InstantLostError,
    RestorePendingError,
    StorageError,
    TidelakeError,
)
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.model import Action, State, TableType
from tidelake.storage import MemoryStorage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import TimelineContents, load_table_config, open_history
from tidelake.txn import Outcome, find_commit

FIRST = {"a-0": "a1", "b-0": "b1"}
SECOND = {"a-0": "a2", "c-0": "c2"}
THIRD = {"b-0": "b3", "d-0": "d3"}
BOTH = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def written(table_version: int, table_type: TableType, *batches: Rows) -> MemoryStorage:
    storage = new_storage(table_version, table_type)
    for rows in batches:
        Toy(storage).write(rows)
    return storage


def calls_of(storage: MemoryStorage, act: Callable[[Toy], object]) -> int:
    counting = FaultyStorage(copy.deepcopy(storage))
    act(Toy(counting))
    return len(counting.calls)


@each_kind
def test_writes_add_up(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, FIRST, SECOND, THIRD)
    toy = Toy(storage)
    assert toy.rows() == {"a-0": "a2", "b-0": "b3", "c-0": "c2", "d-0": "d3"}
    assert toy.leftovers() == []
    assert [i.state for i in toy.timeline.instants] == [State.COMPLETED] * 3


@each_kind
def test_an_overwrite_retires_what_was_there(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, FIRST)
    commit = Toy(storage).write({"z-0": "z"}, overwrite=True)
    toy = Toy(storage)
    assert toy.rows() == {"z-0": "z"}
    assert commit.action is Action.REPLACECOMMIT
    instant = toy.timeline.instants[-1]
    contents = TimelineContents(storage, toy.config)
    assert contents.commit_metadata(instant).partition_to_replace_file_ids == {
        PARTITION: ("a-0", "b-0")
    }
    assert not contents.requested_replace(instant).is_clustering


def test_a_commit_says_what_it_did() -> None:
    storage = written(9, TableType.MERGE_ON_READ, FIRST)
    commit = Toy(storage).write(SECOND)
    (instant,) = Toy(storage).timeline.completed[1:]
    assert (commit.requested_time, commit.completion_time) == (
        instant.requested_time,
        instant.completion_time,
    )
    assert (commit.operation, commit.inserts, commit.updates, commit.files_written) == (
        "UPSERT",
        1,
        1,
        2,
    )
    assert commit.attempts == 1


@each_kind
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_crash_at_any_call_leaves_the_table_before_or_after(
    table_version: int, table_type: TableType, overwrite: bool
) -> None:
    # Ids of retired file groups are never used again.
    rows, more = ({"y-0": "y2"}, {"z-0": "z3"}) if overwrite else (SECOND, THIRD)
    new = rows if overwrite else {**FIRST, **rows}
    before = written(table_version, table_type, FIRST)
    total = calls_of(before, lambda toy: toy.write(rows, overwrite=overwrite))
    seen = set()
    for number in range(1, total + 1):
        for fault in BOTH:
            storage = copy.deepcopy(before)
            with pytest.raises(Crash):
                Toy(FaultyStorage.failing_at(storage, number, fault)).write(
                    rows, overwrite=overwrite
                )
            found = Toy(storage).rows()
            assert found in (FIRST, new), f"{fault} {number}"
            seen.add(found == new)

            Toy(storage).write(more)
            toy = Toy(storage)
            assert toy.rows() == {**found, **more}, f"{fault} {number}"
            assert toy.leftovers() == [], f"{fault} {number}"
            if not overwrite:
                assert toy.rows_once_archived() == toy.rows(), f"{fault} {number}"
    assert seen == {False, True}


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_of_the_recovery_is_recovered_from(
    table_version: int, table_type: TableType
) -> None:
    failed = written(table_version, table_type, FIRST)
    with pytest.raises(Crash):
        Toy(FaultyStorage(failed, crash_at_the_completed_file)).write(SECOND)
    assert Toy(failed).leftovers()
    total = calls_of(failed, lambda toy: toy.write(THIRD))
    for number in range(1, total + 1):
        for fault in BOTH:
            storage = copy.deepcopy(failed)
            with pytest.raises(Crash):
                Toy(FaultyStorage.failing_at(storage, number, fault)).write(THIRD)
            found = Toy(storage).rows()
            assert found in (FIRST, {**FIRST, **THIRD}), f"{fault} {number}"

            Toy(storage).write({"e-0": "e"})
            toy = Toy(storage)
            assert toy.rows() == {**found, "e-0": "e"}, f"{fault} {number}"
            assert toy.leftovers() == [], f"{fault} {number}"
            assert toy.rows_once_archived() == toy.rows(), f"{fault} {number}"
            taken_back = [i for i in toy.timeline.completed if i.action is Action.ROLLBACK]
            assert len(taken_back) <= 2, f"{fault} {number}"


@each_kind
def test_an_error_at_any_call_is_reported_or_overcome(
    table_version: int, table_type: TableType
) -> None:
    before = written(table_version, table_type, FIRST)
    total = calls_of(before, lambda toy: toy.write(SECOND))
    for number in range(1, total + 1):
        for fault in (Fault.ERROR, Fault.LOST_REPLY):
            storage = copy.deepcopy(before)
            try:
                Toy(FaultyStorage.failing_at(storage, number, fault)).write(SECOND)
            except StorageError:
                expected = FIRST
            else:
                expected = {**FIRST, **SECOND}
            assert Toy(storage).rows() == expected, f"{fault} {number}"
            Toy(storage).write(THIRD)
            toy = Toy(storage)
            assert toy.rows() == {**expected, **THIRD}, f"{fault} {number}"
            assert toy.leftovers() == [], f"{fault} {number}"


def is_completed_file(name: str, path: str) -> bool:
    file_name = path.rpartition("/")[2]
    return name == "put_if_absent" and file_name.endswith((".commit", ".deltacommit"))


def crash_at_the_completed_file(_number: int, name: str, path: str) -> Fault | None:
    return Fault.CRASH_BEFORE if is_completed_file(name, path) else None


@each_kind
def test_a_reply_that_is_lost_is_no_failure(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, FIRST)
    faulty = FaultyStorage(
        storage, lambda _, name, path: Fault.LOST_REPLY if is_completed_file(name, path) else None
    )
    commit = Toy(faulty).write(SECOND)
    assert commit.attempts == 1
    toy = Toy(storage)
    assert toy.rows() == {**FIRST, **SECOND}
    assert [i.completion_time for i in toy.timeline.completed][-1] == commit.completion_time


def test_the_completed_file_is_tried_again() -> None:
    storage = written(9, TableType.COPY_ON_WRITE, FIRST)
    failures = iter([Fault.ERROR, Fault.ERROR])
    faulty = FaultyStorage(
        storage,
        lambda _, name, path: next(failures, None) if is_completed_file(name, path) else None,
    )
    assert Toy(faulty).write(SECOND).attempts == 1
    assert Toy(storage).rows() == {**FIRST, **SECOND}


def test_a_storage_that_takes_nothing_more_leaves_the_table_as_it_was() -> None:
    storage = written(9, TableType.COPY_ON_WRITE, FIRST)
    faulty = FaultyStorage(
        storage, lambda _, name, path: Fault.ERROR if is_completed_file(name, path) else None
    )
    with pytest.raises(StorageError, match="did not complete"):
        Toy(faulty).write(SECOND)
    assert Toy(storage).rows() == FIRST
    # Not a file is touched: the request might still arrive.
    assert len(list(Toy(storage).data_files())) == 4
    Toy(storage).write(THIRD)
    assert Toy(storage).leftovers() == []


def test_nobody_cleans_up_when_the_outcome_is_unknown() -> None:
    storage = written(9, TableType.COPY_ON_WRITE, FIRST)
    blind = False

    def fault(_number: int, name: str, path: str) -> Fault | None:
        nonlocal blind
        if is_completed_file(name, path):
            blind = True
            return Fault.LOST_REPLY
        return Fault.ERROR if blind else None

    with pytest.raises(CommitOutcomeUnknownError) as raised:
        Toy(FaultyStorage(storage, fault)).write(SECOND)
    toy = Toy(storage)
    assert toy.timeline.completed[-1].requested_time == raised.value.requested_time
    assert toy.rows() == {**FIRST, **SECOND}


def test_an_error_of_a_task_takes_its_files_with_it() -> None:
    storage = written(9, TableType.MERGE_ON_READ, FIRST)
    faulty = FaultyStorage(
        storage,
        lambda _, name, path: Fault.ERROR if name == "put" and path.startswith(PARTITION) else None,
    )
    with pytest.raises(StorageError):
        Toy(faulty).write(SECOND)
    toy = Toy(storage)
    assert toy.rows() == FIRST
    assert toy.leftovers() == []
    assert toy.timeline.instants[-1].action is Action.ROLLBACK


def test_a_write_that_was_rolled_back_by_another_does_not_complete() -> None:
    storage = written(9, TableType.COPY_ON_WRITE, FIRST)
    slow = Toy(storage).begin()
    slow.start()
    stat = Toy(storage).task(slow, "a-0", "late", None, "0-0-0")
    Toy(storage).write(SECOND)
    with pytest.raises(InstantLostError):
        slow.commit([stat], schema=SCHEMA)
    assert slow.outcome is Outcome.NOT_LANDED
    slow.abort()
    toy = Toy(storage)
    assert toy.rows() == {**FIRST, **SECOND}
    assert toy.leftovers() == []


def test_a_commit_that_landed_cannot_be_aborted() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    toy = Toy(storage)
    txn = toy.begin()
    txn.start()
    stat = toy.task(txn, "a-0", "a1", None, "0-0-0")
    txn.commit([stat], schema=SCHEMA)
    txn.abort()
    assert Toy(storage).rows() == {"a-0": "a1"}


def test_a_file_of_a_task_that_nobody_waited_for_goes() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    toy = Toy(storage)
    txn = toy.begin()
    txn.start()
    kept = toy.task(txn, "a-0", "a1", None, "0-0-0")
    marked_only = marker_path(txn.marker_folder, f"{PARTITION}/x_0_1.parquet", MarkerKind.CREATE)
    storage.put(marked_only, b"")
    toy.task(txn, "b-0", "stray", None, "0-0-9")
    txn.commit([kept], schema=SCHEMA)
    assert Toy(storage).rows() == {"a-0": "a1"}
    assert Toy(storage).leftovers() == []


def test_a_write_id_finds_its_commit_again() -> None:
    storage = new_storage(8, TableType.COPY_ON_WRITE)
    first = Toy(storage).write(FIRST, write_id="batch 7")
    Toy(storage).write(SECOND)
    toy = Toy(storage)
    contents = TimelineContents(storage, toy.config)
    history = open_history(storage, toy.config)
    assert find_commit(toy.timeline, contents, history, "batch 7") == first
    assert find_commit(toy.timeline, contents, history, "batch 8") is None


def test_a_write_lists_the_timeline_when_it_begins_and_when_it_commits() -> None:
    storage = written(9, TableType.COPY_ON_WRITE, FIRST)
    counting = FaultyStorage(storage)
    Toy(counting).write({"a-0": "a2"})
    listed = [path for name, path in counting.calls if name == "list" and "timeline" in path]
    assert len(listed) == 2


@pytest.mark.parametrize("table", ["v9_cow_cleaned", "v6_mor_failed_served"])
def test_the_metadata_table_is_switched_off_before_anything_else(
    table: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FaultyStorage(memory_table(table))
    toy = Toy(storage)
    assert "files" in toy.config.metadata_partitions
    start = len(storage.calls)
    txn = toy.begin()
    changes = [call for call in storage.calls[start:] if call[0].startswith("put")]
    assert changes[:2] == [
        ("put_if_absent", ".hoodie/hoodie.properties.backup"),
        ("put_if_tagged", ".hoodie/hoodie.properties"),
    ]
    assert not txn.config.metadata_partitions
    assert not load_table_config(storage).metadata_partitions
    assert "metadata table" in caplog.text


def test_a_table_without_metadata_table_keeps_its_properties() -> None:
    storage = FaultyStorage(new_storage(9, TableType.COPY_ON_WRITE))
    Toy(storage).begin()
    assert not [path for name, path in storage.calls if "put" in name and "properties" in path]


def test_a_table_in_the_middle_of_a_restore_is_not_written() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    storage.put(".hoodie/timeline/20260101000000000.restore.inflight", b"")
    with pytest.raises(RestorePendingError, match="restore 20260101000000000"):
        Toy(storage).begin()


def test_instants_have_the_contents_that_apache_writes() -> None:
    old, new = (written(v, TableType.MERGE_ON_READ, FIRST) for v in (6, 9))
    for storage, folder, magic in ((old, ".hoodie", b"{"), (new, ".hoodie/timeline", b"Obj\x01")):
        names = [f.name for f in storage.list(folder).files if "deltacommit" in f.name]
        requested, inflight, completed = (
            next(n for n in names if n.endswith(end))
            for end in (".requested", ".inflight", ".deltacommit")
        )
        assert storage.read(f"{folder}/{requested}") == b""
        assert storage.read(f"{folder}/{inflight}").startswith(magic)
        assert storage.read(f"{folder}/{completed}").startswith(magic)
        assert ("_" in completed) == (storage is new)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST_CALL, Fault.LOST_REPLY, *BOTH], ids=str)
def test_a_write_that_has_ended_gives_no_signs_of_life(fault: Fault) -> None:
    """In a process that goes on: it would keep a dead write from being taken for dead."""
    origin = written(9, TableType.COPY_ON_WRITE, FIRST)
    opening = calls_of(origin, lambda _: None)
    for number in range(1 + opening, 1 + calls_of(origin, lambda toy: toy.write(SECOND))):
        toy = Toy(FaultyStorage.failing_at(copy.deepcopy(origin), number, fault))
        with suppress(TidelakeError, Crash):
            toy.write(SECOND)
        assert isinstance(toy.env.ticker, HandTicker)
        assert toy.env.ticker.is_idle, number
