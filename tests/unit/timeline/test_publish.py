from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import new_storage
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import Action, State, TableType
from tidelake.storage import MemoryStorage
from tidelake.testing import FaultyStorage
from tidelake.timeline import Publisher, load_table_config, load_timeline

T, C = "20260301101500123", "20260301101501000"


def publisher(table_version: int) -> tuple[MemoryStorage, Publisher]:
    storage = new_storage(table_version, TableType.COPY_ON_WRITE)
    return storage, Publisher(storage, load_table_config(storage))


@pytest.mark.parametrize(
    ("table_version", "names"),
    [
        (6, [f".hoodie/{T}.commit", f".hoodie/{T}.commit.requested", f".hoodie/{T}.inflight"]),
        (
            9,
            [
                f".hoodie/timeline/{T}.commit.requested",
                f".hoodie/timeline/{T}.inflight",
                f".hoodie/timeline/{T}_{C}.commit",
            ],
        ),
    ],
)
def test_files_have_the_names_of_the_tables_layout(table_version: int, names: list[str]) -> None:
    storage, timeline = publisher(table_version)
    assert timeline.request(T, Action.COMMIT)
    assert timeline.start(T, Action.COMMIT)
    storage.put_if_absent(timeline.completed_path(T, Action.COMMIT, C), b"")
    assert [p for p in storage.files_below(".hoodie") if T in p] == names


def test_a_time_is_taken_once() -> None:
    _, timeline = publisher(9)
    assert timeline.request(T, Action.COMMIT)
    assert not timeline.request(T, Action.COMMIT)
    assert timeline.is_pending(T, Action.COMMIT, State.REQUESTED)
    assert not timeline.is_pending(T, Action.COMMIT, State.INFLIGHT)


@pytest.mark.parametrize(("table_version", "start"), [(6, b"{"), (8, b"Obj\x01"), (9, b"Obj\x01")])
def test_metadata_is_encoded_as_the_version_has_it(table_version: int, start: bytes) -> None:
    _, timeline = publisher(table_version)
    assert timeline.encode(CommitMetadata()).startswith(start)
    assert b"partitionToReplaceFileIds" in timeline.encode(CommitMetadata(), is_replace=True)


def test_an_instant_goes_from_its_end_to_its_beginning() -> None:
    """A crash must leave it pending, so that somebody looks after it, and never completed."""
    storage, timeline = publisher(9)
    timeline.request(T, Action.COMMIT)
    timeline.start(T, Action.COMMIT)
    storage.put(timeline.completed_path(T, Action.COMMIT, C), b"")
    watched = FaultyStorage(storage)
    config = load_table_config(storage)
    Publisher(watched, config).remove(load_timeline(storage, config).file_names)
    assert [path.rpartition("/")[2] for _, path in watched.calls] == [
        f"{T}_{C}.commit",
        f"{T}.inflight",
        f"{T}.commit.requested",
    ]


def test_only_timeline_files_are_removed() -> None:
    storage, _ = publisher(9)
    with pytest.raises(ValueError, match="no timeline file"):
        Publisher(storage, load_table_config(storage)).remove(["../hoodie.properties"])
    assert storage.stat(".hoodie/hoodie.properties") is not None
