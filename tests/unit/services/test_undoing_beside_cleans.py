"""Rollbacks of completed writes and restores beside cleans: neither takes what the other needs."""

from __future__ import annotations

import copy

import pytest

from tests.unit.services.busy_table import KINDS, PARTITION, Busy, busy, crash_everywhere
from tests.unit.txn.toy_table import environment
from tidelake.config import CleanOptions, CleanPolicy
from tidelake.errors import HorizonError
from tidelake.formats import plans
from tidelake.formats.plans import ActionInstant, CleanerPlan, CleanFileInfo
from tidelake.model import Action, TableType
from tidelake.services.clean import clean, pending_cleans, run_clean, schedule_clean
from tidelake.services.restore import restore
from tidelake.services.rollback import plan_roll_back, roll_back, roll_back_all_failed
from tidelake.services.savepoint import savepoint
from tidelake.storage import MemoryStorage, Storage
from tidelake.timeline import Publisher

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
NEWEST_ONLY = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=1)
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def rewritten(table_version: int, table_type: TableType) -> tuple[Busy, str]:
    """Return a table whose newest write took over from older slices, and that write."""
    table = busy(table_version, table_type, 3)
    if table_type is COW:
        return table, table.write({"a-0": "newest"})
    table.write({"a-0": "log"})
    return table, table.compact()


@each_kind
def test_what_a_pending_clean_deletes_is_not_gone_back_to(
    table_version: int, table_type: TableType
) -> None:
    table, time = rewritten(table_version, table_type)
    rows = table.rows()
    planned = schedule_clean(table.now, NEWEST_ONLY)
    assert planned is not None
    before = table.storage.files_below("")
    with pytest.raises(HorizonError, match=f"clean {planned} is about to delete") as refused:
        roll_back(environment(table.storage), time)
    assert "let that clean finish" in refused.value.next_step
    with pytest.raises(HorizonError, match=f"clean {planned} is about to delete"):
        plan_roll_back(table.now, time)
    assert table.storage.files_below("") == before
    run_clean(table.now, planned)
    assert table.rows() == rows


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_compaction_is_not_gone_back_behind_when_its_logs_were_cleaned(
    table_version: int,
) -> None:
    """A slice that had logs alone has no base file before the compaction that could be missed."""
    table, time = rewritten(table_version, MOR)
    rows = table.rows()
    logs = [path for path in table.storage.files_below("") if ".log." in path]
    assert logs
    for path in logs:
        table.storage.delete(path)
    with pytest.raises(HorizonError, match="held before it was cleaned away"):
        roll_back(environment(table.storage), time)
    assert table.rows() == rows


@each_kind
def test_a_clean_that_died_anywhere_leaves_a_rollback_nothing_that_it_would_delete(
    table_version: int, table_type: TableType
) -> None:
    table, time = rewritten(table_version, table_type)
    rows = table.rows()
    planned = schedule_clean(table.now, NEWEST_ONLY)
    assert planned is not None

    def check(left: MemoryStorage) -> None:
        found = Busy(left)
        with pytest.raises(HorizonError):
            roll_back(environment(left), time)
        clean(environment(left), NEWEST_ONLY)
        assert found.rows() == rows

    def act(storage: Storage) -> None:
        run_clean(Busy(storage).now, planned)  # type: ignore[arg-type]

    assert crash_everywhere(table.storage, act, check) > 5


@pytest.mark.parametrize("table_version", [6, 9])
def test_a_clean_elsewhere_does_not_hold_a_rollback_up(table_version: int) -> None:
    table = busy(table_version, COW, 3)
    rows = table.rows()
    time = table.write({"new-0": "n"})
    assert schedule_clean(table.now, NEWEST_ONLY) is not None
    roll_back(environment(table.storage), time)
    clean(environment(table.storage), NEWEST_ONLY)
    assert table.rows() == rows


