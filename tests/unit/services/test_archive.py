from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

from tests.golden import harness
from tests.golden.local_table import LocalTable
from tests.unit.services.busy_table import KINDS, PARTITION, Busy, busy, crash_everywhere, options
from tests.unit.txn.toy_table import environment, new_storage
from tidelake.config import (
    ArchiveOptions,
    CleanOptions,
    CleanPolicy,
    CompactionOptions,
    ServiceOptions,
)
from tidelake.errors import CorruptFileError, LockLostError
from tidelake.formats import plans
from tidelake.formats.marker_name import marker_folder
from tidelake.formats.plans import SavepointMetadata, doomed_files
from tidelake.model import Action, Commit, Instant, TableType
from tidelake.services.archive import archive
from tidelake.services.archive_plan import plan_archive
from tidelake.services.clean import clean, run_clean, schedule_clean
from tidelake.services.service_context import ServiceContext
from tidelake.storage import LocalStorage, MemoryStorage, Storage
from tidelake.testing import FaultyStorage
from tidelake.timeline import Publisher, update_table_config, with_history
from tidelake.txn import find_commit

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
SMALL = options(clean_commits_retained="2", keep_min_commits="4", keep_max_commits="6")
ALL_BUT_ONE = ServiceOptions(
    clean=CleanOptions(policy=CleanPolicy.FILE_VERSIONS),
    archive=ArchiveOptions(min_commits=1, max_commits=1),
    compaction=CompactionOptions(max_delta_commits=1),
)
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def archived(table: Busy, given: ServiceOptions = SMALL) -> int:
    done = archive(environment(table.storage), given)
    return 0 if done is None else len(done.instants)


def instants(table: Busy) -> list[tuple[str, Action, str | None]]:
    """Return every instant, archived or not, as somebody who asks for all of them gets them."""
    now = table.now
    found = with_history(now.state.timeline, now.state.history.instants())
    return [(i.requested_time, i.action, i.completion_time) for i in found]


def long_lived(table_version: int, table_type: TableType, rounds: int = 12) -> Busy:
    table = busy(table_version, table_type, 0)
    for n in range(rounds):
        table.write({"a-0": f"a{n}", f"g{n}-0": f"g{n}"})
        if table_type is MOR and n % 2:
            table.compact()
        if n % 3 == 2:
            clean(environment(table.storage), SMALL.clean)
    return table


@each_kind
def test_nothing_is_lost_and_nothing_is_there_twice(
    table_version: int, table_type: TableType
) -> None:
    table = long_lived(table_version, table_type)
    before, rows = instants(table), table.rows()
    contents = {
        i.requested_time: table.state.contents.commit_metadata(i)
        for i in table.state.timeline.writes()
    }
    assert archived(table) > 8
    assert len(table.state.timeline.writes()) == 4
    if table_version >= 8:
        # In version 6 the time of completion is that of the file, and memory has none.
        assert instants(table) == before
    assert [i[:2] for i in instants(table)] == [i[:2] for i in before]
    assert table.rows() == rows
    history = table.state.history
    for instant in history.instants():
        if instant.action is Action.CLEAN:
            assert history.clean_metadata(instant) is not None
        elif instant.action in (Action.COMMIT, Action.DELTACOMMIT):
            found = history.commit_metadata(instant)
            assert found.write_stats == contents[instant.requested_time].write_stats
            assert found.schema == contents[instant.requested_time].schema
    left = {name.partition(".")[0].partition("_")[0] for name in table.state.timeline.file_names}
    assert not left & {i.requested_time for i in history.instants()}
    assert archived(table) == 0


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_is_gone_on_from(table_version: int, table_type: TableType) -> None:
    table = long_lived(table_version, table_type)
    before, rows = [i[:2] for i in instants(table)], table.rows()

    def check(left: MemoryStorage) -> None:
        found = Busy(left)
        assert [i[:2] for i in instants(found)] == before
        assert found.rows() == rows
        archived(found)
        for n in range(4):
            found.write({"a-0": f"more{n}"})
        archived(found)
        assert len(found.now.state.timeline.writes()) <= 6
        assert [i[:2] for i in instants(found)][: len(before)] == before
        archive_times = [(i.requested_time, i.action) for i in found.now.state.history.instants()]
        assert len(archive_times) == len(set(archive_times))
        assert found.rows() == {**rows, "a-0": "more3"}

    def act(storage: Storage) -> None:
        archive(environment(storage), SMALL)

    assert crash_everywhere(table.storage, act, check) > 30


