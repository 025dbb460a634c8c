from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from typing_extensions import override

from tests.golden import harness
from tests.golden.harness import TABLES
from tests.golden.local_table import LocalTable
from tests.unit.txn.toy_table import PARTITION, Toy, environment, new_storage
from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import UnsupportedTableError
from tidelake.formats import log_block, plans
from tidelake.formats.file_name import parse_log
from tidelake.formats.log_block import BlockKind, HeaderKey
from tidelake.formats.marker_name import heartbeat_path, marker_folder
from tidelake.formats.plans import InstantInfo, RollbackMetadata, RollbackPlan, RollbackRequest
from tidelake.model import Action, State, TableType
from tidelake.storage import LocalStorage, MemoryStorage, Storage, StorageSpec
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import Timeline, TimelineContents, load_table_config, load_timeline
from tidelake.txn import InstantTimes, begin, failed_writes, roll_back_failed
from tidelake.txn.rollback.failed_files import absolute_path

FAILED = [
    "v6_cow_failed_direct",
    "v6_mor_failed_014",
    "v6_mor_failed_direct",
    "v6_mor_failed_lazy",
    "v6_mor_failed_served",
    "v9_mor_failed_write_left",
]


def unpacked(table: str, folder: Path) -> Path:
    return harness.unpack(harness.load(table), folder)


def rows(root: Path) -> list[str]:
    return sorted(LocalTable(str(root), {"hoodie.metadata.enable": "false"}).read().collect())


def loaded(storage: Storage) -> tuple[Env, TableConfig, Timeline, TimelineContents]:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    return environment(storage), config, timeline, TimelineContents(storage, config)


def roll_back(storage: Storage, *, use_markers: bool = True) -> bool:
    env, config, timeline, contents = loaded(storage)
    times = InstantTimes(env.clock, config, timeline)
    return roll_back_failed(env, config, timeline, contents, times, use_markers=use_markers)


@pytest.mark.parametrize("use_markers", [True, False])
@pytest.mark.parametrize("table", FAILED)
def test_what_hudi_left_behind_is_gone_for_good(
    table: str, use_markers: bool, tmp_path: Path
) -> None:
    root = unpacked(table, tmp_path)
    storage = LocalStorage(str(root))
    before = rows(root)
    (failed,) = failed_writes(*loaded(storage)[2:])
    assert roll_back(storage, use_markers=use_markers)
    assert rows(root) == before

    env, config, timeline, contents = loaded(storage)
    (rollback,) = (i for i in timeline.instants if i.action is Action.ROLLBACK)
    assert rollback.is_completed
    assert not failed_writes(timeline, contents)
    assert not [n for n in timeline.file_names if n.startswith(failed.requested_time)]
    assert not storage.exists(marker_folder(failed.requested_time))
    assert not roll_back(storage)

    # Once archival has passed the failed instant, whatever is left of it counts as committed.
    schema = contents.commit_metadata(timeline.writes()[-1]).schema or ""
    with begin(env, config, timeline, action=Action.COMMIT, operation="UPSERT") as txn:
        txn.start()
        txn.commit([], schema=schema)
    for name in timeline.file_names:
        storage.delete(f"{config.timeline_folder}/{name}")
    assert rows(root) == before


@pytest.mark.parametrize("table", ["v6_cow_failed_direct", "v9_mor_failed_write_left"])
def test_a_rollback_by_listing_finds_what_the_markers_name(table: str, tmp_path: Path) -> None:
    deleted = []
    for use_markers in (True, False):
        root = unpacked(table, tmp_path / str(use_markers))
        storage = LocalStorage(str(root))
        roll_back(storage, use_markers=use_markers)
        _, _, timeline, contents = loaded(storage)
        found = contents.rollback_metadata(timeline.instants[-1])
        names = {
            path.rpartition("/")[2]
            for partition in found.partition_metadata.values()
            for path in partition.success_delete_files
        }
        assert found.total_files_deleted == len(names)
        deleted.append(names)
    assert deleted[0] == deleted[1]
    assert len(deleted[0]) >= 3


