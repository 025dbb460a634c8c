from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import harness
from tests.golden.timelines import memory_table, meta_files
from tidelake.errors import CorruptFileError, UnsupportedTableError
from tidelake.formats import properties
from tidelake.model import Action, Instant, State
from tidelake.storage import LocalStorage, MemoryStorage
from tidelake.timeline import Timeline, load_table_config, load_timeline
from tidelake.timeline.load import completion_time_from

T1, T2, T3 = "20260301101500001", "20260301101500002", "20260301101500003"
C1, C2 = "20260301101500009", "20260301101500010"


def table(files: dict[str, bytes] | list[str], *, version: int) -> MemoryStorage:
    layout = 1 if version < 8 else 2
    entries = {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(layout),
    }
    folder = ".hoodie" if layout == 1 else ".hoodie/timeline"
    contents = files if isinstance(files, dict) else dict.fromkeys(files, b"")
    storage = MemoryStorage({".hoodie/hoodie.properties": properties.encode(entries)})
    for name, data in contents.items():
        storage.put(f"{folder}/{name}", data)
    return storage


def load(storage: MemoryStorage | LocalStorage) -> Timeline:
    return load_timeline(storage, load_table_config(storage))


def words(timeline: Timeline) -> list[tuple[str, Action, State, Action]]:
    return [(i.requested_time, i.action, i.state, i.planned_as) for i in timeline.instants]


def test_an_instant_is_seen_in_its_furthest_state() -> None:
    files = [
        f"{T1}.commit.requested",
        f"{T1}.inflight",
        f"{T1}_{C1}.commit",
        f"{T2}.deltacommit.requested",
        f"{T2}.deltacommit.inflight",
        f"{T3}.clean.requested",
    ]
    timeline = load(table(files, version=9))
    assert timeline.instants == (
        Instant(
            requested_time=T1,
            action=Action.COMMIT,
            state=State.COMPLETED,
            completion_time=C1,
            file_name=f"{T1}_{C1}.commit",
        ),
        Instant(
            requested_time=T2,
            action=Action.DELTACOMMIT,
            state=State.INFLIGHT,
            file_name=f"{T2}.deltacommit.inflight",
        ),
        Instant(
            requested_time=T3,
            action=Action.CLEAN,
            state=State.REQUESTED,
            file_name=f"{T3}.clean.requested",
        ),
    )
    assert timeline.has_file(timeline.instants[0], State.REQUESTED)
    assert not timeline.has_file(timeline.instants[2], State.INFLIGHT)