def test_a_timeline_within_its_bounds_is_left_alone() -> None:
    table = busy(9, COW, 6)
    plan = plan_archive(table.now, SMALL)
    assert plan.instants == ()
    assert plan.reason == "6 writes are active, and up to 6 may be"


def test_a_pending_write_stays_with_what_came_just_before() -> None:
    table = busy(9, COW, 3)
    table.toy.begin().start()
    pending = table.state.timeline.pending[0].requested_time
    first = table.state.timeline.writes()[0]
    sample = table.storage.read(f".hoodie/timeline/{first.file_name}")
    for n in range(9):
        requested = f"{int(pending) + 100 + 10 * n}"
        own = sample.replace(first.requested_time.encode(), requested.encode())
        table.storage.put(f".hoodie/timeline/{requested}_{int(requested) + 5}.commit", own)
    plan = plan_archive(table.now, SMALL)
    assert list(plan.instants) == list(table.state.timeline.writes()[:2])
    assert f"commit {pending} is still inflight" in plan.reason


@pytest.mark.parametrize("table_version", [6, 9])
def test_a_pending_compaction_stays(table_version: int) -> None:
    table = busy(table_version, MOR, 3)
    time = table.plan_compaction()
    for n in range(9):
        table.write({"a-0": f"later{n}"})
    plan = plan_archive(table.now, SMALL)
    assert all(i.requested_time < time for i in plan.instants)
    assert f"compaction {time} is still requested" in plan.reason


def saved(table: Busy, time: str) -> None:
    now = table.now
    metadata = SavepointMetadata(
        savepointed_by="us", savepointed_at=0, comments="", partition_metadata={}
    )
    table.storage.put(f"{now.state.config.timeline_folder}/{time}.savepoint.inflight", b"")
    done = now.times.next()
    table.storage.put(
        f"{now.state.config.timeline_folder}/{time}_{done}.savepoint", plans.encode(metadata)
    )


def test_a_savepoint_stays_and_all_behind_it_unless_told_otherwise() -> None:
    table = busy(9, COW, 12)
    writes = [i.requested_time for i in table.state.timeline.writes()]
    saved(table, writes[3])
    plan = plan_archive(table.now, SMALL)
    assert [i.requested_time for i in plan.instants] == writes[:3]
    beyond = options(
        clean_commits_retained="2",
        keep_min_commits="4",
        keep_max_commits="6",
        archive_beyond_savepoint="true",
    )
    plan = plan_archive(table.now, beyond)
    assert [i.requested_time for i in plan.instants] == [*writes[:3], *writes[4:9]]
    before, rows = instants(table), table.rows()
    archived(table, beyond)
    assert (instants(table), table.rows()) == (before, rows)


def test_what_cleans_keep_readable_stays() -> None:
    table = busy(9, COW, 12)
    given = options(keep_min_commits="4", keep_max_commits="6", cleaner_hours_retained="24")
    plan = plan_archive(table.now, given)
    assert plan.instants == ()
    assert "cleans keep the table readable from" in plan.reason


def overwritten(table_version: int, table_type: TableType) -> tuple[Busy, Instant]:
    """Return a table that was overwritten and written to since, and the overwrite."""
    table = busy(table_version, table_type, 2)
    table.write({"z-0": "z"}, overwrite=True)
    replacing = table.state.timeline.writes()[-1]
    for n in range(9):
        table.write({"z-0": f"z{n}"})
    return table, replacing


@each_kind
def test_a_replacement_stays_until_the_replaced_files_are_gone(
    table_version: int, table_type: TableType
) -> None:
    table, replacing = overwritten(table_version, table_type)
    plan = plan_archive(table.now, SMALL)
    assert replacing not in plan.instants
    assert "not cleaned away yet" in plan.reason
    archived(table)
    assert table.rows() == {"z-0": "z8"}
    clean(environment(table.storage), SMALL.clean)
    assert archived(table) > 0
    assert replacing.requested_time < (table.state.timeline.first_active_time or "")
    assert table.rows() == {"z-0": "z8"}


@each_kind
def test_a_replacement_stays_until_the_clean_of_the_replaced_files_has_completed(
    table_version: int, table_type: TableType
) -> None:
    """Up to then the metadata table lists the files, and nothing else keeps them out of sight."""
    table, replacing = overwritten(table_version, table_type)
    planned = schedule_clean(table.now, SMALL.clean)
    assert planned is not None
    (instant,) = (i for i in table.state.timeline.pending if i.requested_time == planned)
    for partition, names in doomed_files(table.state.contents.clean_plan(instant)).items():
        for name in names:
            table.storage.delete(f"{partition}/{name}")
    plan = plan_archive(table.now, SMALL)
    assert replacing not in plan.instants
    run_clean(table.now, planned)
    assert replacing in plan_archive(table.now, SMALL).instants