def test_the_plan_is_apaches_own() -> None:
    """Hudi rolled back the same kind of write in a table of its own."""
    apache = memory_rollback("v8_mor_failed_write_rolled_back")
    storage = golden_storage("v9_mor_failed_write_left")
    roll_back(storage)
    _, _, timeline, contents = loaded(storage)
    ours = contents.rollback_plan(timeline.instants[-1])
    assert ours.version == apache.version
    for plan in (ours, apache):
        assert plan.instant_to_rollback is not None
        assert plan.instant_to_rollback.action == "deltacommit"
        failed = plan.instant_to_rollback.commit_time
        assert len(plan.rollback_requests or ()) == 4
        for request in plan.rollback_requests or ():
            assert request.latest_base_instant == failed
            assert request.log_blocks_to_be_deleted == {}
            (path,) = request.files_to_be_deleted
            assert path.startswith("/")
            assert f"/{request.partition_path}/" in path
            assert f"{request.file_id}_" in path


def test_the_block_that_takes_back_is_apaches_own() -> None:
    with zipfile.ZipFile(TABLES / "v6_mor_rollback_direct.zip") as archive:
        name = next(n for n in archive.namelist() if n.endswith(".log.3_1-0-1"))
        apache = archive.read(name)
    (block,) = log_block.decode_blocks(apache)
    ours = log_block.encode_rollback(
        instant_time=block.instant_time, target_instant_time=block.target_instant_time or ""
    )
    # The headers are a hash map to Java.
    assert len(ours) == len(apache)
    assert log_block.decode_blocks(ours)[0].headers == block.headers


def test_version_6_takes_back_what_a_log_holds_and_keeps_the_log(tmp_path: Path) -> None:
    root = unpacked("v6_mor_failed_direct", tmp_path)
    storage = LocalStorage(str(root))
    (failed,) = failed_writes(*loaded(storage)[2:])
    roll_back(storage)
    _, _, timeline, contents = loaded(storage)
    done = contents.rollback_metadata(timeline.instants[-1])
    assert set(done.partition_metadata) == {"lima", "oslo", "pune"}
    for partition, found in done.partition_metadata.items():
        ((written, size_bytes),) = (found.rollback_log_files or {}).items()
        log = parse_log(partition, written.rpartition("/")[2], 0)
        assert log is not None
        assert (log.version, log.write_token) == (3, "1-0-1")
        data = storage.read(log.path)
        assert len(data) == size_bytes == 105
        assert log_block.decode_blocks(data)[0].target_instant_time == failed.requested_time
        assert [*(found.log_files_from_failed_commit or {})] == [
            f.name for f in storage.list(partition).files if ".log.2_" in f.name
        ]


def test_a_block_that_takes_back_is_written_once(tmp_path: Path) -> None:
    root = unpacked("v6_mor_failed_direct", tmp_path)
    storage = LocalStorage(str(root))

    def crash_before_the_end(_number: int, _name: str, path: str) -> Fault | None:
        return Fault.CRASH_BEFORE if path.endswith(".rollback") else None

    with pytest.raises(Crash):
        roll_back(FaultyStorage(storage, crash_before_the_end))
    written = [p for p in storage.files_below("lima") if p.endswith("_1-0-1")]
    roll_back(storage)
    assert [p for p in storage.files_below("lima") if p.endswith("_1-0-1")] == written
    assert len(written) == 1


def test_a_log_only_group_of_version_6_goes_with_the_write_that_made_it() -> None:
    storage = new_storage(6, TableType.MERGE_ON_READ)
    failed = "20261115000000500"
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: failed, HeaderKey.SCHEMA: "{}"}
    path = f"{PARTITION}/.g-0_{failed}.log.1_0-0-0"
    storage.put(path, log_block.encode_block(BlockKind.AVRO_DATA, headers, b"x"))
    storage.put(f"{marker_folder(failed)}/{path}.marker.APPEND", b"")
    storage.put(f".hoodie/{failed}.deltacommit.requested", b"")
    roll_back(storage)
    assert storage.files_below(PARTITION) == []


