"""The metadata table that a write keeps: what readers list through it is what lies on storage."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.metadata.test_table import data_files
from tests.unit.services.busy_table import crash_everywhere
from tests.unit.txn.toy_table import KINDS, Rows, Toy, environment, new_storage
from tidelake.config import CleanOptions
from tidelake.config.keys import read_keys as keys
from tidelake.env import Env
from tidelake.errors import CorruptFileError, LockLostError, UnsupportedTableError
from tidelake.formats import index_definitions, plans
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_record import FileList, decode
from tidelake.formats.plans import CompactionPlan
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.metadata.build import build, committed_files, file_records
from tidelake.metadata.file_group import Keys
from tidelake.metadata.keeper import KeeperOptions, MetadataTableKeeper, listed_files
from tidelake.metadata.names import FILES, METADATA_FOLDER
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.statistics import groups
from tidelake.model import Action, TableType
from tidelake.services.clean import clean
from tidelake.services.savepoint import savepoint
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import load_table_config, load_timeline, update_table_config
from tidelake.txn import FileChanges, InstantTimes, NoMetadataTable
from tidelake.txn.protocol.plans import schedule
from tidelake.view import StorageListing

FIRST = {"a-0": "a1", "b-0": "b1"}
SECOND = {"a-0": "a2", "c-0": "c2"}
THIRD = {"b-0": "b3", "d-0": "d3"}
BOTH = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def keeping(**options: Any) -> Callable[[Env], MetadataTableKeeper]:
    return lambda env: MetadataTableKeeper(env, KeeperOptions(**options))


def toy(storage: Storage, **options: bool) -> Toy:
    return Toy(storage, keeping(**options))


def created(table_version: int, table_type: TableType, *batches: Rows) -> MemoryStorage:
    """Return a table with a metadata table, which the first write made."""
    storage = new_storage(table_version, table_type)
    for rows in batches or (FIRST,):
        toy(storage, enabled=True).write(rows)
    return storage


def metadata(storage: Storage) -> MetadataTable:
    config = load_table_config(storage)
    found = MetadataTable.open(storage, config, load_timeline(storage, config))
    assert found is not None
    return found


def agrees(storage: Storage) -> None:
    """Hold the listing to storage, and what is read through it to what is read without."""
    found = metadata(storage)
    assert data_files(found) == data_files(StorageListing(storage))
    assert Toy(storage).rows(found) == Toy(storage).rows()


@each_kind
def test_every_write_is_listed(table_version: int, table_type: TableType) -> None:
    storage = created(table_version, table_type)
    agrees(storage)
    for rows in (SECOND, THIRD):
        toy(storage).write(rows)
        agrees(storage)
    toy(storage).write({"z-0": "z"}, overwrite=True)
    agrees(storage)
    assert Toy(storage).rows(metadata(storage)) == {"z-0": "z"}


@each_kind
def test_one_is_built_for_a_table_that_had_none(table_version: int, table_type: TableType) -> None:
    storage = new_storage(table_version, table_type)
    for rows in (FIRST, SECOND):
        Toy(storage).write(rows)
    pending = Toy(storage).begin()
    pending.start()
    Toy(storage).task(pending, "x-0", "never", None, "0-1-1")
    toy(storage, enabled=True).write(THIRD)
    assert load_table_config(storage).metadata_partitions == {"files"}
    agrees(storage)


@each_kind
def test_a_savepoint_hides_nothing_of_the_write_that_it_keeps(
    table_version: int, table_type: TableType
) -> None:
    """While it is pending, and for good after a crash, both instants have the same time."""
    before = created(table_version, table_type, FIRST, SECOND)
    rows = Toy(before).rows()

    def check(left: MemoryStorage) -> None:
        agrees(left)
        assert Toy(left).rows(metadata(left)) == rows
        toy(left).write(THIRD)
        agrees(left)
        assert Toy(left).rows(metadata(left)) == {**rows, **THIRD}

    assert crash_everywhere(before, lambda storage: savepoint(environment(storage)), check)


def test_a_table_without_one_stays_without_unless_asked() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    toy(storage).write(FIRST)
    assert not storage.exists(METADATA_FOLDER)


@each_kind
def test_a_write_may_take_it_out_of_use(table_version: int, table_type: TableType) -> None:
    storage = created(table_version, table_type)
    toy(storage, enabled=False).write(SECOND)
    assert not load_table_config(storage).metadata_partitions
    toy(storage, enabled=True).write(THIRD)
    agrees(storage)


@pytest.mark.sampled(3)
@each_kind
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_crash_at_any_call_never_hides_rows(
    table_version: int, table_type: TableType, overwrite: bool
) -> None:
    rows, more = ({"y-0": "y2"}, {"z-0": "z3"}) if overwrite else (SECOND, THIRD)
    new = rows if overwrite else {**FIRST, **rows}
    before = created(table_version, table_type)
    counting = FaultyStorage(copy.deepcopy(before))
    toy(counting).write(rows, overwrite=overwrite)
    for number in range(1, len(counting.calls) + 1):
        for fault in BOTH:
            at = f"{fault} {number} {counting.calls[number - 1]}"
            storage = copy.deepcopy(before)
            with pytest.raises(Crash):
                toy(FaultyStorage.failing_at(storage, number, fault)).write(
                    rows, overwrite=overwrite
                )
            found = Toy(storage).rows()
            assert found in (FIRST, new), at
            assert Toy(storage).rows(metadata(storage)) == found, at

            toy(storage).write(more)
            assert Toy(storage).rows() == {**found, **more}, at
            assert Toy(storage).leftovers() == [], at
            agrees(storage)


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_of_the_recovery_is_recovered_from(
    table_version: int, table_type: TableType
) -> None:
    failed = created(table_version, table_type)
    counting = FaultyStorage(copy.deepcopy(failed))
    toy(counting).write(SECOND)
    # The last moment before the data instant completes: the metadata table is ahead.
    paths = [path for _, path in counting.calls]
    done = max(n for n, (name, _) in enumerate(counting.calls) if name == "put_if_absent")
    assert paths[done].endswith("commit")
    with pytest.raises(Crash):
        toy(FaultyStorage.failing_at(failed, done + 1, Fault.CRASH_BEFORE)).write(SECOND)
    assert Toy(failed).rows(metadata(failed)) == FIRST
    counting = FaultyStorage(copy.deepcopy(failed))
    toy(counting).write(THIRD)
    for number in range(1, len(counting.calls) + 1):
        storage = copy.deepcopy(failed)
        with pytest.raises(Crash):
            toy(FaultyStorage.failing_at(storage, number, Fault.CRASH_BEFORE)).write(THIRD)
        assert Toy(storage).rows(metadata(storage)) == Toy(storage).rows()
        toy(storage).write(THIRD)
        assert Toy(storage).rows() == {**FIRST, **THIRD}
        agrees(storage)


@each_kind
def test_what_another_writer_left_out_is_made_good(
    table_version: int, table_type: TableType, caplog: pytest.LogCaptureFixture
) -> None:
    storage = created(table_version, table_type)
    names = keys.METADATA_PARTITIONS.name
    text = storage.read(".hoodie/hoodie.properties")
    Toy(storage, NoMetadataTable).write(SECOND)
    storage.put(".hoodie/hoodie.properties", text)
    assert keys.METADATA_PARTITIONS.items(load_table_config(storage).properties), names
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    newest = timeline.writes()[-1].requested_time
    assert [i.requested_time for i in unknown_writes(storage, config, timeline)] == [newest]
    assert MetadataTable.open(storage, config, timeline) is None
    assert f"does not know {timeline.writes()[-1].action} {newest}" in caplog.text
    toy(storage).write(THIRD)
    assert "is made good" in caplog.text
    assert Toy(storage).rows() == {**FIRST, **SECOND, **THIRD}
    agrees(storage)


@each_kind
def test_half_of_an_upgraded_timeline_is_not_made_good(
    table_version: int, table_type: TableType
) -> None:
    """Where something is missing, it may be on the other half of the metadata table's timeline."""
    storage = created(table_version, table_type)
    text = storage.read(".hoodie/hoodie.properties")
    Toy(storage, NoMetadataTable).write(SECOND)
    storage.put(".hoodie/hoodie.properties", text)
    folder = f"{METADATA_FOLDER}/.hoodie"
    if table_version < 8:
        name = f"{folder}/timeline/20260101000000000_20260101000000001.deltacommit"
    else:
        name = f"{folder}/20260101000000000.deltacommit"
    storage.put(name, b"")
    with pytest.raises(CorruptFileError, match="belongs to layout"):
        toy(storage).write(THIRD)