def test_the_newest_clean_stays_for_the_next_one() -> None:
    table = long_lived(9, COW, 9)
    newest = [i for i in table.state.timeline.completed if i.action is Action.CLEAN][-1]
    for n in range(9):
        table.write({f"only-new{n}-0": "x"})
    archived(table)
    assert newest in table.state.timeline.instants
    assert len([i for i in table.state.timeline.instants if i.action is Action.CLEAN]) == 1


def test_what_the_metadata_table_needs_stays(tmp_path: Path) -> None:
    root = harness.unpack(harness.load("v9_mor_record_index_full_mdt"), tmp_path)
    plan = plan_archive(ServiceContext.load(environment(LocalStorage(str(root)))), ALL_BUT_ONE)
    assert plan.instants == ()
    assert "the metadata table was not compacted yet" in plan.reason


@pytest.mark.parametrize("table_version", [6, 9])
def test_what_came_after_the_last_compaction_of_the_metadata_table_stays(
    table_version: int,
) -> None:
    table = busy(table_version, COW, 12)
    now = table.now
    folder = now.state.config.timeline_folder
    fifth = now.state.timeline.writes()[5].requested_time
    update_table_config(now.env, {"hoodie.table.metadata.partitions": "files"})
    properties = table.storage.read(".hoodie/hoodie.properties")
    table.storage.put(".hoodie/metadata/.hoodie/hoodie.properties", properties)
    name = f"{fifth}.commit" if table_version == 6 else f"{fifth}_{fifth}.commit"
    table.storage.put(f".hoodie/metadata/{folder}/{name}", b"")
    plan = plan_archive(table.now, SMALL)
    assert list(plan.instants) == list(now.state.timeline.writes()[:5])
    assert f"the metadata table was last compacted at {fifth}" in plan.reason


def test_the_newest_word_on_the_schema_stays() -> None:
    table = busy(9, MOR, 4)
    told = table.state.timeline.writes()[-2]
    table.compact()
    for _ in range(3):
        last = table.state.timeline.writes()[-1]
        data = table.storage.read(f".hoodie/timeline/{last.file_name}")
        time = table.now.times.next()
        table.storage.put(f".hoodie/timeline/{time}_{int(time) + 1}.commit", data)
    plan = plan_archive(table.now, ALL_BUT_ONE)
    assert plan.instants[-1].requested_time < told.requested_time
    assert "the newest that says the table's schema" in plan.reason


@pytest.mark.parametrize("table_version", [6, 9])
def test_what_the_next_compaction_is_counted_from_stays(table_version: int) -> None:
    table = busy(table_version, MOR, 0)
    for n in range(9):
        table.write({"a-0": f"a{n}"})
    deltas = [i.requested_time for i in table.state.timeline.writes()]
    tight = {"clean_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3"}
    plan = plan_archive(table.now, options(**tight))
    assert [i.requested_time for i in plan.instants] == deltas[:-5]
    assert "the next compaction is counted from" in plan.reason
    three = options(**tight, compact_inline_max_delta_commits="3")
    assert [i.requested_time for i in plan_archive(table.now, three).instants] == deltas[:-3]
    time = table.compact()
    table.write({"a-0": "after"})
    for n in range(2):
        table.write({"b-0": f"b{n}"})
    plan = plan_archive(table.now, options(**tight))
    assert plan.instants[-1].requested_time < time
    assert f"the next compaction is counted from {time} on" in plan.reason


def test_leftover_markers_go_with_their_instant() -> None:
    table = busy(9, COW, 12)
    first, last = (table.state.timeline.writes()[n].requested_time for n in (0, -1))
    for time in (first, last):
        table.storage.put(f"{marker_folder(time)}/{PARTITION}/x.parquet.marker.CREATE", b"")
    archived(table)
    assert table.storage.files_below(marker_folder(first)) == []
    assert table.storage.files_below(marker_folder(last)) != []