def test_a_marker_cannot_make_another_writes_file_go(caplog: pytest.LogCaptureFixture) -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a-0": "a"})
    (path,) = Toy(storage).data_files()
    failed = "20261115000000900"
    storage.put(f"{marker_folder(failed)}/{path}.marker.MERGE", b"")
    storage.put(f"{marker_folder(failed)}/{PARTITION}/notes.txt.marker.CREATE", b"")
    storage.put(f"{PARTITION}/notes.txt", b"")
    storage.put(f".hoodie/timeline/{failed}.commit.requested", b"")
    roll_back(storage)
    assert Toy(storage).rows() == {"a-0": "a"}
    assert storage.stat(f"{PARTITION}/notes.txt") is not None
    assert path in caplog.text


@pytest.mark.parametrize("table_version", [6, 9])
def test_files_without_any_marker_are_found(table_version: int) -> None:
    """A writer that left no markers would have its rows back once archival passes it."""
    storage = new_storage(table_version, TableType.MERGE_ON_READ)
    Toy(storage).write({"a-0": "a"})
    toy = Toy(storage)
    txn = toy.begin()
    txn.start()
    for group, text in (("a-0", "lost"), ("b-0", "lost")):
        toy.task(txn, group, text, toy.slices().get(group), "0-0-0")
    storage.delete_folder(txn.marker_folder)
    roll_back(storage)
    assert Toy(storage).rows_once_archived() == {"a-0": "a"}
    assert Toy(storage).leftovers() == []


def test_services_keep_their_plans() -> None:
    tables = {
        "v6_cow_clustering_pending": Action.REPLACECOMMIT,
        "v9_mor_compaction_pending": Action.COMPACTION,
        "v9_mor_clustering_inflight": Action.CLUSTERING,
        "v9_mor_log_compaction_pending": Action.LOGCOMPACTION,
    }
    for table, action in tables.items():
        storage = golden_storage(table)
        assert not roll_back(storage), table
        assert [i.planned_as for i in loaded(storage)[2].pending] == [action], table


def interrupted(storage: MemoryStorage) -> str:
    """Leave a rollback that stopped right after its plan; return the instant that failed."""
    failed = FaultyStorage(
        storage, lambda _, __, path: Fault.CRASH_BEFORE if path.endswith(".commit") else None
    )
    with pytest.raises(Crash):
        Toy(failed).write({"b-0": "b"})
    (instant,) = Toy(storage).timeline.pending
    stopping = FaultyStorage(
        storage,
        lambda _, __, path: Fault.CRASH_BEFORE if path.endswith("rollback.inflight") else None,
    )
    with pytest.raises(Crash):
        roll_back(stopping)
    return instant.requested_time


def test_a_rollback_that_was_begun_is_finished_under_its_own_time() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a-0": "a"})
    failed = interrupted(storage)
    begun = [i for i in Toy(storage).timeline.pending if i.action is Action.ROLLBACK]
    assert roll_back(storage)
    toy = Toy(storage)
    done = [i for i in toy.timeline.instants if i.action is Action.ROLLBACK]
    assert [i.requested_time for i in done] == [i.requested_time for i in begun]
    contents = TimelineContents(storage, toy.config)
    assert contents.rollback_metadata(done[0]).commits_rollback == (failed,)
    assert toy.leftovers() == []


def test_a_plan_made_elsewhere_deletes_here() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    interrupted(storage)
    (begun,) = [i for i in Toy(storage).timeline.pending if i.action is Action.ROLLBACK]
    path = f".hoodie/timeline/{begun.requested_time}.rollback.requested"
    plan = plans.decode(RollbackPlan, storage.read(path))
    moved = [
        RollbackRequest(
            partition_path=request.partition_path,
            files_to_be_deleted=tuple(
                f"s3a://old/place/{p.rpartition('/')[2]}" for p in request.files_to_be_deleted
            ),
        )
        for request in plan.rollback_requests or ()
    ]
    storage.put(
        path,
        plans.encode(
            RollbackPlan(
                instant_to_rollback=plan.instant_to_rollback, rollback_requests=tuple(moved)
            )
        ),
    )
    roll_back(storage)
    assert Toy(storage).leftovers() == []