@each_kind
def test_a_write_is_made_good_without_what_is_listed(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type)
    text = storage.read(".hoodie/hoodie.properties")
    Toy(storage, NoMetadataTable).write(SECOND)
    storage.put(".hoodie/hoodie.properties", text)
    env = Env(storage)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    times = InstantTimes(env.clock, config, timeline)
    own = OwnTable.load(storage)
    assert own is not None
    files = committed_files(storage, config, timeline)
    own.commit(times.next(), {FILES: file_records(files, table_version)}, times)
    MetadataTableKeeper(env).prepare(config, timeline, times)
    own = OwnTable.load(storage)
    assert own is not None
    assert own.has(timeline.writes()[-1].requested_time)
    (group,) = groups(own, FILES)
    stored = group.newest(Keys(["p=1"]))["p=1"]
    _, record = decode(stored.value, stored.schema)
    # To Apache Hudi a file that two logs add and remove is what the base file says.
    assert isinstance(record, FileList)
    assert record.entries.keys() == files["p=1"].keys()


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_while_it_is_built_leaves_a_table_without(
    table_version: int, table_type: TableType
) -> None:
    before = new_storage(table_version, table_type)
    Toy(before).write(FIRST)
    counting = FaultyStorage(copy.deepcopy(before))
    toy(counting, enabled=True).write(SECOND)
    for number in range(1, len(counting.calls) + 1):
        storage = copy.deepcopy(before)
        with pytest.raises(Crash):
            toy(FaultyStorage.failing_at(storage, number, Fault.CRASH_AFTER), enabled=True).write(
                SECOND
            )
        found = Toy(storage).rows()
        config = load_table_config(storage)
        through = MetadataTable.open(storage, config, load_timeline(storage, config))
        assert Toy(storage).rows(through) == found
        toy(storage, enabled=True).write(THIRD)
        agrees(storage)
        assert Toy(storage).rows() == {**found, **THIRD}


