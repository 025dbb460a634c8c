"""The metadata table's own services: it stays small, and says the same before and after."""

from __future__ import annotations

import copy

import pytest

from tests.unit.metadata.test_keeper import agrees, created, each_kind, keeping, lost_lock, metadata
from tests.unit.txn.toy_table import SCHEMA, Toy
from tidelake.env import Env
from tidelake.errors import LockLostError
from tidelake.formats import plans
from tidelake.formats.hfile import HFile
from tidelake.formats.plans import CompactionPlan
from tidelake.metadata.keeper import KeeperOptions, MetadataTableKeeper
from tidelake.metadata.names import METADATA_FOLDER
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.upkeep import clean, keep_small, since_compaction
from tidelake.model import Action, TableType
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.timeline import Publisher, load_timeline
from tidelake.txn import InstantTimes, Transaction, begin, changes_of

FILES = f"{METADATA_FOLDER}/files"


def often(env: Env) -> MetadataTableKeeper:
    return MetadataTableKeeper(env, KeeperOptions(compact_after=2))


def own_table(storage: Storage) -> OwnTable:
    found = OwnTable.load(storage)
    assert found is not None
    return found


def rows(number: int) -> dict[str, str]:
    return {"a-0": f"a{number}", f"g{number}-0": str(number)}


def written(table_version: int, table_type: TableType, count: int) -> MemoryStorage:
    storage = created(table_version, table_type)
    for number in range(count):
        Toy(storage, often).write(rows(number))
    return storage


@each_kind
def test_a_savepoint_that_a_crash_left_pending_does_not_stop_compaction(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type)
    saved = load_timeline(storage, Toy(storage).config).writes()[-1]
    Publisher(storage, Toy(storage).config).start(saved.requested_time, Action.SAVEPOINT)
    for number in range(6):
        Toy(storage, often).write(rows(number))
        agrees(storage)
    assert any(i.action is Action.COMMIT for i in own_table(storage).timeline.completed)


@each_kind
def test_a_write_counts_behind_services_of_a_clock_that_is_ahead(
    table_version: int, table_type: TableType
) -> None:
    """They may have run for a write that then failed: the table itself knows no such time."""
    storage = created(table_version, table_type)
    now = Toy(storage)
    ahead = ManualClock(now.env.clock.now_ms() + 60_000)
    times = InstantTimes(ahead, now.config, now.timeline)
    env = Env(storage, ahead, SeededIds())
    own = keep_small(env, own_table(storage), now.config, times, delta_commits=1)
    assert any(i.action is Action.COMMIT for i in own.timeline.completed)
    for number in range(3):
        Toy(storage, often).write(rows(number))
        agrees(storage)


@each_kind
def test_a_compaction_that_nobody_ends_takes_no_deltacommit_of_its_time_along(
    table_version: int, table_type: TableType
) -> None:
    """Whoever lost the lock may have begun it at a time that somebody else took for a write."""
    storage = written(table_version, table_type, 1)
    newest = Toy(storage).timeline.writes()[-1].requested_time
    publisher = own_table(storage).publisher
    for action in (Action.COMPACTION, Action.CLEAN):
        publisher.request(newest, action, plans.encode(CompactionPlan(version=2)))
        publisher.start(newest, action)
    stray = f"{FILES}/files-0000-0_0-0-0_{newest}.hfile"
    storage.put(stray, b"half")
    Toy(storage, keeping()).write({"z-0": "z"})
    agrees(storage)
    assert storage.stat(stray) is None
    assert not own_table(storage).timeline.pending


@pytest.mark.parametrize("table_version", [8, 9])
def test_a_write_is_later_than_a_service_that_nobody_ended(table_version: int) -> None:
    storage = created(table_version, TableType.COPY_ON_WRITE)
    later = "20261115000500000"
    own_table(storage).publisher.request(later, Action.COMPACTION, b"")
    own_table(storage).publisher.start(later, Action.COMPACTION)
    assert Toy(storage, keeping()).write(rows(1)).requested_time > later
    agrees(storage)


def services_of(storage: Storage) -> list[str]:
    names = own_table(storage).timeline.file_names
    return sorted(name for name in names if "compaction" in name or "clean" in name)


