from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.golden import harness
from tests.golden.local_table import LocalTable
from tests.unit.services.busy_table import KINDS, PARTITION, Busy, busy, crash_everywhere, options
from tests.unit.txn.toy_table import Toy, environment, new_storage
from tests.unit.txn.toy_writer import LEASE_MS, Writer
from tidelake.config import CleanOptions, CleanPolicy, ServiceOptions
from tidelake.env import Env
from tidelake.errors import ConfigError, HorizonError, RestorePendingError
from tidelake.formats.log_block import decode_blocks
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import Action, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean, schedule_clean
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back, roll_back_all_failed
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.services.service_context import ServiceContext
from tidelake.storage import LocalStorage, MemoryStorage, Storage
from tidelake.testing import ManualClock
from tidelake.timeline import Publisher

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
ONE = CleanOptions(commits=1)
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def save(table: Busy, time: str | None = None) -> str:
    return savepoint(environment(table.storage), time).instant


def go_on(table: Busy, *, rounds: int = 4) -> None:
    """Do to the table what a savepoint must outlive."""
    is_mor = table.state.config.table_type is MOR
    for n in range(rounds):
        table.write({"a-0": f"later{n}", f"l{n}-0": "x"})
        if is_mor and n % 2:
            table.compact()
        clean(environment(table.storage), ONE)


@each_kind
def test_a_savepoint_outlives_cleans(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 4)
    time = save(table)
    rows = table.rows_as_of(time)
    go_on(table)
    assert table.rows_as_of(time) == rows
    (found,) = table.state.savepoints()
    kept = table.state.contents.savepoint_metadata(found).partition_metadata[PARTITION]
    assert all(table.storage.stat(f"{PARTITION}/{n}") for n in kept.savepoint_data_file)

    delete_savepoint(environment(table.storage), time)
    assert not [n for n in table.state.timeline.file_names if "savepoint" in n]
    (done,) = clean(environment(table.storage), ONE)
    assert done.files_deleted > 0
    assert table.rows()["a-0"] == "later3"


@each_kind
def test_a_restore_brings_the_table_back(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 5)
    time = save(table)
    rows = table.rows()
    go_on(table)
    table.write({"z-0": "z"}, overwrite=True)
    later = [i.requested_time for i in table.state.timeline.writes() if i.requested_time > time]
    done = restore(environment(table.storage), time)
    assert table.rows() == rows
    assert set(done.instants) == set(later)
    assert list(done.instants) == sorted(later, reverse=True)
    now = table.now
    assert not now.state.timeline.pending
    assert [i.requested_time for i in now.state.timeline.writes()][-1] == time
    (instant,) = (i for i in now.state.timeline.completed if i.action is Action.RESTORE)
    metadata = now.state.contents.restore_metadata(instant)
    assert metadata.instants_to_rollback == done.instants
    assert set(metadata.hoodie_restore_metadata) == set(later)
    # Once archived, whatever was left of them would count.
    for n in range(3):
        table.write({"a-0": f"new{n}"})
    rows = table.rows()
    delete_savepoint(environment(table.storage), time)
    small = options(clean_commits_retained="1", keep_min_commits="2", keep_max_commits="3")
    clean(environment(table.storage), small.clean)
    assert archive(environment(table.storage), small) is not None
    assert table.rows() == rows


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_of_a_restore_is_gone_on_from(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 3)
    time = save(table)
    rows = table.rows()
    go_on(table, rounds=2)
    if table_type is MOR:
        table.plan_compaction()
    table.write({"b-0": "b"})
    whole = Busy(copy.deepcopy(table.storage))
    restore(environment(whole.storage), time)
    files = set(whole.toy.data_files())

    def check(left: MemoryStorage) -> None:
        found = Busy(left)
        timeline = ServiceContext.load_restoring(environment(left)).state.timeline
        if any(i.action is Action.RESTORE for i in timeline.pending):
            with pytest.raises(RestorePendingError):
                found.write({"a-0": "too early"})
            with pytest.raises(RestorePendingError):
                clean(environment(left), ONE)
        restore(environment(left), time)
        assert found.rows() == rows
        assert not found.now.state.timeline.pending
        if table_version >= 8:
            assert set(found.toy.data_files()) == files

    def act(storage: Storage) -> None:
        restore(environment(storage), time)

    assert crash_everywhere(table.storage, act, check) > 20


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_plan_made_since_goes_with_what_it_names(table_version: int) -> None:
    table = busy(table_version, MOR, 3)
    time = save(table)
    rows = table.rows()
    table.write({"a-0": "later"})
    plan = table.plan_compaction()
    # Up to version 7 these logs are named after the plan.
    table.write({"a-0": "later still"})
    restore(environment(table.storage), time)
    assert table.rows() == rows
    assert not [p for p in table.storage.files_below(PARTITION) if plan in p]
    assert not table.state.timeline.pending