@each_kind
def test_a_metadata_table_that_cannot_be_read_stops_a_write_before_it_begins(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type)
    path = f"{METADATA_FOLDER}/.hoodie/hoodie.properties"
    storage.put(path, b"hoodie.table.version=9\n")
    before = set(storage.files_below(""))
    with pytest.raises(CorruptFileError) as raised:
        toy(storage).write(SECOND)
    assert raised.value.path == path
    assert "tidelake.metadata.rebuild=true" in raised.value.next_step
    assert set(storage.files_below("")) == before

    toy(storage, rebuild=True).write(SECOND)
    assert Toy(storage).rows() == {**FIRST, **SECOND}
    agrees(storage)


@each_kind
def test_one_that_somebody_began_to_delete_is_not_read_and_built_anew(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type, FIRST, SECOND)
    storage.delete(f"{METADATA_FOLDER}/.hoodie/hoodie.properties")
    config = load_table_config(storage)
    assert MetadataTable.open(storage, config, load_timeline(storage, config)) is None
    assert unknown_writes(storage, config, load_timeline(storage, config)) == ()
    toy(storage, enabled=True).write(THIRD)
    assert Toy(storage).rows() == {**FIRST, **SECOND, **THIRD}
    agrees(storage)


def test_a_process_that_was_stopped_deletes_nothing_of_what_others_built() -> None:
    """It was about to build the metadata table anew, and had begun to delete the old one."""
    storage = created(9, TableType.COPY_ON_WRITE, FIRST)
    env = environment(storage)
    config = load_table_config(storage)
    deleted: list[str] = []

    def stop(_number: int, name: str, path: str) -> None:
        if name == "delete" and path.startswith(METADATA_FOLDER):
            deleted.append(path)
            env.clock.sleep_ms(60_000)

    def fence() -> None:
        if deleted:
            raise LockLostError("others have it", next_step="run it again")

    stopped = replace(env, storage=FaultyStorage(storage, stop))
    timeline = load_timeline(storage, config)
    times = InstantTimes(env.clock, config, timeline, fence=fence)
    with pytest.raises(LockLostError):
        build(stopped, config, timeline, times)
    assert len(deleted) == 1


