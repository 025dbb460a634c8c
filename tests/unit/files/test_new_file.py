from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.files.written_table import PARTITION, WrittenTable
from tidelake.errors import InstantLostError, StorageError
from tidelake.files.new_file import NewFile
from tidelake.formats.marker_name import MarkerKind, heartbeat_path


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


def test_a_file_that_is_gone_from_a_live_write_is(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        deleted_while_written(WrittenTable(tmp_path), is_ended=False)