@pytest.mark.parametrize("table_version", [8, 9])
def test_a_compaction_that_was_under_way_is_undone(table_version: int) -> None:
    table = busy(table_version, MOR, 1)
    table.write({"a-0": "log"})
    plan = table.plan_compaction()
    table.write({"b-0": "b"})
    time = save(table)
    rows = table.rows()
    table.run_compaction(plan)
    clean(environment(table.storage), ONE)
    restore(environment(table.storage), time)
    assert table.rows() == rows
    assert not [p for p in table.toy.data_files() if plan in p and "/a-0" in p]


def test_a_restore_needs_the_files_of_its_savepoint() -> None:
    table = busy(9, COW, 3)
    time = save(table)
    table.write({"a-0": "later"})
    (found,) = table.state.savepoints()
    kept = table.state.contents.savepoint_metadata(found).partition_metadata[PARTITION]
    gone = f"{PARTITION}/{kept.savepoint_data_file[0]}"
    table.storage.delete(gone)
    before = table.storage.files_below("")
    with pytest.raises(HorizonError, match=gone) as refused:
        restore(environment(table.storage), time)
    assert "restore to a later savepoint" in refused.value.next_step
    assert table.storage.files_below("") == before


def test_a_restore_does_not_reach_behind_the_archive() -> None:
    table = busy(9, COW, 3)
    time = save(table)
    beyond = options(
        clean_commits_retained="1",
        keep_min_commits="2",
        keep_max_commits="3",
        archive_beyond_savepoint="true",
    )
    for n in range(6):
        table.write({"a-0": f"later{n}"})
    assert archive(environment(table.storage), beyond) is not None
    before = table.storage.files_below("")
    with pytest.raises(HorizonError, match="later writes are archived"):
        restore(environment(table.storage), time)
    assert table.storage.files_below("") == before


FEW = {"clean_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3"}


def saved_while_another_writes(storage: MemoryStorage, clock: ManualClock) -> tuple[str, str]:
    """Return the time of a saved write, and of one that began before it and completed after."""
    Toy(storage).write({"a": "0", "b": "0"})
    early, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    slow = early.begin()
    stats = early.write(slow, "b", "slow")
    clock.sleep_ms(1_000)
    quick = other.begin()
    other.commit(quick, other.write(quick, "a", "saved"))
    time = savepoint(Env(storage, clock), None).instant
    assert time == quick.instant_time
    clock.sleep_ms(1_000)
    early.commit(slow, stats)
    clock.sleep_ms(1_000)
    for n in range(6):
        Toy(storage).write({"a": f"later{n}", "b": f"later{n}"})
    return time, slow.instant_time


@pytest.mark.parametrize("table_type", list(TableType))
def test_what_completed_after_a_saved_write_is_not_archived_before_it(
    table_type: TableType,
) -> None:
    """It was requested before the saved one, and a restore has to take it back."""
    clock = ManualClock()
    storage = new_storage(9, table_type, clock.now_ms)
    time, slow = saved_while_another_writes(storage, clock)
    archive(Env(storage, clock), options(**FEW))
    assert slow in {i.requested_time for i in Toy(storage).timeline.writes()}
    beyond = storage.copied()
    archive(Env(beyond, clock), options(**FEW, archive_beyond_savepoint="true"))
    with pytest.raises(HorizonError, match="later writes are archived"):
        restore(Env(beyond, clock), time)
    restore(Env(storage, clock), time)
    assert Toy(storage).rows() == {"a": "saved", "b": "0"}


def test_what_a_savepoint_of_version_6_does_not_name_yet_outlives_cleans() -> None:
    """By its requested time it belongs to what a restore brings back."""
    clock = ManualClock()
    storage = new_storage(6, COW, clock.now_ms)
    time, _ = saved_while_another_writes(storage, clock)
    clean(Env(storage, clock), ONE)
    archive(Env(storage, clock), options(**FEW))
    restore(Env(storage, clock), time)
    assert Toy(storage).rows() == {"a": "saved", "b": "slow"}