@each_kind
def test_who_was_stopped_behind_a_build_takes_back_none_of_another(
    table_version: int, table_type: TableType
) -> None:
    """Up to version 7 the instants of both builds have the same name."""
    storage = created(table_version, table_type, FIRST)
    env = environment(storage)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    storage.delete_folder(METADATA_FOLDER)
    others: list[InstantTimes] = []

    def fence() -> None:
        found = OwnTable.load(storage)
        if found is not None and found.timeline.completed and not others:
            env.clock.sleep_ms(1)
            others.append(InstantTimes(env.clock, config, timeline))
            build(env, config, timeline, *others)
        if others:
            raise LockLostError("others have it", next_step="run it again")

    with pytest.raises(LockLostError):
        build(env, config, timeline, InstantTimes(env.clock, config, timeline, fence=fence))
    assert others
    agrees(storage)


@each_kind
def test_who_was_stopped_in_a_delete_hits_no_file_that_took_its_place(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type, FIRST)
    old = [p for p in storage.files_below(METADATA_FOLDER) if p.endswith(".hfile")]
    env = environment(storage)
    env.clock.sleep_ms(1)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    build(env, config, timeline, InstantTimes(env.clock, config, timeline))
    new = [p for p in storage.files_below(METADATA_FOLDER) if p.endswith(".hfile")]
    assert old
    assert new
    assert not {*old} & {*new}


@pytest.mark.parametrize("table_type", list(TableType))
def test_a_metadata_table_without_its_first_instant_is_built_anew(table_type: TableType) -> None:
    """In version 6 its logs are named after slices, and without that instant it has none."""
    storage = created(6, table_type, FIRST, SECOND, THIRD)
    folder = f"{METADATA_FOLDER}/.hoodie"
    storage.delete(min(p for p in storage.files_below(folder) if p.endswith(".deltacommit")))
    env = environment(storage)
    clean(env, CleanOptions(commits=1), MetadataTableKeeper(env))
    config = load_table_config(storage)
    own = OwnTable.load(storage)
    assert own is not None
    there = committed_files(storage, config, load_timeline(storage, config))
    listed = {p: {n: e.size_bytes for n, e in files.items()} for p, files in there.items()}
    assert listed_files(own) == listed
    assert Toy(storage).rows() == {**FIRST, **SECOND, **THIRD}


@each_kind
def test_a_metadata_table_that_cannot_be_read_can_be_given_up(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type)
    storage.put(f"{METADATA_FOLDER}/.hoodie/hoodie.properties", b"")
    toy(storage, enabled=False).write(SECOND)
    assert not load_table_config(storage).metadata_partitions
    assert Toy(storage).rows() == {**FIRST, **SECOND}


def test_a_folder_that_is_gone_is_taken_out_of_the_properties() -> None:
    storage = created(9, TableType.COPY_ON_WRITE)
    storage.delete_folder(METADATA_FOLDER)
    toy(storage).write(SECOND)
    assert not load_table_config(storage).metadata_partitions
    assert Toy(storage).rows() == {**FIRST, **SECOND}


def test_no_write_while_an_index_is_built() -> None:
    storage = created(9, TableType.COPY_ON_WRITE)
    storage.put(".hoodie/timeline/20991115000000001.indexing.requested", b"")
    with pytest.raises(UnsupportedTableError, match="20991115000000001 is building an index"):
        toy(storage).write(SECOND)
    assert Toy(storage).rows(metadata(storage)) == FIRST


def test_up_to_version_7_a_plan_takes_what_apache_would_not_keep_out_of_use() -> None:
    # With a plan pending Apache Hudi 1.2 builds no statistics that it misses, and leaves the list
    # of files behind as well: rows of its next write would be hidden.
    storage = created(6, TableType.MERGE_ON_READ)
    storage.put(f"{METADATA_FOLDER}/column_stats/.hoodie_partition_metadata", b"")
    update_table_config(environment(storage), {keys.METADATA_PARTITIONS.name: "column_stats,files"})
    toy(storage).write(SECOND)
    assert load_table_config(storage).metadata_partitions == {"files"}
    assert plan_compaction(storage) is not None
    assert not load_table_config(storage).metadata_partitions
    toy(storage, enabled=True).write(THIRD)
    assert not load_table_config(storage).metadata_partitions