def test_the_history_of_version_8_stays_in_few_files() -> None:
    table = Busy(new_storage(9, COW))
    given = options(
        clean_commits_retained="1",
        keep_min_commits="2",
        keep_max_commits="3",
        timeline_compaction_batch_size="3",
    )
    before = []
    for n in range(60):
        table.write({"a-0": f"a{n}"})
        archive(environment(table.storage), given)
        before.append(table.state.timeline.writes()[-1].requested_time)
    assert [i[0] for i in instants(table)] == before
    names = [f.name for f in table.storage.list(".hoodie/timeline/history").files]
    levels = sorted(int(found[1]) for n in names if (found := re.search(r"_(\d)\.parquet$", n)))
    assert levels[-1] == 3
    assert len(levels) < 20
    assert sum(n.startswith("manifest_") for n in names) <= 6
    (version,) = (n for n in names if n == "_version_")
    number = int(table.storage.read(f".hoodie/timeline/history/{version}"))
    assert f"manifest_{number}" in names


def test_a_torn_publication_of_the_history_is_overcome() -> None:
    """Hudi deletes `_version_` before it writes it anew, and may end there."""
    table = long_lived(9, COW)
    archived(table)
    before = instants(table)
    table.storage.delete(".hoodie/timeline/history/_version_")
    assert instants(table) == before
    for n in range(5):
        table.write({"a-0": f"more{n}"})
    archived(table)
    assert instants(table)[: len(before)] == before


@pytest.mark.parametrize(
    "name", ["v6_cow_archived", "v6_mor_archived", "v8_cow_archived_lsm", "v9_cow_archived_lsm"]
)
def test_a_history_that_apache_began_is_gone_on_with(name: str, tmp_path: Path) -> None:
    root = harness.unpack(harness.load(name), tmp_path)
    env = environment(LocalStorage(str(root)))
    read = {"hoodie.metadata.enable": "false"}
    rows = sorted(LocalTable(str(root), read).read().collect())
    now = ServiceContext.load(env)
    before = with_history(now.state.timeline, now.state.history.instants())
    # As a writer of ours does, which does not keep the metadata table.
    now.keeper.prepare(now.state.config, now.state.timeline, now.times)
    done = archive(env, ALL_BUT_ONE)
    assert done is not None
    now = ServiceContext.load(env)
    assert len(now.state.timeline.writes()) <= 2
    after = with_history(now.state.timeline, now.state.history.instants())
    assert [(i.requested_time, i.action) for i in after] == [
        (i.requested_time, i.action) for i in before
    ]
    assert sorted(LocalTable(str(root), read).read().collect()) == rows


def test_what_version_6_archives_is_what_apache_archives(tmp_path: Path) -> None:
    """Every state of an instant has its record, and the fields that Hudi 0.15 fills are filled."""
    root = harness.unpack(harness.load("v6_mor_archived"), tmp_path)
    storage = LocalStorage(str(root))
    env = environment(storage)
    now = ServiceContext.load(env)
    entries = now.state.history._entries  # type: ignore[attr-defined]  # the archive of layout 1
    theirs = {(e.action, e.state): _filled(e.record) for e, _ in entries}
    now.keeper.prepare(now.state.config, now.state.timeline, now.times)
    archive(env, ALL_BUT_ONE)
    path = max(storage.files_below(".hoodie/archived"))
    entries = ServiceContext.load(env).state.history._entries  # type: ignore[attr-defined]
    ours = {(e.action, e.state): _filled(e.record) for e, found in entries if found == path}
    assert {key: ours[key] for key in ours if key in theirs} == {
        key: theirs[key] for key in theirs if key in ours
    }
    assert len(set(ours) & set(theirs)) >= 3


def _filled(record: dict[str, object]) -> set[str]:
    return {name for name, value in record.items() if value is not None}


def test_the_plan_can_be_looked_at() -> None:
    table = busy(9, COW, 12)
    shown = plan_archive(table.now, SMALL).shown(table.state)
    assert shown.facts["instants archived"] == 8
    assert shown.facts["writes that stay active"] == 4
    assert len(shown.files_deleted) == 24
    copied = copy.deepcopy(table.storage)
    archived(table)
    gone = set(copied.files_below(".hoodie/timeline")) - set(
        table.storage.files_below(".hoodie/timeline")
    )
    assert gone == {file.path for file in shown.files_deleted}