def test_bad_restores_are_refused_before_anything_is_written() -> None:
    table = busy(9, COW, 3)
    times = [i.requested_time for i in table.state.timeline.writes()]
    before = table.storage.files_below("")
    with pytest.raises(ConfigError, match="has no savepoint") as refused:
        restore(environment(table.storage), times[0])
    assert refused.value.next_step == "the table has no savepoint"
    assert table.storage.files_below("") == before
    save(table, times[1])
    with pytest.raises(ConfigError) as refused:
        restore(environment(table.storage), times[0])
    assert refused.value.next_step == f"there are savepoints of {times[1]}"


def test_another_restore_must_finish_first() -> None:
    table = busy(9, COW, 3)
    times = [save(table, i.requested_time) for i in table.state.timeline.writes()[:2]]
    crashed = copy.deepcopy(table.storage)

    def stop(storage: Storage) -> None:
        restore(environment(storage), times[0])

    seen = 0

    def check(left: MemoryStorage) -> None:
        nonlocal seen
        timeline = ServiceContext.load_restoring(environment(left)).state.timeline
        if any(i.action is Action.RESTORE for i in timeline.pending):
            seen += 1
            with pytest.raises(RestorePendingError) as refused:
                restore(environment(left), times[1])
            assert "call restore with the same savepoint again" in refused.value.next_step

    crash_everywhere(crashed, stop, check)
    assert seen


def test_bad_savepoints_are_refused() -> None:
    table = Busy(new_storage(9, COW))
    with pytest.raises(ConfigError, match="no completed write"):
        save(table)
    table = busy(9, COW, 5)
    times = [i.requested_time for i in table.state.timeline.writes()]
    save(table, times[-1])
    before = table.storage.files_below("")
    with pytest.raises(ConfigError, match="has a savepoint already"):
        save(table, times[-1])
    with pytest.raises(ConfigError, match="is not on the timeline"):
        save(table, "20200101000000000")
    with pytest.raises(ConfigError, match="has no savepoint"):
        delete_savepoint(environment(table.storage), times[0])
    assert table.storage.files_below("") == before
    table.toy.begin().start()
    pending = table.state.timeline.pending[0].requested_time
    with pytest.raises(ConfigError, match=f"commit {pending} is inflight and cannot be kept"):
        save(table, pending)


def test_a_savepoint_behind_the_horizon_is_refused() -> None:
    table = busy(9, COW, 5)
    times = [i.requested_time for i in table.state.timeline.writes()]
    planned = Busy(copy.deepcopy(table.storage))
    clean(environment(table.storage), CleanOptions(commits=2))
    with pytest.raises(HorizonError, match=f"left it readable from {times[3]} on"):
        save(table, times[1])
    assert schedule_clean(planned.now, CleanOptions(commits=2)) is not None
    with pytest.raises(HorizonError, match="is about to delete files of it"):
        save(planned, times[1])
    assert save(planned, times[3]) == times[3]
    assert not [n for n in table.state.timeline.file_names if "savepoint" in n]


@each_kind
def test_the_newest_write_can_be_rolled_back(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 3)
    rows = table.rows()
    time = table.write({"a-0": "wrong", "w-0": "wrong"})
    done = roll_back(environment(table.storage), time)
    assert done.instant == time
    assert table.rows() == rows
    now = table.now
    assert not [n for n in now.state.timeline.file_names if n.startswith(time)]
    (instant,) = (i for i in now.state.timeline.completed if i.action is Action.ROLLBACK)
    assert now.state.contents.rollback_metadata(instant).commits_rollback == (time,)
    if table_version >= 8 or table_type is COW:
        assert not [p for p in table.toy.data_files() if time in p]
    else:
        last = decode_blocks(
            table.storage.read(max(p for p in table.toy.data_files() if "/.a-0" in p))
        )[-1]
        assert last.target_instant_time == time
    table.write({"a-0": "right"})
    assert table.rows() == {**rows, "a-0": "right"}


@each_kind
def test_an_overwrite_can_be_rolled_back(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 3)
    rows = table.rows()
    time = table.write({"z-0": "z"}, overwrite=True)
    assert table.rows() == {"z-0": "z"}
    roll_back(environment(table.storage), time)
    assert table.rows() == rows


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_compaction_can_be_rolled_back(table_version: int) -> None:
    table = busy(table_version, MOR, 1)
    table.write({"a-0": "log"})
    rows = table.rows()
    time = table.compact()
    roll_back(environment(table.storage), time)
    assert table.rows() == rows
    assert not table.state.timeline.pending


