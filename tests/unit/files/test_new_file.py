from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from tests.unit.files.written_table import GROUP, PARTITION, TOKEN, WrittenTable, row
from tidelake.errors import InstantLostError, StorageError
from tidelake.files.append_log import append_log
from tidelake.files.new_file import NewFile
from tidelake.files.write_base import create_base, merge_base
from tidelake.files.write_group import write_group
from tidelake.files.write_task import WriteKind
from tidelake.formats.log_block import encode_rollback
from tidelake.formats.marker_name import MarkerKind, heartbeat_path, marker_folder
from tidelake.storage import MemoryStorage

INSTANT = "20261115200009000"


class Recorded(MemoryStorage):
    """Remembers the order in which files came."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    @override
    def put(self, path: str, data: bytes) -> None:
        self.order.append(path)
        super().put(path, data)


def test_on_a_store_of_objects_a_file_appears_whole_and_after_its_marker(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True)
    storage = Recorded()
    storage.put(heartbeat_path(INSTANT), b"")
    spec = replace(table.spec, instant_time=INSTANT, marker_folder=marker_folder(INSTANT))
    created = table.target(WriteKind.CREATE)
    (base,) = create_base(storage, table.batches([row("a"), row("b")]), created, TOKEN, spec)
    assert base.path is not None
    later = replace(spec, instant_time="20261115200010000", marker_folder=".hoodie/.temp/later")
    storage.put(heartbeat_path("20261115200010000"), b"")
    merged = replace(created, kind=WriteKind.MERGE, base_path=base.path, base_instant=INSTANT)
    (new,) = merge_base(storage, table.batches([row("a", 2, "new")]), merged, TOKEN, later)
    appended = replace(merged, kind=WriteKind.APPEND)
    (log,) = append_log(storage, table.batches([row("b", 2, "new")]), appended, TOKEN, later)
    for stat in (base, new, log):
        assert stat.path is not None
        assert stat.file_size_in_bytes == len(storage.read(stat.path))
        marker = next(p for p in storage.order if f"{stat.path}.marker." in p)
        assert storage.order.index(marker) + 1 == storage.order.index(stat.path)


@pytest.mark.parametrize("kind", [WriteKind.CREATE, WriteKind.APPEND])
def test_a_folder_that_takes_no_file_is_named(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(tmp_path, mor=True)
    target = table.target(kind, partition_known=True)
    (tmp_path / PARTITION).write_bytes(b"a file where the folder should be")
    with pytest.raises(StorageError, match=PARTITION):
        write_group(table.batches([row("a")]), target, TOKEN, table.begin())


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Let the system refuse to write further into a file, as it does when a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", [WriteKind.CREATE, WriteKind.APPEND])
def test_a_full_disk_is_a_storage_error_and_the_marker_stays(
    tmp_path: Path, kind: WriteKind
) -> None:
    table = WrittenTable(tmp_path, mor=True)
    spec, target, rows = table.begin(), table.target(kind), table.batches([row("a")])
    name = f"{GROUP}_3-7-11_{spec.instant_time}.parquet"
    if kind is WriteKind.APPEND:
        name = f".{GROUP}_{spec.instant_time}.log.1_3-7-11"
    with files_of_at_most(300), pytest.raises(StorageError, match="File too large"):
        write_group(rows, target, TOKEN, spec)
    (marker,) = table.storage.files_below(spec.marker_folder)
    assert name in marker


def deleted_while_written(table: WrittenTable, *, is_ended: bool) -> None:
    spec = table.begin()
    made = NewFile(table.storage, spec, f"{PARTITION}/new.parquet", MarkerKind.CREATE)
    made.sink.write(b"rows")
    if is_ended:
        table.storage.delete(heartbeat_path(spec.instant_time))
    table.storage.delete(made.path)
    made.finish()


def test_a_file_that_a_rollback_deleted_is_no_fault_of_the_storage(tmp_path: Path) -> None:
    with pytest.raises(InstantLostError):
        deleted_while_written(WrittenTable(tmp_path), is_ended=True)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_log_that_a_rollback_has_kept_stays(tmp_path: Path, is_kept: bool) -> None:
    """Up to version 7 a log behind it takes its blocks back, and lists name them both."""
    table = WrittenTable(tmp_path, mor=True)
    spec = table.begin()
    made = NewFile(table.storage, spec, f"{PARTITION}/.{GROUP}_001.log.1_0-1-0", MarkerKind.APPEND)
    made.sink.write(b"rows")
    table.storage.delete(heartbeat_path(spec.instant_time))
    for version, target in ((2, INSTANT), (3, spec.instant_time if is_kept else INSTANT)):
        table.storage.put(
            f"{PARTITION}/.{GROUP}_001.log.{version}_1-0-1",
            encode_rollback(instant_time="20261115200011000", target_instant_time=target),
        )
    with pytest.raises(InstantLostError):
        made.finish()
    assert (table.storage.stat(made.path) is not None) is is_kept


def test_a_file_that_is_gone_from_a_live_write_is(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        deleted_while_written(WrittenTable(tmp_path), is_ended=False)
