from __future__ import annotations

import copy

import pytest

from tests.unit.services.busy_table import (
    KINDS,
    PARTITION,
    Busy,
    busy,
    crash_everywhere,
    options,
)
from tests.unit.txn.toy_table import environment, new_storage
from tidelake.config import CleanOptions, CleanPolicy, ConcurrencyMode
from tidelake.errors import (
    CorruptFileError,
    PlanCompletedError,
    PlanRemovedError,
    UnsupportedTableError,
)
from tidelake.formats import plans
from tidelake.formats.plans import CleanerPlan
from tidelake.model import Action, State, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean, run_clean, schedule_clean
from tidelake.services.clean_plan import plan_clean
from tidelake.services.service_context import ServiceContext
from tidelake.storage import MemoryStorage, Storage
from tidelake.timeline import Publisher, with_history
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.locks.storage_lock import StorageLock
from tidelake.txn.locks.table_lock import TableLock

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
TWO = CleanOptions(commits=2)
ARCHIVING = options(clean_commits_retained="2", keep_min_commits="3", keep_max_commits="4")
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def cleaned(table: Busy, given: CleanOptions = TWO) -> int:
    return sum(done.files_deleted for done in clean(environment(table.storage), given))


def data_files(table: Busy) -> list[str]:
    return sorted(table.toy.data_files())


@each_kind
def test_a_clean_leaves_every_retained_commit_as_it_was(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type)
    writes = [i.requested_time for i in table.state.timeline.writes()]
    kept = {time: table.rows_as_of(time) for time in writes[-2:]}
    before = data_files(table)
    assert cleaned(table) > 0
    assert set(data_files(table)) < set(before)
    assert table.rows() == kept[writes[-1]]
    assert {time: table.rows_as_of(time) for time in kept} == kept
    (instant,) = (i for i in table.state.timeline.instants if i.action is Action.CLEAN)
    metadata = table.state.contents.clean_metadata(instant)
    assert metadata.earliest_commit_to_retain == writes[-2]
    assert metadata.last_completed_commit_timestamp == writes[-1]
    assert metadata.total_files_deleted == len(before) - len(data_files(table))
    assert cleaned(table) == 0
    assert [i.action for i in table.state.timeline.instants].count(Action.CLEAN) == 1


@each_kind
def test_each_clean_goes_on_where_the_last_one_ended(
    table_version: int, table_type: TableType
) -> None:
    """What a look at the changed partitions leaves is what a look at all of them leaves."""
    table = busy(table_version, table_type, 0)
    deleted = 0
    for n in range(12):
        # The overwrite retires the groups of the first rounds.
        names = (f"a{n // 6}-0", f"g{n // 6}{n % 3}-0")
        table.write(dict.fromkeys(names, str(n)), overwrite=n == 6)
        if table_type is MOR and n % 2:
            table.compact()
        deleted += cleaned(table)
        assert plan_clean(table.now, CleanOptions(commits=2, incremental=False)).is_empty
    assert deleted > 10
    assert not plan_clean(table.now, TWO).everywhere


def test_only_partitions_that_changed_are_looked_at() -> None:
    table = busy(9, COW, 4)
    for n in range(40):
        path = f"q={n}/old-0_0-0-0_20200101000000000.parquet"
        table.storage.put(path, b"")
        table.storage.put(f"q={n}/.hoodie_partition_metadata", b"")
    assert plan_clean(table.now, TWO).extent == 41
    cleaned(table)
    table.write({"a-0": "later"})
    plan = plan_clean(table.now, TWO)
    assert not plan.everywhere
    assert plan.extent == 1
    assert list(plan.deleted) == [PARTITION]
    assert plan_clean(table.now, CleanOptions(commits=2, incremental=False)).extent == 41


def test_writes_that_only_add_supersede_nothing() -> None:
    table = busy(9, COW, 4)
    cleaned(table)
    for n in range(9):
        table.write({f"new{n}-0": "x"})
    plan = plan_clean(table.now, TWO)
    assert (plan.everywhere, plan.deleted) == (False, {PARTITION: plan.deleted[PARTITION]})
    cleaned(table)
    for n in range(9):
        table.write({f"newer{n}-0": "x"})
    plan = plan_clean(table.now, TWO)
    assert (plan.everywhere, plan.extent, plan.deleted) == (False, 9, {})
    assert clean(environment(table.storage), TWO) == []


def test_a_long_look_in_vain_is_written_down() -> None:
    table = Busy(new_storage(9, COW))
    for n in range(4):
        table.write({f"new{n}-0": "x"})
    (done,) = clean(environment(table.storage), TWO)
    assert done.files_deleted == 0
    assert done.earliest_retained == table.state.timeline.writes()[-2].requested_time
    table.write({"more-0": "x"})
    assert clean(environment(table.storage), TWO) == []
    assert not plan_clean(table.now, TWO).everywhere