def test_of_two_completed_files_the_one_of_the_later_attempt_counts() -> None:
    """The other was on its way while the instant was carried out again, and came late."""
    files = [f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{C1}.commit", f"{T1}_{C2}.commit"]
    instant = load(table(files, version=9)).instants[0]
    assert (instant.completion_time, instant.file_name) == (C2, f"{T1}_{C2}.commit")


def test_services_complete_under_another_word_and_stay_known() -> None:
    files = [
        f"{T1}.compaction.requested",
        f"{T1}.compaction.inflight",
        f"{T1}_{C1}.commit",
        f"{T2}.logcompaction.requested",
        f"{T2}_{C1}.deltacommit",
        f"{T3}.clustering.requested",
        f"{T3}_{C1}.replacecommit",
    ]
    assert words(load(table(files, version=8))) == [
        (T1, Action.COMMIT, State.COMPLETED, Action.COMPACTION),
        (T2, Action.DELTACOMMIT, State.COMPLETED, Action.LOGCOMPACTION),
        (T3, Action.REPLACECOMMIT, State.COMPLETED, Action.CLUSTERING),
    ]


def test_a_savepoint_stands_beside_its_commit() -> None:
    files = [f"{T1}.savepoint", f"{T1}.savepoint.inflight", f"{T1}.commit", f"{T1}.inflight"]
    assert [i.action for i in load(table(files, version=6)).instants] == [
        Action.COMMIT,
        Action.SAVEPOINT,
    ]


def test_foreign_files_are_passed_over() -> None:
    files = [f".{T1}.commit.crc", f"{T1}.commit.tmp", "lost+found", f"{T1}_{C1}.clustering"]
    assert load(table(files, version=9)) == Timeline()


def test_layout_1_takes_completion_from_modification(tmp_path: Path) -> None:
    golden = harness.load("v6_cow_occ")
    storage = LocalStorage(str(harness.unpack(golden, tmp_path)))
    timeline, config = load(storage), load_table_config(storage)
    for instant in timeline.completed:
        modified_ms = golden.mtimes_ms[f".hoodie/{instant.file_name}"]
        assert instant.completion_time == completion_time_from(modified_ms, config)
    by_completion = [i.requested_time for i in timeline.by_completion_time()]
    assert by_completion != sorted(by_completion), "overlapping writers completed out of order"


def test_a_legacy_name_in_layout_2_takes_completion_from_modification() -> None:
    storage = table([f"{T1}.commit"], version=8)
    info = storage.stat(f".hoodie/timeline/{T1}.commit")
    assert info is not None
    assert load(storage).completion_time_of(T1) == completion_time_from(
        info.modified_ms, load_table_config(storage)
    )


def test_milliseconds_are_kept() -> None:
    config = load_table_config(table([], version=9))
    assert completion_time_from(1_700_000_000_007, config) == "20231114221320007"


def test_a_table_of_local_times_has_local_completion_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        config = replace(load_table_config(table([], version=6)), timeline_timezone_utc=False)
        assert completion_time_from(1_700_000_000_007, config) == "20231115071320007"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_loading_never_touches_history() -> None:
    storage = memory_table("v9_cow_archived_lsm")
    config = load_table_config(storage)
    for path in meta_files("v9_cow_archived_lsm"):
        if "/history/" in path:
            storage.put(path, b"damaged")
    assert load_timeline(storage, config).writes()


@pytest.mark.parametrize(
    ("version", "stray"),
    [(6, f".hoodie/timeline/{T1}_{C1}.commit"), (8, f".hoodie/{T1}.commit")],
)
def test_a_half_finished_migration_is_refused(version: int, stray: str) -> None:
    storage = table([], version=version)
    storage.put(stray, b"")
    with pytest.raises(UnsupportedTableError, match="half-way") as raised:
        load(storage)
    assert stray in str(raised.value)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    "data", ["p=1/aa-0_1-2-3_20260101000000000.parquet", ".aa-0_20260101000000000.log.1_0-1-2"]
)
def test_a_timeline_that_was_lost_is_no_empty_table(version: int, data: str) -> None:
    storage = table([], version=version)
    storage.put(data, b"")
    with pytest.raises(CorruptFileError, match="no instant") as raised:
        load(storage)
    assert data in str(raised.value)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_new_table_may_have_folders_and_files_of_others(version: int) -> None:
    storage = table([], version=version)
    storage.put("notes/readme.parquet", b"")
    storage.put("p=1/.hoodie_partition_metadata", b"")
    assert load(storage).instants == ()


def test_the_empty_folders_that_a_downgrade_leaves_are_no_harm() -> None:
    storage = table([f"{T1}.commit"], version=6)
    storage.put(".hoodie/timeline/history/manifest_1", b"{}")
    assert len(load(storage).completed) == 1


@pytest.mark.parametrize(
    ("name", "pending"),
    [
        ("v6_mor_compaction_pending", [Action.COMPACTION]),
        ("v6_cow_clustering_pending", [Action.REPLACECOMMIT]),
        ("v9_cow_clustering_requested", [Action.CLUSTERING]),
        ("v9_mor_failed_write_left", [Action.DELTACOMMIT]),
        ("v9_mor_log_compaction_pending", [Action.LOGCOMPACTION]),
    ],
)
def test_pending_instants_of_golden_tables(name: str, pending: list[Action]) -> None:
    assert [i.action for i in load(memory_table(name)).pending] == pending


@pytest.mark.parametrize("modified_s", [-62_135_596_801, 253_402_300_800, 1 << 40])
@pytest.mark.parametrize("utc", [True, False])
def test_a_completed_file_of_no_time_is_refused(modified_s: int, utc: bool) -> None:
    config = load_table_config(table([], version=6))
    config = replace(config, timeline_timezone_utc=utc)
    storage = MemoryStorage({f".hoodie/{T1}.commit": b""}, now_ms=lambda: modified_s * 1000)
    with pytest.raises(CorruptFileError, match="which is no time"):
        load_timeline(storage, config)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_folder_in_the_place_of_an_instant_is_refused(version: int) -> None:
    name = f"{T2}.deltacommit" if version < 8 else f"{T2}_{C1}.deltacommit"
    storage = table([f"{T1}.commit.requested", f"{name}/file"], version=version)
    with pytest.raises(CorruptFileError, match="it is a folder"):
        load(storage)


@pytest.mark.parametrize("version", [6, 9])
def test_a_link_to_nowhere_in_the_place_of_an_instant_is_still_one(
    tmp_path: Path, version: int
) -> None:
    name = f"{T2}.deltacommit" if version < 8 else f"{T2}_{C1}.deltacommit"
    storage = LocalStorage(str(tmp_path))
    sound = table([f"{T1}.commit.requested", name], version=version)
    for path in sound.files_below(""):
        storage.put(path, sound.read(path))
    place = tmp_path / load_table_config(storage).timeline_folder / name
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    assert [i.requested_time for i in load(storage).instants] == [T1, T2]