def test_a_plan_leaves_a_metadata_table_that_apache_goes_on_with() -> None:
    storage = created(6, TableType.MERGE_ON_READ)
    assert plan_compaction(storage) is not None
    toy(storage).write(SECOND)
    agrees(storage)
    storage = created(8, TableType.MERGE_ON_READ)
    storage.put(f"{METADATA_FOLDER}/column_stats/.hoodie_partition_metadata", b"")
    assert plan_compaction(storage) is not None
    toy(storage).write(SECOND)
    agrees(storage)


def plan_compaction(storage: MemoryStorage) -> str | None:
    env = environment(storage)
    config = load_table_config(storage)
    return schedule(
        env,
        config,
        load_timeline(storage, config),
        action=Action.COMPACTION,
        make_plan=lambda _timeline, _time: plans.encode(CompactionPlan(version=2)),
        keeper=MetadataTableKeeper(env),
    )


def test_definitions_of_what_is_not_kept_go_with_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = created(9, TableType.COPY_ON_WRITE)
    path = ".hoodie/.index_defs/index.json"
    kept = IndexDefinition(index_name="column_stats", index_type="column_stats")
    gone = IndexDefinition(index_name="secondary_index_x", index_type="secondary_index")
    named = {d.index_name: d for d in (kept, gone)}
    storage.put(path, index_definitions.encode(named))
    names = {
        keys.METADATA_PARTITIONS.name: "bloom_filters,files,secondary_index_x",
        keys.METADATA_PARTITIONS_INFLIGHT.name: "expr_index_y",
        keys.INDEX_DEFINITIONS_PATH.name: path,
    }
    update_table_config(environment(storage), names)
    toy(storage).write(SECOND)
    config = load_table_config(storage)
    assert config.metadata_partitions == {"files"}
    assert not keys.METADATA_PARTITIONS_INFLIGHT.items(config.properties)
    assert set(index_definitions.decode(storage.read(path))) == {"column_stats"}
    assert "bloom_filters, expr_index_y, secondary_index_x of the metadata table" in caplog.text
    agrees(storage)


@each_kind
def test_files_of_a_partition_that_was_dropped_stay_away_when_it_comes_back(
    table_version: int, table_type: TableType
) -> None:
    storage = created(table_version, table_type)
    before = set(data_files(StorageListing(storage))["p=1"])
    env = Env(storage)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    times = InstantTimes(env.clock, config, timeline)
    keeper = MetadataTableKeeper(env)
    keeper.prepare(config, timeline, times)
    own = OwnTable.load(storage)
    assert own is not None
    keeper.record(times.next(), FileChanges(deleted={"p=1": sorted(before)[:1]}), times)
    own = OwnTable.load(storage)
    assert own is not None
    # So says a clean of Apache Hudi that leaves no file of a partition.
    own.commit(times.next(), {FILES: {"p=1": None}}, times)
    changes = FileChanges(written={"p=1": {"new.parquet": 9}}, begun=frozenset({"p=1"}))
    keeper.record(times.next(), changes, times)
    own = OwnTable.load(storage)
    assert own is not None
    (group,) = groups(own, FILES)
    stored = group.newest(Keys(["p=1"]))["p=1"]
    _, record = decode(stored.value, stored.schema)
    # Its compaction puts the newest record over the base file, whatever was in between.
    assert isinstance(record, FileList)
    assert {n for n, entry in record.entries.items() if entry.is_deleted} == before
    assert [n for n, entry in record.entries.items() if not entry.is_deleted] == ["new.parquet"]


def lost_lock() -> None:
    raise LockLostError("the lock was lost", next_step="run the write again")


@each_kind
def test_who_lost_the_lock_publishes_nothing_in_the_metadata_table(
    table_version: int, table_type: TableType
) -> None:
    """A writer that was stopped for long, and rolled back, would list files that are gone."""
    storage = created(table_version, table_type)
    env = environment(storage)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    keeper = MetadataTableKeeper(env)
    keeper.prepare(config, timeline, InstantTimes(env.clock, config, timeline))
    times = InstantTimes(env.clock, config, timeline, fence=lost_lock)
    with pytest.raises(LockLostError):
        keeper.record(times.next(), FileChanges(written={"p": {"never.parquet": 1}}), times)
    agrees(storage)
