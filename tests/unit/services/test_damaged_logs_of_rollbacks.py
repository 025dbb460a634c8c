"""A rollback goes on where the block that an earlier one appended is damaged."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import busy
from tests.unit.txn.toy_table import environment
from tidelake.formats.file_name import UNKNOWN_WRITE_TOKEN
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import TableType
from tidelake.services.rollback import roll_back_all_failed


@pytest.mark.parametrize("left", [b"", b"#HUDI", b"nonsense", b"#HUDI#" + b"\0" * 40])
def test_a_block_that_takes_back_is_appended_behind_a_damaged_one(left: bytes) -> None:
    table = busy(6, TableType.MERGE_ON_READ, 1)
    rows = table.rows()
    txn = table.toy.begin()
    txn.start()
    stat = table.toy.task(txn, "a-0", "failed", table.toy.slices()["a-0"], "0-1-0")
    assert stat.path is not None
    stem = stat.path.rpartition(".log.")[0]
    damaged = f"{stem}.log.8_{UNKNOWN_WRITE_TOKEN}"
    table.storage.put(damaged, left)
    table.storage.delete(heartbeat_path(txn.instant_time))
    roll_back_all_failed(environment(table.storage))
    appended = [path for path in table.storage.files_below("") if ".log.9_" in path]
    assert [path.rpartition(".log.")[0] for path in appended] == [stem]
    table.storage.delete(damaged)
    assert table.rows() == rows