@each_kind
def test_hours_keep_what_was_current_at_their_start(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type)
    start = table.state.timeline.writes()[3].requested_time
    env = environment(table.storage)
    day = CleanOptions(policy=CleanPolicy.HOURS, hours=24)
    assert clean(env, day) == []
    before = table.rows_as_of(start)
    moment = table.now.times.at(env.clock.now_ms())
    env.clock.sleep_ms(24 * 3_600_000 + int(start) - int(moment))
    (done,) = clean(env, day)
    assert done.earliest_retained == start
    assert done.files_deleted > 0
    assert table.rows_as_of(start) == before


@each_kind
def test_an_idle_table_keeps_its_newest_state(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type)
    rows = table.rows()
    env = environment(table.storage)
    env.clock.sleep_ms(1000 * 3_600_000)
    (done,) = clean(env, CleanOptions(policy=CleanPolicy.HOURS, hours=1))
    assert done.earliest_retained == table.state.timeline.writes()[-1].requested_time
    assert table.rows() == rows


@each_kind
@pytest.mark.parametrize("versions", [1, 2])
def test_file_versions_count_slices(
    table_version: int, table_type: TableType, versions: int
) -> None:
    table = busy(table_version, table_type)
    rows = table.rows()
    given = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=versions)
    assert cleaned(table, given) > 0
    view = table.state.view
    counts = {g.id.file_id: len(view.slices(g)) for g in view.groups()}
    assert max(counts.values()) == counts["a-0"] == versions
    assert table.rows() == rows
    assert cleaned(table, given) == 0
    table.write({"a-0": "again"})
    assert not plan_clean(table.now, given).everywhere
    if table_type is MOR:
        table.compact()
    assert cleaned(table, given) > 0
    fewer = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=versions - 1 or 1)
    assert plan_clean(table.now, fewer).everywhere is (versions > 1)