@each_kind
def test_a_crash_at_any_call_of_a_rollback_is_gone_on_from(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 3)
    rows = table.rows()
    time = table.write({"a-0": "wrong", "w-0": "wrong"})
    wrong = table.rows()

    def check(left: MemoryStorage) -> None:
        found = Busy(left)
        assert found.rows() in (rows, wrong)
        begun = bool(found.now.state.timeline.pending) or found.rows() == rows
        roll_back_all_failed(environment(left))
        if not begun:
            roll_back(environment(left), time)
        assert found.rows() == rows
        assert not found.now.state.timeline.pending

    def act(storage: Storage) -> None:
        roll_back(environment(storage), time)

    assert crash_everywhere(table.storage, act, check) > 12


@each_kind
def test_asking_again_for_a_rollback_that_died_brings_it_to_its_end(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 3)
    rows = table.rows()
    time = table.write({"a-0": "wrong", "w-0": "wrong"})
    whole = Busy(copy.deepcopy(table.storage))
    deleted = roll_back(environment(whole.storage), time).files_deleted
    begun = 0

    def check(left: MemoryStorage) -> None:
        nonlocal begun
        found = Busy(left)
        if found.rows() == rows:
            return
        begun += bool(found.now.state.timeline.pending)
        assert roll_back(environment(left), time).files_deleted == deleted
        assert found.rows() == rows
        assert not found.now.state.timeline.pending

    def act(storage: Storage) -> None:
        roll_back(environment(storage), time)

    crash_everywhere(table.storage, act, check)
    assert begun > 1


@each_kind
def test_a_savepoint_that_died_does_not_stop_the_rollback_of_its_write(
    table_version: int, table_type: TableType
) -> None:
    """Where several write, whoever comes next finishes a rollback, of writes and not of plans."""
    clock = ManualClock()
    storage = new_storage(table_version, table_type, clock.now_ms)
    Toy(storage).write({"a": "0"})
    time = Toy(storage).write({"a": "wrong"}).requested_time
    config = Toy(storage).config
    Publisher(storage, config).start(time, Action.SAVEPOINT)

    def check(crashed: MemoryStorage) -> None:
        left = crashed.copied(clock.now_ms)
        found = Toy(left)
        if found.rows() == {"a": "wrong"} and not any(
            i.action is Action.ROLLBACK for i in found.timeline.pending
        ):
            return
        for heartbeat in left.files_below(".hoodie/.heartbeat"):
            left.delete(heartbeat)
        other = Writer(left, clock, 3)
        clock.sleep_ms(10 * LEASE_MS)
        roll_back_all_failed(other.env, expires_ms=LEASE_MS, concurrency=other.concurrency)
        assert Toy(left).rows() == {"a": "0"}
        assert not [i for i in Toy(left).timeline.pending if i.action is not Action.SAVEPOINT]

    def act(at: Storage) -> None:
        ours = Writer(at, clock, 2)
        roll_back(ours.env, time, concurrency=ours.concurrency)

    crash_everywhere(storage, act, check)


def test_bad_rollbacks_are_refused_before_anything_is_written() -> None:
    table = busy(9, COW, 6)
    times = [i.requested_time for i in table.state.timeline.writes()]
    save(table, times[-1])
    (done,) = clean(environment(table.storage), CleanOptions(commits=2))
    before = table.storage.files_below("")
    env = environment(table.storage)
    with pytest.raises(ConfigError, match="is not the newest write") as refused:
        roll_back(env, times[2])
    assert refused.value.next_step.startswith(f"roll back {times[-1]} first")
    with pytest.raises(ConfigError, match="is kept by a savepoint"):
        roll_back(env, times[-1])
    with pytest.raises(ConfigError, match="is a clean, which wrote no rows"):
        roll_back(env, done.requested_time)
    with pytest.raises(ConfigError, match="is not on the timeline"):
        roll_back(env, "20200101000000000")
    assert table.storage.files_below("") == before


def test_an_archived_write_cannot_be_rolled_back() -> None:
    table = busy(9, COW, 8)
    first = table.state.timeline.writes()[0].requested_time
    archive(
        environment(table.storage),
        options(clean_commits_retained="1", keep_min_commits="2", keep_max_commits="3"),
    )
    with pytest.raises(ConfigError, match=f"{first} is archived"):
        roll_back(environment(table.storage), first)