@each_kind
@pytest.mark.parametrize("at_once", [False, True])
def test_who_looked_before_an_archival_still_reads_every_commit(
    table_version: int, table_type: TableType, at_once: bool
) -> None:
    """Others archive at any time: between the look at the timeline and the look into its files."""
    table = long_lived(table_version, table_type)
    before = table.now
    writes = before.state.timeline.writes()
    owed = [table.state.contents.commit_metadata(i).partition_to_write_stats for i in writes]
    assert archived(table) > 0
    if at_once:
        before.state.contents.load_commit_metadata(writes)
    found = [before.state.contents.commit_metadata(i).partition_to_write_stats for i in writes]
    assert [set(stats) for stats in found] == [set(stats) for stats in owed]
    cleans = [i for i in before.state.timeline.completed if i.action is Action.CLEAN]
    assert all(before.state.contents.clean_metadata(i) is not None for i in cleans)


@pytest.mark.parametrize(
    ("table_version", "stalled_at"), [(6, ".archive.1_1-0-1"), (9, "manifest_1"), (9, "_version_")]
)
def test_an_archival_that_was_overtaken_undoes_nothing(table_version: int, stalled_at: str) -> None:
    """Its lock ran out while it stood still before a change, and another archival was made."""
    table = long_lived(table_version, COW)
    before = instants(table)

    def overtake(_number: int, name: str, path: str) -> None:
        if path.endswith(stalled_at) and name.startswith("put") and not overtaken:
            overtaken.append(path)
            assert archived(table, ALL_BUT_ONE) > 0

    overtaken: list[str] = []
    late = FaultyStorage(table.storage, overtake)
    with pytest.raises(LockLostError, match="run out"):
        archive(environment(late), SMALL)
    assert overtaken
    assert instants(table) == before


def test_a_file_that_another_archival_has_published_is_not_written_over() -> None:
    table = long_lived(9, COW)
    before = instants(table)

    def overtake(_number: int, name: str, path: str) -> None:
        if path.endswith(".parquet") and name == "put_if_absent" and not overtaken:
            overtaken.append(path)
            assert archived(table) > 0

    overtaken: list[str] = []
    late = FaultyStorage(table.storage, overtake)
    with pytest.raises(LockLostError, match="run out"):
        archive(environment(late), SMALL)
    assert ("put_if_tagged", overtaken[0]) not in late.calls
    assert instants(table) == before


def test_what_a_crash_left_in_the_history_is_written_over() -> None:
    table = long_lived(9, COW)
    before = instants(table)
    tried = FaultyStorage(copy.deepcopy(table.storage))
    archive(environment(tried), SMALL)
    left = next(path for name, path in tried.calls if path.endswith(".parquet") and "put" in name)
    table.storage.put(left, b"of other instants")
    assert archived(table) > 0
    assert instants(table) == before


@each_kind
def test_a_write_id_finds_a_commit_that_is_archived(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 0)
    first = table.toy.write({"a-0": "a"}, write_id="batch 7")
    for n in range(12):
        table.write({"a-0": f"a{n}"})
    clean(environment(table.storage), SMALL.clean)
    assert archived(table) > 0
    now = table.now
    assert now.state.timeline.is_archived(first.requested_time)

    def found(write_id: str) -> Commit | None:
        return find_commit(now.state.timeline, now.state.contents, now.state.history, write_id)

    again = found("batch 7")
    assert again is not None
    assert again.requested_time == first.requested_time
    assert (again.inserts, again.bytes_written) == (first.inserts, first.bytes_written)
    assert found("batch") is None


@each_kind
def test_an_old_instant_that_a_dead_writer_puts_late_hides_nothing(
    table_version: int, table_type: TableType
) -> None:
    table = long_lived(table_version, table_type)
    first = table.state.timeline.first_active_time or ""
    assert archived(table) > 0
    rows, before = table.toy.rows(), instants(table)
    late = Publisher(table.storage, table.toy.config)
    assert late.start(f"{int(first) - 1:017d}", table.toy.write_action, b"")
    assert table.toy.rows() == rows
    assert len(instants(table)) == len(before) + 1
    assert table.write({"a-0": "on top"})
    assert table.toy.rows() == {**rows, "a-0": "on top"}


@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("damaged", [b"", b"{", b"\x80\xff\x00"])
def test_a_damaged_commit_stays_where_it_is(table_type: TableType, damaged: bytes) -> None:
    """In version 6 an archive holds what instants say, not their bytes."""
    table = long_lived(6, table_type)
    oldest = next(i for i in table.state.timeline.completed if i.action is not Action.CLEAN)
    path = f"{table.state.config.timeline_folder}/{oldest.file_name}"
    table.storage.put(path, damaged)
    before = table.storage.files_below("")
    with pytest.raises(CorruptFileError) as raised:
        archived(table)
    assert raised.value.path == path
    assert table.storage.files_below("") == before