@each_kind
def test_a_replaced_group_goes_when_nobody_can_see_it(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    table.write({"z-0": "z"}, overwrite=True)
    assert cleaned(table) == 0 or table_type is MOR
    table.write({"z-0": "z1"})
    table.write({"z-0": "z2"})
    assert cleaned(table) > 0
    assert {p.rpartition("/")[2].lstrip(".").partition("_")[0] for p in data_files(table)} == {
        "z-0"
    }
    assert table.rows() == {"z-0": "z2"}


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_pending_compaction_keeps_its_slices(table_version: int) -> None:
    table = busy(table_version, MOR, 2)
    table.write({"a-0": "before"})
    time = table.plan_compaction()
    for n in range(4):
        table.write({"a-0": f"after{n}"})
    for policy in CleanPolicy:
        again = Busy(copy.deepcopy(table.storage))
        rows = again.rows()
        cleaned(again, CleanOptions(policy=policy, commits=1, hours=0, file_versions=1))
        assert again.rows() == rows
        plan = again.now.state.contents.compaction_plan(
            next(i for i in again.now.state.timeline.pending if i.requested_time == time)
        )
        for operation in plan.operations:
            for name in (operation.data_file_path, *operation.delta_file_paths):
                assert again.storage.stat(f"{PARTITION}/{name}") is not None


def test_a_pending_write_holds_the_horizon_back() -> None:
    table = busy(9, COW, 4)
    table.toy.begin().start()
    pending = table.state.timeline.pending[0].requested_time
    # Another writer, which does not roll it back.
    time = f"{int(pending) + 50}"
    for n in range(5):
        requested = f"{int(time) + 10 * n}"
        table.storage.put(
            f".hoodie/timeline/{requested}_{int(requested) + 5}.commit",
            table.storage.read(f".hoodie/timeline/{table.state.timeline.writes()[0].file_name}"),
        )
    plan = plan_clean(table.now, TWO)
    assert plan.retained is not None
    assert plan.retained.requested_time == table.state.timeline.writes()[3].requested_time


def test_a_horizon_never_comes_back() -> None:
    table = busy(9, COW, 6)
    cleaned(table, CleanOptions(commits=1))
    table.write({"a-0": "more"})
    plan = plan_clean(table.now, CleanOptions(commits=4))
    assert plan.retained is not None
    assert plan.retained.requested_time == table.state.timeline.writes()[5].requested_time


@each_kind
def test_a_crash_at_any_call_is_gone_on_from(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type)
    retained = table.state.timeline.writes()[-2].requested_time
    rows, past = table.rows(), table.rows_as_of(retained)
    whole = Busy(copy.deepcopy(table.storage))
    cleaned(whole)

    def check(left: MemoryStorage) -> None:
        found = Busy(left)
        assert found.rows() == rows
        cleaned(found)
        assert data_files(found) == data_files(whole)
        assert (found.rows(), found.rows_as_of(retained)) == (rows, past)
        assert not found.now.state.timeline.pending

    def act(storage: Storage) -> None:
        clean(environment(storage), TWO)

    assert crash_everywhere(table.storage, act, check) > 10


def test_a_plan_can_wait() -> None:
    table = busy(9, COW)
    time = schedule_clean(table.now, TWO)
    assert time is not None
    files = data_files(table)
    (pending,) = table.state.timeline.pending
    assert (pending.action, pending.state) == (Action.CLEAN, State.REQUESTED)
    done = run_clean(table.now, time)
    assert len(files) - len(data_files(table)) == done.files_deleted > 0
    with pytest.raises(PlanCompletedError):
        run_clean(table.now, time)
    with pytest.raises(PlanRemovedError, match="has no clean 17"):
        run_clean(table.now, "17")


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_plan_that_somebody_else_carries_out_meanwhile_has_their_result(
    is_archived: bool,
) -> None:
    table = busy(9, COW)
    time = schedule_clean(table.now, TWO)
    assert time is not None
    env = environment(table.storage)
    lock = TableLock(StorageLock(env, validity_ms=60_000, skew_ms=0), env.clock)
    shared = Concurrency(mode=ConcurrencyMode.OPTIMISTIC, lock=lock)
    before = ServiceContext.load(env, None, shared)
    done = run_clean(table.now, time)
    if is_archived:
        for n in range(6):
            table.write({"a-0": f"again {n}"})
            clean(environment(table.storage), TWO)
        archive(environment(table.storage), ARCHIVING)
        assert table.state.timeline.is_archived(time)
    assert run_clean(before, time) == done
    now = table.now
    found = with_history(now.state.timeline, now.state.history.instants())
    assert [i.requested_time for i in found].count(time) == 1


def test_a_plan_that_nobody_can_read_is_said_to_be_so() -> None:
    table = busy(9, COW)
    table.storage.put(".hoodie/timeline/20270101000000000.clean.requested", b"what is this")
    files = data_files(table)
    with pytest.raises(CorruptFileError) as refused:
        cleaned(table)
    assert "delete .hoodie/timeline/20270101000000000.clean.requested" in refused.value.next_step
    assert data_files(table) == files


def test_the_plan_can_be_looked_at() -> None:
    table = busy(9, COW)
    plan = plan_clean(table.now, options(clean_commits_retained="2").clean).shown()
    assert plan.horizon == table.state.timeline.writes()[-2].requested_time
    assert [file.path for file in plan.files_deleted] == [
        path for path in data_files(table) if "/a-0_" in path
    ][:-3]
    assert "older than the last 2 commits" in str(plan)


def test_a_plan_of_no_time_that_will_ever_be_deletes_nothing() -> None:
    table = busy(9, COW)
    time = schedule_clean(table.now, TWO)
    assert time is not None
    plan = table.storage.read(f".hoodie/timeline/{time}.clean.requested")
    table.storage.delete(f".hoodie/timeline/{time}.clean.requested")
    table.storage.put(".hoodie/timeline/20999999000000000.clean.requested", plan)
    files = data_files(table)
    with pytest.raises(UnsupportedTableError, match="is no time"):
        run_clean(table.now, "20999999000000000")
    assert data_files(table) == files


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_partition_that_others_may_write_to_is_not_dropped(is_shared: bool) -> None:
    """So plans Apache Hudi, which may then find the rows of no write that began before."""
    table = busy(9, COW)
    table.storage.put("empty/.hoodie_partition_metadata", b"")
    now = table.now
    plan = CleanerPlan(
        policy="KEEP_LATEST_COMMITS",
        files_to_be_deleted_per_partition={},
        version=2,
        file_paths_to_be_deleted_per_partition={},
        partitions_to_be_deleted=("empty",),
        last_completed_commit_timestamp="",
    )
    time = now.times.next()
    Publisher(table.storage, now.state.config).request(time, Action.CLEAN, plans.encode(plan))
    env = environment(table.storage)
    lock = TableLock(StorageLock(env, validity_ms=60_000, skew_ms=0), env.clock)
    shared = Concurrency(mode=ConcurrencyMode.OPTIMISTIC, lock=lock)
    run_clean(ServiceContext.load(env, None, shared if is_shared else Concurrency()), time)
    assert (table.storage.stat("empty/.hoodie_partition_metadata") is not None) is is_shared