@each_kind
def test_a_clean_leaves_what_a_rollback_that_was_begun_goes_back_to(
    table_version: int, table_type: TableType
) -> None:
    table, time = rewritten(table_version, table_type)
    undone = Busy(copy.deepcopy(table.storage))
    roll_back(environment(undone.storage), time)
    rows, newest = undone.rows(), table.rows()
    begun = 0

    def check(left: MemoryStorage) -> None:
        nonlocal begun
        found = Busy(left)
        if not any(i.action is Action.ROLLBACK for i in found.now.state.timeline.pending):
            return
        begun += 1
        clean(environment(left), NEWEST_ONLY)
        assert found.rows() in (rows, newest)
        roll_back_all_failed(environment(left))
        if table_type is COW:
            assert found.rows() == rows
        else:
            assert found.rows()["a-0"] == "log"

    def act(storage: Storage) -> None:
        roll_back(environment(storage), time)

    crash_everywhere(table.storage, act, check)
    assert begun > 3


def doomed_by_apache(table: Busy, names: list[str], *, older: bool) -> str:
    """Put a clean on the timeline that does not heed savepoints."""
    now = table.now
    time = now.times.next()
    plan = CleanerPlan(
        earliest_instant_to_retain=ActionInstant(timestamp="", action="commit", state="COMPLETED"),
        last_completed_commit_timestamp="",
        policy="KEEP_LATEST_COMMITS",
        files_to_be_deleted_per_partition={PARTITION: tuple(names)} if older else {},
        version=2,
        file_paths_to_be_deleted_per_partition={
            PARTITION: tuple(
                CleanFileInfo(file_path=f"/x/{PARTITION}/{n}", is_bootstrap_base_file=False)
                for n in ([] if older else names)
            )
        },
        partitions_to_be_deleted=(),
        extra_metadata={},
    )
    Publisher(table.storage, now.state.config).request(time, Action.CLEAN, plans.encode(plan))
    return time


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("table_version", [6, 9])
def test_a_table_is_not_restored_to_what_a_pending_clean_deletes(
    table_version: int, older: bool
) -> None:
    table = busy(table_version, COW, 3)
    time = savepoint(environment(table.storage)).instant
    (found,) = table.state.savepoints()
    kept = table.state.contents.savepoint_metadata(found).partition_metadata[PARTITION]
    table.write({"a-0": "later"})
    planned = doomed_by_apache(table, list(kept.savepoint_data_file[:1]), older=older)
    before = table.storage.files_below("")
    with pytest.raises(HorizonError, match=f"clean {planned} is about to delete"):
        restore(environment(table.storage), time)
    assert table.storage.files_below("") == before


@pytest.mark.parametrize("table_version", [6, 9])
def test_a_plan_of_an_old_release_is_heeded_by_savepoints(table_version: int) -> None:
    table = busy(table_version, COW, 3)
    names = [path.rpartition("/")[2] for path in table.toy.data_files()]
    planned = doomed_by_apache(table, names, older=True)
    assert [i.requested_time for i in pending_cleans(table.state)] == [planned]
    with pytest.raises(HorizonError, match=f"clean {planned} is about to delete"):
        savepoint(environment(table.storage))


@each_kind
def test_a_clean_that_died_anywhere_leaves_a_savepoint_nothing_that_it_would_lack(
    table_version: int, table_type: TableType
) -> None:
    """What the clean had deleted by then was not missed: only files that are there were kept."""
    table, newest = rewritten(table_version, table_type)
    time = table.state.timeline.writes()[-2].requested_time
    planned = schedule_clean(table.now, NEWEST_ONLY)
    assert planned is not None

    def check(left: MemoryStorage) -> None:
        if any(i.requested_time == planned for i in Busy(left).now.state.timeline.completed):
            return
        with pytest.raises(HorizonError, match=f"clean {planned} is about to delete"):
            savepoint(environment(left), time)
        savepoint(environment(left), newest)

    def act(storage: Storage) -> None:
        run_clean(Busy(storage).now, planned)  # type: ignore[arg-type]

    assert crash_everywhere(table.storage, act, check) > 5