@each_kind
def test_who_lost_the_lock_begins_no_service_and_ends_none(
    table_version: int, table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = written(table_version, table_type, 5)
    now = Toy(storage)
    times = InstantTimes(now.env.clock, now.config, now.timeline, fence=lost_lock)
    before = services_of(storage)
    with pytest.raises(LockLostError):
        keep_small(now.env, own_table(storage), now.config, times, delta_commits=1)
    assert services_of(storage) == before
    monkeypatch.setattr("tidelake.metadata.upkeep.clean", lambda *_: None)
    for number in range(5, 9):
        Toy(storage, often).write(rows(number))
    before = services_of(storage)
    with pytest.raises(LockLostError):
        clean(now.env, own_table(storage), times)
    assert services_of(storage) == before
    own_table(storage).publisher.request("20261115000500000", Action.COMPACTION, b"")
    begun = services_of(storage)
    with pytest.raises(LockLostError):
        often(now.env).prepare(now.config, now.timeline, times)
    assert services_of(storage) == begun


@each_kind
def test_it_stays_small_and_true(table_version: int, table_type: TableType) -> None:
    storage = created(table_version, table_type)
    sizes = []
    for number in range(14):
        Toy(storage, often).write(rows(number))
        agrees(storage)
        sizes.append(len(storage.list(FILES).files))
        assert len(since_compaction(own_table(storage))) <= 2
    assert max(sizes[4:]) <= 8
    kinds = {i.planned_as for i in own_table(storage).timeline.completed}
    assert kinds == {Action.DELTACOMMIT, Action.COMPACTION, Action.CLEAN}
    assert not own_table(storage).timeline.pending


@each_kind
def test_base_files_hold_no_tombstones(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, 5)
    bases = [f.name for f in storage.list(FILES).files if f.name.endswith(".hfile")]
    file = HFile.of_bytes(storage.read(f"{FILES}/{max(bases)}"))
    keys = [key for key, _ in file.scan()]
    assert keys == [b"__all_partitions__", b"p=1"]
    assert file.info["minRecordKey"] == b"__all_partitions__"


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_of_a_compaction_hides_nothing(
    table_version: int, table_type: TableType
) -> None:
    before = created(table_version, table_type)
    last = 0
    while True:
        counting = FaultyStorage(copy.deepcopy(before))
        Toy(counting, often).write(rows(last))
        names = [path for _, path in counting.calls]
        if any(".clean" in name for name in names):
            break
        Toy(before, often).write(rows(last))
        last += 1
    assert any(".compaction" in name for name in names)
    old = Toy(before).rows()
    for number in range(1, len(counting.calls) + 1):
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            storage = copy.deepcopy(before)
            with pytest.raises(Crash):
                Toy(FaultyStorage.failing_at(storage, number, fault), often).write(rows(last))
            found = Toy(storage).rows()
            assert found in (old, {**old, **rows(last)})
            assert Toy(storage).rows(metadata(storage)) == found
            Toy(storage, often).write(rows(99))
            agrees(storage)
            assert Toy(storage).rows() == {**found, **rows(99)}
            assert not own_table(storage).timeline.pending


def lazily(storage: Storage) -> tuple[Toy, Transaction]:
    """Begin a write that leaves failed ones where they are."""
    toy = Toy(storage, often)
    txn = begin(
        toy.env,
        toy.config,
        toy.timeline,
        action=toy.write_action,
        operation="UPSERT",
        roll_back=False,
        keeper=toy.keeper,
    )
    txn.start()
    return toy, txn


@each_kind
def test_what_may_be_taken_back_is_not_compacted(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, 1)
    toy, failed = lazily(storage)
    stat = toy.task(failed, "x-0", "never", None, "0-1-1")
    assert toy.keeper is not None
    toy.keeper.record(
        failed.instant_time,
        changes_of([stat]),
        InstantTimes(toy.env.clock, toy.config, load_timeline(storage, toy.config)),
    )
    done = len(since_compaction(own_table(storage)))
    for number in range(3):
        toy, txn = lazily(storage)
        txn.commit([toy.task(txn, f"y{number}-0", "y", None, "0-1-1")], schema=SCHEMA)
        assert len(since_compaction(own_table(storage))) == done + number + 1
    Toy(storage, often).write(rows(7))
    agrees(storage)
    assert "x-0" not in Toy(storage).rows(metadata(storage))


def test_the_plan_of_a_compaction_names_its_files() -> None:
    storage = written(9, TableType.MERGE_ON_READ, 6)
    own = own_table(storage)
    (newest,) = [i for i in own.timeline.completed if i.planned_as is Action.COMPACTION][-1:]
    path = f"{METADATA_FOLDER}/.hoodie/timeline/{newest.requested_time}.compaction.requested"
    (operation,) = plans.decode(plans.CompactionPlan, storage.read(path)).operations
    assert (operation.file_id, operation.partition_path) == ("files-0000-0", "files")
    assert len(operation.delta_file_paths) == 2


@pytest.mark.parametrize("table_type", TableType)
def test_logs_of_version_6_have_names_of_their_own(table_type: TableType) -> None:
    """Who was stopped while it deleted one of another instant must not hit it."""
    storage = created(6, table_type)
    own = own_table(storage)
    first, second = (
        own._log(one.group, one, {"x": None}, time).name
        for one in own.slices("files")
        for time in ("20261115000000001", "20261115000000002")
    )
    assert first != second
    assert first.partition("_0-")[0] == second.partition("_0-")[0]


@each_kind
def test_a_compaction_that_others_have_done_meanwhile_is_not_taken_away(
    table_version: int, table_type: TableType
) -> None:
    """Its files were listed, which took long; others took it away, and made the same again."""
    storage = created(table_version, table_type)
    Toy(storage, keeping()).write({"a-0": "a"})
    now = Toy(storage)
    times = InstantTimes(ManualClock(), now.config, now.timeline)
    own = own_table(storage)
    own.publisher.request("20990101000000000", Action.COMPACTION, b"")
    before = storage.files_below("")
    lost = InstantTimes(ManualClock(), now.config, now.timeline, fence=lost_lock)
    with pytest.raises(LockLostError):
        own_table(storage).forget("20990101000000000", lost, Action.COMPACTION)
    assert storage.files_below("") == before
    own_table(storage).forget("20990101000000000", times, Action.COMPACTION)
    assert storage.files_below("") != before
