from __future__ import annotations

import pytest

from tests.golden.timelines import UPGRADED, memory_table
from tidelake.errors import CorruptFileError, MissingFileError
from tidelake.formats import lsm_history
from tidelake.formats.lsm_history import HistoryInstant, Manifest, ManifestFile
from tidelake.model import WRITE_ACTIONS, Action
from tidelake.storage import MemoryStorage
from tidelake.testing import FaultyStorage
from tidelake.timeline import (
    load_history_times,
    load_table_config,
    load_timeline,
    open_history,
    with_history,
)
from tidelake.timeline.history import LsmHistory

TABLES = [
    "v6_cow_archived",
    "v6_mor_archived",
    "v6_cow_archived_mixed",
    "v8_cow_archived_lsm",
    "v9_cow_archived_lsm",
    "v9_mor_archived_lsm_mdt",
    UPGRADED,
]


@pytest.mark.parametrize("table", TABLES)
def test_archived_instants_have_times_and_contents(table: str) -> None:
    storage = memory_table(table)
    history = open_history(storage, load_table_config(storage))
    instants = history.instants()
    assert instants
    writes = [i for i in instants if i.action in WRITE_ACTIONS]
    assert history.completion_times() == {i.requested_time: i.completion_time for i in writes}
    for instant in instants:
        assert instant.completion_time is not None
        assert instant.completion_time > instant.requested_time
        if instant.action in WRITE_ACTIONS:
            assert history.commit_metadata(instant).operation_type
        if instant.action is Action.CLEAN:
            clean = history.clean_metadata(instant)
            assert clean is not None
            assert clean.start_clean_time == instant.requested_time


@pytest.mark.parametrize("table", TABLES)
def test_archived_writes_are_older_than_the_active_timeline(table: str) -> None:
    storage = memory_table(table)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    archived = open_history(storage, config).instants()
    assert all(
        timeline.is_archived(i.requested_time) for i in archived if i.action in WRITE_ACTIONS
    )
    merged = with_history(timeline, archived)
    assert len(merged) == len(timeline.instants) + len(archived)


def test_the_upgrade_carried_every_completed_instant_over() -> None:
    after = memory_table(UPGRADED)
    upgraded = load_history_times(after, load_table_config(after))
    before = memory_table("v6_mor_archived")
    archived = load_history_times(before, load_table_config(before))
    assert upgraded == archived


def test_a_compaction_in_the_archive_stays_known() -> None:
    storage = memory_table("v6_mor_archived")
    instants = open_history(storage, load_table_config(storage)).instants()
    assert Action.COMPACTION in {i.planned_as for i in instants}


def test_a_table_without_history_has_none() -> None:
    for table in ("v9_cow_cleaned", "v6_cow_clean"):
        storage = memory_table(table)
        assert load_history_times(storage, load_table_config(storage)) == {}


def instant(time: str) -> HistoryInstant:
    return HistoryInstant(
        requested_time=time, completion_time=f"{time}5", action=Action.COMMIT, metadata=b"{}"
    )


def history(*versions: list[str], pointer: bytes | None) -> LsmHistory:
    storage = MemoryStorage()
    for number, times in enumerate(versions, 1):
        files = []
        for time in times:
            name = f"{time}_{time}_0.parquet"
            data = lsm_history.encode_instants([instant(time)])
            storage.put(f"h/{name}", data)
            files.append(ManifestFile(file_name=name, file_len=len(data)))
        manifest = lsm_history.encode_manifest(Manifest(files=tuple(files)))
        storage.put(f"h/{lsm_history.manifest_name(number)}", manifest)
    if pointer is not None:
        storage.put("h/_version_", pointer)
    return LsmHistory(storage, "h")


@pytest.mark.parametrize(
    ("pointer", "times"),
    [
        (b"1", {"10"}),
        (b"2", {"10", "20"}),
        (b"", {"10", "20"}),
        (None, {"10", "20"}),
    ],
)
def test_the_pointer_names_the_manifest_or_the_newest_counts(
    pointer: bytes | None, times: set[str]
) -> None:
    assert set(history(["10"], ["10", "20"], pointer=pointer).completion_times()) == times


@pytest.mark.parametrize("versions", [[["10"], ["10", "20"]], []])
def test_a_manifest_that_the_pointer_names_and_is_gone_is_missing(
    versions: list[list[str]],
) -> None:
    """Older manifests lack instants, whose files would count as uncommitted."""
    with pytest.raises(MissingFileError, match="manifest_7"):
        history(*versions, pointer=b"7").completion_times()


def test_a_manifest_that_came_after_the_listing_counts() -> None:
    made = history(["10"], ["10", "20"], pointer=b"2")
    inner = made._storage
    hidden = [inner.read("h/manifest_2")]
    inner.delete("h/manifest_2")

    def arrive(_number: int, name: str, path: str) -> None:
        if name == "read" and path == "h/_version_":
            inner.put("h/manifest_2", hidden[0])

    found = LsmHistory(FaultyStorage(inner, arrive), "h").completion_times()
    assert set(found) == {"10", "20"}


def test_a_history_file_that_is_gone_is_missing() -> None:
    storage = MemoryStorage(
        {"h/manifest_1": b'{"files": [{"fileName": "1_1_0.parquet", "fileLen": 3}]}'}
    )
    with pytest.raises(MissingFileError):
        dict(LsmHistory(storage, "h").completion_times())


@pytest.mark.parametrize("path", ["h/manifest_1", "h/1_1_0.parquet"])
def test_a_damaged_history_file_is_named(path: str) -> None:
    storage = MemoryStorage(
        {
            "h/manifest_1": b'{"files": [{"fileName": "1_1_0.parquet", "fileLen": 3}]}',
            "h/1_1_0.parquet": lsm_history.encode_instants([instant("1")]),
        }
    )
    storage.put(path, b"damaged")
    with pytest.raises(CorruptFileError) as raised:
        LsmHistory(storage, "h").instants()
    assert raised.value.path == path


def test_a_history_file_with_the_content_of_another_is_refused() -> None:
    """What it should hold would count as rolled back, and its rows would be gone."""
    storage = MemoryStorage(
        {
            "h/manifest_1": b'{"files": [{"fileName": "1_2_0.parquet", "fileLen": 3}]}',
            "h/1_2_0.parquet": lsm_history.encode_instants([instant("3"), instant("4")]),
        }
    )
    with pytest.raises(CorruptFileError, match="has the content of another file"):
        LsmHistory(storage, "h").completion_times().get("1")


def test_a_damaged_archive_file_is_named() -> None:
    storage = memory_table("v6_cow_archived")
    path = ".hoodie/archived/.commits_.archive.2_1-0-1"
    storage.put(path, b"damaged" * 9)
    with pytest.raises(CorruptFileError) as raised:
        dict(load_history_times(storage, load_table_config(storage)))
    assert raised.value.path == path