def test_a_rollback_without_a_past_to_go_back_to_is_refused() -> None:
    table = busy(9, COW, 3)
    time = table.write({"a-0": "newest"})
    given = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=1)
    clean(environment(table.storage), given)
    before = table.storage.files_below("")
    with pytest.raises(HorizonError, match="file group a-0") as refused:
        roll_back(environment(table.storage), time)
    assert "savepoint" in refused.value.next_step
    assert table.storage.files_below("") == before


def test_a_plan_that_waits_is_not_rolled_back() -> None:
    table = busy(9, MOR, 1)
    table.write({"a-0": "log"})
    time = table.plan_compaction()
    with pytest.raises(ConfigError, match="a plan that waits to be carried out"):
        roll_back(environment(table.storage), time)


@each_kind
def test_failed_writes_are_rolled_back_on_request(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 3)
    rows = table.rows()
    txn = table.toy.begin()
    txn.start()
    table.toy.task(txn, "f-0", "failed", None, "0-0-0")
    assert roll_back_all_failed(environment(table.storage)) == [], "it gives signs of life"
    table.storage.delete(heartbeat_path(txn.instant_time))
    copied = Busy(copy.deepcopy(table.storage))
    assert roll_back_all_failed(environment(table.storage)) == [txn.instant_time]
    assert roll_back_all_failed(environment(table.storage)) == []
    done = roll_back(environment(copied.storage), txn.instant_time)
    assert done.files_deleted == 1
    for found in (table, copied):
        assert found.rows() == rows
        assert found.toy.leftovers() == []


def test_a_write_that_gives_signs_of_life_is_left_alone() -> None:
    storage_clock = ManualClock()
    table = Busy(new_storage(9, COW, storage_clock.now_ms))
    table.write({"a-0": "a"})
    txn = table.toy.begin()
    txn.start()
    env = environment(table.storage)
    env.clock.sleep_ms(3_600_000)  # this machine's clock is ahead, and nobody minds
    storage_clock.sleep_ms(1_000)
    assert roll_back_all_failed(env, expires_ms=5000) == []
    clean(env, ONE, expires_ms=5000)
    assert [i.requested_time for i in table.state.timeline.pending] == [txn.instant_time]
    storage_clock.sleep_ms(120_000)
    clean(env, ONE, expires_ms=5000)
    assert not table.state.timeline.pending
    assert table.toy.leftovers() == []


RESTORED = ["v6_mor_savepoint_restore", "v8_mor_restored", "v9_cow_restored"]


@pytest.mark.parametrize("name", [*RESTORED, "v9_mor_savepoint"])
def test_tables_that_apache_saved_are_restored(name: str, tmp_path: Path) -> None:
    root = harness.unpack(harness.load(name), tmp_path)
    read = {"hoodie.metadata.enable": "false"}
    env = environment(LocalStorage(str(root)))
    now = ServiceContext.load(env)
    (found,) = now.state.savepoints()
    time = found.requested_time
    rows = sorted(LocalTable(str(root), read).read(as_of=time).collect())
    done = restore(env, time)
    assert len(done.instants) > 0
    assert sorted(LocalTable(str(root), read).read().collect()) == rows


@pytest.mark.parametrize("name", [*RESTORED, "v9_mor_savepoint"])
def test_a_savepoint_names_what_apaches_names(name: str, tmp_path: Path) -> None:
    root = harness.unpack(harness.load(name), tmp_path)
    storage = LocalStorage(str(root))
    now = ServiceContext.load(environment(storage))
    (found,) = now.state.savepoints()
    theirs = now.state.contents.savepoint_metadata(found)
    assert now.state.timeline.file_names >= {f"{found.requested_time}.savepoint.inflight"}
    delete_savepoint(environment(storage), found.requested_time)
    made = savepoint(environment(storage), found.requested_time)
    now = ServiceContext.load(environment(storage))
    (found,) = now.state.savepoints()
    assert found.requested_time == made.instant
    ours = now.state.contents.savepoint_metadata(found)
    names = {p: set(f.savepoint_data_file) for p, f in ours.partition_metadata.items()}
    apache = {p: set(f.savepoint_data_file) for p, f in theirs.partition_metadata.items()}
    if name.startswith("v6_mor"):
        # Its slices take up logs that are later than the savepoint, and nothing in a name tells.
        assert all(names[p] >= apache[p] for p in apache)
    else:
        assert names == apache
    assert now.state.timeline.file_names >= {f"{found.requested_time}.savepoint.inflight"}


def test_defaults_suit_each_other() -> None:
    given = ServiceOptions()
    assert given.archive.min_commits > given.clean.commits