def test_a_rollback_without_a_readable_plan_is_begun_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    interrupted(storage)
    (begun,) = [i for i in Toy(storage).timeline.pending if i.action is Action.ROLLBACK]
    storage.put(f".hoodie/timeline/{begun.requested_time}.rollback.requested", b"")
    roll_back(storage)
    toy = Toy(storage)
    assert toy.leftovers() == []
    (done,) = [i for i in toy.timeline.instants if i.action is Action.ROLLBACK]
    assert done.requested_time != begun.requested_time
    assert "no readable plan" in caplog.text


def test_a_rollback_that_names_nothing_is_refused() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    plan = plans.encode(RollbackPlan(instant_to_rollback=None, rollback_requests=()))
    storage.put(".hoodie/timeline/20261115000000001.rollback.requested", plan)
    with pytest.raises(UnsupportedTableError, match="does not say"):
        roll_back(storage)


def test_a_begun_rollback_of_a_completed_write_hides_it_first() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a-0": "a"})
    commit = Toy(storage).write({"a-0": "a2"})
    (path,) = (p for p in Toy(storage).data_files() if commit.requested_time in p)
    request = RollbackRequest(partition_path=PARTITION, files_to_be_deleted=(f"/{path}",))
    target = InstantInfo(commit_time=commit.requested_time, action="commit")
    plan = RollbackPlan(instant_to_rollback=target, rollback_requests=(request,))
    storage.put(".hoodie/timeline/20261115000001000.rollback.requested", plans.encode(plan))
    faulty = FaultyStorage(storage)
    roll_back(faulty)
    assert Toy(storage).rows() == {"a-0": "a"}
    gone = [p.rpartition("/")[2] for name, p in faulty.calls if name == "delete"]
    completed = f"{commit.requested_time}_{commit.completion_time}.commit"
    assert gone.index(completed) < gone.index(path.rpartition("/")[2])


def test_a_begun_rollback_of_a_compaction_keeps_its_plan() -> None:
    storage = golden_storage("v9_mor_compaction_pending")
    (compaction,) = loaded(storage)[2].pending
    time = compaction.requested_time
    storage.put(f".hoodie/timeline/{time}.compaction.inflight", b"")
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=time, action="compaction"),
        rollback_requests=(),
    )
    storage.put(".hoodie/timeline/20991115000001000.rollback.requested", plans.encode(plan))
    roll_back(storage)
    (left,) = loaded(storage)[2].pending
    assert (left.requested_time, left.state) == (time, State.REQUESTED)


def test_the_heartbeat_of_a_failed_write_goes_before_its_files() -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    toy = Toy(storage)
    txn = toy.begin()
    txn.start()
    toy.task(txn, "a-0", "a", None, "0-0-0")
    faulty = FaultyStorage(storage)
    roll_back(faulty)
    touched = [path for name, path in faulty.calls if name in ("delete", "files_below")]
    assert touched[0] == heartbeat_path(txn.instant_time)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/data/t", "/data/t/p/f"),
        ("s3://bucket/lake/t", "/lake/t/p/f"),
        ("s3://bucket", "/p/f"),
    ],
)
def test_paths_in_plans_name_no_scheme(uri: str, path: str) -> None:
    class Somewhere(MemoryStorage):
        @property
        @override
        def spec(self) -> StorageSpec:
            return StorageSpec(uri)

    assert absolute_path(Somewhere(), "p/f") == path


def golden_storage(table: str) -> MemoryStorage:
    with zipfile.ZipFile(TABLES / f"{table}.zip") as archive:
        return MemoryStorage(
            {
                name.partition("/")[2]: archive.read(name)
                for name in archive.namelist()
                if not name.endswith("/")
            }
        )


def memory_rollback(table: str) -> RollbackPlan:
    storage = golden_storage(table)
    _, _, timeline, contents = loaded(storage)
    (rollback,) = (i for i in timeline.instants if i.action is Action.ROLLBACK)
    assert isinstance(contents.rollback_metadata(rollback), RollbackMetadata)
    return contents.rollback_plan(rollback)
